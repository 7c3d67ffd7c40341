"""The picture of docs/tasks.md: a scripted pilot's error, and the open loop beside the analytic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from rtsim.models.piloting import PilotModel, measure
from rtsim.models.piloting.tracking_measures import TrackedAxis, unwrapped
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

Save = Callable[[Any, Path], None]
PILOT = PilotModel(6.0, delay=0.15)
BLUE, RED, GREY = "#1f5fa8", "#c62828", "#777777"


def flown(latency: float, gain: float = PILOT.gain) -> TrackedAxis:
    """Return the measured axis of one run of the scenario ``tracking``."""
    values: dict[str, Any] = {"by": "script", "latency": latency, "gain": gain}
    axis: TrackedAxis = measure(simulate(load_scenario("tracking", values)).recording()).details[0]
    return axis


def draw_tasks(path: Path, save: Save) -> None:
    """Draw errors at 0 and 0.2 s, an oscillation beyond the limit, and the open loop."""
    figure, axes = plt.subplot_mosaic(
        [["error", "gain"], ["pio", "phase"]], figsize=(10, 5), layout="constrained"
    )
    omega = np.geomspace(0.25, 20.0, 300)
    for latency, colour in ((0.0, BLUE), (0.2, RED)):
        axis = flown(latency)
        shown = axis.time > 40.0
        axes["error"].plot(
            axis.time[shown], axis.error[shown], color=colour, linewidth=1.1,
            label=f"latency {latency:g} s: RMS {axis.rms_error:.4f} rad",
        )  # fmt: skip
        exact = PILOT.response(omega) * np.exp(-1j * omega * (latency + 0.005)) * 0.5 / (1j * omega)
        assert axis.found is not None
        w, loop = axis.found.frequencies, axis.found.open_loop
        for name, of in (("gain", lambda v: 20.0 * np.log10(np.abs(v))),
                         ("phase", lambda v: np.degrees(unwrapped(v)))):  # fmt: skip
            axes[name].semilogx(omega, of(exact), color=colour, linewidth=1.0)
            axes[name].semilogx(w, of(loop), "o", color=colour, markersize=4)
        crossing = axis.found.crossing()
        assert crossing is not None
        axes["phase"].annotate(
            f"{latency:g} s: phase margin {crossing.phase_margin:.0f} deg",
            (0.3, -300.0 if latency else -240.0), color=colour,
        )  # fmt: skip
    wild = flown(0.2, gain=8.0)
    early = wild.time < 30.0
    axes["error"].set_ylabel("error (rad)")
    axes["error"].legend(loc="upper left", fontsize=8)
    axes["pio"].plot(wild.time[early], wild.error[early], color=RED, linewidth=1.1)
    for mark in wild.marks:
        axes["pio"].axvspan(mark.first, min(mark.last, 30.0), color=RED, alpha=0.1, linewidth=0)
        axes["pio"].set_title(
            f"latency 0.2 s, gain 8/rad: oscillation of {mark.frequency:.1f} rad/s", fontsize=9
        )
    axes["pio"].set_ylabel("error (rad)")
    axes["gain"].axhline(0.0, color=GREY, linewidth=0.8)
    axes["gain"].set_ylabel("gain of the open loop (dB)")
    axes["phase"].axhline(-180.0, color=GREY, linewidth=0.8)
    axes["phase"].set_ylabel("phase (deg)")
    axes["phase"].set_ylim(-400, -70)
    axes["pio"].set_xlabel("time (s)")
    axes["phase"].set_xlabel("frequency (rad/s)")
    for one in axes.values():
        one.grid(color="#dddddd", linewidth=0.5)
        one.spines[["top", "right"]].set_visible(False)
    save(figure, path)
