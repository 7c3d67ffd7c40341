"""Trim of the F-16 at case 11, and the linear model there.

Source: NASA/TM-2015-218675, case 11; the trim was recomputed independently to six digits
(elevator -3.232758 deg, power 13.873818 %, 287.9815 KEAS, theta as in ``sim_05`` 2.638926).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rtsim.core.errors import ModelError
from rtsim.linear import linearise
from rtsim.models.f16.piloted_scenario import scenario as by_hand
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import CONDITIONS, SUBSONIC, FlightCondition, case, trimmed
from rtsim.models.f16.trim import Trim, bound_f16, trim
from rtsim.models.units import FT

THETA, ELEVATOR, POWER, AIRSPEED = 2.638939, -3.232758, 13.873818, 287.9815


def misses(found: Trim) -> float:
    """Largest departure in deg from the published pitch and elevator."""
    return max(abs(found.theta_deg - THETA), abs(found.inputs["elevator"] - ELEVATOR))


def test_case_11() -> None:
    found = case("11").trim
    assert misses(found) < 1e-5
    assert found.inputs["power"] == pytest.approx(POWER, abs=1e-5)
    assert found.outputs["equivalent_airspeed_kt"] == pytest.approx(AIRSPEED, abs=1e-4)
    assert found.inputs["aileron"] == found.inputs["rudder"] == 0.0


def test_euler_angles_rest_in_the_turning_local_frame() -> None:
    """Central difference of the outputs over a short flight along the derivative."""
    found = case("11").trim
    p, z = F16.parameters.initial(), np.zeros(0)
    dx, ahead, behind = np.zeros(13), F16.outputs.initial(), F16.outputs.initial()
    bound = bound_f16()
    bound.derivative.call(0.0, found.state, z, found.controls, p, dx)
    h = 1e-3
    bound.output.call(h, found.state + h * dx, z, found.controls, p, ahead)
    bound.output.call(-h, found.state - h * dx, z, found.controls, p, behind)
    rates = dict(zip(F16.outputs.names, (ahead - behind) / (2 * h), strict=True))
    for name in ("roll", "pitch", "yaw"):
        assert abs(rates[name]) < 1e-9, name
    for name in ("velocity_down", "airspeed"):
        assert abs(rates[name]) < 1e-6, name


@pytest.mark.parametrize(
    "planted", [{"cg": 0.30}, {"earth_rate": 0.0}, {"j2": 0.0}, {"mass": 9290.0}], ids=str
)
def test_wrong_aircraft_or_earth_is_caught(planted: dict[str, float]) -> None:
    assert misses(trimmed(SUBSONIC, planted)) > 1e-4


def test_speed_that_cannot_be_held_says_so() -> None:
    with pytest.raises(ModelError, match="no level trim found at 20"):
        trim(latitude=0.0, longitude=0.0, altitude=3000.0, speed=20.0, course=0.0)


def test_linear_model_predicts_the_plant() -> None:
    """A small step of elevator and state, by A and B and by the equations themselves."""
    found = case("11").trim
    p, z = F16.parameters.initial(), np.zeros(0)
    linear = linearise(F16, at=found.values)
    assert linear.a.shape == (13, 13)
    assert linear.b.shape == (13, 4)
    assert linear.c.shape == (F16.outputs.size, 13)
    assert linear.d.shape == (F16.outputs.size, 4)
    dx, moved = np.zeros(13), np.zeros(13)
    step_x = np.zeros(13)
    step_x[3:6] = 0.01, -0.02, 0.015
    step_x[10:13] = 1e-4, -2e-4, 1e-4
    step_u = np.array([0.01, 0.01, -0.01, 0.05])
    derivative = bound_f16().derivative.call
    derivative(0.0, found.state, z, found.controls, p, dx)
    derivative(0.0, found.state + step_x, z, found.controls + step_u, p, moved)
    predicted = linear.a @ step_x + linear.b @ step_u
    np.testing.assert_allclose(moved - dx, predicted, rtol=2e-3, atol=2e-7)


def test_output_of_the_linear_model_is_in_the_outputs_units() -> None:
    """Down by one metre along the radius is 1 m and 1 / 0.3048 ft of altitude."""
    found = case("11").trim
    linear = linearise(F16, at=found.values)
    sine, cosine = math.sin(found.outputs["latitude"]), math.cos(found.outputs["latitude"])
    longitude = found.outputs["longitude"]
    up = np.array([cosine * math.cos(longitude), cosine * math.sin(longitude), sine])
    by_position = linear.c[:, 0:3] @ up
    assert by_position[F16.outputs.slice("altitude")][0] == pytest.approx(1.0, abs=1e-6)
    assert by_position[F16.outputs.slice("altitude_ft")][0] == pytest.approx(1 / FT, abs=1e-6)


@pytest.mark.parametrize("start", CONDITIONS, ids=str)
def test_kept_trims_are_what_the_solver_finds(
    start: FlightCondition, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, solved = trimmed(start), trimmed(replace(start, trim=(0.0, 0.0, 0.0)))
    np.testing.assert_allclose(kept.state, solved.state, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kept.controls, solved.controls, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr("rtsim.models.f16.trim._solved", None)
    np.testing.assert_array_equal(trimmed(start).state, kept.state)


def test_the_piloted_flights_trim_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtsim.models.f16.trim._solved", None)
    by_hand()
    with pytest.raises(TypeError):
        by_hand(speed_kt=310.0)
