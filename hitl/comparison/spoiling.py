"""Finds failures of the environment that affected a run: a slow host, a killed process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hitl.comparison.conditions import LoopRun
from hitl.comparison.execution import on_board
from hitl.comparison.flight import Spoiled
from hitl.comparison.flights import LATE, first_late
from hitl.comparison.on_target import OnTarget
from hitl.controllers.protocols import failed_around
from rtsim.engine.trace import request_topic

_FAILED = "Failed"
"""Kind of the event of a controller that failed while the run continued."""


def spoiled_by(run: LoopRun, targets: Mapping[str, OnTarget] | None = None) -> Spoiled | None:
    """Return the failures of the environment that affected a run; ``None`` if there were none.

    ``targets``: what each board measured in the run, by controller.

    In real time a controller on this host is late if the host is slow, which says nothing about the
    target.  A board has a processor of its own, so its late answers count as failures of the board,
    unless it is emulated and :func:`_delayed` says that this host was too slow for the emulator.
    """
    found = [*_failures(run), *_lateness(run, targets or {})]
    if not found:
        return None
    return min(found)._replace(ended=any(one.ended for one in found))


def _failures(run: LoopRun) -> Iterator[Spoiled]:
    """Yield what ended the run or a controller from outside: a killed process, a host held up."""
    pending = min(_pending(run), default=run.recording.end_ns)
    if run.environment or run.held_up:
        yield Spoiled(pending, run.error, slow=run.held_up)
    for e in run.recording.events:
        if e.kind == _FAILED and failed_around(run.started.get(e.source)):
            yield Spoiled(min(pending, e.tag.ns), e.text, ended=not run.error)


def _pending(run: LoopRun) -> Iterator[int]:
    """Yield the time (ns) of each controller's request that was pending when the run ended.

    Its answer has no row, so the comparison fails from this time on, and not from the end of the
    run on.  Requests of a controller whose C code failed, and of late answers, are left out.
    """
    tracks, events = run.recording.tracks, run.recording.events
    for name, controller in run.started.items():
        asked, answered = (tracks.get(f"messages/{n}") for n in (request_topic(name), name))
        failed = any(e.kind == _FAILED and e.source == name for e in events)
        if asked is None or (failed and not failed_around(controller)):
            continue
        last = -1 if answered is None else int(answered.ns.max(initial=-1))
        late = [
            e.tag.ns - int(e.values["allowed"])
            for e in events
            if e.kind == LATE and e.source == name
        ]
        yield from (ns for ns in asked.ns[asked.ns > last].tolist() if ns not in late)


def _lateness(run: LoopRun, targets: Mapping[str, OnTarget]) -> Iterator[Spoiled]:
    """Yield the failure of a host that was too slow in a paced run."""
    late = [
        e
        for e in run.recording.events
        if e.kind == LATE
        and (
            not on_board(run.started.get(e.source))
            or _delayed(targets.get(e.source), int(e.values["allowed"]))
        )
    ]
    if not run.paced or not late:
        return
    count = "1 answer was" if len(late) == 1 else f"{len(late)} answers were"
    why = (
        f"{count} late by the clock of this host, which also runs other programs: allow more "
        "time (--latency), or run with --pace max"
    )
    first = first_late(run.recording)
    ended = not run.error or any(e.text in run.error for e in late)
    yield Spoiled(run.recording.end_ns if first is None else first, why, slow=True, ended=ended)


def _delayed(board: OnTarget | None, allowed_ns: int) -> bool:
    """Return True if this host delayed an emulated board's answers for too long.

    By its own cycles the board's longest exchange took at most the allowed time, and this host ran
    the emulator or sent its bytes later by more than the rest.
    """
    if board is None:
        return False
    if board.pacing is None:  # an emulator that hung or was ended cannot say how late it was
        return board.url.startswith("board:")
    if board.exchange is None:
        return False
    rest = allowed_ns - board.exchange.max
    return 0 <= rest < max(board.pacing.late_ns, board.pacing.behind_ns)
