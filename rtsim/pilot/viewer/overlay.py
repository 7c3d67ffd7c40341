"""Status line, notes, help and seek bar over a scene, and the viewing direction."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from textwrap import wrap
from typing import Any

import pygame

from rtsim.core.tag import NS_PER_S
from rtsim.pilot.devices.controls import Moved
from rtsim.pilot.scenes.scene import Scene, views_of
from rtsim.pilot.scenes.text import Colour, shade, write
from rtsim.pilot.viewer.window import toggled_full_screen
from rtsim.pilot.views import Viewpoint

INK: Colour = (226, 232, 238)
WARN: Colour = (255, 190, 60)
_BACK = (12, 16, 22, 205)
_SIZE = 20
_WIDE, _LINE = 30, 1.25
"""Least width of a column of the help, and distance of its lines, in letter sizes."""
_KEY_WIDE, _LETTER_WIDE = 11, 0.42
"""Width of the keys with their margins, and width of a letter of the texts, in letter sizes."""
_SMALLEST = 5
_NOTE_WIDTH = 80
_HANDS = ("", "keyboard", "mouse")

Keys = tuple[tuple[str, str], ...]
WINDOW_KEYS: Keys = (
    ("F1, H", "this help"),
    ("V", "next view: cockpit, chase, signals"),
    ("F2 to F6", "look left, right, up, down, ahead"),
    ("Page Up, Page Down", "more strips, or the next body"),
    ("P, space", "pause, resume"),
    ("N", "single step while paused"),
    ("R", "reset to the beginning"),
    ("Backspace", "5 s back; shift: 30 s"),
    ("+, -, 1", "rate: double, half, real time"),
    ("C, X", "save a checkpoint, go back to it"),
    ("B", "set a mark in the recording"),
    ("F11, F12", "full screen; save a picture of the window"),
    ("Esc", "end the run; closing the window does not"),
)


def draw_strip(
    surface: pygame.Surface, run: Mapping[str, int], rate: float, fps: float, dropped: int
) -> None:
    """Draw the status line. A pause, overruns and a lost recording have a warning colour."""
    overruns = run.get("overruns_compute", 0) + run.get("overruns_wake", 0)
    pace = f"x{rate:g}" if run.get("paced") else "max"
    parts: list[tuple[str, Colour]] = [
        (f"{fps:4.0f} fps, {dropped} dropped", INK),
        (f"t {run.get('ns', 0) / 1e9:8.2f} s", INK),
        ("PAUSED" if run.get("standing") else f"rate {pace}", WARN if run.get("standing") else INK),
        (f"margin {run.get('margin_ns', 0) / 1e6:6.2f} ms", INK),
        (f"overruns {overruns}", WARN if overruns else INK),
    ]
    if run.get("unrecorded"):
        parts.insert(0, ("NOT RECORDED", WARN))
    if run.get("latency_max"):
        median, p95 = run["latency_median"] / 1e6, run["latency_p95"] / 1e6
        parts.append((f"stick to step {median:.1f} ms, 95 % {p95:.1f} ms", INK))
    parts.append(("F1: keys", INK))
    width, height = surface.get_size()
    shade(surface, pygame.Rect(0, height - _SIZE - 6, width, _SIZE + 6), _BACK)
    x = 10.0
    for text, colour in parts:
        x = write(surface, text, (x, height - _SIZE / 2 - 3), _SIZE, colour).right + 22.0


def draw_notes(surface: pygame.Surface, notes: Sequence[str]) -> None:
    """Draw notes above the status line, with the newest note at the bottom."""
    lines = [line for note in notes for line in wrap(note, _NOTE_WIDTH)]
    for k, note in enumerate(lines):
        up = 1.8 + 1.5 * (len(lines) - k)
        at = (surface.get_width() / 2, surface.get_height() - up * _SIZE)
        box = pygame.Rect(0, 0, 10 * len(note) + 20, round(1.4 * _SIZE))
        box.center = (round(at[0]), round(at[1]))
        shade(surface, box, _BACK)
        write(surface, note, at, _SIZE + 4, WARN, "centre")


def help_rows(movers: Mapping[str, Moved], keys: Keys = WINDOW_KEYS) -> list[tuple[str, str]]:
    """Return the rows of the help text: keys, and the control of each stick value."""
    rows = list(keys)
    if movers:
        rows += [("", ""), *((name, _moved_by(moved)) for name, moved in movers.items())]
    waiting = [m.by_device for m in movers.values() if m.by in _HANDS]
    if waiting and len(waiting) == len(movers) and any(waiting):
        rows.append(("no joystick?", "rtsim joystick shows what is missing"))
    return rows


def _moved_by(moved: Moved) -> str:
    trimmed = f", trim {moved.trim:+.3g}" if moved.trim else ""
    if moved.by not in _HANDS:
        return moved.by + trimmed
    nothing = "joystick (not plugged in)" if moved.by_device else "nothing: see --mapping"
    return (moved.by_hand or nothing) + trimmed


def draw_help(
    surface: pygame.Surface, movers: Mapping[str, Moved], keys: Keys = WINDOW_KEYS
) -> None:
    """Draw the help text of :func:`help_rows`. In a run without a stick, ``movers`` is empty.

    The help text has two columns if the letters can then be larger.
    """
    width, height = surface.get_size()
    rows = tuple(help_rows(movers, keys))
    page = max(
        (_fitted(rows, columns, width, height - _SIZE - 6) for columns in (1, 2)),
        key=lambda fitted: fitted[0],
    )
    drawn = _help_page(rows, *page)
    surface.blit(drawn, drawn.get_rect(center=(width // 2, (height - _SIZE - 6) // 2)))


def _fitted(rows: Keys, columns: int, width: int, height: int) -> tuple[int, int]:
    deep = math.ceil(len(rows) / columns) * _LINE + 1.0
    wide = _column(rows) * columns
    return max(_SMALLEST, min(_SIZE, int(height / deep), int(width / wide))), columns


def _column(rows: Keys) -> int:
    longest = max(len(says) for _, says in rows)
    return max(_WIDE, math.ceil(_KEY_WIDE + _LETTER_WIDE * longest))


@lru_cache(maxsize=4)
def _help_page(rows: Keys, size: int, columns: int) -> pygame.Surface:
    deep = math.ceil(len(rows) / columns)
    wide = _column(rows) * size
    page = pygame.Surface((columns * wide, round((_LINE * deep + 1.0) * size)), pygame.SRCALPHA)
    page.fill(_BACK)
    for k, (key, says) in enumerate(rows):
        column, row = divmod(k, deep)
        y = (0.5 + (row + 0.5) * _LINE) * size
        write(page, key, (column * wide + 9 * size, y), size + 2, WARN, "right")
        write(page, says, (column * wide + 10 * size, y), size + 2, INK)
    return page


# The direction of looking, moved in steps by keys and commands, and drawn smoothly.

STEP = math.radians(15.0)
_HIGHEST = math.radians(90.0)
_SETTLES_S = 0.08
"""Time constant with which the picture follows a step, s."""
_CLOSE = 1e-4
"""Remaining angle at which the picture jumps to the end of a step, rad."""

STEPS: Mapping[str, tuple[float, float]] = {
    "look_left": (-STEP, 0.0),
    "look_right": (STEP, 0.0),
    "look_up": (0.0, STEP),
    "look_down": (0.0, -STEP),
}
AHEAD = "look_ahead"
COMMANDS = (*STEPS, AHEAD)


class Look:
    """The viewing direction of a window as angles to the right and up (rad)."""

    def __init__(self, base: tuple[float, float] = (0.0, 0.0)) -> None:
        self._base = base
        self._wanted = self._drawn = base

    def order(self, command: str) -> None:
        """Execute one of :data:`COMMANDS`. ``look_ahead`` goes back to the window's direction."""
        if command == AHEAD:
            self.set(0.0, 0.0)
            return
        yaw, pitch = STEPS[command]
        self.set(self._wanted[0] - self._base[0] + yaw, self._wanted[1] - self._base[1] + pitch)

    def set(self, yaw: float, pitch: float) -> None:
        """Turn the view to the right by ``yaw`` and up by ``pitch`` (rad)."""
        yaw, pitch = self._base[0] + yaw, self._base[1] + pitch
        self._wanted = yaw, max(-_HIGHEST, min(_HIGHEST, pitch))

    def at(self, passed_s: float) -> tuple[float, float]:
        """Return the viewing direction (rad) of the next picture."""
        share = 1.0 - math.exp(-max(0.0, passed_s) / _SETTLES_S)
        yaw, pitch = (
            wanted if abs(wanted - drawn) < _CLOSE else drawn + share * (wanted - drawn)
            for wanted, drawn in zip(self._wanted, self._drawn, strict=True)
        )
        self._drawn = yaw, pitch
        return math.remainder(yaw, math.tau), pitch


