"""Overrun replay: timing faults that reproduce the overruns of a recorded run.

The recording contains how late each wait ended and how long each frame computed.  All frames from
the last tag that was on time up to an overrun become faults; the other frames do not.  On a fake
clock, on which computing takes no time, these faults reproduce the overruns to the nanosecond.
Pauses and changes of rate are not reproduced; the run keeps its initial pace.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from rtsim.core.clock import Timeline, exact_rate
from rtsim.core.errors import RecordingError
from rtsim.core.tag import NEVER, NS_PER_S
from rtsim.engine.faults import Fault
from rtsim.engine.faults.description import fault_of
from rtsim.engine.trace import COMMAND, TIMING
from rtsim.record.events import OVERRUN, Event
from rtsim.record.reading import Recording
from rtsim.timing.frames import NO_SAMPLE, REST
from rtsim.timing.pacing import tolerance_ns

_DUE_AT_ONCE = ("slip", "freeze")
"""Actions of an overrun policy that set the due time of a late tag to the time when it begins."""


@dataclass
class _Frame:
    """The frame of the tag at ``ns``; all times in ns of the wall clock, except ``ns``."""

    ns: int
    arrived: int = -1
    """Time from the tag's due time until the loop was ready for it; negative if the loop waited."""
    woken: int = 0
    """Time from the tag's due time until the loop's wait ended."""
    overrun: Event | None = None
    busy: int = 0
    """Compute time of the frame that makes the next frame as late as it was."""
    blamed: str = ""
    """Name of the job to which a later overrun is attributed; empty if no job is named."""

    @property
    def waited(self) -> bool:
        return self.arrived < 0

    @property
    def due_at_once(self) -> bool:
        """True if the overrun policy cancelled the lateness that existed before this frame."""
        return self.overrun is not None and self.overrun.values.get("action") in _DUE_AT_ONCE

    @property
    def began(self) -> int:
        return 0 if self.due_at_once else self.woken if self.waited else self.arrived


def timing_faults(
    recording: Recording, first_ns: int = 0, last_ns: int = NEVER.ns
) -> tuple[Fault, ...]:
    """Return the faults that reproduce the overruns from ``first_ns`` to ``last_ns`` (simulated).

    The returned faults replace the timing faults of the recorded run.  Raises
    :class:`RecordingError` if the recording has no wall-clock times: it must be of a paced run that
    was recorded to its end.
    """
    pace = _pace(recording)
    frames = _frames(recording, pace)
    _compute(frames, pace)
    first = longest = done = 0  # of the frames since the loop was last on time
    busy: list[_Frame] = []
    woken: list[_Frame] = []
    for k, frame in enumerate(frames):
        overran = frame.overrun is not None and first_ns <= frame.ns <= last_ns
        if overran and not frame.waited:
            if done <= first:
                woken.append(frames[first])
            busy += frames[max(first, done) : k]
            done = k
            frames[longest].blamed = _job(frame.overrun)
        elif overran:
            woken.append(frame)
        if frame.waited or frame.due_at_once:
            first = longest = k
        elif frame.busy > frames[longest].busy:
            longest = k
    out = [_fault("late_wake", "loop", frame.ns, frame.woken) for frame in woken]
    for frame in busy:
        kind, where = ("slow_job", f"loop.{frame.blamed}") if frame.blamed else ("stall", "loop")
        out.append(_fault(kind, where, frame.ns, frame.busy))
    return tuple({f.name: f for f in out if f.parameters["amount"] > 0}.values())


