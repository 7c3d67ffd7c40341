"""Pictures of docs/linear.md: Bode and Nichols plots, and the delay margin beside simulations."""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from rtsim.linear import margins, open_loop
from rtsim.linear.pages import bode_data
from rtsim.models.unstable import scenario as unstable

Save = Callable[[Any, Path], None]
ROOT = Path(__file__).resolve().parents[1]


def draw_bode_nichols(path: Path, save: Save) -> None:
    """The loop of ``unstable``: gain and phase over frequency, and gain over phase."""
    loop = open_loop(unstable(), "controller.force")
    found, delay = margins(loop.system, feedback=1.0), loop.delay_margin()
    assert delay is not None
    omega, gain, phase = bode_data(loop.system)
    figure, axes = plt.subplot_mosaic(
        [["gain", "nichols"], ["phase", "nichols"]], figsize=(10, 4.4), layout="constrained"
    )
    shown = omega > 0.05
    for name, values, level in (("gain", gain, 0.0), ("phase", phase, -180.0)):
        axes[name].semilogx(omega[shown], values[shown], color="#1f5fa8", linewidth=1.4)
        axes[name].axhline(level, color="#777777", linewidth=0.8)
        axes[name].axvline(found.crossover, color="#c62828", linewidth=0.8, linestyle="--")
    axes["gain"].set_ylabel("gain (dB)")
    axes["phase"].set_ylabel("phase (deg)")
    axes["phase"].set_xlabel("frequency (rad/s)")
    axes["phase"].annotate(
        f"phase margin {found.phase_deg:.1f} deg,\ndelay margin {1e3 * delay.seconds:.1f} ms",
        (found.crossover, -180.0 + found.phase_deg),
        xytext=(10, -80), textcoords="offset points", color="#c62828",
        arrowprops={"arrowstyle": "-", "color": "#c62828", "linewidth": 0.6},
    )  # fmt: skip
    nichols = axes["nichols"]
    nichols.plot(phase[shown], gain[shown], color="#1f5fa8", linewidth=1.4)
    nichols.plot(-180.0, 0.0, "x", color="#c62828")
    nichols.annotate("critical point", (-180.0, 0.0), xytext=(6, -10),
                     textcoords="offset points", color="#c62828")  # fmt: skip
    for factor, offset in ((found.gain_low, 9), (found.gain_high, -10)):
        level = -20.0 * np.log10(factor)
        nichols.annotate(
            f"gain × {factor:.2f}", (-180.0, level), xytext=(6, offset), textcoords="offset points",
            va="center", color="#777777",
        )  # fmt: skip
        nichols.plot(-180.0, level, "o", color="#777777", markersize=4)
    nichols.set_xlabel("phase (deg)")
    nichols.set_ylabel("gain (dB)")
    nichols.set_ylim(-25, 25)
    for axis in axes.values():
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def draw_delay_margin(path: Path, save: Save) -> None:
    """Growth rate over latency, from eigenvalues and from runs, by the code of docs/linear.md."""
    text = (ROOT / "docs/linear.md").read_text(encoding="utf-8")
    found = re.search(r"^```python file=delay_margin.py\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "delay_margin.py").write_text(found[1], encoding="utf-8")
        sys.path.insert(0, name)
        page: Any = importlib.import_module("delay_margin")
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    for axis, title, (make, link, signal, begin, slow) in (
        (axes[0], "unstable", (page.unstable_loop, "controller", "plant.x", 30.0, 0.0)),
        (axes[1], "F-16, stability augmentation",
         (page.augmented_f16, "autopilot", "f16.roll_rate", 4.0, 0.05)),
    ):  # fmt: skip
        loop = open_loop(make(0), link)
        margin = loop.delay_margin(slow=slow)
        assert margin is not None
        shares = np.linspace(0.97, 1.03, 41)
        rates = [loop.growth(float(s * margin.seconds), slow) for s in shares]
        axis.plot(1e3 * shares * margin.seconds, rates, color="#1f5fa8", linewidth=1.4,
                  label="eigenvalues")  # fmt: skip
        simulated = [
            (s * margin.seconds, page.growth(make(round(s * margin.seconds, 9)), signal,
                                             margin.frequency, begin))
            for s in (0.975, 0.985, 0.995, 1.005, 1.015, 1.025)
        ]  # fmt: skip
        axis.plot(*np.array(simulated).T * [[1e3], [1.0]], "o", color="#c62828", markersize=4,
                  label="runs")  # fmt: skip
        axis.axvline(1e3 * margin.seconds, color="#777777", linewidth=0.8, linestyle="--")
        axis.axhline(0.0, color="#777777", linewidth=0.8)
        axis.set_title(f"{title}: delay margin {1e3 * margin.seconds:.5g} ms")
        axis.set_xlabel("latency (ms)")
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("growth rate (1/s)")
    axes[0].legend(frameon=False)
    save(figure, path)
