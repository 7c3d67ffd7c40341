"""Opening of the window. Error messages state what is missing and what to do."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from rtsim.core.errors import RtsimError
from rtsim.core.extras import missing

WIDTH, HEIGHT = 1280, 720
HIDDEN = "dummy"
_SCREENLESS = ("dummy", "offscreen")


class NoWindow(RtsimError):
    """The window could not be opened. The message is the reason."""


def check_one_pygame() -> None:
    """Raise an error if ``pygame`` and ``pygame-ce`` are both installed.

    Each of the two packages overwrites files of the other.
    """
    found = [name for name in ("pygame", "pygame-ce") if _installed(name)]
    if len(found) > 1:
        raise NoWindow(
            "pygame and pygame-ce are both installed and overwrite each other; type: "
            "pip uninstall -y pygame pygame-ce, then pip install 'rtsim[pilot]'"
        )


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def prepare(hidden: bool) -> None:
    """Set environment variables for SDL; call this function before SDL is loaded."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")
    # Scenes draw in memory. Without a GPU, SDL's renderer needs 4 times as long to show the result.
    os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    if hidden:
        os.environ["SDL_VIDEODRIVER"] = HIDDEN


def open_window(
    title: str,
    hidden: bool,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    full_screen: bool = False,
) -> Any:
    """Open the window and return its surface; on failure, raise :class:`NoWindow`."""
    check_one_pygame()
    prepare(hidden)
    try:
        import pygame
    except ImportError as error:
        raise NoWindow(str(missing("pygame", "pilot", "the window", error))) from error
    try:
        with _errors_held_back():
            pygame.display.init()
            driver = pygame.display.get_driver()
            if not hidden and driver in _SCREENLESS:  # SDL reports no error for these drivers
                pygame.display.quit()
                raise NoWindow(
                    _no_display(f"SDL found no display: only its driver {driver!r} is available")
                )
        full_screen = full_screen and not hidden
        flags = pygame.FULLSCREEN if full_screen else 0 if hidden else pygame.RESIZABLE
        surface = pygame.display.set_mode((0, 0) if full_screen else size, flags)
    except pygame.error as error:
        raise NoWindow(_no_display(str(error))) from error
    pygame.display.set_caption(title)
    return surface


def toggled_full_screen(surface: Any, size: tuple[int, int]) -> Any:
    """Switch the window between full screen and ``size``, and return its surface.

    If SDL refuses the change, the result is ``surface``.
    """
    import pygame

    full = bool(surface.get_flags() & pygame.FULLSCREEN)
    try:
        if full:
            pygame.display.set_mode(size)  # on X11, a single call keeps the size of the screen
            return pygame.display.set_mode(size, pygame.RESIZABLE)
        return pygame.display.set_mode((0, 0), pygame.FULLSCREEN)
    except pygame.error:
        return surface


@contextmanager
def _errors_held_back() -> Iterator[None]:
    try:
        before = os.dup(2)
    except OSError:  # the process has no standard error
        yield
        return
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
        kept.seek(0)
        sys.stderr.write(kept.read().decode(errors="replace"))


def close_window() -> None:
    import pygame

    pygame.display.quit()


def _no_display(why: str) -> str:
    hint = ""
    if sys.platform.startswith("linux"):
        missing = not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
        hint = "; neither DISPLAY nor WAYLAND_DISPLAY is set" if missing else ""
    return (
        f"the window cannot be opened, because there is no display: {why}{hint}. Run the command "
        "on a desktop, or add --headless --frames DIR to save pictures instead"
    )
