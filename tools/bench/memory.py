"""(e) Memory of a 10-minute run: resident size of the loop's process and of the writer's.

In a fresh process, because one that has run other things has free memory that hides growth.  Flat
means that neither grows by more than a few MB after its first fifth.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from rtsim.models.f16.scenario import scenario
from rtsim.record.file import FileRecorder
from rtsim.runs.simulation import Progress, simulate
from tools.bench.results import Result, Row

BOUND_MB = 4.0
SAMPLES = 100
"""At most; the compiled engine reports the progress each time a buffer of rows is full."""
_MB = 1 << 20


def resident_mb(pid: int | str = "self") -> float:
    """Resident set of a process, MB (2**20)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MB


def fly(seconds: float) -> list[list[float]]:
    """F-16 case 13.1 for ``seconds``; rows of time (s), loop and writer (MB)."""
    rows: list[list[float]] = []
    every = round(seconds * 1e9 / SAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        file = FileRecorder(Path(folder, "memory.mcap"))
        writer = file._process.pid

        def observe(progress: Progress) -> None:
            if progress.ns >= every * len(rows):
                rows.append([progress.ns / 1e9, resident_mb(), resident_mb(writer)])

        simulate(scenario("13.1", until=seconds), recorder=file, observe=observe)
    return rows


def growth(samples: list[float]) -> tuple[float, float]:
    """Size at a fifth of the run, and the greatest one after it."""
    rest = np.array(samples[len(samples) // 5 :])
    return float(rest[0]), float(rest.max())


def run(quick: bool = False, seconds: float | None = None) -> Result:
    """Measure in a process of its own."""
    length = seconds if seconds is not None else (60.0 if quick else 600.0)
    title = f"resident memory over {length:g} simulated s, F-16 case 13.1, recording"
    if not Path("/proc/self/statm").exists():
        return Result("memory", title, skipped="this system has no /proc to read it from")
    command = [sys.executable, "-m", "tools.bench.memory", repr(length)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=_root())
    columns = list(zip(*json.loads(done.stdout), strict=True))
    rows = []
    for what, samples in (("the loop", columns[1]), ("the writer", columns[2])):
        fifth, most = growth(list(samples))
        figures = {
            "first [MB]": samples[0], "at 20 % [MB]": fifth, "most after [MB]": most,
            "last [MB]": samples[-1], "growth [MB]": most - fifth,
        }  # fmt: skip
        rows.append(Row(what, figures, f"growth <= {BOUND_MB:g} MB", most - fifth <= BOUND_MB))
    return Result("memory", title, tuple(rows))


def _root() -> Path:
    return Path(__file__).resolve().parents[2]


if __name__ == "__main__":
    print(json.dumps(fly(float(sys.argv[1]))))
