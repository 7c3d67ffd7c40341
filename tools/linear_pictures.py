"""Pictures of docs/linear.md and docs/autopilots.md: margins, and the cost of timing."""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from hitl.programs.flights import scenario as betaflight
from rtsim import Uniform, simulate
from rtsim.linear import margins, open_loop, timed_loop
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


@contextmanager
def _page(name: str, module: str) -> Iterator[Any]:
    """Yield the module that the page docs/NAME.md has in a file of this name."""
    text = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    found = re.search(rf"^```python file={module}.py\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{module}.py").write_text(found[1], encoding="utf-8")
        sys.path.insert(0, folder)
        yield importlib.import_module(module)


def draw_delay_margin(path: Path, save: Save) -> None:
    """Growth rate over latency, from eigenvalues and from runs, by the code of docs/linear.md."""
    with _page("linear", "delay_margin") as page:
        make_unstable, make_f16, growth = page.unstable_loop, page.augmented_f16, page.growth
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    for axis, title, (make, link, signal, begin, slow) in (
        (axes[0], "unstable", (make_unstable, "controller", "plant.x", 30.0, 0.0)),
        (axes[1], "F-16, stability augmentation",
         (make_f16, "autopilot", "f16.roll_rate", 4.0, 0.05)),
    ):  # fmt: skip
        loop = open_loop(make(0), link)
        margin = loop.delay_margin(slow=slow)
        assert margin is not None
        shares = np.linspace(0.97, 1.03, 41)
        rates = [loop.growth(float(s * margin.seconds), slow) for s in shares]
        axis.plot(1e3 * shares * margin.seconds, rates, color="#1f5fa8", linewidth=1.4,
                  label="eigenvalues")  # fmt: skip
        simulated = [
            (s * margin.seconds, growth(make(round(s * margin.seconds, 9)), signal,
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


_COSTS = {"servo.angle": 1.0, "pd.voltage": 1.0}
_PERIODS_MS = {2: "#1f5fa8", 4: "#2e7d32", 6: "#b8860b", 8: "#6a3d9a", 10: "#c62828"}
_MOST = 300.0


def draw_timing_cost(path: Path, save: Save) -> None:
    """Cost over constant latency and over jitter, for several periods, by docs/linear.md."""
    with _page("linear", "servo") as page:
        loops = {ms: timed_loop(page.scenario(period=ms * 1e-3), _COSTS) for ms in _PERIODS_MS}
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.8), layout="constrained", sharex=True, sharey=True
    )
    for ms, loop in loops.items():
        color = _PERIODS_MS[ms]
        latencies = np.linspace(0.0, ms, 41)
        constant = np.array([loop.timing_cost(latency=s * 1e-3).cost for s in latencies])
        left.plot(latencies, constant, color=color, linewidth=1.4, label=f"{ms} ms")
        if ms < 6:
            continue
        right.plot(latencies, constant, color=color, linewidth=0.8, linestyle="--")
        jitter = [loop.timing_cost(latency=Uniform(0.0, s * 1e-3)).cost for s in latencies]
        right.plot(latencies, jitter, color=color, linewidth=1.4, label=f"{ms} ms")
        margin = loop.jitter_margin().seconds * 1e3
        if margin < ms:
            at = margin, float(np.interp(margin, latencies, jitter))
            right.plot(*at, "o", color=color)
            right.annotate(f"jitter margin {margin:.1f} ms", at, xytext=(6, -13),
                           textcoords="offset points", color=color)  # fmt: skip
    left.set_ylim(0.0, _MOST)
    left.set_xlim(-0.3, 11.0)
    left.set_ylabel("cost")
    left.set_xlabel("constant latency (ms)")
    right.set_xlabel("largest latency (ms)")
    for axis in (left, right):
        axis.legend(title="period", frameon=False, loc="upper left")
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)


LATENCIES_MS = (0, 10, 15, 17.5, 20, 22.5, 25, 27.5, 30, 35, 40, 45, 50, 55, 60)
_SHOWN_MS = {0: "#1f5fa8", 20: "#2e7d32", 22.5: "#b8860b", 40: "#c62828"}


def draw_roll_step(path: Path, save: Save) -> None:
    """Roll steps of Betaflight over time and latency, beside the margin of docs/autopilots.md."""
    with _page("autopilots", "roll_axis") as page:
        margin = open_loop(page.scenario(), "pid.command").delay_margin()
    assert margin is not None
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    peaks, remains = [], []
    for latency in LATENCIES_MS:
        flown = simulate(betaflight(delay=latency * 1e-3, seconds=10))
        time, roll = flown.time, np.degrees(flown["quad.roll"])
        peaks.append(roll[(time > 4) & (time < 5)].max())
        last = roll[time > 8]
        remains.append((last.max() - last.min()) / 2)
        if latency in _SHOWN_MS:
            shown = (time > 3.5) & (time < 8)
            left.plot(time[shown], roll[shown], color=_SHOWN_MS[latency], linewidth=1,
                      label=f"{latency:g} ms", zorder=3 - latency / 100)  # fmt: skip
    left.set_xlabel("time (s)")
    left.set_ylabel("roll (deg)")
    left.legend(title="latency", frameon=False)
    right.plot(
        LATENCIES_MS, peaks, "o-", color="#1f5fa8", markersize=4, label="largest, in the step"
    )
    right.plot(LATENCIES_MS, remains, "o-", color="#c62828", markersize=4,
               label="amplitude, 4 s after the step")  # fmt: skip
    right.axvline(1e3 * margin.seconds, color="#777777", linewidth=0.8, linestyle="--")
    right.annotate(f"delay margin of the\nlinear model: {1e3 * margin.seconds:.1f} ms",
                   (1e3 * margin.seconds, 40), xytext=(-6, 0), textcoords="offset points",
                   ha="right", color="#777777")  # fmt: skip
    right.set_xlabel("latency (ms)")
    right.set_ylabel("roll (deg)")
    right.legend(frameon=False, loc="upper left")
    for axis in (left, right):
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)
