"""Control law and guidance against NASA's own definition, evaluated from its DAVE-ML files.

The files carry no check shots, so the tests evaluate their MathML (:mod:`dml`), over random inputs;
where the files are absent, figures that were computed from them remain.
Source: ``F16_control.dml`` and ``F16_gnc.dml``, NASA/TM-2015-218675.
"""

from __future__ import annotations

import numpy as np
import pytest
from dml import definition

from rtsim.models.f16.guidance import CIRCLE_PARAMETERS, circle, course
from rtsim.models.f16.law import LAW_INPUTS, LAW_OUTPUTS, LAW_PARAMETERS, control_law
from rtsim.signals import Vector

# NASA's variable for each input of the law, in order.
# name; lowest and highest value that the tests draw
RANGES = (
    ("throttle", 0, 1), ("longStk", -1, 1), ("latStk", -1, 1), ("pedal", -1, 1),
    ("sasOn", 0, 1), ("apOn", 0, 1), ("keasCmd", 250, 320), ("altCmd", 9000, 11000),
    ("latOffset", -6000, 6000), ("baseChiCmd", -180, 180), ("altMsl", 9000, 11000),
    ("Vequiv", 250, 320), ("alpha", -8, 20), ("beta", -8, 8), ("phi", -60, 60),
    ("theta", -20, 20), ("psi", -180, 180), ("pb", -1, 1), ("qb", -0.5, 0.5), ("rb", -0.5, 0.5),
)  # fmt: skip
INPUTS = [name for name, _, _ in RANGES]
CALM = (
    0, 0, 0, 0, 0, 0, 287.8, 10000, 0, 45, 10001, 287.8, 2.65, 0, 0, 2.65, 45, 0, 0, 0,
)  # fmt: skip
NASA_OUTPUTS = ("el", "ail", "rdr", "PWR")


def surfaces(inputs: Vector, **parameters: float) -> Vector:
    outputs = np.zeros(LAW_OUTPUTS.size)
    control_law(inputs, LAW_PARAMETERS.initial(parameters), outputs)
    return outputs


def random_inputs(seed: int, count: int) -> Vector:
    """(count, 20), the switches 0 or 1, half of the rows so near to trim that nothing stops."""
    random = np.random.Generator(np.random.PCG64(seed))
    low, high = np.array([limits[1:] for limits in RANGES], dtype=float).T
    rows = low + (high - low) * random.random((count, low.size))
    calm = np.array(CALM)
    rows[::2] = calm + 0.002 * (rows[::2] - calm)
    rows[:, 4:6] = random.integers(0, 2, (count, 2))
    return rows  # type: ignore[no-any-return]


def nasa_surfaces(rows: Vector, **others: float) -> Vector:
    given = {**dict(zip(INPUTS, rows.T, strict=True)), **others}
    return np.stack(definition("F16_control.dml").evaluate(given, *NASA_OUTPUTS), axis=1)


def test_law_is_nasas_definition() -> None:
    rows = random_inputs(1, 300)
    found = [surfaces(row) for row in rows]
    np.testing.assert_allclose(found, nasa_surfaces(rows), rtol=1e-12, atol=1e-11)


def test_law_with_other_trims_is_nasas_definition() -> None:
    rows = random_inputs(2, 100)
    expected = nasa_surfaces(
        rows, throttleTrim=0.3, longStkTrim=-0.1, trimmedTheta=1.0, trimmedAlpha=1.5
    )
    trims = {"throttle_trim": 0.3, "long_stick_trim": -0.1, "theta_trim": 1.0, "alpha_trim": 1.5}
    found = [surfaces(row, **trims) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("pole", [0.0, 1.0])
def test_guidance_is_nasas_definition(pole: float) -> None:
    random = np.random.Generator(np.random.PCG64(3))
    north, east = random.uniform(-90, 90, 200), random.uniform(-180, 180, 200)
    given = {"ownshipN_deg": north, "ownshipE_deg": east, "circlePoleSW": pole}
    expected = definition("F16_gnc.dml").evaluate(given, "latOffset", "baseChiCmd")
    found = np.zeros((200, 2))
    for place, outputs in zip(np.stack([north, east], axis=1), found, strict=True):
        circle(place, np.array([pole]), outputs)
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-12, atol=1e-6)