LOOK_KEYS: Mapping[int, str] = {
    pygame.K_F2: "look_left", pygame.K_F3: "look_right", pygame.K_F4: "look_up",
    pygame.K_F5: "look_down", pygame.K_F6: AHEAD,
}  # fmt: skip


# Common part of the windows of a run and of a recording.

KEYS = {
    pygame.K_F1: "help", pygame.K_h: "help", pygame.K_v: "view", pygame.K_m: "mouse",
    pygame.K_PAGEDOWN: "next_page", pygame.K_PAGEUP: "previous_page",
    pygame.K_p: "pause", pygame.K_SPACE: "pause", pygame.K_n: "step",
    pygame.K_PLUS: "faster", pygame.K_EQUALS: "faster", pygame.K_KP_PLUS: "faster",
    pygame.K_MINUS: "slower", pygame.K_KP_MINUS: "slower", pygame.K_1: "real_time",
    pygame.K_b: "mark", pygame.K_c: "checkpoint", pygame.K_x: "return", pygame.K_r: "reset",
    pygame.K_BACKSPACE: "rewind", pygame.K_F12: "screenshot", pygame.K_ESCAPE: "quit",
    pygame.K_F11: "full_screen", **LOOK_KEYS,
}  # fmt: skip
"""Commands of the keys. A window supports some of these commands."""
SHIFTED = {"rewind": "rewind_far"}
_NOTE_NS = 4 * NS_PER_S


