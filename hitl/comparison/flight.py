"""Compare a closed-loop run of C code or of a board with the run of its reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.execution import MODELLED, Execution, OnTarget
from hitl.comparison.exercise import Effects, FlightCoverage
from hitl.comparison.outputs import C_AGAINST_DESIGN, Sides
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison, compare
from rtsim.record.markup import duration
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import Index, SignalResult, Tolerance, short

# Comparison of two runs of one scenario: rows are paired, then values are compared.

LATE = "Late"
"""Kind of the event for an answer that has not arrived when it is due."""
MISSED = "Missed"
"""Kind of the event for a request that is not sent because the previous one is still pending."""
OVERLAP = "overlap"
"""Name of the failed result for a run that is too short."""
_STEPS = ("initiated_step", "step")
_SIDE = "side"


@dataclass(frozen=True)
class Compared:
    """The verdict on two runs, and their compared rows."""

    comparison: Comparison
    baseline: Recording
    candidate: Recording


class _Track(NamedTuple):
    baseline: TrackData
    candidate: TrackData
    problem: SignalResult | None


def compare_flights(
    baseline: Recording,
    candidate: Recording,
    rules: Mapping[str, Tolerance],
    controllers: Collection[str],
    sides: Sides = C_AGAINST_DESIGN,
) -> Compared:
    """Compare two runs row by row.

    ``controllers`` contains the names of the replaced controllers. ``rules`` are the tolerances of
    :func:`rtsim.record.comparison.compare`. ``sides`` names both runs in texts.
    """
    end, reached = _end(baseline), _end(candidate)
    early, cut = reached < end, first_late(candidate)
    problems = [_overlap(end, reached, candidate, cut, sides)] if early or cut is not None else []
    ours, theirs = dict(baseline.tracks), dict(candidate.tracks)
    lacking: set[str] = set()
    for name, track in sorted(baseline.tracks.items()):
        if not track.spec.deterministic:
            continue
        other = theirs.get(name, replace(track, words=track.words[:0]))
        paired = _paired(track, other, end, cut, sides)
        ours[name], theirs[name] = paired.baseline, paired.candidate
        source = name.removeprefix("messages/")
        # Tracks are sorted by name, so a controller's answers precede its requests.
        counts = source in controllers if early else source.removesuffix(".inputs") not in lacking
        if paired.problem is not None and counts:
            problems.append(paired.problem)
            lacking.add(source)
    pair = replace(baseline, tracks=ours), replace(candidate, tracks=theirs)
    found = compare(*pair, rules)
    kept = [r for r in found.results if r.rows or not _had_rows(baseline, r.name)]
    held = replace(
        found, results=[*problems, *kept], undecided=[]
    )  # the run's own fields say whether it was undecided
    return Compared(held, *pair)


def first_late(candidate: Recording) -> int | None:
    """Return the time (ns) of the first request with a late answer, or ``None``.

    An answer for which the run waited is not late.
    """
    asked = [
        e.tag.ns - int(e.values["allowed"])
        for e in candidate.events
        if e.kind == LATE
        and not _answered(candidate, e.source, e.tag.ns - int(e.values["allowed"]))
    ]
    return min(asked, default=None)


def _answered(candidate: Recording, controller: str, ns: int) -> bool:
    track = candidate.tracks.get(f"messages/{controller}")
    return track is not None and bool((track.ns == ns).any())


def _overlap(
    end: int, reached: int, candidate: Recording, cut: int | None, sides: Sides
) -> SignalResult:
    if cut is None:
        flight = f"the run with the {sides.translation}"
        reason = f"{flight} ends at {short(Tag(reached))} of {short(Tag(end))}"
        if reached < 0:
            reason = f"{flight} has no rows; expected rows up to {short(Tag(end))}"
        return SignalResult(OVERLAP, "s", reason=reason)
    count = sum(e.kind == LATE for e in candidate.events)
    answers = "1 answer was Late" if count == 1 else f"{count} answers were Late"
    reason = (
        f"{answers}; compared up to the request of the first late answer, at "
        f"{short(Tag(cut))} of {short(Tag(end))}"
    )
    return SignalResult(OVERLAP, "s", reason=reason)


def _end(recording: Recording) -> int:
    tracks = [t for t in recording.tracks.values() if t.spec.deterministic and len(t)]
    return max((int(t.ns.max()) for t in tracks), default=-1)


def _had_rows(recording: Recording, signal: str) -> bool:
    track = recording.tracks.get(signal.rpartition(".")[0])
    return track is not None and len(track) > 0


def _paired(a: TrackData, b: TrackData, end: int, cut: int | None, sides: Sides) -> _Track:
    a, b = _considered(a, end, cut), _considered(b, end, cut)
    left, right = _together(_keys(a), _keys(b))
    return _Track(_only(a, left), _only(b, right), _problem(a, left, b, right, sides))


def _considered(track: TrackData, end: int, cut: int | None) -> TrackData:
    ns = track.ns
    return _only(track, np.flatnonzero(ns <= end if cut is None else ns < cut))


def _only(track: TrackData, rows: Index) -> TrackData:
    return replace(track, words=track.words[rows])


def _keys(track: TrackData) -> NDArray[np.int64]:
    ns = track.ns
    step = next((track.integer(name) for name in _STEPS if name in track.integers), 0 * ns)
    return np.stack([ns, step, _sides(track)], axis=1)


def _sides(track: TrackData) -> NDArray[np.int64]:
    """Return 1 for each row ``x+`` (after the changes at a tag), 0 for other rows, shape (n,)."""
    return track.integer(_SIDE) if _SIDE in track.integers else 0 * track.ns


def _problem(
    a: TrackData, left: Index, b: TrackData, right: Index, sides: Sides
) -> SignalResult | None:
    name = f"{a.name} (rows)"
    missing = np.setdiff1d(np.flatnonzero(_sides(a) == 0), left)
    if len(missing):
        tag = _tag(a, missing)
        count = int((_sides(a) == 0).sum())
        first = f"the first missing row is at {short(tag)}"
        reason = f"{count - len(missing)} of {count} rows; {first}"
        return SignalResult(name, first_failed=tag, reason=reason)
    more = np.setdiff1d(np.arange(len(b)), right)
    if len(more) and _SIDE not in b.integers:
        tag = _tag(b, more)
        reason = f"{len(more)} rows more than with the {sides.reference}, from {short(tag)} on"
        return SignalResult(name, first_failed=tag, reason=reason)
    return None


def _tag(track: TrackData, rows: Index) -> Tag:
    ns, step, _ = _keys(track)[rows[0]].tolist()
    return Tag(ns, step)


def _together(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[Index, Index]:
    _, ids = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    ids = ids.reshape(-1)
    most = len(ids) + 1
    ours, theirs = (_occurrence(part) + most * part for part in np.split(ids, [len(a)]))
    _, left, right = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    order = np.argsort(left)
    return left[order], right[order]


def _occurrence(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.searchsorted(ordered, ordered)
    out = np.empty(len(ids), np.int64)
    out[order] = np.arange(len(ids)) - starts
    return out


class EnvironmentFailure(NamedTuple):
    """A failure of the environment, because of which the run counts only up to ``since_ns``."""

    since_ns: int
    why: str
    slow: bool = False
    """True if this host was too slow."""
    ended: bool = True
    """True if an error that ended the run does not count as a failure of the translation."""


@dataclass(frozen=True, eq=False)
class LoopComparison(Judged):
    """Comparison of a closed-loop run of C code or a board with the run of its reference."""

    comparison: Comparison
    baseline: Recording
    candidate: Recording
    paired: tuple[Recording, Recording]
    """The rows of both runs that were compared."""
    error: str = ""
    """The error that ended the run early, or ""."""
    held_up: bool = False
    """True if the run ended early because this host fell behind the wall clock."""
    late: int = 0
    missed: int = 0
    execution: Mapping[str, Execution] = field(default_factory=dict)
    sides: Sides = C_AGAINST_DESIGN
    targets: Mapping[str, OnTarget] = field(default_factory=dict)
    """Reports and measurements of each board, by controller."""
    environment: EnvironmentFailure | None = None
    """The failure of the environment that affected the run, or ``None``."""
    effects: Mapping[str, Effects] = field(default_factory=dict)
    """The numbers of requests and effective answers of each controller."""
    covered: FlightCoverage = FlightCoverage()

    def _judge(self) -> Outcome:
        ended = self._excused and (self.environment is None or self.environment.ended)
        if self._charged or (self.error and not ended):
            return Outcome.FAILED
        complete = not self.error and not self.comparison.failures
        effective = not self.effects or any(effect.any for effect in self.effects.values())
        compared = any(result.rows for result in self.comparison.results)
        return Outcome.PASSED if complete and effective and compared else Outcome.UNDECIDED

    @property
    def slipped(self) -> int:
        """Time (ns) by which emulated boards fell behind, because this host was slow."""
        paced = [t.pacing for t in self.targets.values() if t.pacing is not None]
        return sum(pacing.slipped_ns for pacing in paced if pacing.slips)

    @property
    def too_slow(self) -> bool:
        return (
            self.held_up
            or self.slipped > 0
            or (self.environment is not None and self.environment.slow)
        )

    @property
    def _excused(self) -> bool:
        return self.held_up or self.slipped > 0 or self.environment is not None

    @property
    def _charged(self) -> list[SignalResult]:
        return [r for r in self.comparison.failures if not self.excuses(r)]

    def excuses(self, result: SignalResult) -> bool:
        """Return True if the environment caused the failure."""
        if not result.reason or not self._excused:
            return False
        since = self.candidate.end_ns if self.environment is None else self.environment.since_ns
        first = result.first_failed
        return result.name == OVERLAP or (first is not None and first.ns >= since)

    @property
    def undecided(self) -> str:
        if self._judge() is not Outcome.UNDECIDED:
            return ""
        if self._excused:
            why = (
                self.environment.why if self.environment and not self.slipped else time_needed(self)
            )
            return self.error or why
        reasons = [effect.nothing(name) for name, effect in self.effects.items()]
        return "; ".join(filter(None, reasons)) or "there were no rows to compare"

    @property
    def first(self) -> SignalResult | None:
        failed = [r for r in self.comparison.failures if r.first_failed is not None]
        return min(failed, key=lambda r: r.first_failed or (0, 0), default=None)

    def failure(self, result: SignalResult) -> str:
        """Return a sentence about the first failure, with the values of both runs."""
        text = f"{result.name}: {result.reason}"
        pair = self.values(result)
        if pair is None:
            return text
        text += f"; with the {self.sides.reference} {pair[0]}"
        text += f", with the {self.sides.translation} {pair[1]}"
        return f"{text}, allowed {allowance(result)}"

    def values(self, result: SignalResult) -> tuple[str, str] | None:
        """Return the values of both runs at the first failure, as text."""
        name, _, signal = result.name.rpartition(".")
        a, b = (recording.tracks.get(name) for recording in self.paired)
        if result.first_failed is None or a is None or b is None or signal not in a.signals:
            return None
        rows = _rows_at(a, *result.first_failed), _rows_at(b, *result.first_failed)
        for one, other in zip(*rows, strict=False):
            x, y = np.array(a.column(signal)[one]), np.array(b.column(signal)[other])
            if not np.array_equal(x, y, equal_nan=True):
                return str(x.tolist()), str(y.tolist())
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            **self.comparison.to_json(),
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "undecided": self.undecided,
            "covered": self.covered.to_json(),
            "effects": {name: effect.to_json() for name, effect in self.effects.items()},
            "error": self.error,
            "late": self.late,
            "missed": self.missed,
            "execution": {name: e.to_json() for name, e in self.execution.items()},
            "targets": {name: t.to_json() for name, t in self.targets.items()},
        }


def allowance(result: SignalResult) -> str:
    """Return the tolerance as text, such as ``max(1e-06 V, 1e-09 of the reference's value)``."""
    absolute, relative = result.tolerance
    unit = "" if result.unit in ("", "1") else f" {result.unit}"
    if relative == 0.0:
        return f"{absolute:g}{unit}" if absolute else "no difference"
    return f"max({absolute:g}{unit}, {relative:g} of the reference's value)"


def time_needed(flight: LoopComparison) -> str:
    """Return a sentence with a remedy against late answers."""
    if flight.slipped:
        return (
            f"this host was too slow for the emulator, which lost {duration(flight.slipped)} "
            "against the clock: end other programs on this host, or run with --pace max"
        )
    exchanges = [t.exchange for t in flight.targets.values() if t.exchange is not None]
    more = "allow more time (--latency), or run with --pace max"
    if not exchanges:
        return more
    longest = max(exchange.max for exchange in exchanges)
    if any(exchange.clock == MODELLED for exchange in exchanges):
        return f"execution, firmware and wire alone take up to {duration(longest)}: {more}"
    tenths = -(-longest * 105 // 10_000_000)  # tenths of a ms, with a margin of 5 %
    return (
        f"the longest exchange observed took {duration(longest)}: allow more time, such as "
        f"--latency {tenths / 10_000:g}"
    )


def _rows_at(track: TrackData, ns: int, microstep: int) -> list[int]:
    there = track.rows.ns == ns
    if "step" in track.integers:
        there = there & (track.integer("step") == microstep)
    return [int(i) for i in np.flatnonzero(there)]
