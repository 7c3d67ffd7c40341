"""(e) Adaptive solvers against SciPy's ``solve_ivp``, and what an event costs.

``dp54`` and RK45 are one pair under one rule: at equal tolerances they take equal steps and end
equally far off, which is checked; where ours ends further off its time is raised by what the
accuracy costs a method of order 5.  SciPy is given the faster of the model's own compiled function
and what a user would write.  Figures are for one evaluation of the derivative by RK45's count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.integrate import solve_ivp

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.model import Guard, Model
from rtsim.record.recorders import NullRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import GOOD, Adaptive
from tools.bench.results import Result, Row
from tools.bench.solve_problems import NONE, Problem, problems
from tools.bench.turns import in_turns

ORDER = 5
EVENTS = (100, 1_000, 10_000)
LINEAR = 1.5
"""An event among the most may cost so many times one among a thousand."""
PLAIN_PART = 10
"""A plain run is so many times shorter."""


class Void(RtsimError):
    """The two do not solve the same problem; nothing is compared."""


def off(problem: Problem, end: Vector) -> float:
    """How far from the exact end, in units of 1 + its size."""
    exact = problem.exact()
    return float(np.max(np.abs(end - exact) / (1 + np.abs(exact))))


def ours(problem: Problem, compile: bool, end_ns: int) -> Callable[[], Vector]:
    """One advance from the start to the end, never accepted: each time it is the first."""
    solver = Adaptive(rtol=problem.rtol, atol=problem.rtol)
    stepper, out = solver.stepper(problem.bound(compile)), problem.x.copy()

    def solve() -> Vector:
        if stepper.advance(0, end_ns, problem.x, NONE, problem.u, problem.p, out) != GOOD:
            raise Void(f"{problem.name} was not solved")
        return out

    return solve


def scipys(problem: Problem, compile: bool, end_ns: int) -> Callable[[], tuple[Vector, int]]:
    """The same by RK45; with its evaluations."""
    slope = problem.scipys(compile)

    def solve() -> tuple[Vector, int]:
        span = (0.0, end_ns / NS_PER_S)
        done = solve_ivp(slope, span, problem.x, rtol=problem.rtol, atol=problem.rtol)
        return done.y[:, -1], done.nfev

    return solve


def _timed(solve: Callable[[], object], evaluations: int) -> float:
    began = stopwatch()
    solve()
    return (stopwatch() - began) / evaluations


def _compiled(problem: Problem, rounds: int) -> Row:
    end = problem.end_ns
    (theirs, evaluations), mine = scipys(problem, True, end)(), ours(problem, True, end)()
    errors = off(problem, mine), off(problem, theirs)
    if not errors[0] < 100 * errors[1] + problem.rtol:
        raise Void(f"{problem.name}: dp54 ends {errors[0]:.2g} off, RK45 {errors[1]:.2g}")
    dearer = max(1.0, errors[0] / errors[1]) ** (1 / ORDER)
    contenders = {
        "ours": partial(_timed, ours(problem, True, end), evaluations),
        "SciPy": partial(_timed, scipys(problem, True, end), evaluations),
    }
    if problem.written is not None:
        contenders["written"] = partial(_timed, scipys(problem, False, end), evaluations)
    found = {name: np.array(ns) for name, ns in in_turns(contenders, rounds).items()}
    best = np.minimum(found["SciPy"], found.get("written", found["SciPy"]))
    ratio = float(np.median(best / (dearer * found["ours"])))
    figures = {
        "rtsim [ns]": float(np.median(found["ours"])), "SciPy [ns]": float(np.median(best)),
        "off": errors[0], "SciPy off": errors[1], "faster [x]": ratio,
    }  # fmt: skip
    return Row(f"{problem.name}, compiled", figures, f">= {problem.times:g} x",
               ratio >= problem.times)  # fmt: skip


def _plain(problem: Problem, rounds: int) -> Row:
    end = problem.end_ns // PLAIN_PART
    _, evaluations = scipys(problem, False, end)()
    contenders = {
        "ours": partial(_timed, ours(problem, False, end), evaluations),
        "SciPy": partial(_timed, scipys(problem, False, end), evaluations),
    }
    found = {name: np.array(ns) for name, ns in in_turns(contenders, rounds).items()}
    ratio = float(np.median(found["SciPy"] / found["ours"]))
    figures = {
        "rtsim [ns]": float(np.median(found["ours"])),
        "SciPy [ns]": float(np.median(found["SciPy"])), "faster [x]": ratio,
    }  # fmt: skip
    return Row(f"{problem.name}, plain Python", figures, ">= 1 x", ratio >= 1.0)


# -- events ----------------------------------------------------------------------------------------


def _rises(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


def _full(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.01


def _empty(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] = 0.0


SAWTOOTH = Model("sawtooth", Signals("x"), _rises, guards=(Guard("full", +1),), guard=_full,
                 reset=_empty)  # fmt: skip


def _events(count: int, per_event: bool = True) -> float:
    """ns an event of a run with so many, without recording; a tag of its own each second."""
    scenario = Scenario("sawtooth", until=count // 100)
    scenario.plant("s", SAWTOOTH, step=1, solver="dp54")
    outcome = simulate(scenario, recorder=NullRecorder())
    return outcome.wall_ns / (count if per_event else 1)


def _event_rows(rounds: int) -> list[Row]:
    contenders = {str(count): partial(_events, count) for count in EVENTS}
    found = {name: np.array(ns) for name, ns in in_turns(contenders, rounds).items()}
    rows = []
    for count in EVENTS:
        figures = {"rtsim [ns]": float(np.median(found[str(count)]))}
        ratio = float(np.median(found[str(count)] / found[str(EVENTS[1])]))
        bound = (f"<= {LINEAR:g} x", ratio <= LINEAR) if count == EVENTS[-1] else ()
        figures |= {"of an event of 1000 [x]": ratio}
        rows.append(Row(f"an event of {count:,}", figures, *bound))
    return rows


def run(quick: bool = False, rounds: int | None = None) -> Result:
    """Measure, in turns."""
    found = problems(quick)
    rows = [_compiled(p, rounds or (3 if quick else 15)) for p in found]
    rows += [_plain(p, rounds or (3 if quick else 9)) for p in found]
    rows += _event_rows(rounds or (2 if quick else 5))
    notes = (
        "one advance to the end, ns for each of RK45's evaluations; tolerance 1e-8",
        "SciPy: RK45 of solve_ivp, with the faster of the model's compiled function and a plain "
        "one as its users write it; plain: with the plain one",
        "faster: median over the rounds, at the accuracy that SciPy reaches",
    )
    return Result("solve", "adaptive solvers against SciPy, and events", tuple(rows), notes)
