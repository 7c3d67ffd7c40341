"""Section of a report about simulated processors: a Gantt chart and a table of the tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.jobs import BLOCKED, WAITING, Pieces, ProcessorHistory, TaskHistory, processors_of
from rtsim.record.markup import table, text
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import ALLOWED, COMMAND, RESPONSE, Bars, Chart, Line

MOST_BARS = 4000
"""Maximum number of bars of a chart. A chart of a longer run shows a window of this run."""
MOST_IN_VIEW = 150
"""Number of bars that are visible before the reader zooms."""
_MISSED = 4
_COLORS = {WAITING: ALLOWED, BLOCKED: COMMAND}
_ROW_PX, _FRAME_PX = 26, 64


def section(recording: Recording) -> str:
    """Return the processors of a recording as HTML, or "" if there are none."""
    return "".join(_processor(one, recording) for one in processors_of(recording))


def _processor(processor: ProcessorHistory, recording: Recording) -> str:
    first, last = recording.span_ns
    at = processor.first_missed_ns
    drawn = window(processor.tasks, (first, last), at, MOST_BARS)
    view = window(processor.tasks, drawn, at, MOST_IN_VIEW)
    cores = f", {processor.cores} cores" if processor.cores > 1 else ""
    said = [
        '<span style="color: var(--c0)">Blue</span>: the task runs.'
        ' <span style="color: var(--grey)">Grey</span>: it waits for the processor.'
        ' <span style="color: var(--c1)">Orange</span>: it waits for a lock.'
        ' <span style="color: var(--c4)">Red points</span>: missed deadlines.'
    ]
    if view != drawn:
        around = "the first missed deadline" if at is not None else "the start"
        said.append(f"The chart begins with a window at {around}; a double click shows more.")
    if drawn != (first, last):
        said.append(
            f"The chart contains only {_s(drawn[0])} to {_s(drawn[1])}; rtsim export to .pftrace "
            "writes the whole schedule."
        )
    return (
        f"<h3>{text(processor.name)}, policy {text(processor.policy)}{cores}</h3>"
        f"{_tasks(processor)}{chart(processor, drawn, view).html()}"
        f"<p class=soft>{' '.join(said)}</p>"
    )


def _tasks(processor: ProcessorHistory) -> str:
    heads = (
        "task", "jobs", "longest response [ms]", "deadline [ms]", "missed deadlines", "aborted",
        "skipped",
    )  # fmt: skip
    return table(heads, map(_row, processor.tasks), numeric=1)


def _row(task: TaskHistory) -> tuple[object, ...]:
    responses, deadline = task.responses, task.jobs("deadline") - task.jobs("arrival")
    return (
        task.name,
        len(responses),
        f"{responses.max() / 1e6:.6g}" if len(responses) else "",
        f"{deadline[0] / 1e6:.6g}" if len(deadline) else "",
        len(task.missed),
        len(task.ended) - len(responses),
        task.skipped,
    )


def chart(
    processor: ProcessorHistory, drawn_ns: tuple[int, int], view_ns: tuple[int, int]
) -> Chart:
    """Return a chart with a row for each task.

    The chart contains the times ``drawn_ns``, and shows ``view_ns`` first.
    """
    bars: list[Bars] = []
    for row, task in enumerate(reversed(processor.tasks)):
        pieces = task.pieces.within(*drawn_ns)
        for state, color in ((None, RESPONSE), *_COLORS.items()):
            found = pieces.state > 0 if state is None else pieces.state == state
            if found.any():
                bars.append(Bars(row, *_seconds(pieces, found), color))
    span = (drawn_ns[0] / NS_PER_S, drawn_ns[1] / NS_PER_S)
    height = _FRAME_PX + _ROW_PX * len(processor.tasks)
    return Chart(
        f"Tasks of {processor.name}", [_missed(processor, drawn_ns)],
        rows=[task.name for task in reversed(processor.tasks)], marks=False, span=span, bars=bars,
        view=(view_ns[0] / NS_PER_S, view_ns[1] / NS_PER_S), height=height,
    )  # fmt: skip


def _seconds(pieces: Pieces, chosen: NDArray[np.bool_]) -> tuple[Vector, Vector]:
    return pieces.begin[chosen] / NS_PER_S, pieces.end[chosen] / NS_PER_S


def _missed(processor: ProcessorHistory, span_ns: tuple[int, int]) -> Line:
    """Return points at the missed deadlines, between two empty points at the ends of the span."""
    rows = enumerate(reversed(processor.tasks))
    found = [(ns, row) for row, task in rows for ns in task.missed.tolist()]
    inside = sorted((ns, float(row)) for ns, row in found if span_ns[0] <= ns <= span_ns[1])
    points = [(span_ns[0], np.nan), *inside, (span_ns[1], np.nan)]
    x, y = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    return Line("missed deadlines", x / NS_PER_S, y, _MISSED, points=True)


def window(
    tasks: tuple[TaskHistory, ...], span_ns: tuple[int, int], at_ns: int | None, most: int
) -> tuple[int, int]:
    """Return a part of the time span with at most about ``most`` pieces of all tasks.

    The part contains ``at_ns``, with a third of the pieces before it, or else begins with the span.
    """
    begins = np.sort(np.concatenate([task.pieces.begin for task in tasks]))
    begins = begins[(begins >= span_ns[0]) & (begins < span_ns[1])]
    if len(begins) <= most:
        return span_ns
    at = 0 if at_ns is None else int(np.searchsorted(begins, at_ns))
    first = min(max(0, at - most // 3), len(begins) - most)
    last = first + most
    begin = span_ns[0] if first == 0 else int(begins[first])
    return begin, span_ns[1] if last >= len(begins) else int(begins[last])


def _s(ns: int) -> str:
    return f"{ns / NS_PER_S:.9g} s"
