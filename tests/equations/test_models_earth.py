"""Earth and atmosphere: frames that invert each other, gravity as a gradient, tabulated air."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.signals import Vector
from rtsim.equations.earth import (
    EARTH_PARAMETERS,
    EQUATORIAL_RADIUS,
    FLATTENING,
    GRAVITATIONAL_PARAMETER,
    J2,
    eci_to_ecef,
    from_geodetic,
    from_ned,
    geodetic,
    gravity,
    to_ned,
)
from rtsim.models.atmosphere import SEA_LEVEL_DENSITY, standard_atmosphere

COMPILES = settings(deadline=None)  # the first call of a helper compiles it
WGS84 = (EQUATORIAL_RADIUS, FLATTENING)
angles = st.floats(-math.pi, math.pi)
latitudes = st.floats(-math.pi / 2, math.pi / 2)
components = st.floats(-1e4, 1e4)


@COMPILES
@given(latitudes, angles, st.floats(-1e4, 1e6))
def test_geodetic_position_comes_back(latitude: float, longitude: float, altitude: float) -> None:
    sine, cosine, found = geodetic(*from_geodetic(latitude, longitude, altitude, *WGS84), *WGS84)
    assert math.atan2(sine, cosine) == pytest.approx(latitude, abs=1e-9)
    assert found == pytest.approx(altitude, abs=2e-8 + 1e-14 * abs(altitude))


@COMPILES
@given(latitudes, angles, st.floats(-1e4, 1e6))
def test_round_earth(latitude: float, longitude: float, altitude: float) -> None:
    _, _, found = geodetic(
        *from_geodetic(latitude, longitude, altitude, 6.371e6, 0.0), 6.371e6, 0.0
    )
    assert found == pytest.approx(altitude, abs=1e-8)


def test_poles_and_equator() -> None:
    polar = EQUATORIAL_RADIUS * (1.0 - FLATTENING)
    assert geodetic(0.0, 0.0, polar + 10.0, *WGS84) == pytest.approx((1.0, 0.0, 10.0), abs=1e-8)
    assert geodetic(0.0, 0.0, -polar, *WGS84) == pytest.approx((-1.0, 0.0, 0.0), abs=1e-8)
    assert geodetic(0.0, EQUATORIAL_RADIUS, 0.0, *WGS84) == pytest.approx((0.0, 1.0, 0.0), abs=1e-8)


def test_nesc_case_11_start_in_eci() -> None:
    """The start of ``sim_05``, in ft; NASA's table of initial conditions is 0.7 ft off it."""
    latitude, longitude = math.radians(36.01916666666666), math.radians(-75.67444444444445)
    found = from_geodetic(latitude, longitude, 10013.0 * 0.3048, *WGS84)
    feet = (4194654.423716988, -16425671.671266712, 12243132.354871515)
    assert np.array(found) / 0.3048 == pytest.approx(feet, abs=1e-3)


@COMPILES
@given(latitudes, angles, components, components, components)
def test_local_frame_inverts(
    latitude: float, longitude: float, n: float, e: float, d: float
) -> None:
    local = math.sin(latitude), math.cos(latitude), math.sin(longitude), math.cos(longitude)
    assert to_ned(*from_ned(n, e, d, *local), *local) == pytest.approx((n, e, d), abs=1e-8)


def test_down_points_to_the_axis_at_the_equator() -> None:
    assert from_ned(0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0) == (-1.0, 0.0, 0.0)
    assert from_ned(0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0) == (0.0, 1.0, 0.0)


@COMPILES
@given(components, components, angles)
def test_earth_rotation_inverts(x: float, y: float, angle: float) -> None:
    assert eci_to_ecef(*eci_to_ecef(x, y, angle), -angle) == pytest.approx((x, y), abs=1e-8)


@COMPILES
@given(latitudes, angles, st.floats(0.0, 5e5))
def test_gravity_is_the_gradient_of_its_potential(
    latitude: float, longitude: float, altitude: float
) -> None:
    def potential(position: Vector) -> float:
        r2 = float(position @ position)
        oblate = J2 * EQUATORIAL_RADIUS**2 / r2 * 0.5 * (3.0 * position[2] ** 2 / r2 - 1.0)
        return GRAVITATIONAL_PARAMETER / math.sqrt(r2) * (1.0 - float(oblate))

    at = np.array(from_geodetic(latitude, longitude, altitude, *WGS84))
    found = gravity(
        float(at[0]), float(at[1]), float(at[2]), GRAVITATIONAL_PARAMETER, EQUATORIAL_RADIUS, J2
    )
    h = 100.0
    slope = [(potential(at + h * axis) - potential(at - h * axis)) / (2 * h) for axis in np.eye(3)]
    assert found == pytest.approx(slope, abs=1e-7)


def test_parameters_default_to_wgs84() -> None:
    values = dict(zip(EARTH_PARAMETERS.names, EARTH_PARAMETERS.initial(), strict=True))
    assert values["equatorial_radius"] == EQUATORIAL_RADIUS
    assert 1.0 / values["flattening"] == pytest.approx(298.257223563)


# Geopotential altitude m, temperature K, pressure Pa: U.S. Standard Atmosphere 1976, table I
LAYERS = (
    (0.0, 288.15, 101325.0),
    (11000.0, 216.65, 22632.06),
    (20000.0, 216.65, 5474.889),
    (32000.0, 228.65, 868.0187),
    (47000.0, 270.65, 110.9063),
    (51000.0, 270.65, 66.93887),
    (71000.0, 214.65, 3.956420),
    (84852.0, 186.946, 0.3733836),
)


@pytest.mark.parametrize(("geopotential", "temperature", "pressure"), LAYERS)
def test_standard_atmosphere(geopotential: float, temperature: float, pressure: float) -> None:
    geometric = 6356766.0 * geopotential / (6356766.0 - geopotential)
    density, sound, found, at = standard_atmosphere(geometric)
    assert found == pytest.approx(temperature, abs=1e-3)
    assert at == pytest.approx(pressure, rel=2e-6)
    assert density == pytest.approx(pressure / (287.05287 * temperature), rel=1e-5)
    assert sound == pytest.approx(math.sqrt(1.4 * 287.05287 * temperature), rel=1e-5)


def test_sea_level_density() -> None:
    assert pytest.approx(1.2250, abs=5e-5) == SEA_LEVEL_DENSITY


@COMPILES
@given(st.floats(-4900.0, 1.2e5))
def test_atmosphere_has_no_steps(altitude: float) -> None:
    below, above = standard_atmosphere(altitude - 0.5), standard_atmosphere(altitude + 0.5)
    assert 0.0 < above[3] < below[3]
    assert above == pytest.approx(below, rel=5e-4)
