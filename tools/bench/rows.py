"""Recording 100,000 rows a second of 100 columns, beside the same loop without a recording.

A hundred plants of 100 columns at 1 kHz, in real time, each loop in a process of its own.  The
recording is complete if no row was dropped; it is beside the loop if the loop wakes as punctually
as without it, and if the memory of both processes is flat (``memory.py``).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Model
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import NullRecorder
from rtsim.runs.simulation import Pace, Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.policy import CatchUp
from tools.bench.memory import BOUND_MB, growth, resident_mb
from tools.bench.results import Result, Row

PLANTS, COLUMNS, RATE = 100, 100, 1000
RATIO, WITHIN_NS = 1.1, 3_000.0
"""The p99 of the lateness with a recording: times that without, or so much more."""
_ROW_BYTES = 1060
"""Of a row in the file, at most: tag and value of each column, and the head of a message."""
_SAMPLES = 50


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """A slow growth, so that no column repeats its bits."""
    dx[0] = 1e-3 * x[0]


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Columns with all their bits."""
    for i in range(y.size):
        y[i] = x[0] * (1.0 + 0.37 * i)


WIDE = Model(
    "wide",
    Signals("x = 1"),
    derivative,
    outputs=Signals(*(f"y{i}" for i in range(COLUMNS - 1))),
    output=output,
    parameters=Signals(),
)


def scenario(plants: int = PLANTS) -> Scenario:
    """``plants`` plants, each a row of 100 columns at 1 kHz."""
    out = Scenario("rows")
    for i in range(plants):
        out.plant(f"plant{i}", WIDE, step=f"1/{RATE}", solver="euler")
    return out


def fly(seconds: float, recording: bool, folder: str) -> dict[str, Any]:
    """One loop; plain data."""
    samples: list[list[float]] = []
    with ExitStack() as stack:
        file = None
        if recording:
            place = stack.enter_context(tempfile.TemporaryDirectory(dir=folder or None))
            file = FileRecorder(Path(place, "rows.mcap"))

        def observe(progress: Progress) -> None:
            if progress.ns * _SAMPLES >= seconds * 1e9 * len(samples):
                writer = 0.0 if file is None else resident_mb(file.beside[0])
                samples.append([resident_mb(), writer])

        outcome = simulate(
            scenario(), pace=Pace(1.0, CatchUp(10**9)), until=seconds, engine="compiled",
            recorder=file or NullRecorder(), observe=observe,
        )  # fmt: skip
    found = outcome.certificate
    return {
        "engine": found.engine,
        "median": found.lateness.median,
        "p99": found.lateness.p99,
        "overruns": sum(found.overruns.values()),
        "memory": samples,
        "rows": 0 if file is None else file.handed.rows,
        "dropped": 0 if file is None else file.handed.dropped_rows,
        "aside": 0 if file is None else file.handed.most_aside_bytes,
    }


def _measure(seconds: float, recording: bool, folder: Path) -> dict[str, Any]:
    """One loop in a process of its own."""
    root = Path(__file__).resolve().parents[2]
    asked = json.dumps([seconds, recording, str(folder)])
    command = [sys.executable, "-m", "tools.bench.rows", asked]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=root)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(quick: bool = False, seconds: float | None = None) -> Result:
    """Measure: without a recording, with it, and without it again."""
    length = seconds or (10.0 if quick else 600.0)
    title = f"{PLANTS * RATE:,} rows a second of {COLUMNS} columns, {length:g} s in real time"
    if not Path("/proc/self/statm").exists():
        return Result("rows", title, skipped="this system has no /proc to read memory from")
    folder = Path(tempfile.gettempdir())
    wanted, free = PLANTS * RATE * length * _ROW_BYTES, shutil.disk_usage(folder).free
    if wanted > 0.9 * free:
        return Result("rows", title, skipped=(
            f"the recording needs {wanted / 1e9:.0f} GB in {folder}, where {free / 1e9:.0f} GB "
            "are free; set TMPDIR to a folder on a larger disk"
        ))  # fmt: skip
    brief = min(length, 60.0)
    before = _measure(brief, False, folder)
    recorded = _measure(length, True, folder)
    after = _measure(brief, False, folder)
    return Result("rows", title, rows(before, recorded, after), (recorded["engine"],))


def rows(
    before: dict[str, Any], recorded: dict[str, Any], after: dict[str, Any]
) -> tuple[Row, ...]:
    """The verdicts on a recorded loop between two without a recording."""
    silent = float(np.mean([before["p99"], after["p99"]]))
    most = max(RATIO * silent, silent + WITHIN_NS)
    figures = {f"{k} [ns]": recorded[k] for k in ("median", "p99")}
    alone = {f"{k} [ns]": float(np.mean([before[k], after[k]])) for k in ("median", "p99")}
    aside = recorded["aside"] / 2**20
    found = [
        Row("lateness without a recording", alone),
        Row(
            "lateness with the recording", figures,
            f"p99 <= {RATIO:g} x, or {WITHIN_NS / 1e3:g} us more", recorded["p99"] <= most,
        ),
        Row(
            f"rows dropped of {recorded['rows'] + recorded['dropped']:,}",
            {"rows": float(recorded["dropped"]), "most waiting [MB]": aside},
            "0", recorded["dropped"] == 0,
        ),
    ]  # fmt: skip
    for what, samples in zip(
        ("the loop", "the writer"), zip(*recorded["memory"], strict=True), strict=True
    ):
        fifth, greatest = growth(list(samples))
        grown = greatest - fifth
        figures = {"at 20 % [MB]": fifth, "growth [MB]": grown}
        found.append(Row(what, figures, f"growth <= {BOUND_MB:g} MB", grown <= BOUND_MB))
    return tuple(found)


if __name__ == "__main__":
    print(json.dumps(fly(*json.loads(sys.argv[1]))))
