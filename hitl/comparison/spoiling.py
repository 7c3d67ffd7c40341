"""Finds failures of the environment that affected a run: a slow host, a killed process."""

from __future__ import annotations

from collections.abc import Mapping

from hitl.comparison.conditions import LoopRun
from hitl.comparison.execution import on_board
from hitl.comparison.flight import Spoiled
from hitl.comparison.flights import LATE, first_late
from hitl.comparison.on_target import OnTarget
from hitl.controllers.protocols import failed_around

_FAILED = "Failed"
"""Kind of the event of a controller that failed while the run continued."""


def spoiled_by(run: LoopRun, targets: Mapping[str, OnTarget] | None = None) -> Spoiled | None:
    """Return the failure of the environment that affected a run; ``None`` if there was none.

    ``targets``: what each board measured in the run, by controller.

    In real time a controller on this host is late if the host is slow, which says nothing about the
    target.  A board has a processor of its own, so its late answers count as failures of the board,
    unless it is emulated and :func:`_delayed` says that this host was too slow for the emulator.
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
        if e.kind == LATE
        and (
            not on_board(run.started.get(e.source))
            or _delayed((targets or {}).get(e.source), int(e.values["allowed"]))
        )
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


def _delayed(board: OnTarget | None, allowed_ns: int) -> bool:
    """Return True if this host delayed an emulated board's answers for too long.

    By its own cycles the board's longest exchange took at most the allowed time, and this host ran
    the emulator or sent its bytes later by more than the rest.
    """
    if board is None or board.pacing is None or board.exchange is None:
        return False
    rest = allowed_ns - board.exchange.max
    return 0 <= rest < max(board.pacing.late_ns, board.pacing.behind_ns)
