"""Columns and rows of the result tables, for one comparison or for several side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hitl.comparison.flight import LoopComparison
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult
from hitl.comparison.stimulated import Stimulated
from hitl.comparison.verdict import BackToBack
from rtsim.cli.terminal import Column
from rtsim.core.outcome import Outcome
from rtsim.record.verdict import SignalResult, short

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
_STIMULI = (
    Column("stimulus", number=True),
    Column("steps", number=True),
    Column("worst output", drop=1),
    Column("of tolerance", number=True),
    Column("verdict"),
    Column("reaches", fold=True),
)
_BRIEF = 48
"""Most characters of a branch in a brief table."""
BIT_IDENTICAL = "bit-identical"
Cells = list[tuple[str, ...]]


def open_table(loops: Sequence[OpenLoop]) -> tuple[tuple[Column, ...], Cells]:
    """Return the table of one controller's open loop: columns, and one row for each output."""
    if len(loops) == 1:
        return _OPEN, [open_cells(s) for s in loops[0].worst_first()]
    names = [loops[0].sides.reference, *(loop.sides.translation for loop in loops)]
    columns = (
        Column("output"),
        Column("unit", drop=6),
        Column("type", drop=7),
        Column("worst step", number=True, drop=4),
        *(Column(name, number=True, drop=5) for name in names),
        *(c for loop in loops for c in _gap_columns(loop)),
        Column("tolerance", drop=3),
        Column("verdict", fold=True),
    )
    return columns, [_open_row(loops, name) for name in _outputs(loops)]


def stimuli_table(one: Stimulated, brief: bool = False) -> tuple[tuple[Column, ...], Cells]:
    """Return the table of the stimuli of one controller: columns, and one row for each stimulus.

    A ``brief`` table names only the first branch that a stimulus reaches.
    """
    rows: Cells = []
    for number, loop in enumerate(one.loops):
        worst = loop.worst_first()[0]
        verdict = "ok" if loop.ok else "fails" if loop.outcome is Outcome.FAILED else "undecided"
        found = _first(one.stimuli.stimuli[number].reaches) if brief else one.reaches(number)
        steps = str(loop.steps) if loop.answered == loop.steps else f"{loop.answered}/{loop.steps}"
        rows.append((str(number + 1), steps, worst.name, percent(worst.share), verdict, found))
    return _STIMULI, rows


def _first(reaches: Sequence[str]) -> str:
    """Return the first branch in at most ``_BRIEF`` characters, and how many more there are."""
    if not reaches:
        return ""
    text = reaches[0] if len(reaches[0]) <= _BRIEF else f"{reaches[0][: _BRIEF - 1]}…"
    return f"{text}, and {len(reaches) - 1} more" if len(reaches) > 1 else text


def _gap_columns(loop: OpenLoop) -> tuple[Column, Column]:
    return Column(loop.sides.heading), Column("of tolerance", number=True, drop=2)


def _gap_cells(loop: OpenLoop, result: OutputResult) -> tuple[str, str]:
    """Return the largest difference with its first step, and its share of the tolerance."""
    if not loop.answered:
        return "no answer", ""
    if result.first_step is None:
        return BIT_IDENTICAL, percent(result.share)
    return f"{result.max_abs:.4g} from step {result.first_step}", percent(result.share)


def _outputs(loops: Sequence[OpenLoop]) -> list[str]:
    """Return output names: failures first, then by the difference between the last two levels."""
    order = [s.name for loop in reversed(loops) for s in loop.worst_first()]
    failed = {s.name for loop in loops for s in loop.failures}
    return sorted(dict.fromkeys(order), key=lambda name: name not in failed)


def _open_row(loops: Sequence[OpenLoop], name: str) -> tuple[str, ...]:
    results = [next(s for s in loop.signals if s.name == name) for loop in loops]
    last = results[-1]
    step = next((r.worst_step for r in reversed(results) if r.worst_step is not None), None)
    return (
        name,
        last.unit,
        last.type,
        *(("", *[""] * (len(loops) + 1)) if step is None else (str(step), *_at(loops, name, step))),
        *(c for loop, r in zip(loops, results, strict=True) for c in _gap_cells(loop, r)),
        tolerance(last),
        verdicts([(loop.sides.translation, verdict(r))
                  for loop, r in zip(loops, results, strict=True)]),
    )  # fmt: skip


