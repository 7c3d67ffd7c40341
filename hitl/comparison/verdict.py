"""What came of a back-to-back comparison: verdicts, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hitl.comparison.execution import MODELLED, Execution
from hitl.comparison.flights import OVERLAP
from hitl.comparison.mismatches import reservation
from hitl.comparison.on_target import OnTarget
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.sides import C_AGAINST_DESIGN, Sides
from rtsim.record.comparison import Comparison
from rtsim.record.markup import duration
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import SignalResult, short
from rtsim.tag import Tag

_WHICH = re.compile(r"process \d+|[\d.]+ s(?: \+\d+)?")
"""In an error: the process, and the tag."""


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

    @property
    def ok(self) -> bool:
        return self.comparison.ok and not self.error

    @property
    def slipped(self) -> int:
        """What emulators of boards in real time lost, ns: this host's doing too."""
        paced = [t.pacing for t in self.targets.values() if t.pacing is not None]
        return sum(pacing.slipped_ns for pacing in paced if pacing.slips)

    @property
    def undecided(self) -> bool:
        """All that fails is the part for which this host was too slow."""
        end = self.flown.end_ns
        held_up = self.held_up or self.slipped > 0
        return (
            held_up
            and not self.ok
            and all(
                r.name == OVERLAP or (r.first_failed is not None and r.first_failed.ns >= end)
                for r in self.comparison.failures
            )
        )

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

    @property
    def pairs(self) -> tuple[BackToBack, ...]:
        """Who was held against whom, one after the other: only these two."""
        return (self,)

    @property
    def ok(self) -> bool:
        return all(loop.ok for loop in self.open.values()) and (
            self.flight is None or self.flight.ok
        )

    @property
    def closed(self) -> Comparison | None:
        """The verdict on each signal of the flight."""
        return None if self.flight is None else self.flight.comparison

    @property
    def first_failed(self) -> OpenLoop | None:
        """The open loop that fails earliest."""
        failed = [loop for loop in self.open.values() if not loop.ok]
        return min(failed, key=_when, default=None)

    @property
    def explanation(self) -> str:
        """Where the closed loop fails, whether the open loop already does; else empty."""
        flight = self.flight
        if flight is None or flight.ok:
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
        if not flight.error:
            return flight.failure(flight.first or flight.comparison.failures[0])
        first = headline(flight.error)
        told = any(_alike(first, headline(loop.error)) for loop in self.open.values())
        return first if told else flight.error

    @property
    def in_words(self) -> str:
        """The verdict, with the first failure of the open and of the closed loop."""
        if self.ok:
            flown = "" if self.flight is None else ", in open and in closed loop"
            return f"{self.scenario}: {self.statement}{flown}{reservation(self.notes)}"
        return "\n".join([f"{self.scenario}: {self.statement}", *self.why])

    @property
    def statement(self) -> str:
        """``the C does what its design does``, or does not."""
        who = f"the {self.sides.translation}"
        if self.flight is not None and self.flight.undecided and self.first_failed is None:
            return f"this host was too slow to say whether {who} does {self.sides.aim}"
        return f"{who} {'does' if self.ok else 'does not do'} {self.sides.aim}"

    @property
    def why(self) -> list[str]:
        """The first failure of the open and of the closed loop; empty where there is none."""
        lines = [f"open loop: {loop.in_words}" for loop in self.open.values() if not loop.ok]
        if self.flight is not None and not self.flight.ok:
            lines.append(f"closed loop: {self.closed_in_words}")
            lines.append(self.explanation)
        return lines

    def assert_ok(self) -> None:
        """Raise :class:`AssertionError` that names signal, step and values."""
        if not self.ok:
            raise AssertionError(self.in_words)

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is not finite is ``None``."""
        return {
            "scenario": self.scenario,
            "sides": list(self.sides),
            "ok": self.ok,
            "settings": self.settings,
            "notes": list(self.notes),
            "open": {name: loop.to_json() for name, loop in self.open.items()},
            "closed": None if self.flight is None else self.flight.to_json(),
            "explanation": self.explanation,
        }


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
    if flight.held_up:
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
        return f"execution, firmware and wire alone take up to {duration(longest)}: {more}"
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
