"""Control law and guidance against NASA's own definition, as it answers over random inputs.

Source: ``F16_control.dml`` and ``F16_gnc.dml``, NASA/TM-2015-218675.  They carry no check shots;
tools/figures.py evaluates them as they are written, and figures/ has what they say.
"""

from __future__ import annotations

import numpy as np
import pytest
from published import groups, records

from rtsim.core.signals import Vector
from rtsim.models.f16.controller import (
    CIRCLE_PARAMETERS,
    LAW_INPUTS,
    LAW_OUTPUTS,
    LAW_PARAMETERS,
    circle,
    control_law,
    course,
)


def surfaces(inputs: Vector, **parameters: float) -> Vector:
    outputs = np.zeros(LAW_OUTPUTS.size)
    control_law(inputs, LAW_PARAMETERS.initial(parameters), outputs)
    return outputs


def test_law_is_nasas_definition() -> None:
    rows, expected = groups("f16_law", LAW_INPUTS.size, LAW_OUTPUTS.size)
    assert len(rows) == 2500
    found = [surfaces(row) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


def test_law_with_other_gains_and_trims_is_nasas_definition() -> None:
    sizes = LAW_PARAMETERS.size, LAW_INPUTS.size, LAW_OUTPUTS.size
    parameters, rows, expected = groups("f16_law_gains", *sizes)
    assert len(rows) == 300
    found = np.zeros_like(expected)
    for given, row, outputs in zip(parameters, rows, found, strict=True):
        control_law(row, given, outputs)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("pole", [0.0, 1.0])
def test_guidance_is_nasas_definition(pole: float) -> None:
    every, expected = groups("f16_guidance", 3, 2)
    here = every[:, 2] == pole
    assert here.sum() == 200
    found = np.zeros((200, 2))
    for place, outputs in zip(every[here, :2], found, strict=True):
        circle(place, np.array([pole]), outputs)
    np.testing.assert_allclose(found, expected[here], rtol=1e-12, atol=1e-9)


def test_gains_and_trims_are_nasas_digit_for_digit() -> None:
    """In the order in which NASA's names head the figures with other gains."""
    nasa = {row["name"]: float(row["value"]) for row in records("f16_gains")}
    names = list(records("f16_law_gains")[0])[: LAW_PARAMETERS.size]
    assert [nasa[name] for name in names] == LAW_PARAMETERS.initial().tolist()
    assert len(nasa) == LAW_PARAMETERS.size == 24


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
    assert LAW_INPUTS.size == 20
    assert LAW_PARAMETERS.size == 24
    assert CIRCLE_PARAMETERS.names == ("circle_pole",)
