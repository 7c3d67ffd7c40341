"""Queues and machine repair against their analytic means, and SimPy's published machine shop.

The means are of queueing theory (Erlang C; Pollaczek and Khinchine; machine repair as a birth and
death process), computed apart from this code.  Each check fails by chance, where nothing is wrong,
once in 10,000; seeds are fixed, so that one that passed goes on passing.  Errors that are planted
are caught by the same checks.

Queues beside Erlang's M/M/c: M/D/1 (Pollaczek and Khinchine), and one without a line (Erlang B).

Each check fails by chance, where nothing is wrong, once in 10,000; errors that are planted are
caught by the same checks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

import numpy as np
import pytest
import simpy

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import time_average
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.discrete import Agenda, Processes
from rtsim.models import machine_shop
from rtsim.models.queues import in_the_long_run
from rtsim.models.queues import scenario as queue
from rtsim.record.reading import Recording
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import Replications, held_average, mean_after, replicate, trace_of
from rtsim.testing.verification import check_limit, check_mean

MMC = {
    (0.8, 1): {"L": 4.0, "Lq": 3.2, "W": 5.0, "Wq": 4.0, "P0": 0.2, "waits": 0.8},
    (0.5, 1): {"L": 1.0, "Lq": 0.5, "W": 2.0, "Wq": 1.0, "P0": 0.5, "waits": 0.5},
    (2.0, 3): {"L": 26 / 9, "Lq": 8 / 9, "W": 13 / 9, "Wq": 4 / 9, "P0": 1 / 9, "waits": 4 / 9},
    (1.5, 2): {"L": 24 / 7, "Lq": 27 / 14, "W": 16 / 7, "Wq": 9 / 7, "P0": 1 / 7, "waits": 9 / 14},
}
"""By arrival rate and servers, service rate 1/s: customers present and in the line, s in all and in
the line, share of time that it is empty, share of customers that wait (Erlang C)."""
LATE = {(arrival, 1): math.log(20.0) / (1.0 - arrival) for arrival in (0.8, 0.5)}
"""s from coming to leaving that one customer in twenty exceeds: ln 20 / (1 - arrival rate)."""
REPAIR = {
    0.0: {"available": 0.8210033288017883, "repairs": 0.027366777626726277, "down": 65.4065574105},
    1.0: {"available": 0.7854176568926527, "repairs": 0.026180588563088424, "down": 81.9623831566},
}
"""10 machines, 300 min to a failure, 30 min a repair (always; exponential): share that work,
repairs a minute, min from failure to work."""
PARTS = 3310.2854217288104
"""Of each machine in four weeks, with repairs that always take as long."""
MINUTE = machine_shop.MINUTE


def of_queue(after: float, late: float = math.inf) -> Callable[[Recording], dict[str, float]]:
    """What a run says of the queue when it has warmed up."""

    def measure(recording: Recording) -> dict[str, float]:
        waiting = held_average(recording, "messages/queue.waiting", after)
        served = held_average(recording, "messages/queue.served", after)
        track = recording.track("messages/customers")
        later = track.rows.ns > after * 1e9
        waits = track.column("wait")[later]
        return {
            "P0": empty(recording, after),
            "waits": float((waits > 0.0).mean()),
            "late": float((track.column("total")[later] > late).mean()),
            "busy": served,
            "L": waiting + served,
            "Lq": waiting,
            "W": mean_after(recording, "messages/customers.total", after),
            "Wq": mean_after(recording, "messages/customers.wait", after),
        }

    return measure


def empty(recording: Recording, after: float) -> float:
    """Share of time that nobody is served."""
    track = recording.track("messages/queue")
    nobody = (track.column("served") == 0.0).astype(np.float64)
    end = int((recording.footer or {})["ended"])
    return time_average(track.integer("arrival"), nobody, int(after * 1e9), end, before=1.0)


def of_shop(recording: Recording) -> dict[str, float]:
    """Without the first day, in which all machines are new."""
    after = 24 * 60 * MINUTE
    working = held_average(recording, "messages/shop.working", after)
    down = recording.track("messages/repairs").rows
    counted = down.floats[down.ns > after * 1e9, 1]
    return {"available": working / 10, "count": float(len(counted)), "down": counted.mean() / 60}


@pytest.mark.parametrize(("arrival", "servers"), MMC)
def test_erlang(arrival: float, servers: int) -> None:
    known = in_the_long_run(arrival, 1.0, servers)
    expected = MMC[arrival, servers]
    found = {
        "L": known.present, "Lq": known.waiting, "W": known.total, "Wq": known.wait,
        "P0": expected["P0"], "waits": known.waits,
    }  # fmt: skip
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_line_that_grows_for_ever_has_no_mean() -> None:
    with pytest.raises(ScenarioError, match="grows without limit"):
        in_the_long_run(2.0, 1.0, 2)


def replicated(case: tuple[float, int], until: float, count: int, **more: float) -> Replications:
    """Each is several times as long as the queue remembers, before and after the cut."""
    arrival, servers = case
    return replicate(
        lambda: queue(arrival, servers=servers, until=until, **more),
        of_queue(0.35 * until, LATE.get(case, math.inf)),
        count=count,
        seed=100,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "until"), [((0.5, 1), 400), ((0.8, 1), 1500), ((2.0, 3), 250), ((1.5, 2), 400)]
)
def test_mmc(case: tuple[float, int], until: float) -> None:
    found = replicated(case, until, 25)
    check_mean(found["busy"], case[0], what="servers that are busy")
    for name, expected in MMC[case].items():
        check_mean(found[name], expected, what=name)
    if case in LATE:
        check_mean(found["late"], 0.05, what="share that takes longer than one in twenty")


def test_each_customer_waits_as_lindley_says() -> None:
    """W' = max(0, W + service - time to the next): the same draws, and no events at all."""
    waits = trace_of(queue(0.8, until=500), seed=2).messages["customers"]["wait"]
    streams = RandomStreams(2)
    arrivals, services = (streams.stream(f"processes/queue/{n}") for n in ("arrivals", "services"))
    between = arrivals.exponential(size=len(waits)) / 0.8
    takes = services.exponential(size=len(waits))
    expected = [0.0]
    for service, gap in zip(takes[:-1], between[1:], strict=True):
        expected.append(max(0.0, expected[-1] + service - gap))
    assert len(waits) > 300
    check_limit(waits, np.array(expected), atol=1e-6, what="wait of customer")


