"""The picture of docs/chains.md: messages along a chain, and the age of the data at its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from rtsim.record.ages import Ages, ages
from rtsim.scenario.loading import load_scenario
from rtsim.schedules import schedule_table
from rtsim.testing.determinism import trace_of

PAGE = Path(__file__).resolve().parents[1] / "docs/chains.md"
CHAIN = ("imu.gyro", "autopilot.elevator", "f16.elevator")
USED, UNUSED, WORST = "#1f5fa8", "#b0b0b0", "#c62828"
GYRO, PILOT, ELEVATOR = 2, 1, 0
"""Heights of the three rows."""


def example(folder: Path) -> Path:
    """Write the program ``pitch.py`` of the page to ``folder``, and return its path."""
    (program,) = re.findall(r"```python file=pitch\.py\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    path = folder / "pitch.py"
    path.write_text(program, encoding="utf-8")
    return path


def draw_chain(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Draw the messages around the worst age above the age of the data at the elevator."""
    with TemporaryDirectory() as folder:
        loop = load_scenario(str(example(Path(folder))), {"gyro": "0.01007"})
        (row,) = schedule_table(loop, simulated=False).chains
        run = trace_of(loop)
    found = ages(run, CHAIN)
    assert found.worst_age is not None
    assert row.bound.ns is not None
    bound = row.bound.ns / 1e6
    until = found.worst_age.until_ns / 1e6
    first, last = until - 75, until + 22
    figure, (rows, age) = plt.subplots(
        2, 1, figsize=(9, 4.6), layout="constrained", sharex=True,
        gridspec_kw={"height_ratios": (1.5, 2)},
    )  # fmt: skip
    _messages(rows, run, found, (first, last))
    times = np.stack((found.begins, found.ends), axis=1).ravel() / 1e6
    values = np.stack((found.youngest, found.oldest), axis=1).ravel() / 1e6
    age.plot(times, values, color=USED, linewidth=1)
    age.plot([until], [found.worst_age.ns / 1e6], "o", color=WORST)
    age.annotate(
        f"worst age: {found.worst_age.ns / 1e6:.1f} ms", (until, found.worst_age.ns / 1e6),
        xytext=(8, -4), textcoords="offset points", color=WORST,
    )  # fmt: skip
    age.axhline(bound, color="#555555", linestyle="--", linewidth=0.8)
    age.text(
        first + 1, bound + 0.7, f"bound for all runs: {bound:.1f} ms", color="#555555", fontsize=9
    )
    age.set_ylim(0, 45)
    age.set_xlim(first, last)
    age.set_ylabel("data age (ms)")
    age.set_xlabel("time (ms)")
    age.grid(color="#dddddd", linewidth=0.5)
    for axis in (rows, age):
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def _messages(axis: Any, run: Any, found: Ages, span: tuple[float, float]) -> None:
    """Draw samples and answers as points, and an arrow for each message from row to row."""
    assert found.worst_age is not None
    worst = {(link.stage, link.sequence) for link in found.worst_age.path}
    samples = set(found.samples.tolist())
    for stage, row in (("imu", GYRO), ("autopilot", PILOT)):
        track = run.track(f"messages/{stage}")
        columns = [track.integer(n).tolist() for n in ("sequence", "initiated", "arrival")]
        for number, begin, end in zip(*columns, strict=True):
            start, stop = begin / 1e6, end / 1e6
            if stop < span[0] or start > span[1]:
                continue
            used = stage == "autopilot" or begin in samples
            color = WORST if (stage, number) in worst else USED if used else UNUSED
            width = 2 if color == WORST else 1
            if stage == "autopilot":
                axis.plot([start, stop], [row, row], color=color, linewidth=5, alpha=0.8)
            axis.plot([start], [row], "o", color=color, markersize=4)
            axis.annotate(
                "", (stop, row - 1), (start if stage == "imu" else stop, row),
                arrowprops={"arrowstyle": "->", "color": color, "linewidth": width},
            )  # fmt: skip
    reads = {link.stage: link for link in found.worst_age.path}
    sent, read = reads["imu"].arrival / 1e6, reads["autopilot"].initiated / 1e6
    axis.plot([sent, read], [PILOT, PILOT], color=WORST, linewidth=1, linestyle=":")
    effect, until = reads["autopilot"].arrival / 1e6, found.worst_age.until_ns / 1e6
    axis.plot([effect, until], [ELEVATOR, ELEVATOR], color=WORST, linewidth=2)
    axis.set_yticks([ELEVATOR, PILOT, GYRO], ["elevator", "autopilot", "gyro"])
    axis.set_ylim(-0.4, 2.4)
    axis.grid(axis="x", color="#dddddd", linewidth=0.5)
