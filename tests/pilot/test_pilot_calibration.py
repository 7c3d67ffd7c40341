"""Calibrating by a scripted person: what is asked, what is measured, what is written."""

from __future__ import annotations

import math
import random
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signal, Signals
from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.devices.calibration import (
    LEAST_LOOKS,
    Calibration,
    calibrated,
    mapping_text,
    own_tables,
)
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.device import DeviceSample, Stick
from rtsim.pilot.devices.mapping import read_mapping
from rtsim.pilot.devices.sources import AxisSource, Value

AIRCRAFT = Signals(*list(STICK)[:4])

PITCH = Signals(Signal("pitch", low=-1.0, high=1.0, description="aft is positive"))
BOTH = Signals(Signal("pitch", low=-1.0, high=1.0), Signal("throttle", low=0.0, high=1.0))


class Person:
    """Holds axes of devices; each has some noise of its own."""

    def __init__(self, values: Signals, sticks: dict[int, Stick], noise: float = 0.0) -> None:
        self.calibration = Calibration(values)
        self.sticks = sticks
        self.noise = noise
        self._random = random.Random(1)

    def look(self, held: Mapping[str, float], count: int = LEAST_LOOKS) -> None:
        """``held``: "axis of the first device" as a1, of the second as b1."""
        for _ in range(count):
            out = {}
            for letter, (number, stick) in zip("abc", self.sticks.items(), strict=False):
                axes = [
                    held.get(f"{letter}{k}", rest) + self._random.uniform(-1, 1) * self.noise / 2
                    for k, rest in enumerate(stick.axes)
                ]
                out[number] = Stick(stick.kind, stick.name, tuple(axes))
            self.calibration.look(DeviceSample(out))

    def does(self, **held: float) -> str:
        """Hold it there and say so."""
        self.look(held)
        return self.calibration.go_on()


def one_stick(*axes: float, kind: str = "joystick", name: str = "Extreme 3D") -> dict[int, Stick]:
    return {4: Stick(kind, name, axes)}


def file_of(person: Person, path: Path, values: Signals) -> dict[str, object]:
    found = person.calibration.found
    path.write_text(mapping_text(calibrated(own_tables(values), found, values), ["here"], values))
    return tomllib.loads(path.read_text())


def test_a_spring_that_is_off_its_middle_uneven_and_noisy() -> None:
    """Each figure against what the person's hand was told to do."""
    person = Person(PITCH, one_stick(0.0, 0.05), noise=0.02)
    for held in ({}, {"a1": 0.95}, {"a1": -0.75}, {}):
        assert person.does(**held) == ""
    found = person.calibration.found["pitch"]
    assert (found.number, found.source.axis, found.source.which.name) == (4, 1, "Extreme 3D")
    low, middle, high = found.source.span
    assert low == pytest.approx(-0.75 + 0.02 * 1.7, abs=0.02)
    assert middle == pytest.approx(0.05, abs=0.01)
    assert high == pytest.approx(0.95 - 0.02 * 1.7, abs=0.02)
    assert found.springs
    assert not found.source.invert
    assert 0.01 < found.noise <= 0.02
    assert found.source.dead_zone is not None
    assert 0.01 <= found.source.dead_zone < 0.03


def test_the_written_file_flies_over_the_whole_range_and_is_still_at_rest(tmp_path: Path) -> None:
    person = Person(BOTH, one_stick(0.0, 0.08, 0.0, 0.9), noise=0.03)
    # aft is negative on this one; the throttle's lever is open at -0.9
    for held in ({}, {"a1": -0.8}, {"a1": 0.9}, {"a3": -0.9}, {"a3": 0.9}, {}):
        assert person.does(**held) == ""
    path = tmp_path / "mine.toml"
    written = file_of(person, path, BOTH)
    assert written["pitch"]["joystick"]["invert"] is True  # type: ignore[index]
    assert len(written["throttle"]["joystick"]["range"]) == 2  # type: ignore[index]
    assert written["pitch"]["keyboard"]["minus"] == "up"  # type: ignore[index]
    controls = Controls(read_mapping(path, BOTH), BOTH)

    def flown(pitch: float, lever: float) -> list[float]:
        stick = {9: Stick("joystick", "Extreme 3D", (0.0, pitch, 0.0, lever))}
        return [round(value, 6) for value in controls.update(DeviceSample(stick), 0).tolist()]

    flown(-0.8, 0.9)  # the lever passes the value, and has it from then on
    assert flown(-0.8, -0.9) == [1.0, 1.0]
    assert flown(0.9, 0.9) == [-1.0, 0.0]
    for k in range(-10, 11):
        assert flown(0.08 + 0.0015 * k, 0.0)[0] == 0.0  # its own noise moves nothing
    assert flown(0.5, 0.0)[0] < -0.2
    assert flown(0.0, 0.0)[1] == pytest.approx(0.5, abs=0.02)


