"""(i) Discrete events: the cost of a customer of M/M/1, beside SimPy alone, and by how many.

Both serve the same customers with the same draws.  SimPy alone keeps no tags, sends no messages and
records nothing: the ratio is what those cost, and has no bound.  That they cost the same for the
ten thousandth customer as for the thousandth has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

from rtsim.core.clock import stopwatch
from rtsim.core.random_streams import RandomStreams
from rtsim.models.queues import ARRIVALS, SERVICES, scenario
from rtsim.record.memory_recorder import MemoryRecorder, Recorder
from rtsim.runs.simulation import simulate
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio

ARRIVAL, SERVICE = 0.5, 1.0
LINEAR = 1.5


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

    linear = figures("recorded", "few")
    rows = (
        Row("SimPy alone", figures("alone", "alone")),
        Row("in a run, not recorded", figures("run", "alone")),
        Row("in a run, recorded in memory", figures("recorded", "alone")),
        Row(f"customer {many} against customer {many // 10}", linear, f"<= {LINEAR:g} x",
            linear["ratio [x]"] <= LINEAR),
    )  # fmt: skip
    return Result("discrete", f"M/M/1, {many} customers, {rounds} rounds", rows)
