"""The injected faults of the last comparison, and how often each acted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hitl.comparison.verdict import BackToBack
from rtsim.record import events
from rtsim.record.events import Acted


def faults_of(pairs: Sequence[BackToBack]) -> list[Acted]:
    """Return the faults of the last comparison; empty if it had none."""
    return list(pairs[-1].faults)


def faults_to_json(pairs: Sequence[BackToBack]) -> dict[str, Any]:
    """Return the faults as plain data, as in the summary of a run; empty if there were none."""
    faults = {
        fault.name: {
            "kind": fault.kind,
            "where": fault.where,
            "activations": fault.activations,
            "idle": fault.idle or None,
        }
        for fault in faults_of(pairs)
    }
    return {"faults": faults} if faults else {}


def notes(pairs: Sequence[BackToBack]) -> list[str]:
    """Return one note on the faults that could not act, and one on the faults that never acted."""
    faults = faults_of(pairs)
    idle = {fault.name: fault.idle for fault in faults if fault.idle}
    return events.notes(idle, [f.name for f in faults if not f.activations])
