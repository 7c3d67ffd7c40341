"""The real path from a device to the stick's values, by SDL's virtual joystick and no display."""

from __future__ import annotations

from collections.abc import Iterator

import pygame
import pytest
from virtual_joystick import FLIGHT_STICK, GAMEPAD, VirtualJoystick

from rtsim.pilot.devices.controls import HOLD_NS, Controls
from rtsim.pilot.devices.mapping import mapping_of
from rtsim.pilot.devices.sdl import Devices
from rtsim.signals import Signal, Signals

STICK = Signals(
    Signal("pitch", low=-1.0, high=1.0), Signal("throttle", low=0.0, high=1.0, initial=0.3)
)
MAPPING = mapping_of(
    {
        "pitch": {"joystick": {"axis": 1}, "keyboard": {"minus": "up", "plus": "down"}},
        "throttle": {"joystick": {"axis": 3}, "invert": True, "safe": 0.6},
    },
    STICK,
    "here",
)


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[pygame.Surface]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    yield pygame.display.set_mode((200, 100))
    pygame.display.quit()


@pytest.fixture
def devices(window: pygame.Surface) -> Iterator[Devices]:  # noqa: ARG001
    found = Devices()
    yield found
    found.close()


def test_a_stick_is_plugged_in_moved_and_read(devices: Devices) -> None:
    assert devices.look().sticks == {}
    joystick = VirtualJoystick()
    joystick.move(1, -0.5)
    look = devices.look()
    assert list(look.sticks) == [joystick.number]
    stick = devices.look().sticks[joystick.number]
    assert stick.kind == "joystick"
    assert stick.axes == pytest.approx((0.0, -0.5, 0.0, 0.0), abs=1e-4)
    assert "is there" in devices.news[0]
    joystick.unplug()
    assert devices.look().sticks == {}
    assert "is gone" in devices.news[-1]


def test_a_stick_that_was_there_before(window: pygame.Surface) -> None:  # noqa: ARG001
    joystick = VirtualJoystick()
    devices = Devices()
    joystick.move(0, 1.0)
    devices.look()
    assert devices.look().sticks[joystick.number].axes[0] == pytest.approx(1.0, abs=1e-4)
    joystick.unplug()
    devices.close()


def test_two_alike_are_told_apart_when_the_first_goes(devices: Devices) -> None:
    """By index the second would take the place of the first, and say what that one said."""
    first, second = VirtualJoystick(), VirtualJoystick()
    first.move(0, 0.25)
    second.move(0, 0.75)
    devices.look()
    look = devices.look()
    assert [look.sticks[n].axes[0] for n in (first.number, second.number)] == pytest.approx(
        [0.25, 0.75], abs=1e-4
    )
    first.unplug()
    look = devices.look()
    assert list(look.sticks) == [second.number]
    assert look.sticks[second.number].axes[0] == pytest.approx(0.75, abs=1e-4)
    second.unplug()


def test_a_gamepad_is_read_by_the_names_of_its_axes(devices: Devices) -> None:
    gamepad = VirtualJoystick(axes=6, buttons=15, type_=GAMEPAD)
    gamepad.move(3, -1.0)
    devices.look()
    stick = devices.look().sticks[gamepad.number]
    assert stick.kind == "gamepad"
    assert len(stick.axes) == 6
    assert stick.axes[3] == pytest.approx(-1.0, abs=1e-3)
    gamepad.unplug()


def test_an_unplugged_throttle_is_held_then_safe_and_that_is_said(devices: Devices) -> None:
    """SDL would say 0.0 from then on, which is half the throttle."""
    controls = Controls(MAPPING, STICK)
    joystick = VirtualJoystick(type_=FLIGHT_STICK)
    joystick.move(3, -1.0)
    joystick.move(1, 0.5)
    devices.look()
    assert controls.update(devices.look(), 0).tolist() == pytest.approx([0.5, 1.0], abs=1e-4)
    joystick.unplug()
    controls.update(devices.look(), 1)
    assert controls.update(devices.look(), HOLD_NS).tolist() == pytest.approx([0.5, 1.0], abs=1e-4)
    assert "pitch, throttle held" in controls.lost[0]
    assert controls.update(devices.look(), 3 * HOLD_NS).tolist() == pytest.approx([0.0, 0.6])
    assert "safe values" in controls.lost[0]
    again = VirtualJoystick()
    again.move(3, 1.0)
    devices.look()
    assert controls.update(devices.look(), 4 * HOLD_NS).tolist() == pytest.approx([0, 0], abs=1e-4)
    assert controls.lost == []
    again.unplug()


def test_keys_held_and_released(devices: Devices) -> None:
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_DOWN))
    assert devices.look().keys == {"down"}
    pygame.event.post(pygame.event.Event(pygame.KEYUP, key=pygame.K_DOWN))
    assert devices.look().keys == frozenset()
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_UP))
    pygame.event.post(pygame.event.Event(pygame.WINDOWFOCUSLOST))
    assert devices.look().keys == frozenset()


def test_every_event_is_handed_on_and_the_mouse_flies_when_told(window: pygame.Surface) -> None:  # noqa: ARG001
    events: list[int] = []
    devices = Devices(lambda event: events.append(event.type))
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_p))
    assert devices.look().mouse is None
    assert pygame.KEYDOWN in events
    devices.mouse_flies = True
    mouse = devices.look().mouse
    assert mouse is not None
    assert all(-1.0 <= position <= 1.0 for position in mouse)
    devices.close()
