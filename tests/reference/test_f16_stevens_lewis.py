"""The book's F-16: table 3.5-2, level trims and the linear models of section 3.7.

Source: Stevens, Lewis and Johnson, *Aircraft Control and Simulation*, tables 3.5-2, 3.6-2, 3.6-3.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import FunctionType
from typing import cast

import numpy as np
import pytest

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.model import bind
from rtsim.linear import linearise, trim
from rtsim.models.f16.aerodynamics import NASA_SIDESLIP, NASA_SURFACES
from rtsim.models.f16.stevens_lewis import (
    STEVENS_LEWIS,
    bound_stevens_lewis,
    level_trim,
    power_rate,
    throttle_gearing,
)

STATE = np.array([500.0, 0.5, -0.2, -1, 1, -1, 0.7, -0.8, 0.9, 1000, 900, 10000, 90])
INPUTS = np.array([0.9, 20.0, -15.0, -20.0])
DERIVATIVES = (
    -75.23724, -0.8813491, -0.475999, 2.505734, 0.325082, 2.145926, 12.62679, 0.9649671,
    0.5809759, 342.4439, -266.7707, 248.1241, -58.68999,
)  # fmt: skip
# airspeed ft/s, throttle, alpha deg, elevator deg: level at sea level, cg 0.35
TRIMS = (
    (130, 0.816, 45.6, 20.1),
    (140, 0.736, 40.3, -1.36),
    (150, 0.619, 34.6, 0.173),
    (170, 0.464, 27.2, 0.621),
    (200, 0.287, 19.7, 0.723),
    (260, 0.148, 11.6, -0.09),
    (300, 0.122, 8.49, -0.591),
    (350, 0.107, 5.87, -0.539),
    (400, 0.108, 4.16, -0.591),
    (440, 0.113, 3.19, -0.671),
    (500, 0.137, 2.14, -0.756),
    (540, 0.16, 1.63, -0.798),
    (600, 0.2, 1.04, -0.846),
    (640, 0.23, 0.742, -0.871),
    (700, 0.282, 0.382, -0.9),
    (800, 0.378, -0.045, -0.943),
)
# The same, computed afresh from the book's equations to four and more digits.
TRIMS_RECOMPUTED = (
    (130, 0.8158, 45.5945, 20.0929),
    (200, 0.2865, 19.6987, 0.7233),
    (300, 0.122, 8.4926, -0.591),
    (500, 0.1375, 2.1434, -0.7564),
    (640, 0.23, 0.7422, -0.8707),
    (800, 0.3779, -0.0446, -0.9426),
)
LONGITUDINAL = ("airspeed", "alpha", "pitch", "pitch_rate")
LATERAL = ("beta", "roll", "roll_rate", "yaw_rate")
A_LONGITUDINAL = (
    (-0.019311, 8.8157, -32.17, -0.57499),
    (-0.00025389, -1.0189, 0.0, 0.90506),
    (0.0, 0.0, 0.0, 1.0),
    (2.9465e-12, 0.82225, 0.0, -1.0774),
)
B_ELEVATOR = (0.1737, -0.0021499, 0.0, -0.17555)
A_LATERAL = (
    (-0.322, 0.064, 0.0364, -0.9917),
    (0.0, 0.0, 1.0, 0.0369),  # printed 0.0037: a misprint of tan(theta)
    (-30.6492, 0.0, -3.6784, 0.6646),
    (8.5396, 0.0, -0.0254, -0.4764),
)
B_LATERAL = ((0.0003, 0.0008), (0.0, 0.0), (-0.7333, 0.1315), (-0.0319, -0.062))
EIGENVALUES = (-1.91178, -0.1507 - 0.1153j, -0.1507 + 0.1153j, 0.09755)
TURN = np.array(
    [502, 0.2392628, 0.0005061803, 1.366289, 0.05000808, 0.2340769,
     -0.01499617, 0.2933811, 0.06084932, 0, 0, 0, 64.12363]
)  # fmt: skip
TURN_INPUTS = np.array([0.8349601, -1.481766, 0.09553108, -0.4118124])


def derivative(x: Vector, u: Vector, cg: float) -> Vector:
    dx = np.zeros(13)
    bound_stevens_lewis().derivative.call(0.0, x, np.zeros(0), u, np.array([cg]), dx)
    return dx


def test_table_3_5_2() -> None:
    assert derivative(STATE, INPUTS, 0.4) == pytest.approx(DERIVATIVES, rel=1e-6)


def test_table_3_5_2_needs_the_tables_as_printed() -> None:
    """With NASA's rolling-moment tables, roll and yaw accelerations differ and nothing else."""
    source = cast(FunctionType, STEVENS_LEWIS.derivative)
    names = {
        **source.__globals__,
        "BOOK_SIDESLIP": NASA_SIDESLIP,
        "BOOK_SURFACES": NASA_SURFACES,
    }
    with_nasa = FunctionType(source.__code__, names, "derivative")
    model = replace(STEVENS_LEWIS, derivative=with_nasa)
    dx = np.zeros(13)
    bind(model, compile=False).derivative.call(0.0, STATE, np.zeros(0), INPUTS, np.array([0.4]), dx)
    differs = np.abs(dx / np.array(DERIVATIVES) - 1.0) > 1e-6
    assert set(np.flatnonzero(differs)) == {6, 8}


