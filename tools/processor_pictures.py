"""The picture of docs/processors.md: three servos on one processor, under two policies."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

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


def bars(
    ns: Any, states: Any, end: int
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return start and length (ms) of the intervals in which a task runs, and in which it waits."""
    shown = ns < end
    edges, states = np.append(ns[shown], end), states[shown]
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for state, start, stop in zip(states, edges[:-1], edges[1:], strict=True):
        if state != 0 and stop > start:
            found[state > 0].append((start / 1e6, (stop - start) / 1e6))
    return found[True], found[False]


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
        track = run.track("values/computer")
        for row, (name, color) in enumerate(COLORS.items()):
            angle = np.clip(run[f"servo_{name}.angle"], -3, 3)  # the slow motor leaves the picture
            angles.plot(1e3 * run.time[::2], angle[::2], color=color, label=name)
            runs, waits = bars(track.ns, track.column(name), SHOWN_MS * 1_000_000)
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
