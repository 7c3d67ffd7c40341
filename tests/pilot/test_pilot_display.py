"""The viewer's frames on a made-up clock: a virtual stick reaches the loop, states reach pixels.

A window, or what is missing for one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pygame
import pytest
from display_parts import Viewer
from virtual_joystick import GAMEPAD, VirtualJoystick

from rtsim.core.tag import NS_PER_S
from rtsim.pilot import shared
from rtsim.pilot.devices.switches import GAMEPAD_BUTTONS, OF_THE_WINDOW, WINDOW_COMMANDS
from rtsim.pilot.scenes.scene import CHASE
from rtsim.pilot.shared import NOBODY, VIEWER
from rtsim.pilot.viewer import window
from rtsim.pilot.viewer.frames import _HEARD_NS, BACK_S, FAR_BACK_S
from rtsim.pilot.viewer.overlay import KEYS, SHIFTED, STEP
from rtsim.pilot.viewer.process import CLOSED, QUIT, UNHEARD, PictureSaver
from rtsim.pilot.viewer.state import Telling
from rtsim.pilot.viewer.window import NoWindow, check_one_pygame, open_window


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Viewer]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    made = Viewer(tmp_path)
    yield made
    made.display.close()
    made.cockpit.shared.close()
    pygame.display.quit()


def test_a_virtual_stick_moves_the_external_input_of_the_run(viewer: Viewer) -> None:
    """The whole way: SDL, mapping, shared memory, the device that the loop polls."""
    stick = viewer.cockpit.stick
    assert stick is not None
    viewer.display.frame()
    assert stick.poll() is None
    joystick = VirtualJoystick()
    joystick.move(1, 1.0)
    joystick.move(0, -1.0)
    for lever in (1.0, -1.0):  # the lever passes the value, and has it from then on
        joystick.move(3, lever)
        for _ in range(3):
            viewer.display.frame()
    values = stick.poll()
    assert values is not None
    assert values == pytest.approx([1.0, -1.0, 0.0, 1.0, *[0.0] * (len(values) - 4)], abs=1e-3)
    initiated, completed, latched = stick.stamps
    assert 0 < initiated <= completed <= latched
    joystick.unplug()
    viewer.display.frame()
    assert stick.poll() is None  # held
    assert viewer.display._controls.lost


def test_the_window_asks_which_of_two_devices_flies(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[list[str]] = []
    frames = "rtsim.pilot.viewer.frames.draw_notes"
    monkeypatch.setattr(frames, lambda _, notes: noted.append(list(notes)))
    quadrant = VirtualJoystick(name="Quadrant")
    stick = VirtualJoystick(name="Stick")
    for axis in range(4):
        quadrant.move(axis, -1.0)
    stick.move(1, 0.5)
    viewer.publish()
    controls = viewer.display._controls
    for _ in range(3):
        viewer.display.frame()
    assert controls.values[:3].tolist() == [0.0, 0.0, 0.0]
    assert any("the joystick that flies: Quadrant or Stick" in note for note in noted[-1])
    stick.press(0)
    for _ in range(3):
        viewer.display.frame()
    assert controls.values[:3].tolist() == pytest.approx([0.35, 0.0, 0.0], abs=0.05)
    assert not any("press a button" in note for note in noted[-1])
    quadrant.unplug()
    stick.unplug()


def test_keys_fly_too(viewer: Viewer) -> None:
    stick = viewer.cockpit.stick
    assert stick is not None
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_DOWN))
    viewer.display.frame()
    values = None
    for _ in range(2000):  # of the real clock that stamps: a few of its microseconds each
        viewer.display.frame()
        values = stick.poll()
        if values is not None:
            break
    assert values is not None
    assert values[0] > 0.0


def test_nothing_is_drawn_before_there_is_a_state(viewer: Viewer) -> None:
    assert not viewer.display.frame()
    viewer.publish()
    assert viewer.display.frame()
    assert viewer.pixels().std() > 20


def test_while_there_is_no_state_it_says_so_and_shows_the_keys(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first state on, the help is only shown on request: it covers the picture."""
    helped: list[int] = []
    now = [10**12]
    monkeypatch.setattr("rtsim.pilot.viewer.frames.stopwatch", lambda: now[0])
    monkeypatch.setattr("rtsim.pilot.viewer.frames.draw_help", lambda *_: helped.append(now[0]))
    for second in (0, 30, 60):
        now[0] = 10**12 + second * NS_PER_S
        assert not viewer.display.frame()
        assert viewer.pixels().std() > 5
    viewer.publish()
    for second in (61, 68, 69, 70):
        now[0] = 10**12 + second * NS_PER_S
        assert viewer.display.frame()
    assert [(at - 10**12) // NS_PER_S for at in helped] == [0, 30, 60]


def test_orders_and_views_by_keys(viewer: Viewer, tmp_path: Path) -> None:
    viewer.publish()
    viewer.press(pygame.K_p, pygame.K_n, pygame.K_c, pygame.K_b, pygame.K_PLUS)
    assert viewer.ordered() == [
        shared.PAUSE, shared.STEP, shared.CHECKPOINT, shared.MARK, shared.RATE,
    ]  # fmt: skip
    record = viewer.cockpit.shared.reader("orders").read()
    assert record is not None
    assert record.floats[4] == 2.0
    viewer.press(pygame.K_h)  # away with the help
    before = viewer.pixels()
    viewer.press(pygame.K_v)
    assert np.abs(viewer.pixels() - before).mean() > 1.0
    viewer.press(pygame.K_F12)
    assert len(list(tmp_path.glob("rtsim-*.png"))) == 1


def test_the_keys_of_looking_and_of_the_full_screen(viewer: Viewer) -> None:
    """Looking to the left moves the picture to the right; F6 looks ahead again."""
    viewer.publish()
    viewer.press(pygame.K_h)
    ahead = viewer.pixels()
    viewer.press(pygame.K_F2, pygame.K_F2, pygame.K_F4)
    for _ in range(60):
        viewer.display.frame()
    yaw, pitch = viewer.display.look.at(0.0)
    assert (yaw, pitch) == pytest.approx((-2.0 * STEP, STEP), abs=1e-3)
    assert np.abs(viewer.pixels() - ahead).mean() > 1.0
    viewer.press(pygame.K_F6)
    for _ in range(60):
        viewer.display.frame()
    assert viewer.display.look.at(0.0) == pytest.approx((0.0, 0.0), abs=1e-3)
    for full in (True, False):
        viewer.press(pygame.K_F11)
        viewer.display.frame()
        flags = pygame.display.get_surface().get_flags()
        assert bool(flags & pygame.FULLSCREEN) == full


def test_after_esc_the_window_stays_until_the_run_has_heard_it(viewer: Viewer) -> None:
    viewer.publish()
    viewer.press(pygame.K_b)
    viewer.press(pygame.K_ESCAPE)
    assert viewer.ordered() == [shared.MARK, shared.QUIT]
    for heard, closed in ((0, False), (1, False), (2, True)):
        viewer.say(orders=heard)
        viewer.display.frame()
        assert viewer.display.closed == closed
    assert viewer.why() == QUIT


def test_a_run_that_is_over_has_heard_it(viewer: Viewer) -> None:
    viewer.press(pygame.K_ESCAPE)
    assert not viewer.display.closed
    viewer.say(ended=1)
    viewer.display.frame()
    assert viewer.why() == QUIT


def test_a_run_that_does_not_hear_esc_is_told_of(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10**12]
    monkeypatch.setattr("rtsim.pilot.viewer.frames.stopwatch", lambda: now[0])
    viewer.press(pygame.K_ESCAPE)
    for waited, closed in ((_HEARD_NS - 1, False), (1, True)):
        now[0] += waited
        viewer.display.frame()
        assert viewer.display.closed == closed
    assert viewer.why() == UNHEARD


def test_the_second_esc_waits_for_nothing(viewer: Viewer) -> None:
    viewer.press(pygame.K_ESCAPE, pygame.K_ESCAPE)
    assert viewer.display.closed
    assert viewer.ordered() == [shared.QUIT]


def test_who_watches_closes_the_window_by_esc(viewer: Viewer) -> None:
    viewer.display._telling.leave()
    assert Telling(viewer.shared).stick(viewer.stick_signals.initial(), 0, 0, lost=False)
    viewer.press(pygame.K_ESCAPE)
    assert viewer.display.closed
    assert viewer.ordered() == []
    assert viewer.why() == CLOSED


def test_a_picture_that_cannot_be_saved_is_a_note(viewer: Viewer, tmp_path: Path) -> None:
    viewer.publish()
    viewer.display.screenshots = tmp_path / "gone"
    viewer.press(pygame.K_F12)
    assert viewer.display._notes[-1][1].startswith(
        f"cannot save the picture {tmp_path / 'gone' / 'rtsim-001.png'}: "
    )
    (tmp_path / "gone").mkdir()
    viewer.press(pygame.K_F12)
    assert viewer.display._notes[-1][1].startswith("picture saved: ")


def test_a_folder_of_pictures_that_vanishes_ends_nothing(
    viewer: Viewer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pictures"
    saving = PictureSaver(folder, 0.0)
    assert saving.look(viewer.display.save) == ""
    (folder / "frame-00000.png").unlink()
    folder.rmdir()
    wrong = [saving.look(viewer.display.save) for _ in range(3)]
    saved = f"cannot save the picture {folder / 'frame-00001.png'}: "
    assert all(text.startswith(saved) for text in wrong)
    assert capfd.readouterr().err == f"{wrong[0]}\n"
    folder.mkdir()
    assert saving.look(viewer.display.save) == ""
    assert (folder / "frame-00001.png").exists()


def test_buttons_of_a_device_give_the_windows_commands(viewer: Viewer) -> None:
    """By the mapping of rtsim itself: a gamepad's start pauses, its back changes the view."""
    assert viewer.display.commands.keys() == WINDOW_COMMANDS.keys()
    assert set(KEYS.values()) | set(SHIFTED.values()) == WINDOW_COMMANDS.keys()
    pad = VirtualJoystick(6, 15, GAMEPAD)
    viewer.publish()
    viewer.display.frame()
    for button in ("start", "back", "x"):
        pad.press(GAMEPAD_BUTTONS.index(button))
        viewer.display.frame()
        pad.press(GAMEPAD_BUTTONS.index(button), down=False)
        viewer.display.frame()
    assert viewer.ordered() == [shared.PAUSE, shared.MARK]
    assert viewer.display._view == CHASE
    pad.press(GAMEPAD_BUTTONS.index("dpdown"))
    viewer.display.frame()
    assert viewer.cockpit.stick is not None
    values = viewer.cockpit.stick.poll()
    assert values is not None
    assert values[0] == pytest.approx(0.01)  # nose up, and recorded as the stick is
    assert "trim of pitch: +0.01" in viewer.display.present_notes()
    pad.unplug()


def test_no_mapping_may_take_a_key_of_the_window() -> None:
    kept = {pygame.key.name(key) for key in KEYS}
    assert kept == OF_THE_WINDOW


def test_closing_the_window_is_no_order_and_leaves_the_stick(viewer: Viewer) -> None:
    viewer.publish()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    viewer.display.frame()
    assert (viewer.display.closed, viewer.display.quit) == (True, False)
    viewer.display.close()
    assert viewer.ordered() == []
    record = viewer.cockpit.shared.reader("stick").read()
    assert record is not None
    assert record.integers[-1] == NOBODY


def test_back_and_to_the_beginning_by_keys(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer.publish()
    viewer.press(pygame.K_r, pygame.K_BACKSPACE)
    monkeypatch.setattr(pygame.key, "get_mods", lambda: pygame.KMOD_LSHIFT)
    viewer.press(pygame.K_BACKSPACE, pygame.K_x)
    assert viewer.ordered() == [shared.RESET, shared.REWIND, shared.REWIND, shared.RETURN]
    record = viewer.cockpit.shared.reader("orders").read()
    assert record is not None
    assert record.floats[1:3].tolist() == [BACK_S, FAR_BACK_S]


def test_a_second_window_says_that_it_watches_and_why_an_order_was_refused(viewer: Viewer) -> None:
    seen: list[str] = []
    viewer.publish()
    other = Telling(viewer.shared)
    values = viewer.stick_signals.initial()
    viewer.display._telling.leave()
    assert other.stick(values, 0, 0, lost=False)
    viewer.press(pygame.K_p)
    seen += [text for _, text in viewer.display._notes]
    assert seen[-1].endswith("another window has control of the stick; this window only watches")
    assert viewer.ordered() == []
    other.leave()
    viewer.press(pygame.K_p)
    viewer.cockpit.inbox._answer(shared.PAUSE, "it runs freely", -1)
    viewer.display.frame()
    assert viewer.ordered() == [shared.PAUSE]
    assert viewer.display._notes[-1][1] == "refused: it runs freely"


def test_pages_are_turned_by_keys(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[int] = []
    monkeypatch.setattr(viewer.display._scene, "draw", lambda _, moment: pages.append(moment.page))
    viewer.publish()
    for keys in ((pygame.K_PAGEDOWN, pygame.K_PAGEDOWN), (pygame.K_PAGEUP,)):
        viewer.press(*keys)
    assert pages == [2, 1]


def test_a_picture_is_counted_once_for_each_input_that_it_shows(viewer: Viewer) -> None:
    viewer.publish(applied=7)  # of a viewer before this one
    viewer.display.frame()
    assert viewer.picture.latency.count == 0
    viewer.publish(k=1, applied=8)
    viewer.display.frame()
    viewer.display.frame()
    assert viewer.picture.latency.count == 1
    viewer.publish(k=2, applied=9)
    viewer.display.frame()
    assert viewer.picture.latency.count == 2


def test_it_says_how_it_does(viewer: Viewer) -> None:
    viewer.publish()
    for _ in range(61):
        viewer.display.frame()
    record = viewer.cockpit.shared.reader("viewer").read()
    assert record is not None
    told = dict(zip(VIEWER, record.integers.tolist(), strict=True))
    assert told["frames"] == 60
    assert told["interval_p99"] == pytest.approx(16_666_667, rel=0.01)
    assert viewer.cockpit.latencies()["frames"] == 60


def test_a_viewer_that_is_opened_again_goes_on_with_the_orders(viewer: Viewer) -> None:
    viewer.publish()
    viewer.press(pygame.K_b)
    viewer.display.close()
    assert Telling(viewer.shared).order(shared.QUIT)
    assert viewer.ordered() == [shared.MARK, shared.QUIT]


def installed(*names: str) -> object:
    def distribution(name: str) -> str:
        if name not in names:
            raise PackageNotFoundError(name)
        return name

    return distribution


def test_two_that_are_installed_over_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "distribution", installed("pygame", "pygame-ce"))
    with pytest.raises(NoWindow, match="pip uninstall -y pygame pygame-ce"):
        check_one_pygame()
    for one in ("pygame", "pygame-ce"):
        monkeypatch.setattr(window, "distribution", installed(one))
        check_one_pygame()


def test_without_pygame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.raises(NoWindow, match=r"pip install 'rtsim\[pilot\]'"):
        open_window("title", hidden=True)


@pytest.mark.skipif(sys.platform != "linux", reason="there is always a display")
def test_without_a_display(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoWindow, match=r"neither DISPLAY nor WAYLAND_DISPLAY is set.*--headless"):
        open_window("title", hidden=False)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("there", [False, True])
def test_what_libraries_say_does_not_stand_before_a_refusal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], there: bool
) -> None:
    def init() -> None:
        os.write(2, b"error: XDG_RUNTIME_DIR is invalid or not set in the environment.\n")
        if not there:
            raise pygame.error("No available video device")

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    monkeypatch.setattr(pygame.display, "init", init)
    if there:
        open_window("title", hidden=True, size=(64, 48))
    else:
        with pytest.raises(NoWindow, match="No available video device"):
            open_window("title", hidden=True)
    assert ("XDG_RUNTIME_DIR" in capfd.readouterr().err) == there
    os.write(2, b"as before\n")
    assert capfd.readouterr().err == "as before\n"
    pygame.display.quit()


def test_a_driver_without_a_screen_is_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """SDL takes it without a word, and a person would look at nothing."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.raises(NoWindow, match="only its driver 'dummy'"):
        open_window("title", hidden=False)
    assert open_window("title", hidden=True, size=(64, 48)).get_size() == (64, 48)
    pygame.display.quit()
