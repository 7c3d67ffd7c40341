"""Derivatives by complex step and by central differences, and the estimates of their errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim import Model, Signals, compiled, linearise
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.linear import StateSpace
from rtsim.models.f16.stevens_lewis import STEVENS_LEWIS

TABLE = np.array([0.0, 1.0, 4.0, 9.0, 16.0])


@compiled
def looked_up(x: float) -> float:
    i = min(max(int(x), 0), 3)
    return TABLE[i] + (x - i) * (TABLE[i + 1] - TABLE[i])  # type: ignore[no-any-return]


def scale(x: float) -> float:
    return abs(x) * math.sqrt(math.hypot(3.0, x))


Scalar = Callable[[float], float]
SMOOTH: list[tuple[Scalar, Scalar]] = [
    (math.sin, math.cos),
    (lambda x: math.atan2(x, 2.0), lambda x: 2.0 / (4.0 + x * x)),
    (lambda x: math.atan2(2.0, x), lambda x: -2.0 / (4.0 + x * x)),
    (lambda x: math.exp(-x) * math.tanh(x),
     lambda x: math.exp(-x) * (1.0 / math.cosh(x) ** 2 - math.tanh(x))),
    (lambda x: math.log(x, 2.0) + math.pow(x, 1.5), lambda x: 1 / (x * math.log(2)) + 1.5 * x**0.5),
    (lambda x: math.asin(0.1 * x) + math.degrees(x), lambda x: 0.1 / math.sqrt(1 - 0.01 * x * x)
     + 180 / math.pi),
    (lambda x: looked_up(x), lambda x: TABLE[int(x) + 1] - TABLE[int(x)]),
    (lambda x: math.fmod(x, 0.7) + math.fabs(-x) + math.copysign(x, -1.0), lambda _: 1.0),
    (lambda x: float(np.sin(x)) * max(x, 0.1), lambda x: math.cos(x) * x + math.sin(x)),
    (scale, lambda x: math.sqrt(math.hypot(3, x)) + 0.5 * x * x / math.hypot(3, x) ** 1.5),
]  # fmt: skip


def model(function: Scalar) -> Model:
    def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = function(x[0]) + u[0]

    return Model("m", Signals("x"), derivative, inputs=Signals("u"))


@pytest.mark.parametrize(("function", "slope"), SMOOTH)
@pytest.mark.parametrize("at", [0.35, 1.3, 2.71])
def test_complex_step_is_exact(function: Scalar, slope: Scalar, at: float) -> None:
    found = linearise(model(function), at={"x": at}, compile=False)
    assert found.method == "complex step"
    assert found.a[0, 0] == pytest.approx(slope(at), rel=1e-14)
    assert found.b[0, 0] == 1.0
    assert found.notes == ()


def test_a_function_without_a_complex_form_is_differenced() -> None:
    found = linearise(model(math.erf), at={"x": 0.4}, compile=False)
    assert found.method == "central differences"
    slope = 2.0 / math.sqrt(math.pi) * math.exp(-0.16)
    assert found.errors is not None
    assert abs(found.a[0, 0] - slope) < found.errors[0, 0] < 1e-10


def test_an_imaginary_part_that_is_lost_is_noticed() -> None:
    def drops(x: float) -> float:
        return x * float(np.real(x)) if isinstance(x, complex) else x * x

    found = linearise(model(drops), at={"x": 3.0}, compile=False)
    assert found.a[0, 0] == pytest.approx(6.0, rel=1e-9)
    assert found.method.startswith("complex step for 1 of 2 variables, central differences")


def test_the_method_does_not_depend_on_the_rounding_of_the_point() -> None:
    """At a trim point, forces cancel: their sum is 0, and its rounding is that of the forces.

    One Python's libraries find another last bit of the point than those of another Python.
    """
    level = {
        "airspeed": 502.0, "throttle": 0.1385349638227, "alpha": 0.03691094113, "cg": 0.35,
        "elevator": -0.7587798674, "pitch": 0.03691094113, "power": 8.99646055,
    }  # fmt: skip
    rng = np.random.default_rng(1)
    found = set[str]()
    for size in (1e-16, 1e-13, 1e-10):
        for _ in range(8):
            at = {name: value * (1 + size * rng.uniform(-8, 8)) for name, value in level.items()}
            found.add(linearise(STEVENS_LEWIS, at=at).method)
    assert found == {"complex step for 16 of 17 variables, central differences for the others"}


def test_a_sum_that_cancels_has_the_error_of_its_terms() -> None:
    """The differences are exactly 0, but 1e6 + 1e-11 is not known better than to 1e-10."""

    def cancelled(x: float) -> float:
        return (1e6 + 1e-11 * x) - 1e6 + 0.0 * math.erf(x)

    def forces(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = 1e6 * x[1] - 1e6 * x[2] + cancelled(float(x[0]))
        dx[1] = dx[2] = 0.0

    at = {"x": 1.0, "a": 1.0, "b": 1.0}
    found = linearise(Model("m", Signals("x", "a", "b"), forces), at=at, compile=False)
    assert found.errors is not None
    assert abs(found.a[0, 0] - 1e-11) <= found.errors[0, 0]


@settings(max_examples=60, deadline=None)
@given(
    a=st.floats(-3, 3), b=st.floats(0.1, 20.0), at=st.floats(-50, 50),
    size=st.sampled_from([1e-3, 1.0, 1e6]),
)  # fmt: skip
def test_errors_of_differences_are_not_underestimated(
    a: float, b: float, at: float, size: float
) -> None:
    def wave(x: float) -> float:
        return size * (a * x + 0.1 * float(np.sin(b * x).real)) + math.erf(0.0) * 0.0

    def plain(x: float) -> float:
        return wave(x) + 0.0 * math.erf(float(x))

    found = linearise(model(plain), at={"x": at}, compile=False)
    assert found.errors is not None
    true = size * (a + 0.1 * b * math.cos(b * at))
    assert abs(found.a[0, 0] - true) <= 10.0 * found.errors[0, 0] + 1e-13 * abs(true)


def test_a_kink_gives_the_mean_and_a_note() -> None:
    found = linearise(model(abs), at={"x": 0.0}, compile=False)
    assert found.a[0, 0] == 0.0
    (note,) = found.notes
    assert (
        "d(x)/dt of m has a kink in x at this point: the slopes on both sides differ by 2" in note
    )


def test_a_value_that_is_not_finite_names_the_variable() -> None:
    def root(x: float) -> float:
        return float(np.sqrt(x)) if x >= 0 else math.nan

    with pytest.raises(ModelError, match="model m: x cannot be varied around 0: a value is not"):
        linearise(model(root), at={"x": 0.0}, compile=False)


def test_wrong_arguments() -> None:
    with pytest.raises(UnknownName, match="unknown value 'y' in model m"):
        linearise(model(math.sin), at={"y": 1.0})
    with pytest.raises(ScenarioError, match="plant= is for a Scenario; leave it out"):
        linearise(model(math.sin), plant="x")


def test_matrices_that_do_not_fit() -> None:
    with pytest.raises(ScenarioError, match=r"A has shape \(1, 2\); it must be square"):
        StateSpace([[1, 2]], 1, 1)
    with pytest.raises(ScenarioError, match="has 1 inputs, but 2 names: a, b"):
        StateSpace(-1, 1, 1, inputs=Signals("a", "b"))
