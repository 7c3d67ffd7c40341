"""(o) Many bodies in one run: 1, 10 and 100 F-16s, each with its guidance and its autopilot.

The cost of a body must not grow with their number.  A hundred of them must hold real time at 50 Hz.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.models.f16.scenario import scenario
from rtsim.record.recorders import NullRecorder
from rtsim.runs.prepared import prepare
from rtsim.runs.request import Pace
from rtsim.runs.simulation import simulate
from rtsim.scenario.component import Component
from rtsim.scenario.scenario import Scenario
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns

COUNTS = (1, 10, 100)
BOUND = 1.15


def bodies(count: int, until: float = 1.0, step: str = "1/200") -> Scenario:
    """``count`` times case 13.1, with its law and its guidance at 50 Hz, side by side."""
    one, out = scenario("13.1", step=step), Scenario("bodies", until=until)
    for i in range(count):
        for name, component in one.components.items():
            out.add(f"{name}_{i:03d}", _numbered(component.copy(), i))
        out.order(f"guidance_{i:03d}", f"autopilot_{i:03d}")
    return out


def _numbered(component: Component, i: int) -> Component:
    """Let it read the components of body ``i``."""
    inputs = getattr(component, "inputs", None)
    for name, source in dict(inputs or {}).items():
        if isinstance(source, str):
            owner, _, signal = source.partition(".")
            component.inputs[name] = f"{owner}_{i:03d}.{signal}"  # type: ignore[attr-defined]
    return component


def run(quick: bool = False, until: float = 0.0, counts: tuple[int, ...] = COUNTS) -> Result:
    """Measure as fast as possible in turns, then a hundred bodies in real time."""
    until = until or (0.5 if quick else 2.0)
    rows: list[Row] = []
    figures: dict[str, list[float]] = {}
    for record in (True, False):
        contenders = {f"{n} {record}": _runner(bodies(n, until), n, record) for n in counts}
        figures |= in_turns(contenders, 3 if quick else 9)
        for n in counts:
            seen = np.array(figures[f"{n} {record}"])
            base = float(np.median(figures[f"{counts[0]} {record}"]))
            ratio = float(np.median(seen)) / base
            what = f"{n} bodies, {'recording in memory' if record else 'no recording'}"
            rows.append(
                Row(what, {"a body and s [ns]": float(np.median(seen)), "against one [x]": ratio},
                    f"<= {BOUND:g} times one body", ratio <= BOUND)
            )  # fmt: skip
    rows.append(_paced(max(counts), 1.0 if quick else 10.0))
    return Result("bodies", "many F-16s, each with guidance and autopilot", tuple(rows))


def _runner(many: Scenario, count: int, record: bool) -> Callable[[], float]:
    """Runs once and returns the wall time [ns] of one body and one simulated second."""
    prepared = prepare(many, engine="compiled")
    prepared.run(record=record)

    def once() -> float:
        began = stopwatch()
        prepared.run(record=record)
        return (stopwatch() - began) / count / (many.until_ns / 1e9)

    return once


def _paced(count: int, until: float) -> Row:
    """In real time at 50 Hz: step and sample period are 20 ms."""
    result = simulate(bodies(count, until, step="1/50"), pace=Pace(1.0), recorder=NullRecorder())
    found, spent = result.certificate, result.certificate.compute
    figures: dict[str, float | None] = {
        "median [ns]": spent.median, "p99 [ns]": spent.p99, "max [ns]": spent.max,
        "overruns": float(sum(found.overruns.values())),
    }  # fmt: skip
    what = f"{count} bodies at 50 Hz in real time for {until:g} s: computing"
    return Row(what, figures, "no overrun by compute", not found.overruns.get("compute"))
