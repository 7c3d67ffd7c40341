"""(p) Implicit solvers against SciPy's Radau and SUNDIALS' CVODE, at equal accuracy.

Each contender solves each problem with a ladder of tolerances.  Its time at an accuracy is that of
the loosest tolerance from which on all errors are within that accuracy; an error that is small by
chance does not count.  SciPy's Radau gets the compiled derivative and the declared sparsity.
scikit-sundae gets what its users write, and the compiled derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import process_time_ns
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.model import bind
from rtsim.solve import GOOD, SOLVERS, Stepper
from tools.bench.equations_problems import NONE, Stiff, problems
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns

TIMES = 10.0
"""How many times faster than SciPy's Radau the fastest implicit solver has to be."""
ACCURACIES = (1e-4, 1e-6)
LADDER = tuple(10.0 ** (-k / 2) for k in range(5, 20))
IMPLICIT = ("rodas5p", "radau", "bdf", "lsoda", "cvode")
Solve = Callable[[float], Vector]
"""Solves a problem with a relative tolerance, and returns the state at its end."""


def scipys(problem: Stiff) -> Solve:
    """SciPy's Radau with the compiled derivative."""
    slope, x = problem.slope(), problem.model.states.initial()

    def solve(rtol: float) -> Vector:
        done = solve_ivp(
            slope, (0.0, problem.end_s), x, method="Radau", jac_sparsity=problem.pattern,
            rtol=rtol, atol=rtol * problem.sizes,
        )  # fmt: skip
        end: Vector = done.y[:, -1]
        return end

    return solve


def sundaes(problem: Stiff, compiled: bool) -> Solve:
    """scikit-sundae's CVODE, with what its users write or with the compiled derivative."""
    from sksundae.cvode import CVODE

    slope, x = problem.slope(), problem.model.states.initial()

    def by_machine_code(t: float, y: Vector, dx: Vector) -> None:
        dx[:] = slope(t, y)

    def solve(rtol: float) -> Vector:
        solver = CVODE(
            by_machine_code if compiled else problem.written, rtol=rtol,
            atol=rtol * problem.sizes, max_num_steps=1_000_000, **problem.linear,
        )  # fmt: skip
        end: Vector = solver.solve(np.array([0.0, problem.end_s]), x).y[-1]
        return end

    return solve


def ours(problem: Stiff, name: str) -> Solve:
    """One advance of a solver of rtsim from the start to the end; it is never committed."""
    bound, x = bind(problem.model), problem.model.states.initial()
    columns = problem.model.states.names
    shared = len(columns) != x.size  # one signal with many elements

    def made(rtol: float) -> Stepper:
        sizes = problem.sizes[:1] if shared else problem.sizes
        atol = dict(zip(columns, map(float, rtol * sizes), strict=True))
        solver: Any = SOLVERS[name]
        stepper: Stepper = replace(solver, rtol=rtol, atol=atol).stepper(bound)
        return stepper

    steppers: dict[float, Stepper] = {}
    end = np.empty(x.size)

    def solve(rtol: float) -> Vector:
        if rtol not in steppers:
            steppers[rtol] = made(rtol)
        until = round(problem.end_s * NS_PER_S)
        answer = steppers[rtol].advance(0, until, x, NONE, NONE, NONE, end)
        return end.copy() if answer == GOOD else np.full(x.size, np.nan)

    return solve


def contenders(problem: Stiff) -> dict[str, Solve]:
    """By name."""
    found = {"SciPy": scipys(problem)}
    found |= {f"rtsim {name}": ours(problem, name) for name in IMPLICIT if name in SOLVERS}
    try:
        found["sundae, written"] = sundaes(problem, compiled=False)
        found["sundae, compiled"] = sundaes(problem, compiled=True)
    except ImportError:
        pass  # the row says that there is no figure
    return found


def errors(problem: Stiff, exact: Vector, solve: Solve, ladder: tuple[float, ...]) -> list[float]:
    """The largest error, in sizes of its state, with each tolerance of the ladder."""
    out = []
    for rtol in ladder:
        off = np.abs(solve(rtol) - exact) / np.maximum(np.abs(exact), problem.sizes)
        out.append(float(np.max(off)) if np.all(np.isfinite(off)) else float("inf"))
    return out


def sufficient(found: list[float], ladder: tuple[float, ...], accuracy: float) -> float | None:
    """The loosest tolerance from which on all errors are within the accuracy."""
    best = None
    for rtol, error in zip(reversed(ladder), reversed(found), strict=True):
        if error > accuracy:
            break
        best = rtol
    return best


def _timed(solve: Solve, rtol: float) -> float:
    began = process_time_ns()
    solve(rtol)
    return float(process_time_ns() - began)


def _rows(problem: Stiff, ladder: tuple[float, ...], rounds: int) -> list[Row]:
    exact, rows = problem.exact(), []
    solvers = contenders(problem)
    found = {name: errors(problem, exact, solve, ladder) for name, solve in solvers.items()}
    for accuracy in ACCURACIES:
        chosen = {name: sufficient(found[name], ladder, accuracy) for name in solvers}
        ready = {
            name: partial(_timed, solvers[name], rtol)
            for name, rtol in chosen.items()
            if rtol is not None
        }
        times = {name: float(np.min(ns)) for name, ns in in_turns(ready, rounds).items()}
        own = {name: ns for name, ns in times.items() if name.startswith("rtsim")}
        what = f"{problem.name}, {accuracy:g}"
        if not own or "SciPy" not in times:
            rows.append(Row(f"{what}: nobody reaches this accuracy", {}))
            continue
        best = min(own, key=own.__getitem__)
        ratio = times["SciPy"] / own[best]
        figures: dict[str, float | None] = {"SciPy Radau [ns]": times["SciPy"]}
        theirs = {kind: times.get(f"sundae, {kind}") for kind in ("written", "compiled")}
        figures |= {"rtsim [ns]": own[best], "faster [x]": ratio}
        figures |= {f"sundae, {kind} [ns]": ns for kind, ns in theirs.items()}
        figures |= {f"of {kind} [x]": ns and own[best] / ns for kind, ns in theirs.items()}
        rows.append(Row(f"{what}: {best}", figures, f">= {TIMES:g} x", ratio >= TIMES))
    return rows


def run(quick: bool = False, rounds: int = 0) -> Result:
    """Measure each problem at each accuracy."""
    ladder = LADDER[:9:2] if quick else LADDER
    rows = [row for p in problems(quick) for row in _rows(p, ladder, rounds or (1 if quick else 5))]
    notes = (
        "the accuracy is the largest error at the end, in sizes of a state; times are CPU "
        "times of the fastest whole run with the loosest sufficient tolerance",
        "SciPy Radau and sundae, compiled: the model's compiled derivative; sundae, written: plain "
        "Python or NumPy; both know the sparsity",
        "rtsim: the fastest of its implicit solvers; of written, of compiled: its time in times of "
        "scikit-sundae",
    )
    return Result("equations", "implicit solvers at equal accuracy", tuple(rows), notes)
