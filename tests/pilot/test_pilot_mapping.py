"""From positions and keys to values: pure, with a time that the test makes up."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pygame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signal, Signals
from rtsim.pilot.devices.controls import FADE_NS, HOLD_NS, Controls
from rtsim.pilot.devices.device import DeviceSample, MappingError, Stick
from rtsim.pilot.devices.mapping import mapping_of, read_mapping
from rtsim.pilot.devices.sources import Curve, Value
from rtsim.pilot.devices.switches import NAMED, OF_THE_WINDOW

STICK = Signals(
    Signal("pitch", low=-1.0, high=1.0), Signal("throttle", low=0.0, high=1.0, initial=0.25)
)
MS = 1_000_000


def controls(**tables: Any) -> Controls:
    return Controls(mapping_of(tables, STICK, "here"), STICK)


def keys(minus: str, plus: str) -> dict[str, Any]:
    return {"keyboard": {"minus": minus, "plus": plus}}


def joystick(*axes: float, kind: str = "joystick", name: str = "Extreme 3D") -> DeviceSample:
    return DeviceSample({7: Stick(kind, name, axes)})


@given(
    st.floats(0, 0.9),
    st.floats(0, 1),
    st.floats(-1, 1),
    st.booleans(),
    st.lists(st.floats(-1, 1), min_size=2),
)
def test_a_shape_stays_in_range_and_never_turns_back(
    dead: float, curve: float, trim: float, invert: bool, raw: list[float]
) -> None:
    value = Value("x", dead_zone=dead, curve=Curve(curve), trim=trim, invert=invert)
    shaped = [value.shape(x) for x in sorted(raw, reverse=invert)]
    assert all(-1.0 <= x <= 1.0 for x in shaped)
    assert shaped == sorted(shaped)


def test_dead_zone_curve_inversion_and_trim() -> None:
    assert Value("x", dead_zone=0.1).shape(0.1) == 0.0
    assert Value("x", dead_zone=0.1).shape(0.11) == pytest.approx(0.01 / 0.9)  # no jump at its edge
    assert Value("x", dead_zone=0.1).shape(-1.0) == -1.0
    assert Value("x", curve=Curve(1.0)).shape(0.5) == 0.125
    assert Value("x", curve=Curve(0.5)).shape(0.5) == pytest.approx(0.3125)
    assert Value("x", invert=True).shape(0.5) == -0.5
    assert Value("x", trim=0.1).shape(0.5) == pytest.approx(0.6)
    assert [Value("x").shape(x) for x in (math.nan, math.inf, 7.0)] == [0.0, 0.0, 1.0]


def test_values_begin_where_the_run_has_them_and_nobody_moves_them() -> None:
    flown = controls()
    assert flown.update(DeviceSample(), 0).tolist() == [0.0, 0.25]
    assert flown.update(DeviceSample(), 10**9).tolist() == [0.0, 0.25]
    assert [moved.by for moved in flown.movers.values()] == ["", ""]


def test_a_joystick_before_a_gamepad_before_keys() -> None:
    flown = controls(
        pitch={
            "joystick": {"axis": 1},
            "gamepad": {"axis": "lefty"},
            "keyboard": {"minus": "a", "plus": "d", "rate": 1.0},
        }
    )
    both = {1: Stick("gamepad", "Pad", (0, -0.5, 0, 0, 0, 0)), 2: Stick("joystick", "J", (0, 0.5))}
    assert flown.update(DeviceSample(both, frozenset("d")), 0)[0] == 0.5
    assert flown.movers["pitch"].by == "J"
    assert flown.update(DeviceSample({1: both[1]}), 1)[0] == -0.5
    assert flown.movers["pitch"].by == "Pad"


def test_a_device_by_a_part_of_its_name_and_one_without_that_axis() -> None:
    flown = controls(pitch={"joystick": {"axis": 2, "name": "t.16000"}})
    assert flown.update(joystick(0, 0, 0.5), 0)[0] == 0.0
    assert flown.update(joystick(0, 0, 0.5, name="T.16000M"), 1)[0] == 0.5
    short = controls(pitch={"joystick": {"axis": 2}})
    assert short.update(joystick(0, 0.5), 0)[0] == 0.0


def test_a_lever_spans_the_whole_range_and_a_rate_moves_it() -> None:
    flown = controls(throttle={"joystick": {"axis": 0}, "invert": True})
    assert [flown.update(joystick(x), k)[1] for k, x in enumerate((-1.0, 0.0, 1.0))] == [1, 0.5, 0]
    slow = controls(throttle={"gamepad": {"axis": "righty", "rate": -1.0}})
    up = joystick(0, 0, 0, -1.0, 0, 0, kind="gamepad")
    values = [slow.update(up, k * 50 * MS)[1] for k in range(11)]
    assert values[0] == 0.25
    assert values[-1] == pytest.approx(0.25 + 0.5 * 0.5)  # half a second at half a range a second


def test_keys_move_a_spring_and_a_lever() -> None:
    keys = {"minus": "a", "plus": "d", "rate": 2.0}
    flown = controls(pitch={"keyboard": keys}, throttle={"keyboard": {**keys, "spring": False}})
    for k in range(11):
        values = flown.update(DeviceSample(keys=frozenset("d")), k * 20 * MS)
    assert values.tolist() == pytest.approx([0.4, 0.25 + 0.5 * 0.4])
    for k in range(11, 16):
        values = flown.update(DeviceSample(), k * 20 * MS)
    assert values.tolist() == pytest.approx([0.0, 0.45])
    flown.update(DeviceSample(keys=frozenset("d")), 10**12)
    assert flown.values[0] == pytest.approx(0.2)  # nobody looked for long: a jerk of 0.1 s


def test_the_mouse_while_it_flies() -> None:
    flown = controls(pitch={"mouse": {"axis": "y"}})
    places = (0.9, -0.7), (0.9, -1.0), (0.0, 3.0), (0.0, 2.5)
    moved = [flown.update(DeviceSample(mouse=place), k)[0] for k, place in enumerate(places)]
    assert moved == pytest.approx([0.0, -0.3, 1.0, 0.5])  # relative, and within the bounds
    assert flown.update(DeviceSample(), 1)[0] == pytest.approx(0.5)


def test_the_mouse_takes_a_value_where_the_keys_left_it() -> None:
    """Through dead zone, curve, inversion and trim, there is no jump."""
    keys = {"minus": "a", "plus": "d", "rate": 2.0, "spring": False}
    shape = {"dead_zone": 0.1, "curve": 0.5, "invert": True, "trim": 0.05}
    flown = controls(pitch={"mouse": {"axis": "x"}, "keyboard": keys, **shape})
    for k in range(11):
        flown.update(DeviceSample(keys=frozenset("d")), k * 20 * MS)
    before = float(flown.values[0])
    assert flown.update(DeviceSample(mouse=(7.0, 7.0)), 10**9)[0] == pytest.approx(before)
    assert flown.update(DeviceSample(mouse=(6.9, 7.0)), 10**9 + 1)[0] > before


def test_a_key_needs_no_opposite_and_goes_back_to_the_rest_value() -> None:
    """A brake pedal rests at 0, not in the middle of its range."""
    signals = Signals(Signal("brake", low=0.0, high=1.0), Signal("flap", low=0, high=1, initial=1))
    tables: dict[str, Any] = {
        "brake": {"keyboard": {"plus": "k", "rate": 4.0}, "safe": 1.0},
        "flap": {"keyboard": {"minus": "f", "rate": 4.0}, "rest": 0.25},
    }
    flown = Controls(mapping_of(tables, signals, "here"), signals)
    for k in range(6):
        flown.update(DeviceSample(keys=frozenset("kf")), k * 100 * MS)
    assert flown.values.tolist() == [1.0, 0.0]
    for k in range(6, 12):
        flown.update(DeviceSample(), k * 100 * MS)
    assert flown.values.tolist() == pytest.approx([0.0, 0.25])
    assert [m.by_hand for m in flown.movers.values()] == ["k: +", "f: -"]


def test_a_lever_takes_over_when_it_passes_the_value() -> None:
    """Otherwise the throttle would jump to the lever as soon as the window opens."""
    lever = {"joystick": {"axis": 0}, "keyboard": {"minus": "a", "plus": "d", "spring": False}}
    flown = controls(throttle={**lever, "pickup": True})
    values = [flown.update(joystick(x), k)[1] for k, x in enumerate((1.0, 0.9, 0.2))]
    assert values == [0.25] * 3
    assert flown.asked == ["throttle: move Extreme 3D through 25 % to take over"]
    assert flown.update(joystick(-0.8), 4)[1] == pytest.approx(0.1)  # it went past -0.5
    assert flown.asked == []
    assert flown.update(joystick(1.0), 5)[1] == 1.0
    again = Stick("joystick", "other", (0.0,))
    assert flown.update(DeviceSample({8: again}), 6)[1] == 1.0  # another lever: again no jump
    assert flown.update(DeviceSample({8: Stick("joystick", "other", (0.98,))}), 7)[1] == 0.99


QUADRANT = Stick("joystick", "Throttle Quadrant", (-1.0, -1.0, -1.0, -1.0))
YOKE = Stick("joystick", "Yoke", (0.5, 0.25))
TWO = {
    "pitch": {"joystick": {"axis": 1}},
    "throttle": {"joystick": {"axis": 3}, "invert": True},
}


def test_several_devices_wait_until_a_button_says_which_one_flies() -> None:
    """A throttle quadrant that is found before the stick gives no axis to pitch."""
    flown = controls(**TWO)
    toggled = replace(QUADRANT, buttons=frozenset({"button4"}))  # a switch that is always on
    for k in range(3):
        values = flown.update(DeviceSample({1: toggled, 2: YOKE}), k)
    assert values.tolist() == [0.0, 1.0]  # only the quadrant has the axis of the throttle
    (asked,) = flown.asked
    assert "press a button on the joystick that flies: Throttle Quadrant or Yoke" in asked
    pressed = replace(YOKE, buttons=frozenset({"button0"}))
    assert flown.update(DeviceSample({1: toggled, 2: pressed}), 4).tolist() == [0.25, 1.0]
    assert flown.asked == []
    assert flown.update(DeviceSample({1: QUADRANT, 2: YOKE}), 5).tolist() == [0.25, 1.0]
    # without the stick, the quadrant does not take its place
    flown.update(DeviceSample({1: QUADRANT}), 6)
    assert flown.update(DeviceSample({1: QUADRANT}), 6 + 3 * HOLD_NS)[0] == 0.0
    assert flown.lost[0].startswith("Yoke was unplugged: pitch")
    # plugged in again, it has another number
    back = flown.update(DeviceSample({1: QUADRANT, 3: YOKE}), 7 + 3 * HOLD_NS)
    assert (back.tolist(), flown.asked) == ([0.25, 1.0], [])


def test_names_decide_between_several_devices_and_a_late_one_takes_nothing() -> None:
    named = controls(
        pitch={"joystick": {"axis": 1, "name": "yoke"}},
        throttle={"joystick": {"axis": 3, "name": "quadrant"}},
    )
    assert named.update(DeviceSample({1: QUADRANT, 2: YOKE}), 0).tolist() == [0.25, 0.0]
    assert named.asked == []
    flown = controls(**TWO)
    flown.update(DeviceSample({2: YOKE}), 0)
    values = flown.update(DeviceSample({2: YOKE, 3: QUADRANT}), 1)
    assert values[0] == 0.25  # the yoke keeps it, and the window asks
    assert len(flown.asked) == 1


def test_a_device_that_goes_is_held_then_safe() -> None:
    flown = controls(throttle={"joystick": {"axis": 0}, "safe": 0.5})
    assert flown.update(joystick(1.0), 0)[1] == 1.0
    gone = [flown.update(DeviceSample(), 1 + t)[1] for t in (0, HOLD_NS, HOLD_NS + FADE_NS // 2)]
    assert gone == pytest.approx([1.0, 1.0, 0.75])
    assert flown.lost == ["Extreme 3D was unplugged: throttle held"]
    assert flown.update(DeviceSample(), 1 + HOLD_NS + FADE_NS)[1] == 0.5
    assert flown.lost == ["Extreme 3D was unplugged: throttle at fail-safe values"]
    assert (
        flown.update(DeviceSample({8: Stick("joystick", "other", (-1.0,))}), 10 * HOLD_NS)[1] == 0.0
    )
    assert flown.lost == []


def test_a_key_takes_over_from_a_device_that_is_gone() -> None:
    keys = {"minus": "a", "plus": "d", "rate": 1.0}
    flown = controls(pitch={"joystick": {"axis": 0}, "keyboard": keys, "safe": 0.0})
    flown.update(joystick(0.5), 0)
    assert flown.update(DeviceSample(), 50 * MS)[0] == 0.5  # a spring does not pull at what is lost
    assert flown.update(DeviceSample(keys=frozenset("a")), 100 * MS)[0] == pytest.approx(0.45)
    assert flown.lost == []


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"pitsch": {}}, "my.toml: unknown key 'pitsch'.*pitch"),
        ({"pitch": 3}, r"pitch = 3 is not valid \(no table\); write a table"),
        ({"pitch": {"joystik": {}}}, "unknown key 'joystik'.*joystick"),
        ({"pitch": {"joystick": 1}}, "pitch: joystick = 1 is not valid .*{ axis = 1 }"),
        ({"pitch": {"joystick": {"axis": "x"}}}, "axis = 'x' .*whole number from 0 to 63"),
        ({"pitch": {"joystick": {"axis": True}}}, "pitch.joystick: axis = True"),
        ({"pitch": {"joystick": {"axis": 900}}}, "axis = 900 .*0 to 63"),
        ({"pitch": {"joystick": {"axis": 1, "rat": 1}}}, "unknown key 'rat'"),
        ({"pitch": {"gamepad": {"axis": "left"}}}, "unknown axis 'left'.*lefty"),
        ({"pitch": {"keyboard": {"rate": 1}}}, "neither minus nor plus"),
        ({"pitch": {"rest": 2}}, "pitch: rest = 2 is outside the range"),
        ({"pitch": {"ends": ["up"]}}, "two texts"),
        ({"throttle": {"pickup": 1}}, "true or false"),
        ({"pitch": {"keyboard": {"minus": "a", "plus": "d", "spring": 1}}}, "true or false"),
        (
            {"pitch": keys("upp", "down")},
            r"my\.toml: pitch\.keyboard: unknown key 'upp'; did you mean up",
        ),
        ({"pitch": keys("Up", "down")}, "write 'up'"),
        ({"pitch": keys("A", "d")}, "write 'a'"),
        ({"pitch": keys("r", "d")}, "minus = 'r' is not valid .the window uses this key"),
        ({"pitch": keys("a", "escape")}, "plus = 'escape' is not valid .the window uses this key"),
        ({"pitch": keys("a", "a")}, "minus and plus are both 'a'"),
        ({"pitch": {"buttons": {"minus": "hat0up", "plus": "hat0up"}}}, "both 'hat0up'"),
        (
            {"pitch": {"dead_zone": 0.95}},
            "dead_zone = 0.95 is not valid; write a number from 0 to 0.9",
        ),
        ({"pitch": {"curve": math.nan}}, "curve = nan is not valid; write a number from 0 to 1"),
        ({"pitch": {"invert": "yes"}}, "true or false"),
        ({"throttle": {"safe": 1.5}}, "outside the range of the signal, 0 to 1"),
    ],
)
def test_a_mapping_that_cannot_be_followed(tables: dict[str, Any], told: str) -> None:
    with pytest.raises(RtsimError, match=told):
        mapping_of(tables, STICK, "my.toml")


@pytest.mark.parametrize(
    "text",
    ["x = " + "[" * 5000, "x = " + "9" * 5000, "[pitch]\ntrim = 1" + "0" * 4000,
     "[pitch]\njoystick = { axis = 0x1" + "0" * 9000 + " }", "[pitch]\ncurve = \xff"],
)  # fmt: skip
def test_a_file_that_no_person_wrote(tmp_path: Path, text: str) -> None:
    path = tmp_path / "my.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(MappingError, match=r"my\.toml.*(valid TOML|at most 64 bits|UTF-8)"):
        read_mapping(path, STICK)


def test_keys_are_those_that_pygame_names() -> None:
    """``key.name`` gives the names that are compared while somebody flies."""
    named = {pygame.key.name(getattr(pygame, name)) for name in dir(pygame) if name[:2] == "K_"}
    assert set(NAMED) <= named
    assert named >= OF_THE_WINDOW


def test_a_mapping_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[pitch]\njoystick = { axis = 1 }\ndead_zone = 0.05\n")
    pitch, throttle = read_mapping(path, STICK)
    assert pitch.dead_zone == 0.05
    assert throttle.safe == 0.25  # where the run has it at the start
    path.write_text("[pitch")
    with pytest.raises(MappingError, match=r"my\.toml"):
        read_mapping(path, STICK)
    path.write_text("#" * 100_000)
    with pytest.raises(MappingError, match="65536 bytes"):
        read_mapping(path, STICK)
    with pytest.raises(MappingError, match=r"docs/controls\.md"):
        read_mapping(tmp_path / "none.toml", STICK)


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [(-math.inf, math.inf, (99.0, 101.0)), (-math.inf, 100.5, (99.0, 100.5)),
     (100.0, math.inf, (100.0, 101.0)), (0.0, 200.0, (0.0, 200.0))],
)  # fmt: skip
def test_without_bounds_it_moves_about_its_initial_value(
    low: float, high: float, ends: tuple[float, float]
) -> None:
    signals = Signals(Signal("push", low=low, high=high, initial=100.0))
    flown = Controls(mapping_of({"push": {"joystick": {"axis": 0}}}, signals, "here"), signals)
    assert flown.update(DeviceSample(), 0).tolist() == [100.0]
    assert [float(flown.update(joystick(x), 1)[0]) for x in (-1.0, 1.0)] == list(ends)
