"""Buttons, hats and keys that set values, trim them, and give the window's commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from pilot_parts import watched
from virtual_joystick import GAMEPAD, HAT_DOWN, HAT_UP, VirtualJoystick

from rtsim.cli import main
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signal, Signals
from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.described import Described
from rtsim.pilot.devices.keys import OF_THE_WINDOW, WINDOW_COMMANDS
from rtsim.pilot.devices.mapping import DeviceMapping, mapping_of, read_mapping
from rtsim.pilot.devices.samples import DeviceSample, Stick
from rtsim.pilot.devices.sdl import Devices
from rtsim.pilot.devices.sources import Curve, Value
from rtsim.pilot.devices.switches import REPEAT_AFTER_NS, REPEAT_NS
from rtsim.pilot.devices.uses import uses
from rtsim.pilot.devices.writing import OWN_MAPPING, own_mapping, own_tables
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.viewer.state import Telling
from rtsim.pilot.viewer.strip import help_rows
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario

MS = 1_000_000
SIGNALS = Signals(
    Signal("pitch", low=-1.0, high=1.0),
    Signal("gear", low=0.0, high=1.0, initial=1.0),
    Signal("brake", low=0.0, high=1.0),
    Signal("flaps", "deg", low=0.0, high=30.0),
)
GUID = "0300000000000000000000000000abcd"


class Hand:
    """Controls by a mapping, and a stick on which buttons and keys are held."""

    def __init__(self, tables: dict[str, Any], signals: Signals = SIGNALS) -> None:
        self.mapping = mapping_of(tables, signals, "my.toml")
        self.controls = Controls(self.mapping, signals)
        self.ns = 0
        self.axes: tuple[float, ...] = (0.0, 0.0)
        self.hold()

    def hold(self, *held: str, keys: str = "", after: int = MS) -> dict[str, float]:
        stick = Stick("joystick", "Stick", self.axes, frozenset(held), GUID)
        return self.see({1: stick}, keys, after)

    def see(self, sticks: dict[int, Stick], keys: str = "", after: int = MS) -> dict[str, float]:
        self.ns += after
        values = self.controls.update(DeviceSample(sticks, frozenset(keys)), self.ns)
        return dict(zip(self.controls.signals.names, values.tolist(), strict=True))


def test_a_toggle_a_momentary_switch_and_a_switch_that_sets() -> None:
    hand = Hand(
        {
            "gear": {
                "switches": [
                    {"button": "button4", "do": "toggle"},
                    {"key": "g", "do": "toggle"},
                ]
            },
            "brake": {"switches": {"button": "button0", "do": "momentary"}},
            "flaps": {
                "switches": [
                    {"button": "hat0down", "do": "set", "to": 20.0},
                    {"button": "hat0up", "do": "set", "to": 0.1},
                ]
            },
        }
    )  # fmt: skip
    assert hand.hold()["gear"] == 1.0
    gears = [hand.hold("button4")["gear"] for _ in range(3)]  # held: one press
    assert gears == [0.0] * 3
    assert hand.hold()["gear"] == 0.0
    assert hand.hold(keys="g")["gear"] == 1.0
    assert hand.hold("button4")["gear"] == 0.0
    assert [hand.hold("button0")["brake"], hand.hold("button0")["brake"]] == [1.0, 1.0]
    assert hand.hold()["brake"] == 0.0
    assert hand.hold("hat0down")["flaps"] == 20.0
    assert hand.hold()["flaps"] == 20.0
    assert hand.hold("hat0up")["flaps"] == 0.1  # exactly, in the signal's unit
    movers = hand.controls.movers
    assert (movers["gear"].by, movers["gear"].by_hand) == ("Stick", "g: toggle")


def test_a_toggle_between_two_values_of_its_own() -> None:
    toggle = {"button": "button1", "do": "toggle", "to": 15.0, "else": 5.0}
    hand = Hand({"flaps": {"switches": toggle}})
    flaps = []
    for _ in range(3):
        flaps.append(hand.hold("button1")["flaps"])
        hand.hold()
    assert flaps == [15.0, 5.0, 15.0]


def test_a_switch_that_is_on_when_its_device_comes_is_no_press_and_one_that_goes_lets_go() -> None:
    brake = {"switches": {"button": "button0", "do": "momentary"}}
    hand = Hand({"brake": brake, "gear": {"switches": {"button": "button4", "do": "toggle"}}})
    hand.see({})
    assert hand.hold("button4")["gear"] == 1.0
    assert hand.hold("button4", "button0")["brake"] == 1.0
    gone = hand.see({})
    assert (gone["brake"], gone["gear"]) == (0.0, 1.0)


def test_a_hat_trims_a_value_step_by_step_and_the_axis_moves_around_the_trim() -> None:
    trimmers = [
        {"button": "hat0up", "by": -0.1},
        {"button": "hat0down", "by": 0.1},
        {"button": "button5", "to": 0.0},
    ]
    hand = Hand({"pitch": {"joystick": {"axis": 1}, "trimmers": trimmers}})
    assert hand.hold("hat0down")["pitch"] == pytest.approx(0.1)
    assert hand.hold("hat0down", after=REPEAT_AFTER_NS - 2 * MS)["pitch"] == pytest.approx(0.1)
    hand.hold("hat0down", after=2 * MS)
    assert hand.hold("hat0down", after=2 * REPEAT_NS)["pitch"] == pytest.approx(0.4)
    hand.axes = (0.0, 0.25)
    assert hand.hold()["pitch"] == pytest.approx(0.65)
    assert hand.hold("hat0up")["pitch"] == pytest.approx(0.55)
    assert hand.controls.news[-1] == "trim of pitch: +0.3"
    assert dict(help_rows(hand.controls.movers))["pitch"] == "Stick, trim +0.3"
    assert hand.hold("button5")["pitch"] == pytest.approx(0.25)
    for _ in range(30):
        hand.hold("hat0up")
        trimmed = hand.hold()
    assert trimmed["pitch"] == -0.75  # the trim ends at half the travel; the axis still moves


def test_a_trim_moves_a_value_that_keys_move_and_they_spring_back_to_it() -> None:
    keys = {"minus": "a", "plus": "d", "rate": 10.0}
    hand = Hand({"pitch": {"keyboard": keys, "trimmers": {"key": "t", "by": 0.2}}})
    assert hand.hold(keys="t")["pitch"] == pytest.approx(0.2)
    hand.hold(keys="d", after=50 * MS)
    for _ in range(5):
        last = hand.hold(after=90 * MS)
    assert last["pitch"] == pytest.approx(0.2)


def test_a_lever_must_reach_what_a_switch_has_set() -> None:
    switch = {"button": "button1", "do": "set", "to": 30.0}
    lever = {"joystick": {"axis": 0}, "pickup": True}
    hand = Hand({"flaps": {**lever, "switches": switch}})
    hand.axes = (-1.0, 0.0)
    assert hand.hold()["flaps"] == 0.0
    assert hand.hold("button1")["flaps"] == 30.0
    assert hand.hold()["flaps"] == 30.0
    hand.axes = (0.5, 0.0)
    assert hand.hold()["flaps"] == 30.0
    hand.axes = (1.0, 0.0)
    assert hand.hold()["flaps"] == 30.0
    hand.axes = (0.0, 0.0)
    assert hand.hold()["flaps"] == 15.0


def test_presses_give_the_windows_commands_but_not_while_they_answer_a_question() -> None:
    tables = {
        "pitch": {"joystick": {"axis": 0}},
        "commands": {"pause": {"button": "button6"}, "mark": [{"key": "j"}, {"button": "hat0up"}]},
    }
    hand = Hand(tables)
    for held, keys in ((("button6",), ""), ((), "j"), (("hat0up", "button6"), "j")):
        hand.hold(*held, keys=keys)
    assert hand.controls.orders == ["pause", "mark", "pause", "mark"]
    hand.controls.orders.clear()
    both = {1: Stick("joystick", "A", (0.0,)), 2: Stick("joystick", "B", (0.5,))}
    hand.see({})
    hand.see(both)
    assert len(hand.controls.asked) == 1
    pressed = Stick("joystick", "B", (0.5,), frozenset({"button6"}))
    assert hand.see({**both, 2: pressed})["pitch"] == 0.5  # it answers: B flies
    assert hand.controls.orders == []
    hand.see(both)
    hand.see({**both, 2: pressed})
    assert hand.controls.orders == ["pause"]


def test_two_sticks_of_one_model_by_number_and_one_by_its_guid() -> None:
    first, second = (
        Stick("joystick", "VKB", (x,), frozenset(), GUID, k) for k, x in ((1, 0.25), (2, -0.5))
    )
    other = Stick("joystick", "VKB", (1.0,), frozenset(), GUID[:-1] + "0")
    tables = {
        "pitch": {"joystick": {"axis": 0, "name": "vkb", "number": 2, "guid": GUID.upper()}},
        "gear": {"switches": {"button": "button0", "do": "toggle", "number": 1, "guid": GUID}},
    }
    hand = Hand(tables)
    both = {8: other, 3: first, 7: second}
    assert hand.see(both)["pitch"] == -0.5
    assert hand.controls.asked == []
    held = frozenset({"button0"})
    assert hand.see({**both, 7: Stick("joystick", "VKB", (-0.5,), held, GUID, 2)})["gear"] == 1.0
    assert hand.see({**both, 3: Stick("joystick", "VKB", (0.25,), held, GUID, 1)})["gear"] == 0.0
    assert hand.see({8: other, 3: first})["pitch"] == -0.5  # the second went: the first is not it
    assert hand.controls.lost


def test_corners_and_detents_shape_a_lever() -> None:
    tables = {
        "flaps": {
            "joystick": {"axis": 0},
            "curve": [[-1, -1], [0.0, 0.5], [1, 1]],
            "detents": [10.0, 22.5],
            "detent_width": 0.1,
        }
    }
    (flaps,) = (v for v in mapping_of(tables, SIGNALS, "here") if v.name == "flaps")

    def at(x: float) -> float:
        return 15.0 + 15.0 * flaps.shape(x)

    assert [at(-1.0), at(0.0), at(1.0)] == [0.0, 22.5, 30.0]
    assert at(-0.05) == at(0.1) == 22.5  # the detent is 10 % of half the travel on each side
    assert at(0.9) == pytest.approx(15.0 + 15.0 * (0.5 + 0.5 * (0.95 - 0.6) / 0.4))
    held = [x for x in np.linspace(-1, 1, 2001) if at(x) == pytest.approx(10.0, abs=1e-9)]
    assert held[-1] - held[0] == pytest.approx(0.2 / 1.5, abs=2e-3)


@settings(max_examples=40)
@given(st.floats(-1, 1), st.floats(-0.9, 0.9), st.lists(st.floats(-1, 1), min_size=2, max_size=9))
def test_corners_and_detents_never_turn_back_and_reach_both_ends(
    detent: float, corner: float, raw: list[float]
) -> None:
    points = ((-1.0, -1.0), (corner, 0.25), (1.0, 1.0))
    value = Value("x", curve=Curve(0.0, points, (detent,), 0.1))
    shaped = [value.shape(x) for x in sorted(raw)]
    assert shaped == sorted(shaped)
    assert [value.shape(-1.0), value.shape(1.0)] == [-1.0, 1.0]


SWITCH = {"button": "button0", "do": "toggle"}


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"gear": {"switches": {"button": "button0"}}}, "unknown do 'None'.*toggle"),
        ({"gear": {"switches": {"do": "toggle"}}}, "needs either a button or a key"),
        ({"gear": {"switches": {**SWITCH, "key": "g"}}}, "needs either a button or a key"),
        ({"gear": {"switches": {"key": "g", "do": "toggle", "name": "S"}}}, "a key has none"),
        ({"gear": {"switches": {"button": "b0", "do": "toggle"}}}, "unknown button 'b0'"),
        ({"gear": {"switches": {"key": "v", "do": "toggle"}}}, "the window uses this key"),
        ({"gear": {"switches": {**SWITCH, "to": 2.0}}}, "to = 2 is outside the range .*0 to 1"),
        ({"gear": {"switches": {**SWITCH, "to": 0.0}}}, "both positions of the toggle are 0"),
        ({"gear": {"switches": {"key": "g", "do": "set"}}}, "sets nothing; add to = VALUE"),
        ({"gear": {"switches": {"key": "g", "do": "set", "to": 1, "else": 0}}}, "belongs to do"),
        ({"gear": {"switches": []}}, "expected 1 to 64 tables"),
        ({"gear": {"switches": ["g"]}}, "expected a table: { button"),
        ({"gear": {"switches": SWITCH, "joystick": {"axis": 1}}}, "add pickup = true"),
        ({"pitch": {"trimmers": {"button": "hat0up"}}}, "needs either by or to"),
        ({"pitch": {"trimmers": {"button": "hat0up", "by": 3}}}, "by = 3; expected -1 to 1"),
        ({"pitch": {"joystick": {"axis": 1, "number": 0}}}, "number = 0; expected 1"),
        ({"pitch": {"joystick": {"axis": 1, "guid": "12"}}}, "the 32 digits"),
        ({"pitch": {"curve": [[0, 0]]}}, "2 to 64 corners"),
        ({"pitch": {"curve": [[-1, -1], [0.5, 1]]}}, "must rise from -1 to 1"),
        ({"pitch": {"curve": [[-1, 1], [1, -1]]}}, "must not fall"),
        ({"pitch": {"detents": [3.0]}}, "outside the range -1 to 1"),
        ({"pitch": {"detents": [0.0, 0.01]}}, "rise by more than 0.08"),
        ({"commands": {"paus": {"key": "j"}}}, "unknown key 'paus'.*pause"),
        ({"commands": {"pause": 3}}, "expected 1 to 64 tables"),
        ({"commands": {"pause": {"key": "j"}, "mark": {"key": "j"}}}, "j already gives .* pause"),
        ({"commands": 3}, r"expected a table: \[commands\]"),
    ],
)
def test_a_wrong_mapping(tables: dict[str, Any], told: str) -> None:
    with pytest.raises(RtsimError, match=told):
        mapping_of(tables, SIGNALS, "my.toml")


def test_rtsims_own_mapping_serves_values_that_a_run_may_have() -> None:
    more = [Signal(n, low=0.0, high=1.0) for n in ("gear", "brake", "ap_altitude", "ap_heading")]
    mapping = own_mapping(Signals(*STICK, *more))
    flown = {value.name: [str(s) for s in value.switches] for value in mapping}
    assert flown["gear"] == ["toggle", "toggle"]
    assert flown["brake"] == ["momentary", "momentary"]
    assert {name for _, name in mapping.commands} == {"pause", "view", "mark"}
    assert "gear" not in own_tables(STICK)
    used = {p.press.key for v in mapping for p in v.pressed if p.press.key}
    assert not used & OF_THE_WINDOW
    assert OWN_MAPPING.name == "aircraft.toml"


def test_what_each_control_does_is_told_by_the_names_of_the_mapping() -> None:
    tables = {
        "pitch": {
            "joystick": {"axis": 1},
            "gamepad": {"axis": "lefty", "rate": 1.0},
            "trimmers": {"button": "hat0up", "by": -0.02},
        },
        "gear": {"switches": [{"button": "button4", "do": "toggle", "number": 2}]},
        "flaps": {"switches": {"button": "button4", "do": "set", "to": 20.0}},
        "commands": {"pause": {"button": "button5"}, "mark": {"button": "start"}},
    }
    mapping = mapping_of(tables, SIGNALS, "here")
    off = (False,) * 6
    stick = Described(0, "S", GUID, (0.0, 0.0), off, ((0, 0),), False, None)
    assert uses(mapping, stick) == {
        "axis 1": "pitch",
        "button4": "flaps: = 20",
        "button5": f"pause: {WINDOW_COMMANDS['pause']}",
        "hat0up": "pitch: trim -0.02",
    }
    second = Described(1, "S", GUID, (0.0, 0.0), off, ((0, 0),), False, None, order=2)
    assert uses(mapping, second)["button4"] == "gear: toggle, flaps: = 20"
    pad = Described(2, "P", GUID, (0.0,) * 6, off, (), False, {"a": "b0"})
    assert list(uses(mapping, pad)) == ["lefty", "start"]
    assert uses(DeviceMapping(()), pad) == {}


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Devices]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    pygame.display.set_mode((64, 64))
    made = Devices()
    yield made
    made.close()
    pygame.display.quit()


def test_a_tap_between_two_samples_is_not_lost(devices: Devices) -> None:
    stick = VirtualJoystick(hats=1)
    pad = VirtualJoystick(6, 15, GAMEPAD)
    devices.look()
    stick.press(2)
    stick.point(0, HAT_UP)
    pad.press(0)
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_g))
    pygame.joystick.Joystick(0)  # SDL takes up the presses
    pygame.event.pump()
    stick.press(2, down=False)
    stick.point(0, 0)
    pad.press(0, down=False)
    pygame.event.post(pygame.event.Event(pygame.KEYUP, key=pygame.K_g))
    tapped = devices.look()
    assert tapped.sticks[stick.number].buttons == {"button2", "hat0up"}
    assert tapped.sticks[pad.number].buttons == {"a"}
    assert tapped.keys == {"g"}
    after = devices.look()
    assert not after.keys
    assert not any(one.buttons for one in after.sticks.values())
    stick.unplug()
    pad.unplug()


def test_twins_keep_their_numbers_when_one_is_plugged_in_again(devices: Devices) -> None:
    twins = [VirtualJoystick(2, name="VKB") for _ in range(2)]
    numbers = {n: s.order for n, s in devices.look().sticks.items()}
    assert numbers == {twins[0].number: 1, twins[1].number: 2}
    twins[0].unplug()
    assert [s.order for s in devices.look().sticks.values()] == [2]
    again = VirtualJoystick(2, name="VKB")
    found = {n: s.order for n, s in devices.look().sticks.items()}
    assert found == {twins[1].number: 2, again.number: 1}
    assert [one.order for one in devices.describe()] == [2, 1]
    other = VirtualJoystick(2, name="Other")
    assert devices.look().sticks[other.number].order == 1
    for stick in (twins[1], again, other):
        stick.unplug()


def test_the_hat_of_a_device_trims_and_its_button_pauses(devices: Devices, tmp_path: Path) -> None:
    """From SDL to the value and the order, as the window reads them."""
    path = tmp_path / "my.toml"
    path.write_text(
        '[pitch]\njoystick = { axis = 1 }\ntrimmers = [{ button = "hat0down", by = 0.05 }]\n'
        '[commands]\npause = { button = "button3" }\n'
    )
    mapping = read_mapping(path, SIGNALS)
    controls = Controls(mapping, SIGNALS)
    stick = VirtualJoystick(hats=1)
    for k in range(3):
        controls.update(devices.look(), k * MS)
    stick.point(0, HAT_DOWN)
    stick.press(3)
    values = controls.update(devices.look(), 5 * MS)
    assert values[0] == pytest.approx(0.05)
    assert controls.orders == ["pause"]
    stick.unplug()


def test_a_trim_and_a_switch_are_recorded_like_the_stick_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.pilot.stick.stopwatch", lambda: 10**9)  # no silence, ever
    tables = {
        "pitch": {"trimmers": {"button": "hat0down", "by": 0.02}},
        "throttle": {"switches": {"button": "button1", "do": "set", "to": 0.77}},
    }
    hand, path = Hand(tables, STICK), tmp_path / "flown.mcap"
    hand.hold("hat0down", "button1")

    def on(cockpit: Cockpit) -> None:
        Telling(cockpit.shared).stick(hand.controls.values, stopwatch(), stopwatch(), False)

    scenario = load_scenario("f16-by-hand", {})
    watched(scenario, 0.1, FileRecorder(path, stopwatch), on=on, stick="stick")
    flown = Recording.open(path)
    assert flown["inputs/stick.pitch"].tolist() == [0.02]
    assert flown["inputs/stick.throttle"].tolist() == [0.77]
    result = CliRunner().invoke(main, ["replay", str(path)])
    assert result.exit_code == 0, result.output
    assert "rows equal bit for bit" in result.stdout
