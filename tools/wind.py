"""The picture of docs/wind.md: spectra of the turbulence, and a flight through it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from rtsim import Scenario
from rtsim.models.f16.scenario import scenario as f16
from rtsim.models.units import FT
from rtsim.models.wind import dryden, scales
from rtsim.testing.determinism import trace_of

Array = NDArray[np.float64]
SPEED, ALTITUDE, PERIOD = 170.0, 10_000 * FT, 0.02
COLOURS = {"turbulence_x": "#1f5fa8", "turbulence_z": "#c62828"}
LEVELS = ((1e-3, "moderate", "#c62828"), (0.0, "none", "#1f5fa8"))


def spectrum(name: str, omega: Array) -> Array:
    """MIL-F-8785C, one-sided over rad/s, m2/s."""
    length, _, deviation, _ = scales(ALTITUDE, 0.0, 1e-3)
    o = omega * length / SPEED
    if name == "turbulence_x":
        return deviation**2 * 2 * length / (math.pi * SPEED) / (1 + o**2)
    return deviation**2 * length / (math.pi * SPEED) * (1 + 3 * o**2) / (1 + o**2) ** 2


def measured(values: Array) -> tuple[Array, Array]:
    """The periodogram, averaged over bands of an eighth of an octave."""
    n = values.size
    power = np.abs(np.fft.rfft(values)) ** 2 * PERIOD / (math.pi * n)
    omega = 2 * math.pi * np.fft.rfftfreq(n, PERIOD)
    k = np.arange(10, n // 2)
    band = np.floor(8 * np.log2(k / k[0])).astype(int)
    count = np.maximum(np.bincount(band), 1)
    mean = [np.bincount(band, weights=v[k]) / count for v in (omega, power)]
    kept = np.bincount(band) > 0
    return mean[0][kept], mean[1][kept]


def draw_spectra(axis: Any) -> None:
    out = Scenario("air", until=3000)
    out.plant("air", dryden(PERIOD), step=PERIOD, inputs={"airspeed": SPEED, "altitude": ALTITUDE})
    run = trace_of(out, seed=1)
    for (name, colour), axes in zip(COLOURS.items(), ("longitudinal", "vertical"), strict=True):
        rows = run.track("air")
        omega, power = measured(rows.column(name)[rows.integer("side") == 1])
        axis.loglog(omega, power, ".", color=colour, markersize=3, label=f"{axes}, a run")
        axis.loglog(omega, spectrum(name, omega), color=colour, linewidth=1, label="MIL-F-8785C")
    axis.set_xlabel("frequency (rad/s)")
    axis.set_ylabel("power density (m²/s)")
    axis.legend(frameon=False, fontsize="small")


def draw_wind(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Spectra left; angle of attack and altitude of case 13.1 right."""
    figure = plt.figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.2))
    spectra = left.subplots()
    draw_spectra(spectra)
    alpha, altitude = right.subplots(2, 1, sharex=True)
    for level, label, colour in LEVELS:
        run = trace_of(f16("13.1", until=40, turbulence=level), seed=1)
        seconds = run.time[::4]
        alpha.plot(seconds, run["f16.alpha_deg"][::4], color=colour, linewidth=0.7, label=label)
        altitude.plot(seconds, run["f16.altitude_ft"][::4], color=colour, linewidth=1)
    alpha.set_ylabel("angle of attack (deg)")
    altitude.set_ylabel("altitude (ft)")
    altitude.set_xlabel("time (s)")
    alpha.legend(title="turbulence", frameon=False, fontsize="small", ncols=2)
    for axis in (spectra, alpha, altitude):
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)
