"""The examples of interface files, through a worker and in process, against other arithmetic."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import hitl
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.interface import load_interface
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag

EXAMPLES = Path(hitl.__file__).parent / "examples"
FILES = sorted(EXAMPLES.glob("*/*.toml"))
Rows = NDArray[np.float64]
Running: TypeAlias = SilController | InProcess
Start = Callable[..., Running]


@pytest.fixture(params=[SilController, InProcess])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts an example, and closes it at the end."""
    running: list[Running] = []

    def started(name: str, values: dict[str, object] | None = None) -> Running:
        more: dict[str, Any] = {"cases": tmp_path} if request.param is SilController else {}
        running.append(request.param(EXAMPLES / name, values, **more).fresh())
        return running[-1]

    yield started
    for controller in running:
        controller.close()


def answers(controller: Running, rows: Any) -> Rows:
    """Outputs (k, n) to inputs (k, m), one step each."""
    out = []
    for step, row in enumerate(np.atleast_2d(np.asarray(rows, dtype=float))):
        tag = Tag(controller.interface.period.tick(step))
        controller.send(tag, row)
        answer = controller.receive(tag, 10.0)
        assert answer is not None
        out.append(np.array(answer))
    return np.array(out)


def random_rows(columns: int, count: int = 200, seed: int = 1) -> Rows:
    return np.random.default_rng(seed).normal(size=(count, columns))


def single(value: float) -> float:
    """Rounded to float32 by the standard's own conversion."""
    out: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return out


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_an_interface_file_has_at_most_30_lines(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 30
    assert load_interface(file).inputs.size > 0


def test_every_example_is_here() -> None:
    assert {f.parent.name for f in FILES} == {
        "context", "embedded_coder", "embedded_coder_reusable", "flight", "multirate", "processor",
        "reversing", "scalars", "types", "arduino",
    }  # fmt: skip


def test_context(start: Start) -> None:
    rows = random_rows(2)
    rows[:, 1] = rows[:, 1] > 0.8
    state, expected = 0.0, []
    for step, (signal, hold) in enumerate(rows):
        if not hold:
            state += 0.01 / (0.25 + 0.01) * (signal - state)
        expected.append([state, step + 1])
    got = answers(start("context/filter.toml", {"time_constant": 0.25}), rows)
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=0)


def test_embedded_coder(start: Start) -> None:
    rows = random_rows(3) * [3.0, 1.0, 1.0]
    rows[:, 2] = rows[:, 2] > -1.0
    integral, expected = Fraction(0), []
    kp, ki, limit, period = Fraction(2), Fraction(3, 2), Fraction(5), Fraction(1, 50)
    for reference, speed, enable in rows:
        error = Fraction(reference) - Fraction(speed)
        total = kp * error + integral
        saturated = (total > limit) - (total < -limit)
        torque = max(-limit, min(limit, total)) if enable else Fraction(0)
        expected.append([float(torque), saturated])
        integral = Fraction(0) if not enable else integral + (not saturated) * ki * period * error
    assert {0, 1, -1} == {row[1] for row in expected}
    got = answers(start("embedded_coder/pi.toml", {"integral": 1.5}), rows)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13)


