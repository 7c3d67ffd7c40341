"""Columns and rows of the result tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hitl.comparison.execution import MODELLED, OnTarget
from hitl.comparison.flight import LoopComparison
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult
from hitl.comparison.verdict import BackToBack, Stimulated
from rtsim.cli.terminal import Column
from rtsim.core.errors import RecordingError
from rtsim.core.outcome import Outcome
from rtsim.record import events
from rtsim.record.events import Acted
from rtsim.record.markup import duration
from rtsim.record.verdict import SignalResult, short
from rtsim.requirements.verdict import RequirementResult

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
"""Maximum number of characters of a branch in a brief table."""
BIT_IDENTICAL = "bit-identical"
Cells = list[tuple[str, ...]]


def open_table(loops: Sequence[OpenLoop]) -> tuple[tuple[Column, ...], Cells]:
    """Return the open-loop table of a controller, with a row for each output."""
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
    """Return the stimuli table of a controller, with a row for each stimulus.

    With ``brief``, the table names only the first branch of a stimulus.
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
    if not reaches:
        return ""
    text = reaches[0] if len(reaches[0]) <= _BRIEF else f"{reaches[0][: _BRIEF - 1]}…"
    return f"{text}, and {len(reaches) - 1} more" if len(reaches) > 1 else text


def _gap_columns(loop: OpenLoop) -> tuple[Column, Column]:
    return Column(loop.sides.heading), Column("of tolerance", number=True, drop=2)


def _gap_cells(loop: OpenLoop, result: OutputResult) -> tuple[str, str]:
    if not loop.answered:
        return "no answer", ""
    if result.first_step is None:
        return BIT_IDENTICAL, percent(result.share)
    return f"{result.max_abs:.4g} from step {result.first_step}", percent(result.share)


def _outputs(loops: Sequence[OpenLoop]) -> list[str]:
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
    out = []
    for i, loop in enumerate(loops):
        column = [s.name for s in loop.signals].index(name)
        said = loop.translation[step, column] if step < loop.answered else math.nan
        values = [loop.design[step, column]] if i == 0 else []
        out += [f"{value:.9g}" for value in (*values, said)]
    return out


def closed_table(flights: Sequence[LoopComparison]) -> tuple[tuple[Column, ...], Cells]:
    """Return the closed-loop table: first failures, then large differences."""
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
    if not result.rows:
        return ""
    if result.first is None:
        return BIT_IDENTICAL
    return f"{result.max_abs:.4g} from {short(result.first)}"


def count_failed(flights: Sequence[LoopComparison]) -> tuple[int, int]:
    """Return the number of signals that fail, and the number of all signals."""
    failed = {r.name for flight in flights for r in flight.comparison.failures}
    return len(failed), len({r.name for flight in flights for r in flight.comparison.results})


def flights_of(pairs: Sequence[BackToBack]) -> list[LoopComparison]:
    return [pair.flight for pair in pairs if pair.flight is not None]


def verdicts(verdicts_by_side: Sequence[tuple[str, str]]) -> str:
    """Return the failures with the names of their stages, or ``ok``."""
    return "; ".join(f"{who}: {why}" for who, why in verdicts_by_side if why != "ok") or "ok"


def tolerance(result: SignalResult) -> str:
    return f"{result.tolerance.absolute:g}, {result.tolerance.relative:g}"


def open_cells(result: OutputResult) -> tuple[str, ...]:
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
    numbers = f"{result.max_abs:.6g}", f"{result.max_rel:.6g}"
    return result.name, result.unit, *numbers, tolerance(result), result.verdict


def verdict(result: OutputResult) -> str:
    """Return the first failed step and the reason, or ``ok``."""
    if not result.reason:
        return result.verdict
    if result.step is None or "step" in result.reason:
        return result.reason
    return f"step {result.step}: {result.reason}"


def percent(share: float) -> str:
    """Return ``share`` in percent, or ``beyond`` if it is infinite."""
    return f"{100 * share:.3g} %" if math.isfinite(share) else "beyond"


# Compiler warnings about the C code of a comparison, by controller.


def warnings_of(pairs: Sequence[BackToBack]) -> Mapping[str, str]:
    """Return the compiler warnings of each controller.

    The key is the name of the controller and, for several comparisons, of the stage. A controller
    without warnings has no entry.
    """
    out: dict[str, str] = {}
    for pair in pairs:
        of = f" ({pair.sides.translation})" if len(pairs) > 1 else ""
        out |= {f"{name}{of}": loop.warnings for name, loop in pair.open.items() if loop.warnings}
    return out


# The injected faults of the last comparison, and how often each acted.


def faults_of(pairs: Sequence[BackToBack]) -> list[Acted]:
    return list(pairs[-1].faults)


def faults_to_json(pairs: Sequence[BackToBack]) -> dict[str, Any]:
    """Return the faults as plain data, as in the summary of a run."""
    faults = {
        fault.name: {
            "kind": fault.kind,
            "where": fault.where,
            "activations": fault.activations,
            "idle": fault.idle or None,
        }
        for fault in faults_of(pairs)
    }
    return {"faults": faults} if faults else {}


def required_of(pairs: Sequence[BackToBack]) -> dict[str, list[RequirementResult]]:
    """Return the verdicts on the requirements in each run, by the name of the stage."""
    return {run: each for pair in pairs for run, each in pair.required.shown.items()}


