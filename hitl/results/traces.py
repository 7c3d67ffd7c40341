"""What the page draws: the numbers of a signal of both, with their distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult, lined_up
from hitl.comparison.verdict import Flight
from hitl.results.figures import Traces
from rtsim.record.reading import TrackData
from rtsim.record.verdict import Pair, SignalResult
from rtsim.signals import Signal
from rtsim.tag import NS_PER_S


def stepped_traces(loop: OpenLoop, signal: OutputResult) -> Traces:
    """An output in open loop."""
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
    )


def _distance(
    loop: OpenLoop, signal: OutputResult, column: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of an output at each step, as the verdict took it; NaN where there is no answer."""
    a, b = loop.design[:, [column]], loop.translation[:, [column]]
    measured = signal.pair(loop.tags).measure(a, b)
    gap = measured.gap[:, 0]
    gap[loop.answered :] = np.nan
    return gap, measured.allowed[:, 0]


def flown_traces(flight: Flight, controllers: list[str], most: int) -> list[Traces]:
    """Signals of both flights: what fails, then what the C said, then what differs most."""
    said = tuple(f"messages/{name}." for name in controllers)
    order = sorted(
        flight.comparison.worst_first(),
        key=lambda r: (r.ok, not r.name.startswith(said) or ".inputs." in r.name),
    )
    drawn: list[Traces] = []
    for result in order:
        if len(drawn) >= most:
            break
        drawn += _columns(flight, result)[: most - len(drawn)]
    return drawn


def _columns(flight: Flight, result: SignalResult) -> list[Traces]:
    """One for each element of the signal; none for stamps, and where rows do not pair."""
    name, _, signal = result.name.rpartition(".")
    a, b = (recording.tracks.get(name) for recording in flight.paired)
    if a is None or b is None or signal not in a.signals or signal not in b.signals:
        return []
    n = _paired(a, b)
    if n == 0:
        return []
    declared = a.signals[signal]
    x, y = (t.rows.floats[:n, t.signals.slice(signal)] for t in (a, b))
    measured = Pair(a, np.arange(n), name, declared, result.tolerance).measure(x, y)
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
        )
        for i, column in enumerate(declared.columns)
    ]


def _turned(signal: Signal, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quaternions with the sign of the design's, so that they are seen to agree."""
    return lined_up(x, y) if signal.kind == "quaternion" else y


def _paired(a: TrackData, b: TrackData) -> int:
    """So many rows from the start are at the same times."""
    n = min(len(a), len(b))
    differ = np.flatnonzero(a.rows.ns[:n] != b.rows.ns[:n])
    return int(differ[0]) if len(differ) else n
