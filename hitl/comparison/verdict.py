"""What came of a back-to-back comparison: verdicts, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hitl.comparison.execution import MODELLED, Execution
from hitl.comparison.exercise import Covered, Effects
from hitl.comparison.flights import OVERLAP
from hitl.comparison.mismatches import reservation
from hitl.comparison.on_target import OnTarget
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.sides import C_AGAINST_DESIGN, Sides
from rtsim.errors import RtsimError
from rtsim.record.comparison import Comparison
from rtsim.record.fault_marks import Acted
from rtsim.record.markup import duration
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import Outcome, SignalResult, short
from rtsim.tag import Tag

_WHICH = re.compile(r"process \d+|[\d.]+ s(?: \+\d+)?")
"""In an error: the process, and the tag."""


class Spoiled(NamedTuple):
    """From when on (ns) a flight says nothing of the translation, and why."""

    since_ns: int
    why: str
    slow: bool = False
    """This host was too slow."""
    ended: bool = True
    """So the error that ended the flight, if one did, is no fault of the translation's."""


class Undecided(RtsimError):
    """A comparison that could not be decided; a failure would be an AssertionError."""


@dataclass(frozen=True, eq=False)
class Flight:
    """The scenario with the translation in the loop, against the one with the design."""

    comparison: Comparison
    baseline: Recording
    flown: Recording
    paired: tuple[Recording, Recording]
    """Of both the rows that were compared."""
    error: str = ""
    """What ended it early."""
    held_up: bool = False
    """This host did, which fell behind the clock."""
    late: int = 0
    missed: int = 0
    execution: Mapping[str, Execution] = field(default_factory=dict)
    sides: Sides = C_AGAINST_DESIGN
    targets: Mapping[str, OnTarget] = field(default_factory=dict)
    """What boards measured of themselves, by controller."""
    spoiled: Spoiled | None = None
    """What was around the controllers, and not they themselves, that spoiled the flight."""
    effects: Mapping[str, Effects] = field(default_factory=dict)
    """What became of the answers of each controller."""
    covered: Covered = Covered()

    @property
    def outcome(self) -> Outcome:
        """Failed where the translation does; undecided where something else came between."""
        ended = self._excused and (self.spoiled is None or self.spoiled.ended)
        if self._charged or (self.error and not ended):
            return Outcome.FAILED
        complete = not self.error and not self.comparison.failures
        effective = not self.effects or any(effect.any for effect in self.effects.values())
        compared = any(result.rows for result in self.comparison.results)
        return Outcome.PASSED if complete and effective and compared else Outcome.UNDECIDED

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def slipped(self) -> int:
        """What emulators of boards in real time lost, ns: this host's doing too."""
        paced = [t.pacing for t in self.targets.values() if t.pacing is not None]
        return sum(pacing.slipped_ns for pacing in paced if pacing.slips)

    @property
    def too_slow(self) -> bool:
        """All that came between is that this host did not keep up with the clock."""
        return self.held_up or self.slipped > 0 or (self.spoiled is not None and self.spoiled.slow)

    @property
    def _excused(self) -> bool:
        return self.held_up or self.slipped > 0 or self.spoiled is not None

    @property
    def _charged(self) -> list[SignalResult]:
        """Failures that nothing excuses but the translation."""
        return [r for r in self.comparison.failures if not self.excuses(r)]

    def excuses(self, result: SignalResult) -> bool:
        """It fails, by what came between and not by the translation."""
        if result.ok or not self._excused:
            return False
        since = self.flown.end_ns if self.spoiled is None else self.spoiled.since_ns
        first = result.first_failed
        return result.name == OVERLAP or (first is not None and first.ns >= since)

    @property
    def undecided(self) -> str:
        """Why nothing can be said, in words; empty where something can."""
        if self.outcome is not Outcome.UNDECIDED:
            return ""
        if self._excused:
            return self.error or (self.spoiled.why if self.spoiled else _time(self))
        reasons = [effect.nothing(name) for name, effect in self.effects.items()]
        return "; ".join(filter(None, reasons)) or "there was no row to compare"

    @property
    def first(self) -> SignalResult | None:
        """The failure with the earliest tag."""
        failed = [r for r in self.comparison.failures if r.first_failed is not None]
        return min(failed, key=lambda r: r.first_failed or (0, 0), default=None)

    def failure(self, result: SignalResult) -> str:
        """Where a signal fails, and its values there."""
        text = f"{result.name}: {result.reason}"
        pair = self.values(result)
        if pair is None:
            return text
        text += f"; with the {self.sides.design} {pair[0]}"
        text += f", with the {self.sides.translation} {pair[1]}"
        return f"{text}, allowed {allowance(result)}"

    def values(self, result: SignalResult) -> tuple[str, str] | None:
        """Of both flights, where the signal first fails."""
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
            "ok": self.ok,
            "outcome": self.outcome.name.lower(),
            "undecided": self.undecided,
            "covered": self.covered.to_json(),
            "effects": {name: effect.to_json() for name, effect in self.effects.items()},
            "error": self.error,
            "late": self.late,
            "missed": self.missed,
            "execution": {name: e.to_json() for name, e in self.execution.items()},
            "targets": {name: t.to_json() for name, t in self.targets.items()},
        }