def _frames(recording: Recording, pace: Fraction) -> list[_Frame]:
    """Return the frames of the run in order; for the last frames some figures are missing."""
    if TIMING not in recording.tracks or recording.footer is None:
        raise RecordingError(
            f"{recording.source} contains no wall-clock times; overrun-replay needs the "
            "complete recording of a paced run (rtsim run ... --pace 1)"
        )
    tolerances = deque(_tolerances(recording, pace))
    tolerance = 0
    track = recording.track(TIMING)
    frames: list[_Frame] = []
    arrived = -1
    columns = (track.ns, track.integer("wake_lateness"), track.integer("margin"))
    for ns, woken, margin in zip(*(column.tolist() for column in columns), strict=True):
        frames.append(_Frame(ns, arrived, max(0, woken)))
        while tolerances and tolerances[0][0] <= ns:
            tolerance = tolerances.popleft()[1]
        arrived = -1 if margin == NO_SAMPLE else tolerance - margin
    frames.append(_Frame(int(recording.footer["ended"]), arrived))
    overruns = {e.tag.ns: e for e in recording.events if e.kind == OVERRUN}
    for frame in frames:
        frame.overrun = overruns.pop(frame.ns, None)
    last = frames[-1]
    if last.overrun is not None and last.waited:
        last.woken = _amount(last.overrun)
    ended_by = [e for e in overruns.values() if e.tag.ns > last.ns]
    return frames + [_never_began(event, last, pace) for event in ended_by]


def _tolerances(recording: Recording, pace: Fraction) -> list[tuple[int, int]]:
    """Return the tolerance [wall-clock ns] from each simulated time on at which it changed, ns."""
    assert recording.footer is not None
    certificate = recording.footer["certificate"]
    at_the_end = int(certificate["tolerance_ns"])
    commands = [e for e in recording.events if e.kind == COMMAND and e.source == "rate"]
    rates = [(-1, pace)]
    for event in commands:
        rate = json.loads(event.text)["rate"]
        rates += [] if rate == "max" else [(event.tag.ns, exact_rate(rate))]
    period = certificate.get("period_ns", 0)
    found = [(ns, tolerance_ns(period, Timeline(rate, 0).wall)) for ns, rate in rates]
    # a tolerance that was given, or of an older recording, does not follow the rate
    return found if found[-1][1] == at_the_end else [(-1, at_the_end)]


def _never_began(overrun: Event, before: _Frame, pace: Fraction) -> _Frame:
    """Return the unrecorded frame whose overrun ended the run, after the frame ``before``."""
    amount, ns = _amount(overrun), overrun.tag.ns
    handed_on = before.began * pace > ns - before.ns
    if overrun.values.get("cause") == "wake" and not handed_on:
        return _Frame(ns, -1, amount, overrun)
    return _Frame(ns, amount, 0, overrun)


def _amount(overrun: Event) -> int:
    return round(float(overrun.values["amount"]))


def _pace(recording: Recording) -> Fraction:
    """Return the initial pace, with all digits if it equals the final pace in the certificate."""
    pace = str(recording.header["pace"])
    if pace == "max":
        return Fraction(1)
    at_the_end = recording.footer["certificate"]["rate"] if recording.footer else pace
    try:
        exact = Fraction(at_the_end)
    except ValueError:
        return Fraction(pace)
    return exact if f"{float(exact):g}" == pace else Fraction(pace)


def _compute(frames: Sequence[_Frame], pace: Fraction) -> None:
    """Set how long each frame must compute; due times are rounded as the clock rounds them."""
    clock = Timeline(pace, 0)
    for frame, following in pairwise(frames):
        if frame.due_at_once:
            clock.anchor(frame.ns, 0)
        gap = clock.wall(following.ns) - clock.wall(frame.ns)
        frame.busy = gap + following.arrived - frame.began


def _job(overrun: Event | None) -> str:
    """Return the job that the overrun names; empty for a fault or for time outside all jobs."""
    if overrun is None:
        return ""
    job = overrun.source
    named = overrun.values.get("cause") == "compute" and job != REST
    return job if named and not job.startswith("fault.") else ""


def _fault(kind: str, where: str, ns: int, amount: int) -> Fault:
    seconds = {"at": Fraction(ns, NS_PER_S), "amount": Fraction(max(0, amount), NS_PER_S)}
    texts = {name: str(value) for name, value in seconds.items()}
    return fault_of({"name": f"{kind}_{ns}", "where": where, "kind": kind, "count": 1, **texts})
