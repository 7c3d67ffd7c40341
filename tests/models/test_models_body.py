"""The rigid body: attitudes, initial states, and what its equations conserve.

The F-16's data file, its tables' lookup, and the plant's declared shape.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.errors import ModelError, UnknownName
from rtsim.core.signals import Vector
from rtsim.equations.earth import EARTH_RATE
from rtsim.equations.model import bind
from rtsim.models.body import (
    BODY_OUTPUTS,
    BODY_STATES,
    direction_cosines,
    euler_matrix,
    initial_state,
    quaternion_of,
)
from rtsim.models.f16 import aerodynamics
from rtsim.models.f16.aerodynamics import (
    DEGREES_PER_RADIAN,
    NASA_SIDESLIP,
    NASA_SURFACES,
    coefficients,
    segment,
    thrust_lbf,
)
from rtsim.models.f16.controller import LAW_INPUTS, LAW_OUTPUTS
from rtsim.models.f16.plant import F16, PARAMETERS
from rtsim.models.f16.scenario import NAMES, SENSED, case
from rtsim.models.nesc import BRICK, SPHERE
from rtsim.solve.fixed_step import RK4

COMPILES = settings(deadline=None)  # the first call of a helper compiles it
angles = st.floats(-math.pi, math.pi)
pitches = st.floats(-1.5, 1.5)
quaternions = st.tuples(*[st.floats(-1.0, 1.0)] * 4).filter(lambda q: math.hypot(*q) > 1e-3)


def matrix(q: tuple[float, ...]) -> Vector:
    return np.array(direction_cosines(*q)).reshape(3, 3)


@COMPILES
@given(quaternions)
def test_direction_cosines_rotate_whatever_the_length(q: tuple[float, ...]) -> None:
    c = matrix(q)
    np.testing.assert_allclose(c @ c.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(c) == pytest.approx(1.0)
    np.testing.assert_allclose(matrix(tuple(3.0 * e for e in q)), c, atol=1e-12)


@COMPILES
@given(angles, pitches, angles)
def test_quaternion_of_a_matrix_gives_it_back(roll: float, pitch: float, yaw: float) -> None:
    c = euler_matrix(roll, pitch, yaw)
    q = quaternion_of(c)
    np.testing.assert_allclose(matrix(tuple(map(float, q))), c, atol=1e-12)
    assert q[0] >= 0.0


def test_quaternions_of_half_turns() -> None:
    for diagonal in ((1, -1, -1), (-1, 1, -1), (-1, -1, 1)):
        q = quaternion_of(np.diag(np.array(diagonal, dtype=float)))
        assert q[0] == 0.0
        assert np.max(np.abs(q)) == 1.0


@COMPILES
@given(
    st.floats(-1.5, 1.5), angles, st.floats(0.0, 3e4), st.floats(-300, 300), st.floats(-300, 300),
    angles, pitches, angles,
)  # fmt: skip
def test_initial_state_is_read_back_by_the_outputs(
    latitude: float, longitude: float, altitude: float, north: float, east: float,
    roll: float, pitch: float, yaw: float,
) -> None:  # fmt: skip
    x = initial_state(
        latitude=latitude,
        longitude=longitude,
        altitude=altitude,
        velocity_ned=(north, east, 5.0),
        euler=(roll, pitch, yaw),
        rates=(0.1, -0.2, 0.3),
    )
    y = np.zeros(BODY_OUTPUTS.size)
    BOUND.output.call(0.0, x, np.zeros(0), np.zeros(0), BRICK.parameters.initial(), y)
    found = dict(zip(BODY_OUTPUTS.names, y, strict=True))
    assert found["altitude"] == pytest.approx(altitude, abs=1e-6)
    assert found["latitude"] == pytest.approx(latitude, abs=1e-9)
    for name, expected in (("longitude", longitude), ("roll", roll), ("yaw", yaw)):
        assert math.remainder(found[name] - expected, 2 * math.pi) == pytest.approx(0.0, abs=1e-9)
    assert found["pitch"] == pytest.approx(pitch, abs=1e-8)
    velocity = [found[f"velocity_{axis}"] for axis in ("north", "east", "down")]
    assert velocity == pytest.approx((north, east, 5.0), abs=1e-8)
    assert found["airspeed"] == pytest.approx(math.hypot(north, east, 5.0), abs=1e-8)


BOUND = bind(BRICK)


def test_resting_on_the_earth_has_no_airspeed_and_its_rates() -> None:
    x = initial_state(latitude=0.7, longitude=1.0, altitude=0.0)
    y = np.zeros(BODY_OUTPUTS.size)
    BOUND.output.call(0.0, x, np.zeros(0), np.zeros(0), BRICK.parameters.initial(), y)
    found = dict(zip(BODY_OUTPUTS.names, y, strict=True))
    assert found["airspeed"] == pytest.approx(0.0, abs=1e-9)
    for axis in ("roll", "pitch", "yaw"):
        assert found[f"{axis}_rate"] == pytest.approx(0.0, abs=1e-18)
    assert found["inertial_roll_rate"] == pytest.approx(EARTH_RATE * math.cos(0.7))
    assert found["inertial_yaw_rate"] == pytest.approx(-EARTH_RATE * math.sin(0.7))


def test_longitude_turns_with_the_earth() -> None:
    """The same inertial position an hour later lies 15.04 deg further west."""
    x = initial_state(latitude=0.0, longitude=0.0, altitude=1000.0)
    y = np.zeros(BODY_OUTPUTS.size)
    BOUND.output.call(3600.0, x, np.zeros(0), np.zeros(0), BRICK.parameters.initial(), y)
    assert y[BODY_OUTPUTS.slice("longitude")][0] == pytest.approx(-3600 * EARTH_RATE)


@pytest.mark.long
def test_free_fall_conserves_energy_and_momentum() -> None:
    """A tumbling brick without air loads, 100 s on an Earth without J2."""
    off = {"cd": 0.0, "clp": 0.0, "cmq": 0.0, "cnr": 0.0, "j2": 0.0}
    p = BRICK.parameters.initial(off)
    x = initial_state(
        latitude=0.5, longitude=0.2, altitude=2e5, velocity_ned=(500.0, 900.0, 0.0),
        rates=(1.0, 2.0, -1.5),
    )  # fmt: skip
    before = _conserved(x, p)
    stepper, out = RK4.stepper(BOUND), x.copy()
    for k in range(10_000):
        assert stepper.advance(k * 10_000_000, (k + 1) * 10_000_000, x, _NONE, _NONE, p, out) < 0
        x, out = out, x
    for name, value in _conserved(x, p).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-8, atol=1e-9, err_msg=name)


_NONE = np.zeros(0)


def _conserved(x: Vector, p: Vector) -> dict[str, float | Vector]:
    """Orbital energy and momentum, and the body's own, per unit mass or as they are; SI."""
    inertia = np.array([p[1], p[2], p[3]])
    spin = inertia * x[10:13]
    to_body = np.array(direction_cosines(*map(float, x[6:10]))).reshape(3, 3)
    radius = float(np.linalg.norm(x[0:3]))
    return {
        "orbital energy": 0.5 * float(x[3:6] @ x[3:6]) - 3.986004418e14 / radius,
        "orbital momentum": np.cross(x[0:3], x[3:6]),
        "spin energy": float(x[10:13] @ spin),
        "spin momentum": to_body.T @ spin,
        "unit quaternion": float(x[6:10] @ x[6:10]),
    }


