"""A plant at work: its grid, its step ahead of time, what it complains of, what it saves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rtsim.components.plant import NONE_NS, RunningPlant
from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario
from rtsim.solve import OUT_OF_BUDGET, TOO_SMALL

MS = 1_000_000
STEP = 10 * MS


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = p[0]
    dx[1] = u[0]
    if x[0] > 0.065:
        dx[1] = np.inf


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 2.0 * x[0] + u[0]
    y[1] = t


MODEL = Model(
    "ramp", Signals("a", "b"), derivative, inputs=Signals(Signal("u", optional=True)),
    outputs=Signals("y", "at"), output=output, parameters=Signals(Signal("rate", initial=1.0)),
)  # fmt: skip


def plant(
    compile: bool = True, step: Any = "0.01", model: Model = MODEL, **how: Any
) -> RunningPlant:
    """``a`` is t; from 0.065 s on ``b`` is no number any more."""
    scenario = Scenario("s", until=1)
    scenario.plant("plant", model, step=step, **how)
    (out,) = scenario.build(compile=compile).plants
    return out


def grid(one: RunningPlant, count: int) -> None:
    for _ in range(count):
        one.propagate(10**12)
        one.commit()


def test_a_step_is_provisional_until_it_is_committed() -> None:
    one = plant(compile=False)
    assert (one.ns, one.target_ns) == (0, NONE_NS)
    one.propagate(10**12)
    assert (one.ns, one.target_ns, one.x[0]) == (0, STEP, 0.0)
    assert one.next_x[0] == pytest.approx(0.01)
    assert one.commit() == 0
    assert (one.ns, one.target_ns) == (STEP, NONE_NS)
    assert one.x[0] == pytest.approx(0.01)
    assert one.y.tolist() == pytest.approx([0.02, 0.01])
    one.propagate(10**12)
    one.discard()
    assert (one.ns, one.target_ns) == (STEP, NONE_NS)
    assert one.x[0] == pytest.approx(0.01)


def test_a_step_ends_at_what_is_asked_for_or_at_the_next_point_of_the_grid() -> None:
    one = plant(compile=False)
    ends = []
    for limit in (3 * MS, 9 * MS, 10 * MS, 20 * MS + 1, 20 * MS + 1, 29 * MS, 99 * MS):
        one.propagate(limit)
        one.commit()
        ends.append(one.ns // MS)
    assert ends == [3, 9, 10, 20, 20, 29, 30]


def test_several_steps_at_once_are_those_that_one_takes_by_one() -> None:
    at_once, one_by_one = plant(), plant()
    taken = at_once.take_steps(41 * MS)
    assert taken is not None
    times, values = taken
    rows = []
    for _ in range(4):
        grid(one_by_one, 1)
        rows.append(one_by_one.values.copy())
    assert times.tolist() == [10 * MS, 20 * MS, 30 * MS, 40 * MS]
    assert np.array_equal(values, rows)
    assert at_once.save() == one_by_one.save()
    at_once.propagate(10**12)
    assert at_once.target_ns == 50 * MS


@pytest.mark.parametrize(
    ("limit_ms", "steps"), [(10, 0), (11, 0), (20, 0), (21, 2), (30, 2), (31, 3)]
)
def test_steps_end_before_the_limit_and_a_single_one_is_not_worth_it(
    limit_ms: int, steps: int
) -> None:
    one = plant()
    taken = one.take_steps(limit_ms * MS)
    assert (0 if taken is None else len(taken[0])) == steps
    assert one.ns == steps * STEP


def test_64_steps_are_taken_without_coming_back() -> None:
    one = plant(step="0.0001")
    for last in (64, 128):
        taken = one.take_steps(10**9)
        assert taken is not None
        assert taken[0][-1] == one.ns == last * MS // 10
        assert len(taken[1]) == 64


def test_a_step_that_was_begun_is_finished_by_itself() -> None:
    one = plant()
    one.propagate(10**12)
    assert one.take_steps(10**12) is None
    assert plant(compile=False).take_steps(10**12) is None


def test_a_step_that_fails_among_several_leaves_those_before_it() -> None:
    one = plant()
    taken = one.take_steps(10**9)
    assert taken is not None
    assert taken[0].tolist() == [k * STEP for k in range(1, 1 + len(taken[1]))]
    good = len(taken[1])
    assert 5 <= good <= 7
    assert one.ns == good * STEP
    assert np.array_equal(one.values, taken[1][-1])
    with pytest.raises(ModelError, match="state b of plant"):
        one.propagate(10**12)
    again = one.take_steps(10**9)
    assert again is not None
    assert (len(again[0]), len(again[1]), one.ns) == (0, 0, good * STEP)
    assert np.array_equal(one.values, taken[1][-1])


def test_a_state_that_becomes_nan_is_named_with_its_last_value() -> None:
    one = plant(compile=False)
    with pytest.raises(ModelError) as told:
        grid(one, 10)
    text = str(told.value)
    assert text.startswith("state b of plant (model ramp) became inf between 0.0")
    assert "the last good value is 0; the derivative of b is inf beyond 0.065 s" in text


@pytest.mark.parametrize(
    ("bad", "says"),
    [(TOO_SMALL, "found no step that is small enough"), (OUT_OF_BUDGET, "used up its budget")],
)
def test_the_reason_of_a_failed_step_is_given_with_both_times(bad: int, says: str) -> None:
    one = plant(compile=False)
    grid(one, 2)
    with pytest.raises(ModelError, match=says) as told:
        one._complain(bad, 30 * MS)
    assert "between 0.020000000 s and 0.030000000 s" in str(told.value)


def test_an_output_that_becomes_nan_is_named() -> None:
    one = plant(compile=False)
    one.u[0] = math.inf
    with pytest.raises(ModelError, match=r"output y of plant \(model ramp\) is inf at 0\.0000"):
        one.sample()


def test_a_model_without_outputs_samples_nothing() -> None:
    bare = Model("bare", Signals("a", "b"), derivative, inputs=MODEL.inputs,
                 parameters=MODEL.parameters)  # fmt: skip
    one = plant(compile=False, model=bare)
    one.sample()
    assert (one.y.size, one.budgeted, one.fires) == (0, False, False)
    grid(one, 2)
    assert one.ns == 2 * STEP


def test_a_saved_plant_is_complete() -> None:
    one, other = plant(compile=False), plant(compile=False)
    grid(one, 3)
    one.p[0] = 0.5
    one.stale = False
    one.propagate(35 * MS)
    one.commit()
    one.propagate(10**12)
    saved = one.save()
    assert saved["ns"] == 35 * MS
    other.propagate(10**12)
    other.touched = other.unsettled = True
    other.restore(saved)
    assert (other.ns, other.target_ns) == (35 * MS, NONE_NS)
    assert (other.stale, other.touched, other.unsettled) == (False, False, False)
    assert np.array_equal(other.values, one.values)
    assert other.p[0] == 0.5
    assert other.save() == saved
    one.commit()
    other.propagate(10**12)
    assert other.target_ns == 40 * MS
    other.commit()
    assert other.save() == one.save()


# -- wires


def wired() -> tuple[RunningPlant, RunningPlant]:
    scenario = Scenario("s", until=1)
    scenario.plant("first", MODEL, step="0.01")
    scenario.plant("second", MODEL, step="0.01", inputs={"u": "first.y"})
    first, second = scenario.build(compile=False).plants
    return first, second


def test_wires_are_read_and_become_inputs_when_they_settle() -> None:
    first, second = wired()
    assert (first.reads_plants, second.reads_plants) == (False, True)
    first.values[first.signals.slice("y")] = 3.0
    second.read_wires()
    assert second.unsettled
    assert second.u[0] == 0.0
    assert second.settle(), "the inputs are others"
    assert (second.u[0], second.unsettled) == (3.0, False)
    assert second.y[0] == 2.0 * second.x[0] + 3.0, "and the outputs are computed again"
    second.read_wires()
    assert not second.settle(), "nothing is another one"
    saved = second.save()
    assert saved["wires"] == [3.0]
    _, other = wired()
    other.restore(saved)
    assert other.wiring is not None
    assert other.wiring.into.tolist() == [3.0]


def test_wires_of_what_nobody_wrote_are_not_read_again() -> None:
    _, second = wired()
    second.reads_plants, second.stale = False, False
    second.read_wires()
    assert not second.unsettled
    second.stale = True
    second.read_wires()
    assert (second.unsettled, second.stale) == (True, False)


def test_what_was_written_by_a_jump_settles_once() -> None:
    first, _ = wired()
    assert not first.settle()
    first.touched, first.x[0] = True, 0.01
    assert first.settle()
    assert (first.touched, first.y[0]) == (False, 0.02)
    assert not first.settle()
