"""The viewer process: ``python -m rtsim.pilot.viewer.process FILE``.

FILE is the memory that a run shares with its viewers. The process prints ``ready``, or one line
with an error. The process ends when its standard input closes.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rtsim.core.clock import WallClock, stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.devices.calibration import own_mapping
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.mapping import DeviceMapping, read_mapping
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.processes import READY, Window, input_closed
from rtsim.pilot.shared import Exchange, Schema, Shared, SharedError
from rtsim.pilot.viewer.state import Picture, RunState, Telling
from rtsim.pilot.viewer.window import close_window, open_window
from rtsim.pilot.views import read_viewpoint
from rtsim.scenario.shown import Cue, Sound
from rtsim.timing.scheduling import SchedulingRequest, request

if TYPE_CHECKING:
    from rtsim.pilot.viewer.frames import Display

CLOSED = "the window is closed, and the run continues; rtsim view opens another window"
QUIT = "the run was ended from the window"
UNHEARD = (
    "the run has not confirmed the order to end; if it continues, press Ctrl-C in its terminal"
)
ENDED = "the run has ended"
_LAST_WORDS = {CLOSED: f"{CLOSED}; Ctrl-C ends the run", UNHEARD: UNHEARD}
"""Last lines of a viewer on the run's machine, if the run does not report its end itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the window until its end; return the exit status."""
    with request(SchedulingRequest.window()):  # before SDL starts its threads
        return _show(*_arguments(arguments))


def _show(path: Path, window: Window) -> int:
    over = input_closed()
    try:
        shared = Shared.open(path)
        why = watch(shared, window, over, lambda: _say(READY))
        if over.is_set():  # a killed simulation has not removed the file
            shared.remove()
    except RtsimError as error:
        _say(error)
        return 2
    if why in _LAST_WORDS:
        print(f"\n{_LAST_WORDS[why]}", file=sys.stderr, flush=True)
    return 0


def _say(what: object) -> None:
    with suppress(BrokenPipeError):
        print(what, flush=True)


def watch(
    exchange: Exchange,
    window: Window,
    over: threading.Event,
    ready: Callable[[], object] = lambda: None,
) -> str:
    """Open a window and draw frames; return why the window was closed.

    The window closes when ``over`` is set or the run ends. ``ready`` is called when the window is
    open. Raises ``RtsimError`` if the window cannot be opened or the mapping is invalid.
    """
    mapping = _mapping(window.mapping, exchange.schema)
    width, height = map(int, window.size.split("x"))
    title = f"rtsim: {exchange.schema.about.get('scenario', '')} {window.view}".rstrip()
    surface = open_window(title, window.headless, (width, height), window.full_screen)
    said, saving = RunState(exchange), PictureSaver(window.frames, window.every)
    try:
        display = _display(exchange, window, mapping, surface, said)
        display.note_remark()
        ready()
        try:
            # without garbage collection, with exact timers
            with request(SchedulingRequest.beside()):
                while not (over.is_set() or display.closed or said["ended"] or exchange.over):
                    if display.frame():
                        display.note(saving.look(display.save))
        finally:
            display.close()
    finally:
        close_window()
    said.look()
    return _end_reason(display, over.is_set() or bool(said["ended"]), exchange.over)


def _display(
    exchange: Exchange, window: Window, mapping: DeviceMapping, surface: object, said: RunState
) -> Display:
    import pygame

    from rtsim.pilot.scenes.scene import scene_named
    from rtsim.pilot.viewer.cueing import Cueing, Sounding
    from rtsim.pilot.viewer.frames import Display

    assert isinstance(surface, pygame.Surface)
    about = exchange.schema.about
    try:
        cues = [Cue.from_plain(plain) for plain in about.get("cues", ())]
        heard = [Sound.from_plain(plain) for plain in about.get("sounds", ())]
        scene = scene_named(str(about.get("scene", "")), about)
    except (TypeError, ValueError, AttributeError, ScenarioError) as error:
        raise SharedError(f"the scene of the run cannot be created: {error}") from error
    clock = WallClock()
    frames = VideoFrames(window.rate, clock, WallClock(spin_ns=0))
    sounds = not (window.quiet or window.headless)  # a hidden window needs no sound
    return Display(
        surface, scene, Picture(exchange), said, Telling(exchange),
        Controls(mapping, exchange.schema.stick), frames, clock,
        Cueing(
            cues, shakes=not window.quiet, sounds=sounds,
            sounding=Sounding(heard if sounds else ()),
        ),
        read_viewpoint(window.view), window.without_stick,
    )  # fmt: skip


def _end_reason(display: Display, ended: bool, over: str) -> str:
    if display.heard:
        return QUIT
    if ended or over:
        return over or ENDED
    return UNHEARD if display.quit else CLOSED


class PictureSaver:
    """Save numbered pictures into a folder, one every ``every`` s."""

    def __init__(self, folder: Path | None, every: float) -> None:
        self._folder, self._every = folder, round(every * NS_PER_S)
        self._next, self._number = stopwatch(), 0
        self._reported = False
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def look(self, save: Callable[[Path], object]) -> str:
        """Save a picture if one is due. Return the reason if saving fails, else "".

        The first failure is also printed, because a hidden window cannot show it.
        """
        now = stopwatch()
        if self._folder is None or now < self._next:
            return ""
        self._next = now + self._every
        path = self._folder / f"frame-{self._number:05d}.png"
        try:
            save(path)
        except (RuntimeError, OSError) as error:  # pygame.error is a RuntimeError
            wrong = f"cannot save the picture {path}: {error}"
            if not self._reported:
                print(wrong, file=sys.stderr, flush=True)
            self._reported = True
            return wrong
        self._number += 1
        return ""


def _mapping(path: Path | None, schema: Schema) -> DeviceMapping:
    return own_mapping(schema.stick) if path is None else read_mapping(path, schema.stick)


def _arguments(arguments: Sequence[str] | None) -> tuple[Path, Window]:
    parser = argparse.ArgumentParser(prog="rtsim.pilot.viewer")
    parser.add_argument("shared", type=Path)
    parser.add_argument("--mapping", type=Path)
    parser.add_argument("--rate", type=float, default=60.0)
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--without-stick", action="store_true")
    parser.add_argument("--full-screen", action="store_true")
    parser.add_argument("--view", default="")
    parser.add_argument("--frames", type=Path)
    parser.add_argument("--every", type=float, default=1.0)
    given = vars(parser.parse_args(arguments))
    return given.pop("shared"), Window(**given)


if __name__ == "__main__":
    sys.exit(main())
