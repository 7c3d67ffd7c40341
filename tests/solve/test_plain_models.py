"""Models in plain Python: errors of arithmetic act as in compiled code, and results are equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import log as natural
from typing import Any

import numpy as np
import pytest

from rtsim import Guard, Model, Scenario, Signal, Signals, compiled, simulate
from rtsim.core.errors import ModelError
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import compile_function
from rtsim.equations.other_math import like_compiled_code
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder


@compiled
def root(value: float) -> float:
    return math.sqrt(value)


def calls_math(t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = math.sqrt(x[0])
    out[1] = natural(x[1])
    out[2] = 1.0 / (1.0 + math.exp(x[2]))
    out[3] = math.acos(x[3])
    out[4] = math.pow(x[4], 0.5) + math.log10(x[5])
    out[5] = 1.0 / math.sin(x[6])


def divides(t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = 1.0 / t
    out[1] = 1.0 / float(x[6])
    out[2] = math.log1p(x[0])
    out[3] = root(x[0])
    out[4] = math.atanh(2.0 + x[6])
    out[5] = math.cosh(x[2])


def rounds(t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    bad = math.sqrt(x[0])
    out[0] = -1.0 if int(bad) < 0 else 1.0
    out[1] = -1.0 if math.floor(bad) < 0 else 1.0
    out[2] = out[3] = out[4] = 2.0
    out[5] = math.atan2(x[1], x[0])


BAD = np.array([-1.0, 0.0, 1000.0, 2.0, -4.0, 0.0, 0.0])


@pytest.mark.parametrize("function", [calls_math, divides, rounds])
def test_where_python_raises_the_values_are_those_of_compiled_code(
    function: Callable[..., None],
) -> None:
    none = np.zeros(0)
    plain, native, out = np.zeros(6), np.zeros(6), np.zeros(6)
    with pytest.raises((ArithmeticError, ValueError)):
        function(0.0, BAD, none, none, none, out)
    like_compiled_code(function)(0.0, BAD, none, none, none, plain)
    compile_function(function, EQUATION, "f").call(0.0, BAD, none, none, none, native)
    assert np.array_equal(plain, native, equal_nan=True)


def test_an_error_that_the_function_raises_itself_is_raised() -> None:
    def refuses(t: float, x: Any) -> None:  # noqa: ARG001
        raise ValueError("the tank is empty")

    with pytest.raises(ValueError, match="the tank is empty"):
        like_compiled_code(refuses)(0.0, np.ones(1))


def test_what_a_function_changed_before_the_error_is_put_back() -> None:
    def halves(x: Any) -> None:
        x[0] -= 1.0
        x[1] = math.sqrt(x[0])

    x = np.array([0.5, 2.0])
    like_compiled_code(halves, in_place=True)(x)
    assert np.array_equal(x, [-0.5, math.nan], equal_nan=True)


# -- runs ------------------------------------------------------------------------------------------


def drains(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -math.sqrt(x[0])


def empty(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.001


def roots(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -(x[0] ** 0.5)


def swings(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -9.81 * math.sin(x[0]) - 0.1 * x[1] + math.exp(-t)


def turns(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0]


def bounces(i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    x[1] = -0.7 * x[1]


def warms(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    for i in range(20):
        left, right = x[max(i - 1, 0)], x[min(i + 1, 19)]
        dx[i] = 40.0 * (left - 2.0 * x[i] + right) + math.tanh(x[i])


ROD = Signals(Signal("q", shape=(20,), initial=tuple(math.sin(i) for i in range(20))))
TANK = Model(
    "tank", Signals("h = 1"), drains, guards=(Guard("empty", -1, terminal=True),), guard=empty
)
MODELS = {
    "tank": TANK,
    "pendulum": Model(
        "pendulum", Signals("a = 1", "b"), swings, guards=(Guard("turn", 1),), guard=turns,
        reset=bounces,
    ),
    "rod": Model("rod", ROD, warms),
}  # fmt: skip


def recorded(name: str, solver: str, **how: Any) -> Recording:
    out, recorder = Scenario(name, until=3), MemoryRecorder()
    out.plant("plant", MODELS[name], step=0.3 if name == "tank" else 0.05, solver=solver)
    simulate(out, recorder=recorder, **how)
    return recorder.recording()


FIXED, ADAPTIVE = ["euler", "midpoint", "rk4", "abm4"], ["bs32", "dp54", "rodas5p"]
OTHERS = ["dop853", "radau", "lsoda", "bdf"]


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("name", "solver"),
    [
        *[(name, solver) for name in MODELS for solver in (*ADAPTIVE, *OTHERS)],
        *[("pendulum", solver) for solver in FIXED],
    ],
)
def test_plain_and_compiled_runs_are_equal_bit_for_bit(name: str, solver: str) -> None:
    plain, native = recorded(name, solver, compile=False), recorded(name, solver)
    assert plain.digest() == native.digest()


@pytest.mark.parametrize(
    ("solver", "nan"),
    [
        ("rk4", r"state h of plant .* became nan between 1\.8"),
        # the end of the step is a number, and the polynomial through its derivative is not
        ("euler", r"guard empty of plant .* is nan between 1\.5"),
        ("abm4", r"guard empty of plant .* is nan between 1\.8"),
    ],
)
def test_a_state_that_is_not_a_number_is_named_as_in_compiled_code(solver: str, nan: str) -> None:
    said = []
    for compile in (False, True):
        with pytest.raises(ModelError, match=nan) as found:
            recorded("tank", solver, compile=compile)
        said.append(str(found.value))
    assert said[0] == said[1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("solver", ["rk4", "euler", "dp54"])
def test_a_plain_run_shows_no_warnings_of_numpy(solver: str) -> None:
    out = Scenario("roots", until=3)
    out.plant("plant", Model("m", Signals("h = 1"), roots), step=0.3, solver=solver)
    with pytest.raises(ModelError, match=r"became nan|is not finite|not defined"):
        simulate(out, compile=False)