def _at(loops: Sequence[OpenLoop], name: str, step: int) -> list[str]:
    """Return the values of all levels at ``step`` as texts, the reference model first."""
    out = []
    for i, loop in enumerate(loops):
        column = [s.name for s in loop.signals].index(name)
        said = loop.translation[step, column] if step < loop.answered else math.nan
        values = [loop.design[step, column]] if i == 0 else []
        out += [f"{value:.9g}" for value in (*values, said)]
    return out


def closed_table(flights: Sequence[LoopComparison]) -> tuple[tuple[Column, ...], Cells]:
    """Return columns and rows of the closed loop: failures first, then large differences."""
    if len(flights) == 1:
        return _CLOSED, [closed_cells(r) for r in flights[0].comparison.worst_first()]
    gaps = [flight.sides.heading for flight in flights]
    columns = (
        Column("signal"),
        Column("unit", drop=1),
        *(Column(gap) for gap in gaps),
        Column("tolerance", drop=3),
        Column("verdict", fold=True),
    )
    return columns, [_closed_row(flights, name) for name in _signals(flights)]


def _signals(flights: Sequence[LoopComparison]) -> list[str]:
    order = [r.name for f in reversed(flights) for r in f.comparison.worst_first()]
    failed = {r.name for f in flights for r in f.comparison.failures}
    return sorted(dict.fromkeys(order), key=lambda name: name not in failed)


def _closed_row(flights: Sequence[LoopComparison], name: str) -> tuple[str, ...]:
    results = [
        next((r for r in flight.comparison.results if r.name == name), None) for flight in flights
    ]
    known = [r for r in results if r is not None]
    verdicts_by_side = [
        (flight.sides.translation, r.verdict)
        for flight, r in zip(flights, results, strict=True)
        if r is not None
    ]
    return (
        name,
        known[-1].unit,
        *("" if r is None else _gap_cell(r) for r in results),
        tolerance(known[-1]),
        verdicts(verdicts_by_side),
    )


def _gap_cell(result: SignalResult) -> str:
    """Return the largest difference and the tag of the first difference, as text."""
    if not result.rows:
        return ""
    if result.first is None:
        return BIT_IDENTICAL
    return f"{result.max_abs:.4g} from {short(result.first)}"


def count_failed(flights: Sequence[LoopComparison]) -> tuple[int, int]:
    """Return the number of signals that fail in any comparison, and the number of all signals."""
    failed = {r.name for flight in flights for r in flight.comparison.failures}
    return len(failed), len({r.name for flight in flights for r in flight.comparison.results})


def flights_of(pairs: Sequence[BackToBack]) -> list[LoopComparison]:
    """Return the closed loops of ``pairs``."""
    return [pair.flight for pair in pairs if pair.flight is not None]


def verdicts(verdicts_by_side: Sequence[tuple[str, str]]) -> str:
    """Return the text ``ok``, or the failures with the names of the compared sides."""
    return "; ".join(f"{who}: {why}" for who, why in verdicts_by_side if why != "ok") or "ok"


def tolerance(result: SignalResult) -> str:
    """Return the absolute and the relative tolerance as text."""
    return f"{result.tolerance.absolute:g}, {result.tolerance.relative:g}"


def open_cells(result: OutputResult) -> tuple[str, ...]:
    """Return texts: output, unit, type, differences, ULP, share of tolerance, step, verdict."""
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
    """Return texts: signal, unit, differences, tolerance, verdict."""
    numbers = f"{result.max_abs:.6g}", f"{result.max_rel:.6g}"
    return result.name, result.unit, *numbers, tolerance(result), result.verdict


def verdict(result: OutputResult) -> str:
    """Return ``ok``, with a remark if there is one, or the first step that fails."""
    if not result.reason:
        return result.verdict
    if result.step is None or "step" in result.reason:
        return result.reason
    return f"step {result.step}: {result.reason}"


def percent(share: float) -> str:
    """Return a share in percent; ``beyond`` if it is infinite, as for a tolerance of 0."""
    return f"{100 * share:.3g} %" if math.isfinite(share) else "beyond"
