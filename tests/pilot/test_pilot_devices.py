"""The real path from a device to the stick's values, by SDL's virtual joystick: with no display,
and with a window on an X server."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator

import pygame
import pytest
from virtual_joystick import (
    FLIGHT_STICK,
    GAMEPAD,
    HAT_DOWN,
    HAT_LEFT,
    HAT_RIGHT,
    HAT_UP,
    VirtualJoystick,
)

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.devices import sdl
from rtsim.pilot.devices.controls import HOLD_NS, Controls
from rtsim.pilot.devices.device import Stick
from rtsim.pilot.devices.mapping import mapping_of
from rtsim.pilot.devices.sdl import Devices
from tools.x11 import Screen, xvfb

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


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """Of an X server without a screen."""
    with xvfb(320, 240) as name:
        kept = Screen(name)  # a server whose last client goes begins anew, and is away meanwhile
        yield name
        kept.close()


@pytest.fixture(params=["dummy", pytest.param("x11", marks=pytest.mark.system("xvfb"))])
def window(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pygame.Surface]:
    monkeypatch.setenv("SDL_VIDEODRIVER", request.param)
    if request.param == "x11":
        monkeypatch.setenv("DISPLAY", request.getfixturevalue("display"))
    pygame.display.init()
    assert pygame.display.get_driver() == request.param
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
    assert "was plugged in" in devices.news[0]
    joystick.unplug()
    assert devices.look().sticks == {}
    assert "was unplugged" in devices.news[-1]


def test_sdl_reads_a_new_stick_before_the_first_look_at_it(
    devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would say 0.0 once, the middle of a throttle; a made-up stick is read without that."""
    order: list[str] = []
    pump, read = pygame.event.pump, sdl._read

    def pumped() -> None:
        order.append("pump")
        pump()

    def told(plugged: sdl._Plugged) -> Stick:
        order.append("read")
        return read(plugged)

    monkeypatch.setattr(pygame.event, "pump", pumped)
    monkeypatch.setattr(sdl, "_read", told)
    devices.look()
    joystick = VirtualJoystick()
    for _ in range(3):
        devices.look()
    assert order == ["pump", "read", "read", "read"]
    joystick.unplug()


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


MS = 1_000_000
X_KEY, X_EXPOSE = 2, 12


def x_event(kind: int, ms: int, size: int = 192) -> pygame.event.Event:
    """What SDL passes on of an X server: the type of the event, and its time at byte 56."""
    data = struct.pack("i52xI", kind, ms % 2**32).ljust(192, bytes(1))[:size]
    return pygame.event.Event(pygame.SYSWMEVENT, event=data)


