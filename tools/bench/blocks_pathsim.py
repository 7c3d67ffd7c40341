"""The cases of the block bench as PathSim has them: github.com/pathsim/pathsim, examples/."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from rtsim.core.clock import stopwatch
from tools.bench import blocks_cases as c

Run = Callable[[], tuple[float, float]]
"""One run: its ns, and what it ended at."""


def contender(case: str) -> Run | None:
    """Raises :class:`ModuleNotFoundError` where PathSim is not installed."""
    pathsim = import_module("pathsim")
    make = {"oscillator": _oscillator, "PID loop": _pid, "ball with friction": _ball}.get(case)
    if make is None:
        return None

    def run() -> tuple[float, float]:
        blocks, connections, watched, until, how = make(pathsim)
        simulation = pathsim.Simulation(blocks, connections, log=False, **how)
        began = stopwatch()
        simulation.run(until)
        return float(stopwatch() - began), float(watched.outputs[0])

    return run


def _parts() -> tuple[Any, Any]:
    return import_module("pathsim.blocks"), import_module("pathsim.solvers")


def _oscillator(pathsim: Any) -> tuple[Any, ...]:
    b, s = _parts()
    v, x = b.Integrator(5.0), b.Integrator(2.0)
    damper, spring, mass = (
        b.Amplifier(c.DAMPING),
        b.Amplifier(c.STIFFNESS),
        b.Amplifier(-1 / c.MASS),
    )
    total, scope = b.Adder(), b.Scope()
    wire = pathsim.Connection
    wires = [
        wire(v, x, damper, scope), wire(x, spring, scope[1]), wire(damper, total),
        wire(spring, total[1]), wire(total, mass), wire(mass, v),
    ]  # fmt: skip
    blocks = [v, x, damper, spring, mass, total, scope]
    return blocks, wires, x, 25.0, {"dt": 0.1, "Solver": s.SSPRK33}


def _pid(pathsim: Any) -> tuple[Any, ...]:
    b, s = _parts()
    point = b.Source(lambda t: int(t > 10) - 0.5 * int(t > 50))
    error, plant, gain = b.Adder("+-"), b.Integrator(), b.Amplifier(c.PLANT)
    pid, scope = b.PID(c.KP, c.KI, c.KD, f_max=c.FILTER), b.Scope()
    wire = pathsim.Connection
    wires = [
        wire(point, error, scope), wire(gain, error[1], scope[1]), wire(error, pid, scope[3]),
        wire(pid, plant, scope[2]), wire(plant, gain),
    ]  # fmt: skip
    return [point, error, pid, plant, gain, scope], wires, gain, c.PID_UNTIL, {"Solver": s.RKCK54}


def _ball(pathsim: Any) -> tuple[Any, ...]:
    b, s = _parts()
    x, v, total = b.Integrator(1.0), b.Integrator(5.0), b.Adder()
    friction = b.Function(lambda v: -c.FRICTION * abs(v) * v)
    gravity, scope = b.Constant(-c.GRAVITY), b.Scope()
    wire = pathsim.Connection
    wires = [
        wire(gravity, total), wire(friction, total[1]), wire(total, v), wire(v, x, friction),
        wire(x, scope),
    ]  # fmt: skip

    def bounce(_: float) -> None:
        x.engine.set(abs(x.engine.state))
        v.engine.set(-c.BOUNCE * v.engine.state)

    event = import_module("pathsim.events").ZeroCrossing(
        func_evt=lambda _: float(x.engine.state[0]), func_act=bounce, tolerance=1e-3
    )
    how = {
        "events": [event], "dt": 0.01, "Solver": s.RKBS32,
        "tolerance_lte_rel": 1e-3, "tolerance_lte_abs": 1e-5,
    }  # fmt: skip
    return [x, v, friction, total, gravity, scope], wires, x, 8.0, how
