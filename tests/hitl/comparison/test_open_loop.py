"""Open loop: every way in which an answer can be wrong is found, named, and told where.

What an open loop says of its steps, and how a translation is driven step by step, then again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from back_to_back_parts import Stand, design, dies_at, from_step, inputs, passing
from hypothesis import given
from hypothesis import strategies as st

from hitl.comparison.open_loop import MOST_AGAIN, Driven, OpenLoop, open_loop
from hitl.comparison.outputs import OutputResult, _shares, ulps
from hitl.comparison.tolerances import DOUBLE, INITIALIZED_AGAIN, SINGLE, Check, Tolerances, by_type
from hitl.comparison.verdict import refuse_misfit
from hitl.interface.file import InterfaceError
from hitl.worker.ending import MISFIT
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError, ScenarioError, ShapeError, UnknownName
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Period, Tag
from rtsim.record.verdict import Tolerance

TENTH = Period.of("0.1")


def held(change: Callable[[int, Vector], Vector], tolerances: Tolerances | None = None) -> OpenLoop:
    law = design()
    stand = Stand(law, change)
    return open_loop(law, stand, inputs(), period=TENTH, name="loop", tolerances=tolerances)


def passed(given: object, returned: object, *outputs: str, type: str = "float64") -> OpenLoop:
    """A design that answers its inputs (k, n), and one that answers ``returned``."""
    law = passing(*outputs)
    rows = np.array(returned, float)
    layout = Signals(*(Signal(s.name, s.unit, type=type, kind=s.kind) for s in law.outputs))
    stand = Stand(law, lambda step, y: rows[step], layout)  # noqa: ARG005
    return open_loop(law, stand, np.array(given, float), period=TENTH, name="loop")


def test_equal_answers_are_ok_and_equal() -> None:
    out = held(lambda step, y: y)  # noqa: ARG005
    assert out.ok
    assert (out.first, out.failures, out.answered, out.steps) == (None, [], 40, 40)
    assert np.array_equal(out.design, out.translation)
    (force,) = out.signals
    assert (force.max_abs, force.max_ulp, force.share, force.worst_step) == (0.0, 0.0, 0.0, None)
    assert out.tags[3].tolist() == [300_000_000, 0]
    assert out.execution is not None
    assert out.execution.steps == 40


def test_a_sign_is_found_at_its_step_with_values_and_inputs() -> None:
    out = held(from_step(7, lambda y: -y))
    assert not out.ok
    assert out.first == ("force", 7)
    (force,) = out.failures
    assert (force.step, force.first_failed) == (7, Tag(700_000_000))
    size = np.abs(out.design[7:, 0])
    assert force.max_abs == 2 * size.max()
    assert force.worst_step is not None
    assert force.worst_step >= 7
    moment = out.first_moment
    assert moment is not None
    assert moment.translation == -moment.design == -out.design[7, 0]
    assert moment.inputs == {"x": out.inputs[7, 0], "v": out.inputs[7, 1]}
    for part in (
        "loop.force at step 7 (0.7 s)",
        f"reference model {moment.design!r}",
        "C ",
        "x=",
        "v=",
    ):
        assert part in out.in_words, part


def test_the_tolerance_is_the_larger_of_both_and_its_edge_passes() -> None:
    def off(by: float) -> Callable[[int, Vector], Vector]:
        return lambda step, y: y + by if step == 5 else y

    big = {"force": (0.5, 0.0)}
    assert held(lambda step, y: y, {"force": (0.0, 0.0)}).ok  # noqa: ARG005
    assert held(off(0.499), big).ok
    assert not held(off(0.501), big).ok
    size = abs(held(off(0.0)).design[5, 0])
    assert held(off(0.99e-3 * size), {"*": (0.0, 1e-3)}).ok
    assert not held(off(1.01e-3 * size), {"*": (0.0, 1e-3)}).ok
    assert held(off(0.25), {"*": (0.0, 1e-3), "loop.force": (0.3, 0.0)}).ok
    assert not held(off(0.25), {"loop.force": (0.3, 0.0), "*": (0.0, 1e-3)}).ok
    exact = held(lambda step, y: np.nextafter(y, 9.0), {"*": (0.0, 0.0)})  # noqa: ARG005
    assert exact.first == ("force", 0)
    assert exact.signals[0].max_ulp == 1.0
    assert exact.signals[0].share == math.inf


def test_the_share_of_the_tolerance_orders_outputs() -> None:
    out = passed([[1, 1, 1]], [[1 + 4e-10, 1, 1 + 8e-10]], "a", "b", "c")
    assert out.ok
    assert [s.name for s in out.worst_first()] == ["c", "a", "b"]
    assert out.worst_first()[0].share == pytest.approx(0.8, rel=1e-3)
    assert "80 %" in out.in_words
    assert "(c)" in out.in_words


def test_the_earliest_step_comes_first_and_then_the_first_output() -> None:
    right = np.ones((6, 3))
    wrong = right.copy()
    wrong[5:, 0] = wrong[2:, 1] = wrong[2:, 2] = 2.0
    out = passed(right, wrong, "a", "b", "c")
    assert [s.step for s in out.signals] == [5, 2, 2]
    assert out.first == ("b", 2)


def test_nan_on_one_side_fails_and_on_both_agrees() -> None:
    nan = math.nan
    assert passed([[nan], [1]], [[nan], [1]], "a").ok
    for wanted, returned, who in (
        ([[1], [1]], [[1], [nan]], "C"),
        ([[nan]], [[1]], "reference model"),
    ):
        out = passed(wanted, returned, "a")
        assert not out.ok
        assert f"NaN in the {who} only" in out.signals[0].reason
        assert out.first == ("a", len(wanted) - 1)
        assert out.signals[0].max_ulp == math.inf


def test_an_output_that_is_missing_fails() -> None:
    law = passing("a", "b")
    stand = Stand(law, lambda step, y: y[:1], Signals("a"))  # noqa: ARG005
    out = open_loop(law, stand, np.ones((3, 2)), period=TENTH)
    assert not out.ok
    assert [s.name for s in out.failures] == ["b"]
    assert "missing" in out.failures[0].reason
    assert "missing" in out.in_words


def test_a_controller_that_dies_fails_from_there_on_with_its_reason() -> None:
    out = held(dies_at(9))
    assert not out.ok
    assert out.answered == 9
    assert out.error == "step 9 (0.9 s): it was ended by SIGFPE"
    assert out.first == ("force", 9)
    assert out.signals[0].rows == 9
    assert "no answer from step 9 on" in out.signals[0].reason
    assert np.isnan(out.translation[9:]).all()
    assert not np.isnan(out.translation[:9]).any()
    assert not np.isnan(out.design).any()
    moment = out.first_moment
    assert moment is not None
    assert moment.translation is None
    assert "SIGFPE" in out.in_words


def test_a_difference_before_the_end_is_what_is_named() -> None:
    def change(step: int, y: Vector) -> Vector:
        return dies_at(9)(step, y) + (step == 4)

    assert held(change).first == ("force", 4)


def test_one_that_is_silent_or_says_too_much_fails() -> None:
    law = design()
    stand = Stand(law, lambda step, y: None if step == 3 else y)  # type: ignore[arg-type,return-value]
    out = open_loop(law, stand, inputs(), period=TENTH)
    assert "did not answer" in out.error
    assert out.answered == 3
    out = held(lambda step, y: np.append(y, 1.0) if step == 2 else y)
    assert "shape (2,)" in out.error
    assert out.answered == 2


def test_an_exception_of_the_design_is_no_verdict() -> None:
    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        raise ValueError("no")

    broken = PythonController(law, Signals("x", "v"), Signals("force"))
    with pytest.raises(ControllerError, match="raised at"):
        open_loop(broken, Stand(design(), lambda step, y: y), inputs(), period=TENTH)  # noqa: ARG005


def test_signals_may_stand_in_another_order() -> None:
    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0], y[1] = u[0] - u[1], u[1]

    def turned(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[1], y[0] = u[1] - u[0], u[0]

    one = PythonController(law, Signals("a", "b"), Signals("c", "d"))
    other = PythonController(turned, Signals("b", "a"), Signals("d", "c"))
    rows = inputs()
    out = open_loop(one, other, rows, period=TENTH)
    assert out.ok
    assert np.array_equal(out.translation[:, 0], rows[:, 0] - rows[:, 1])


def test_angles_differ_the_short_way_and_quaternions_up_to_their_sign() -> None:
    near = 180 - 1e-13
    law = passing("a [deg]")
    heading = Signals(Signal("heading", "deg", kind="angle"))
    turned = PythonController(law.law, law.inputs, heading)
    stand = Stand(turned, lambda step, y: -y)  # noqa: ARG005
    assert open_loop(turned, stand, [[near]], period=TENTH).ok
    assert not passed([[near]], [[-near]], "heading [deg]").ok

    attitude = Signals(Signal("q", shape=(4,), kind="quaternion"))
    q = PythonController(law.law, attitude.prefixed("in_"), attitude)
    rows = [[0.5, 0.5, 0.5, -0.5], [1.0, 0.0, 0.0, 0.0]]
    assert open_loop(q, Stand(q, lambda step, y: -y), rows, period=TENTH).ok  # noqa: ARG005
    wrong = open_loop(q, Stand(q, lambda step, y: y * [1, 1, 1, -1]), rows, period=TENTH)  # noqa: ARG005
    assert [s.name for s in wrong.failures] == ["q_3"]


def test_ulps_count_in_the_type_of_the_c() -> None:
    one = np.array([1.0, -0.0, -1.0, -math.nan, math.nan])
    other = np.array([np.nextafter(1.0, 2.0), 0.0, 1.0, math.nan, 1.0])
    assert ulps(one, other, "float64").tolist() == [1, 0, 2 * 0x3FF0000000000000, 0, math.inf]
    assert ulps(one, other, "float32").tolist() == [0, 0, 2 * 0x3F800000, 0, math.inf]
    assert passed([[1.0]], [[1 + 2**-22]], "a", type="float32").signals[0].max_ulp == 2.0


@given(st.floats(allow_nan=False), st.integers(1, 60))
def test_ulps_are_steps_of_nextafter(value: float, count: int) -> None:
    far = value
    for _ in range(count):
        far = float(np.nextafter(far, math.inf))
    found = ulps(np.array([value]), np.array([far]), "float64")[0]
    assert found == count or math.isinf(far)


def test_defaults_go_by_the_type_of_the_c() -> None:
    assert by_type(Signal("a")) == DOUBLE
    assert by_type(Signal("a", type="float32")) == SINGLE
    assert by_type(Signal("a", type="int16")) == (0.0, 0.0)
    assert by_type(Signal("a", type="int16"), 0.25) == pytest.approx(Tolerance(0.25, 0.0))
    assert passed([[1.0]], [[1 + 4e-6]], "a", type="float32").ok
    assert not passed([[1.0]], [[1 + 4e-6]], "a").ok


def test_wrong_arguments_are_refused() -> None:
    law = design()
    same = Stand(law, lambda step, y: y)  # noqa: ARG005
    with pytest.raises(ScenarioError, match="no signal matches 'froce'"):
        open_loop(law, same, inputs(), period=TENTH, tolerances={"froce": (1.0, 0.0)})
    with pytest.raises(ScenarioError, match=">= 0"):
        open_loop(law, same, inputs(), period=TENTH, tolerances={"force": (-1.0, 0.0)})
    with pytest.raises(ShapeError, match=r"expected \(steps, 2\): x, v"):
        open_loop(law, same, np.ones((4, 3)), period=TENTH)
    with pytest.raises(ShapeError, match="tags have shape"):
        open_loop(law, same, inputs(), np.ones((4, 2)))
    with pytest.raises(ScenarioError, match=r"tags, of shape \(k, 2\), or the argument period"):
        open_loop(law, same, inputs())
    with pytest.raises(ScenarioError, match="no step"):
        open_loop(law, same, np.ones((0, 2)), period=TENTH)
    other = PythonController(law.law, Signals("x", "w"), Signals("force"))
    with pytest.raises(UnknownName, match="input 'w'"):
        open_loop(law, other, inputs(), period=TENTH)


def test_progress_is_reported_step_by_step() -> None:
    seen: list[tuple[int, int]] = []
    law = design()
    stand = Stand(law, dies_at(1))
    open_loop(
        law, stand, inputs(3), period=TENTH, observe=lambda step, steps: seen.append((step, steps))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_equal_values_without_a_tolerance_have_the_share_zero() -> None:
    shares = _shares(np.array([0.0, 1.0, 1.0, math.inf]), np.array([0.0, 0.0, 2.0, 1.0]))
    assert shares.tolist() == [0.0, math.inf, 0.5, math.inf]


def test_an_output_that_was_not_measured_uses_nothing_of_its_tolerance() -> None:
    assert OutputResult("a").to_json()["share_of_tolerance"] == 0.0


Rows = list[list[float]]


def all_pass(
    given: Rows, returned: Rows, *outputs: str, tolerances: Tolerances | None = None
) -> OpenLoop:
    """A design that answers its inputs, and one that answers ``returned``."""
    law, rows = passing(*outputs), np.array(returned, float)
    stand = Stand(law, lambda step, y: rows[step])  # noqa: ARG005
    return open_loop(law, stand, given, period=TENTH, name="loop", tolerances=tolerances)


def test_what_was_allowed_at_a_step_goes_with_the_size_of_the_designs_answer() -> None:
    out = all_pass([[4.0], [0.0]], [[5.0], [1.0]], "a", tolerances={"a": (0.5, 0.25)})
    (a,) = out.signals
    assert out.moment(a, 0).allowed == 1.0
    assert out.moment(a, 1).allowed == 0.5
    infinite = all_pass([[math.inf]], [[1.0]], "a", tolerances={"a": (0.5, 0.25)})
    assert infinite.moment(infinite.signals[0], 0).allowed == 0.5


def test_a_moment_has_an_answer_up_to_the_last_that_there_was() -> None:
    law = passing("a")
    out = open_loop(law, Stand(law, dies_at(2)), [[1.0]] * 4, period=TENTH, name="loop")
    (a,) = out.signals
    assert out.moment(a, 1).translation == 1.0
    assert out.moment(a, 2).translation is None
    assert out.covered == "loop: 1 output, 1 input, 2 of 4 steps, 0 s to 0.3 s"


def test_the_span_is_that_of_all_steps() -> None:
    out = all_pass([[1, 2]] * 5, [[1, 2]] * 5, "a", "b")
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
    out = all_pass([[1, 1]], [[1, 1]], "a", "b").to_json()
    assert (out["worst"], out["target"], out["first"]) == ([], None, None)
    assert out["outcome"] == "passed"
    differs = all_pass([[1.0]], [[2.0]], "a").to_json()
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
def test_a_different_second_start_fails_at_the_first_different_step(wrong: int) -> None:
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


def test_the_different_output_of_several_is_named() -> None:
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


def test_failures_come_first_and_then_the_largest_share() -> None:
    signals = [
        SimpleNamespace(name="small", reason="", share=0.1, max_rel=0.0),
        SimpleNamespace(name="failed", reason="differs", share=0.2, max_rel=0.0),
        SimpleNamespace(name="large", reason="", share=0.9, max_rel=0.0),
        SimpleNamespace(name="larger", reason="", share=0.9, max_rel=0.5),
        SimpleNamespace(name="worst", reason="differs", share=3.0, max_rel=0.0),
    ]
    ranked = OpenLoop.worst_first(SimpleNamespace(signals=signals))  # type: ignore[arg-type]
    assert [one.name for one in ranked] == ["worst", "failed", "larger", "large", "small"]


def test_a_lack_of_the_interface_file_is_an_error_and_a_difference_before_it_is_not() -> None:
    place = SimpleNamespace(place=lambda *_: "law.toml:7")
    c = SimpleNamespace(interface=place)
    out = held(dies_at(9))
    refuse_misfit(out, c)
    lacking = replace(out, error=f"step 9 (0.9 s): {MISFIT}no input z\nmore text")
    with pytest.raises(InterfaceError, match=f"^law.toml:7: {MISFIT}no input z$"):
        refuse_misfit(lacking, c)
    refuse_misfit(lacking, SimpleNamespace(interface=None))
    earlier = held(lambda step, y: dies_at(9)(step, y) + (step == 4))
    refuse_misfit(replace(earlier, error=lacking.error), c)