def test_embedded_coder_reusable(start: Start) -> None:
    rows = random_rows(2)
    transition = np.array([[0.8, 0.01], [-1.5, 1.0]])
    gain = np.array([[0.2, 0.0], [1.5, 0.01]])
    state, expected = np.zeros(2), []
    for row in rows:
        expected.append(state)
        state = transition @ state + gain @ row
    got = answers(start("embedded_coder_reusable/observer.toml"), rows)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_multirate_calls_the_slow_step_at_every_fifth_tick_after_the_fast_one(start: Start) -> None:
    rows = random_rows(3, 23).astype(np.float32).astype(float)
    buffer, expected = np.float32(0), []
    for step, (command, angle, rate) in enumerate(rows.astype(np.float32)):
        expected.append([np.float32(4) * (buffer - rate), (step + 4) // 5])
        if step % 5 == 0:
            buffer = np.float32(1.5) * (command - angle)
    np.testing.assert_array_equal(answers(start("multirate/cascade.toml"), rows), expected)


def test_scalars(start: Start) -> None:
    rows = random_rows(2)
    gain = np.float32(0.7)
    throttle, turn = rows.astype(np.float32).T
    expected = np.column_stack([throttle - gain * turn, throttle + gain * turn]).clip(0, 1)
    np.testing.assert_array_equal(
        answers(start("scalars/mixer.toml", {"gain": 0.7}), rows), expected
    )


# -- every type: what goes in comes out, to the last bit of what the type holds

NAMES = ("f64", "f32", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "flag")
LEAST, MOST = 2.0**-1074, math.ldexp(1 - 2.0**-53, 1024)
FLOATS = [0.0, -0.0, 1.0, math.pi, LEAST, -LEAST, 2.0**-1030, MOST, -MOST, math.inf, -math.inf]
ENDS: dict[str, tuple[float, float]] = {
    **{f"i{n}": (-(2.0 ** (n - 1)), 2.0 ** (n - 1) - 1) for n in (8, 16, 32)},
    **{f"u{n}": (0.0, 2.0**n - 1) for n in (8, 16, 32)},
    "i64": (-(2.0**63), 2.0**63 - 1024),
    "u64": (0.0, 2.0**64 - 2048),
}


def passed(controller: Running, name: str, value: float) -> float:
    """Of one element, all others 0."""
    row = np.zeros(controller.inputs.size)
    row[controller.inputs.columns.index(name)] = value
    return float(answers(controller, row)[0][controller.outputs.columns.index(name)])


def refused(controller: Running, name: str, value: float) -> str:
    with pytest.raises(ControllerError) as raised:
        passed(controller, name, value)
    return str(raised.value)


def test_float64_passes_bit_by_bit(start: Start) -> None:
    controller = start("types/scalars.toml")
    for value in FLOATS:
        assert bits(passed(controller, "f64", value)) == bits(value)
    assert math.isnan(passed(controller, "f64", math.nan))


def test_float32_rounds_once_and_keeps_zero_denormals_nan_and_infinity(start: Start) -> None:
    controller = start("types/scalars.toml")
    half = 1 + 2.0**-24  # between two float32: to the even one
    largest = math.ldexp(1 - 2.0**-24, 128)
    below = math.ldexp(1 - 2.0**-25, 128) * (1 - 2.0**-53)  # the last to round to the largest
    values = [0.0, -0.0, half, half + 2.0**-23, math.pi, 2.0**-149, 2.0**-140 * 1.7, 2.0**-151]
    for value in [*values, largest, -largest, below, math.inf, -math.inf]:
        assert bits(passed(controller, "f32", value)) == bits(single(value))
    assert passed(controller, "f32", below) == largest
    assert math.isnan(passed(controller, "f32", math.nan))


@pytest.mark.parametrize("value", [math.ldexp(1 - 2.0**-25, 128), -1e39, MOST])
def test_what_would_become_infinite_in_float32_is_refused(start: Start, value: float) -> None:
    assert f"f32 = {value!r}" in refused(start("types/scalars.toml"), "f32", value)


@pytest.mark.parametrize("name", ENDS)
def test_integers_pass_up_to_their_ends(start: Start, name: str) -> None:
    controller = start("types/scalars.toml")
    low, high = ENDS[name]
    for value in (low, high, 1.0, 0.0, min(2.0**53, high), min(2.0**60, high)):
        assert bits(passed(controller, name, value)) == bits(value)
    assert bits(passed(controller, name, -0.0)) == bits(0.0)
    if low < 0:
        assert passed(controller, name, max(-(2.0**53), low)) == max(-(2.0**53), low)


@pytest.mark.sample(20)
@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("beyond", ["low", "high", "nan", "inf", "-inf"])
def test_integers_refuse_what_lies_beyond(start: Start, name: str, beyond: str) -> None:
    low, high = ENDS[name]
    values = {"low": math.nextafter(low - 0.5, -math.inf), "high": math.nextafter(high, math.inf)}
    if "64" not in name:
        values["high"] = high + 0.5  # the tie goes to the even number above
    elif low < 0:
        values["low"] = math.nextafter(low, -math.inf)
    value = values.get(beyond, 0.0) or float(beyond)
    assert f"{name} = {value!r}" in refused(start("types/scalars.toml"), name, value)


def test_integers_round_half_to_even(start: Start) -> None:
    controller = start("types/scalars.toml")
    halves = {0.5: 0, 1.5: 2, 2.5: 2, 3.5: 4, 2.4999: 2, 2.5001: 3}
    for value, expected in halves.items():
        assert passed(controller, "u8", value) == expected
        assert passed(controller, "i16", -value) == -expected
    assert bits(passed(controller, "i16", -0.4)) == bits(0.0)


def test_bool_is_whatever_is_not_zero(start: Start) -> None:
    controller = start("types/scalars.toml")
    for value in (1.0, -1.0, 0.25, LEAST, math.inf, 256.0):
        assert passed(controller, "flag", value) == 1.0
    assert passed(controller, "flag", -0.0) == 0.0
    assert "flag = nan" in refused(controller, "flag", math.nan)


def test_arrays_go_row_by_row(start: Start) -> None:
    controller = start("types/arrays.toml")
    names = controller.inputs.columns
    assert names[3:9] == tuple(f"matrix_{i}_{j}" for i in range(2) for j in range(3))
    row = controller.inputs.initial()
    np.testing.assert_array_equal(row[:9], [1, 2, 3, 1, 2, 3, 4, 5, 6])
    row[9:13] = [1, 0, 0, 1]
    np.testing.assert_array_equal(answers(controller, row)[0], row)
    assert "matrix_1_1 = 40000.0" in refused(controller, "matrix_1_1", 40000.0)


@pytest.mark.parametrize(
    ("name", "scale", "low", "high"),
    [("angle", 2.0**-7, -256.0, 256.0 - 2.0**-7), ("temperature", 0.5, -40.0, 87.5)],
)
def test_fixed_point_is_at_most_half_a_step_off(
    start: Start, name: str, scale: float, low: float, high: float
) -> None:
    controller = start("types/arrays.toml")
    values = np.random.default_rng(2).uniform(low, high, 300)
    got = np.array([passed(controller, name, v) for v in values])
    errors = abs(got - values)
    assert 0.4 * scale < errors.max() <= 0.5 * scale
    np.testing.assert_array_equal(got % scale, 0)
    assert [passed(controller, name, v) for v in (low, high)] == [low, high]
    for value in (low - 0.6 * scale, high + 0.5 * scale, math.nan):
        assert f"{name} = {value!r}" in refused(controller, name, value)


def test_what_saturates_stops_at_the_ends_and_still_refuses_nan(start: Start) -> None:
    controller = start("types/arrays.toml")
    for value, expected in ((300.0, 127), (-129.0, -128), (math.inf, 127), (-math.inf, -128)):
        assert passed(controller, "command", value) == expected
    assert "command = nan" in refused(controller, "command", math.nan)


def test_the_two_ways_say_the_same_of_a_value_that_does_not_fit(tmp_path: Path) -> None:
    said = []
    for controller in (
        SilController(EXAMPLES / "types/scalars.toml", cases=tmp_path).fresh(),
        InProcess(EXAMPLES / "types/scalars.toml").fresh(),
    ):
        with closing(controller):
            said.append(refused(controller, "i8", 128.0).splitlines()[0])
    assert said[0] == said[1]
    assert said[0].endswith("or let it saturate (overflow = 'saturate')")
