"""One system, said in several ways: what comes out is the same."""

from __future__ import annotations

import numpy as np
import pytest
from block_parts import flown

from rtsim.blocks import (
    Constant,
    Diagram,
    Differential,
    Gain,
    Integrator,
    Product,
    SquareClock,
    StateSpace,
    Sum,
    TransferFunction,
)
from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Model
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario


def test_a_transfer_function_is_what_its_integrators_make() -> None:
    """(2 s^2 + s + 3) / (s^3 + 2 s^2 + 5 s + 4) of a square wave, and the same in controllable form

    of integrators, gains and sums: each state the integral of the one before.
    """
    d = Diagram("side by side")
    d.add("wave", SquareClock(period=2, low=-2.0, high=2.0))
    d.add("whole", TransferFunction([2, 1, 3], [1, 2, 5, 4]), "wave")
    d.add("top", Sum("+---"), "wave", "a2", "a1", "a0")
    for k, (a, b) in enumerate(((4.0, 3.0), (5.0, 1.0), (2.0, 2.0))):
        d.add(f"x{k}", Integrator(), f"x{k + 1}" if k < 2 else "top")
        d.add(f"a{k}", Gain(a), f"x{k}")
        d.add(f"b{k}", Gain(b), f"x{k}")
    d.add("parts", Sum("+++"), "b0", "b1", "b2")
    d.output("whole")
    d.output("parts")
    recording = flown(d, 6)
    assert np.abs(recording["d.whole"]).max() > 1.0
    assert np.abs(recording["d.whole"] - recording["d.parts"]).max() < 1e-13


def lorenz(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 10.0 * (x[1] - x[0])
    dx[1] = x[0] * (28.0 - x[2]) - x[1]
    dx[2] = x[0] * x[1] - 8.0 / 3.0 * x[2]


LORENZ = Model("lorenz", Signals("x = 1", "y = 1", "z = 1"), lorenz)


def of_blocks() -> Diagram:
    d = Diagram("lorenz")
    d.add("x", Integrator(1.0), "dx")
    d.add("y", Integrator(1.0), "dy")
    d.add("z", Integrator(1.0), "dz")
    d.add("apart", Sum("+-"), "y", "x")
    d.add("dx", Gain(10.0), "apart")
    d.add("rho", Constant(28.0))
    d.add("below", Sum("+-"), "rho", "z")
    d.add("turned", Product("**"), "x", "below")
    d.add("dy", Sum("+-"), "turned", "y")
    d.add("xy", Product("**"), "x", "y")
    d.add("damped", Gain(8.0 / 3.0), "z")
    d.add("dz", Sum("+-"), "xy", "damped")
    return d


def as_one_block() -> Diagram:
    d = Diagram("lorenz")
    d.add("one", Differential(LORENZ))
    return d


@pytest.mark.parametrize("compile", [False, True], ids=["plain", "compiled"])
def test_lorenz_of_blocks_is_the_model(compile: bool) -> None:
    """Bit for bit: the same operations in the same order."""
    scenario = Scenario("lorenz", until=5)
    scenario.plant("d", LORENZ, step="1/200")
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, compile=False)
    model = recorder.recording()
    blocks = flown(of_blocks(), 5, step="1/200", compile=compile)
    one = flown(as_one_block(), 5, step="1/200", compile=compile)
    for name in "xyz":
        assert np.array_equal(blocks[f"d.{name}"], model[f"d.{name}"])
        assert np.array_equal(one[f"d.one_{name}"], model[f"d.{name}"])
    assert np.ptp(model["d.x"]) > 20.0


def test_a_feedback_of_state_spaces_is_one_state_space() -> None:
    """x' = -2 x + 3 - y, y' = x: two in a loop, and the loop taken together by hand."""
    d = Diagram("loop")
    d.add("three", Constant(3.0))
    d.add("u", Sum("+-"), "three", "inner")
    d.add("outer", StateSpace(-2, 1, 1), "u")
    d.add("inner", StateSpace(0, 1, 1), "outer")
    d.add("whole", StateSpace([[-2, -1], [1, 0]], [1, 0], [[1, 0], [0, 1]]), "three")
    d.output("outer")
    d.output("inner")
    d.output("whole")
    recording = flown(d, 4)
    apart = np.stack((recording["d.outer"], recording["d.inner"]), axis=1)
    assert np.abs(apart - recording["d.whole"]).max() < 1e-14
    assert recording["d.inner"][-1] > 2.0
