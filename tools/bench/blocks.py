"""(h) Block diagrams: against PathSim and bdsim on their own examples, and cost by size.

A run is timed from the first step to the last: diagrams are built, and ours compiled, before.  What
counts is the same accuracy: a ratio is void where our error at the end is larger than theirs.  The
opponents run with the solvers and tolerances of their examples; ours records everything in memory.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from rtsim.blocks import Diagram, Gain, Integrator, Sum
from rtsim.core.clock import stopwatch
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import BoundModel, Model, bind
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from tools.bench import blocks_bdsim, blocks_pathsim
from tools.bench.blocks_cases import CASES, Case
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio

FASTER = 50.0
LIKE_BY_HAND = 1.2
LINEAR = 1.5
OPPONENTS = {"PathSim": blocks_pathsim.contender, "bdsim": blocks_bdsim.contender}


def ours(case: Case) -> Callable[[], tuple[float, float]]:
    """One run: ns, and the error at its end."""
    scenario = Scenario(case.name, until=case.until)
    scenario.plant("d", case.diagram().model(), step=case.step, solver=case.solver)

    def fly() -> tuple[float, float]:
        outcome = simulate(scenario, recorder=MemoryRecorder())
        plant = outcome.system.plants[0]
        end = float(plant.values[plant.signals.slice(case.watched)][0])
        return float(outcome.wall_ns), abs(end - case.end())

    return fly


def _against(case: Case, opponent: str, rounds: int) -> Row:
    what = f"{case.name}: rtsim against {opponent}"
    try:
        theirs = OPPONENTS[opponent](case.name)
    except ModuleNotFoundError as error:
        return Row(f"{what}: skipped, {error.name} is not installed (rtsim[bench])", {})
    if theirs is None:
        return Row(f"{what}: skipped, its examples have none", {})
    errors = {"ours": 0.0, "theirs": 0.0}

    def timed(name: str, fly: Callable[[], tuple[float, float]]) -> Callable[[], float]:
        def once() -> float:
            ns, off = fly()
            errors[name] = off
            return ns

        return once

    def their_run() -> tuple[float, float]:
        ns, end = theirs()
        return ns, abs(end - case.end())

    times = in_turns(
        {"ours": timed("ours", ours(case)), "theirs": timed("theirs", their_run)}, rounds
    )
    return row(what, case, times, errors["ours"], errors["theirs"])


def row(
    what: str,
    case: Case,
    times: Mapping[str, Sequence[float]],
    our_error: float,
    their_error: float,
) -> Row:
    """``times`` [ns] of ``ours`` and ``theirs``, in turns."""
    ratio = 1.0 / median_ratio(times["ours"], times["theirs"])
    as_good = our_error <= max(their_error, case.floor)
    figures = {
        "ours [ns]": float(np.median(times["ours"])),
        "theirs [ns]": float(np.median(times["theirs"])),
        "ratio [x]": ratio,
        "our error": our_error,
        "their error": their_error,
    }
    said = what if as_good else f"{what}: VOID, our error is larger"
    return Row(said, figures, f">= {FASTER:g} x", as_good and ratio >= FASTER)


# -- by size ---------------------------------------------------------------------------------------


def by_hand(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """The oscillator of the cases, as one would write it."""
    dx[0] = x[1]
    dx[1] = -(p[0] * x[1] + p[1] * x[0]) / p[2]


BY_HAND = Model(
    "by hand", Signals("x = 2", Signal("v", initial=5.0)), by_hand,
    parameters=Signals("c = 0.2", "k = 1.5", "m = 0.8"),
)  # fmt: skip


def _steps(model: Model, count: int) -> Callable[[], float]:
    """ns a step of RK4 in the loop, nothing recorded."""
    scenario = Scenario("steps", until=count / 100)
    scenario.plant("d", model, step="1/100")
    return lambda: simulate(scenario).wall_ns / count


def chain(blocks: int, name: str) -> Diagram:
    """Integrators and gains and sums in turn, one behind the other and closed."""
    d = Diagram(name)
    last = "x0"
    for k in range(blocks // 4):
        before = f"x{k - 1}" if k else f"x{blocks // 4 - 1}"
        d.add(f"x{k}", Integrator(1.0), f"s{k}")
        d.add(f"a{k}", Gain(-1.0), f"x{k}")
        d.add(f"b{k}", Gain(0.5), before)
        d.add(f"s{k}", Sum("++"), f"a{k}", f"b{k}")
    d.output(last, name="last")
    return d


@contextmanager
def _fresh_cache() -> Iterator[None]:
    before = os.environ.get("RTSIM_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RTSIM_CACHE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["RTSIM_CACHE_DIR"]
            else:
                os.environ["RTSIM_CACHE_DIR"] = before


def _made(blocks: int) -> tuple[float, float, BoundModel]:
    """ns to make the model, ns to compile it, and it."""
    began = stopwatch()
    model = chain(blocks, f"chain of {blocks}").model()
    made = stopwatch()
    bound = bind(model)
    return float(made - began), float(stopwatch() - made), bound


def _evaluations(bound: BoundModel) -> Callable[[], float]:
    """ns of one derivative, the call from Python included."""
    model = bound.model
    x, p = model.states.initial(), model.parameters.initial()
    none: NDArray[np.float64] = np.zeros(0)
    out = np.zeros(x.size)

    def many(count: int = 200) -> float:
        call, best = bound.derivative.call, math.inf
        for _ in range(10):
            began = stopwatch()
            for _ in range(count):
                call(0.0, x, none, none, p, out)
            best = min(best, (stopwatch() - began) / count)
        return best

    return many


def _by_size(quick: bool) -> list[Row]:
    sizes = (20, 100) if quick else (100, 1000)
    rows, each = [], {}
    with _fresh_cache():
        _made(8)  # the compiler itself is loaded
        found = {n: _made(n) for n in sizes}
    times = in_turns({str(n): _evaluations(found[n][2]) for n in sizes}, 3 if quick else 9)
    call = min(times[str(sizes[0])])
    for n in sizes:
        made, compiled, _ = found[n]
        each[n] = compiled / n
        per = f"made in {made / n / 1e3:.0f} us, compiled in {compiled / n / 1e6:.1f} ms a block"
        rows.append(Row(f"{n} blocks, {per}", {"ours [ns]": float(np.median(times[str(n)]))}))
    small, large = sizes
    grows = median_ratio(times[str(large)], times[str(small)]) * small / large
    rows.append(
        Row(f"cost a block, {large} against {small}", {"ratio [x]": grows},
            f"<= {LINEAR:g} x", grows <= LINEAR if call > 0 else None)
    )  # fmt: skip
    grows = each[large] / each[small]
    rows.append(
        Row(f"compiling a block, {large} against {small}", {"ratio [x]": grows},
            f"<= {LINEAR:g} x", grows <= LINEAR)
    )  # fmt: skip
    return rows


def run(quick: bool = False) -> Result:
    """Measure in turns."""
    rounds, steps = (2, 5_000) if quick else (7, 200_000)
    rows = [_against(case, name, rounds) for case in CASES for name in case.opponents]
    by_blocks = next(c for c in CASES if c.name == "oscillator").diagram().model()
    times = in_turns(
        {"blocks": _steps(by_blocks, steps), "hand": _steps(BY_HAND, steps)}, 3 if quick else 9
    )
    ratio = median_ratio(times["blocks"], times["hand"])
    rows.append(
        Row("a step of five blocks against one by hand",
            {"ours [ns]": float(np.median(times["blocks"])),
             "theirs [ns]": float(np.median(times["hand"])), "ratio [x]": ratio},
            f"<= {LIKE_BY_HAND:g} x", ratio <= LIKE_BY_HAND)
    )  # fmt: skip
    rows += _by_size(quick)
    return Result("blocks", "block diagrams", tuple(rows))