def notes(pairs: Sequence[BackToBack]) -> list[str]:
    """Return notes on faults without effect."""
    faults = faults_of(pairs)
    idle = {fault.name: fault.idle for fault in faults if fault.idle}
    return events.notes(idle, [f.name for f in faults if not f.activations])


# Texts and histograms of a board's measurements.

_BINS, _BAR = 10, 40


def targets_of(pairs: Sequence[BackToBack]) -> Iterator[tuple[str, str, OnTarget]]:
    """Yield each controller and loop (``open`` or ``closed``) with the board's measurements."""
    for pair in pairs:
        for name, loop in pair.open.items():
            if loop.target is not None:
                yield name, "open", loop.target
        if pair.flight is not None:
            for name, target in pair.flight.targets.items():
                yield name, "closed", target


def last_of(pairs: Sequence[BackToBack]) -> dict[str, OnTarget]:
    """Return the measurements of each board in its last run, by controller."""
    return {name: target for name, _, target in targets_of(pairs)}


def facts(target: OnTarget, late: int = 0, missed: int = 0) -> dict[str, str]:
    """Return facts about a run on a board, by topic.

    ``late`` and ``missed`` are the numbers of late answers and of missed ticks.
    """
    out = {"board": target.url, "HELLO": target.hello, "time budget": str(target.budget)}
    wire = f"{duration(target.wire_ns)} for the longest request and its reply"
    if target.exchange is not None and target.exchange.clock == MODELLED:
        wire += "; in real time an answer is read when it is due, so its arrival is not measured"
    elif target.exchange is not None:
        share = 100 * target.exchange.max / target.budget.exchange_ns
        wire += (
            f"; the longest exchange observed took {duration(target.exchange.max)}, "
            f"{share:.3g} % of the wire time plus the longest step"
        )
    out["wire"] = wire
    if target.pacing is not None:
        out["pacing"] = target.pacing.in_words
    if len(target.cycles):
        out["execution"] = (
            f"{target.cycles.min()} to {target.cycles.max()} cycles, maximum observed at step "
            f"{target.cycles.argmax()}"
        )
    out["stack"] = f"at most {target.stack} bytes were in use"
    counts = {"late": late, "missed": missed, "repeated": target.counts.repeated}
    more = {k: v for k, v in target.counted.items() if k != "repeated"}
    out["counts"] = ", ".join(f"{name} {number}" for name, number in {**counts, **more}.items())
    return out


def histogram(
    values: ArrayLike, bins: int = _BINS, seen: Sequence[float] = (), logarithmic: bool = False
) -> list[tuple[float, float, int]]:
    """Return the bins of a histogram as ``(from, to, count)``.

    The bins cover all numbers in ``values`` and ``seen``. With ``logarithmic``, all bins have the
    same ratio of their limits, and the values must be positive. Equal values give one bin.
    """
    numbers = np.asarray(values, np.float64)
    if not len(numbers):
        return []
    low, high = (float(f([f(numbers), *seen])) for f in (np.min, np.max))
    if low == high:
        return [(low, high, len(numbers))]
    edges = (np.geomspace if logarithmic else np.linspace)(low, high, bins + 1)
    heights, _ = np.histogram(numbers, edges)
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), heights.tolist(), strict=True)
    return [(low, high, int(count)) for low, high, count in rows]


def bars(values_ns: ArrayLike, logarithmic: bool = False, mark: str = "█") -> Iterator[str]:
    """Yield the lines of a text histogram of times in ns."""
    rows = histogram(values_ns, logarithmic=logarithmic)
    most = max((count for *_, count in rows), default=0)
    digits = _digits((rows[0][1] - rows[0][0]) / 1e6 if rows else 0.0)
    edges = [(f"{low / 1e6:.{digits}f}", f"{high / 1e6:.{digits}f}") for low, high, _ in rows]
    wide = max((len(text) for pair in edges for text in pair), default=0)
    for (low, high), (*_, count) in zip(edges, rows, strict=True):
        bar = mark * max(round(_BAR * count / most), 1 if count else 0)
        yield f"{low:>{wide}} to {high:>{wide}} ms {count:7d} {bar}".rstrip()


def _digits(width: float) -> int:
    return 3 if width <= 0 else min(max(3, 1 - math.floor(math.log10(width))), 6)


# Write result files; an existing file is overwritten only if it is of the same kind.

_LOOKED_AT = 4096


def check_result(path: Path, mark: bytes, kind: str) -> None:
    """Raise ``RecordingError`` if a result cannot be written to ``path``.

    An existing file is replaced only if it is empty or contains ``mark`` near its beginning.
    ``kind`` describes the file in the error message, such as "a report".
    """
    if not path.parent.is_dir():
        raise RecordingError(f"the folder {path.parent} for {path.name} does not exist; create it")
    if path.is_dir():
        raise RecordingError(f"{path} is a folder; give the name of a file in it")
    if not path.exists():
        return
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
    if start and mark not in start:
        raise RecordingError(
            f"{path} exists and is not {kind} of rtsim sil, so it is not overwritten; give another "
            "name"
        )


def write(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8; raise :class:`RecordingError` on failure."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error
