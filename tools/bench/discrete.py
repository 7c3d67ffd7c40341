"""(i) Discrete events: the time per customer of M/M/1 in a run, against SimPy alone.

Both serve the same customers with the same draws.  SimPy alone has no outputs, sends no messages
and records nothing; the ratio is the cost of these, and has a bound.  The time per customer must
also not grow with the number of customers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

from rtsim.core.clock import stopwatch
from rtsim.core.random_streams import RandomStreams
from rtsim.models.queues import ARRIVALS, SERVICES, scenario
from rtsim.record.recorders import MemoryRecorder, Recorder
from rtsim.runs.simulation import simulate
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio

ARRIVAL, SERVICE = 0.5, 1.0
AGAINST_SIMPY, LINEAR = 2.0, 1.5


def alone(customers: int) -> Callable[[], float]:
    """ns a customer in SimPy's own loop."""

    def run() -> float:
        streams = RandomStreams(0)
        arrivals, services = (streams.stream(f"processes/queue/{n}") for n in (ARRIVALS, SERVICES))
        environment = simpy.Environment()
        servers = simpy.Resource(environment)

        def customer() -> Generator[Any, Any, None]:
            takes = services.exponential() / SERVICE
            with servers.request() as turn:
                yield turn
                yield environment.timeout(takes)

        def coming() -> Generator[Any, Any, None]:
            while True:
                yield environment.timeout(arrivals.exponential() / ARRIVAL)
                environment.process(customer())

        environment.process(coming())
        began = stopwatch()
        environment.run(until=customers / ARRIVAL)
        return (stopwatch() - began) / customers

    return run


def in_a_run(customers: int, recorder: Callable[[], Recorder | None]) -> Callable[[], float]:
    """ns a customer in the executive's."""
    queue = scenario(ARRIVAL, SERVICE, until=customers / ARRIVAL)
    return lambda: simulate(queue, recorder=recorder()).wall_ns / customers


def run(quick: bool) -> Result:
    many, rounds = (1000, 2) if quick else (10_000, 9)
    times = in_turns(
        {
            "alone": alone(many),
            "run": in_a_run(many, lambda: None),
            "recorded": in_a_run(many, MemoryRecorder),
            "few": in_a_run(many // 10, MemoryRecorder),
        },
        rounds,
    )

    def figures(name: str, against: str) -> dict[str, float]:
        ratio = median_ratio(times[name], times[against])
        return {"a customer [ns]": float(np.median(times[name])), "ratio [x]": ratio}

    def bounded(what: str, name: str, against: str, bound: float) -> Row:
        found = figures(name, against)
        return Row(what, found, f"<= {bound:g} x", found["ratio [x]"] <= bound)

    rows = (
        Row("SimPy alone", figures("alone", "alone")),
        bounded("in a run, not recorded", "run", "alone", AGAINST_SIMPY),
        bounded("in a run, recorded in memory", "recorded", "alone", AGAINST_SIMPY),
        bounded(f"customer {many} against customer {many // 10}", "recorded", "few", LINEAR),
    )
    return Result("discrete", f"M/M/1, {many} customers, {rounds} rounds", rows)
