"""NASA's F-16 control law three times: as designed, translated to C, and as NASA's file answers.

Inputs come from the whole envelope, and in part from so near to trim that nothing stops.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from f16_laws import control_law
from f16_rounding import Rounded, Undecided, limited, rounded
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from published import groups

from hitl.building.build import build
from rtsim.core.tag import Tag
from rtsim.models.f16 import controller
from rtsim.models.f16.controller import LAW_INPUTS, LAW_OUTPUTS, LAW_PARAMETERS, ControlLaw

Rows = NDArray[np.float64]
FILE = Path(__file__).resolve().parents[2] / "firmware" / "core" / "f16_control.toml"
# NASA's variable for each input, in the order of LAW_INPUTS; lowest, highest, and at ease.
ENVELOPE = (
    ("throttle", 0, 1, 0), ("longStk", -1, 1, 0), ("latStk", -1, 1, 0), ("pedal", -1, 1, 0),
    ("sasOn", 0, 1, 0), ("apOn", 0, 1, 0), ("keasCmd", 0, 800, 0), ("altCmd", 0, 50_000, 0),
    ("latOffset", -100_000, 100_000, 0), ("baseChiCmd", -180, 180, 0), ("altMsl", 0, 50_000, 0),
    ("Vequiv", 0, 800, 0), ("alpha", -10, 45, 2.65), ("beta", -30, 30, 0), ("phi", -180, 180, 0),
    ("theta", -90, 90, 2.65), ("psi", -180, 180, 0), ("pb", -6, 6, 0), ("qb", -2, 2, 0),
    ("rb", -2, 2, 0),
)  # fmt: skip
LOW, HIGH, EASE = np.array([row[1:] for row in ENVELOPE], dtype=float).T
SWITCHES, COURSE, YAW = slice(4, 6), 9, 16
FOLLOWED = ((7, 10), (6, 11), (COURSE, YAW))
"""A command and what follows it: altitude, airspeed, course."""
FULL_TRAVEL = np.array([25.0, 21.5, 30.172, 100.0])
TOLERANCES = np.array([0.02, 0.04, 0.015, 0.015])
"""Of the float build: elevator, aileron, rudder in deg, power in %; see f16_rounding."""


def wrapped(angle: Rows) -> Rows:
    out: Rows = (angle + 180.0) % 360.0 - 180.0
    return out


def about(drawn: Rows, scale: Rows) -> Rows:
    """Rows (n, 20) of the envelope, their departures from following the command at ease scaled."""
    ease = np.tile(EASE, (len(drawn), 1))
    for command, follower in FOLLOWED:
        ease[:, command] = ease[:, follower] = drawn[:, command]
    rows: Rows = ease + scale * (drawn - ease)
    turned = drawn[:, COURSE] + scale[:, 0] * drawn[:, YAW]
    rows[:, YAW] = wrapped(turned)
    rows[:, SWITCHES] = drawn[:, SWITCHES]
    return rows


def envelope(seed: int, count: int) -> Rows:
    """(count, 20); departures are scaled by 1e-4 to 1: unscaled they hit most stops."""
    random = np.random.Generator(np.random.PCG64(seed))
    drawn = LOW + (HIGH - LOW) * random.random((count, LOW.size))
    drawn[:, SWITCHES] = random.integers(0, 2, (count, 2))
    drawn[::4, COURSE] = np.copysign(179.9, drawn[::4, COURSE])  # where small errors wrap
    rows = about(drawn, 10.0 ** random.uniform(-4.0, 0.0, (count, 1)))
    turned = rows[1::8, COURSE] + 180.0 + random.uniform(-5.0, 5.0, len(rows[1::8]))
    rows[1::8, YAW] = wrapped(turned)  # where it has to choose a side
    return rows


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """The same, one row (1, 20), as hypothesis likes it."""
    drawn = np.array([[draw(st.floats(low, high)) for _, low, high, _ in ENVELOPE]])
    drawn[0, SWITCHES] = draw(st.sampled_from([(0, 0), (1, 0), (0, 1), (1, 1)]))
    return about(drawn, np.array([[draw(st.sampled_from([1.0, 0.1, 0.01, 0.001, 0.0]))]]))


class Translation:
    """The C of the interface file, in this process."""

    def __init__(self, variant: str = "", parameters: Rows | None = None) -> None:
        self.library = ctypes.CDLL(str(build(f"{FILE}{variant}").library))
        self.library.rtsim_step.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.library.rtsim_initialize.argtypes = [ctypes.c_void_p]
        self.parameters = LAW_PARAMETERS.initial() if parameters is None else parameters

    def __call__(self, inputs: Rows) -> Rows:
        outputs = np.zeros((len(inputs), LAW_OUTPUTS.size))
        assert self.library.rtsim_initialize(self.parameters.ctypes.data) == 0
        for row, answer in zip(inputs, outputs, strict=True):
            assert self.library.rtsim_step(row.ctypes.data, answer.ctypes.data) == 0
        return outputs


@cache
def translation(variant: str = "") -> Translation:
    return Translation(variant)


def design(inputs: Rows, parameters: Rows | None = None) -> Rows:
    outputs = np.zeros((len(inputs), LAW_OUTPUTS.size))
    for row, answer in zip(inputs, outputs, strict=True):
        control_law(row, LAW_PARAMETERS.initial() if parameters is None else parameters, answer)
    return outputs


@cache
def nasa() -> list[Rows]:
    """Inputs (n, 20) and what NASA's definition answers (n, 4)."""
    return groups("f16_law", LAW_INPUTS.size, LAW_OUTPUTS.size)


