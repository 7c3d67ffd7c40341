"""A window, or what is missing for one."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError

import pygame
import pytest

from rtsim.pilot.viewer import window
from rtsim.pilot.viewer.window import NoWindow, check_one_pygame, open_window


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