@dataclass(frozen=True, eq=False)
class BackToBack:
    """All of it.  ``flight`` is ``None`` where only the open loop was asked for."""

    scenario: str
    open: dict[str, OpenLoop]
    """By controller."""
    flight: Flight | None = None
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    sides: Sides = C_AGAINST_DESIGN
    faults: tuple[Acted, ...] = ()
    """What was to go wrong on purpose, and how often it did."""

    @property
    def pairs(self) -> tuple[BackToBack, ...]:
        """Who was held against whom, one after the other: only these two."""
        return (self,)

    @property
    def outcome(self) -> Outcome:
        """Of the open loops and of the flight together."""
        flown = [] if self.flight is None else [self.flight.outcome]
        return Outcome.of_all([*(loop.outcome for loop in self.open.values()), *flown])

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def closed(self) -> Comparison | None:
        """The verdict on each signal of the flight."""
        return None if self.flight is None else self.flight.comparison

    @property
    def first_failed(self) -> OpenLoop | None:
        """The open loop that fails earliest."""
        failed = [loop for loop in self.open.values() if loop.outcome is Outcome.FAILED]
        return min(failed, key=_when, default=None)

    @property
    def explanation(self) -> str:
        """Where the closed loop fails, whether the open loop already does; else empty."""
        flight = self.flight
        if flight is None or flight.ok or not (flight.error or flight.comparison.failures):
            return ""
        failed = self.first_failed
        if failed is not None:
            moment = failed.first_moment
            where = headline(failed.in_words) if failed.error or moment is None else moment.where
            return f"The open loop already fails: {where}"
        agreed = "; ".join(loop.in_words for loop in self.open.values())
        return (
            f"The open loop agrees ({agreed}), so look at the loop: {_what_the_loop_adds(flight)}"
        )

    @property
    def closed_in_words(self) -> str:
        """The first thing that fails in the loop; empty where nothing does.

        What a process said at its end is left out where the open loop says it already.
        """
        flight = self.flight
        if flight is None or flight.ok:
            return ""
        if not flight.error and not flight.comparison.failures:
            return flight.undecided
        if not flight.error:
            return flight.failure(flight.first or flight.comparison.failures[0])
        first = headline(flight.error)
        told = any(_alike(first, headline(loop.error)) for loop in self.open.values())
        return first if told else flight.error

    @property
    def in_words(self) -> str:
        """The verdict, with the first failure of the open and of the closed loop."""
        if self.ok:
            how = ", in open loop" if self.flight is None else ", in open and in closed loop"
            return f"{self.scenario}: {self.statement}{how}{reservation(self.reserved)}"
        return "\n".join([f"{self.scenario}: {self.statement}", *self.why])

    @property
    def statement(self) -> str:
        """``the C does what its design does``, or does not, or nobody knows."""
        who = f"the {self.sides.translation}"
        if self.outcome is not Outcome.UNDECIDED:
            return f"{who} {'does' if self.ok else 'does not do'} {self.sides.aim}"
        decided = all(loop.ok for loop in self.open.values())
        if decided and self.flight is not None and self.flight.too_slow:
            return f"this host was too slow to say whether {who} does {self.sides.aim}"
        return f"it could not be decided whether {who} does {self.sides.aim}"

    @property
    def why(self) -> list[str]:
        """The first failure of the open and of the closed loop; empty where there is none."""
        lines = [f"open loop: {loop.in_words}" for loop in self.open.values() if not loop.ok]
        if self.flight is not None and not self.flight.ok:
            lines += [f"closed loop: {self.closed_in_words}", self.explanation]
        return [line for line in lines if line]

    @property
    def reserved(self) -> list[str]:
        """What a verdict that all is well does not cover, and cannot do without saying."""
        out = [
            f"{name}.{column} never moved"
            for name, loop in self.open.items()
            for column in loop.exercise.still_outputs
        ]
        effects = {} if self.flight is None else self.flight.effects
        out += filter(None, (effect.nothing(name) for name, effect in effects.items()))
        never = [fault.name for fault in self.faults if not fault.activations]
        return [*out, *([f"these faults never acted: {', '.join(never)}"] if never else [])]

    @property
    def unexercised(self) -> list[str]:
        """Everything that was not put to the test, in sentences."""
        out = [
            f"{name}: {words}"
            for name, loop in self.open.items()
            for words in loop.exercise.in_words
        ]
        return [*out, *(text for text in self.reserved if not text.endswith(" never moved"))]

    @property
    def coverage(self) -> list[str]:
        """What was compared, in sentences."""
        out = [f"open loop of {loop.covered}" for loop in self.open.values()]
        if self.flight is not None:
            out.append(f"closed loop: {self.flight.covered.in_words}")
        return out

    def assert_ok(self) -> None:
        """Raise :class:`AssertionError` that names signal, step and values.

        :class:`Undecided` where nothing can be said of the translation.
        """
        refuse(self.outcome, self.in_words)

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is not finite is ``None``."""
        return {
            "scenario": self.scenario,
            "sides": list(self.sides),
            "ok": self.ok,
            "outcome": self.outcome.name.lower(),
            "settings": self.settings,
            "notes": list(self.notes),
            "covered": self.coverage,
            "not_exercised": self.unexercised,
            "open": {name: loop.to_json() for name, loop in self.open.items()},
            "closed": None if self.flight is None else self.flight.to_json(),
            "explanation": self.explanation,
        }


def refuse(outcome: Outcome, told: str) -> None:
    """Raise what belongs to an outcome that is none of success."""
    if outcome is Outcome.FAILED:
        raise AssertionError(told)
    if outcome is Outcome.UNDECIDED:
        raise Undecided(told)


def headline(error: str) -> str:
    """An error without what the process said, its inputs and its case."""
    return error.partition("\n")[0].removesuffix("; it said:")


def _alike(error: str, told: str) -> bool:
    """The same end of the same controller, whichever process and step it was."""
    return _WHICH.sub("", error) in _WHICH.sub("", told)


def allowance(result: SignalResult) -> str:
    """The tolerance in words."""
    absolute, relative = result.tolerance
    unit = "" if result.unit in ("", "1") else f" {result.unit}"
    if relative == 0.0:
        return f"{absolute:g}{unit}" if absolute else "no difference"
    return f"max({absolute:g}{unit}, {relative:g} of the design's)"


def _what_the_loop_adds(flight: Flight) -> str:
    """Why it may fail where each step agrees."""
    if flight.held_up or (flight.error and flight.outcome is Outcome.UNDECIDED):
        who = flight.sides.translation
        return f"the flight ended early by this host's doing, not the {who}'s: {flight.error}"
    if flight.error:
        return f"the flight ended early, at {short(Tag(flight.flown.end_ns))}"
    if flight.late or flight.missed:
        return (
            f"{flight.late} answers were late and {flight.missed} requests missed; {_time(flight)}"
        )
    return (
        "it makes more of differences that the open loop allows, as a loop near its limit of "
        "stability does (try less --latency), or the "
        f"{flight.sides.translation} depends on more than its inputs; hold the open loop to a "
        "smaller tolerance"
    )


def _time(flight: Flight) -> str:
    """What to do about answers that are late."""
    if flight.slipped:
        return (
            f"the emulator could not keep up with the clock and lost {duration(flight.slipped)}, "
            "which is this host's doing, not the board's: leave it more of the processor, or fly "
            "with --pace max"
        )
    exchanges = [t.exchange for t in flight.targets.values() if t.exchange is not None]
    more = "allow more time (--latency), or fly with --pace max"
    if not exchanges:
        return more
    longest = max(exchange.max for exchange in exchanges)
    if any(exchange.clock == MODELLED for exchange in exchanges):
        return f"execution and wire alone take up to {duration(longest)}: {more}"
    tenths = -(-longest * 105 // 10_000_000)  # of ms, and 5 % more
    return (
        f"the longest exchange observed took {duration(longest)}: allow more time, such as "
        f"--latency {tenths / 10_000:g}"
    )


def _when(loop: OpenLoop) -> tuple[int, int]:
    """The tag of its first failure; its end, where no step fails."""
    first = loop.first
    ns, microstep = loop.tag(loop.steps - 1 if first is None else first.step)
    return ns, microstep


def _rows_at(track: TrackData, ns: int, microstep: int) -> list[int]:
    there = track.rows.ns == ns
    if "step" in track.integers:
        there = there & (track.integer("step") == microstep)
    return [int(i) for i in np.flatnonzero(there)]
