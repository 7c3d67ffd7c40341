"""The picture of docs/fit.md: measured and fitted speed of a motor, and the residuals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

import rtsim as rt
from rtsim.studies import fit
from rtsim.studies.measurements import Measurements


class Motor(rt.Plant):
    """The motor of docs/fit.md."""

    speed = rt.state("rad/s")
    voltage = rt.input("V")
    gain = rt.parameter("rad/(s.V)", 5)
    lag = rt.parameter("s", 0.3, low=0.001)

    def derivative(self, d: Any) -> None:
        d.speed = (self.gain * self.voltage - self.speed) / self.lag


def draw_fit(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Speed above, residuals with two standard deviations of the noise below."""
    rig = rt.Scenario("rig", until=2)
    rig.source("drive", rt.Signals("voltage [V]"))
    rig.plant("motor", Motor(), step=0.01, inputs={"voltage": "drive.voltage"})
    rig.drive("drive.voltage", [(0, 1.0), (500_000_000, -2.0), (1_200_000_000, 3.0)])
    true = rig.copy()
    true.set("motor.gain", 4.2)
    true.set("motor.lag", 0.4)
    run = rt.simulate(true)
    noise = np.random.default_rng(1).normal(0, 0.3, run.time.size)
    data = Measurements("rig", run.time, {"motor.speed": run["motor.speed"] + noise})
    found = fit(rig, data, ["motor.gain", "motor.lag"])
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(8, 4), height_ratios=(2, 1), layout="constrained"
    )
    name, sigma = "motor.speed", found.noise["motor.speed"]
    above.plot(found.time, found.measured[name], ".", color="#8a94a6", ms=3, label="measured")
    above.plot(found.time, found.fitted[name], color="#1f5fa8", label="fitted")
    text = "\n".join(f"{p.name} = {p.value:.3g} ({p.low:.3g} to {p.high:.3g})"
                     for p in found.parameters)  # fmt: skip
    above.text(0.3, 0.8, text, transform=above.transAxes, fontsize="small")
    above.set_ylabel("speed (rad/s)")
    above.legend(frameon=False, fontsize="small")
    below.plot(found.time, found.residuals(name), ".", color="#8a94a6", ms=3)
    for level in (-2 * sigma, 2 * sigma):
        below.axhline(level, color="#c62828", linewidth=1, linestyle=":")
    below.set_ylabel("residual (rad/s)")
    below.set_xlabel("time (s)")
    save(figure, path)
