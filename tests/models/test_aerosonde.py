"""The Aerosonde: trim and linear model of the book's programs, the stall, flights by stick."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal
from scipy.optimize import brentq

import rtsim as rt
from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.equations.earth import EQUATORIAL_RADIUS
from rtsim.linear.trimming import Trim
from rtsim.models.aerosonde import AEROSONDE, SteadyFlight, lift_coefficient
from rtsim.models.aerosonde_by_hand import scenario
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.body import BODY_STATES, acceleration_over_earth, initial_state
from rtsim.runs.simulation import simulate

_density = getattr(standard_atmosphere, "py_func", standard_atmosphere)
DENSITY, GRAVITY = 1.2682, 9.8
LOW = float(brentq(lambda altitude: _density(altitude)[0] - DENSITY, -1000.0, 0.0))
"""Altitude with the density of the book, m."""
BOOK = {
    "gravitational_parameter": GRAVITY * (EQUATORIAL_RADIUS + LOW) ** 2,
    "j2": 0.0, "flattening": 0.0, "earth_rate": 0.0, "c_d_p": 0.0,
}  # fmt: skip
"""The Earth of the book, and the parasitic drag of its programs when they wrote ``model_coef.py``.
"""
PUBLISHED = {
    "pitch": 0.050011, "elevator": -0.124778, "aileron": 0.001836, "rudder": -0.000303,
    "throttle": 0.676752,
}  # fmt: skip
"""``model_coef.py`` of the programs to chapter 5 for 25 m/s, as students of the course keep it."""


@pytest.fixture(scope="module")
def level() -> Trim:
    return SteadyFlight(latitude=0.0, longitude=0.0, altitude=LOW, parameters=BOOK).trim()


def test_the_trim_is_that_of_the_programs_of_the_book(level: Trim) -> None:
    for name, value in PUBLISHED.items():
        assert level[name] == pytest.approx(value, abs=2e-5), name
    assert level.outputs["airspeed"] == pytest.approx(25.0)
    assert level.outputs["alpha"] == pytest.approx(PUBLISHED["pitch"], abs=2e-5)


def rates(level: Trim, u: float, w: float, q: float, pitch: float) -> Vector:
    """Return du/dt, dw/dt and dq/dt for body velocities, pitch rate and pitch angle."""
    north = u * math.cos(pitch) + w * math.sin(pitch)
    down = -u * math.sin(pitch) + w * math.cos(pitch)
    x = initial_state(
        latitude=0.0, longitude=0.0, altitude=LOW, velocity_ned=(north, 0.0, down),
        euler=(0.0, pitch, 0.0), rates=(0.0, q, 0.0), parameters=BOOK,
    )  # fmt: skip
    names = ("elevator", "aileron", "rudder", "throttle")
    inputs = AEROSONDE.inputs.initial({name: level[name] for name in names})
    dx, model = np.zeros(x.size), AEROSONDE
    known: Any = model
    with plainly():
        known.derivative(
            0.0, x, model.discrete.initial(), inputs, model.parameters.initial(BOOK), dx
        )
    ahead, _, below = acceleration_over_earth(x, dx, 0.0)
    return np.array([ahead, below, dx[BODY_STATES.slice("rates")][1]])


def test_the_longitudinal_model_is_that_of_the_programs_of_the_book(level: Trim) -> None:
    """``A_lon`` of ``model_coef.py``. Its differences are one-sided, so that they agree to 1 %."""
    published = np.array(
        [
            [-0.206767, 0.500390, -1.219839, -9.785135],
            [-0.560642, -4.463936, 24.371050, math.nan],
            [0.199936, -3.992979, -5.294738, 0.0],
        ]
    )
    alpha = level.outputs["alpha"]
    at, step = np.array([25.0 * math.cos(alpha), 25.0 * math.sin(alpha), 0.0, level["pitch"]]), 1e-5
    columns = []
    for k in range(4):
        moved = step * np.eye(4)[k]
        columns.append((rates(level, *(at + moved)) - rates(level, *(at - moved))) / (2.0 * step))
    found = np.column_stack(columns)
    known = ~np.isnan(published)
    np.testing.assert_allclose(found[known], published[known], rtol=0.01, atol=2e-3)
    assert found[1, 3] == pytest.approx(-GRAVITY * math.sin(level["pitch"]), abs=1e-3)


def test_there_is_no_flight_beyond_the_power_of_the_motor() -> None:
    with pytest.raises(ModelError, match="throttle"):
        SteadyFlight(latitude=0.0, longitude=0.0, altitude=100.0, speed=60.0).trim()


def test_the_lift_becomes_that_of_a_flat_plate() -> None:
    with plainly():
        low = lift_coefficient(0.1, 0.23, 5.61, 0.47, 50.0)
        middle = lift_coefficient(0.47, 0.23, 5.61, 0.47, 50.0)
        high = lift_coefficient(1.0, 0.23, 5.61, 0.47, 50.0)
        back = lift_coefficient(-1.0, 0.23, 5.61, 0.47, 50.0)
    plate = 2.0 * math.sin(1.0) ** 2 * math.cos(1.0)
    assert low == pytest.approx(0.23 + 0.561, rel=1e-6)
    assert (high, back) == pytest.approx((plate, -plate), abs=1e-9)
    flat = 2.0 * math.sin(0.47) ** 2 * math.cos(0.47)
    assert middle == pytest.approx(0.5 * (0.23 + 5.61 * 0.47 + flat), rel=1e-6)


def test_the_flight_by_stick_begins_in_trim() -> None:
    """At the default height, whose trim is stored, and at another one, which is searched."""
    for height in (100.0, 150.0):
        run = simulate(scenario(until=1.0, height=height))
        assert np.abs(run["aerosonde.rates"]).max() < 0.05
        assert np.ptp(run["aerosonde.height"]) < 0.05
        assert run["aerosonde.airspeed"][-1] == pytest.approx(25.0, abs=0.05)
        assert abs(run["aerosonde.velocity_down"][0]) < 1e-3


def banked() -> rt.Scenario:
    out: rt.Scenario = scenario(until=3.0, turbulence=1e-2, wind=3.0)
    out.drive("stick.roll", [(0, 0.0), (500_000_000, 0.5)])
    return out


@pytest.mark.long
def test_both_engines_fly_alike_in_turbulence() -> None:
    assert check_equal(banked) > 100  # tags of the compiled engine


def test_the_stick_commands_the_bank() -> None:
    out = scenario(until=6.0)
    out.drive("stick.roll", [(0, 0.0), (1_000_000_000, 0.5)])
    run = simulate(out)
    assert run.final("aerosonde.roll") == pytest.approx(math.radians(30.0), abs=0.03)
    assert abs(run["aerosonde.beta"][-1]) < 0.03
    turn = 9.8 / run.final("aerosonde.airspeed") * math.tan(run.final("aerosonde.roll"))
    heading = np.unwrap(run["aerosonde.yaw"])
    assert (heading[-1] - heading[-101]) / 0.5 == pytest.approx(turn, rel=0.1)
    assert run.final("pitot.indicated_airspeed") == pytest.approx(25.0, abs=1.0)


def test_an_aircraft_without_power_strikes_the_ground() -> None:
    out = scenario(until=60.0, height=10.0, step=0.01)
    out.drive("stick.throttle", [(0, 0.0)])
    out.drive("stick.pitch", [(0, -0.3)])
    run = simulate(out)
    assert "the aircraft struck the ground" in run.in_words
    assert not run.ok
    assert run.final("aerosonde.height") == pytest.approx(0.15, abs=0.01)
