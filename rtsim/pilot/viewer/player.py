"""Play a recording in a window, forwards or backwards and at any rate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pygame

from rtsim.core.clock import Clock, WallClock
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.cues import Cues
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.playback import LEAST_RATE, MOST_RATE, Playback
from rtsim.pilot.processes import Window
from rtsim.pilot.scenes.scene import Scene, scene_named
from rtsim.pilot.scenes.text import draw_cues
from rtsim.pilot.viewer import overlay
from rtsim.pilot.viewer.overlay import Keys, SceneWindow, SeekBar, draw_help, draw_notes
from rtsim.pilot.viewer.process import PictureSaver
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
"""Time span of a trace at rate 1, ns. The span is proportional to the rate."""


class Player(SceneWindow):
    """Plays a recording; call :meth:`frame` for each frame. A negative ``rate`` plays backwards."""

    keys = overlay.KEYS | {
        pygame.K_r: "reverse", pygame.K_HOME: "start", pygame.K_END: "end",
    }  # fmt: skip

    def __init__(
        self,
        surface: pygame.Surface,
        scene: Scene,
        playback: Playback,
        frames: VideoFrames,
        rate: float = 1.0,
        within: tuple[int, int] | None = None,
    ) -> None:
        """Create a player for the time range ``within``: first and last simulated time, ns."""
        super().__init__(surface, scene, lambda: self._due or 0)
        self.playing = True
        self.rate = rate
        self._playback = playback
        self._frames = frames
        self._cues = Cues(playback.cues)
        self._first, self._end = within or (playback.first_ns, playback.end_ns)
        self._bar = SeekBar(self._first, self._end)
        self._at = float(self._first if rate >= 0 else self._end)
        self._due: int | None = None
        self._dragging = False
        self.commands |= {
            "pause": self._toggle, "faster": lambda: self._faster(2.0),
            "slower": lambda: self._faster(0.5), "real_time": self._real_time,
            "reverse": self._turn_round, "start": lambda: self.seek(self._first),
            "end": lambda: self.seek(self._end), "quit": self._close,
        }  # fmt: skip

    @property
    def ns(self) -> int:
        """Simulated time of the present picture, ns."""
        return round(self._at)

    @property
    def done(self) -> bool:
        return self.ns == (self._end if self.rate > 0 else self._first)

    def seek(self, ns: float) -> None:
        self._at = min(max(float(ns), self._first), self._end)

    def frame(self) -> None:
        """Wait for the next frame and draw it. The time shown follows the frames' deadlines."""
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
        self.note_remark()
        draw_cues(self._surface, warned, self.ns)
        self._bar.draw(self._surface, self.ns, self._status_text())
        if self._help:
            draw_help(self._surface, {}, KEYS)
        if notes := self.present_notes():
            draw_notes(self._surface, notes)
        pygame.display.flip()

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
        if event.type == pygame.KEYDOWN and event.key in (pygame.K_LEFT, pygame.K_RIGHT):
            way = 1 if event.key == pygame.K_RIGHT else -1
            self.seek(self._at + way * self._stride(getattr(event, "mod", 0)))
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
            self._dragging = self._bar.holds(size, event.pos)
            if self._dragging:
                self.seek(self._bar.ns(size, event.pos[0]))
        elif event.type == pygame.MOUSEMOTION and self._dragging:
            self.seek(self._bar.ns(size, event.pos[0]))
        elif event.type == pygame.MOUSEBUTTONUP:
            self._dragging = False
        else:
            self.handle(event)

    def _stride(self, mod: int) -> float:
        if mod & pygame.KMOD_CTRL:
            return float(self._frames.period.ns) * abs(self.rate)
        return float(NS_PER_S if mod & pygame.KMOD_SHIFT else 5 * NS_PER_S)

    def _toggle(self) -> None:
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
    """Play until the end, or until the user closes the window; return the number of frames."""
    idle = WallClock(spin_ns=0) if clock is None else None
    frames = VideoFrames(window.rate, clock or WallClock(), idle)
    about = playback.about
    scene = scene_named(str(about.get("scene", "")), about)
    player = Player(surface, scene, playback, frames, rate, within)
    saving = PictureSaver(window.frames, window.every)
    drawn = 0
    with request(SchedulingRequest.beside()):  # without garbage collection, with exact timers
        while not player.closed:
            player.frame()
            drawn += 1
            saving.look(player.save)
            if window.headless and player.done:
                break
    return drawn