def test_normalising_leaves_the_rest_alone() -> None:
    x = np.arange(13.0)
    expected = x.copy()
    expected[6:10] /= np.linalg.norm(x[6:10])
    assert BRICK.project is not None
    BRICK.project(x)
    np.testing.assert_allclose(x, expected, rtol=1e-15)


def test_sphere_falls_slower_with_drag() -> None:
    dx = np.zeros(13)
    x = initial_state(latitude=0.0, longitude=0.0, altitude=1000.0, velocity_ned=(0.0, 0.0, 100.0))
    fast = x.copy()
    bind(SPHERE).derivative.call(0.0, fast, _NONE, _NONE, SPHERE.parameters.initial(), dx)
    assert dx[3] > -9.8
    assert BODY_STATES.size == dx.size


def clean(
    alpha: float, beta: float, elevator: float, aileron: float = 0.0, rudder: float = 0.0
) -> tuple[float, ...]:
    return coefficients(
        alpha, beta, 0.0, 0.0, 0.0, elevator, aileron, rudder,
        NASA_SIDESLIP, NASA_SURFACES, DEGREES_PER_RADIAN, False,
    )  # fmt: skip


def test_source_is_named() -> None:
    assert "NASA/TM-2015-218675" in aerodynamics.SOURCE
    assert any(aerodynamics.SOURCE in text for text in F16.assumptions)


