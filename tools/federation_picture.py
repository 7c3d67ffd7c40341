"""The picture of docs/cosimulation.md: what two federates of HELICS exchange at granted times."""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

import rtsim as rt
from hitl.federates import federate

PAGE = Path(__file__).resolve().parents[1] / "docs/cosimulation.md"
PERIOD, UNTIL = 0.1, 1.0
"""Time between two exchanges, and end of the run, s; the page has a period of 0.01 s."""
SIGNALS = {
    "motor": ("motor.speed", "sensed.speed", "speed (rad/s)"),
    "drive": ("drive.voltage", "supply.voltage", "voltage (V)"),
}
"""Of each federate: the signal that it publishes, the reader's signal, and the axis' label."""
READS = {"motor": "drive", "drive": "motor"}
BLUE, RED, GREY = "#1f5fa8", "#c62828", "#777777"


def scenarios() -> dict[str, rt.Scenario]:
    """Return the scenarios ``motor`` and ``drive`` of the page."""
    text = PAGE.read_text(encoding="utf-8")
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        try:
            for name in READS:
                found = re.search(rf"^```python file={name}.py\n(.*?)^```", text, re.M | re.S)
                assert found is not None
                Path(folder, f"page_{name}.py").write_text(found[1], encoding="utf-8")
                out[name] = importlib.import_module(f"page_{name}").scenario()
        finally:
            sys.path.remove(folder)
    return out


def _configuration(name: str, broker: str) -> dict[str, Any]:
    signal, other = SIGNALS[name][0], READS[name]
    source, into, _ = SIGNALS[other]
    return {
        "name": name, "period": PERIOD, "core_type": "inproc", "core_name": f"{broker}-{name}",
        "core_init_string": f"--broker={broker} -f 1",
        "publications": [{"key": signal, "global": True, "info": signal}],
        "subscriptions": [{"key": source, "info": into}],
    }  # fmt: skip


def federation() -> dict[str, rt.RunResult]:
    """Run both federates in threads of this process; return their results by name."""
    import helics

    broker = "picture"
    made = helics.helicsCreateBroker("inproc", broker, "-f 2 --loglevel=no_print")
    results: dict[str, rt.RunResult] = {}

    def run(name: str, scenario: rt.Scenario) -> None:
        results[name] = federate(scenario, _configuration(name, broker), until=UNTIL)

    threads = [threading.Thread(target=run, args=item) for item in scenarios().items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    helics.helicsBrokerDisconnect(made)
    helics.helicsBrokerFree(made)
    return results


def draw_federation(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Draw each published signal, and the same signal as the other federate reads it."""
    results = federation()
    figure, axes = plt.subplots(2, 1, figsize=(8, 4.4), sharex=True, layout="constrained")
    granted = PERIOD * np.arange(round(UNTIL / PERIOD) + 1)
    for axis, (name, (signal, read, label)) in zip(axes, SIGNALS.items(), strict=True):
        ours, theirs = results[name], results[READS[name]]
        for at in granted:
            axis.axvline(at, color=GREY, linewidth=0.6, linestyle=":")
        axis.plot(ours.time, ours[signal], color=BLUE, linewidth=1.4, label=f"{signal}, published")
        axis.step(theirs.time, theirs[read], where="post", color=RED, linewidth=1.2,
                  label=f"{read}, read by the {READS[name]}")  # fmt: skip
        values = np.interp(granted, ours.time, ours[signal])
        axis.plot(granted[:-1], values[:-1], "o", color=BLUE, markersize=4)
        for at, value in zip(granted[:-1], values[:-1], strict=True):
            axis.annotate(
                "", (at + PERIOD, value), (at, value),
                arrowprops={"arrowstyle": "->", "color": RED, "linewidth": 0.9},
            )  # fmt: skip
        axis.set_ylabel(label)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    axes[1].set_xlabel("time (s); dotted: times that HELICS grants")
    save(figure, path)
