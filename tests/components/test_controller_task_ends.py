"""A controller's task by itself: failures, what is kept of it, and a time of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from controller_task_parts import INPUTS, MS, OUTPUTS, Answers, Stand, after, at_once

from rtsim.components.controller_task import ControllerRequest
from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.tasks import FAR
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

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


def test_or_the_run_goes_on_without_it() -> None:
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


def test_one_that_fails_while_it_is_closed_is_dead_all_the_same() -> None:
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
def test_what_cannot_be_sent_is_told_when_the_answer_is_due(
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


def test_a_late_one_is_still_late_and_asked_for_as_often() -> None:
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


def test_one_that_is_dead_stays_dead_and_is_closed() -> None:
    def make() -> Stand:
        return after(4, ControllerError("c broke"), failure="hold")

    one = make()
    one.tick(0)
    one.due()
    other = resumed(one, make)
    assert other.controller.closed == 1
    other.tick(10)
    assert (other.told, other.task.missed) == ([(10, "Missed")], 1)


def test_one_that_could_not_be_sent_is_told_behind_the_cut() -> None:
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
