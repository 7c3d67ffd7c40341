"""The comparison on a terminal: names are never cut, what matters least goes first."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from hitl.comparison.execution import LABEL
from hitl.comparison.outputs import OutputResult
from hitl.comparison.verdict import BackToBack, Flight
from rtsim.cli.tables import Column, fitted
from rtsim.record.verdict import SignalResult

MOST = 12
"""So many signals of the loop are shown where all agree, and twice as many of what fails."""

_OPEN = (
    Column("output"),
    Column("unit", drop=4),
    Column("type", drop=3),
    Column("max abs", number=True),
    Column("max rel", number=True, drop=5),
    Column("ULP", number=True, drop=2),
    Column("of tolerance", number=True),
    Column("worst step", number=True, drop=1),
    Column("verdict", fold=True),
)
_CLOSED = (
    Column("signal"),
    Column("unit", drop=1),
    Column("max abs", number=True),
    Column("max rel", number=True, drop=2),
    Column("tolerance", drop=3),
    Column("verdict", fold=True),
)
_TIMES = (
    Column("controller"),
    Column("loop"),
    Column("steps", number=True, drop=3),
    Column("min", number=True, drop=2),
    Column("mean", number=True),
    Column("p99", number=True, drop=1),
    Column("max observed", number=True),
    Column("at step", number=True),
    Column("of period", number=True),
)


class Tables:
    """All of a comparison, as a renderable; print it with ``crop=False``."""

    def __init__(self, result: BackToBack) -> None:
        self.result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for part, needed in self._parts(options.max_width):
            yield from console.render(part, options.update(width=max(needed, options.max_width)))

    def _parts(self, width: int) -> Iterator[tuple[RenderableType, int]]:
        """Renderables, and the width that each needs."""
        result = self.result
        for name, loop in result.open.items():
            rows = [open_cells(s) for s in loop.worst_first()]
            yield fitted(f"{name}: open loop, {loop.steps} steps", _OPEN, rows, width)
            yield from _lines("" if loop.ok else loop.in_words)
        if result.flight is not None:
            yield from _closed(result.flight, width)
            yield from _lines(result.closed_in_words)
        times = _times(result)
        if times:
            yield fitted(LABEL[:1].upper() + LABEL[1:], _TIMES, times, width)
        yield from _lines(*result.notes, result.explanation)


def _closed(flight: Flight, width: int) -> Iterator[tuple[RenderableType, int]]:
    """What fails, the worst first; where all agree, what differs most."""
    comparison = flight.comparison
    failed = len(comparison.failures)
    # Stamps and counts have no unit and no tolerance: they are told where they differ.
    meant = [r for r in comparison.worst_first() if not r.ok or (not failed and r.unit)]
    shown = meant[: 2 * MOST if failed else MOST]
    yield fitted("Closed loop", _CLOSED, [closed_cells(r) for r in shown], width)
    count = len(comparison.results)
    rest = len(meant) - len(shown)
    state = f"{failed} of {count} signals fail" if failed else f"all {count} signals agree"
    yield from _lines(state + (f"; {rest} more are not shown" if rest and failed else ""))


def _times(result: BackToBack) -> list[tuple[str, ...]]:
    out = []
    for name, loop in result.open.items():
        if loop.execution is not None:
            out.append((name, "open", str(loop.execution.steps), *loop.execution.cells()))
    if result.flight is not None:
        for name, execution in result.flight.execution.items():
            out.append((name, "closed", str(execution.steps), *execution.cells()))
    return out


def _lines(*texts: str) -> Iterator[tuple[RenderableType, int]]:
    for text in texts:
        if text:
            yield Text(text, overflow="fold"), 0


def open_cells(result: OutputResult) -> tuple[str, ...]:
    """Text: output, unit, type, differences, ULP, share of the tolerance, worst step, verdict."""
    worst = "" if result.worst_step is None else str(result.worst_step)
    return (
        result.name,
        result.unit,
        result.type,
        f"{result.max_abs:.6g}",
        f"{result.max_rel:.6g}",
        f"{result.max_ulp:.6g}",
        percent(result.share),
        worst,
        verdict(result),
    )


def closed_cells(result: SignalResult) -> tuple[str, ...]:
    """Text: signal, unit, differences, tolerance, verdict."""
    tolerance = f"{result.tolerance.absolute:g}, {result.tolerance.relative:g}"
    numbers = f"{result.max_abs:.6g}", f"{result.max_rel:.6g}"
    return result.name, result.unit, *numbers, tolerance, result.reason or "ok"


def verdict(result: OutputResult) -> str:
    """``ok``, or the step from which on it fails."""
    if result.ok:
        return "ok"
    if result.step is None or "step" in result.reason:
        return result.reason
    return f"step {result.step}: {result.reason}"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %" if math.isfinite(share) else "beyond"
