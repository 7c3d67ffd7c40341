"""NASA's static check shots for the F-16's aerodynamics (1e-6) and propulsion (as rounded).

Source: the ``checkData`` of ``F16_aero.dml`` and ``F16_prop.dml``, NASA/TM-2015-218675.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from flight import DATA

from rtsim.models.f16.aerodynamics import (
    DEGREES_PER_RADIAN,
    NASA_SIDESLIP,
    NASA_SURFACES,
    coefficients,
)
from rtsim.models.f16.propulsion import thrust_lbf

# name; airspeed ft/s, alpha, beta deg, p, q, r rad/s, elevator, aileron, rudder deg;
# CX, CY, CZ, Cl, Cm, Cn
AERODYNAMIC = (
    (
        "Nominal",
        (300.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        (-0.004, 0.0, -0.416, 0.0, -0.005, 0.0),
    ),
    (
        "Positive sideslip",
        (300.0, 5.0, 2.34, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        (-0.004, -0.0468, -0.41530612733219, -0.005616, -0.005, 0.008892),
    ),
    (
        "Negative sideslip",
        (300.0, 5.0, -2.34, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        (-0.004, 0.0468, -0.41530612733219, 0.005616, -0.005, -0.008892),
    ),
    (
        "Positive roll rate",
        (300.0, 5.0, 0.0, 3.42, 0.0, 0.0, 0.0, 0.0, 0.0),
        (-0.004, 0.01881, -0.416, -0.07182, -0.005, -0.002052),
    ),
    (
        "Negative roll rate",
        (300.0, 5.0, 0.0, -3.42, 0.0, 0.0, 0.0, 0.0, 0.0),
        (-0.004, -0.01881, -0.416, 0.07182, -0.005, 0.002052),
    ),
    (
        "Positive pitch rate",
        (300.0, 5.0, 0.0, 0.0, 0.98, 0.0, 0.0, 0.0, 0.0),
        (0.02077570666667, 0.0, -0.99656506666667, 0.0, -0.10225389333333, 0.0),
    ),
    (
        "Negative pitch rate",
        (300.0, 5.0, 0.0, 0.0, -0.98, 0.0, 0.0, 0.0, 0.0),
        (-0.02877570666667, 0.0, 0.16456506666667, 0.0, 0.09225389333333, 0.0),
    ),
    (
        "Positive yaw rate",
        (300.0, 5.0, 0.0, 0.0, 0.0, 2.92, 0.0, 0.0, 0.0),
        (-0.004, 0.139868, -0.416, 0.016498, -0.005, -0.056356),
    ),
    (
        "Negative yaw rate",
        (300.0, 5.0, 0.0, 0.0, 0.0, -2.92, 0.0, 0.0, 0.0),
        (-0.004, -0.139868, -0.416, -0.016498, -0.005, 0.056356),
    ),
    (
        "Positive elevator",
        (300.0, 5.0, 0.0, 0.0, 0.0, 0.0, 12.92, 0.0, 0.0),
        (-0.02860333333333, 0.0, -0.514192, 0.0, -0.13206, 0.0),
    ),
    (
        "Negative elevator",
        (300.0, 5.0, 0.0, 0.0, 0.0, 0.0, -12.92, 0.0, 0.0),
        (-0.02422, 0.0, -0.317808, 0.0, 0.11659333333333, 0.0),
    ),
    (
        "Positive aileron",
        (300.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 24.1, 0.0),
        (-0.004, 0.025305, -0.416, -0.06266, -0.005, -0.010845),
    ),
    (
        "Negative aileron",
        (300.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, -24.1, 0.0),
        (-0.004, -0.025305, -0.416, 0.06266, -0.005, 0.010845),
    ),
    (
        "Positive rudder",
        (300.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 12.03),
        (-0.004, 0.034486, -0.416, 0.005614, -0.005, -0.018045),
    ),
    (
        "Negative rudder",
        (300.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -12.03),
        (-0.004, -0.034486, -0.416, -0.005614, -0.005, 0.018045),
    ),
    (
        "Skewed inputs",
        (300.0, 16.2, -3.24, 0.56, -0.76, -0.94, 4.567, 7.654, -2.991),
        (
            0.04794994533333,
            0.02735386,
            -0.72934852554344,
            -0.026917840128,
            0.05917625733333,
            0.013526640528,
        ),
    ),
)

# power %, altitude ft, Mach number, thrust lbf, NASA's own tolerance lbf
PROPULSIVE = (
    (0.0, 0.0, 0.0, 1060.0, 1e-05),
    (50.0, 0.0, 0.0, 12680.0, 1e-05),
    (100.0, 0.0, 0.0, 20000.0, 1e-05),
    (100.0, 0.0, 1.0, 28885.0, 1e-05),
    (0.0, 50000.0, 1.0, 700.0, 1e-05),
    (50.0, 50000.0, 1.0, 2310.0, 1e-05),
    (100.0, 50000.0, 1.0, 5057.0, 1e-05),
    (42.3, 23507.0, 0.625, 5319.3491, 0.001),
    (88.3, 33537.0, 0.895, 9298.8926, 0.0006),
)

SPAN_FT, CHORD_FT = 30.0, 11.32


@pytest.mark.parametrize(("name", "given", "expected"), AERODYNAMIC, ids=lambda v: str(v)[:30])
def test_aerodynamic_check_shot(
    name: str, given: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    airspeed, alpha, beta, p, q, r, elevator, aileron, rudder = given
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
    assert found == pytest.approx(expected, abs=1e-6), name


@pytest.mark.parametrize(("power", "altitude", "mach", "expected", "rounding"), PROPULSIVE)
def test_propulsion_check_shot(
    power: float, altitude: float, mach: float, expected: float, rounding: float
) -> None:
    assert thrust_lbf(power, altitude, mach) == pytest.approx(expected, abs=rounding)


def test_every_check_shot_of_nasa_stands_above() -> None:
    files = [DATA / "f16" / f"F16_{part}_checkcases.json" for part in ("aero", "prop")]
    if not all(file.exists() for file in files):
        pytest.skip(f"NASA's check shots are not at {DATA}")
    aero, propulsion = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    for shot, (name, given, _) in zip(aero, AERODYNAMIC, strict=True):
        assert shot["name"] == name
        np.testing.assert_array_equal(list(shot["in"].values()), given)
        for value, key in zip(_coefficients(shot["out"]), "XYZlmn", strict=True):
            expected = dict(zip("XYZlmn", AERODYNAMIC[aero.index(shot)][2], strict=True))
            assert value == expected[key]
    assert [shot["out"]["thrustBodyForce_X"] for shot in propulsion] == [s[3] for s in PROPULSIVE]


def _coefficients(out: dict[str, float]) -> list[float]:
    forces = [out[f"aeroBodyForceCoefficient_{axis}"] for axis in "XYZ"]
    return forces + [out[f"aeroBodyMomentCoefficient_{a}"] for a in ("Roll", "Pitch", "Yaw")]


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
