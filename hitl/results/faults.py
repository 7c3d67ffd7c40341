"""What was to go wrong on purpose while the uppermost translation flew: how often each acted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hitl.comparison.verdict import BackToBack
from rtsim.record import fault_marks
from rtsim.record.fault_marks import Acted


def faults_of(pairs: Sequence[BackToBack]) -> list[Acted]:
    """Of the uppermost; empty without faults."""
    return list(pairs[-1].faults)


def all_acted(pairs: Sequence[BackToBack]) -> bool:
    """What ``--strict`` asks for."""
    return all(fault.activations for fault in faults_of(pairs))


def faults_to_json(pairs: Sequence[BackToBack]) -> dict[str, Any]:
    """As in the summary of a run; nothing where there are no faults."""
    told = {
        fault.name: {
            "kind": fault.kind,
            "where": fault.where,
            "activations": fault.activations,
            "idle": fault.idle or None,
        }
        for fault in faults_of(pairs)
    }
    return {"faults": told} if told else {}


def notes(pairs: Sequence[BackToBack]) -> list[str]:
    """A line each for those that could do nothing, and for those that never came to it."""
    faults = faults_of(pairs)
    idle = {fault.name: fault.idle for fault in faults if fault.idle}
    return fault_marks.notes(idle, [f.name for f in faults if not f.activations])
