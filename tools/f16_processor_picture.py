"""The picture of docs/f16-processor.md: growth of an oscillation over the processor's speed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from rtsim.linear import open_loop
from rtsim.models.f16.one_processor import UNO_HZ, scenario, uno_cycles
from rtsim.models.f16.processor_study import growth
from rtsim.testing.determinism import trace_of

SPEEDS = {
    "longest": np.linspace(0.1565, 0.1675, 12),
    "measured": np.linspace(0.147, 0.157, 11),
}
LABELS = {"longest": "longest execution times", "measured": "measured execution times"}
COLORS = {"longest": "#c62828", "measured": "#1f5fa8"}
SHOWN = {0.165: "decays", 0.1600: "grows"}
"""Speeds whose roll rate is shown, with the longest execution times."""


def predictions() -> dict[str, float]:
    """Return the predicted speed for the longest and for the mean execution times."""
    margin = open_loop(scenario(processor=False), "autopilot").delay_margin(slow=0.05)
    assert margin is not None
    sensors, autopilot = (uno_cycles()[task] for task in ("sensors", "autopilot"))
    return {
        "longest": (2 * max(sensors) + max(autopilot)) / UNO_HZ / margin.seconds,
        "measured": float(2 * np.mean(sensors) + np.mean(autopilot)) / UNO_HZ / margin.seconds,
    }


def draw_f16_processor(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Draw growth rates with the predicted speeds, and the roll rate at two speeds."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 3.6), layout="constrained", width_ratios=(3, 2)
    )
    expected = predictions()
    for times, speeds in SPEEDS.items():
        rates = [growth(trace_of(scenario(speed=float(s), times=times))) for s in speeds]
        color = COLORS[times]
        left.plot(speeds, rates, "o-", color=color, markersize=3, linewidth=1, label=LABELS[times])
        left.axvline(expected[times], color=color, linestyle="--", linewidth=1)
        left.text(
            expected[times] - 1e-4, -0.9, f"predicted\n{expected[times]:.4f}", color=color,
            fontsize=9, ha="right",
        )  # fmt: skip
    left.axhline(0, color="#888888", linewidth=0.8)
    left.set_ylim(-1.1, 0.75)
    left.set_xlabel("speed of the processor (1: Arduino Uno, 16 MHz)")
    left.set_ylabel("growth rate (1/s)")
    left.legend(frameon=False, loc="upper center", ncols=2, fontsize=9)
    for (speed, label), color in zip(SHOWN.items(), ("#2e7d32", "#c62828"), strict=True):
        run = trace_of(scenario(speed=speed, times="longest"))
        name = f"speed {speed:g}: {label}"
        right.plot(
            run.time, run["f16.roll_rate"], color=color, linewidth=0.7, label=name,
            zorder=3 if label == "decays" else 2,
        )  # fmt: skip
    right.set_xlabel("time (s)")
    right.set_ylabel("roll rate (rad/s)")
    right.legend(frameon=False, loc="upper left")
    for axis in (left, right):
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)
