"""The default scene, which shows the signals of any model as charts over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pygame

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.pilot.scenes.scene import PastStates, SceneMoment, ScenePast, Shown
from rtsim.pilot.scenes.text import Colour, write
from rtsim.record.views import View

BACK, PAPER, RULE = (18, 22, 28), (26, 32, 40), (52, 62, 74)
INK, FAINT = (220, 226, 232), (130, 142, 154)
TRACES: tuple[Colour, ...] = (
    (90, 200, 250), (255, 180, 70), (120, 220, 130), (240, 120, 160), (190, 150, 250),
    (230, 230, 110),
)  # fmt: skip
_LOWEST, _HIGHEST, _NARROWEST = 62, 150, 400
_HEAD, _FOOT = 30, 46
_TINY = 1e-300
_LABEL, _SCALE = 176, 70
"""Widths, pixels: at the left for name and values, at the right for the ends of the scale."""


@dataclass(frozen=True)
class Strip:
    """One strip: elements of a plant's signals. ``columns`` are indices in the plant's vector.

    ``signal`` defines the unit and the kind of all elements in the strip.
    """

    plant: str
    signal: Signal
    title: str
    columns: Sequence[int]
    unit: bool = True


class StripScene:
    """Show name, unit, value and trace of each signal, on as many pages as necessary."""

    def __init__(self, about: Mapping[str, Any] | None = None) -> None:
        """Create the scene for the options ``about``.

        The entry ``note`` is the text above the charts. The entry ``views`` contains the views of
        the scenario, which come first. Signals that no plant has are omitted.
        """
        self._pasts = PastStates()
        self._note = str((about or {}).get("note", ""))
        self._views = readable_views((about or {}).get("views"))

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        surface.fill(BACK)
        pasts = {name: self._pasts.of(moment, name) for name in moment.plants}
        strips = ordered_strips({n: p.signals for n, p in moment.plants.items()}, self._views)
        if not strips:
            write(surface, "this run has no plant to show", (16, 16), 22, INK)
            return
        page, pages, places = layout(len(strips), surface.get_size(), moment.page)
        shown = strips[page * len(places) :][: len(places)]
        for strip, place in zip(shown, places, strict=False):
            past, plant = pasts[strip.plant], moment.plants[strip.plant]
            draw_strip(surface, pygame.Rect(place), strip, plant, past)
        span = max(past.span for past in pasts.values()) / 1e9
        head = f"{', '.join(moment.plants)}: traces of {span:.3g} s"
        if pages > 1:
            head += f"; page {page + 1} of {pages}, Page Up and Page Down turn"
        if self._note:
            head = f"{self._note}; {head}"
        write(surface, head, (12, _HEAD / 2), 20, FAINT)


def ordered_strips(plants: Mapping[str, Signals], views: Sequence[View] = ()) -> list[Strip]:
    """Return charts of ``views``, followed by charts of all other signals."""
    first = [strip for view in views for strip in _of_view(view, plants)]
    shown = {(strip.plant, column) for strip in first for column in strip.columns}
    rest = [
        strip
        for name, signals in plants.items()
        for strip in strips_of(name, signals, alone=len(plants) == 1)
        if not shown.issuperset((name, column) for column in strip.columns)
    ]
    return first + rest


def readable_views(plain: object) -> list[View]:
    out = []
    for one in plain if isinstance(plain, list) else ():
        with suppress(ScenarioError):
            out.append(View.from_dict(one))
    return out


def _of_view(view: View, plants: Mapping[str, Signals]) -> list[Strip]:
    found: dict[tuple[str, str, str], tuple[Signal, list[int]]] = {}
    for name in view.signals:
        plant, _, column = name.rpartition(".")
        for signal in plants.get(plant, ()):
            places = range(plants[plant].size)[plants[plant].slice(signal.name)]
            at = [
                i for i, c in zip(places, signal.columns, strict=True) if column in (signal.name, c)
            ]
            if at:
                key = (plant, signal.unit, signal.kind)
                found.setdefault(key, (signal, []))[1].extend(at)
    return [
        Strip(plant, signal, view.title, columns[first : first + len(TRACES)], unit=False)
        for (plant, _, _), (signal, columns) in found.items()
        for first in range(0, len(columns), len(TRACES))
    ]


def strips_of(plant: str, signals: Signals, alone: bool) -> list[Strip]:
    """Return one chart for each signal, or several for a large array."""
    out = []
    for signal in signals:
        where = range(signals.size)[signals.slice(signal.name)]
        title = signal.name if alone else f"{plant}.{signal.name}"
        for first in range(0, len(where), len(TRACES)):
            out.append(Strip(plant, signal, title, where[first : first + len(TRACES)]))
    return out


Place = tuple[int, int, int, int]
Pixel = list[int]


def layout(count: int, size: tuple[int, int], page: int) -> tuple[int, int, list[Place]]:
    """Return the page number, the number of pages, and the positions of the charts.

    A position consists of left, top, width and height in pixels.
    """
    width, height = size
    free = max(_LOWEST, height - _HEAD - _FOOT)
    rows = free // _LOWEST
    columns = max(1, min(width // _NARROWEST, -(-count // rows)))
    pages = -(-count // (rows * columns))
    rows = min(rows, -(-count // columns))
    wide, high = width // columns, min(_HIGHEST, free // rows)
    places = [
        (column * wide, _HEAD + row * high, wide, high)
        for column in range(columns)
        for row in range(rows)
    ]
    return page % pages, pages, places


def draw_strip(
    surface: pygame.Surface, place: pygame.Rect, strip: Strip, plant: Shown, past: ScenePast
) -> None:
    place = place.inflate(-8, -6)
    area = pygame.Rect(
        place.left + _LABEL, place.top, max(8, place.width - _LABEL - _SCALE), place.height
    )
    surface.set_clip(place)
    surface.fill(PAPER, place)
    _label(surface, place, strip, plant.values)
    values = past.values[:, list(strip.columns)]
    low, high = scale(values)
    for share in (0.0, 0.5, 1.0):
        y = area.bottom - 5 - round(share * (area.height - 10))
        pygame.draw.line(surface, RULE, (area.left, y), (area.right - 1, y))
    for text, y in zip(distinct_texts(low, high), (area.bottom - 8, area.top + 8), strict=True):
        write(surface, text, (area.right + 4, y), 17, FAINT)
    surface.set_clip(area)
    half = 180.0 if strip.signal.unit == "deg" else math.pi
    for k in range(values.shape[1]):
        wraps = half if strip.signal.kind == "angle" else math.inf
        for line in polylines(past, values[:, k], (low, high), (*area.topleft, *area.size), wraps):
            pygame.draw.lines(surface, TRACES[k], False, line, 2)
    surface.set_clip(None)


def _label(surface: pygame.Surface, place: pygame.Rect, strip: Strip, values: Vector) -> None:
    unit = f" [{strip.signal.unit}]" if strip.unit and strip.signal.unit != "1" else ""
    write(surface, strip.title + unit, (place.left + 6, place.top + 10), 19, INK)
    across = 1 if len(strip.columns) == 1 else 2
    size = 24 if across == 1 else 18
    for k, column in enumerate(strip.columns):
        x = place.left + 6 + (k % across) * (_LABEL // 2 - 2)
        y = place.top + 19 + size / 2 + (k // across) * (size - 3)
        write(surface, f"{values[column]:.5g}", (x, y), size, TRACES[k])


def scale(values: Vector) -> tuple[float, float]:
    """Return rounded limits for the axis of a chart. The two limits always differ."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    most = max(abs(low), abs(high))
    # halve before the subtraction, because a difference of huge numbers could overflow
    if 0.5 * high - 0.5 * low <= max(1e-9 * most, _TINY):
        room = 0.1 * most if most > _TINY else 1.0
        low, high = low - room, high + room
    step = 10.0 ** math.floor(math.log10(0.5 * high - 0.5 * low))
    lower, upper = math.floor(low / step) * step, math.ceil(high / step) * step
    return (lower, upper) if math.isfinite(upper - lower) else (low, high)


