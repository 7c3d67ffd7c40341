"""Draw the pictures of the pages:  python -m tools.pictures [NAME ...]

A NAME is the file name of a picture in docs/pictures, or ``examples``; without one, all are drawn.
"""

from __future__ import annotations

import importlib
import io
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("svg")
from matplotlib import pyplot as plt
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from hitl.cli.starting import write_starter
from hitl.contexts import Reported, back_to_back, pitl
from hitl.results.table import Tables
from rtsim.core.signals import Vector
from rtsim.linear import margins, open_loop
from rtsim.linear.pages import bode_data
from rtsim.models.f16.scenario import scenario
from rtsim.models.unstable import scenario as unstable
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of
from tools.cockpit import draw_cockpit
from tools.gallery import draw_gallery

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
Trace = tuple[Vector, Vector]
"""Time [s] and values."""
LATENCIES_MS = (0, 10, 20, 40)
DELAYS_S = ("0", "0.2", "0.33")


def tug(latency: float) -> Recording:
    """Stability augmentation alone; the pilot tugs the stick at 1 s."""
    out = scenario(until=10, latency=latency, autopilot_on=False)
    out.at(1.0, "pilot.long_stick", 0.05)
    out.at(1.2, "pilot.long_stick", 0.0)
    return trace_of(out)


def draw_latency(path: Path) -> None:
    """Angle of attack, roll and elevator against time, one column a latency."""
    rows = (("alpha_deg", "angle of attack"), ("roll_deg", "roll"), ("elevator", "elevator"))
    figure, axes = plt.subplots(3, 4, figsize=(10, 5.4), sharex=True, sharey="row")
    for column, latency in enumerate(LATENCIES_MS):
        recording = tug(latency * 1e-3)
        time = recording.time("f16") / 1e9
        axes[0][column].set_title(f"{latency} ms")
        for row, (signal, label) in enumerate(rows):
            axis = axes[row][column]
            axis.plot(time, recording[f"f16.{signal}"], color="#1f5fa8", linewidth=0.8)
            axis.grid(color="#dddddd", linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axis.set_ylabel(f"{label} (deg)")
    for axis in axes[2]:
        axis.set_xlabel("time (s)")
    figure.suptitle("F-16 with stability augmentation: a tug at the stick, commands under way for")
    figure.tight_layout()
    save(figure, path)


def draw_example(path: Path) -> None:
    """The first example of README.md, as the file stands there: position and force against time."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```python file=cart.py\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    figure, axes = plt.subplots(2, 1, figsize=(8, 3.6), sharex=True, layout="constrained")
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "cart.py"
        source.write_text(found[1], encoding="utf-8")
        for delay, color in zip(DELAYS_S, ("#1f5fa8", "#2e7d32", "#c62828"), strict=True):
            recording = trace_of(load_scenario(str(source), {"delay": delay}))
            for axis, signal in zip(axes, ("cart.x", "cart.force"), strict=True):
                seconds = recording.time("cart") / 1e9
                axis.plot(seconds, recording[signal], color=color, linewidth=1, label=f"{delay} s")
    for axis, label in zip(axes, ("position (m)", "force (N/kg)"), strict=True):
        axis.set_ylabel(label)
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(title="delay", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes[1].set_xlabel("time (s)")
    save(figure, path)


def forgotten_limit() -> Reported:
    """The example of ``rtsim sil init``, its C without the lower limit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_starter(folder)
        source = folder / "motor.c"
        source.write_text(source.read_text().replace("wanted < -LIMIT", "wanted < -4 * LIMIT"))
        return back_to_back("scenario.py", {"controller": "motor.toml"}, folder=folder)


def speed(recording: Recording) -> Trace:
    return recording.time("motor") / 1e9, recording["motor.speed"]


def draw_back_to_back(path: Path) -> None:
    """Reference model and C against time, and their difference: open loop left, closed right."""
    result = forgotten_limit()
    loop, flight = result.open["controller"], result.flight
    assert loop.first is not None
    assert flight is not None
    first = loop.tags[loop.first.step, 0] / 1e9
    stepped = loop.tags[:, 0] / 1e9
    columns: tuple[tuple[str, Trace, Trace], ...] = (
        ("open loop: voltage (V)", (stepped, loop.design[:, 0]), (stepped, loop.translation[:, 0])),
        ("closed loop: speed (rad/s)", speed(flight.baseline), speed(flight.candidate)),
    )
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 4.2), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    for column, (title, design, c) in enumerate(columns):
        upper, lower = axes[0][column], axes[1][column]
        upper.set_title(title)
        upper.plot(*design, color="#1f5fa8", linewidth=1.6, label="reference model")
        upper.plot(*c, color="#c62828", linewidth=0.9, label="C")
        difference = np.interp(design[0], *c) - design[1]
        lower.plot(design[0], difference, color="#c62828", linewidth=0.9)
        lower.set_ylabel("difference")
        lower.set_xlabel("time (s)")
        for axis in (upper, lower):
            axis.axvline(first, color="#777777", linewidth=0.8, linestyle="--")
            axis.grid(color="#dddddd", linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False)
    axes[0][0].annotate(
        f"first failure: step {loop.first.step}",
        (first, float(loop.design.max())),
        xytext=(4, -2),
        textcoords="offset points",
        color="#777777",
    )
    save(figure, path)


def draw_pitl(path: Path) -> None:
    """What ``rtsim pitl f16`` prints, as a terminal shows it; no font is fetched from elsewhere."""
    with pitl("f16", {"autopilot": "firmware/core/f16_control.toml:single"}, until=10) as result:
        console = Console(record=True, width=104, file=io.StringIO(), highlight=False)
        console.print(Tables(result), crop=False)
    style = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.S)
    console.save_svg(
        str(path),
        title="rtsim pitl f16 --until 10",
        theme=DEFAULT_TERMINAL_THEME,
        code_format=style.replace("Fira Code", "monospace"),
        unique_id="pitl",
    )


def draw_bode_nichols(path: Path) -> None:
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


def draw_delay_margin(path: Path) -> None:
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


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw_examples(folder: Path) -> None:
    draw_gallery(folder, save)


DRAWN: dict[str, Callable[[Path], None]] = {
    "example.svg": draw_example,
    "latency.svg": draw_latency,
    "bode-nichols.svg": draw_bode_nichols,
    "delay-margin.svg": draw_delay_margin,
    "back-to-back.svg": draw_back_to_back,
    "pitl.svg": draw_pitl,
    "cockpit.png": draw_cockpit,
    "examples": draw_examples,
}

if __name__ == "__main__":
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "rtsim", "svg.fonttype": "none"})
    for name in sys.argv[1:] or DRAWN:
        DRAWN[name](PICTURES / name)
