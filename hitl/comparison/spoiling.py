"""Finds failures of the environment that affected a run: a slow host, a killed process."""

from __future__ import annotations

from hitl.comparison.conditions import LoopRun
from hitl.comparison.execution import on_board
from hitl.comparison.flight import Spoiled
from hitl.comparison.flights import LATE, first_late
from hitl.controllers.protocols import failed_around

_FAILED = "Failed"
"""Kind of the event of a controller that failed while the run continued."""


def spoiled_by(run: LoopRun) -> Spoiled | None:
    """Return the failure of the environment that affected a run; ``None`` if there was none.

    In real time a controller on this host is late if the host is slow, which says nothing about the
    target.  A board has a processor of its own, so its late answers count as failures of the board.
    """
    end = run.recording.end_ns
    if run.environment:
        return Spoiled(end, run.error)
    killed = [
        (e.tag.ns, e.text)
        for e in run.recording.events
        if e.kind == _FAILED and failed_around(run.started.get(e.source))
    ]
    if killed:
        return Spoiled(*min(killed))
    late = [
        e
        for e in run.recording.events
        if e.kind == LATE and not on_board(run.started.get(e.source))
    ]
    if not run.paced or not late:
        return None
    count = "1 answer was" if len(late) == 1 else f"{len(late)} answers were"
    why = (
        f"{count} late by the clock of this host, which also runs other programs: allow more "
        "time (--latency), or run with --pace max"
    )
    first = first_late(run.recording)
    ended = not run.error or any(e.text in run.error for e in late)
    return Spoiled(end if first is None else first, why, slow=True, ended=ended)
