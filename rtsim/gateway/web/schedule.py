"""The schedules of simulated processors on a web page: a Gantt chart that follows the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import viser
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.web.controls import note_html
from rtsim.record.jobs import BLOCKED, WAITING, Integers, Pieces, ProcessorHistory

MOST_PROCESSORS, MOST_TASKS = 8, 40
"""Limits of the charts on a page, and of the rows of one chart."""
MOST_BARS = 1500
"""Limit of the bars of one chart. A chart with more bars begins later."""
BARS_IN_VIEW = 150
"""Number of bars that the span "auto" shows at most."""
SPANS = {"5 s": 5.0, "2 s": 2.0, "0.5 s": 0.5, "0.1 s": 0.1, "20 ms": 0.02, "5 ms": 0.005}
AUTO = "auto"
WIDE, NARROW = 640, 400
"""Widths of a chart, in units of its text size of 11."""
_ROW, _BAR, _AXIS = 20, 13, 22
_LONGEST_LABEL, _LETTER = 18, 6.5
_COLOURS = {1: "#1f5fbf", WAITING: "#8a94a6", BLOCKED: "#d97706"}
_MISSED = "#c62828"
_LEGEND = (
    (_COLOURS[1], "runs"), (_COLOURS[WAITING], "waits for the processor"),
    (_COLOURS[BLOCKED], "waits for a lock"), (_MISSED, "missed deadline"),
)  # fmt: skip


class Schedules:
    """A chart for each of the ``processors``, which are plain data with the names of the tasks."""

    def __init__(
        self, gui: viser.GuiApi, processors: Sequence[Mapping[str, Any]], width: int = WIDE
    ) -> None:
        self.chosen, self._width = AUTO, width
        shown = processors[:MOST_PROCESSORS]
        span: Any = gui.add_dropdown("Time span", (AUTO, *SPANS), initial_value=AUTO)
        span.on_update(lambda event: self._choose(str(event.target.value)))
        self._charts = {str(one["name"]): gui.add_html("") for one in shown}
        if len(processors) > len(shown):
            gui.add_html(note_html(f"{len(processors) - len(shown)} more processors are not shown"))

    def _choose(self, text: str) -> None:
        self.chosen = text if text in SPANS else AUTO

    def show(self, histories: Sequence[ProcessorHistory], ns: int) -> None:
        """Draw the time before ``ns``."""
        for one in histories:
            if (chart := self._charts.get(one.name)) is not None:
                drawn = chart_html(one, ns, SPANS.get(self.chosen), self._width)
                if chart.content != drawn:
                    chart.content = drawn


def chart_html(
    processor: ProcessorHistory, end_ns: int, span_s: float | None, width: int = WIDE
) -> str:
    """Return the last ``span_s`` s before ``end_ns`` as HTML, with a row for each task.

    With ``None``, the span is the longest one of :data:`SPANS` with few bars.
    """
    tasks = processor.tasks[:MOST_TASKS]
    found = [np.zeros(0, np.int64), *(task.pieces.begin for task in tasks)]
    begins = np.sort(np.concatenate(found))
    begins = begins[begins < end_ns]
    if span_s is None:
        fits = (s for s in SPANS.values() if _count(begins, end_ns, s) <= BARS_IN_VIEW)
        span_s = next(fits, min(SPANS.values()))
    begin_ns, note = end_ns - round(span_s * NS_PER_S), ""
    if _count(begins, end_ns, span_s) > MOST_BARS:
        begin_ns = int(begins[-MOST_BARS])
        note = f"the chart is shorter, because it has at most {MOST_BARS} bars"
    elif processor.since_ns > max(begin_ns, 0):
        note = f"the page knows the schedule from {processor.since_ns / NS_PER_S:.6g} s on"
    if len(processor.tasks) > len(tasks):
        note += f"{'; ' * bool(note)}{len(processor.tasks) - len(tasks)} more tasks are not shown"
    height = _ROW * len(tasks) + _AXIS
    labels = [_shortened(task.name) for task in tasks]
    left = 10 + round(_LETTER * max(map(len, labels), default=0))
    place = _Place(left, width, begin_ns, end_ns)
    parts = [_axis(place, height)]
    for row, (task, label) in enumerate(zip(tasks, labels, strict=True)):
        y = row * _ROW + (_ROW - _BAR) / 2
        parts.append(
            f'<text x="{left - 6}" y="{y + _BAR - 3}" text-anchor="end"><title>'
            f"{escape(task.name)}</title>{escape(label)}</text>"
        )
        parts += _bars(task.pieces.within(begin_ns, end_ns), place, y)
        inside = task.missed[(task.missed > begin_ns) & (task.missed <= end_ns)]
        parts += [
            f'<circle cx="{x:.1f}" cy="{y + _BAR / 2}" r="3.5" fill="{_MISSED}"/>'
            for x in place.x(inside[-MOST_BARS:]).tolist()
        ]
    cores = f", {processor.cores} cores" if processor.cores > 1 else ""
    title = f"{processor.name}, policy {processor.policy}{cores}"
    legend = " ".join(f'<span style="color:{c}">&#9632;</span> {text}' for c, text in _LEGEND)
    return (
        f'<div style="padding:0 0.6em 0.6em"><b>{escape(title)}</b>'
        f'<svg viewBox="0 0 {width} {height}" style="width:100%" font-size="11" '
        f'fill="currentColor" font-family="sans-serif">{"".join(parts)}</svg>'
        f'<div style="font-size:0.75em">{legend}</div>'
        + (f'<div style="font-size:0.75em">{escape(note)}</div>' if note else "")
        + "</div>"
    )


class _Place(NamedTuple):
    """Place of the times of a chart."""

    left: int
    width: int
    begin_ns: int
    end_ns: int

    @property
    def scale(self) -> float:
        return (self.width - self.left) / max(1, self.end_ns - self.begin_ns)

    def x(self, ns: NDArray[Any]) -> Vector:
        return np.asarray(self.left + (ns - self.begin_ns) * self.scale, dtype=float)


def _shortened(name: str) -> str:
    """Return a label with the beginning and the end of a long name, which often differ."""
    half = _LONGEST_LABEL // 2
    return name if len(name) <= _LONGEST_LABEL else f"{name[: half - 1]}…{name[-half:]}"


def _count(begins: Integers, end_ns: int, span_s: float) -> int:
    first = int(np.searchsorted(begins, end_ns - round(span_s * NS_PER_S)))
    return len(begins) - first


def _bars(pieces: Pieces, place: _Place, y: float) -> list[str]:
    """Return a path for each state: bars, which are lower while a job waits."""
    found = []
    for state, colour in _COLOURS.items():
        chosen = pieces.state > 0 if state > 0 else pieces.state == state
        x = place.x(pieces.begin[chosen])
        width = np.maximum((pieces.end - pieces.begin)[chosen] * place.scale, 0.5)
        top, high = (y, _BAR) if state > 0 else (y + _BAR / 2, _BAR / 2)
        if len(x):
            rows = zip(x.tolist(), width.tolist(), strict=True)
            path = "".join(f"M{a:.2f} {top}h{w:.2f}v{high}h-{w:.2f}z" for a, w in rows)
            found.append(f'<path d="{path}" fill="{colour}"/>')
    return found


def _axis(place: _Place, height: int) -> str:
    """Return the time axis with at most five labels, s."""
    span = max(1, place.end_ns - place.begin_ns) / NS_PER_S
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= span / 4)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(max(0, place.begin_ns) / NS_PER_S / step - 1e-9)
    last = math.floor(place.end_ns / NS_PER_S / step + 1e-9)
    times = np.arange(first, last + 1) * step
    parts = []
    for s, x in zip(times.tolist(), place.x(times * NS_PER_S).tolist(), strict=True):
        anchor = "end" if x > place.width - 30 else "middle"
        parts.append(
            f'<path d="M{x:.1f} 0V{height - _AXIS + 4}" stroke="#8884"/>'
            f'<text x="{x:.1f}" y="{height - 5}" text-anchor="{anchor}">{s:.{places}f} s</text>'
        )
    return "".join(parts)
