"""Print the result tables; a narrow terminal omits columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from hitl.comparison.execution import Execution
from hitl.comparison.flight import LoopComparison
from hitl.comparison.verdict import BackToBack, ComparisonChain
from hitl.results.columns import (
    bars,
    closed_table,
    count_failed,
    facts,
    faults_of,
    flights_of,
    last_of,
    notes,
    open_table,
    required_of,
    stimuli_table,
    targets_of,
    warnings_of,
)
from rtsim.cli.check import notes_of, requirement_table
from rtsim.cli.running import COLUMNS as FAULT_COLUMNS
from rtsim.cli.terminal import Column, fitted

MOST = 12
"""Maximum number of closed-loop signals to show if all agree; twice as many if some fail."""

_TIMES = (
    Column("controller"),
    Column("loop"),
    Column("clock"),
    Column("steps", number=True, drop=3),
    Column("min", number=True, drop=2),
    Column("mean", number=True),
    Column("p99", number=True, drop=1),
    Column("max observed", number=True),
    Column("at step", number=True),
    Column("of period", number=True),
)
_CLOCK = 2
_FACTS = (Column("controller"), Column(""), Column("on the board", fold=True))

Part = tuple[RenderableType, int]
"""A renderable and its required width."""


class Tables:
    """All result tables of a comparison."""

    def __init__(self, result: BackToBack | ComparisonChain) -> None:
        self.result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for part, needed in self._parts(options.max_width):
            yield from console.render(part, options.update(width=max(needed, options.max_width)))

    def _parts(self, width: int) -> Iterator[Part]:
        pairs = self.result.pairs
        for name in pairs[0].open:
            loops = [pair.open[name] for pair in pairs]
            columns, rows = open_table(loops)
            yield fitted(f"{name}: open loop, {loops[0].steps} steps", columns, rows, width)
            yield from _lines(*("" if loop.ok else loop.in_words for loop in loops))
        for pair in pairs:
            yield from _stimulated(pair, len(pairs) > 1, width)
        flights = flights_of(pairs)
        if flights:
            yield from _closed(flights, width)
            yield from _lines(*(pair.closed_in_words for pair in pairs))
        yield from _required(pairs, width)
        yield from _faults(pairs, width)
        yield from _times(pairs, width)
        yield from _on_boards(pairs, width)
        for name, text in warnings_of(pairs).items():
            yield from _lines(f"Compiler warnings about {name}:", text.rstrip())
        yield from _lines(*self.result.notes, *(pair.explanation for pair in pairs))
        yield from _lines(*(f"compared: {text}" for text in self.result.coverage))
        yield from _lines(*(f"not exercised: {text}" for text in self.result.unexercised))


def _stimulated(pair: BackToBack, several: bool, width: int) -> Iterator[Part]:
    for one in pair.stimulated.values():
        columns, rows = stimuli_table(one, brief=True)
        title = f"{one.title}, {pair.sides.gap}" if several else one.title
        yield fitted(title, columns, rows, width)
        yield from _lines(*one.why)


def _closed(flights: Sequence[LoopComparison], width: int) -> Iterator[Part]:
    failed, count = count_failed(flights)
    columns, rows = closed_table(flights)
    # Stamps and counts have no unit and no tolerance; show them only if they differ.
    meant = [row for row in rows if row[-1] != "ok" or (not failed and row[1])]
    shown = meant[: 2 * MOST if failed else MOST]
    yield fitted("Closed loop", columns, shown, width)
    rest = len(meant) - len(shown)
    state = f"{failed} of {count} signals fail" if failed else f"all {count} signals agree"
    if not failed and any(flight.error for flight in flights):
        state = f"{count} signals agree up to the end of the run"
    yield from _lines(state + (f"; {rest} more are not shown" if rest and failed else ""))


def _required(pairs: Sequence[BackToBack], width: int) -> Iterator[Part]:
    runs = required_of(pairs)
    if runs:
        columns, rows = requirement_table(runs)
        yield fitted("Requirements", columns, [[escape(c) for c in row] for row in rows], width)
        yield from _lines(*notes_of(one for each in runs.values() for one in each))


def _faults(pairs: Sequence[BackToBack], width: int) -> Iterator[Part]:
    rows = [(f.name, f.kind, f.where, str(f.activations)) for f in faults_of(pairs)]
    if rows:
        closed = pairs[-1].flight is not None
        who = pairs[-1].sides.translation if closed else pairs[0].sides.reference
        where = f"Faults in the run with the {who}"
        yield fitted(where, FAULT_COLUMNS, rows, width)
        yield from _lines(*notes(pairs))


def _times(pairs: Sequence[BackToBack], width: int) -> Iterator[Part]:
    exchanges = [
        (name, loop, target.exchange)
        for name, loop, target in targets_of(pairs)
        if target.exchange is not None
    ]
    for times in (list(executions(pairs)), exchanges):
        if not times:
            continue
        labels = {one.label for *_, one in times}
        title = labels.pop() if len(labels) == 1 else times[0][-1].what
        rows = [
            (name, loop, whose(one.clock), str(one.steps), *one.cells())
            for name, loop, one in times
        ]
        columns = list(_TIMES)
        if title != times[0][-1].what:  # the title already names the clock
            del columns[_CLOCK]
            rows = [row[:_CLOCK] + row[_CLOCK + 1 :] for row in rows]
        yield fitted(title[:1].upper() + title[1:], columns, rows, width)


def whose(clock: str) -> str:
    return clock.partition(" ")[0]


def executions(pairs: Sequence[BackToBack]) -> Iterator[tuple[str, str, Execution]]:
    """Yield controller, loop and execution times.

    For several comparisons, the stage is added to the name of the controller.
    """
    for pair in pairs:
        of = f" ({pair.sides.translation})" if len(pairs) > 1 else ""
        for name, loop in pair.open.items():
            if loop.execution is not None:
                yield f"{name}{of}", "open", loop.execution
        if pair.flight is not None:
            for name, execution in pair.flight.execution.items():
                yield f"{name}{of}", "closed", execution


def _on_boards(pairs: Sequence[BackToBack], width: int) -> Iterator[Part]:
    flight = pairs[-1].flight
    late, missed = (0, 0) if flight is None else (flight.late, flight.missed)
    found = last_of(pairs)
    rows = [
        (name if i == 0 else "", what, text)
        for name, target in found.items()
        for i, (what, text) in enumerate(facts(target, late, missed).items())
    ]
    if rows:
        yield fitted("On the board", _FACTS, rows, width)
    for name, target in found.items():
        if target.exchange is not None:
            yield from _lines(f"{name}: {target.exchange.label}", *bars(target.exchange.took_ns))


def _lines(*texts: str) -> Iterator[Part]:
    for text in texts:
        if text:
            yield Text(text, overflow="fold"), 0