def test_a_change_is_counted_from_its_event_else_from_the_sample_before(
    devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_ms = 2**33 + 40  # the server's time has 32 bits
    now = [start_ms * MS + 7]
    monkeypatch.setattr("rtsim.pilot.devices.sdl.stopwatch", lambda: now[0])
    devices.look()
    found = []
    for passed_ms, events in (
        (1, []),
        (25, [x_event(X_KEY, start_ms + 5), x_event(X_KEY, start_ms + 9)]),  # a frame was drawn
        (1, [x_event(X_EXPOSE, start_ms + 5)]),
        (1, [x_event(X_KEY, start_ms - 5000), x_event(X_KEY, start_ms + 900)]),  # another machine
        (1, [x_event(X_KEY, start_ms + 28, size=50)]),
    ):
        now[0] += passed_ms * MS
        monkeypatch.setattr(pygame.event, "get", lambda events=events: events)
        devices.look()
        found.append((devices.since_ns - start_ms * MS) / MS)
    whole = 7 / MS  # a sample before
    assert found == pytest.approx([whole, 5, 26 + whole, 27 + whole, 28 + whole], abs=1e-9)


@pytest.mark.system("xvfb")
@pytest.mark.skipif(sys.platform != "linux", reason="the time of an X event is read on Linux")
def test_a_key_of_an_x_server_has_the_time_at_which_it_was_pressed(
    display: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    monkeypatch.setenv("DISPLAY", display)
    pygame.display.init()
    pygame.display.set_mode((200, 100))
    pygame.display.set_caption("times")
    devices, screen = Devices(), Screen(display)
    try:
        screen.focus(screen.window("times"))
        until = stopwatch() + 30 * NS_PER_S
        while not pygame.key.get_focused() and stopwatch() < until:
            devices.look()
        devices.look()
        before = stopwatch()
        screen.press("a", 0.1)
        released = stopwatch()
        keys: frozenset[str] = frozenset()
        while "a" not in keys and stopwatch() < until:
            looked = stopwatch()
            keys = devices.look().keys
        assert keys == {"a"}
        tick = 10 * MS  # a server may read a clock that advances at each tick
        assert before - tick <= devices.since_ns < released <= looked
    finally:
        screen.close()
        devices.close()
        pygame.display.quit()


def test_every_event_is_handed_on_and_the_mouse_flies_when_told(window: pygame.Surface) -> None:  # noqa: ARG001
    events: list[int] = []
    devices = Devices(lambda event: events.append(event.type))
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_p))
    assert devices.look().mouse is None
    assert pygame.KEYDOWN in events
    devices.mouse_flies = True
    assert devices.look().mouse == (0.0, 0.0)  # wherever the pointer is
    assert not pygame.mouse.get_visible()
    moved = {"pos": (60, 10), "rel": (50, -10), "buttons": (0, 0, 0), "touch": False}
    pygame.event.post(pygame.event.Event(pygame.MOUSEMOTION, moved))
    assert devices.look().mouse == pytest.approx((0.5, -0.2))  # in halves of 200 by 100 pixels
    devices.close()
    assert pygame.mouse.get_visible()


def test_buttons_and_hats_of_a_joystick(devices: Devices) -> None:
    joystick = VirtualJoystick(buttons=12, hats=2)
    devices.look()

    def held() -> set[str]:
        devices.look()
        return set(devices.look().sticks[joystick.number].buttons)

    assert held() == set()
    joystick.press(0)
    joystick.press(11)
    joystick.point(0, HAT_UP | HAT_RIGHT)
    joystick.point(1, HAT_DOWN | HAT_LEFT)
    assert held() == {
        "button0", "button11", "hat0up", "hat0right", "hat1down", "hat1left"
    }  # fmt: skip
    joystick.press(0, down=False)
    joystick.point(0, 0)
    joystick.point(1, HAT_LEFT)
    assert held() == {"button11", "hat1left"}
    joystick.unplug()


def test_buttons_of_a_gamepad_have_its_names(devices: Devices) -> None:
    gamepad = VirtualJoystick(axes=6, buttons=15, type_=GAMEPAD)
    gamepad.press(0)
    gamepad.press(11)
    devices.look()
    assert devices.look().sticks[gamepad.number].buttons == {"a", "dpup"}
    gamepad.unplug()


def test_a_button_moves_a_value_and_an_unplugged_one_lets_it_go_to_its_safe_value(
    devices: Devices,
) -> None:
    mapping = mapping_of(
        {
            "throttle": {
                "buttons": {"minus": "hat0down", "plus": "hat0up", "rate": 1.0, "spring": False},
                "safe": 0.6,
            }
        },
        STICK,
        "here",
    )
    controls = Controls(mapping, STICK)
    joystick = VirtualJoystick(axes=2, hats=1)
    joystick.point(0, HAT_UP)
    devices.look()
    for k in range(5):
        values = controls.update(devices.look(), k * 50_000_000)
    assert values[1] == pytest.approx(0.3 + 4 * 0.05 / 2)
    joystick.point(0, 0)
    devices.look()
    assert controls.update(devices.look(), 10**9)[1] == values[1]  # it stays where it was put
    assert controls.flying == {joystick.number}
    joystick.unplug()
    controls.update(devices.look(), 2 * 10**9)
    assert "throttle held" in controls.lost[0]
    assert controls.update(devices.look(), 2 * 10**9 + 3 * HOLD_NS)[1] == pytest.approx(0.6)
    assert controls.flying == set()


