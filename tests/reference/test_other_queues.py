"""Queues beside Erlang's M/M/c: M/D/1 (Pollaczek and Khinchine), and one without a line (Erlang B).

Each check fails by chance, where nothing is wrong, once in 10,000; errors that are planted are
caught by the same checks.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import pytest
import simpy

from rtsim.core.signals import Signals
from rtsim.discrete import Agenda, Processes
from rtsim.record.reading import Recording
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import Replications, held_average, mean_after, replicate
from rtsim.testing.verification import check_mean

WAIT_MD1 = 2.0
"""s in the line of M/D/1 at 0.8/s, 1 s of service: Pollaczek and Khinchine."""
BLOCKED = 4 / 19
"""Of customers at 2/s for three servers of 1/s without a line: Erlang B."""


def other_queue(
    arrival: float, servers: int, room: float = math.inf, varies: bool = False, until: float = 1000
) -> Scenario:
    """Service takes 1 s, always or on average; who finds ``room`` customers there goes away."""

    def setup(agenda: Agenda) -> None:
        resource = simpy.Resource(agenda, servers)
        arrivals, services = agenda.random("arrivals"), agenda.random("services")

        def show() -> None:
            agenda.write(waiting=len(resource.queue), served=resource.count)

        def customer() -> Generator[Any, Any, None]:
            came = agenda.now
            with resource.request() as turn:
                show()
                yield turn
                show()
                wait = agenda.now - came
                yield agenda.timeout(services.exponential() if varies else 1.0)
            show()
            agenda.send("customers", wait=wait)

        def coming() -> Generator[Any, Any, None]:
            while True:
                yield agenda.timeout(arrivals.exponential() / arrival)
                stays = resource.count + len(resource.queue) < room
                agenda.send("asked", stays=stays)
                if stays:
                    agenda.process(customer())

        agenda.process(coming())

    out = Scenario("other-queue", until=until)
    processes = Processes(
        setup, outputs=Signals("waiting", "served"),
        messages={"customers": Signals("wait [s]"), "asked": Signals("stays")},
    )  # fmt: skip
    out.processes("queue", processes)
    return out


def of_other(recording: Recording) -> dict[str, float]:
    after = 150.0
    return {
        "Lq": held_average(recording, "messages/queue.waiting", after),
        "served": held_average(recording, "messages/queue.served", after),
        "Wq": mean_after(recording, "messages/customers.wait", after),
        "stays": mean_after(recording, "messages/asked.stays", after),
    }


@pytest.mark.long
def test_service_that_always_takes_as_long() -> None:
    """M/D/1: half the line of M/M/1, which the same check tells from it."""
    found = replicate(lambda: other_queue(0.8, 1), of_other, count=25, seed=100)
    check_mean(found["served"], 0.8, what="busy")
    check_mean(found["Wq"], WAIT_MD1, what="Wq")
    check_mean(found["Lq"], 0.8 * WAIT_MD1, what="Lq")
    assert found["stays"].tolist() == [1.0] * 25
    varies = replicate(lambda: other_queue(0.8, 1, varies=True), of_other, count=25, seed=100)
    with pytest.raises(AssertionError, match="Wq is"):
        check_mean(varies["Wq"], WAIT_MD1, what="Wq")


@pytest.mark.long
@pytest.mark.parametrize("varies", [True, False])
def test_customers_that_find_no_server_go_away(varies: bool) -> None:
    """Erlang B, whatever the distribution of service; with one place to wait it is another."""

    def lost(room: int) -> Replications:
        make = lambda: other_queue(2.0, 3, room, varies, until=450)  # noqa: E731
        return replicate(make, of_other, count=15, seed=100)

    found = lost(room=3)
    check_mean(1.0 - found["stays"], BLOCKED, what="share that goes away")
    check_mean(found["served"], 2.0 * (1.0 - BLOCKED), what="servers that are busy")
    assert found["Lq"].tolist() == [0.0] * 15
    with pytest.raises(AssertionError, match="goes away"):
        check_mean(1.0 - lost(room=4)["stays"], BLOCKED, what="share that goes away")
