"""Switches, trims and commands of virtual devices, as SDL reports them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pygame
import pytest
from click.testing import CliRunner
from pilot_parts import watched
from switch_parts import MS, SIGNALS, Hand
from virtual_joystick import GAMEPAD, HAT_DOWN, HAT_UP, VirtualJoystick

from rtsim.cli import main
from rtsim.core.clock import stopwatch
from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.mapping import read_mapping
from rtsim.pilot.devices.sdl import Devices
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.viewer.state import Telling
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario


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
    monkeypatch.setattr("rtsim.pilot.loop.stopwatch", lambda: 10**9)  # no silence, ever
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
    assert flown.track("inputs/stick").column("pitch").tolist() == [0.02]
    assert flown.track("inputs/stick").column("throttle").tolist() == [0.77]
    result = CliRunner().invoke(main, ["replay", str(path)])
    assert result.exit_code == 0, result.output
    assert "rows equal bit for bit" in result.stdout
