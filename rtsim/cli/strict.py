"""``--strict``: which runs end with exit status 1, and a note if timing could not be judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from rtsim.runs.result import RunResult

_NO_TIMING = (
    "note: --strict checked no timing: at --pace max no step waits for a clock, so nothing can be "
    "late or overrun; give --pace 1.0 to check timing"
)


def print_strict(results: Iterable[RunResult]) -> None:
    """Print a note if a segment did not follow the wall clock."""
    if not all(result.certificate.paced for result in results):
        click.echo(_NO_TIMING)


def strict_to_json(result: RunResult) -> dict[str, Any]:
    """Return the result of ``--strict`` for one segment as plain data."""
    return {"strict": {"timing_measured": result.certificate.paced}}