def test_two_alike_by_turns_unplugged_and_plugged_in_again(devices: Devices) -> None:
    """An index is used again at once, an instance id never."""
    first, second = (VirtualJoystick(name="Twin") for _ in range(2))
    seen = {first.number, second.number}
    devices.look()
    for _ in range(3):
        first.unplug()
        first = VirtualJoystick(name="Twin")
        assert first.number not in seen
        seen.add(first.number)
        first.move(0, 0.5)
        second.move(0, -0.5)
        devices.look()
        sticks = devices.look().sticks
        assert set(sticks) == {first.number, second.number}
        assert sticks[first.number].axes[0] == pytest.approx(0.5, abs=1e-4)
        assert sticks[second.number].axes[0] == pytest.approx(-0.5, abs=1e-4)
    first.unplug()
    second.unplug()


def lose_focus(devices: Devices) -> None:
    """The server is told that nobody has it, and the window is told in its turn."""
    screen, until = Screen(os.environ["DISPLAY"]), stopwatch() + 10 * NS_PER_S
    while not pygame.key.get_focused() and stopwatch() < until:
        devices.look()  # it may not have it yet
    screen.focus(0)
    while pygame.key.get_focused() and stopwatch() < until:
        devices.look()
    screen.close()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_window_without_the_focus_is_told_of_sticks_too(
    window: pygame.Surface,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
    allowed: bool,
) -> None:
    """As SDL is by itself it is not: that the hint is set is what makes the difference."""
    if not allowed:
        monkeypatch.setenv("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "0")
    devices = Devices()
    joystick = VirtualJoystick()
    devices.look()
    if pygame.display.get_driver() == "x11":
        lose_focus(devices)
    elif pygame.key.get_focused():
        joystick.unplug()
        devices.close()
        pytest.skip("this SDL gives the focus to a window that nobody sees")
    assert not pygame.key.get_focused()
    joystick.move(0, 0.8)
    devices.look()
    seen = devices.look().sticks[joystick.number].axes[0]
    assert seen == pytest.approx(0.8 if allowed else 0.0, abs=1e-4)
    joystick.unplug()
    devices.close()


def test_a_device_is_felt_to_rumble_and_others_are_left_alone(devices: Devices) -> None:
    felt, other, cannot = (
        VirtualJoystick(rumbles=True), VirtualJoystick(rumbles=True), VirtualJoystick(),
    )  # fmt: skip
    devices.look()
    assert devices.rumble(1.0, 0.5, 100, {felt.number, cannot.number})
    assert felt.felt[0] == pytest.approx((1.0, 0.5), abs=1e-4)
    assert devices.rumble(0.0, 0.0, 0, {felt.number}) is False
    assert felt.felt[-1] == (0.0, 0.0)
    assert not devices.rumble(1.0, 1.0, 100, {cannot.number})
    assert not devices.rumble(1.0, 1.0, 100, {10**6})
    assert other.felt == cannot.felt == []
    for joystick in (felt, other, cannot):
        joystick.unplug()


def test_what_is_said_of_a_device(devices: Devices) -> None:
    joystick = VirtualJoystick(3, 5, hats=1, name="T.16000M", rumbles=True)
    pad = VirtualJoystick(6, 15, GAMEPAD, name="Pad")
    joystick.move(2, -1.0)
    joystick.press(4)
    joystick.point(0, HAT_LEFT)
    devices.look()
    devices.look()
    one, two = devices.describe()
    assert (one.number, one.name, one.rumble, one.gamepad) == (
        joystick.number, "T.16000M", True, None,
    )  # fmt: skip
    assert len(one.guid) == 32
    assert one.axes == pytest.approx((0.0, 0.0, -1.0), abs=1e-4)
    assert one.buttons == (False, False, False, False, True)
    assert one.hats == ((-1, 0),)
    assert (two.name, two.rumble) == ("Pad", False)
    assert two.gamepad is not None
    assert two.gamepad["lefty"] == "a1"
    assert max(low for low, _ in joystick.felt) < 0.001  # asked without anybody feeling it
    joystick.unplug()
    pad.unplug()
