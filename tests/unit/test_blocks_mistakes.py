"""Plausible mistakes with blocks: each is one clear line that names the culprit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from block_parts import flown, wired

from rtsim.blocks import (
    PID,
    Constant,
    Diagram,
    Differential,
    Expression,
    Gain,
    Integrator,
    LevelCrossing,
    Noise,
    PeriodicSampler,
    Product,
    SampledPID,
    StateSpace,
    Sum,
    TransferFunction,
    TransportDelay,
    UnitDelay,
    Waveform,
    ZeroOrderHold,
)
from rtsim.blocks.block import Block
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive


def grows(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


GROWS = Model("grows", Signals("x"), grows)
MADE: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: Gain("2"), r"Gain\(gain='2'\): give one number"),  # type: ignore[arg-type]
    (lambda _: Gain(np.eye(2)), r"Gain\(gain=array\(.*give one number"),  # type: ignore[arg-type]
    (lambda _: Gain(math.nan), r"Gain\(gain=nan\): give one number"),
    (lambda _: Integrator(np.eye(2)), r"Integrator\(initial=… \[1\.0, 0\.0\]\): give one number"),
    (lambda _: Integrator(()), r"Integrator\(initial=\(\)\): give at least one number"),
    (lambda _: Integrator(high="2"), r"Integrator\(high='2'\): give one number"),  # type: ignore[arg-type]
    (lambda _: PID([1.0]), r"PID\(kp=\[1\.0\]\): give one number"),  # type: ignore[arg-type]
    (lambda _: SampledPID(period=0), "a period must be > 0 s, got 0"),
    (lambda _: Constant("1"), r"Constant\(value='1'\): give one number"),  # type: ignore[arg-type]
    (lambda _: Waveform("12", 1), r"Waveform\(samples='12'\): give one number"),  # type: ignore[arg-type]
    (lambda _: Noise(-1.0), r"Noise\(deviation=-1\.0\): give a number >= 0"),
    (lambda _: Noise(1.0, period=0), "a period must be > 0 s, got 0"),
    (lambda _: TransportDelay(-1), r"TransportDelay\(-1\): give a delay > 0 s"),
    (
        lambda _: TransportDelay(1, interpolation="linear"),
        r"interpolation='linear'\) needs samples=",
    ),
    (lambda _: TransportDelay(1, samples=1), r"TransportDelay\(samples=1\): give at least 2"),
    (lambda _: TransportDelay(1, initial="0"), r"TransportDelay\(initial='0'\)"),  # type: ignore[arg-type]
    (
        lambda rising: LevelCrossing(direction=rising),
        r"LevelCrossing\(direction='rising'\): give 1 \(rising\), -1 \(falling\) or 0",
    ),
    (lambda _: Expression("sin(x)"), r"Expression\('sin\(x\)'\): give a Python function"),  # type: ignore[arg-type]
    (lambda _: Expression(math.sin), "such as Expression.lambda x: math.sin"),
    (lambda _: StateSpace([[0, 1], [0, 0]], [1, 0, 0], [1, 0]), r"B has shape \(3,\); expected a"),
    (lambda _: StateSpace(0, [], 1), r"B has shape \(0,\); expected a row for each state"),
    (lambda _: StateSpace(np.eye(2), [1, 0], [1, 0, 0]), r"C has shape \(3,\); expected a column"),
    (lambda _: StateSpace(0, 1, 1, [1, 2]), r"D has shape \(2,\); expected 1 x 1, outputs by"),
    (lambda _: StateSpace(0, 1, 1, initial=[1, 2]), r"initial has shape \(2,\); expected a number"),
    (lambda _: Sum(3), r"Sum\(3\); give one \+ or - for each input"),  # type: ignore[arg-type]
    (lambda _: Product(2), r"Product\(2\); give one \* or /"),  # type: ignore[arg-type]
    (lambda _: TransferFunction("1", [1, 1]), r"TransferFunction\(numerator='1'\)"),
    (lambda _: TransferFunction(1, [math.nan, 1]), r"TransferFunction\(denominator=… nan\)"),
    (lambda _: StateSpace(math.nan, 1, 1), "StateSpace: A has an element that is not finite"),
    (lambda _: Differential(Diagram("d")), "got a Diagram; add a Diagram directly"),  # type: ignore[arg-type]
    (lambda _: Waveform(1.0, 1), "a Waveform needs at least 2 samples, got 1"),
    (lambda _: StateSpace("a", 1, 1), "StateSpace: A is not a matrix of numbers"),
    (lambda _: StateSpace([[0, 1]], 1, 1), r"A has shape \(1, 2\); it must be square"),
]


@pytest.mark.parametrize(("make", "words"), MADE)
def test_a_block_says_which_argument_is_wrong(make: Callable[[Any], object], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as refused:
        make("rising")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", [np.array, list, tuple])
def test_arrays_and_lists_stand_for_several_numbers(make: Callable[[Any], Any]) -> None:
    d = Diagram("d")
    d.add("rate", Constant(make([1.0, 2.0])))
    d.add("x", Integrator(make([3.0, 4.0])), "rate")
    d.add("late", UnitDelay(1, initial=make([5.0, 6.0])), "x")
    d.add("held", ZeroOrderHold(make([0.0, 0.0])), "late")
    recording = flown(d, 1)
    assert np.allclose(recording["d.x"][-1], [4.0, 6.0])
    held = recording["d.held"]
    assert (held[len(held) // 2].tolist(), held[-1].tolist()) == ([5.0, 6.0], [3.0, 4.0])
    start: object = Integrator(np.array(2.0)).initial
    assert start == 2.0
    assert Integrator(make([2.0])).size == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Integrator, r"x is the class Integrator, not a block; write Integrator\(…\)"),
        (GROWS, r"x is a Model, not a block; write Differential\(grows\)"),
        (2.0, r"x is 2\.0, not a block; give a block of rtsim\.blocks, or a Diagram"),
    ],
)
def test_only_blocks_are_added(given: Any, words: str) -> None:
    d = Diagram("d")
    with pytest.raises(ScenarioError, match=words):
        d.add("x", given)
    with pytest.raises(ScenarioError, match="give the name first, then the block"):
        d.add(Integrator(), "x")  # type: ignore[arg-type]
    d.add("x", Integrator())
    with pytest.raises(ScenarioError, match=r"x\.u cannot be wired to 1\.0; give the name of a b"):
        d.wire(1.0, "x.u")  # type: ignore[arg-type]
    assert TransferFunction(1, [1, 1]).label == "1 / (s + 1)"


@pytest.mark.parametrize(
    ("model", "solver", "words"),
    [
        (Diagram("d"), "rk4", r"plant d is a Diagram; give its \.model\(\)"),
        (Gain(), "rk4", "plant d is a Gain; give a Model"),
        (Diagram, "rk4", "plant d is a type; give a Model"),
        (GROWS, Adaptive, r"solver of plant d is the class Adaptive; give an object: Adaptive\(\)"),
        (GROWS, "rk45", "plant d: solver rk45 is called dp54 in rtsim"),
        (GROWS, "ODE23", "plant d: solver ODE23 is called bs32 in rtsim"),
        (GROWS, "rk5", "unknown solver 'rk5'; did you mean rk4"),
    ],
)
def test_a_plant_is_a_model_and_a_solver(model: Any, solver: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        Scenario("s").plant("d", model, step=1, solver=solver)


def nothing(x: float) -> None:
    x + 1.0


def sometimes(x: float) -> Any:  # noqa: RET503
    if x > 0:
        return x


def unknown(x: float) -> Any:
    return x + nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (nothing, "nothing of Expression e can end without a value; return a number"),
        (sometimes, "sometimes of Expression e can end without a value"),
        (unknown, "unknown of Expression e reads nowhere, which is not defined"),
        (lambda x: abs(y) + x, "<lambda> of Expression e reads y, which"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_an_expression_gives_a_value_of_what_is_known(
    function: Callable[..., Any], words: str
) -> None:
    with pytest.raises(ModelError, match=words) as refused:
        wired(("x", Integrator(), "e"), ("e", Expression(function), "x")).model()
    assert "\n" not in str(refused.value)


def test_what_is_held_already_needs_no_hold() -> None:
    d = wired(("x", Integrator(), "h"), ("pid", SampledPID(), "x"), ("h", ZeroOrderHold(), "pid"))
    with pytest.raises(ScenarioError, match=r"h\.u needs events; remove the hold, because signals"):
        d.model()
    d.blocks["h"] = PeriodicSampler(1)
    with pytest.raises(ScenarioError, match="put a ZeroOrderHold between"):
        d.model()


def test_a_block_of_ones_own_is_checked_alike() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Twice(Block):
        factor: float = 2.0

    with pytest.raises(ScenarioError, match=r"Twice\(factor='a'\): give one number"):
        Twice("a")  # type: ignore[arg-type]
