"""A loop whose runs go wrong if a factor says so; without these factors all runs are good."""

from __future__ import annotations

import math
import time
from pathlib import Path

from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from rtsim import PythonController, Recording, Scenario, Signals
from rtsim.core.signals import Vector
from rtsim.models.unstable import UNSTABLE
from rtsim.studies import Last, Replications, Study

FRAGILE = Path(__file__).with_name("fragile.toml")
RAISE, NO_NUMBER = 1.0, 2.0


def watch(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Copy the position; raise or answer -1 if ``mode`` says so; take ``delay`` s of wall clock."""
    if t == 0.0 and p[1] > 0.0:
        time.sleep(p[1])
    if t > 0.2 and p[0] == RAISE:
        raise ValueError("mode 1")
    y[0] = -1.0 if t > 0.2 and p[0] == NO_NUMBER else abs(u[0])


def root(recording: Recording) -> float:
    """Return the root of the last distance; NaN if it is negative."""
    last = float(recording.messages["watch"]["seen"][-1])
    return math.sqrt(last) if last >= 0.0 else math.nan


def scenario(fault: float = 0.0, sil: bool = False) -> Scenario:
    """An unstable plant, a controller in C in this process or in its own (``sil``), a watcher.

    ``fault`` makes the C code crash (1) or never answer (2).
    """
    out = Scenario("bad", until=0.5)
    out.plant("plant", UNSTABLE, step=0.01, inputs={"force": "c.force"})
    values = {"fault": fault}
    apart = sil and SilController(FRAGILE, values, silence=1.0, cases=None)
    wires = {"x": "plant.x", "v": "plant.v"}
    out.controller("c", apart or InProcess(FRAGILE, values), period=0.1, inputs=wires)
    seen = PythonController(
        watch, Signals("x [m]"), Signals("seen [m]"), parameters=Signals("mode", "delay [s]")
    )
    out.controller("watch", seen, period=0.1, inputs={"x": "plant.x"})
    return out


def study() -> Study:
    """Return good runs; a table of factors makes some of them go wrong."""
    return Study(design=Replications(10), results={"x": Last("plant.x"), "root": root})
