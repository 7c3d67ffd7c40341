"""A bad day on the bench, played again: faults of timing that make the overruns of a recording.

From what each frame recorded: late wakes, and computing that took too long, of every frame between
an overrun and the last tag before it that the loop was ready for in time.  The others were on time,
and so they are without a fault.  Under a fake clock, on which computing takes no time, these faults
make the same overruns to the ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from rtsim.clock import exact_rate
from rtsim.control.commands import from_json
from rtsim.errors import RecordingError
from rtsim.faults import Fault
from rtsim.record.event import Event
from rtsim.record.reading import Recording
from rtsim.tag import NS_PER_S
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.pacing import REST
from rtsim.trace import COMMAND, OVERRUN, TIMING

_DUE_AT_ONCE = ("slip", "freeze")
"""What these policies do about a late tag: it is due when it begins."""
_STANDS = ("pause", "step", "rate")
"""After these commands the clock is anchored anew."""


@dataclass
class _Frame:
    """The tag at ``ns``, own ns: ``arrived`` after it was due, below 0 before it."""

    ns: int
    arrived: int
    woken: int = 0
    """How late the wait ended."""
    due_at_once: bool = False
    """What was late before it is forgotten after it."""
    overrun: Event | None = None
    job: str = ""
    """What took most of it, where an overrun says so."""

    @property
    def waited(self) -> bool:
        return self.arrived < 0

    @property
    def began(self) -> int:
        return 0 if self.due_at_once else self.woken if self.waited else self.arrived


def timing_faults(recording: Recording) -> tuple[Fault, ...]:
    """Faults that make the overruns of a paced run again; none where it had none.

    They take the place of the timing faults that it was flown with.  Raises
    :class:`RecordingError` where it does not say when its tags began.
    """
    frames = _frames(recording)
    computed = _computed(recording, frames)
    late = [k for k, frame in enumerate(frames) if frame.overrun is not None]
    chains: list[range] = []
    done = 0
    for k in late:
        start = k
        while start > done and not (frames[start].waited or frames[start - 1].due_at_once):
            start -= 1
        if not frames[start].waited and start > done:
            start -= 1  # due at once: what was computed since is to blame
        chains.append(range(start, k))
        done = k
    wakes = sorted({c.start for c in chains} | set(late))
    _name_jobs(frames, computed, chains)
    out = [_fault("late_wake", "loop", frames[k].ns, frames[k].woken) for k in wakes]
    for k in sorted({k for chain in chains for k in chain}):
        job = frames[k].job
        kind, where = ("slow_job", f"loop.{job}") if job else ("stall", "loop")
        out.append(_fault(kind, where, frames[k].ns, computed[k]))
    return tuple(fault for fault in out if fault.parameters["amount"] > 0)


def _frames(recording: Recording) -> list[_Frame]:
    """Every tag that was waited for, the first at the start of the recording."""
    if TIMING not in recording.tracks or recording.footer is None:
        raise RecordingError(
            f"{recording.source} does not say when its tags began; it takes a paced run "
            "(rtsim run ... --pace 1) that was recorded to its end"
        )
    tolerance = int(recording.footer["certificate"]["tolerance_ns"])
    track = recording.track(TIMING)
    columns = (track.rows.ns, track.integer("wake_lateness"), track.integer("margin"))
    frames = [_Frame(int(recording.header.get("continues", {}).get("ns", 0)), 0)]
    for ns, woken, margin in zip(*(column.tolist() for column in columns), strict=True):
        frames[-1].woken = max(0, woken)
        frames.append(_Frame(ns, 0 if margin == NO_SAMPLE else tolerance - margin))
    anchored = {e.tag.ns for e in recording.events if e.kind == COMMAND and e.source in _STANDS}
    overruns = {e.tag.ns: e for e in recording.events if e.kind == OVERRUN}
    for frame in frames:
        frame.overrun = overruns.pop(frame.ns, None)
        action = "" if frame.overrun is None else frame.overrun.values.get("action")
        frame.due_at_once = action in _DUE_AT_ONCE or frame.ns in anchored
    frames += [_ended_by(event, frames[-1]) for event in overruns.values()]
    return frames


def _ended_by(overrun: Event, before: _Frame) -> _Frame:
    """The tag that ended the run never began: only its overrun is recorded."""
    amount = round(float(overrun.values["amount"]))
    handed_on = before.began > overrun.tag.ns - before.ns
    if overrun.values.get("cause") == "wake" and not handed_on:
        return _Frame(overrun.tag.ns, -1, woken=amount, overrun=overrun)
    return _Frame(overrun.tag.ns, amount, overrun=overrun)


def _computed(recording: Recording, frames: Sequence[_Frame]) -> list[int]:
    """Own ns from when each tag began to when the loop was ready for the next."""
    rates = _rates(recording)
    out = []
    rate = exact_rate(1)
    for frame, following in pairwise(frames):
        rate = rates.get(frame.ns, rate) if frame.ns else rates[0]
        gap = -(-(following.ns - frame.ns) * rate.denominator // rate.numerator)
        out.append(gap + following.arrived - frame.began)
    return out


def _rates(recording: Recording) -> Mapping[int, Fraction]:
    """By the ns from which each holds; 0 for the one at the start."""
    pace = str(recording.header["pace"])
    rates = {0: exact_rate(1 if pace == "max" else float(pace))}
    for event in recording.events:
        if event.kind == COMMAND and event.source == "rate":
            told = from_json(event.text).arguments["rate"]
            if not isinstance(told, str):
                rates[event.tag.ns] = exact_rate(float(told))  # type: ignore[arg-type]
    return rates


def _name_jobs(frames: Sequence[_Frame], computed: Sequence[int], chains: Sequence[range]) -> None:
    """An overrun names the job of the longest frame since the loop was last on time."""
    for chain in chains:
        event = frames[chain.stop].overrun
        first = chain.start
        while first and not (frames[first].waited or frames[first].due_at_once):
            first -= 1
        since = range(first, chain.stop)
        if event is None or not since:
            continue
        job = event.source
        if event.values.get("cause") == "compute" and job != REST and not job.startswith("fault."):
            frames[max(since, key=computed.__getitem__)].job = job


def _fault(kind: str, where: str, ns: int, amount: int) -> Fault:
    seconds = {"at": Fraction(ns, NS_PER_S), "amount": Fraction(max(0, amount), NS_PER_S)}
    texts = {name: str(value) for name, value in seconds.items()}
    return Fault.of({"name": f"{kind}_{ns}", "where": where, "kind": kind, "count": 1, **texts})
