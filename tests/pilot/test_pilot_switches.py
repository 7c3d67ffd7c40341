"""Buttons, hats and keys that set values, trim them, and give the window's commands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from switch_parts import GUID, MS, SIGNALS, Hand

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals
from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.devices.calibration import OWN_MAPPING, own_mapping, own_tables
from rtsim.pilot.devices.device import Described, Stick
from rtsim.pilot.devices.mapping import DeviceMapping, mapping_of, uses
from rtsim.pilot.devices.sources import Curve, Value
from rtsim.pilot.devices.switches import OF_THE_WINDOW, REPEAT_AFTER_NS, REPEAT_NS, WINDOW_COMMANDS
from rtsim.pilot.viewer.overlay import help_rows


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
        (
            {"gear": {"switches": {"button": "button0"}}},
            "gear.switches: do is missing; write one of toggle",
        ),
        ({"gear": {"switches": {"do": "toggle"}}}, "write either a button or a key"),
        ({"gear": {"switches": {**SWITCH, "key": "g"}}}, "write either a button or a key"),
        ({"gear": {"switches": {"key": "g", "do": "toggle", "name": "S"}}}, "a key has none"),
        ({"gear": {"switches": {"button": "b0", "do": "toggle"}}}, "unknown button 'b0'"),
        ({"gear": {"switches": {"key": "v", "do": "toggle"}}}, "the window uses this key"),
        ({"gear": {"switches": {**SWITCH, "to": 2.0}}}, "to = 2 is outside the range .*0 to 1"),
        ({"gear": {"switches": {**SWITCH, "to": 0.0}}}, "both positions of the toggle are 0"),
        (
            {"gear": {"switches": {"key": "g", "do": "set"}}},
            "has no value to set; write 'to = VALUE'",
        ),
        ({"gear": {"switches": {"key": "g", "do": "set", "to": 1, "else": 0}}}, "belongs to do"),
        ({"gear": {"switches": []}}, r"switches = \[\] is not valid; write 1 to 64 tables"),
        ({"gear": {"switches": ["g"]}}, "switches: element 1, 'g' .* a table: { button"),
        ({"gear": {"switches": SWITCH, "joystick": {"axis": 1}}}, "add pickup = true"),
        (
            {"pitch": {"trimmers": {"button": "hat0up"}}},
            "give exactly one of the keys 'by' and 'to'",
        ),
        (
            {"pitch": {"trimmers": {"button": "hat0up", "by": 3}}},
            "by = 3 is not valid; write a number from -1 to 1",
        ),
        (
            {"pitch": {"joystick": {"axis": 1, "number": 0}}},
            "number = 0 is not valid; write 1 for the first",
        ),
        ({"pitch": {"joystick": {"axis": 1, "guid": "12"}}}, "the 32 digits"),
        ({"pitch": {"curve": [[0, 0]]}}, "2 to 64 corners"),
        ({"pitch": {"curve": [[-1, -1], [0.5, 1]]}}, "must rise from -1 to 1"),
        ({"pitch": {"curve": [[-1, 1], [1, -1]]}}, "must not fall"),
        ({"pitch": {"detents": [3.0]}}, "outside the range -1 to 1"),
        ({"pitch": {"detents": [0.0, 0.01]}}, "rise by more than 0.08"),
        ({"commands": {"paus": {"key": "j"}}}, "unknown key 'paus'.*pause"),
        ({"commands": {"pause": 3}}, "pause = 3 is not valid .*button4"),
        ({"commands": {"pause": {"key": "j"}, "mark": {"key": "j"}}}, "j already gives .* pause"),
        ({"commands": 3}, "commands = 3 is not valid"),
    ],
)
def test_a_wrong_mapping(tables: dict[str, Any], told: str) -> None:
    with pytest.raises(RtsimError, match=told):
        mapping_of(tables, SIGNALS, "my.toml")


def test_rtsims_own_mapping_serves_values_that_a_run_may_have() -> None:
    mapping = own_mapping(STICK)
    flown = {value.name: [str(s) for s in value.switches] for value in mapping}
    assert flown["gear"] == ["toggle", "toggle"]
    assert flown["brake"] == ["momentary", "momentary"]
    assert {name for _, name in mapping.commands} == {"pause", "view", "mark"}
    assert "gear" not in own_tables(Signals(*(s for s in STICK if s.name != "gear")))
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