@pytest.mark.parametrize(("airspeed", "throttle", "alpha", "elevator"), TRIMS)
def test_level_trims_to_the_printed_digits(
    airspeed: float, throttle: float, alpha: float, elevator: float
) -> None:
    x, u = level_trim(airspeed)
    assert u[0] == pytest.approx(throttle, abs=6e-4)
    assert math.degrees(x[1]) == pytest.approx(alpha, abs=0.06)
    assert u[1] == pytest.approx(elevator, abs=8e-3)


@pytest.mark.parametrize(("airspeed", "throttle", "alpha", "elevator"), TRIMS_RECOMPUTED)
def test_level_trims_to_more_digits(
    airspeed: float, throttle: float, alpha: float, elevator: float
) -> None:
    x, u = level_trim(airspeed)
    assert (u[0], math.degrees(x[1]), u[1]) == pytest.approx((throttle, alpha, elevator), abs=5e-5)


@pytest.mark.parametrize(
    ("cg", "alpha", "throttle", "elevator"),
    [
        (0.35, 0.03691, 0.1385, -0.7588),
        (0.30, 0.03936, 0.1485, -1.931),
        (0.38, 0.03544, 0.1325, -0.0559),
    ],
)
def test_trims_over_the_centre_of_gravity(
    cg: float, alpha: float, throttle: float, elevator: float
) -> None:
    x, u = level_trim(502.0, cg=cg)
    assert x[1] == pytest.approx(alpha, abs=5.1e-6)
    assert u[0] == pytest.approx(throttle, abs=5.1e-5)
    assert u[1] == pytest.approx(elevator, abs=5.1e-4)


def test_trim_that_does_not_exist_says_so() -> None:
    with pytest.raises(ModelError, match="no level trim found at 40 ft/s"):
        level_trim(40.0)


def test_coordinated_turn_is_steady() -> None:
    dx = derivative(TURN, TURN_INPUTS, 0.35)[:9]
    dx[5] -= 0.3
    assert np.max(np.abs(dx)) < 6e-6


def test_linear_models_at_502_ft_per_s() -> None:
    """Section 3.7: trim and matrices by the public functions."""
    level = trim(
        STEVENS_LEWIS,
        free={"throttle": 0.2, "alpha": 0.1, "elevator": -1.0, "pitch": 0.1, "power": 10.0},
        fixed={"airspeed": 502.0, "altitude": 0.0, "cg": 0.35},
        steady=("airspeed", "alpha", "pitch_rate", "altitude", "power"),
    )
    assert level.unique
    assert level.residual < 1e-12
    assert level.condition < 100.0
    assert level.free["throttle"] == pytest.approx(0.1385, abs=5.1e-5)
    linear = linearise(STEVENS_LEWIS, at=level)
    along = linear.part(states=LONGITUDINAL, inputs=["elevator"])
    across = linear.part(states=LATERAL, inputs=["aileron", "rudder"])
    # Five printed digits, four decimals for the lateral half.
    np.testing.assert_allclose(along.a, A_LONGITUDINAL, rtol=5e-5, atol=1e-6)
    np.testing.assert_allclose(along.b[:, 0], B_ELEVATOR, rtol=5e-5, atol=1e-6)
    np.testing.assert_allclose(across.a, A_LATERAL, atol=1.3e-4)
    np.testing.assert_allclose(across.b, B_LATERAL, atol=5e-5)
    found = sorted(np.linalg.eigvals(along.a), key=lambda v: (v.real, v.imag))
    np.testing.assert_allclose(found, EIGENVALUES, atol=6e-5)
    assert along.errors is not None
    assert across.errors is not None
    assert max(along.errors.max(), across.errors.max()) < 1e-9


def test_engine_lag() -> None:
    """The corners of the book's power schedule."""
    assert throttle_gearing(0.77) == pytest.approx(50.0, abs=0.01)
    assert throttle_gearing(1.0) == pytest.approx(100.0)
    assert power_rate(10.0, 20.0) == pytest.approx(10.0)
    assert power_rate(0.0, 49.0) == pytest.approx((1.9 - 0.036 * 49.0) * 49.0)
    assert power_rate(0.0, 60.0) == pytest.approx(6.0)
    assert power_rate(60.0, 80.0) == pytest.approx(100.0)
    assert power_rate(60.0, 20.0) == pytest.approx(-100.0)
