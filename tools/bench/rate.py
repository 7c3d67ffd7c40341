"""A closed loop at 10 kHz in real time: plant, controller and a recording, against a C loop.

The C loop (``wake.c``) only waits: it sleeps, then busy-waits.  Both run in a process of their own,
with the same busy-wait window, scheduling class and timer slack; they take turns in pairs, and
either goes first in half of them.  An overrun is a tag that begins later than its due time plus a
tenth of the period, for both.  A figure is the median over the pairs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rtsim.core.clock import WallClock
from rtsim.timing.scheduling import SchedulingRequest, request
from tools.bench.loop import CONTROLLER, Asked, Late, Measured, measure
from tools.bench.results import Figures, Result, Row
from tools.bench.turns import spread
from tools.bench.wake import NoCompiler, c_loop, compile_loop

RATE = 10_000
TIMES, ALLOWED = 1.2, 10.0
"""Overruns: times those of the C loop, and so many more, for the first tags of a run."""
OF_PERIOD = 0.5


def run(quick: bool = False, seconds: float | None = None, fifo: int = 0) -> Result:
    """Measure; ``seconds`` is the length of one loop (60; quick: 5)."""
    length, pairs = seconds or (5.0 if quick else 60.0), 1 if quick else 4
    title = f"{RATE:,} Hz in real time, {pairs} x {length:g} s, controller: {CONTROLLER}"
    period = 10**9 // RATE
    with request(SchedulingRequest(fifo=fifo)) as granted:
        spin = WallClock().calibrate(period)
    fifo = fifo if granted["class"].ok else 0
    asked, count = Asked(RATE, length, spin, fifo), round(length * RATE)
    ours: list[Measured] = []
    theirs: list[Late] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            program = compile_loop(Path(folder))
        except NoCompiler as error:
            return Result("rate", title, skipped=str(error))
        for pair in range(pairs):
            for turn in (pair, pair + 1):
                if turn % 2 == 0:
                    ours.append(measure(asked))
                else:
                    theirs.append(c_loop(program, period, count, spin, fifo))
    notes = (
        f"overruns: tags that begin more than {period / 10_000:g} us late; rtsim may have "
        f"{ALLOWED:g} more than {TIMES:g} times those of C, for its first tags",
        f"engine {ours[-1].engine}; busy-wait window {spin / 1e3:g} us",
    )
    return Result("rate", title, rows(ours, theirs, period), notes)


def rows(ours: Sequence[Measured], theirs: Sequence[Late], period: int) -> tuple[Row, ...]:
    """The verdicts on pairs of loops; ``period`` in ns."""
    overruns = float(np.median([m.overruns for m in ours]))
    opponent = float(np.median([np.count_nonzero(late > period // 10) for late in theirs]))
    tails = [m.computed_p99_9 for m in ours if m.computed_p99_9 is not None]
    computed = float(np.median([m.computed for m in ours]))
    figures: dict[str, float | None] = {"median [ns]": computed}
    compute = "rtsim, computing"
    if tails:
        tail, most = float(np.median(tails)), OF_PERIOD * period
        figures["p99.9 [ns]"] = tail
        bounded = Row(compute, figures, f"p99.9 <= {most / 1e3:g} us", tail <= most)
    else:
        bounded = Row(compute, figures)
    dropped = sum(m.dropped_rows for m in ours)
    return (
        Row("C loop, lateness", {**_median(theirs), "overruns": opponent}),
        Row(
            "rtsim, lateness", {**_median([m.late for m in ours]), "overruns": overruns},
            f"overruns <= {TIMES:g} x + {ALLOWED:g}", overruns <= TIMES * opponent + ALLOWED,
        ),
        bounded,
        Row(f"rtsim, rows dropped of {sum(m.rows for m in ours):,}", {"rows": float(dropped)},
            "0", dropped == 0),
    )  # fmt: skip


def _median(loops: Sequence[Late]) -> Figures:
    """Of the figures of each loop."""
    found = [spread(late) for late in loops]
    out: dict[str, float | None] = {}
    for name in found[0]:
        known = [v for v in (f[name] for f in found) if v is not None]
        out[name] = float(np.median(known)) if known else None
    return out
