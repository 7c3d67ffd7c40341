"""What an open loop says of its steps, and how a translation is driven step by step, then again."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from back_to_back_parts import Stand, dies_at, passing

from hitl.comparison.open_loop import MOST_AGAIN, Driven, OpenLoop, open_loop
from hitl.comparison.tolerances import INITIALIZED_AGAIN, Check, Tolerances
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError, ShapeError, UnknownName
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period, Tag

TENTH = Period.of("0.1")
Rows = list[list[float]]


def passed(
    given: Rows, returned: Rows, *outputs: str, tolerances: Tolerances | None = None
) -> OpenLoop:
    """A design that answers its inputs, and one that answers ``returned``."""
    law, rows = passing(*outputs), np.array(returned, float)
    stand = Stand(law, lambda step, y: rows[step])  # noqa: ARG005
    return open_loop(law, stand, given, period=TENTH, name="loop", tolerances=tolerances)


def test_what_was_allowed_at_a_step_goes_with_the_size_of_the_designs_answer() -> None:
    out = passed([[4.0], [0.0]], [[5.0], [1.0]], "a", tolerances={"a": (0.5, 0.25)})
    (a,) = out.signals
    assert out.moment(a, 0).allowed == 1.0
    assert out.moment(a, 1).allowed == 0.5
    infinite = passed([[math.inf]], [[1.0]], "a", tolerances={"a": (0.5, 0.25)})
    assert infinite.moment(infinite.signals[0], 0).allowed == 0.5


def test_a_moment_has_an_answer_up_to_the_last_that_there_was() -> None:
    law = passing("a")
    out = open_loop(law, Stand(law, dies_at(2)), [[1.0]] * 4, period=TENTH, name="loop")
    (a,) = out.signals
    assert out.moment(a, 1).translation == 1.0
    assert out.moment(a, 2).translation is None
    assert out.covered == "loop: 1 output, 1 input, 2 of 4 steps, 0 s to 0.3 s"


def test_the_span_is_that_of_all_steps() -> None:
    out = passed([[1, 2]] * 5, [[1, 2]] * 5, "a", "b")
    assert out.covered == "loop: 2 outputs, 2 inputs, 5 of 5 steps, 0 s to 0.4 s"
    assert out.tag(3) == Tag(300_000_000)


def test_steps_happen_at_the_tags_that_were_given() -> None:
    law = passing("a")
    tags = [[0, 0], [7, 2]]
    stand = Stand(law, lambda step, y: y)  # noqa: ARG005
    out = open_loop(law, stand, [[1.0], [2.0]], tags)
    assert [out.tag(k) for k in (0, 1)] == [Tag(0), Tag(7, 2)]
    for wrong in ([[0], [7]], [[0, 0]], [[0, 0, 0], [1, 1, 1]]):
        with pytest.raises(ShapeError, match=r"expected \(2, 2\): ns, microstep"):
            open_loop(law, Stand(law, lambda step, y: y), [[1.0], [2.0]], wrong)  # noqa: ARG005


def test_of_outputs_that_are_missing_the_first_is_named() -> None:
    law = passing("a", "b", "c")
    one = PythonController(law.law, law.inputs, law.outputs)
    stand = Stand(one, lambda step, y: y[1:2], Signals("b"))  # noqa: ARG005
    out = open_loop(law, stand, [[1.0, 2.0, 3.0]], period=TENTH, name="loop")
    assert out.in_words == "loop.a: missing in the translation"
    assert [s.name for s in out.failures] == ["a", "c"]


def test_what_is_equal_is_outside_of_every_rule_of_worst() -> None:
    out = passed([[1, 1]], [[1, 1]], "a", "b").to_json()
    assert (out["worst"], out["target"], out["first"]) == ([], None, None)
    assert out["outcome"] == "passed"
    differs = passed([[1.0]], [[2.0]], "a").to_json()
    assert differs["first"] == {"signal": "a", "step": 0}
    assert [one["signal"] for one in differs["worst"]] == ["loop.a"]
    assert differs["outcome"] == "failed"


def told(**how: Any) -> OpenLoop:
    """One that agrees, but for what is given."""
    law = passing("a")
    stand = Stand(law, lambda step, y: y)  # noqa: ARG005
    base = vars(open_loop(law, stand, [[1.0], [2.0]], period=TENTH, name="loop"))
    said = {name: value for name, value in base.items() if name != "environment"}
    return OpenLoop(**{**said, **how})


def test_the_outcome_of_steps_that_agree() -> None:
    assert told().outcome is Outcome.PASSED
    assert told(error="it died").outcome is Outcome.FAILED
    assert told(error="it died", environment=True).outcome is Outcome.UNDECIDED
    assert told(environment=True).outcome is Outcome.PASSED
    assert told(checks=(Check("a", ""),)).outcome is Outcome.PASSED
    assert told(checks=(Check("a", ""), Check("b", "no"))).outcome is Outcome.FAILED
    assert told(checks=(Check("b", "no"),), environment=True).outcome is Outcome.FAILED
    assert told(checks=(Check("b", "no"),)).in_words == "loop: no"
    assert told(checks=(Check("b", "loop: no"),)).in_words == "loop: no"


# -- driven, and driven again


class Once(Stand):
    """One that may be started again; from step ``wrong`` of the second time it answers more."""

    wrong: float = math.inf
    restarts = True
    asked = 0

    def restart(self) -> bool:
        self.step = 0
        self.change = lambda step, y: self.later(step, y)
        return self.restarts

    def later(self, step: int, y: Vector) -> Vector:
        self.asked = step + 1
        return y + (step >= self.wrong)


def driven(stand: Stand, steps: int = 5) -> Driven:
    rows = np.arange(float(steps))[:, None] + 1.0
    tags = np.array([(k * 10**8, 0) for k in range(steps)], np.int64)
    out = Driven(passing("a"), stand, rows, tags)
    out.run(None)
    return out


def once() -> Once:
    return Once(passing("a"), lambda step, y: y)  # noqa: ARG005


def test_one_that_starts_the_same_again_is_said_to() -> None:
    assert driven(once()).again() == Check(INITIALIZED_AGAIN)


@pytest.mark.parametrize("wrong", [0, 1, 4])
def test_one_that_starts_otherwise_fails_at_the_first_step_that_differs(wrong: int) -> None:
    stand = once()
    stand.wrong = wrong
    found = driven(stand).again()
    assert found is not None
    assert found.problem.startswith(
        f"after a second initialisation, a is {wrong + 2.0!r} at step {wrong} "
        f"({'0 s' if not wrong else f'0.{wrong} s'}); after the first it was {wrong + 1.0!r} on "
        "the same inputs: initialize does not reset everything that a run changes"
    )


def test_a_thousand_first_steps_are_repeated() -> None:
    stand = once()
    assert driven(stand, 1003).again() == Check(INITIALIZED_AGAIN)
    assert stand.asked == MOST_AGAIN == 1000
    stand = once()
    driven(stand, 3).again()
    assert stand.asked == 3


def test_one_that_cannot_start_again_is_not_asked() -> None:
    assert driven(Stand(passing("a"), lambda step, y: y)).again() is None  # noqa: ARG005
    stand = once()
    stand.restarts = False
    assert driven(stand).again() is None
    dead = Once(passing("a"), dies_at(2))
    assert driven(dead).again() is None


@pytest.mark.parametrize("environment", [False, True])
def test_one_that_dies_the_second_time_fails_or_leaves_it_open(environment: bool) -> None:
    def later(step: int, y: Vector) -> Vector:
        if step == 3:
            error = ControllerError("no memory")
            error.environment = environment
            raise error
        return y

    stand = once()
    stand.later = later  # type: ignore[method-assign]
    both = driven(stand)
    found = both.again()
    if environment:
        assert found is None
        assert (both.error, both.environment) == ("step 3 (0.3 s): no memory", True)
    else:
        assert found is not None
        expected = "the C code fails when it is initialised a second time: no memory"
        assert found.problem.startswith(expected)
        assert "initialize_once = true" in found.problem
        assert both.error == ""


def test_two_answers_that_are_no_number_are_the_same_and_one_is_not() -> None:
    stand = Once(passing("a"), lambda step, y: y * math.nan)  # noqa: ARG005
    both = driven(stand)
    stand.later = lambda step, y: y * math.nan  # type: ignore[method-assign]  # noqa: ARG005
    assert both.again() == Check(INITIALIZED_AGAIN)
    stand.later = lambda step, y: y  # type: ignore[method-assign]  # noqa: ARG005
    found = both.again()
    assert found is not None
    assert "a is 1.0 at step 0" in found.problem


def test_of_several_outputs_the_one_that_differs_is_named() -> None:
    law = passing("a", "b", "c")
    stand = Once(law, lambda step, y: y)  # noqa: ARG005
    rows, tags = np.ones((2, 3)), np.zeros((2, 2), np.int64)
    both = Driven(law, stand, rows, tags)
    both.run(None)
    stand.later = lambda step, y: y + np.array([0.0, 1.0, 1.0])  # type: ignore[method-assign]  # noqa: ARG005
    found = both.again()
    assert found is not None
    assert "b is 2.0 at step 0" in found.problem


def test_who_answers_is_asked_for_all_until_it_fails_and_the_design_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    law = passing("a")
    both = Driven(law, Stand(law, dies_at(1)), np.ones((4, 1)), np.zeros((4, 2), np.int64))
    both.run(lambda step, steps: seen.append((step, steps)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (both.answered, both.environment) == (1, False)
    assert both.wanted[:, 0].tolist() == [1.0] * 4
    assert np.isnan(both.given[1:, 0]).all()


def test_an_input_that_the_design_does_not_have_is_named() -> None:
    law, other = passing("a"), passing("b")
    with pytest.raises(UnknownName, match="input 'in_b'"):
        Driven(law, Stand(other, lambda step, y: y), np.ones((1, 1)), np.zeros((1, 2), int))  # noqa: ARG005


def test_silence_is_told_with_the_patience_that_there_was_or_in_its_own_words() -> None:
    stand = Stand(passing("a"), lambda step, y: None)  # type: ignore[arg-type, return-value]  # noqa: ARG005
    stand.silence = 0.25
    assert (
        driven(stand).error
        == "step 0 (0 s): the controller did not answer the request of 0.000000000 s within 0.25 s"
    )
    stand = Stand(passing("a"), lambda step, y: None)  # type: ignore[arg-type, return-value]  # noqa: ARG005
    stand.silent = lambda tag: ControllerError(f"nothing at {tag.ns}")  # type: ignore[attr-defined]
    stand.explained = lambda tag, error: error  # type: ignore[attr-defined]  # noqa: ARG005
    assert driven(stand).error == "step 0 (0 s): nothing at 0"


def test_steps_are_timed_by_the_translation_where_it_does_so_itself() -> None:
    class Timed(Stand):
        took_ns = [99, 98]  # noqa: RUF012  # of a run before
        execution_clock = "host time"

        def receive(self, tag: Tag, patience: float) -> Vector | None:
            self.took_ns.append(10 + self.step)
            return super().receive(tag, patience)

    timed = Timed(passing("a"), dies_at(3))
    found = driven(timed).execution(TENTH)
    assert found is not None
    assert found.took_ns.tolist() == [10, 11, 12], "of the steps that were answered, and only now"
    by_hand = driven(Stand(passing("a"), dies_at(3))).execution(TENTH)
    assert by_hand is not None
    assert (by_hand.steps, by_hand.period_ns) == (3, 1e8)


def test_one_whose_time_is_its_own_is_told_where_it_is() -> None:
    told: list[Tag] = []
    anchored: list[Tag] = []
    stand = Stand(passing("a"), lambda step, y: y)  # noqa: ARG005
    driven(stand, 2)
    stand = Stand(passing("a"), lambda step, y: y)  # noqa: ARG005
    extra = SimpleNamespace(own_time=True, advance=told.append, anchor=anchored.append)
    for name, value in vars(extra).items():
        setattr(stand, name, value)
    driven(stand, 2)
    assert told == [Tag(0), Tag(10**8)]
    assert anchored == [], "an open loop does not stand still"
