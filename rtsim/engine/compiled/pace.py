"""Wait for the tags of a run in real time, in compiled code.

The functions must agree with ``rtsim.timing.pacing.Pacer``, for policies that catch up. In all
functions, ``p`` is the record ``rtsim.engine.compiled.records.PACE``. :class:`PacedFrames` copies
the state of the pacer and its clock into this record, and back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import MONOTONIC, Wait
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled.messages import UNRECORDED, block_of, new_row
from rtsim.engine.compiled.records import (
    FIRST_TASK_JOB,
    JOB_NEXT,
    JOB_RECORDING,
    NO_JOB,
    NO_SAMPLE,
    NOTHING,
    OVERRUN,
    PACE,
    REST_JOB,
    SPREAD,
    WORST_HEAD,
    place_of,
)
from rtsim.engine.trace import Trace
from rtsim.equations.addresses import (
    call_clock,
    call_peek,
    call_read,
    call_sleep,
    record_at,
    records_of,
    words_of,
)
from rtsim.equations.compiling import compiled
from rtsim.timing.frames import FRAME_COLUMNS, NEXT, RECORDING, REST, WorstFrame
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CaughtUp
from rtsim.timing.statistics import LOG_RATIO, SIDE

# Compiled code

BEGIN, AGAIN, HAND_OVER = range(3)
"""Results of :func:`wait`.

