"""Compares the closed-loop run of the C code or board with the run of its reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hitl.comparison.execution import MODELLED, Execution
from hitl.comparison.exercise import Effects, FlightCoverage
from hitl.comparison.flights import OVERLAP
from hitl.comparison.on_target import OnTarget
from hitl.comparison.sides import C_AGAINST_DESIGN, Sides
from rtsim.core.outcome import Judged, Outcome
from rtsim.record.comparison import Comparison
from rtsim.record.markup import duration
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import SignalResult


class Spoiled(NamedTuple):
    """The time (ns) from which a run says nothing about the translation, and the reason."""

    since_ns: int
    why: str
    slow: bool = False
    """True if the reason is that this host was too slow."""
    ended: bool = True
    """True if an error that ended the run is not to be counted as a failure of the translation."""


@dataclass(frozen=True, eq=False)
class LoopComparison(Judged):
    """The run of the scenario with the translation, compared with the run of the reference."""

    comparison: Comparison
    baseline: Recording
    candidate: Recording
    paired: tuple[Recording, Recording]
    """The rows of both runs that were compared."""
    error: str = ""
    """The error that ended the run early; empty if there was none."""
    held_up: bool = False
    """True if the run ended early because this host fell behind the wall clock."""
    late: int = 0
    missed: int = 0
    execution: Mapping[str, Execution] = field(default_factory=dict)
    sides: Sides = C_AGAINST_DESIGN
    targets: Mapping[str, OnTarget] = field(default_factory=dict)
    """What each board reported and measured, by controller."""
    spoiled: Spoiled | None = None
    """The environment failure that affected the run, or ``None``."""
    effects: Mapping[str, Effects] = field(default_factory=dict)
    """The numbers of requests and effective answers of each controller."""
    covered: FlightCoverage = FlightCoverage()

    def _judge(self) -> Outcome:
        """Failed if the translation failed; undecided if only the environment failed."""
        ended = self._excused and (self.spoiled is None or self.spoiled.ended)
        if self._charged or (self.error and not ended):
            return Outcome.FAILED
        complete = not self.error and not self.comparison.failures
        effective = not self.effects or any(effect.any for effect in self.effects.values())
        compared = any(result.rows for result in self.comparison.results)
        return Outcome.PASSED if complete and effective and compared else Outcome.UNDECIDED

    @property
    def slipped(self) -> int:
        """Time (ns) by which emulated boards fell behind the wall clock on this slow host."""
        paced = [t.pacing for t in self.targets.values() if t.pacing is not None]
        return sum(pacing.slipped_ns for pacing in paced if pacing.slips)

    @property
    def too_slow(self) -> bool:
        """True if this host did not keep up with the wall clock."""
        return self.held_up or self.slipped > 0 or (self.spoiled is not None and self.spoiled.slow)

    @property
    def _excused(self) -> bool:
        return self.held_up or self.slipped > 0 or self.spoiled is not None

    @property
    def _charged(self) -> list[SignalResult]:
        """The failures for which the translation is responsible."""
        return [r for r in self.comparison.failures if not self.excuses(r)]

    def excuses(self, result: SignalResult) -> bool:
        """Return True if ``result`` fails because of the environment, not of the translation."""
        if not result.reason or not self._excused:
            return False
        since = self.candidate.end_ns if self.spoiled is None else self.spoiled.since_ns
        first = result.first_failed
        return result.name == OVERLAP or (first is not None and first.ns >= since)

    @property
    def undecided(self) -> str:
        """A sentence that says why the outcome is undecided; empty if it is not."""
        if self._judge() is not Outcome.UNDECIDED:
            return ""
        if self._excused:
            why = self.spoiled.why if self.spoiled and not self.slipped else time_needed(self)
            return self.error or why
        reasons = [effect.nothing(name) for name, effect in self.effects.items()]
        return "; ".join(filter(None, reasons)) or "there were no rows to compare"

    @property
    def first(self) -> SignalResult | None:
        """The failure with the earliest tag."""
        failed = [r for r in self.comparison.failures if r.first_failed is not None]
        return min(failed, key=lambda r: r.first_failed or (0, 0), default=None)

    def failure(self, result: SignalResult) -> str:
        """Return a sentence on where ``result`` fails first, with the values of both runs."""
        text = f"{result.name}: {result.reason}"
        pair = self.values(result)
        if pair is None:
            return text
        text += f"; with the {self.sides.reference} {pair[0]}"
        text += f", with the {self.sides.translation} {pair[1]}"
        return f"{text}, allowed {allowance(result)}"

    def values(self, result: SignalResult) -> tuple[str, str] | None:
        """Return the values of both runs at the first failure, as text; ``None`` without values."""
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
    """Return the tolerance as text: ``max(1e-06 V, 1e-09 of the reference's value)``."""
    absolute, relative = result.tolerance
    unit = "" if result.unit in ("", "1") else f" {result.unit}"
    if relative == 0.0:
        return f"{absolute:g}{unit}" if absolute else "no difference"
    return f"max({absolute:g}{unit}, {relative:g} of the reference's value)"


def time_needed(flight: LoopComparison) -> str:
    """Return a sentence that says what to do about late answers."""
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