class SceneWindow:
    """A window that shows a scene, with views, pages, notes and keys.

    ``clock`` returns a time (ns), which determines the duration of notes.
    """

    keys: Mapping[int, str] = KEYS

    def __init__(
        self,
        surface: pygame.Surface,
        scene: Scene,
        clock: Callable[[], int],
        viewpoint: Viewpoint | None = None,
    ) -> None:
        self.closed = False
        self.screenshots = Path()
        self._surface, self._scene, self._clock = surface, scene, clock
        point = viewpoint or Viewpoint()
        self._views = views_of(scene)
        self._view = point.view if point.view in self._views else self._views[0]
        self.look = Look(point.look)
        self._size = surface.get_size()
        self._page = 0
        self._help = False
        self._notes: deque[tuple[int, str]] = deque(maxlen=4)
        self._remark = ""
        self.commands: dict[str, Callable[[], object]] = {
            "help": self._toggle_help, "view": self._next_view, "screenshot": self._screenshot,
            "next_page": lambda: self._turn(1), "previous_page": lambda: self._turn(-1),
            "full_screen": self._full_screen,
            **{name: partial(self.look.order, name) for name in COMMANDS},
        }  # fmt: skip
        """Commands of the window by name, for keys and for presses of the mapping."""

    def handle(self, event: Any) -> None:
        """Process an event of the window, such as a key or a new size."""
        if event.type == pygame.KEYDOWN:
            name = self.keys.get(event.key, "")
            if pygame.key.get_mods() & pygame.KMOD_SHIFT:
                name = SHIFTED.get(name, name)
            if name in self.commands:
                self.commands[name]()
        elif event.type == pygame.QUIT:  # only the window closes; a run continues
            self.closed = True
        elif event.type == pygame.VIDEORESIZE:
            self._surface = pygame.display.get_surface() or self._surface

    def note_remark(self) -> None:
        """Show the remark of the scene, if it is new."""
        remark = str(getattr(self._scene, "remark", ""))
        if remark != self._remark:
            self._remark = remark
            self.note(remark)

    def note(self, text: str) -> None:
        if text:
            self._notes.append((self._clock() + _NOTE_NS, text))

    def present_notes(self) -> list[str]:
        now = self._clock()
        return [text for until, text in self._notes if until > now]

    def save(self, path: Path) -> None:
        """Save the present picture; raise ``pygame.error`` or ``OSError`` on failure."""
        pygame.image.save(self._surface, str(path))

    def _toggle_help(self) -> None:
        self._help = not self._help

    def _next_view(self) -> None:
        self._view = self._views[(self._views.index(self._view) + 1) % len(self._views)]

    def _turn(self, pages: int) -> None:
        self._page += pages

    def _full_screen(self) -> None:
        if not self._surface.get_flags() & pygame.FULLSCREEN:
            self._size = self._surface.get_size()
        self._surface = toggled_full_screen(self._surface, self._size)

    def _screenshot(self) -> None:
        number = 1
        while os.path.lexists(path := self.screenshots / f"rtsim-{number:03d}.png"):
            number += 1
        try:
            self.save(path)
        except (pygame.error, OSError) as error:
            self.note(f"cannot save the picture {path}: {error}")
        else:
            self.note(f"picture saved: {path}")