``BEGIN``: the tag can begin. ``AGAIN``: Python must take the frames and call again. ``HAND_OVER``:
the interpreter must run the tag.
"""
_ABSOLUTE = 1
_PEEK = 2 | 64
"""``MSG_PEEK | MSG_DONTWAIT`` of Linux."""
_SPARE_NS = 60_000
"""Time that Python needs to take the frames before a sleep, ns."""
_EASE_NS = 20
_FITS = 2**62
_SPARE_SPIN_NS = 20_000


@compiled
def _pace_of(t: Any) -> Any:
    return record_at(t.pace.address, PACE)


@compiled
def now(p: Any) -> int:
    """Return the time of ``CLOCK_MONOTONIC``, ns."""
    call_clock(p.time_call, MONOTONIC, p.time.address)
    time = words_of(p.time)
    return int(time[0] * NS_PER_S + time[1])


@compiled
def divided(ns: int, denominator: int, numerator: int) -> int:
    """Return ``ns * denominator // numerator`` without overflow.

    Numerator and denominator are below 2**62, and the result fits into 64 bits.
    """
    whole = ns // numerator
    rest = ns - whole * numerator  # from 0 up to the numerator
    if rest <= _FITS // denominator:
        return int(whole * denominator + rest * denominator // numerator)
    quotient, left = 0, 0
    for bit in range(61, -1, -1):  # long division of the product, one bit of a factor at a time
        quotient, left = 2 * quotient, 2 * left
        if left >= numerator:
            quotient, left = quotient + 1, left - numerator
        if (denominator >> bit) & 1:
            left += rest
            if left >= numerator:
                quotient, left = quotient + 1, left - numerator
    return int(whole * denominator + quotient)


@compiled
def wait(t: Any, ns: int) -> int:
    """Wait until the simulated time ``ns`` is due; return BEGIN, AGAIN or HAND_OVER."""
    p = _pace_of(t)
    if p.reached == ns:
        p.reached = NOTHING
        return BEGIN
    answer = _wait(p, ns)
    if answer == BEGIN and _commanded(p):
        p.reached = ns
        return HAND_OVER
    return answer


@compiled
def _wait(p: Any, ns: int) -> int:
    arrived = now(p)
    since = divided(p.simulated - ns, p.denominator, p.numerator)
    due = p.own - since
    late = arrived - due
    if _python_is_needed(p, arrived, late):
        return AGAIN
    if late > p.tolerance and not _may_catch_up(p, ns):
        return HAND_OVER
    _note_compute(p, arrived)
    p.margin = p.tolerance - late
    if late >= 0:
        _begin_late(p, ns, arrived, late)
        return BEGIN
    _on_time(p)
    p.culprit_ns, p.stood = -1, NOTHING
    _close(p)
    _begin(p, ns, arrived)
    p.stood_before = _run_delay(p)
    return _sleep_and_spin(p, ns, due)


@compiled
def _python_is_needed(p: Any, arrived: int, late: int) -> bool:
    """Return whether Python must be called.

    Python is called if the buffers are almost full, and at regular intervals.
    """
    row_words = WORST_HEAD + p.jobs.length
    worst_room = p.worst.length - (p.worst_count + 1) * row_words
    if worst_room < 0 or p.overrun_count >= p.overruns.length:
        return True
    since = arrived - p.called
    if since > p.long:
        return True
    return late < -_SPARE_NS and since > p.brief


@compiled
def _commanded(p: Any) -> bool:
    if p.given.length and words_of(p.given)[0] != p.given_seen:
        return True
    if p.socket < 0:
        return False
    # 0: the other end is closed, and Python has to handle this.
    return call_peek(p.peek_call, p.socket, p.text.address, _PEEK) >= 0


@compiled
def _sleep_and_spin(p: Any, ns: int, due: int) -> int:
    slept = False
    bell = due - p.spin
    while now(p) < bell:
        time = words_of(p.time)
        time[0], time[1] = bell // NS_PER_S, bell % NS_PER_S
        if call_sleep(p.sleep_call, MONOTONIC, _ABSOLUTE, p.time.address) != 0:
            p.called = 0  # a signal: Python is called before the next wait
        slept = True
    if slept:
        _retune(p, due - now(p))
    woke = now(p)
    while woke < due:
        woke = now(p)
    late = woke - due
    p.resumed = p.lap_at = woke
    p.woke_late = p.began_late = p.late_by_wake = late
    if late <= p.tolerance:
        return BEGIN
    delay = _run_delay(p)
    if delay >= 0 and p.stood_before >= 0:
        p.stood = delay - p.stood_before
    if not _may_catch_up(p, ns):
        p.closed, p.reached = 1, ns
        return HAND_OVER
    _overrun(p, ns, late, 1, NO_JOB, p.stood)
    return BEGIN


@compiled
def _retune(p: Any, left: int) -> None:
    """Adapt the busy-wait window as :meth:`rtsim.core.clock.WallClock.wait_until` does."""
    spin = p.spin
    if left >= 0:
        if spin > p.least_spin:
            p.spin = max(p.least_spin, spin - _EASE_NS)
    elif spin - left <= p.bound:
        p.spin = min(p.bound, spin - left + _SPARE_SPIN_NS)
        p.most_spin = max(p.most_spin, p.spin)


@compiled
def _begin_late(p: Any, ns: int, arrived: int, late: int) -> None:
    """Begin a tag that is already due.

    The overrun counts as a late wake-up if the wake-up explains more than half of the lateness.
    """
    by_wake = min(p.late_by_wake, late)
    _close(p)
    p.began_late, p.late_by_wake = late, by_wake
    if p.spent > p.culprit_ns:
        p.culprit, p.culprit_ns = _longest_job(p), p.spent
    if late <= p.tolerance:
        _on_time(p)
    elif 2 * by_wake > late:
        _overrun(p, ns, late, 1, NO_JOB, p.stood)
    else:
        _overrun(p, ns, late, 0, p.culprit, NOTHING)
    _begin(p, ns, arrived)


@compiled
def _begin(p: Any, ns: int, arrived: int) -> None:
    p.tag_ns = ns
    p.resumed = p.lap_at = arrived
    p.spent = p.closed = p.next = 0
    jobs = words_of(p.jobs)
    for i in range(jobs.size):
        jobs[i] = 0


@compiled
def _note_compute(p: Any, arrived: int) -> None:
    p.spent += arrived - p.resumed
    p.resumed = arrived
    if p.next:
        words_of(p.jobs)[JOB_NEXT] += arrived - p.lap_at
        p.lap_at = arrived


@compiled
def _close(p: Any) -> None:
    """Add the frame to the log."""
    if p.closed:
        return
    words, columns, row = words_of(p.words), words_of(p.columns), words_of(p.row)
    for i in range(columns.size):
        row[i] = words[columns[i]]
    for i in range(p.spreads.length):
        _count(records_of(p.spreads, SPREAD)[i], row[i])
    p.frames += 1
    if p.began_late + p.spent > p.least:
        jobs, worst = words_of(p.jobs), words_of(p.worst)
        first = p.worst_count * (WORST_HEAD + jobs.size)
        worst[first], worst[first + 1] = p.tag_ns, p.began_late
        worst[first + 2] = p.spent
        for i in range(jobs.size):
            worst[first + WORST_HEAD + i] = jobs[i]
        p.worst_count += 1
    p.woke_late = NO_SAMPLE
    p.closed = 1


@compiled
def _count(spread: Any, sample: int) -> None:
    """Add a sample as :meth:`rtsim.timing.statistics.Spread.add` does."""
    if sample == NO_SAMPLE:
        return
    bins, totals, number = words_of(spread.bins), words_of(spread.totals), 0
    if sample != 0:
        number = int(math.log(float(abs(sample))) / LOG_RATIO) + 1
        if sample < 0:
            number = -number
    bins[SIDE + number] += 1
    totals[0] += 1
    totals[1], totals[2] = min(totals[1], sample), max(totals[2], sample)


@compiled
def _longest_job(p: Any) -> int:
    jobs = words_of(p.jobs)
    longest, total, most = REST_JOB, 0, 0
    for i in range(jobs.size):  # in the order of a frame: tasks, recording, the step
        job = (i + FIRST_TASK_JOB) % jobs.size
        if i >= jobs.size - FIRST_TASK_JOB:
            job = jobs.size - 1 - i
        total += jobs[job]
        if jobs[job] > most:
            longest, most = job, jobs[job]
    if p.spent == 0:
        return NO_JOB
    return longest if most >= p.spent - total else REST_JOB


# Overruns, counted as in rtsim.timing.pacing


@compiled
def _on_time(p: Any) -> None:
    p.consecutive = p.counted = 0


@compiled
def _more(p: Any, ns: int) -> bool:
    return bool(p.consecutive == 0 or ns - p.counted >= p.frame_ns)


@compiled
def _may_catch_up(p: Any, ns: int) -> bool:
    consecutive = p.consecutive
    if _more(p, ns):
        consecutive += 1
    return bool(consecutive <= p.allowed)


@compiled
def _overrun(p: Any, ns: int, late: int, by_wake: int, job: int, stood: int) -> None:
    if _more(p, ns):
        p.consecutive += 1
        p.counted = ns
    row = records_of(p.overruns, OVERRUN)[p.overrun_count]
    row.ns, row.late, row.by_wake = ns, late, by_wake
    row.job, row.stood, row.consecutive = job, stood, p.consecutive
    p.overrun_count += 1


@compiled
def _run_delay(p: Any) -> int:
    """Return how long the thread has waited for a CPU (ns), or NOTHING."""
    if p.file < 0:
        return NOTHING
    text = words_of(p.text)
    count = call_read(p.read_call, p.file, p.text.address, 8 * text.size)
    numbers, figure = 0, 0
    for i in range(count):  # "ran stood times": the second of three decimal numbers
        letter = (text[i // 8] >> (8 * (i % 8))) & 255
        if 48 <= letter <= 57:
            figure = 10 * figure + letter - 48
        else:
            numbers += 1
            if numbers == 2:
                return int(figure)
            figure = 0
    return NOTHING


# Timing within the tag


@compiled
def lap(t: Any, job: int) -> None:
    """Add the time since the last call to the computing time of ``job``."""
    if t.pace.length == 0:
        return
    p = _pace_of(t)
    read = now(p)
    words_of(p.jobs)[job] += read - p.lap_at
    p.lap_at = read


@compiled
def timing_row(t: Any, ns: int) -> bool:
    """Record the timing of the frame that began at ``ns``; return False if the track is full."""
    first = new_row(t, t.timing)
    if first < 0:
        return first == UNRECORDED
    words, row = words_of(block_of(t, t.timing)), words_of(_pace_of(t).row)
    words[first] = ns
    for i in range(row.size):
        words[first + 1 + i] = row[i]
    return True


@compiled
def ready(t: Any) -> None:
    """Note that the tag is complete."""
    lap(t, JOB_RECORDING)
    _pace_of(t).next = 1


# Copies between the pacer with its clock and the record

LONGEST_WAIT_NS = 20_000_000
"""Longest wait in compiled code, ns.

