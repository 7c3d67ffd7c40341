"""The window: opened once, or refused with what is missing and what to type."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from rtsim.core.errors import RtsimError

WIDTH, HEIGHT = 1280, 720
HIDDEN = "dummy"
_SCREENLESS = ("dummy", "offscreen")


class NoWindow(RtsimError):
    """Nothing can be shown here."""


def check_one_pygame() -> None:
    """``pygame`` and ``pygame-ce`` are installed over one another, and then neither is whole."""
    found = [name for name in ("pygame", "pygame-ce") if _installed(name)]
    if len(found) > 1:
        raise NoWindow(
            "pygame and pygame-ce are both installed, over one another; keep one: "
            "pip uninstall -y pygame pygame-ce, then pip install 'rtsim[pilot]'"
        )


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def prepare(hidden: bool) -> None:
    """What SDL reads from the environment, before it is loaded."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")
    # The scenes draw in memory.  Through a renderer without a GPU it takes 4 times as long to show.
    os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    if hidden:
        os.environ["SDL_VIDEODRIVER"] = HIDDEN


def open_window(title: str, hidden: bool, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Any:
    """The display's surface.  Raises :class:`NoWindow`."""
    check_one_pygame()
    prepare(hidden)
    try:
        import pygame
    except ImportError as error:
        raise NoWindow(
            f"no window without pygame ({error}); type: pip install 'rtsim[pilot]'"
        ) from error
    try:
        with _spoken_for():
            pygame.display.init()
            driver = pygame.display.get_driver()
            if not hidden and driver in _SCREENLESS:  # SDL takes these without a word
                pygame.display.quit()
                raise NoWindow(_no_display(f"SDL found only its {driver!r} driver"))
        flags = 0 if hidden else pygame.RESIZABLE
        surface = pygame.display.set_mode(size, flags)
    except pygame.error as error:
        raise NoWindow(_no_display(str(error))) from error
    pygame.display.set_caption(title)
    return surface


@contextmanager
def _spoken_for() -> Iterator[None]:
    """What libraries write to the error output is passed on, but not where this fails.

    The refusal says it better; Wayland's would stand before it, and names a variable that is of no
    use to whoever has no display.
    """
    try:
        before = os.dup(2)
    except OSError:  # there is none
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
    """What :func:`open_window` opened."""
    import pygame

    pygame.display.quit()


def _no_display(why: str) -> str:
    hint = ""
    if sys.platform.startswith("linux"):
        missing = not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
        hint = "; neither DISPLAY nor WAYLAND_DISPLAY is set" if missing else ""
    return (
        f"no display for a window: {why}{hint}. Type it at a desktop, or do without one: add "
        "--headless --frames DIR"
    )
