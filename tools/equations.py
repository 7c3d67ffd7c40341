"""The pictures of docs/equations.md: a diode bridge, and the drift of a pendulum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from rtsim import Model, Scenario, simulate
from rtsim.record.reading import TrackData
from rtsim.record.recorders import MemoryRecorder
from tools.bench.constraint_problems import BRIDGE, PENDULUM


def _track(model: Model, step: str, solver: str, until: float) -> TrackData:
    scenario, recorder = Scenario(model.name, until=until), MemoryRecorder()
    scenario.plant("plant", model, step=step, solver=solver)
    simulate(scenario, recorder=recorder)
    return recorder.recording().tracks["plant"]


def draw_bridge(path: Path) -> None:
    """The source, the load, and the algebraic voltages at both ends of the source."""
    track = _track(BRIDGE, "0.0001", "dp54", 0.06)
    time = 1e3 * track.ns / 1e9
    figure, (above, below) = plt.subplots(2, 1, figsize=(7.5, 4.4), sharex=True)
    left, right = track.column("left"), track.column("right")
    above.plot(time, left - right, label="across the source's terminals")
    above.plot(time, track.column("load"), label="across the load (state)")
    below.plot(time, left, label="left terminal (algebraic)")
    below.plot(time, right, label="right terminal (algebraic)")
    for axes in (above, below):
        axes.set_ylabel("voltage [V]")
        axes.legend(loc="lower right", fontsize=8)
        axes.grid(alpha=0.3)
    below.set_xlabel("time [ms]")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def draw_drift(path: Path) -> None:
    """The error of the pendulum's length over time, for several steps of rk4 and for dp54."""
    figure, axes = plt.subplots(figsize=(7.5, 3.4))
    for solver, step in (("rk4", "0.02"), ("rk4", "0.01"), ("rk4", "0.005"), ("dp54", "0.01")):
        track = _track(PENDULUM, step, solver, 10.0)
        off = np.abs(np.hypot(track.column("px"), track.column("py")) - 1.0)
        axes.semilogy(track.ns / 1e9, np.maximum(off, 1e-13), label=f"{solver}, step {step} s")
    axes.set_xlabel("time [s]")
    axes.set_ylabel("error of the length [m]")
    axes.set_ylim(1e-12, 1e-1)
    axes.legend(ncols=2, fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