def assert_same(found: Rows, expected: Rows) -> None:
    """To 1e-12 of the value, or of full travel where the value is what is left of larger ones."""
    allowed = 1e-12 * np.maximum(np.abs(expected), FULL_TRAVEL)
    assert (np.abs(found - expected) <= allowed).all()


def assert_bits(found: Rows, expected: Rows) -> None:
    np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


# -- design, translation, definition ---------------------------------------------------------------


@pytest.mark.parametrize("inputs", [envelope(11, 10_000), nasa()[0]], ids=["drawn", "nasa"])
def test_the_inputs_reach_every_part_of_the_law(inputs: Rows) -> None:
    """Thousands of rows in which nothing but stops is commanded would show little."""
    n = len(inputs)
    augmented = inputs[:, SWITCHES].any(axis=1)
    free = np.abs(design(inputs)[augmented]) < [25.0, 21.5, 29.8, 100.0]
    assert (free.sum(axis=0) > 0.05 * n).all()
    assert ((~free).sum(axis=0) > 0.1 * n).all()
    autopilot = inputs[inputs[:, 5] == 1]
    course = np.clip(-0.01 * autopilot[:, 8], -30, 30) + autopilot[:, COURSE]
    error = autopilot[:, 13] + autopilot[:, YAW] - course
    assert min((error > 180).sum(), (error < -180).sum()) > 0.02 * n
    short = wrapped(error)
    assert (np.abs(short[np.abs(error) > 180]) < 3).sum() > 0.01 * n, "wrapped, within authority"
    for product, authority in (
        (-0.05 * (autopilot[:, 10] - autopilot[:, 7]), 5),
        (-0.01 * autopilot[:, 8], 30),
        (-10 * short, 30),
    ):
        inside = np.abs(product) < authority
        assert min(inside.sum(), (~inside).sum()) > 0.05 * n


def test_the_translation_is_the_design_bit_for_bit() -> None:
    inputs = envelope(11, 10_000)
    assert_bits(translation()(inputs), design(inputs))


def test_the_translation_is_the_compiled_design_bit_for_bit() -> None:
    inputs = envelope(12, 10_000)
    compiled = ControlLaw().controller()
    expected = np.zeros((len(inputs), LAW_OUTPUTS.size))
    for step, row in enumerate(inputs):
        compiled.send(Tag(step), row)
        expected[step] = compiled.receive(Tag(step), 0.0)
    assert_bits(translation()(inputs), expected)


