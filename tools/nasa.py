"""Hold a recording of the f16 scenario against NASA's published trajectory.

    python -m tools.nasa RECORDING [--csv FILE] [--json]

Exit status 1 where a quantity is out of tolerance, 2 where the recording is too short to say.
``--csv`` takes one of NASA's own files.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Vector
from rtsim.models.f16.published import LEAST_S, case_of, compare_with_nasa
from rtsim.record.events import RunEnding
from rtsim.record.reading import Recording

_COLUMNS = (
    "time",
    "altitudeMsl_ft",
    "eulerAngle_deg_Yaw",
    "eulerAngle_deg_Pitch",
    "eulerAngle_deg_Roll",
    "trueAirspeed_nmi_h",
)


_TABLE = (
    Column("quantity"),
    Column("largest difference", number=True),
    Column("allowed", number=True),
    Column("at", number=True),
    Column("verdict"),
)


def read_csv(path: Path) -> Vector:
    """(n, 6) from a published time history."""
    with path.open(newline="", encoding="utf-8") as lines:
        return np.array([[float(row[c]) for c in _COLUMNS] for row in csv.DictReader(lines)])


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--csv", "path", type=click.Path(path_type=Path, exists=True))
@json_option
@reports_errors
def main(recording: Path, path: Path | None, as_json: bool) -> None:
    """Largest difference of each quantity from NASA's sim_05, and whether it is allowed."""
    flown = Recording.open(recording)
    held = compare_with_nasa(flown, None if path is None else read_csv(path))
    outcome = Outcome.of_all(h.outcome for h in held)
    one = held[0]
    if as_json:
        quantities = [asdict(h) | {"ok": h.ok, "outcome": h.outcome.name.lower()} for h in held]
        told = {"ok": outcome is Outcome.PASSED, "outcome": outcome.name.lower()}
        ending = RunEnding.of(flown).to_json()
        show_json({**told, "quantities": quantities, "ended": ending})
        sys.exit(outcome.value)
    rows = [
        (
            h.quantity,
            f"{h.worst:.4g} {h.unit}",
            f"{h.allowed:g} {h.unit}",
            f"{h.at_s:g} s",
            "ok" if h.within else "OUT",
        )
        for h in held
    ]
    print_table(console(), f"F-16 case {case_of(flown)} against NASA's sim_05", _TABLE, rows)
    console().print(f"compared at {one.times} times, 0 to {one.until_s:g} s of {one.of_s:g} s")
    console().print(f"{recording} {RunEnding.of(flown)}", soft_wrap=True, markup=False)
    if outcome is Outcome.UNDECIDED:
        needed = min(LEAST_S, one.of_s)
        console().print(
            f"could not be decided: the first {one.until_s:g} s do not show how the model flies; "
            f"fly {needed:g} s or more",
            soft_wrap=True,
        )
    sys.exit(outcome.value)


if __name__ == "__main__":
    main()
