"""Plays a recording in a window: forwards or backwards, at any rate, from any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pygame

from rtsim.core.clock import Clock, WallClock
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.cues import Cues
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.playback import LEAST_RATE, MOST_RATE, Playback
from rtsim.pilot.processes import Window
from rtsim.pilot.scenes.scene import Scene, scene_named, views_of
from rtsim.pilot.scenes.text import draw_cues
from rtsim.pilot.viewer.overlay import Keys, Look, SeekBar, draw_help, draw_notes, look_keys
from rtsim.pilot.viewer.process import PictureSaver
from rtsim.pilot.viewer.window import toggled_full_screen
from rtsim.timing.scheduling import SchedulingRequest, request

KEYS: Keys = (
    ("F1, H", "this help"),
    ("space, P", "play, pause"),
    ("left, right", "5 s back or forward; shift: 1 s, ctrl: one frame"),
    ("+, -, 1", "rate: double, half, real time"),
    ("R", "reverse the direction"),
    ("Home, End", "to the start, to the end"),
    ("mouse", "click or drag on the bar to go to a time"),
    ("V", "next view: cockpit, chase, signals"),
    ("F2 to F6", "look left, right, up, down, ahead"),
    ("Page Up, Page Down", "more strips, or the next body"),
    ("F11", "full screen"),
    ("F12", "save a picture of the window"),
    ("Esc", "close"),
)
_SPAN_NS = 10 * NS_PER_S
"""Time span of a trace at rate 1, ns; the span is proportional to the rate."""
_NOTE_NS = 4 * NS_PER_S


class Player:
    """Plays a recording; call :meth:`frame` for each frame.  ``rate`` < 0 plays backwards."""

    def __init__(
        self,
        surface: pygame.Surface,
        scene: Scene,
        playback: Playback,
        frames: VideoFrames,
        rate: float = 1.0,
        within: tuple[int, int] | None = None,
    ) -> None:
        """Play the time range ``within``: first and last simulated time, ns."""
        self.closed = False
        self.playing = True
        self.screenshots = Path()
        self.rate = rate
        self._surface, self._scene, self._playback = surface, scene, playback
        self._frames = frames
        self._cues = Cues(playback.cues)
        self._first, self._end = within or (playback.first_ns, playback.end_ns)
        self._bar = SeekBar(self._first, self._end)
        self._at = float(self._first if rate >= 0 else self._end)
        self._due: int | None = None
        self._dragging = self._help = False
        self._views = views_of(scene)
        self._view, self._page = self._views[0], 0
        self.look = Look()
        self._size = surface.get_size()
        self._note, self._noted = "", 0
        """The last note, and the time until which it is shown."""
        self._keys: dict[int, Callable[[], None]] = {
            pygame.K_F1: self._toggle_help, pygame.K_h: self._toggle_help,
            pygame.K_SPACE: self._toggle, pygame.K_p: self._toggle,
            pygame.K_PLUS: lambda: self._faster(2.0), pygame.K_EQUALS: lambda: self._faster(2.0),
            pygame.K_KP_PLUS: lambda: self._faster(2.0), pygame.K_MINUS: lambda: self._faster(0.5),
            pygame.K_KP_MINUS: lambda: self._faster(0.5), pygame.K_1: self._real_time,
            pygame.K_r: self._turn_round, pygame.K_HOME: lambda: self.seek(self._first),
            pygame.K_END: lambda: self.seek(self._end), pygame.K_v: self._next_view,
            pygame.K_PAGEDOWN: lambda: self._turn(1), pygame.K_PAGEUP: lambda: self._turn(-1),
            pygame.K_F12: self._screenshot, pygame.K_ESCAPE: self._close,
            pygame.K_F11: self._full_screen, **look_keys(self.look),
        }  # fmt: skip

    @property
    def ns(self) -> int:
        """The simulated time of the present picture, ns."""
        return round(self._at)

    @property
    def done(self) -> bool:
        """True if the playback has reached the end in its direction."""
        return self.ns == (self._end if self.rate > 0 else self._first)

    def seek(self, ns: float) -> None:
        self._at = min(max(float(ns), self._first), self._end)

    def frame(self) -> None:
        """Wait for the next frame and draw it; the deadlines of frames advance the time shown."""
        due = self._frames.wait(self._look)
        passed = 0 if self._due is None else due - self._due
        self._due = due
        if self.playing and not self._dragging:
            self.seek(self._at + self.rate * passed)
        span = round(_SPAN_NS * max(LEAST_RATE, abs(self.rate)))
        look = self.look.at(passed / NS_PER_S)
        moment = self._playback.at(self.ns, span).seen(self._view, self._page, look)
        warned = self._cues.look(moment.plants)
        self._scene.draw(self._surface, replace(moment, warned=warned))
        draw_cues(self._surface, warned, self.ns)
        self._bar.draw(self._surface, self.ns, self._status_text())
        if self._help:
            draw_help(self._surface, {}, KEYS)
        if due < self._noted:
            draw_notes(self._surface, [self._note])
        pygame.display.flip()

    def save(self, path: Path) -> None:
        pygame.image.save(self._surface, str(path))

    def _status_text(self) -> str:
        state = "" if self.playing else ", PAUSED"
        if self.playing and self.done:
            state = ", at the end" if self.rate > 0 else ", at the start"
        return (
            f"{self.ns / NS_PER_S:.2f} of {self._end / NS_PER_S:.2f} s, "
            f"rate x{self.rate:g}{state}    space, arrows, +, -, Home, End; F1: keys"
        )

    # -- keys and events

    def _look(self) -> None:
        for event in pygame.event.get():
            self._take(event)

    def _take(self, event: Any) -> None:
        size = self._surface.get_size()
        if event.type == pygame.KEYDOWN:
            if event.key in (pygame.K_LEFT, pygame.K_RIGHT):
                way = 1 if event.key == pygame.K_RIGHT else -1
                self.seek(self._at + way * self._stride(getattr(event, "mod", 0)))
            elif event.key in self._keys:
                self._keys[event.key]()
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
            self._dragging = self._bar.holds(size, event.pos)
            if self._dragging:
                self.seek(self._bar.ns(size, event.pos[0]))
        elif event.type == pygame.MOUSEMOTION and self._dragging:
            self.seek(self._bar.ns(size, event.pos[0]))
        elif event.type == pygame.MOUSEBUTTONUP:
            self._dragging = False
        elif event.type == pygame.QUIT:
            self._close()
        elif event.type == pygame.VIDEORESIZE:
            self._surface = pygame.display.get_surface() or self._surface

    def _stride(self, mod: int) -> float:
        """Return the simulated time that an arrow key skips, ns; ``mod`` are the modifier keys."""
        if mod & pygame.KMOD_CTRL:
            return float(self._frames.period.ns) * abs(self.rate)
        return float(NS_PER_S if mod & pygame.KMOD_SHIFT else 5 * NS_PER_S)

    def _toggle(self) -> None:
        """Play or pause; at the end, play again from the start."""
        self.playing = not self.playing or self.done
        if self.playing and self.done:
            self.seek(self._first if self.rate > 0 else self._end)

    def _faster(self, factor: float) -> None:
        way = 1.0 if self.rate > 0 else -1.0
        self.rate = way * min(MOST_RATE, max(LEAST_RATE, abs(self.rate) * factor))

    def _real_time(self) -> None:
        self.rate = 1.0

    def _turn_round(self) -> None:
        self.rate = -self.rate

    def _toggle_help(self) -> None:
        self._help = not self._help

    def _next_view(self) -> None:
        self._view = self._views[(self._views.index(self._view) + 1) % len(self._views)]

    def _full_screen(self) -> None:
        if not self._surface.get_flags() & pygame.FULLSCREEN:
            self._size = self._surface.get_size()
        self._surface = toggled_full_screen(self._surface, self._size)

    def _turn(self, pages: int) -> None:
        self._page += pages

    def _screenshot(self) -> None:
        number = 1
        while (path := self.screenshots / f"rtsim-{number:03d}.png").exists():
            number += 1
        try:
            self.save(path)
            self._note = f"picture saved: {path}"
        except (pygame.error, OSError) as error:
            self._note = f"cannot save the picture {path}: {error}"
        self._noted = (self._due or 0) + _NOTE_NS

    def _close(self) -> None:
        self.closed = True


def play(
    surface: pygame.Surface,
    playback: Playback,
    window: Window,
    rate: float,
    within: tuple[int, int],
    clock: Clock | None = None,
) -> int:
    """Play until the window is closed, or headless to the end; return the number of frames."""
    idle = WallClock(spin_ns=0) if clock is None else None
    frames = VideoFrames(window.rate, clock or WallClock(), idle)
    about = playback.about
    scene = scene_named(str(about.get("scene", "")), about)
    player = Player(surface, scene, playback, frames, rate, within)
    saving = PictureSaver(window.frames, window.every)
    drawn = 0
    with request(SchedulingRequest.beside()):  # no garbage collection, exact timers
        while not player.closed:
            player.frame()
            drawn += 1
            saving.look(player.save)
            if window.headless and player.done:
                break
    return drawn