# The seek bar below a recording.

DONE: Colour = (90, 200, 250)
REST: Colour = (70, 82, 96)
_BAR_BACK: Colour = (12, 16, 22)
HEIGHT = 44
_MARGIN = 16


@dataclass(frozen=True)
class SeekBar:
    """A seek bar from ``first`` to ``end`` (simulated ns)."""

    first: int
    end: int

    def line(self, size: tuple[int, int]) -> pygame.Rect:
        width, height = size
        return pygame.Rect(_MARGIN, height - HEIGHT + 8, max(1, width - 2 * _MARGIN), 6)

    def holds(self, size: tuple[int, int], at: tuple[int, int]) -> bool:
        """Return True for a click on the seek bar or close to it."""
        return self.line(size).inflate(2 * _MARGIN, 14).collidepoint(at)

    def ns(self, size: tuple[int, int], x: int) -> int:
        """Return the simulated time at the pixel column ``x`` of the seek bar."""
        line = self.line(size)
        share = min(1.0, max(0.0, (x - line.left) / line.width))
        return self.first + round(share * (self.end - self.first))

    def x(self, size: tuple[int, int], ns: int) -> int:
        line = self.line(size)
        share = (ns - self.first) / max(1, self.end - self.first)
        return line.left + round(share * line.width)

    def draw(self, surface: pygame.Surface, ns: int, says: str) -> None:
        size = surface.get_size()
        line, x = self.line(size), self.x(size, ns)
        surface.fill(_BAR_BACK, pygame.Rect(0, size[1] - HEIGHT, size[0], HEIGHT))
        surface.fill(REST, line)
        surface.fill(DONE, pygame.Rect(line.left, line.top, x - line.left, line.height))
        pygame.draw.circle(surface, INK, (x, line.centery), 7)
        write(surface, says, (_MARGIN, size[1] - 13), 20, INK)
