"""Control law and guidance against NASA's own definition, evaluated from its DAVE-ML files.

The files carry no check shots, so the tests evaluate their MathML with an evaluator of their own,
over random inputs; where the files are absent, figures that were computed from them remain.
Source: ``F16_control.dml`` and ``F16_gnc.dml``, NASA/TM-2015-218675.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np
import pytest
from flight import DATA

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
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plus": lambda *a: sum(a),
    "minus": lambda *a: -a[0] if len(a) == 1 else a[0] - a[1],
    "times": lambda *a: math.prod(a),
    "divide": lambda a, b: a / b,
    "abs": abs,
    "cos": math.cos,
    "power": pow,
    "lt": lambda a, b: a < b,
    "gt": lambda a, b: a > b,
    "or": lambda *a: reduce(lambda x, y: x or y, a),
    "atan2": math.atan2,
}


class Definition:
    """The variables of one DAVE-ML file without tables, evaluated on demand."""

    def __init__(self, name: str) -> None:
        path = DATA / "nesc" / "F16" / name
        if not path.exists():
            pytest.skip(f"NASA's definition is not at {path}")
        root = ET.parse(path).getroot()
        self.variables = {v.attrib["varID"]: v for v in root if v.tag.endswith("}variableDef")}

    def evaluate(self, given: dict[str, float], wanted: str) -> float:
        known: dict[str, float] = {}

        def value(name: str) -> float:
            if name not in known:
                known[name] = compute(name)
            return known[name]

        def compute(name: str) -> float:
            variable = self.variables[name]
            formula = next((c[0] for c in variable if c.tag.endswith("}calculation")), None)
            if name in given:
                raw = given[name]
            elif formula is None:
                raw = float(variable.attrib["initialValue"])
            else:
                raw = float(expression(formula[0]))
            low = float(variable.get("minValue", -math.inf))
            high = float(variable.get("maxValue", math.inf))
            return min(max(raw, low), high)

        def expression(node: ET.Element) -> Any:
            kind, text = node.tag.split("}")[1], (node.text or "").strip()
            if kind == "ci":
                return value(text)
            if kind == "cn":
                return float(text)
            if kind == "piecewise":
                for piece in node:
                    if piece.tag.endswith("otherwise") or expression(piece[1]):
                        return expression(piece[0])
            operator = node[0]
            kind = operator.tag.split("}")[1]
            if kind == "piecewise":
                return expression(operator)
            if kind == "csymbol":
                kind = (operator.text or "").strip()
            return FUNCTIONS[kind](*(expression(child) for child in node[1:]))

        return value(wanted)


@cache
def definition(name: str) -> Definition:
    return Definition(name)


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


def test_law_is_nasas_definition() -> None:
    nasa = definition("F16_control.dml")
    for row in random_inputs(1, 300):
        given = dict(zip(INPUTS, map(float, row), strict=True))
        expected = [nasa.evaluate(given, name) for name in ("el", "ail", "rdr", "PWR")]
        np.testing.assert_allclose(surfaces(row), expected, rtol=1e-12, atol=1e-11)


def test_law_with_other_trims_is_nasas_definition() -> None:
    nasa = definition("F16_control.dml")
    trims = {"throttleTrim": 0.3, "longStkTrim": -0.1, "trimmedTheta": 1.0, "trimmedAlpha": 1.5}
    for row in random_inputs(2, 100):
        given = {**dict(zip(INPUTS, map(float, row), strict=True)), **trims}
        found = surfaces(
            row, throttle_trim=0.3, long_stick_trim=-0.1, theta_trim=1.0, alpha_trim=1.5
        )
        expected = [nasa.evaluate(given, name) for name in ("el", "ail", "rdr", "PWR")]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("pole", [0.0, 1.0])
def test_guidance_is_nasas_definition(pole: float) -> None:
    nasa = definition("F16_gnc.dml")
    random = np.random.Generator(np.random.PCG64(3))
    for _ in range(200):
        north, east = (random.uniform(-90, 90), random.uniform(-180, 180))
        given = {"ownshipN_deg": north, "ownshipE_deg": east, "circlePoleSW": pole}
        expected = [nasa.evaluate(given, name) for name in ("latOffset", "baseChiCmd")]
        outputs = np.zeros(2)
        circle(np.array([north, east]), np.array([pole]), outputs)
        np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-6)


def test_gains_and_trims_are_nasas() -> None:
    nasa = definition("F16_control.dml")
    names = {
        "theta_trim": "trimmedTheta",
        "airspeed_trim": "trimmedKEAS",
        "throttle_trim": "throttleTrim",
        "long_stick_trim": "longStkTrim",
    }
    for ours, theirs in names.items():
        figure = float(nasa.variables[theirs].attrib["initialValue"])
        assert LAW_PARAMETERS[ours].initial == figure


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