def test_what_stands_beside_an_axis_is_its_alone() -> None:
    value = Value("x", dead_zone=0.5, invert=True)
    own = AxisSource(0, invert=False, dead_zone=0.0)
    assert value.shape(0.25) == 0.0
    assert value.shape(0.25, AxisSource(0)) == 0.0
    assert value.shape(0.25, own) == 0.25
    assert value.shape(1.0, AxisSource(0)) == -1.0
    assert own.position(math.nan) == 0.0


def test_a_throttle_on_a_spring_moves_by_rate_and_a_trigger_is_a_lever() -> None:
    pad = one_stick(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, kind="gamepad", name="Pad")
    person = Person(BOTH, pad)
    for held in ({}, {"a1": 1.0}, {"a1": -1.0}, {"a3": -1.0}, {"a3": 1.0}, {}):
        assert person.does(**held) == ""
    throttle = person.calibration.found["throttle"]
    assert (throttle.kind, throttle.source.rate, throttle.source.invert) == ("gamepad", 1.0, True)
    tables = calibrated({}, person.calibration.found, BOTH)
    assert tables["throttle"]["gamepad"]["axis"] == "righty"

    person = Person(BOTH, pad)
    for held in ({}, {"a1": 1.0}, {"a1": -1.0}, {"a5": 1.0}, {"a5": 0.0}, {}):
        assert person.does(**held) == ""
    trigger = person.calibration.found["throttle"].source
    assert trigger.rate == 0.0
    assert trigger.span == pytest.approx((0.02, 0.5, 0.98), abs=0.01)


def test_values_may_lie_on_three_devices() -> None:
    person = Person(
        AIRCRAFT,
        {
            1: Stick("joystick", "Stick", (0.0, 0.0)),
            2: Stick("joystick", "Lever", (1.0,)),
            5: Stick("joystick", "Pedals", (-1.0, -1.0, 0.0)),
        },
    )
    steps: list[dict[str, float]] = [
        {}, {"a1": 1.0}, {"a1": -1.0}, {"a0": 1.0}, {"a0": -1.0}, {"c2": 1.0}, {"c2": -1.0},
        {"b0": -1.0}, {"b0": 1.0}, {},
    ]  # fmt: skip
    assert [person.does(**held) for held in steps] == [""] * len(steps)
    assert person.calibration.done
    where = {n: (f.device, f.source.axis) for n, f in person.calibration.found.items()}
    assert where == {
        "pitch": ("Stick", 1), "roll": ("Stick", 0), "yaw": ("Pedals", 2), "throttle": ("Lever", 0),
    }  # fmt: skip
    assert person.calibration.twins() == []


def test_two_of_a_name_are_said() -> None:
    twins = {k: Stick("joystick", "VKB", (0.0, 0.0)) for k in (1, 2)}
    person = Person(PITCH, twins)
    for held in ({}, {"b1": 1.0}, {"b1": -1.0}, {}):
        assert person.does(**held) == ""
    assert person.calibration.twins() == ["VKB"]
    assert person.calibration.found["pitch"].number == 2


def begun(axes: tuple[float, ...] = (0.0, 0.0)) -> Person:
    person = Person(BOTH, one_stick(*axes))
    assert person.does() == ""
    return person


def at_minus() -> Person:
    person = begun()
    assert person.does(a1=1.0) == ""
    return person