def test_both_are_nasas_definition() -> None:
    inputs, expected = nasa()
    assert_same(design(inputs), expected)
    assert_same(translation()(inputs), expected)


@given(rows())
def test_any_input_of_the_envelope(row: Rows) -> None:
    check(row)


@pytest.mark.full
@settings(max_examples=10_000)
@given(rows())
def test_ten_thousand_inputs_of_the_envelope(row: Rows) -> None:
    check(row)


def check(row: Rows) -> None:
    assert_bits(translation()(row), design(row))


def test_with_other_parameters() -> None:
    """Each differs from its default, so that none is taken for another."""
    random = np.random.Generator(np.random.PCG64(13))
    for seed in range(20):
        parameters = LAW_PARAMETERS.initial() * random.uniform(0.8, 1.2, LAW_PARAMETERS.size)
        inputs = envelope(100 + seed, 200)
        found = Translation(parameters=parameters)(inputs)
        assert_bits(found, design(inputs, parameters))


@pytest.mark.long
def test_with_other_parameters_it_is_nasas_definition() -> None:
    sizes = LAW_PARAMETERS.size, LAW_INPUTS.size, LAW_OUTPUTS.size
    parameters, inputs, expected = groups("f16_law_gains", *sizes)
    for given_here, row, answer in zip(parameters, inputs, expected, strict=True):
        found = Translation(parameters=given_here)(row[np.newaxis])
        assert_same(found, answer[np.newaxis])


@given(st.lists(st.floats(allow_nan=True), min_size=20, max_size=20))
def test_inputs_of_no_envelope(values: list[float]) -> None:
    """What a broken sensor may say: the translation answers as the design does, stop for stop."""
    row = np.array([values])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(translation()(row), design(row))


# -- the float build -------------------------------------------------------------------------------


def test_float_build_is_the_design_in_float_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy 2 rounds every operation on a float32 to float32, as the float build does."""
    if np.result_type(np.float32(1) * 0.1) != np.float32:
        pytest.skip("numpy before 2 computes a float32 times a Python float as double")

    def limited_single(value: float, low: float, high: float) -> float:
        return np.float32(max(low, min(high, value)))  # type: ignore[return-value]

    monkeypatch.setattr(controller, "limited", limited_single)
    inputs = envelope(14, 10_000).astype(np.float32)
    parameters = LAW_PARAMETERS.initial().astype(np.float32)
    expected = np.zeros((len(inputs), LAW_OUTPUTS.size), dtype=np.float32)
    for row, answer in zip(inputs, expected, strict=True):
        control_law(row, parameters, answer)  # type: ignore[arg-type]
    found = translation(":single")(inputs.astype(np.float64))
    np.testing.assert_array_equal(found, expected.astype(np.float64))


def test_float_build_is_as_near_as_its_rounding_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = envelope(15, 10_000)
    expected, found = design(inputs), translation(":single")(inputs)
    monkeypatch.setattr(controller, "limited", limited)
    parameters = [rounded(p) for p in LAW_PARAMETERS.initial().tolist()]
    undecided = 0
    for row, right, single in zip(inputs.tolist(), expected, found, strict=True):
        outputs: list[Rounded] = [rounded(0.0)] * LAW_OUTPUTS.size
        try:
            control_law([rounded(x) for x in row], parameters, outputs)  # type: ignore[arg-type]
        except Undecided:
            undecided += 1
            continue
        bounds = np.array([y.error for y in outputs])
        assert [y.value for y in outputs] == pytest.approx(right.tolist(), abs=1e-9)
        assert (np.abs(single - right) <= bounds).all()
        assert (bounds <= TOLERANCES).all()
    assert undecided <= 5, "rows whose course error is 180 deg but for rounding"


def test_float_build_within_the_stated_tolerances() -> None:
    """As the back-to-back comparison applies them: absolute, by surface."""
    inputs = envelope(16, 10_000)
    off = np.abs(translation(":single")(inputs) - design(inputs)).max(axis=0)
    assert (off <= TOLERANCES).all()
    assert (off > 1e-3 * TOLERANCES).all(), "the float build computes in float"