@pytest.mark.full
@pytest.mark.parametrize("case", MMC)
def test_mmc_at_length(case: tuple[float, int]) -> None:
    found = replicated(case, 3000, 40)
    for name, expected in MMC[case].items():
        estimate = check_mean(found[name], expected, what=name)
        assert estimate.half_width < 0.25 * expected
    if case in LATE:
        check_mean(found["late"], 0.05, what="share that takes longer than one in twenty")


def test_planted_errors_are_caught() -> None:
    """A server that is a fifth too slow; the same model with its warm-up left in."""
    slow = replicated((0.5, 1), 400, 25, service=0.8)
    with pytest.raises(
        AssertionError, match=r"busy is .* fails this check about once in 1e\+04 runs"
    ):
        check_mean(slow["busy"], 0.5, what="busy")
    cold = replicate(lambda: queue(0.8, until=30), of_queue(after=0), count=40, seed=100)
    with pytest.raises(AssertionError, match="L is"):
        check_mean(cold["L"], MMC[0.8, 1]["L"], what="L")


def shop(varies: float, weeks: float = 2.0) -> Scenario:
    """Parts are of no interest here, and take for ever."""
    out = machine_shop.scenario(weeks=weeks)
    for name, value in (("part", 1e7), ("repair_varies", varies), ("other_job", 86_400.0)):
        out.set(f"shop.{name}", value)
    return out


@cache
def repaired(varies: float) -> Replications:
    return replicate(lambda: shop(varies), of_shop, count=10, seed=7)


@pytest.mark.parametrize("varies", REPAIR)
def test_machine_repair(varies: float) -> None:
    found, expected = repaired(varies), REPAIR[varies]
    check_mean(found["available"], expected["available"], what="share that works")
    check_mean(found["down"], expected["down"], what="min from failure to work")
    minutes = (2 * 7 - 1) * 24 * 60
    check_mean(found["count"] / minutes, expected["repairs"], what="repairs a minute")


def parts_in_four_weeks(repair: float) -> Replications:
    """A machine, after the first day of a week; ``repair`` in s."""

    def make() -> Scenario:
        out = machine_shop.scenario(weeks=1)
        out.set("shop.repair", repair)
        return out

    def measure(recording: Recording) -> dict[str, float]:
        total, ns = recording.messages["shop"]["total"], recording.track("messages/shop").ns
        made = total[-1] - total[ns <= 24 * 60 * MINUTE * 1e9][-1]
        return {"parts": made / machine_shop.MACHINES * 4 * 7 / 6}

    return replicate(make, measure, count=8, seed=7)