Longer waits are left to the interpreter, because a signal must be able to end them.
"""
BRIEF_NS = 200_000_000
"""Interval between calls of Python, ns. Clients can request a shorter interval."""
_LONGER = 1.4
"""Factor by which this interval grows if the loop has no slack."""
MOST_RATE = 2**62
"""Limit of the rate's numerator and denominator.

Below it, due times fit into 64 bits (see :func:`divided`).
"""
_WORST_ROOM, _OVERRUN_ROOM = 1024, 2048
_TEXT_WORDS = 12
FRAME_WORDS = (
    "spent", "began_late", "late_by_wake", "woke_late", "margin", "tag_ns", "closed", "next",
    "culprit_ns",
)  # fmt: skip
"""Attributes of a frame that are words of the same name and value in the record."""


def unpaceable(pacer: Pacer, step_ns: int) -> str:
    """Return why compiled code cannot wait for tags, or "".

    ``step_ns`` is the longest simulated time (ns) between two tags.
    """
    if type(pacer) is not Pacer:
        return "faults of the loop are declared"
    if unknown := [name for name, of in FRAME_COLUMNS.items() if of not in FRAME_WORDS]:
        return f"compiled code does not measure these columns of timing: {', '.join(unknown)}"
    wait = _lent(pacer)
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


def _lent(pacer: Pacer) -> Wait | None:
    """Return the data for a wait on the pacer's clock, or ``None`` if the clock gives no data."""
    lend = getattr(pacer.clock, "lend", None)
    found: Wait | None = None if lend is None else lend()
    return found


