"""The words of a paced run: the pacer and its clock for the compiled engine, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import Calls, Wait
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled import layout as at
from rtsim.engine.trace import Trace
from rtsim.timing.frames import FRAME_COLUMNS, NEXT, RECORDING, REST, WorstFrame
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CaughtUp

LONGEST_WAIT_NS = 20_000_000
"""The longest wait in compiled code, ns.  The interpreter does longer waits, because a signal must
be able to end them."""
BRIEF_NS = 200_000_000
"""Python is called this often; for clients that want to see the run more often, as they want."""
_LONGER = 1.4
"""Without time to spare, the loop calls Python after so many times that time."""
MOST_RATE = 2**62
"""Numerator and denominator of the rate: due times then fit 64 bits (see ``pace.divided``)."""
_WORST_ROOM, _OVERRUN_ROOM = 1024, 2048


def unpaceable(pacer: Pacer, step_ns: int) -> str:
    """Return why compiled code cannot wait for tags up to ``step_ns`` apart; empty if it can."""
    if type(pacer) is not Pacer:
        return "faults of the loop are declared"
    if len(pacer.log.last) != at.W_LAST_MARGIN + 1 - at.W_LAST_LATE:
        return f"compiled code does not measure all columns of timing: {', '.join(FRAME_COLUMNS)}"
    wait = _wait(pacer)
    if wait is None:
        return "compiled code cannot wait on this clock"
    if max(wait.numerator, wait.denominator) >= MOST_RATE:
        return (
            f"the rate {wait.numerator}/{wait.denominator} has a numerator or a denominator of "
            "more than 18 digits; give a rate with fewer digits"
        )
    if step_ns * wait.denominator // wait.numerator > LONGEST_WAIT_NS:
        return "the waits between tags are longer than 20 ms"
    return ""


def _wait(pacer: Pacer) -> Wait | None:
    lend = getattr(pacer.clock, "lend", None)
    found: Wait | None = None if lend is None else lend()
    return found


class PacedFrames:
    """The state of a run's pacer as an array of integers, with which compiled code waits."""

    def __init__(
        self, pacer: Pacer, trace: Trace, tasks: list[str], inbox: Inbox | None = None
    ) -> None:
        self._pacer, self._trace, self._inbox = pacer, trace, inbox
        self._names = [NEXT, RECORDING, *tasks]
        self._jobs_by_number = (*self._names, "", REST)
        """The last two are NO_JOB (-2) and REST_JOB (-1)."""
        self._jobs = np.zeros(len(self._names), np.int64)
        self._worst = np.zeros(_WORST_ROOM * (at.WORST_HEAD + self._jobs.size), np.int64)
        self._overruns = np.zeros(_OVERRUN_ROOM * at.OVERRUN_WORDS, np.int64)
        self._offset = 0
        self.words = np.zeros(at.PACED, np.int64)
        self._fixed()

    def _fixed(self) -> None:
        """What stays the same for the whole run."""
        w, wait = self.words, _wait(self._pacer)
        assert wait is not None
        calls: Calls = wait.calls
        w[at.W_TIME_CALL], w[at.W_SLEEP_CALL] = calls.clock_gettime, calls.clock_nanosleep
        w[at.W_READ_CALL], w[at.W_PEEK_CALL] = calls.pread, calls.recv
        w[at.W_SOCKET] = -1
        if self._inbox is not None:
            given = self._inbox.given
            w[at.W_GIVEN], w[at.W_GIVEN_LENGTH] = given.ctypes.data, given.size
        w[at.W_TIME_AT] = w.ctypes.data + 8 * at.W_SECONDS
        w[at.W_TEXT_AT] = w.ctypes.data + 8 * at.W_TEXT
        for place, vector in (
            (at.W_JOBS, self._jobs), (at.W_WORST, self._worst), (at.W_OVERRUNS, self._overruns),
        ):  # fmt: skip
            w[place], w[place + 1] = vector.ctypes.data, vector.size
        log = self._pacer.log
        for place, spread in (
            (at.W_LATE, log.lateness), (at.W_COMPUTE, log.compute), (at.W_MARGINS, log.margin),
        ):  # fmt: skip
            w[place], w[place + 1] = spread.bins.ctypes.data, spread.bins.size
            w[place + 2], w[place + 3] = spread.totals.ctypes.data, spread.totals.size
        w[at.W_ALLOWED] = self._pacer.policy.catches_up
        w[at.W_REACHED] = at.NOTHING

    # -- in

    def copy_in(self) -> None:
        """Copy the pacer's present frame into the array, so that compiled code continues it."""
        pacer, w, frame = self._pacer, self.words, self._pacer.frame
        wait = _wait(pacer)
        assert wait is not None
        self._offset = wait.offset
        w[at.W_SIMULATED], w[at.W_OWN] = wait.simulated, wait.own
        w[at.W_NUMERATOR], w[at.W_DENOMINATOR] = wait.numerator, wait.denominator
        w[at.W_SPIN], w[at.W_LEAST_SPIN] = wait.spin, wait.least_spin
        w[at.W_MOST_SPIN], w[at.W_BOUND] = wait.most_spin, wait.bound
        w[at.W_FILE] = -1 if pacer.line is None else pacer.line.file
        w[at.W_REACHED] = at.NOTHING if pacer.reached_ns is None else pacer.reached_ns
        pacer.reached_ns = None
        w[at.W_RESUMED], w[at.W_LAP_AT] = frame.resumed - wait.offset, frame.lap_at - wait.offset
        w[at.W_SPENT], w[at.W_BEGAN_LATE] = frame.spent, frame.began_late
        w[at.W_LATE_BY_WAKE], w[at.W_WOKE_LATE] = frame.late_by_wake, frame.woke_late
        w[at.W_TOLERANCE], w[at.W_MARGIN] = pacer.tolerance_ns, pacer.margin_ns
        w[at.W_TAG] = frame.tag_ns
        w[at.W_CLOSED], w[at.W_NEXT] = frame.closed, frame.next
        w[at.W_CULPRIT], w[at.W_CULPRIT_NS] = self._number(frame.culprit), frame.culprit_ns
        w[at.W_STOOD] = at.NOTHING if frame.stood is None else frame.stood
        w[at.W_LAST_LATE : at.W_LAST_MARGIN + 1] = pacer.log.last
        self._jobs[:] = [frame.jobs.get(name, 0) for name in self._names]
        w[at.W_CONSECUTIVE], w[at.W_COUNTED], w[at.W_FRAME] = pacer.ledger.in_a_row
        self._lend()

    def _number(self, job: str) -> int:
        return at.REST_JOB if job == REST else self._names.index(job) if job else at.NO_JOB

    def _lend(self) -> None:
        """Let compiled code continue with empty buffers."""
        w = self.words
        w[at.W_LEAST], w[at.W_FRAMES] = self._pacer.log.least, 0
        w[at.W_WORST_COUNT], w[at.W_OVERRUN_COUNT] = 0, 0
        brief = BRIEF_NS
        if self._inbox is not None:
            w[at.W_SOCKET], w[at.W_GIVEN_SEEN] = self._inbox.fileno(), self._inbox.given[0]
            brief = min(brief, self._inbox.period_ns or brief)
        w[at.W_BRIEF], w[at.W_LONG] = brief, round(_LONGER * brief)
        w[at.W_CALLED] = self._pacer.read() - self._offset

    # -- out

    def again(self, began: int) -> None:
        """Continue in compiled code; count the time since ``began`` (own ns) as a job."""
        w = self.words
        w[at.W_CALLED] = self._pacer.read() - self._offset
        self._jobs[at.JOB_RECORDING] += w[at.W_CALLED] + self._offset - began
        w[at.W_LAP_AT] += w[at.W_CALLED] + self._offset - began

    def take(self) -> None:
        """Copy the frames and overruns since the last call into the pacer and the recording."""
        w, pacer = self.words, self._pacer
        last = tuple(w[at.W_LAST_LATE : at.W_LAST_MARGIN + 1].tolist())
        frames, worst = int(w[at.W_FRAMES]), list(self._worst_frames())
        rows = self._overruns.reshape(-1, at.OVERRUN_WORDS)[: w[at.W_OVERRUN_COUNT]]
        overruns = CaughtUp(rows.copy(), self._jobs_by_number, pacer.policy.allowed)
        # Marked as taken first: after an interrupt they must not be counted twice.
        w[at.W_FRAMES] = w[at.W_WORST_COUNT] = w[at.W_OVERRUN_COUNT] = 0
        pacer.log.returned(frames, last, worst)
        pacer.ledger.caught_up(overruns, int(w[at.W_CONSECUTIVE]), int(w[at.W_COUNTED]))
        self._trace.caught_up(overruns)
        pacer.margin_ns = int(w[at.W_MARGIN])
        self._lend()

    def _worst_frames(self) -> Iterator[WorstFrame]:
        size = at.WORST_HEAD + self._jobs.size
        rows: NDArray[Any] = self._worst.reshape(-1, size)[: self.words[at.W_WORST_COUNT]]
        keeps = self._pacer.log.keeps_worst
        if len(rows) > keeps:  # after a stall, each frame is late
            worst = np.argsort(-(rows[:, 1] + rows[:, 2]), kind="stable")[:keeps]
            rows = rows[np.sort(worst)]
        for tag, late, compute, *jobs in rows.tolist():
            found = zip(self._names, jobs, strict=True)
            yield WorstFrame(tag, late, compute, {name: ns for name, ns in found if ns})

    def _name(self, job: int) -> str:
        return self._jobs_by_number[job]

    def copy_out(self, undone: bool) -> None:
        """Copy the frame back to the pacer; ``undone``: its tag was waited for, but not run."""
        self.take()
        pacer, frame, w = self._pacer, self._pacer.frame, self.words.tolist()
        frame.resumed, frame.lap_at = w[at.W_RESUMED] + self._offset, w[at.W_LAP_AT] + self._offset
        frame.spent, frame.began_late = w[at.W_SPENT], w[at.W_BEGAN_LATE]
        frame.late_by_wake, frame.woke_late = w[at.W_LATE_BY_WAKE], w[at.W_WOKE_LATE]
        frame.tag_ns = w[at.W_TAG]
        frame.closed, frame.next = bool(w[at.W_CLOSED]), bool(w[at.W_NEXT])
        frame.culprit, frame.culprit_ns = self._name(w[at.W_CULPRIT]), w[at.W_CULPRIT_NS]
        frame.stood = None if w[at.W_STOOD] == at.NOTHING else w[at.W_STOOD]
        frame.jobs.clear()
        jobs = zip(self._names, self._jobs.tolist(), strict=True)
        frame.jobs.update((name, ns) for name, ns in jobs if ns)
        pacer.clock.returned(w[at.W_SPIN], w[at.W_MOST_SPIN])  # type: ignore[attr-defined]
        reached = frame.tag_ns if undone else w[at.W_REACHED]
        pacer.reached_ns = None if reached == at.NOTHING else reached
