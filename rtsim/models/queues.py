"""An M/M/c queue: customers, one waiting line and several servers.

Customers arrive with ``arrival_rate`` (1/s). Each of the ``servers`` servers has the rate
``service_rate`` (1/s), and customers are served in order of arrival. If arrival_rate/service_rate <
servers, Erlang's formulas give the long-run averages (``in_the_long_run``).
"""

from __future__ import annotations

from collections.abc import Generator
from math import factorial
from typing import Any, NamedTuple

import simpy

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration
from rtsim.discrete import Agenda, Processes
from rtsim.scenario.scenario import Scenario

ARRIVALS, SERVICES = "arrivals", "services"
CUSTOMERS = Signals(
    Signal("wait", "s", description="from coming to being served"),
    Signal("service", "s"),
    Signal("total", "s", description="from coming to leaving"),
)
"""Message that is sent when a customer leaves."""


def setup(agenda: Agenda) -> None:
    """Start the processes, in which customers arrive, wait, are served and leave."""
    servers = simpy.Resource(agenda, int(agenda.read("servers")))
    arrivals, services = agenda.random(ARRIVALS), agenda.random(SERVICES)

    def show() -> None:
        agenda.write(waiting=len(servers.queue), served=servers.count)

    def customer() -> Generator[Any, Any, None]:
        came = agenda.now
        takes = services.exponential() / agenda.read("service_rate")
        with servers.request() as turn:
            show()
            yield turn
            begun = agenda.now
            show()
            yield agenda.timeout(takes)
        show()
        left = agenda.now
        agenda.send("customers", wait=begun - came, service=takes, total=left - came)

    def coming() -> Generator[Any, Any, None]:
        while True:
            yield agenda.timeout(arrivals.exponential() / agenda.read("arrival_rate"))
            agenda.process(customer())

    agenda.process(coming())


QUEUE = Processes(
    setup,
    outputs=Signals("waiting [1]", "served [1]"),
    parameters=Signals(
        Signal("arrival_rate", "1/s", initial=0.8, low=1e-9),
        Signal("service_rate", "1/s", initial=1.0, low=1e-9),
        Signal("servers", "1", initial=1.0, low=1.0),
    ),
    messages={"customers": CUSTOMERS},
    assumptions=(
        "times between arrivals and of service are exponential and independent",
        "one line, first come, first served, of any length",
    ),
)


def scenario(
    arrival: float = 0.8, service: float = 1.0, servers: int = 1, until: Duration = 5000
) -> Scenario:
    """An M/M/c queue, empty at the start; ``arrival`` and ``service`` are rates in 1/s."""
    out = Scenario("queue", until=until)
    rates = {"arrival_rate": arrival, "service_rate": service, "servers": servers}
    out.processes("queue", QUEUE, parameters=rates)
    out.plot("customers waiting and served", "queue.waiting", "queue.served")
    out.plot("wait and service of each customer [s]", "customers.wait", "customers.service")
    return out


class LongRun(NamedTuple):
    """Long-run averages of an M/M/c queue."""

    busy: float
    """Share of time in which a server is busy."""
    waits: float
    """Probability that a customer has to wait."""
    waiting: float
    """Mean number of customers in the line."""
    present: float
    """Mean number of customers in the line or being served."""
    wait: float
    """Mean time in the line, s."""
    total: float
    """Mean time from arrival to departure, s."""


def in_the_long_run(arrival: float, service: float, servers: int = 1) -> LongRun:
    """Return the long-run averages of an M/M/c queue by Erlang's C formula; rates in 1/s.

    Raises :class:`ScenarioError` if the waiting line would grow without limit.
    """
    a = arrival / service
    if not a < servers:
        raise ScenarioError(
            f"{arrival:g} customers per second for {servers} servers of {service:g} 1/s: the "
            "queue grows without limit and has no mean length; give more servers, or faster "
            "servers"
        )
    last = a**servers / factorial(servers) * servers / (servers - a)
    waits = last / (sum(a**k / factorial(k) for k in range(servers)) + last)
    waiting = waits * a / (servers - a)
    wait = waiting / arrival
    return LongRun(a / servers, waits, waiting, waiting + a, wait, wait + 1.0 / service)