@pytest.mark.long
def test_named_streams_make_the_parts_that_theory_foretells() -> None:
    """Working 82.1 % of the time, at 10 min a part; with a quicker repairman they make more."""
    theory = REPAIR[0.0]["available"] * 4 * machine_shop.WEEK / (10 * MINUTE)
    assert pytest.approx(theory, rel=1e-12) == PARTS
    check_mean(parts_in_four_weeks(30 * MINUTE)["parts"], PARTS, what="parts of a machine")
    with pytest.raises(AssertionError, match="parts of a machine is"):
        check_mean(parts_in_four_weeks(20 * MINUTE)["parts"], PARTS, what="parts of a machine")


def test_one_kind_of_repair_is_told_from_the_other() -> None:
    with pytest.raises(AssertionError, match="but expected"):
        check_mean(repaired(1.0)["available"], REPAIR[0.0]["available"])


def test_machine_repair_in_closed_form() -> None:
    """The table is what theory says, of which the simulation knows nothing.

    Exponential repairs: a birth and death process.  Repairs that always take as long: Ashcroft,
    J. R. Statist. Soc. B 12 (1950), 145, by the repairs between two times that all work.
    """
    machines, failures, repair = machine_shop.MACHINES, 1 / 300, 30.0
    down = [math.perm(machines, k) * (failures * repair) ** k for k in range(machines + 1)]
    grows = [math.expm1(k * failures * repair) for k in range(1, machines)]
    terms = [math.comb(machines - 1, k) * math.prod(grows[:k]) for k in range(machines)]
    between = sum(terms)
    rates = {
        1.0: (1.0 - 1.0 / sum(down)) / repair,
        0.0: between / (between * repair + 1.0 / (machines * failures)),
    }
    for varies, repairs in rates.items():
        available = repairs / (machines * failures)
        expected = {
            "available": available,
            "repairs": repairs,
            "down": machines * (1.0 - available) / repairs,
        }
        assert expected == pytest.approx(REPAIR[varies], rel=1e-11, abs=0.0)


class Mersenne:
    """SimPy's example draws from one generator of Python's own."""

    def __init__(self, one: random.Random) -> None:
        self._one = one

    def part(self) -> float:
        while (drawn := self._one.normalvariate(10.0, 2.0)) <= 0.0:
            pass
        return MINUTE * drawn

    def failure(self) -> float:
        return MINUTE * self._one.expovariate(1 / 300.0)

    def repair(self) -> float:
        return 30 * MINUTE


def as_published(agenda: Agenda) -> None:
    one = random.Random(42)
    machine_shop.Shop(agenda, lambda _, __: Mersenne(one))


def test_the_machine_shop_makes_the_published_parts() -> None:
    """SimPy's documentation, examples, "Machine Shop": parts of ten machines in four weeks."""
    out = Scenario("machine-shop", until=4 * machine_shop.WEEK)
    processes = Processes(
        as_published, outputs=machine_shop.OUTPUTS, parameters=machine_shop.PARAMETERS,
        messages={"repairs": machine_shop.REPAIRS},
    )  # fmt: skip
    out.processes("shop", processes)
    published = [3251, 3273, 3242, 3343, 3387, 3244, 3269, 3185, 3302, 3279]
    assert trace_of(out)["shop.parts"][-1].tolist() == published


def test_a_shop_whose_machines_do_not_break_is_a_simpler_one() -> None:
    """A machine alone makes the whole parts that fit in, and nothing else is drawn."""
    out = machine_shop.scenario(weeks=0.1)
    out.set("shop.failure", 1e8)
    made = trace_of(out, seed=3)["shop.parts"][-1]
    p = machine_shop.PARAMETERS.initial()
    agenda = Agenda("shop", machine_shop.SHOP, (), p, RandomStreams(3))
    alone = [machine_shop.Streams(agenda, i) for i in range(machine_shop.MACHINES)]
    whole = []
    for one in alone:
        left, count = 0.1 * machine_shop.WEEK, 0
        while (left := left - one.part()) >= 0.0:
            count += 1
        whole.append(count)
    check_limit(made, np.array(whole, dtype=float), what="parts of machine")


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