class PacedFrames:
    """A copy of the pacer's state for compiled code."""

    def __init__(
        self, pacer: Pacer, trace: Trace, tasks: list[str], inbox: Inbox | None = None
    ) -> None:
        self._pacer, self._trace, self._inbox = pacer, trace, inbox
        self._names = [NEXT, RECORDING, *tasks]
        self._jobs_by_number = (*self._names, "", REST)
        """The last two entries have the indices NO_JOB (-2) and REST_JOB (-1)."""
        self._jobs = np.zeros(len(self._names), np.int64)
        self._worst = np.zeros(_WORST_ROOM * (WORST_HEAD + self._jobs.size), np.int64)
        self._overruns = np.zeros(_OVERRUN_ROOM, OVERRUN)
        self._offset = 0
        self.record: NDArray[np.void] = np.zeros(1, PACE)
        self.words: Any = self.record[0]
        """The record, whose fields are accessed by name."""
        self.row = np.zeros(len(FRAME_COLUMNS), np.int64)
        """Columns of the frame that was closed last."""
        self._alive: list[NDArray[Any]] = []
        self._fixed()

    def _fixed(self) -> None:
        """Set the fields that stay the same for the whole run."""
        p, wait, log = self.words, _lent(self._pacer), self._pacer.log
        assert wait is not None
        p["time_call"], p["sleep_call"] = wait.calls.clock_gettime, wait.calls.clock_nanosleep
        p["read_call"], p["peek_call"] = wait.calls.pread, wait.calls.recv
        p["socket"] = -1
        at = [PACE.fields[of][1] // 8 for of in FRAME_COLUMNS.values()]  # type: ignore[index]
        spreads = np.zeros(len(log.spreads), SPREAD)
        for row, spread in zip(spreads, log.spreads, strict=True):
            row["bins"], row["totals"] = place_of(spread.bins), place_of(spread.totals)
        vectors = {
            "words": self.record.view(np.int64), "time": np.zeros(2, np.int64),
            "text": np.zeros(_TEXT_WORDS, np.int64), "columns": np.array(at, np.int64),
            "row": self.row,
            "jobs": self._jobs, "spreads": spreads, "worst": self._worst,
            "overruns": self._overruns,
        }  # fmt: skip
        if self._inbox is not None:
            vectors["given"] = self._inbox.given
        for name, vector in vectors.items():
            p[name] = place_of(vector)
        self._alive += vectors.values()
        p["allowed"], p["reached"] = self._pacer.policy.catches_up, NOTHING

    # Into the record

    def copy_in(self) -> None:
        """Copy the state of the pacer into the record."""
        pacer, p, frame = self._pacer, self.words, self._pacer.frame
        wait = _lent(pacer)
        assert wait is not None
        self._offset = wait.offset
        for name in (
            "simulated", "own", "numerator", "denominator", "spin", "least_spin", "most_spin",
            "bound",
        ):  # fmt: skip
            p[name] = getattr(wait, name)
        p["file"] = -1 if pacer.line is None else pacer.line.file
        p["reached"] = NOTHING if pacer.reached_ns is None else pacer.reached_ns
        pacer.reached_ns = None
        for name in FRAME_WORDS:
            p[name] = getattr(frame, name)
        p["resumed"], p["lap_at"] = frame.resumed - wait.offset, frame.lap_at - wait.offset
        p["tolerance"], p["margin"] = pacer.tolerance_ns, pacer.margin_ns
        p["culprit"] = self._number(frame.culprit)
        p["stood"] = NOTHING if frame.stood is None else frame.stood
        self.row[:] = pacer.log.last
        self._jobs[:] = [frame.jobs.get(name, 0) for name in self._names]
        p["consecutive"], p["counted"], p["frame_ns"] = pacer.ledger.in_a_row
        self._lend()

    def _number(self, job: str) -> int:
        return REST_JOB if job == REST else self._names.index(job) if job else NO_JOB

    def _lend(self) -> None:
        """Clear counts and intervals before compiled code continues."""
        p = self.words
        p["least"], p["frames"] = self._pacer.log.least, 0
        p["worst_count"], p["overrun_count"] = 0, 0
        brief = BRIEF_NS
        if self._inbox is not None:
            p["socket"], p["given_seen"] = self._inbox.fileno(), self._inbox.given[0]
            brief = min(brief, self._inbox.period_ns or brief)
        p["brief"], p["long"] = brief, round(_LONGER * brief)
        p["called"] = self._pacer.read() - self._offset

    # Out of the record

    def again(self, began: int) -> None:
        """Continue in compiled code.

        The time since ``began`` (ns of the pacer's clock) counts as time for the recording.
        """
        p = self.words
        p["called"] = self._pacer.read() - self._offset
        self._jobs[JOB_RECORDING] += p["called"] + self._offset - began
        p["lap_at"] += p["called"] + self._offset - began

    def take(self) -> None:
        """Copy frames and overruns into the pacer and the recording."""
        p, pacer = self.words, self._pacer
        frames, worst = int(p["frames"]), list(self._worst_frames())
        rows = (
            self._overruns[: p["overrun_count"]].view(np.int64).reshape(-1, OVERRUN.itemsize // 8)
        )
        overruns = CaughtUp(rows.copy(), self._jobs_by_number, pacer.policy.allowed)
        # The counts are reset first, so that an interrupt cannot make them count twice.
        p["frames"] = p["worst_count"] = p["overrun_count"] = 0
        pacer.log.returned(frames, tuple(self.row.tolist()), worst)
        pacer.ledger.caught_up(overruns, int(p["consecutive"]), int(p["counted"]))
        self._trace.caught_up(overruns)
        pacer.margin_ns = int(p["margin"])
        self._lend()

    def _worst_frames(self) -> Iterator[WorstFrame]:
        size = WORST_HEAD + self._jobs.size
        rows: NDArray[Any] = self._worst.reshape(-1, size)[: self.words["worst_count"]]
        keeps = self._pacer.log.keeps_worst
        if len(rows) > keeps:  # after a stall, each frame is late
            worst = np.argsort(-(rows[:, 1] + rows[:, 2]), kind="stable")[:keeps]
            rows = rows[np.sort(worst)]
        for tag, late, compute, *jobs in rows.tolist():
            found = zip(self._names, jobs, strict=True)
            yield WorstFrame(tag, late, compute, {name: ns for name, ns in found if ns})

    def copy_out(self, undone: bool) -> None:
        """Copy the frame back to the pacer.

        ``undone`` is True if the tag of the frame was undone after the wait.
        """
        self.take()
        pacer, frame, p = self._pacer, self._pacer.frame, self.words
        for name in FRAME_WORDS:
            setattr(frame, name, int(p[name]))
        frame.closed, frame.next = bool(frame.closed), bool(frame.next)
        frame.resumed = int(p["resumed"]) + self._offset
        frame.lap_at = int(p["lap_at"]) + self._offset
        frame.culprit = self._jobs_by_number[p["culprit"]]
        frame.stood = None if p["stood"] == NOTHING else int(p["stood"])
        frame.jobs.clear()
        jobs = zip(self._names, self._jobs.tolist(), strict=True)
        frame.jobs.update((name, ns) for name, ns in jobs if ns)
        pacer.clock.returned(int(p["spin"]), int(p["most_spin"]))  # type: ignore[attr-defined]
        reached = frame.tag_ns if undone else int(p["reached"])
        pacer.reached_ns = None if reached == NOTHING else reached
