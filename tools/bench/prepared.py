"""(n) What a prepared run costs beside its simulated work: 1 s of ``unstable``, again and again.

Each run has other parameters, another initial state and another seed.  The overhead of a run is the
time of ``prepared.run`` less the time for which the compiled engine computed its tags.
"""

from __future__ import annotations

from itertools import count

from rtsim.core.clock import stopwatch
from rtsim.models.unstable import scenario
from rtsim.runs.prepared import Prepared, Recorded, prepare
from rtsim.runs.simulation import simulate
from tools.bench.results import Result, Row
from tools.bench.turns import spread

BOUND_NS = 50_000.0
KINDS: dict[str, Recorded] = {
    "all rows kept": True, "one track kept": ("plant",), "no rows kept": False,
}  # fmt: skip


def overheads(prepared: Prepared, runs: int, record: Recorded) -> tuple[list[int], list[int]]:
    """The overhead [ns] of each run, and the time [ns] that its tags took."""
    overhead, tags = [], []
    for k, _ in zip(count(), range(runs), strict=False):
        values = {
            "plant.stiffness": 2.0 + 1e-4 * k, "plant.x": 1.0 - 1e-4 * k,
            "controller.proportional": 8.0 + 1e-4 * k,
        }  # fmt: skip
        began = stopwatch()
        result = prepared.run(seed=k, set=values, until=1, record=record)
        whole = stopwatch() - began
        overhead.append(whole - result.wall_ns)
        tags.append(result.wall_ns)
    return overhead, tags


def run(quick: bool = False, runs: int = 0) -> Result:
    """Measure each kind of run, and one ``simulate`` for comparison."""
    count = runs or (200 if quick else 3000)
    rows = []
    for kind, record in KINDS.items():
        prepared = prepare(scenario(), engine="compiled")
        overheads(prepared, 20, record)
        overhead, tags = overheads(prepared, count, record)
        figures = spread(overhead)
        rows.append(
            Row(f"overhead, {kind}", figures, f"median <= {BOUND_NS / 1e3:g} us",
                float(figures["median [ns]"] or 0.0) <= BOUND_NS)
        )  # fmt: skip
        rows.append(Row(f"compiled tags, {kind}", spread(tags)))
    rows.append(Row("simulate of the same, without recording", spread(_simulated(count // 50))))
    return Result("prepared", "a prepared run of 1 s of unstable", tuple(rows))


def _simulated(count: int) -> list[int]:
    made, found = scenario(), []
    for k in range(max(2, count)):
        began = stopwatch()
        simulate(made, seed=k, until=1, engine="compiled")
        found.append(stopwatch() - began)
    return found
