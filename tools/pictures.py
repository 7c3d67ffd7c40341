"""Draw the pictures of the pages: ``python -m tools.pictures [NAME ...]``.

A NAME is the file name of a picture in docs/pictures, or ``examples``; without one, all are drawn.
"""

from __future__ import annotations

import io
import math
import os
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
from rich.console import Console

from hitl.cli.interfaces import write_starter
from hitl.contexts import Reported, back_to_back, pitl
from hitl.results.table import Tables
from rtsim import Delayed, Model, Scenario, Signals, simulate
from rtsim.core.signals import Vector
from rtsim.equations.history import ORDER, History
from rtsim.equations.sparsity import probed
from rtsim.models.f16.scenario import scenario
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of
from tools.can_pictures import draw_can
from tools.chain_pictures import draw_chain
from tools.cockpit import draw_cockpit
from tools.drones import draw_drones
from tools.equations import draw_bridge, draw_drift
from tools.f16_processor_picture import draw_f16_processor
from tools.federation_picture import draw_federation
from tools.fit_picture import draw_fit
from tools.fmi_picture import draw_fmi
from tools.gallery import draw_gallery
from tools.linear_pictures import (
    draw_bode_nichols,
    draw_delay_margin,
    draw_roll_step,
    draw_timing_cost,
)
from tools.network_pictures import draw_ethernet, draw_networks, draw_slots, draw_wireless
from tools.processor_pictures import draw_servos
from tools.readme_pictures import (
    draw_debugging,
    draw_found_bug,
    draw_many_runs,
    draw_replay,
    folder_with_cart,
    save_terminal,
)
from tools.requirement_pictures import draw_smaller, draw_violated
from tools.task_pictures import draw_tasks
from tools.vehicles import draw_three_views, draw_vehicles
from tools.wind import draw_wind

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
        time = recording.time
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
    figure, axes = plt.subplots(2, 1, figsize=(8, 3.6), sharex=True, layout="constrained")
    with folder_with_cart() as folder:
        source = folder / "cart.py"
        for delay, color in zip(DELAYS_S, ("#1f5fa8", "#2e7d32", "#c62828"), strict=True):
            recording = trace_of(load_scenario(str(source), {"delay": delay}))
            for axis, signal in zip(axes, ("cart.x", "cart.force"), strict=True):
                seconds = recording.time
                axis.plot(seconds, recording[signal], color=color, linewidth=1, label=f"{delay} s")
    for axis, label in zip(axes, ("position (m)", "force (N/kg)"), strict=True):
        axis.set_ylabel(label)
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(title="delay", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes[1].set_xlabel("time (s)")
    save(figure, path)


def draw_sparse(path: Path) -> None:
    """The example of docs/sparse.md, as the page has it, and the sparsity of a small one."""
    text = (ROOT / "docs/sparse.md").read_text(encoding="utf-8")
    found = re.search(r"^```python file=heat.py\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "heat.py"
        source.write_text(found[1].replace("POINTS = 1000", "POINTS = 200"), encoding="utf-8")
        recording = trace_of(load_scenario(str(source)))
    seconds = recording.time
    for at, shade in zip((0.1, 0.2, 0.4, 0.7, 1.0), np.linspace(0.75, 0.0, 5), strict=True):
        row = int(np.flatnonzero(np.isclose(seconds, at))[-1])
        values = [recording[f"rod.T_{i}"][row] for i in range(200)]
        color = plt.get_cmap("viridis")(shade)
        left.plot(np.arange(1, 201) / 201, values, color=color, label=f"{at:g} s")
    left.set_xlabel("place (lengths of the rod)")
    left.set_ylabel("temperature (K)")
    left.legend(frameon=False)
    n = 16
    coupled = np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    coupled[0, -1] = 1.0
    sparsity = probed(lambda x: coupled @ x, np.ones(n), np.full(n, 1e-3))
    assert sparsity is not None
    colors = ("#1f5fa8", "#2e7d32", "#c62828", "#b8860b")
    for k, group in enumerate(sparsity.groups):
        inside = np.isin(sparsity.columns, group)
        place = sparsity.columns[inside], sparsity.rows[inside]
        right.scatter(*place, color=colors[k], marker="s", s=50, label=f"group {k + 1}")
    right.set(xlim=(-0.7, n - 0.3), ylim=(n - 0.3, -0.7), aspect="equal")
    right.set(xlabel="state x[j]", ylabel="derivative dx[i]")
    right.set(xticks=range(0, n, 3), yticks=range(0, n, 3))
    right.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def forgotten_limit() -> Reported:
    """The example of ``rtsim sil init``, its C without the lower limit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_starter(folder)
        source = folder / "motor.c"
        source.write_text(source.read_text().replace("wanted < -LIMIT", "wanted < -4 * LIMIT"))
        return back_to_back("scenario.py", {"controller": "motor.toml"}, folder=folder)


def speed(recording: Recording) -> Trace:
    return recording.time, recording["motor.speed"]


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
    save_terminal(console, path, "rtsim pitl f16 --until 10")


def delayed_decay(step: str, breaks: bool) -> tuple[Vector, Vector]:
    """Time (s) and x of x' = -x(t - 1) with rk4, with breaks or without."""
    model = Model("decay", Signals("x = 1"), _late, delays=(Delayed("x", 1.0, before=1.0),))
    found = Scenario("decay", until=6)
    found.plant("a", model, step=step)
    recorder = MemoryRecorder()
    attach = History.attach

    def without(self: History, functions: Any, arrays: Any, width: int, alive: object) -> None:
        arrays["live"][ORDER] = -1.0
        attach(self, functions, arrays, width, alive)

    try:
        if not breaks:
            History.attach = without  # type: ignore[method-assign]
        simulate(found, compile=False, recorder=recorder)
    finally:
        History.attach = attach  # type: ignore[method-assign]
    recording = recorder.recording()
    return recording.time, recording["a.x"]


def _late(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -u[0]


def draw_delays(path: Path) -> None:
    """Draw the solution of x' = -x(t - 1) and the error of rk4 over its step."""

    def exact(t: float) -> float:
        terms = range(math.floor(t) + 2)
        return math.fsum((-1) ** k * (t - k + 1) ** k / math.factorial(k) for k in terms)

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(*delayed_decay("1/50", breaks=True), color="tab:blue")
    for second in range(7):
        left.axvline(second, color="0.85", lw=0.8, zorder=0)
    left.set(xlabel="time (s)", ylabel="x", title="x' = -x(t - 1): a break at each whole second")
    steps = [2 / n for n in (7, 15, 31, 63, 127)]
    for breaks, label, color in (
        (True, "steps end at breaks", "tab:blue"),
        (False, "steps contain breaks", "tab:red"),
    ):
        off = []
        for n in (7, 15, 31, 63, 127):
            at, x = delayed_decay(f"2/{n}", breaks)
            off.append(float(np.abs(x - np.array([exact(v) for v in at])).max()))
        right.loglog(steps, off, "o-", label=label, color=color)
    right.set(xlabel="step (s)", ylabel="largest error of x", title="rk4, 0 to 6 s")
    right.set_xticks([0.02, 0.05, 0.1, 0.2], ["0.02", "0.05", "0.1", "0.2"])
    right.minorticks_off()
    right.legend()
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw_examples(folder: Path) -> None:
    draw_gallery(folder, save)


DRAWN: dict[str, Callable[[Path], None]] = {
    "example.svg": draw_example,
    "sparse.png": draw_sparse,
    "wiring.svg": load_scenario("f16").draw().save,
    "latency.svg": draw_latency,
    "tasks.svg": lambda path: draw_tasks(path, save),
    "drones.svg": lambda path: draw_drones(path, save),
    "wind.svg": lambda path: draw_wind(path, save),
    "federation.svg": lambda path: draw_federation(path, save),
    "fit.svg": lambda path: draw_fit(path, save),
    "fmi.svg": lambda path: draw_fmi(path, save),
    "bode-nichols.svg": lambda path: draw_bode_nichols(path, save),
    "betaflight-roll.svg": lambda path: draw_roll_step(path, save),
    "delay-margin.svg": lambda path: draw_delay_margin(path, save),
    "timing-cost.svg": lambda path: draw_timing_cost(path, save),
    "back-to-back.svg": draw_back_to_back,
    "pitl.svg": draw_pitl,
    "found-bug.svg": lambda path: draw_found_bug(path, save),
    "replay.svg": draw_replay,
    "debugging.svg": draw_debugging,
    "many-runs.png": draw_many_runs,
    "can.svg": lambda path: draw_can(path, save),
    "chain-ages.svg": lambda path: draw_chain(path, save),
    "networks.svg": lambda path: draw_networks(path, save),
    "networks-ethernet.svg": lambda path: draw_ethernet(path, save),
    "networks-slots.svg": lambda path: draw_slots(path, save),
    "networks-wireless.svg": lambda path: draw_wireless(path, save),
    "processor-servos.svg": lambda path: draw_servos(path, save),
    "f16-processor.svg": lambda path: draw_f16_processor(path, save),
    "cockpit.png": draw_cockpit,
    "vehicles.png": draw_vehicles,
    "three-views.png": draw_three_views,
    "delays.svg": draw_delays,
    "requirements.svg": lambda path: draw_violated(path, save),
    "counterexample.svg": lambda path: draw_smaller(path, save),
    "equations-bridge.svg": draw_bridge,
    "equations-drift.svg": draw_drift,
    "examples": draw_examples,
}

if __name__ == "__main__":
    os.environ["RTSIM_PICTURE"] = "opengl"
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "rtsim", "svg.fonttype": "none"})
    for name in sys.argv[1:] or DRAWN:
        DRAWN[name](PICTURES / name)
