"""Texts and small histograms of what a board reported and measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from hitl.comparison.execution import MODELLED
from hitl.comparison.on_target import OnTarget
from hitl.comparison.verdict import BackToBack
from rtsim.record.markup import duration

_BINS, _BAR = 10, 40


def targets_of(pairs: Sequence[BackToBack]) -> Iterator[tuple[str, str, OnTarget]]:
    """Yield controller, loop (``open``, ``closed``) and what its board reported in that loop."""
    for pair in pairs:
        for name, loop in pair.open.items():
            if loop.target is not None:
                yield name, "open", loop.target
        if pair.flight is not None:
            for name, target in pair.flight.targets.items():
                yield name, "closed", target


def last_of(pairs: Sequence[BackToBack]) -> dict[str, OnTarget]:
    """Return what each board reported in its last run, by controller."""
    return {name: target for name, _, target in targets_of(pairs)}


def facts(target: OnTarget, late: int = 0, missed: int = 0) -> dict[str, str]:
    """Return facts about a run on a board, as texts by topic.

    ``late`` and ``missed`` are the counts of the closed loop.
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
    """Return bins as (from, to, count); the range also includes the values in ``seen``.

    Bins have equal widths, or with ``logarithmic`` equal ratios (for values above 0).  If all
    values are equal, there is one bin.
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
    """Return a histogram of durations [ns] as lines of text; a bin that is not empty has a bar."""
    rows = histogram(values_ns, logarithmic=logarithmic)
    most = max((count for *_, count in rows), default=0)
    digits = _digits((rows[0][1] - rows[0][0]) / 1e6 if rows else 0.0)
    edges = [(f"{low / 1e6:.{digits}f}", f"{high / 1e6:.{digits}f}") for low, high, _ in rows]
    wide = max((len(text) for pair in edges for text in pair), default=0)
    for (low, high), (*_, count) in zip(edges, rows, strict=True):
        bar = mark * max(round(_BAR * count / most), 1 if count else 0)
        yield f"{low:>{wide}} to {high:>{wide}} ms {count:7d} {bar}".rstrip()


def _digits(width: float) -> int:
    """Return the number of decimals with which the edges of bins of this width differ."""
    return 3 if width <= 0 else min(max(3, 1 - math.floor(math.log10(width))), 6)
