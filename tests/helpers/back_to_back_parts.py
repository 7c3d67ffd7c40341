"""The unstable plant's controller in C, with and without a fault, and stand-ins for C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hitl.building.build import PLAIN, Build, build
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.models.unstable import controller

_SOURCE = """
#include <stdlib.h>
#include "law.h"
void law_initialize(law *c) { c->sum = 0.0; c->step = 0; }
void law_step(law *c, double x, double v, REAL *force)
{
    double u = -(8.0 * x + 4.0 * v) - c->sum;
    if (FAULT && c->step == 12) {
        if (FAULT == 1) u = -u;
        if (FAULT == 2) abort();
    }
    c->sum += 0.5 * x;
    c->step += 1;
    *force = (REAL)u;
}
void law_terminate(void) { if (FAULT == 3) abort(); }
"""
_HEADER = """
typedef struct { double sum; int step; } law;
void law_initialize(law *c);
void law_step(law *c, double x, double v, REAL *force);
void law_terminate(void);
"""
_INTERFACE = """
name = "law"
period = "{period}"
sources = ["law.c"]
headers = ["law.h"]
flags = ["-DFAULT={fault}", "-DREAL={real}"]
[code]
objects = ["law c"]
initialize = "law_initialize(&c)"
step = "law_step(&c, x, v, &force)"
terminate = "law_terminate()"
[inputs]
v = {{ unit = "m/s" }}
x = {{ unit = "m" }}
[outputs]
force = {{ type = "{type}", unit = "N/kg" }}
"""
NONE, SIGN, CRASH, CRASH_AT_END = range(4)
"""Faults; SIGN and CRASH happen at step 12, which is at 1.2 s."""
FAULT_STEP = 12


def write_law(folder: Path, fault: int = NONE, type: str = "float64", period: str = "1/10") -> Path:
    """Its files; the path of the interface file.  Its inputs stand in another order."""
    real = {"float64": "double", "float32": "float"}[type]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "law.c").write_text(_SOURCE, encoding="utf-8")
    (folder / "law.h").write_text(_HEADER, encoding="utf-8")
    path = folder / "law.toml"
    text = _INTERFACE.format(fault=fault, real=real, type=type, period=period)
    path.write_text(text, encoding="utf-8")
    return path


def built(folder: Path, fault: int = NONE, type: str = "float64", **more: str) -> Build:
    return build(write_law(folder, fault, type, **more), PLAIN)


def design() -> PythonController:
    return controller().fresh()


Change = Callable[[int, Vector], Vector]


class Stand:
    """Answers what the design does, changed by ``change(step, outputs)``: stands for a C."""

    outside = False
    silence = 0.0

    def __init__(self, law: PythonController, change: Change, outputs: Signals | None = None):
        self.law, self.change = law.fresh(), change
        self.inputs, self.outputs = law.inputs, outputs or law.outputs
        self.step = 0

    def send(self, tag: Tag, inputs: Vector) -> None:
        self.law.send(tag, inputs)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        answer = self.law.receive(tag, patience)
        assert answer is not None
        self.step += 1
        return self.change(self.step - 1, answer.copy())

    def close(self) -> None:
        pass


def from_step(step: int, change: Callable[[Vector], Vector]) -> Change:
    """Right before ``step``, and changed from there on."""
    return lambda at, y: change(y) if at >= step else y


def dies_at(step: int) -> Change:
    def change(at: int, y: Vector) -> Vector:
        if at == step:
            raise ControllerError("it was ended by SIGFPE")
        return y

    return change


def passing(*outputs: str) -> PythonController:
    """A design whose outputs are its inputs, with the units and kinds of ``outputs``."""

    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[:] = u

    signals = Signals(*outputs)
    return PythonController(law, inputs=signals.prefixed("in_"), outputs=signals)


def inputs(steps: int = 40) -> Vector:
    """Of the unstable plant's controller, (steps, 2)."""
    return np.random.default_rng(3).normal(size=(steps, 2))
