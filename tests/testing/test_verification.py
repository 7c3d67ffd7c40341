"""Replications and checks: they hold as often as they say, and fail where something is wrong.

Checks that would compare nothing, or hold values against no number, say so and pass nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from discrete_parts import Steps

from rtsim.core.errors import ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration
from rtsim.discrete import Agenda, Processes
from rtsim.equations.model import Model
from rtsim.models import machine_shop
from rtsim.models.ball import BALL
from rtsim.models.queues import scenario as queue
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import (
    check_determinism,
    held_average,
    mean_after,
    replicate,
    trace_of,
)
from rtsim.testing.verification import (
    check_analytic,
    check_degenerate,
    check_limit,
    check_mean,
    check_order,
    order_of,
)


def decay(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -x[0]


DECAY = Model("decay", Signals("x [1] = 1"), decay)


def decaying(step: Duration, solver: str = "rk4") -> Scenario:
    out = Scenario("decay", until=2)
    out.plant("d", DECAY, step=step, solver=solver)
    return out


# -- replications ---------------------------------------------------------------------------------


def test_replications_differ_and_come_again() -> None:
    def measure(recording: object) -> dict[str, float]:
        return {
            "wait": mean_after(recording, "messages/customers.wait"),  # type: ignore[arg-type]
            "busy": held_average(recording, "messages/queue.served", 10),  # type: ignore[arg-type]
        }

    found = replicate(lambda: queue(until=40), measure, count=3, seed=5)
    assert found.seeds == (5, 6, 7)
    assert len(set(found["wait"])) == 3
    again = replicate(lambda: queue(until=40), measure, count=3, seed=5)
    assert found["busy"].tolist() == again["busy"].tolist()
    assert found.estimate("busy").count == 3
    assert str(found).startswith("wait: ")
    with pytest.raises(UnknownName, match="did you mean wait"):
        found["waits"]


def clicking(after: float = 1.0) -> Scenario:
    """y is 4 from ``after`` s on; the run takes 4 s."""

    def setup(agenda: Agenda) -> None:
        def body() -> Steps:
            yield agenda.timeout(after)
            agenda.write(y=4.0)

        agenda.process(body())

    out = Scenario("s", until=4)
    out.processes("p", Processes(setup, outputs=Signals("y")))
    return out


def test_what_held_before_the_first_message_is_given() -> None:
    recording = trace_of(clicking())
    assert held_average(recording, "messages/p.y") == (0 + 3 * 4.0) / 4
    assert held_average(recording, "messages/p.y", before=8.0) == (8.0 + 3 * 4.0) / 4
    assert held_average(recording, "messages/p.y", "1/2", before=8.0) == (4.0 + 3 * 4.0) / 3.5
    assert held_average(recording, "messages/p.y", 2, before=8.0) == 4.0


def test_what_was_declared_held_before_the_first_message() -> None:
    def setup(agenda: Agenda) -> None:
        pass

    out = Scenario("s", until=4)
    out.processes("p", Processes(setup, outputs=Signals("y = 5")))
    assert held_average(trace_of(out), "messages/p.y") == 5.0


def test_the_average_of_a_plants_signal_is_along_its_lines() -> None:
    """Of a ball that falls: its speed is a line already, its height nearly one."""
    ball = trace_of(falling())
    t, exact = 0.25, 5.0 - 9.81 / 2 * (0.5**2 + 0.5 * 0.25 + 0.25**2) / 3
    assert held_average(ball, "ball.speed", t) == pytest.approx(-9.81 * (t + 0.5) / 2)
    assert held_average(ball, "ball.height", t) == pytest.approx(exact, abs=1e-4)


def test_averages_that_mean_nothing_are_refused() -> None:
    ball = trace_of(falling())
    with pytest.raises(
        ScenarioError, match=r"ball.height is a continuous signal.*use held_average"
    ):
        mean_after(ball, "ball.height")
    with pytest.raises(UnknownName, match="did you mean ball"):
        held_average(ball, "height")
    shop = trace_of(machine_shop.scenario(weeks=0.01))
    with pytest.raises(ScenarioError, match=r"name one element: parts_0 … parts_9"):
        held_average(shop, "messages/shop.parts")


def falling() -> Scenario:
    """For half a second, from 5 m."""
    out = Scenario("ball", until=0.5)
    out.plant("ball", BALL, step="1/100", states={"height": 5.0})
    return out


def test_a_mean_after_the_last_message_is_none() -> None:
    with pytest.raises(ScenarioError, match="run for longer"):
        mean_after(trace_of(queue(until=40)), "messages/customers.wait", after=40)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: replicate(queue, lambda _: {}, count=1), "2 or more"),
        (lambda: order_of([1.0], [1.0]), "two or more"),
        (lambda: check_mean([1.0, math.nan], 1.0), r"1 of 2 samples"),
        (lambda: check_mean([1.0, 2.0], math.nan), "the mean cannot be compared with nan"),
    ],
)
def test_what_says_nothing_is_refused(act: object, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        act()  # type: ignore[operator]


# -- checks ---------------------------------------------------------------------------------------


def test_a_right_mean_fails_as_often_as_is_said_and_a_wrong_one_nearly_always() -> None:
    """2000 checks at one in 20: within 4 standard deviations of that."""
    samples = np.random.Generator(np.random.Philox(4)).standard_normal((2000, 20))

    def failed(shift: float) -> int:
        count = 0
        for row in samples:
            try:
                check_mean(row + shift, 0.0, chance=0.05)
            except AssertionError:
                count += 1
        return count

    assert abs(failed(0.0) - 100) < 4 * math.sqrt(2000 * 0.05 * 0.95)
    assert failed(1.5) > 1990


def test_analytic() -> None:
    recording = trace_of(decaying(0.1))
    assert check_analytic(recording, "d.x", lambda t: np.exp(-t), atol=1e-6) < 1e-6
    with pytest.raises(
        AssertionError, match=r"d\.x is .* exact value is .* error is .*allowed 1e-09"
    ):
        check_analytic(recording, "d.x", lambda t: np.exp(-t), atol=1e-9)


def test_order() -> None:
    def make(solver: str) -> float:
        return check_order(
            lambda step: decaying(step, solver), "d.x", math.exp(-2),
            ["1/10", "1/20", "1/40"], {"euler": 1, "rk4": 4}[solver],
        )  # fmt: skip

    assert make("rk4") == pytest.approx(4.0, abs=0.2)
    assert make("euler") == pytest.approx(1.0, abs=0.2)
    with pytest.raises(AssertionError, match=r"order 1\.01, expected 2 \(errors 1/10 s"):
        check_order(lambda step: decaying(step, "euler"), "d.x", math.exp(-2), ["1/10", "1/20"], 2)
    with pytest.raises(AssertionError, match="the order cannot be observed"):
        order_of([0.0, 1.0], [1.0, 2.0])


def test_degenerate() -> None:
    """Nobody comes: nobody waits.  Servers without number: nobody waits either."""

    def longest(**rates: Any) -> float:
        track = trace_of(queue(until=50, **rates)).track("messages/queue")
        return float(track.column("waiting").max()) if len(track) else 0.0

    check_degenerate(longest, [({"arrival": 1e-9}, 0.0), ({"servers": 1000}, 0.0)], atol=0.0)
    with pytest.raises(AssertionError, match=r"arrival = 5\.0: .* expected 0"):
        check_degenerate(longest, [({"arrival": 5.0}, 0.0)], atol=0.0)


def test_limit() -> None:
    """A thousand servers are no more than a hundred, where nobody waits for one."""
    waits = [
        trace_of(queue(2.0, servers=n, until=50), seed=2).messages["customers"]["total"]
        for n in (100, 1000)
    ]
    assert check_limit(*waits) == 0.0
    assert check_limit([2.0, 1.0], [2.0, 1.1], rtol=0.1) == pytest.approx(0.1)
    with pytest.raises(
        AssertionError, match=r"wait 1 is 1 in the full model, but 1\.1 in the simple"
    ):
        check_limit([2.0, 1.0], [2.0, 1.1], atol=0.09, what="wait")
    with pytest.raises(AssertionError, match="shape"):
        check_limit([2.0], [2.0, 1.1])


INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def decayed() -> Recording:
    return trace_of(decaying(0.1))


@pytest.mark.parametrize("odd", [INF, -INF, NAN])
@pytest.mark.parametrize("rtol", [0.0, 1e-3])
def test_an_exact_solution_that_is_not_finite_passes_nothing(
    decayed: Recording, odd: float, rtol: float
) -> None:
    def exact(t: Vector) -> Vector:
        out = 100.0 + t
        out[5] = odd
        return out

    with pytest.raises(ScenarioError, match=rf"the exact solution for d\.x is {odd} at 0\.5 s"):
        check_analytic(decayed, "d.x", exact, atol=1e-6, rtol=rtol)


def test_an_exact_solution_of_another_shape_is_refused(decayed: Recording) -> None:
    with pytest.raises(ShapeError, match=r"\(21, 1\), but d\.x has shape \(21,\)"):
        check_analytic(decayed, "d.x", lambda t: np.exp(-t)[:, None], atol=9.0)
    assert check_analytic(decayed, "d.x", lambda _: 0.5, atol=9.0) == 0.5


@pytest.mark.parametrize("given", [{"atol": INF}, {"atol": NAN}, {"rtol": -1.0}, {"rtol": INF}])
def test_a_tolerance_that_is_no_bound_is_refused(decayed: Recording, given: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match="give a finite number >= 0"):
        check_analytic(decayed, "d.x", lambda t: 100.0 * t, **given)
    with pytest.raises(ScenarioError, match="give a finite number >= 0"):
        check_limit([1.0], [2.0], **given)
    if "atol" in given:
        with pytest.raises(ScenarioError, match="give a finite number >= 0"):
            check_degenerate(lambda: 1.0, [({}, 2.0)], **given)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: check_determinism(lambda: decaying(0.1), runs=1), "runs = 1 is too few"),
        (lambda: check_determinism(lambda: decaying(0.1), runs=0), "runs = 0 is too few"),
        (lambda: check_determinism(lambda: Scenario("empty", until=1)), "has no rows to compare"),
        (
            lambda: check_degenerate(lambda: 1.0, [], atol=0.0),
            "no cases are given; give at least one",
        ),
        (lambda: check_limit([], []), "no values to compare"),
        (lambda: order_of([1.0, 2.0], [0.1, 0.1]), "not all equal"),
        (lambda: order_of([1.0, 2.0], [0.0, 0.1]), "finite steps > 0"),
    ],
)
def test_what_compares_nothing_is_refused(act: Callable[[], object], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        act()


def test_a_signal_without_rows_is_held_against_nothing() -> None:
    recorder = MemoryRecorder()
    recorder.track("d", ("step", "side"), Signals("x"))
    with pytest.raises(ScenarioError, match=r"d\.x has no rows"):
        check_analytic(recorder.recording(), "d.x", lambda t: t, atol=1.0)


@pytest.mark.parametrize("odd", [INF, -INF])
def test_equal_infinities_are_equal_and_others_are_not(odd: float) -> None:
    assert check_limit([odd, 1.0], [odd, 1.0]) == 0.0
    check_degenerate(lambda: odd, [({}, odd)], atol=0.0)
    for other in (-odd, 1e300, NAN):
        for pair in (([odd], [other]), ([other], [odd])):
            with pytest.raises(AssertionError, match="the difference is"):
                check_limit(*pair, rtol=0.5)
        with pytest.raises(AssertionError, match="expected"):
            check_degenerate(lambda: odd, [({}, other)], atol=1.0)
    with pytest.raises(AssertionError, match="the difference is"):
        check_limit([NAN], [NAN])


@pytest.mark.parametrize("odd", [INF, NAN])
def test_errors_that_are_not_finite_ask_for_smaller_steps(odd: float) -> None:
    with pytest.raises(AssertionError, match="use smaller steps") as raised:
        order_of([odd, 1.0], [0.2, 0.1])
    assert f"0.2 s: {odd}" in str(raised.value)
    with pytest.raises(AssertionError, match="use larger steps"):
        order_of([0.0, 1.0], [0.1, 0.2])