def wiggled() -> Person:
    person = Person(BOTH, one_stick(0.0, 0.0))
    person.look({"a0": 0.4}, 20)
    return person


def early() -> Person:
    person = Person(BOTH, one_stick(0.0, 0.0))
    person.look({}, 2)
    person.look = lambda *_, **__: None  # type: ignore[method-assign]
    return person


def late() -> Person:
    person = begun()
    person.sticks = {**person.sticks, 9: Stick("joystick", "Late", (0.0,))}
    return person


def taken() -> Person:
    person = at_minus()
    assert person.does(a1=-1.0) == ""
    return person


@pytest.mark.parametrize(
    ("person", "held", "told"),
    [
        (early, {}, "too few samples"),
        (wiggled, {}, "axis 0 of Extreme 3D moves: let go"),
        (lambda: Person(BOTH, {}), {}, "plug one in"),
        (begun, {}, "no axis moved: hold the control of pitch"),
        (
            begun,
            {"a0": 0.9, "a1": 1.0},
            "axis 1 .* and axis 0 .* both moved: move only the control",
        ),
        (late, {"a1": 1.0}, "Late was plugged in after the first step: start"),
        (at_minus, {"a1": 1.0}, "has not moved: hold"),
        (at_minus, {"a1": 0.0}, "is at rest: hold the control at its other end"),
        (taken, {"a1": 1.0}, "already moves pitch: move the control of throttle"),
    ],
)
def test_what_was_not_done_is_asked_again(
    person: Callable[[], Person], held: dict[str, float], told: str
) -> None:
    somebody = person()
    before = somebody.calibration.step
    said = somebody.does(**held)
    assert re.search(told, said), said
    assert somebody.calibration.step == before


def test_a_value_may_be_left_out_and_a_rest_may_not() -> None:
    person = Person(BOTH, one_stick(0.0, 0.0))
    assert "cannot be skipped" in person.calibration.skip()
    assert person.does() == ""
    assert person.does(a1=1.0) == ""
    assert person.calibration.skip() == ""  # in the middle of it
    assert person.calibration.step == ("plus", "throttle")
    assert person.calibration.skip() == ""
    assert person.calibration.step == ("again", "")
    assert person.does() == ""
    assert person.calibration.done
    assert person.calibration.found == {}


def test_a_device_that_is_unplugged_meanwhile_is_forgotten() -> None:
    person = at_minus()
    sticks, person.sticks = person.sticks, {}
    person.calibration.look(DeviceSample())
    assert "was unplugged" in person.calibration.go_on()
    assert person.calibration.skip() == ""
    person.sticks = {8: sticks[4]}
    assert "start the calibration again" in person.does(a1=1.0)


def test_a_name_that_is_no_toml_is_written_so_that_it_is_read(tmp_path: Path) -> None:
    name = 'My "stick" \\ [a] # \x7f\x01 é'
    person = Person(PITCH, one_stick(0.0, 0.0, name=name))
    for held in ({}, {"a1": 1.0}, {"a1": -1.0}, {}):
        assert person.does(**held) == ""
    written = file_of(person, tmp_path / "odd.toml", PITCH)
    assert written["pitch"]["joystick"]["name"] == name  # type: ignore[index]
    remarks = mapping_text({}, ["a\nb = 1", "\x07c"], PITCH)
    assert tomllib.loads(remarks) == {}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("{ axis = 1, range = [1.0] }", r"write \[low, high\] or \[low, middle, high\]"),
        ("{ axis = 1, range = [0.5, 0.55] }", "raw positions that rise by at least 0.1"),
        ("{ axis = 1, range = [1.0, 0.0, -1.0] }", "raw positions that rise"),
        ("{ axis = 1, range = [-2.0, 1.0] }", "write a number from -1 to 1"),
        ("{ axis = 1, range = 3 }", "low, high"),
        ("{ axis = 1, invert = 3 }", "true or false"),
        ("{ axis = 1, dead_zone = 0.95 }", "write a number from 0 to 0.9"),
    ],
)
def test_a_range_that_is_none(tmp_path: Path, table: str, told: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(f"[pitch]\njoystick = {table}\n")
    with pytest.raises(RtsimError, match=told):
        read_mapping(path, PITCH)
