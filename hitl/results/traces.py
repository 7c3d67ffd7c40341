"""The data of the page's plots: the values of a signal on both sides, and their difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.flight import LoopComparison
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult, lined_up
from hitl.results.figures import Traces
from rtsim.core.signals import Signal
from rtsim.core.tag import NS_PER_S
from rtsim.record.reading import TrackData
from rtsim.record.verdict import ComparedSignal, SignalResult


def stepped_traces(loops: Sequence[OpenLoop], signal: str) -> Traces:
    """Return the traces of an output in open loop, for all compared pairs of levels."""
    above = stepped_traces(loops[1:], signal) if loops[1:] else None
    return _stepped(loops[0], next(s for s in loops[0].signals if s.name == signal), above)


def _stepped(loop: OpenLoop, signal: OutputResult, above: Traces | None) -> Traces:
    column = loop.signals.index(signal)
    gap, allowed = _distance(loop, signal, column)
    failed = None if signal.first_failed is None else signal.first_failed.ns / NS_PER_S
    return Traces(
        signal.name,
        signal.unit,
        loop.tags[:, 0] / NS_PER_S,
        loop.design[:, column],
        loop.translation[:, column],
        gap,
        allowed,
        failed,
        sides=loop.sides,
        then=above,
    )


def _distance(
    loop: OpenLoop, signal: OutputResult, column: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return difference and tolerance of an output at each step; NaN without an answer."""
    a, b = loop.design[:, [column]], loop.translation[:, [column]]
    measured = signal.pair(loop.tags).measure(a, b)
    gap = measured.gap[:, 0]
    gap[loop.answered :] = np.nan
    return gap, measured.allowed[:, 0]


def loop_traces(
    flights: Sequence[LoopComparison], controllers: list[str], most: int
) -> list[Traces]:
    """Return traces of at most ``most`` signals: failures, C outputs, large differences."""
    said = tuple(f"messages/{name}." for name in controllers)
    found = [r for flight in reversed(flights) for r in flight.comparison.worst_first()]
    failed = {r.name for r in found if r.reason}
    order = sorted(
        dict.fromkeys(r.name for r in found),
        key=lambda n: (n not in failed, not n.startswith(said) or ".inputs." in n),
    )
    drawn: list[Traces] = []
    for name in order:
        if len(drawn) >= most:
            break
        drawn += _chained([_columns(f, r) for f in flights for r in _named(f, name)])[
            : most - len(drawn)
        ]
    return drawn


def _named(flight: LoopComparison, name: str) -> list[SignalResult]:
    return [r for r in flight.comparison.results if r.name == name]


def _chained(pairs: list[list[Traces]]) -> list[Traces]:
    """Return for each column the traces of the first pair, linked to those of the next pairs."""
    some = [columns for columns in pairs if columns]
    if len(some) < 2:
        return some[0] if some else []
    above = _chained(some[1:])
    return [replace(one, then=then) for one, then in zip(some[0], above, strict=True)]


def _columns(flight: LoopComparison, result: SignalResult) -> list[Traces]:
    """Return traces of each element of the signal; none for stamps and for rows without a pair."""
    name, _, signal = result.name.rpartition(".")
    a, b = (recording.tracks.get(name) for recording in flight.paired)
    if a is None or b is None or signal not in a.signals or signal not in b.signals:
        return []
    n = _paired(a, b)
    if n == 0:
        return []
    declared = a.signals[signal]
    x, y = (t.rows.floats[:n, t.signals.slice(signal)] for t in (a, b))
    measured = ComparedSignal(a, np.arange(n), name, declared, result.tolerance).measure(x, y)
    failed = None if result.first_failed is None else result.first_failed.ns / NS_PER_S
    return [
        Traces(
            f"{name}.{column}",
            declared.unit,
            a.rows.ns[:n] / NS_PER_S,
            x[:, i],
            _turned(declared, x, y)[:, i],
            measured.gap[:, i],
            measured.allowed[:, i],
            failed,
            held="side" not in a.integers,
            sides=flight.sides,
        )
        for i, column in enumerate(declared.columns)
    ]


def _turned(signal: Signal, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return quaternions with the sign of the reference's, so that equal attitudes look equal."""
    return lined_up(x, y) if signal.kind == "quaternion" else y


def _paired(a: TrackData, b: TrackData) -> int:
    """Return the number of rows from the start that have equal times."""
    n = min(len(a), len(b))
    differ = np.flatnonzero(a.rows.ns[:n] != b.rows.ns[:n])
    return int(differ[0]) if len(differ) else n
