"""The window of a run: poll devices until a frame is due, then draw the state."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import pygame

from rtsim.core.clock import Clock, stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.pilot import shared
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.sdl import Devices
from rtsim.pilot.pacing import Durations, VideoFrames
from rtsim.pilot.scenes.scene import Scene, SceneMoment, Shown, Warned
from rtsim.pilot.scenes.text import draw_cues
from rtsim.pilot.viewer.cueing import Cueing
from rtsim.pilot.viewer.overlay import SceneWindow, draw_help, draw_notes, draw_strip
from rtsim.pilot.viewer.state import Picture, RunState, Telling
from rtsim.pilot.views import Viewpoint

_FIGURES = 30
_LEAD_SHARE = 0.02
_HEARD_NS = 5 * NS_PER_S
"""After Esc, the window waits at most this time for the run to read the order, ns."""
DARK = (18, 26, 38)
_WAITING = "waiting for the simulation: a model is compiled before its first run"
BACK_S, FAR_BACK_S = 5.0, 30.0
WATCHES = "another window has control of the stick; this window only watches"


class Display(SceneWindow):
    """The window of a run, which draws states and sends stick positions and commands."""

    def __init__(
        self,
        surface: pygame.Surface,
        scene: Scene,
        picture: Picture,
        said: RunState,
        telling: Telling,
        controls: Controls,
        frames: VideoFrames,
        clock: Clock,
        cueing: Cueing | None = None,
        viewpoint: Viewpoint | None = None,
        without_stick: bool = False,
    ) -> None:
        """Create the content of a window; an additional window has ``without_stick=True``."""
        super().__init__(surface, scene, lambda: stopwatch(), viewpoint)
        self.quit = False
        """True if this window ended the run. The window then stays open until :attr:`heard`."""
        self._quit_order = self._quit_until = 0
        self.drawing = Durations()
        self._picture, self._said, self._telling = picture, said, telling
        self._controls, self._frames = controls, frames
        self._offset = getattr(clock, "offset_ns", 0)
        self._devices = Devices(self.handle)
        self._cueing = cueing or Cueing(())
        self._waits = True
        """True before the first state, while the help can fill the picture."""
        self._lead = 0.0
        """Filtered mean time from the deadline of a frame to the end of its drawing, ns."""
        self._without_stick, self._drawn_ns = without_stick, 0
        self._done: deque[int] = deque(maxlen=60)
        self.commands |= {
            "mouse": self._mouse, "pause": self._pause,
            "step": lambda: self._tell(shared.STEP, "single step"),
            "faster": lambda: self._rate(2.0), "slower": lambda: self._rate(0.5),
            "real_time": lambda: self._rate(0.0), "mark": lambda: self._tell(shared.MARK, "mark"),
            "checkpoint": lambda: self._tell(shared.CHECKPOINT, "checkpoint"),
            "return": lambda: self._tell(shared.RETURN, "back to the checkpoint"),
            "rewind": lambda: self._rewind(BACK_S), "rewind_far": lambda: self._rewind(FAR_BACK_S),
            "reset": lambda: self._tell(shared.RESET, "reset to the beginning"),
            "quit": self._quit,
        }  # fmt: skip

    # -- a frame

    def frame(self) -> bool:
        """Wait for the next frame and draw it; return False without a state."""
        due = self._frames.wait(self._poll) - self._offset
        self._said.look()
        self._picture.look()
        if self.quit and (self.heard or stopwatch() >= self._quit_until):
            self.closed = True
        if not self._picture.complete:
            self._wait()
            return False
        self._waits = False
        standing = bool(self._said["standing"] or self._said["ended"])
        ahead = 0 if standing else int(self._frames.period.ns)
        plants = self._picture.at(due + round(self._lead), ahead)
        stick = dict(zip(self._controls.signals.names, self._controls.values, strict=True))
        warned = self._warn(plants, standing)
        look = self.look.at((due - self._drawn_ns) / NS_PER_S)
        self._drawn_ns = due
        moment = SceneMoment(plants, self._view, stick, page=self._page, warned=warned, look=look)
        self._scene.draw(self._surface, moment)
        self.note_remark()
        draw_cues(self._surface, warned, max((p.ns for p in plants.values()), default=0))
        self._overlay()
        pygame.display.flip()
        now = stopwatch()
        self._picture.drawn(now)
        self._follow(now, due)
        return True

    def _wait(self) -> None:
        self._surface.fill(DARK)
        if self._help_shown():
            draw_help(self._surface, self._controls.movers)
        draw_notes(self._surface, [_WAITING, *self.present_notes()])
        pygame.display.flip()

    def close(self) -> None:
        self._cueing.close(self._devices.rumble)
        self._tell_figures()
        self._telling.leave()
        self._devices.close()

    def _warn(self, plants: Mapping[str, Shown], standing: bool) -> tuple[Warned, ...]:
        self._note_all(self._cueing.news)
        flying = self._controls.flying
        return self._cueing.follow(plants, standing, self._devices.rumble, flying, stopwatch())

    def _poll(self) -> None:
        now = stopwatch()
        look = self._devices.look()
        values = self._controls.update(look, now)
        initiated = self._devices.since_ns
        self._telling.stick(values, initiated, stopwatch(), bool(self._controls.lost))
        self._telling.exchange()
        self._note_all(self._devices.news)
        self._note_all(self._controls.news)
        for name in self._controls.orders:
            self.commands[name]()
        self._controls.orders.clear()

    def _overlay(self) -> None:
        notes = self.present_notes()
        refusal = self._said.refusal()
        if refusal:
            self.note(f"refused: {refusal}")
        fps = 0.0
        if len(self._done) > 1:
            fps = (len(self._done) - 1) * NS_PER_S / max(1, self._done[-1] - self._done[0])
        draw_strip(self._surface, self._said.integers, self._said.rate, fps, self._frames.dropped)
        if self._help_shown():
            draw_help(self._surface, self._controls.movers)
        watches = [] if self._telling.flies or self._without_stick else [WATCHES]
        controls = self._controls
        asked = controls.asked if self._telling.flies else []
        draw_notes(self._surface, [*watches, *controls.lost, *asked, *notes])

    def _follow(self, now: int, due: int) -> None:
        self._done.append(now)
        took = now - due
        self.drawing.add(took)
        period = int(self._frames.period.ns)
        self._lead += _LEAD_SHARE * (min(took, period) - self._lead)
        if self._frames.number % _FIGURES == 0:
            self._tell_figures()

    def _tell_figures(self) -> None:
        picture = self._picture
        figures = {
            "frames": self._frames.number,
            "dropped": self._frames.dropped,
            "interval_p99": self._frames.intervals.quantile(0.99),
            "pictures": picture.latency.count,
        }
        spreads = {"picture": picture.latency, "interpolation": picture.interpolation}
        for name, spread in spreads.items():
            figures |= {
                f"{name}_median": spread.quantile(0.5),
                f"{name}_p95": spread.quantile(0.95),
                f"{name}_max": spread.greatest,
            }
        self._telling.figures(figures)

    # -- keys and events

    def _note_all(self, news: list[str]) -> None:
        for text in news:
            self.note(text)
        news.clear()

    def _tell(self, kind: int, text: str, value: float = 0.0) -> bool:
        given = self._telling.order(kind, value)
        self.note(text if given else f"{text} is not possible: {WATCHES}")
        return given

    def _toggle_help(self) -> None:
        self._help = not self._help_shown()
        self._waits = False

    def _help_shown(self) -> bool:
        flies = bool(self._controls.movers) and self._telling.flies
        return self._help or (flies and self._waits)

    def _mouse(self) -> None:
        self._devices.mouse_flies = not self._devices.mouse_flies
        flies = self._devices.mouse_flies
        self.note("the mouse moves the stick" if flies else "the mouse does not move the stick")

    def _pause(self) -> None:
        standing = self._said["standing"]
        self._tell(shared.RESUME if standing else shared.PAUSE, "resume" if standing else "pause")

    def _rate(self, factor: float) -> None:
        rate = 1.0 if factor == 0.0 else (self._said.rate or 1.0) * factor
        self._tell(shared.RATE, f"rate x{rate:g}", rate)

    def _rewind(self, back: float) -> None:
        self._tell(shared.REWIND, f"{back:g} s back", back)

    def _quit(self) -> None:
        if self.quit or not self._telling.order(shared.QUIT):
            self.closed = True
            return
        self.quit = True
        self._quit_order, self._quit_until = self._telling.ordered, stopwatch() + _HEARD_NS
        self.note("ending the run")

    @property
    def heard(self) -> bool:
        """True if the run has received the quit command or has ended."""
        return self.quit and bool(self._said["orders"] >= self._quit_order or self._said["ended"])
