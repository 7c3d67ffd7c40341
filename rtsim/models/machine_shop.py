"""A machine shop with machines that break down, and one repairman who also has less urgent jobs.

The model extends SimPy's example Machine Shop. Each of ten machines makes a part in about ten
minutes. On average, a machine breaks down after 300 minutes of work, and a repair takes 30 minutes.
Between repairs, the repairman does less urgent jobs, which a breakdown interrupts. Queueing theory
gives the long-run averages, because the times to failure are exponential. The queue is M/D/1 with
ten customers; with exponential repair times, it is M/M/1.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import simpy

from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration
from rtsim.discrete import Agenda, Processes
from rtsim.scenario.scenario import Scenario

MINUTE = 60.0
WEEK = 7 * 24 * 60 * MINUTE
MACHINES = 10
BREAKS, OTHER = 1, 2
"""Priorities of the repairman's jobs. A smaller number is served first."""


class Draws(Protocol):
    """Random times (s) of one machine."""

    def part(self) -> float: ...

    def failure(self) -> float: ...

    def repair(self) -> float: ...


class Streams:
    """Times from named random streams. Each machine has streams of its own."""

    def __init__(self, agenda: Agenda, machine: int) -> None:
        self._parts = agenda.random(f"parts/{machine}")
        self._failures = agenda.random(f"failures/{machine}")
        self._repairs = agenda.random(f"repairs/{machine}")
        self._agenda = agenda

    def part(self) -> float:
        """Return a random time (s) to make a part, from a normal distribution."""
        mean, deviation = self._agenda.read("part"), self._agenda.read("part_deviation")
        while (drawn := self._parts.normal(mean, deviation)) <= 0.0:
            pass
        return float(drawn)

    def failure(self) -> float:
        return float(self._failures.exponential(self._agenda.read("failure")))

    def repair(self) -> float:
        """Return the mean repair time, or an exponential time if ``repair_varies`` is 1."""
        mean = self._agenda.read("repair")
        varies = self._agenda.read("repair_varies")
        return float(self._repairs.exponential(mean)) if varies else float(mean)


class Shop:
    """The machines, the repairman and the counters of one run."""

    def __init__(self, agenda: Agenda, draws: Callable[[Agenda, int], Draws]) -> None:
        self.agenda = agenda
        self.repairman = simpy.PreemptiveResource(agenda)
        self.parts = [0] * MACHINES
        self.broken = [False] * MACHINES
        self.jobs = 0
        for i in range(MACHINES):
            one = draws(agenda, i)
            working = agenda.process(self.working(i, one))
            agenda.process(self.breaking(i, one, working))
        agenda.process(self.other_jobs())

    def show(self) -> None:
        self.agenda.write(
            parts=self.parts, working=MACHINES - sum(self.broken), total=sum(self.parts),
            other_jobs=self.jobs,
        )  # fmt: skip

    def working(self, i: int, draws: Draws) -> Generator[Any, Any, None]:
        """Make parts one after another; finish an interrupted part after the repair."""
        agenda = self.agenda
        while True:
            left = draws.part()
            while left > 0.0:
                begun = agenda.now
                try:
                    yield agenda.timeout(left)
                    left = 0.0
                except simpy.Interrupt:
                    left -= agenda.now - begun
                    yield from self.repaired(i, draws)
            self.parts[i] += 1
            self.show()

    def repaired(self, i: int, draws: Draws) -> Generator[Any, Any, None]:
        agenda, broke = self.agenda, self.agenda.now
        self.broken[i] = True
        self.show()
        with self.repairman.request(priority=BREAKS) as turn:
            yield turn
            yield agenda.timeout(draws.repair())
        self.broken[i] = False
        self.show()
        agenda.send("repairs", machine=i, down=agenda.now - broke)

    def breaking(self, i: int, draws: Draws, working: simpy.Process) -> Generator[Any, Any, None]:
        """Break the machine at exponential times.

        A breakdown during a repair is ignored.
        """
        while True:
            yield self.agenda.timeout(draws.failure())
            if not self.broken[i]:
                working.interrupt()

    def other_jobs(self) -> Generator[Any, Any, None]:
        """Do the repairman's other jobs while no machine is broken."""
        agenda = self.agenda
        while True:
            left = agenda.read("other_job")
            while left > 0.0:
                with self.repairman.request(priority=OTHER) as turn:
                    yield turn
                    begun = agenda.now
                    try:
                        yield agenda.timeout(left)
                        left = 0.0
                    except simpy.Interrupt:
                        left -= agenda.now - begun
            self.jobs += 1
            self.show()


def setup(agenda: Agenda) -> None:
    """Start the processes of a machine shop with random times."""
    Shop(agenda, Streams)


OUTPUTS = Signals(
    Signal("parts", "1", shape=(MACHINES,), description="made by each machine"),
    Signal("working", "1", initial=float(MACHINES), description="machines that are not broken"),
    Signal("total", "1", description="parts made"),
    Signal("other_jobs", "1", description="less urgent jobs that the repairman finished"),
)
PARAMETERS = Signals(
    Signal("part", "s", initial=10 * MINUTE, low=1e-3, description="mean time of a part"),
    Signal("part_deviation", "s", initial=2 * MINUTE, low=0.0),
    Signal("failure", "s", initial=300 * MINUTE, low=1e-3, description="mean time to failure"),
    Signal("repair", "s", initial=30 * MINUTE, low=1e-3),
    Signal("repair_varies", "1", low=0.0, high=1.0, description="1: exponential, with that mean"),
    Signal("other_job", "s", initial=30 * MINUTE, low=1e-3),
)
REPAIRS = Signals("machine [1]", Signal("down", "s", description="from breaking to working again"))

SHOP = Processes(
    setup,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    messages={"repairs": REPAIRS},
    assumptions=(
        "times to failure are exponential",
        "the repairman leaves his other jobs at once for a broken machine",
    ),
)


def scenario(weeks: float = 4.0) -> Scenario:
    """Ten machines and a repairman; ``--set shop.repair=900`` shortens repairs to 900 s."""
    until: Duration = weeks * WEEK
    out = Scenario("machine-shop", until=until)
    out.processes("shop", SHOP)
    out.plot("machines that work", "shop.working")
    out.plot("parts made by each machine", "shop.parts")
    out.plot("parts and other jobs", "shop.total", "shop.other_jobs")
    out.plot("time from breaking to working [s]", "repairs.down")
    return out