def test_gains_and_trims_are_nasas() -> None:
    nasa = definition("F16_control.dml")
    names = {
        "theta_trim": "trimmedTheta",
        "airspeed_trim": "trimmedKEAS",
        "throttle_trim": "throttleTrim",
        "long_stick_trim": "longStkTrim",
    }
    for ours, theirs in names.items():
        assert LAW_PARAMETERS[ours].initial == nasa.constants[theirs]


# Figures computed from the definition; inputs in the order of LAW_INPUTS.
TRIMMED = (
    0, 0, 0, 0, 1, 1, 287.8088596053291, 10013, 0, 45, 10013, 287.8088596053291,
    2.653813535191715, 0, 0, 2.653813535191715, 45, 0, 0, 0,
)  # fmt: skip


def test_in_trim_the_law_holds_the_trim() -> None:
    expected = (-25 * 0.1296382327486013, 0.0, 0.0, 13.90191130965607)
    assert surfaces(np.array(TRIMMED, dtype=float)) == pytest.approx(expected, abs=1e-12)


def test_autopilot_brings_the_augmentation_with_it() -> None:
    row = np.array(TRIMMED, dtype=float)
    row[17] = 0.01
    both, autopilot_only = surfaces(row), row.copy()
    autopilot_only[4] = 0.0
    np.testing.assert_array_equal(surfaces(autopilot_only), both)
    neither = row.copy()
    neither[4:6] = 0.0
    assert surfaces(neither)[1] == 0.0
    assert both[1] == pytest.approx(21.5 * 4.557858908828332 * 0.01)


def test_stops() -> None:
    row = np.array(TRIMMED, dtype=float)
    row[4:6], row[0:4] = 0.0, (1.0, 1.0, -1.0, 1.0)
    assert surfaces(row) == pytest.approx((-25.0, 21.5, -30.0 + 0.008 * 21.5, 100.0))


@pytest.mark.parametrize(
    ("command", "yaw", "error"),
    [(179.9, -179.9, 0.2), (-179.9, 179.9, -0.2), (90.0, -95.0, 175.0), (-90.0, 95.0, -175.0)],
)
def test_course_error_takes_the_short_way(command: float, yaw: float, error: float) -> None:
    row = np.array(TRIMMED, dtype=float)
    row[9], row[16] = command, yaw
    short = row.copy()
    short[9], short[16] = 0.0, error
    assert surfaces(row)[1] == pytest.approx(surfaces(short)[1])


def test_track_along_a_parallel_and_a_meridian() -> None:
    """One minute of latitude at 36 N is 6068.2 ft (WGS-84); offsets to the right are positive."""
    outputs, here = np.zeros(2), np.array([36.0, -75.0, 1.0])
    course(np.array([36.0 + 1 / 120, -75.0, 270.0, 0.0]), here, outputs)
    assert outputs == pytest.approx((3034.1 / 1.0, 270.0), abs=2.0)
    course(np.array([36.0 + 1 / 120, -75.0, 90.0, 500.0]), here, outputs)
    assert outputs == pytest.approx((-3034.1 - 500.0, 90.0), abs=2.0)
    course(np.array([37.0, -75.0, 0.0, 0.0]), here, outputs)
    assert outputs[0] == pytest.approx(0.0, abs=1e-6)


def test_course_only_feeds_no_deviation_back() -> None:
    outputs = np.ones(2)
    course(np.array([36.5, -75.0, 90.0, 500.0]), np.array([36.0, -75.0, 0.0]), outputs)
    assert tuple(outputs) == (0.0, 90.0)


def test_signals_fit_together() -> None:
    assert LAW_INPUTS.size == len(INPUTS) == 20
    assert LAW_PARAMETERS.size == 24
    assert CIRCLE_PARAMETERS.names == ("circle_pole",)
