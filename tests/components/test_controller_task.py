"""A controller's task by itself: when it asks, when an answer is due, late or refused.

A controller's task by itself: failures, what is kept of it, and a time of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from controller_task_parts import INPUTS, MS, OUTPUTS, Answers, Knowing, Stand, after, at_once

from rtsim.components.controller_task import ControllerRequest, _on_the_clock
from rtsim.components.latency import ZERO, Fixed, LatencyModel, Loss
from rtsim.components.tasks import FAR, CompiledReaction
from rtsim.core.errors import ControllerError, ScenarioError, ShapeError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

# -- asked and answered


def test_without_a_latency_a_controller_answers_within_its_tick() -> None:
    one = at_once(5.0)
    one.task.react(Tag(10 * MS, 3), one.environment)
    assert one.controller.sent == [(Tag(10 * MS, 3), [2.0, -3.0])]
    assert one.samples == [("c", Tag(10 * MS, 3), [2.0, -3.0], 0)]
    (message,) = one.messages
    assert (message.initiated, message.completed) == (Tag(10 * MS, 3), Tag(10 * MS, 3))
    assert message.payload.tolist() == [5.0]
    assert one.task.request is None
    assert (one.task.sequence, one.task.due_ns, one.events) == (1, FAR, [])


def test_with_a_latency_the_answer_is_due_at_the_first_microstep_of_its_time() -> None:
    one = after(4, 5.0)
    one.time = 77
    one.task.react(Tag(10 * MS, 3), one.environment)
    assert one.task.request == ControllerRequest(Tag(10 * MS, 3), Tag(14 * MS, 0), 77)
    assert one.task.due_ns == 14 * MS
    assert not one.messages
    one.due()
    (message,) = one.messages
    assert (message.initiated, message.completed) == (Tag(10 * MS, 3), Tag(14 * MS, 0))
    assert one.task.due_ns == FAR
    one.tick(20)
    assert one.task.missed == 0


def test_requests_are_counted_and_busy_ticks_are_missed() -> None:
    one = after(15)
    one.tick(0)
    one.tick(10)
    assert one.told == [(10, "Missed")]
    assert "c: c is still busy with the request of 0.000000000 s" in one.events[0][2]
    assert one.events[0][3] == {}
    assert (one.task.missed, one.task.lates, one.task.sequence) == (1, 0, 1)
    one.due()
    one.tick(20)
    assert (one.task.missed, one.task.sequence) == (1, 2)
    assert [n for *_, n in one.samples] == [0, 1]


def test_a_request_begins_as_one_in_time() -> None:
    fresh = ControllerRequest(Tag(1), Tag(2), 3)
    assert (fresh.late, fresh.asked) == (False, 0)


def test_the_measured_time_of_a_step_comes_with_the_answer() -> None:
    controller = Answers()
    controller.stamps = lambda: (4, 5)  # type: ignore[attr-defined]
    one = Stand(controller, compute=Fixed("0.004"))
    one.tick(10)
    assert one.stamped == []
    one.due()
    assert one.stamped == [("c", Tag(10 * MS), (4, 5))]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("late", "later", "late policy 'later' of c; choose one of hold, fail, stretch"),
        ("failure", "stop", "failure policy 'stop' of c; choose one of end, hold"),
        ("offset_ns", -1, "task c has an offset of -1 ns"),
    ],
)
def test_a_policy_that_is_none(name: str, value: object, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        at_once(**{name: value})


def test_a_computation_takes_one_time() -> None:
    for compute in (Loss(ZERO, 1.0), _Twice()):
        with pytest.raises(
            ControllerError, match=r"compute latency of c gave [02] delays instead of one"
        ):
            at_once(compute=compute).tick(0)


class _Twice:
    ordered = True

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (1, size_bytes)


def test_its_computation_is_drawn_by_the_bytes_of_its_inputs() -> None:
    class Sized:
        ordered = True

        def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
            return (size_bytes,)

    one = at_once(compute=Sized())
    one.tick(0)
    assert one.task.due_ns == 16
    assert list(one.environment.streams.save()["streams"]) == ["compute/c"]


# -- what is no answer


def test_an_answer_of_another_shape_is_refused() -> None:
    for answer in (np.zeros(2), 3, np.zeros((1, 1))):
        with pytest.raises(ShapeError, match=r"c answered .* of shape .*; expected \(1,\): y"):
            at_once(answer).tick(0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_answer_that_is_not_finite_names_the_signal_and_its_inputs(bad: float) -> None:
    said = rf"c answered {bad} for y at 0\.010000000 s; its inputs were u=2, v=-3"
    with pytest.raises(ControllerError, match=said):
        at_once(bad).tick(10)


def test_one_that_knows_more_explains_it() -> None:
    with pytest.raises(ControllerError, match=r"^0\.010000000 s: c answered nan for y, more$"):
        Stand(Knowing(np.nan)).tick(10)


# -- late


def test_as_fast_as_possible_one_that_is_inside_is_waited_for_and_counts_as_late() -> None:
    one = after(4, None)
    one.time = 1000
    one.tick(0)
    one.time = 1500
    one.due()
    assert one.controller.asked == [(Tag(0), 10.0)]
    assert one.told == [(4, "Late")]
    text, values = one.events[0][2:]
    assert text == "c: c: no answer after 500 ns, allowed 4000000 ns"
    assert values == {"allowed": 4e6, "actual": 500.0}
    assert (one.task.lates, one.task.missed, one.task.due_ns) == (1, 0, FAR)
    assert one.task.request == ControllerRequest(Tag(0), Tag(4 * MS), 1000, True, 1)


def test_on_a_paced_clock_there_is_what_is_left_of_the_time() -> None:
    for now, left in ((1000, 0.004), (1000 + 3 * MS, 0.001), (1000 + 9 * MS, 0.0)):
        one = after(4, paced=True)
        one.time = 1000
        one.tick(0)
        one.time = now
        one.due()
        assert one.controller.asked == [(Tag(0), left)]


def test_at_a_hundred_times_real_time_the_latency_is_a_hundredth() -> None:
    one = after(4, None, paced=True)
    one.rate = 100
    one.tick(0)
    one.time = 30_000
    one.due()
    assert one.controller.asked == [(Tag(0), 1e-5)], "of 40 us, 10 us are left"
    assert one.told == [(4, "Late")]
    assert "no answer after 30000 ns, allowed 40000 ns" in one.events[0][2]
    assert one.events[0][3]["allowed"] == 4 * MS, "simulated time, from which its request is found"


def test_a_late_answer_is_discarded_at_the_next_tick_which_asks_anew() -> None:
    one = after(4, None, 7.0, 8.0)
    one.tick(0)
    one.due()
    one.tick(10)
    assert one.told == [(4, "Late"), (10, "Discarded")]
    assert one.events[1][2] == "c: the answer of 0.000000000 s was late"
    assert one.controller.asked[1] == (Tag(0), 0.0)
    one.due()
    assert [m.payload.tolist() for m in one.messages] == [[8.0]]
    assert one.messages[0].initiated == Tag(10 * MS)
    assert one.task.missed == 0


def test_an_answer_that_is_still_absent_makes_the_tick_missed() -> None:
    one = after(4, None, None, None, 7.0)
    one.tick(0)
    one.due()
    one.tick(10)
    one.tick(20)
    assert one.told == [(4, "Late"), (10, "Missed"), (20, "Missed")]
    assert one.task.request is not None
    assert one.task.request.asked == 3
    one.tick(30)
    assert one.told[3:] == [(30, "Discarded")]
    assert (one.task.lates, one.task.missed) == (1, 2)


def test_late_may_end_the_run() -> None:
    one = after(4, None, late="fail")
    one.tick(0)
    with pytest.raises(
        ControllerError, match=r"no answer .*\(request of 0.0+ s\); give a longer latency, or"
    ):
        one.due()
    assert one.told == [(4, "Late")]


def test_the_option_late_may_stretch_time_until_the_answer() -> None:
    one = after(4, None, 6.0, late="stretch")
    one.tick(0)
    one.due()
    assert one.controller.asked[1] == (Tag(0), 10.0)
    assert one.stretched == [4 * MS]
    assert [m.payload.tolist() for m in one.messages] == [[6.0]]
    assert one.task.lates == 1
    silent = after(4, None, None, late="stretch")
    silent.tick(0)
    with pytest.raises(ControllerError, match=r"c did not answer the request of .* within 10 s"):
        silent.due()


def test_one_outside_that_says_nothing_while_no_clock_runs_is_silent_and_not_late() -> None:
    controller = Answers(None)
    controller.outside, controller.silence = True, 2.5  # type: ignore[attr-defined]
    one = Stand(controller, compute=Fixed("0.004"))
    one.tick(0)
    with pytest.raises(ControllerError, match=r"did not answer the request of .* within 2\.5 s"):
        one.due()
    assert (one.task.lates, one.events) == (0, [])
    sage = Knowing(None)
    sage.outside = True
    knowing = Stand(sage, compute=Fixed("0.004"))
    knowing.task.request = ControllerRequest(Tag(5), Tag(6), 0)
    with pytest.raises(ControllerError, match="hush 5"):
        knowing.due()
    paced = Stand(controller, compute=Fixed("0.004"), paced=True)
    controller.ahead = [None]
    paced.tick(0)
    paced.due()
    assert paced.told == [(4, "Late")]


# -- by machine code


class ByItself(Answers):
    """One whose step machine code can call."""

    checked = True
    vectors = tuple(np.zeros(1) for _ in range(4))

    def by_address(self) -> tuple[int, tuple[Vector, ...]]:
        return 4711, self.vectors

    def ran_by_address(self, steps: int, request: Tag | None) -> None:
        raise NotImplementedError

    def send(self, tag: Tag, inputs: Vector) -> None:
        super().send(tag, inputs)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        return super().receive(tag, patience)


def test_machine_code_calls_the_step_at_its_address_with_its_vectors() -> None:
    one = Stand(ByItself(), compute=Fixed("0.004"))
    reaction = one.task.compiled()
    assert isinstance(reaction, CompiledReaction)
    assert (reaction.kind, reaction.function) == ("controller", 4711)
    assert reaction.vectors is ByItself.vectors
    assert (reaction.wiring, reaction.compute) == (one.task.wiring, Fixed("0.004"))


def test_machine_code_runs_the_next_tick_until_an_answer_is_late() -> None:
    one = Stand(ByItself(None), compute=Fixed("0.004"))
    before = one.task.checked
    one.tick(0)
    one.due()
    assert one.told == [(4, "Late")]
    assert (before, one.task.checked) == (True, False)
    assert one.task.compiled() == "c failed, or is late"


# -- failures


def test_a_failure_ends_the_run_and_names_the_part() -> None:
    one = after(4, ControllerError("it broke"))
    one.tick(0)
    with pytest.raises(ControllerError, match="it broke") as raised:
        one.due()
    assert raised.value.__notes__ == ["this was the scenario's controller 'c'"]
    named = after(4, ControllerError("c broke"))
    named.tick(0)
    with pytest.raises(ControllerError) as raised:
        named.due()
    assert not getattr(raised.value, "__notes__", [])
    assert named.controller.closed == 0


def test_the_option_late_may_continue_without_the_answer() -> None:
    one = after(4, ControllerError("c broke\nand said more"), failure="hold")
    one.tick(0)
    one.due()
    assert one.told == [(4, "Failed")]
    assert one.events[0][2].startswith("c: c broke\nand said more")
    assert (one.task.failed, one.task.request) == ("c broke\nand said more", None)
    assert one.controller.closed == 1
    one.tick(10)
    one.tick(20)
    assert one.told[1:] == [(10, "Missed"), (20, "Missed")]
    assert one.events[1][2] == "c: c is dead: c broke"
    assert one.task.missed == 2
    assert len(one.controller.sent) == 1


def test_a_controller_that_fails_while_it_is_closed_is_dead() -> None:
    one = after(4, ControllerError("c broke"), failure="hold")

    def close() -> None:
        raise ControllerError("and again")

    one.controller.close = close
    one.tick(0)
    one.due()
    assert one.task.failed == "c broke"


@pytest.mark.parametrize(
    ("failure", "outside", "at_once"),
    [("end", False, True), ("end", True, False), ("hold", False, False), ("hold", True, False)],
)
def test_a_request_that_cannot_be_sent_is_reported_when_its_answer_is_due(
    failure: str, outside: bool, at_once: bool
) -> None:
    one = after(4, failure=failure)
    one.controller.refuses, one.controller.outside = "c refuses", outside
    if at_once:
        with pytest.raises(ControllerError, match="c refuses"):
            one.tick(0)
        return
    one.tick(0)
    assert one.events == []
    if failure == "end":
        with pytest.raises(ControllerError, match="c refuses"):
            one.due()
    else:
        one.due()
        assert (one.told, one.task.failed) == ([(4, "Failed")], "c refuses")
    assert one.controller.asked == []


def test_a_failure_behind_a_late_answer_is_found_at_the_tick() -> None:
    one = after(4, None, ControllerError("c broke"), failure="hold")
    one.tick(0)
    one.due()
    one.tick(10)
    assert one.told == [(4, "Late"), (10, "Failed"), (10, "Missed")]
    assert one.task.failed == "c broke"
    assert one.task.missed == 1


# -- what is kept


def resumed(one: Stand, make: Callable[[], Stand]) -> Stand:
    other = make()
    other.task.restore(json.loads(json.dumps(one.task.save())))
    return other


def test_a_request_under_way_goes_on() -> None:
    def make() -> Stand:
        return after(15, 5.0)

    one = make()
    one.controller.state = 9
    one.tick(0)
    one.task.ticked()
    one.tick(10)
    other = resumed(one, make)
    assert other.controller.state == 9
    assert other.task.save() == one.task.save()
    assert (other.task.next_ns, other.task.k) == (10 * MS, 1)
    assert other.task.request == ControllerRequest(Tag(0), Tag(15 * MS), 0)
    assert other.inputs.tolist() == [2.0, -3.0]
    other.due()
    assert [(m.initiated, m.completed) for m in other.messages] == [(Tag(0), Tag(15 * MS))]
    other.tick(20)
    assert other.task.sequence == 2


def test_a_late_controller_is_still_late_after_a_checkpoint() -> None:
    def make() -> Stand:
        return after(4, None, None, 7.0)

    one = make()
    one.tick(0)
    one.due()
    one.tick(10)
    other = resumed(one, make)
    assert (other.task.lates, other.task.missed) == (1, 1)
    assert other.task.request == ControllerRequest(Tag(0), Tag(4 * MS), 0, True, 2)
    assert other.task.due_ns == FAR


def test_a_dead_controller_stays_dead_and_is_closed() -> None:
    def make() -> Stand:
        return after(4, ControllerError("c broke"), failure="hold")

    one = make()
    one.tick(0)
    one.due()
    other = resumed(one, make)
    assert other.controller.closed == 1
    other.tick(10)
    assert (other.told, other.task.missed) == ([(10, "Missed")], 1)


def test_a_failed_request_is_reported_after_the_cut() -> None:
    def make() -> Stand:
        out = after(4, failure="hold")
        out.controller.refuses = "c refuses"
        return out

    one = make()
    one.tick(0)
    other = resumed(one, make)
    other.due()
    assert other.events[0][:3] == (Tag(4 * MS), "Failed", "c: c refuses")


class Forgetful:
    inputs, outputs, outside = INPUTS, OUTPUTS, False

    def send(self, tag: Tag, inputs: Vector) -> None:
        pass

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        return np.zeros(1)

    def close(self) -> None:
        pass


def test_one_that_keeps_nothing_is_gone_on_with_only_before_its_first_step() -> None:
    one = Stand(Forgetful())
    assert one.task.forgets
    assert not at_once().task.forgets
    resumed(one, lambda: Stand(Forgetful()))
    one.tick(0)
    with pytest.raises(ScenarioError, match=r"c \(Forgetful\) saved no memory"):
        resumed(one, lambda: Stand(Forgetful()))


# -- a time of its own


class Own(Answers):
    own_time = True

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.calls: list[tuple[str, int]] = []

    def advance(self, tag: Tag) -> None:
        self.calls.append(("advance", tag.ns // MS))

    def anchor(self, tag: Tag) -> None:
        self.calls.append(("anchor", tag.ns // MS))


@pytest.mark.parametrize("paced", [False, True])
def test_one_with_a_time_of_its_own_is_late_by_that(paced: bool) -> None:
    one = Stand(Own(None, None, 7.0), paced, compute=Fixed("0.004"))
    one.tick(0)
    one.time = 999
    one.due()
    assert one.events[0][3] == {"allowed": 4e6, "actual": 4e6}
    one.tick(10)
    one.tick(20)
    assert one.told == [(4, "Late"), (10, "Missed"), (20, "Discarded")]
    assert one.controller.asked == [(Tag(0), 0.004), (Tag(0), 0.01), (Tag(0), 0.02)]
    assert one.controller.calls == [("advance", 0), ("advance", 10), ("advance", 20)]


def test_without_a_latency_its_time_is_waited_for() -> None:
    one = Stand(Own(1.0))
    one.tick(0)
    assert one.controller.asked == [(Tag(0), 10.0)]


def test_where_time_is_stretched_its_own_is_set_to_when_the_answer_was_due() -> None:
    one = Stand(Own(None, 6.0), compute=Fixed("0.004"), late="stretch")
    one.tick(0)
    one.due()
    assert one.controller.calls == [("advance", 0), ("anchor", 4)]
    assert one.stretched == []


def test_one_that_is_dead_is_not_brought_up_to_any_time() -> None:
    one = Stand(Own(ControllerError("c broke")), compute=Fixed("0.004"), failure="hold")
    one.tick(0)
    one.due()
    one.tick(10)
    assert one.controller.calls == [("advance", 0)]


@pytest.mark.parametrize(("ahead", "judged"), [(0, False), (4, True)])
def test_outside_it_is_late_only_where_it_was_given_a_time(ahead: int, judged: bool) -> None:
    controller = Own(None)
    controller.outside = True
    compute: LatencyModel = Fixed(ahead / 1000)
    one = Stand(controller, compute=compute)
    if judged:
        one.tick(0)
        one.due()
        assert one.told == [(4, "Late")]
    else:
        with pytest.raises(ControllerError, match="did not answer"):
            one.tick(0)


def test_it_answers_at_once_those_that_a_declared_order_puts_behind_it() -> None:
    one = at_once()
    assert not one.task.immediate
    one.task.successors = frozenset({"d"})
    assert one.task.immediate


def test_the_time_of_a_computation_is_the_difference_of_two_wall_clock_times() -> None:
    class Halved:
        """The environment of a run at twice the speed, which began at 7 s of the wall clock."""

        def wall(self, ns: int) -> int:
            return 7_000_000_000 + ns // 2

    request = ControllerRequest(Tag(10 * MS), Tag(14 * MS), 0)
    assert _on_the_clock(request, Halved()) == 2 * MS  # type: ignore[arg-type]