def distinct_texts(low: float, high: float) -> tuple[str, str]:
    """Convert two numbers to different texts with as many digits as necessary."""
    texts = f"{low:.3g}", f"{high:.3g}"
    for digits in range(3, 17):
        texts = f"{low:.{digits}g}", f"{high:.{digits}g}"
        off = max(abs(float(texts[0]) - low), abs(float(texts[1]) - high))
        if texts[0] != texts[1] and off <= 0.05 * (high - low):
            break
    return texts


def polylines(
    past: ScenePast, values: Vector, ends: tuple[float, float], area: Place, wraps: float
) -> list[list[Pixel]]:
    """Return the pixels of a trace (k,) whose newest value is on the right.

    The line is interrupted at values that are not finite and where an angle wraps.
    """
    left, top, width, height = area
    low, high = ends
    if past.span <= 0 or len(values) < 2:
        return []
    x = left + width - 1 - (past.ns[-1] - past.ns) * ((width - 1) / past.span)
    seen = x >= left - width
    x, values = x[seen], values[seen]
    broken = ~np.isfinite(values)
    share = (0.5 * np.where(broken, low, values) - 0.5 * low) / (0.5 * high - 0.5 * low)
    y = top + height - 5 - share * (height - 10)
    jumps = np.abs(np.diff(share, prepend=share[:1])) > wraps / (high - low)
    points = np.column_stack((x, y)).astype(np.int64)
    out: list[list[Pixel]] = []
    for first, last in pairwise([0, *np.flatnonzero(broken | jumps).tolist(), len(points)]):
        line = points[first + int(broken[first]) : last].tolist() if last > first else []
        if len(line) > 1:
            out.append(line)
    return out