def test_table_over_other_axes_is_refused() -> None:
    with pytest.raises(ModelError, match="table cx has shape"):
        aerodynamics.table("aerodynamics", "cx", "alpha_deg", "elevator_deg")


def test_uneven_breakpoints_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aerodynamics._DATA["breakpoints"], "mach", [0.0, 0.2, 0.5])
    with pytest.raises(ModelError, match="not evenly spaced"):
        aerodynamics.grid("mach")


@pytest.mark.parametrize(
    ("value", "extrapolate", "expected"),
    [
        (-11.0, False, (0, 0.0)),
        (-11.0, True, (0, -0.2)),
        (-10.0, False, (0, 0.0)),
        (2.5, False, (2, 0.5)),
        (45.0, False, (10, 1.0)),
        (50.0, False, (10, 1.0)),
        (50.0, True, (10, 2.0)),
    ],
)
def test_segments(value: float, extrapolate: bool, expected: tuple[int, float]) -> None:
    assert segment(value, -10.0, 0.2, 10, extrapolate) == pytest.approx(expected)


@pytest.mark.long
@COMPILES
@given(st.floats(-10, 45), st.floats(-30, 30), st.floats(-24, 24), st.floats(-20, 20))
def test_the_aircraft_is_symmetric(
    alpha: float, beta: float, elevator: float, surface: float
) -> None:
    """Mirrored sideslip mirrors what the symmetric tables give: CX, CZ and Cm stay."""
    right, left = clean(alpha, beta, elevator), clean(alpha, -beta, elevator)
    assert left[0:5:2] == pytest.approx(right[0:5:2], abs=1e-12)
    assert left[1] == pytest.approx(-right[1], abs=1e-12)
    assert left[3] == pytest.approx(-right[3], abs=1e-12)
    assert left[5] == pytest.approx(-right[5], abs=1e-12)
    one, none = clean(alpha, beta, elevator, surface), clean(alpha, beta, elevator)
    two = clean(alpha, beta, elevator, 2 * surface)
    assert np.subtract(two, none) == pytest.approx(2 * np.subtract(one, none), abs=1e-12)


@COMPILES
@given(st.floats(-20, 60), st.floats(-40, 40), st.floats(-30, 30))
def test_coefficients_are_continuous(alpha: float, beta: float, elevator: float) -> None:
    here, near = clean(alpha, beta, elevator), clean(alpha + 1e-7, beta + 1e-7, elevator + 1e-7)
    assert near == pytest.approx(here, abs=1e-6)


@COMPILES
@given(st.floats(0, 100), st.floats(-1e3, 3e4), st.floats(0, 2))
def test_thrust_grows_with_power(power: float, altitude: float, mach: float) -> None:
    """Up to 30,000 ft: near 50,000 ft the published idle thrust exceeds the military one."""
    more = min(power + 1.0, 100.0)
    assert thrust_lbf(more, altitude, mach) >= thrust_lbf(power, altitude, mach) - 1e-9


def test_what_the_law_reads_the_plant_gives() -> None:
    assert len(SENSED) == 10
    for name in SENSED:
        assert F16.outputs[name].unit == LAW_INPUTS[name].unit
    assert LAW_OUTPUTS.names == F16.inputs.names


def test_figures_in_si() -> None:
    values = dict(zip(PARAMETERS.names, PARAMETERS.initial(), strict=True))
    assert values["mass"] == pytest.approx(9298.6, abs=0.1)
    assert values["ixz"] == pytest.approx(1331.4, abs=0.1)
    assert values["cg"] == 0.25


def test_unknown_case() -> None:
    with pytest.raises(UnknownName, match=r"did you mean 13\.4"):
        case("13")
    assert case(NAMES[0]).state.shape == (13,)
