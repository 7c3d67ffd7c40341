"""The picture of docs/processors.md: three servos on one processor, under two policies."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from rtsim.record.jobs import TaskHistory, processors_of
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of

PAGE = Path(__file__).resolve().parents[1] / "docs/processors.md"
POLICIES = {"rm": "rate monotonic priorities", "edf": "earliest deadline first"}
COLORS = {"fast": "#1f5fa8", "middle": "#2e7d32", "slow": "#c62828"}
SHOWN_MS = 60


def example(folder: Path) -> Path:
    """Write the program ``servos.py`` of the page to ``folder``, and return its path."""
    text = PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(r"```python file=servos\.py\n(.*?)```", text, re.S)
    path = folder / "servos.py"
    path.write_text(program, encoding="utf-8")
    return path


Bars = list[tuple[float, float]]
"""Start and length of intervals, ms."""


def bars(task: TaskHistory) -> tuple[Bars, Bars]:
    """Return start and length (ms) of the intervals in which a task runs, and in which it waits."""
    pieces = task.pieces.within(0, SHOWN_MS * 1_000_000)
    both = np.column_stack((pieces.begin, pieces.end - pieces.begin)) / 1e6
    runs, waits = both[pieces.state > 0], both[pieces.state < 0]
    return [(x, w) for x, w in runs.tolist()], [(x, w) for x, w in waits.tolist()]


def draw_servos(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Draw the angles of the motors above the schedule of the processor, for each policy."""
    with TemporaryDirectory() as folder:
        file = str(example(Path(folder)))
        runs_of = {policy: trace_of(load_scenario(file, {"policy": policy})) for policy in POLICIES}
    figure, axes = plt.subplots(
        2, 2, figsize=(9, 4.8), layout="constrained", sharex="row",
        gridspec_kw={"height_ratios": (3, 1.4)},
    )  # fmt: skip
    for column, (policy, title) in enumerate(POLICIES.items()):
        run = runs_of[policy]
        angles, schedule = axes[0, column], axes[1, column]
        (computer,) = processors_of(run)
        tasks = {task.name: task for task in computer.tasks}
        for row, (name, color) in enumerate(COLORS.items()):
            angle = np.clip(run[f"servo_{name}.angle"], -3, 3)  # the slow motor leaves the picture
            angles.plot(1e3 * run.time[::2], angle[::2], color=color, label=name)
            runs, waits = bars(tasks[name])
            schedule.broken_barh(waits, (row - 0.06, 0.12), color=color, alpha=0.35, linewidth=0)
            schedule.broken_barh(runs, (row - 0.35, 0.7), color=color, linewidth=0)
        angles.set_ylim(-1.6, 1.6)
        angles.set_title(title, fontsize=10)
        angles.set_xlabel("time (ms)")
        angles.grid(color="#dddddd", linewidth=0.5)
        schedule.set_yticks(range(len(COLORS)), list(COLORS))
        schedule.set_xlim(0, SHOWN_MS)
        schedule.set_xlabel("time (ms); thick: runs, thin: waits")
        schedule.invert_yaxis()
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("angle (rad)")
    axes[0, 1].legend(frameon=False, loc="upper right", ncols=3)
    figure.align_ylabels()
    save(figure, path)
