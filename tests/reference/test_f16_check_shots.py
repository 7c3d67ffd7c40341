"""NASA's static check shots for the F-16's aerodynamics and propulsion, to NASA's tolerances.

Source: the ``checkData`` of ``F16_aero.dml`` and ``F16_prop.dml``, NASA/TM-2015-218675.
"""

from __future__ import annotations

import pytest
from published import records

from rtsim.models.f16.aerodynamics import (
    DEGREES_PER_RADIAN,
    NASA_SIDESLIP,
    NASA_SURFACES,
    coefficients,
    thrust_lbf,
)

SPAN_FT, CHORD_FT = 30.0, 11.32
AERODYNAMIC = records("f16_aero_shots")
PROPULSIVE = records("f16_prop_shots")


@pytest.mark.parametrize("shot", AERODYNAMIC, ids=lambda shot: shot["name"])
def test_aerodynamic_check_shot(shot: dict[str, str]) -> None:
    _, *values = shot.values()
    *numbers, tolerance = map(float, values)
    airspeed, alpha, beta, p, q, r, elevator, aileron, rudder, *expected = numbers
    half = 0.5 / airspeed
    found = coefficients(
        alpha,
        beta,
        p * SPAN_FT * half,
        q * CHORD_FT * half,
        r * SPAN_FT * half,
        elevator,
        aileron,
        rudder,
        NASA_SIDESLIP,
        NASA_SURFACES,
        DEGREES_PER_RADIAN,
        False,
    )
    assert found == pytest.approx(expected, abs=tolerance)
    assert tolerance == 1e-6


@pytest.mark.parametrize("shot", PROPULSIVE, ids=lambda shot: shot["name"])
def test_propulsion_check_shot(shot: dict[str, str]) -> None:
    _, *values = shot.values()
    power, altitude, mach, expected, tolerance = map(float, values)
    assert thrust_lbf(power, altitude, mach) == pytest.approx(expected, abs=tolerance)
    assert tolerance <= 1e-3


def test_every_check_shot_of_nasa_is_here() -> None:
    assert (len(AERODYNAMIC), len(PROPULSIVE)) == (16, 9)


def test_tables_clamp_where_nasa_clamps() -> None:
    """The elevator's tables end at 24 deg; its term in CZ does not."""

    def at(alpha: float, elevator: float) -> tuple[float, ...]:
        return coefficients(
            alpha, 0.0, 0.0, 0.0, 0.0, elevator, 0.0, 0.0,
            NASA_SIDESLIP, NASA_SURFACES, DEGREES_PER_RADIAN, False,
        )  # fmt: skip

    inside, outside = at(5.0, -24.0), at(5.0, -25.0)
    assert outside[0] == inside[0]
    assert outside[4] == inside[4]
    assert outside[2] - inside[2] == pytest.approx(0.19 / 25.0)
    assert at(45.0, 0.0) == at(60.0, 0.0)
    assert at(-10.0, 0.0) == at(-20.0, 0.0)
