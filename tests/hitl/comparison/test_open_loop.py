"""Open loop: every way in which an answer can be wrong is found, named, and told where."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from back_to_back_parts import Stand, design, dies_at, from_step, inputs, passing
from hypothesis import given
from hypothesis import strategies as st

from hitl.comparison.open_loop import OpenLoop, open_loop
from hitl.comparison.outputs import OutputResult, _shares, ulps
from hitl.comparison.tolerances import DOUBLE, SINGLE, Tolerances, by_type
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError, ScenarioError, ShapeError, UnknownName
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


def test_what_agrees_is_ok_and_equal() -> None:
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


def test_one_that_dies_fails_from_there_on_and_says_why() -> None:
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


def test_what_the_design_raises_is_not_a_verdict() -> None:
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


def test_mistakes_are_told() -> None:
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


def test_progress_is_told_step_by_step() -> None:
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
