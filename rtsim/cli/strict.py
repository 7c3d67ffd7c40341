"""``--strict``: which runs end with exit status 1, and a note if timing could not be judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from rtsim.runs.simulation import RunResult

_NO_TIMING = (
    "note: --strict checked no timing: at --pace max no step waits for a clock, so nothing can be "
    "late or overrun; give --pace 1.0 to check timing"
)


def went_wrong(outcome: RunResult) -> bool:
    """Return True if an answer was late, a request was missed, a frame overran or a fault idled."""
    faults = outcome.system.faults
    in_vain = faults is not None and not all(faults.counts.values())
    return bool(outcome.overruns or outcome.late or outcome.missed or in_vain)


def print_strict(outcomes: Iterable[RunResult]) -> None:
    """Print a note if a segment did not follow the wall clock."""
    if not all(outcome.certificate.paced for outcome in outcomes):
        click.echo(_NO_TIMING)


def strict_to_json(outcome: RunResult) -> dict[str, Any]:
    """Return the result of ``--strict`` for one segment as plain data."""
    return {"strict": {"timing_measured": outcome.certificate.paced}}
