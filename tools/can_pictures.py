"""The picture of docs/can.md: the longest latency of each frame of a CAN bus, for several loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from rtsim import Scenario, Signals
from rtsim.components.can_bus import CanBus, PeriodicFrame, worst_latencies
from rtsim.core.tag import NS_PER_S
from rtsim.testing.determinism import trace_of

LOADS = (0.3, 0.6, 0.8, 0.95)
PERIODS_MS = (5, 5, 10, 10, 10, 20, 20, 20, 50, 50, 100, 100)
LENGTHS = (8, 4, 8, 8, 2, 8, 8, 6, 8, 8, 8, 1)
BUS = CanBus(500_000, stuffing="worst")


def frames_with(load: float) -> list[PeriodicFrame]:
    """Return twelve frames whose periods are stretched so that the bus has this load."""
    plain = [
        PeriodicFrame(f"m{k:02}", BUS.frame(0x100 + k, length=n), ms * 1_000_000)
        for k, (ms, n) in enumerate(zip(PERIODS_MS, LENGTHS, strict=True))
    ]
    used = sum(one.load for one in plain)
    return [one._replace(period_ns=round(one.period_ns * used / load)) for one in plain]


def simulated(frames: Sequence[PeriodicFrame], m: int) -> float:
    """Return the longest latency (ms) of frame ``m`` in a run from its critical instant on."""
    lower = frames[m + 1 :]
    first = max(lower, key=lambda f: f.taken_ns).sender if lower else ""
    out = Scenario("frames", until=0.3)
    out.source("car", Signals("x [1]"))
    for one in frames:
        wait = 0 if not first or one.sender == first else 1
        out.sensor(
            one.sender, {"x": "car.x"}, period=f"{one.period_ns}/{NS_PER_S}",
            offset=f"{wait}/{NS_PER_S}", transport=one.frame,
        )  # fmt: skip
    track = trace_of(out).track(f"messages/{frames[m].sender}")
    return float((track.integer("arrival") - track.integer("completed")).max()) / 1e6


def draw_can(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Draw the longest latency over priority: simulation as points, analysis as lines."""
    figure, axis = plt.subplots(figsize=(8, 3.8), layout="constrained")
    ranks = list(range(1, len(PERIODS_MS) + 1))
    for load, color in zip(LOADS, ("#2e7d32", "#1f5fa8", "#b8860b", "#c62828"), strict=True):
        frames = frames_with(load)
        bounds = [(worst_latencies(frames)[one.sender] or 0) / 1e6 for one in frames]
        label = f"{100 * load:.0f} %"
        axis.plot(ranks, bounds, color=color, linewidth=1, label=f"{label}, analysis")
        found = [simulated(frames, m) for m in range(len(frames))]
        axis.plot(ranks, found, "o", color=color, markersize=4, label=f"{label}, simulation")
    axis.set_xlabel("priority (1: the smallest identifier)")
    axis.set_ylabel("longest latency (ms)")
    axis.set_xticks(ranks)
    axis.set_yscale("log")
    axis.set_yticks([0.3, 0.5, 1, 2, 5, 10], ["0.3", "0.5", "1", "2", "5", "10"])
    axis.minorticks_off()
    axis.grid(color="#dddddd", linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(title="load of the bus", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, path)
