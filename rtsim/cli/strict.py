"""``--strict``: what makes the exit status 1, and what it could not judge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from rtsim.runs.simulation import RunResult

_NO_TIMING = (
    "note: --strict judged no timing: at --pace max nothing waits for a clock, so that nothing can "
    "be late or overrun; give --pace 1.0 to measure it"
)


def went_wrong(outcome: RunResult) -> bool:
    """Something was late, was missed or overran, or a fault never acted."""
    faults = outcome.system.faults
    in_vain = faults is not None and not all(faults.counts.values())
    return bool(outcome.overruns or outcome.late or outcome.missed or in_vain)


def print_strict(outcomes: Iterable[RunResult]) -> None:
    """Said where no clock of the wall was followed."""
    if not all(outcome.certificate.paced for outcome in outcomes):
        click.echo(_NO_TIMING)


def strict_to_json(outcome: RunResult) -> dict[str, Any]:
    """As plain data, of each leg."""
    return {"strict": {"timing_measured": outcome.certificate.paced}}
