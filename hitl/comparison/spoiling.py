"""Finds failures of the environment that affected a run: a slow host, a killed process."""

from __future__ import annotations

from hitl.comparison.conditions import LoopRun
from hitl.comparison.execution import on_board
from hitl.comparison.flight import Spoiled
from hitl.comparison.flights import LATE, first_late
from hitl.controllers.protocols import failed_around

_FAILED = "Failed"
"""Kind of the event of a controller that failed while the run continued."""


def spoiled_by(flown: LoopRun) -> Spoiled | None:
    """Return the failure of the environment that affected a run; ``None`` if there was none.

    In real time a controller on this host is late if the host is slow, which says nothing about
    the target.  A board has a processor of its own, so its late answers are its own.
    """
    end = flown.recording.end_ns
    if flown.environment:
        return Spoiled(end, flown.error)
    killed = [
        (e.tag.ns, e.text)
        for e in flown.recording.events
        if e.kind == _FAILED and failed_around(flown.started.get(e.source))
    ]
    if killed:
        return Spoiled(*min(killed))
    late = [
        e
        for e in flown.recording.events
        if e.kind == LATE and not on_board(flown.started.get(e.source))
    ]
    if not flown.paced or not late:
        return None
    count = "1 answer was" if len(late) == 1 else f"{len(late)} answers were"
    why = (
        f"{count} late by the clock of this host, which also runs other programs: allow more "
        "time (--latency), or run with --pace max"
    )
    first = first_late(flown.recording)
    ended = not flown.error or any(e.text in flown.error for e in late)
    return Spoiled(end if first is None else first, why, slow=True, ended=ended)
