"""The picture of docs/fmi.md: an exported ball, simulated by FMPy, beside the run of rtsim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fmpy
import numpy as np
from matplotlib import pyplot as plt

import rtsim as rt
from rtsim.fmi import export_fmu
from rtsim.fmi.object_code import this_system
from rtsim.models.ball import scenario

UNTIL_S, STEP_S = 2.3, 0.01
COLOURS = {"CoSimulation": "#1f5fa8", "ModelExchange": "#c62828"}
NAMES = {"CoSimulation": "Co-Simulation", "ModelExchange": "Model Exchange"}
SMALLEST = 1e-17
"""Position of the difference 0 on the logarithmic axis, m."""


def draw_fmi(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Height of the ball above, differences from the run of rtsim below."""
    run = rt.simulate(scenario(until=UNTIL_S))
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(8, 4.5), height_ratios=(2, 1), layout="constrained"
    )
    above.plot(run.time, run.ball.height, color="#8a94a6", linewidth=1, label="run of rtsim")
    with TemporaryDirectory() as folder:
        fmu = Path(folder) / "ball.fmu"
        export_fmu(scenario(until=UNTIL_S), fmu, plant="ball", systems=[this_system()])
        for (kind, colour), marker in zip(COLOURS.items(), ("o", "x"), strict=True):
            found = fmpy.simulate_fmu(
                str(fmu), fmi_type=kind, stop_time=UNTIL_S, step_size=STEP_S,
                output_interval=STEP_S, relative_tolerance=1e-12, output=["height"],
            )  # fmt: skip
            at = np.round(found["time"] * 1e9).astype(np.int64)
            last = np.append(at[1:] != at[:-1], True) & np.isin(at, run.time_ns)
            time, height = found["time"][last], found["height"][last]
            ours = run.ball.height[np.searchsorted(run.time_ns, at[last])]
            label = f"FMU in FMPy, {NAMES[kind]}"
            above.plot(time[::4], height[::4], marker, color=colour, ms=4, mfc="none", label=label)
            shown = np.maximum(np.abs(height - ours), SMALLEST)
            below.plot(time, shown, ".", color=colour, ms=3, clip_on=False)
    above.set_ylabel("height (m)")
    above.legend(frameon=False, fontsize="small")
    below.set_yscale("log")
    below.set_ylim(SMALLEST, 1e-8)
    below.set_yticks([SMALLEST, 1e-14, 1e-11, 1e-8], ["0", "1e-14", "1e-11", "1e-8"])
    below.set_yticks([], minor=True)
    below.set_ylabel("difference (m)")
    below.set_xlabel("time (s)")
    save(figure, path)
