"""The cases of the block bench as bdsim has them: github.com/petercorke/bdsim, examples/."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any

from rtsim.core.clock import stopwatch
from tools.bench import blocks_cases as c

Run = Callable[[], tuple[float, float]]
"""One run: its ns, and what it ended at."""
TOLERANCE = {"rtol": 1e-6, "atol": 1e-9}


def contender(case: str) -> Run | None:
    """Raises :class:`ModuleNotFoundError` where bdsim is not installed."""
    bdsim = import_module("bdsim")
    make = {"oscillator": _oscillator, "PI loop": _pi, "ball": _ball}.get(case)
    if make is None:
        return None

    def run() -> tuple[float, float]:
        quiet = redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO())
        with warnings.catch_warnings(), quiet[0], quiet[1]:
            warnings.simplefilter("ignore")
            simulation = bdsim.BDSim(graphics=False, progress=False, banner=False)
            diagram = simulation.blockdiagram()
            until, column = make(diagram)
            diagram.compile()
            began = stopwatch()
            out = simulation.run(diagram, until, solver_args=dict(TOLERANCE))
            ns = float(stopwatch() - began)
        names = [name.partition(":")[0] for name in out.xnames]
        return ns, float(out.x[-1][names.index(column)]) * (0.25 if column == "plant" else 1.0)

    return run


def _oscillator(d: Any) -> tuple[float, str]:
    v, x = d.INTEGRATOR(x0=5.0, name="v"), d.INTEGRATOR(x0=2.0, name="x")
    damper, spring, mass = d.GAIN(c.DAMPING), d.GAIN(c.STIFFNESS), d.GAIN(-1 / c.MASS)
    total = d.SUM("++")
    d.connect(v, x, damper)
    d.connect(x, spring)
    d.connect(damper, total[0])
    d.connect(spring, total[1])
    d.connect(total, mass)
    d.connect(mass, v)
    return 25.0, "x"


def _pi(d: Any) -> tuple[float, str]:
    demand, plant = d.STEP(T=1, name="demand"), d.LTI_SISO(0.5, [2, 1], name="plant")
    controller = d.PID(P=10, D=0, I=3, name="PID")
    d.connect(demand, controller[1])
    d.connect(controller, plant)
    d.connect(plant, controller[0])
    return c.PI_UNTIL, "plant"


def _ball(d: Any) -> tuple[float, str]:
    velocity = d.INTEGRATOR(name="velocity", x0=0.0)
    position = d.INTEGRATOR(name="position", x0=c.DROP)
    gravity = d.CONSTANT(-c.GRAVITY, name="gravity")

    def impact(_: Any, states: Any) -> None:
        states[velocity] *= -c.RESTITUTION

    ground = d.EVENT("-", impact)
    d.connect(gravity, velocity)
    d.connect(velocity, position)
    d.connect(position, ground)
    return 5.0, "position"
