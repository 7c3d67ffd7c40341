"""The verdict of a back-to-back test, and sentences that explain it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from hitl.comparison.flight import LoopComparison, time_needed
from hitl.comparison.mismatches import reservation
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.sides import C_AGAINST_DESIGN, Sides
from hitl.comparison.stimulated import Stimulated
from hitl.stimuli.generating import Reach
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison
from rtsim.record.fault_marks import Acted
from rtsim.record.verdict import short

_WHICH = re.compile(r"process \d+|[\d.]+ s(?: \+\d+)?")
"""Matches the process id and the tag in an error message."""


@dataclass(frozen=True, eq=False)
class BackToBack(Judged):
    """The result of a comparison.  ``flight`` is ``None`` if there was no closed loop."""

    scenario: str
    open: dict[str, OpenLoop]
    """The open loop of each controller, by name."""
    flight: LoopComparison | None = None
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    sides: Sides = C_AGAINST_DESIGN
    faults: tuple[Acted, ...] = ()
    """The faults that were injected, and how often each acted."""
    stimulated: dict[str, Stimulated] = field(default_factory=dict)
    """The open loops on generated stimuli, by controller name."""
    too_slow: tuple[str, ...] = ()
    """Clauses on controllers whose latency is longer than their period."""
    reached: dict[str, Reach] = field(default_factory=dict)
    """The branches that the open loop and the stimuli reach, by controller name, if measured."""

    @property
    def pairs(self) -> tuple[BackToBack, ...]:
        """A tuple of this comparison only; a :class:`Ladder` has a tuple of several pairs."""
        return (self,)

    def _judge(self) -> Outcome:
        """The outcome of the open loops, of the stimuli and of the closed loop together."""
        closed = [] if self.flight is None else [self.flight.outcome]
        stepped = [loop.outcome for loop in self.open.values()]
        stepped += [one.outcome for one in self.stimulated.values()]
        return Outcome.of_all([*stepped, *closed])

    @property
    def closed(self) -> Comparison | None:
        """The verdict on each signal in closed loop; ``None`` if there was no closed loop."""
        return None if self.flight is None else self.flight.comparison

    @property
    def first_failed(self) -> OpenLoop | None:
        """The open loop with the earliest failure."""
        failed = [loop for loop in self.open.values() if loop.outcome is Outcome.FAILED]
        return min(failed, key=_when, default=None)

    @property
    def explanation(self) -> str:
        """If the closed loop fails: a sentence on whether the open loop fails too; else empty."""
        flight = self.flight
        if flight is None or flight.ok or not (flight.error or flight.comparison.failures):
            return ""
        failed = self.first_failed
        if failed is not None:
            moment = failed.first_moment
            where = headline(failed.in_words) if failed.error or moment is None else moment.where
            return f"The open loop already fails: {where}"
        if not all(loop.ok for loop in self.open.values()):
            return "The open loop could not be decided, so it does not show the cause"
        agreed = "; ".join(loop.in_words for loop in self.open.values())
        return (
            f"The open loop agrees ({agreed}), so the closed loop causes the difference: "
            f"{_what_the_loop_adds(flight)}"
        )

    @property
    def closed_in_words(self) -> str:
        """A sentence on the first failure in closed loop; empty if there is none.

        The text that a process printed is left out if the open loop shows the same error.
        """
        flight = self.flight
        if flight is None or flight.ok:
            return ""
        if not flight.error and not flight.comparison.failures:
            return flight.undecided
        if not flight.error:
            earliest = flight.comparison.failures[0] if flight.first is None else flight.first
            return flight.failure(earliest)
        first = headline(flight.error)
        reported = any(_alike(first, headline(loop.error)) for loop in self.open.values())
        return first if reported else flight.error

    @property
    def in_words(self) -> str:
        """The verdict, with the first failure of the open and of the closed loop."""
        if self._judge() is Outcome.PASSED:
            return f"{self.scenario}: {self.statement}{self.how}{reservation(self.reserved)}"
        return "\n".join([f"{self.scenario}: {self.statement}", *self.why])

    @property
    def how(self) -> str:
        """How both sides were compared, as the end of a passed verdict."""
        loops = ", in open loop" if self.flight is None else ", in open and in closed loop"
        count = sum(len(one.loops) for one in self.stimulated.values())
        return f"{loops}, and on {count} stimul{'us' if count == 1 else 'i'}" if count else loops

    @property
    def statement(self) -> str:
        """The verdict as a clause: ``the C does what its reference model does``."""
        who = f"the {self.sides.translation}"
        if self._judge() is not Outcome.UNDECIDED:
            passed = self._judge() is Outcome.PASSED
            return f"{who} {'does' if passed else 'does not do'} {self.sides.aim}"
        decided = all(loop.ok for loop in self.open.values())
        decided = decided and all(one.ok for one in self.stimulated.values())
        if decided and self.flight is not None and self.flight.too_slow:
            return f"this host was too slow to say whether {who} does {self.sides.aim}"
        return f"it could not be decided whether {who} does {self.sides.aim}"

    @property
    def why(self) -> list[str]:
        """Sentences on the first failures of the loops and of the stimuli; empty if all pass."""
        lines = [f"open loop: {loop.in_words}" for loop in self.open.values() if not loop.ok]
        lines += [line for one in self.stimulated.values() for line in one.why]
        if self.flight is not None and not self.flight.ok:
            lines += [f"closed loop: {self.closed_in_words}", self.explanation]
        return [line for line in lines if line]

    @property
    def reserved(self) -> list[str]:
        """Return the reservations that the text of a passed verdict has to mention."""
        return [*self._still, *self._ineffective]

    @property
    def _still(self) -> list[str]:
        """Clauses on outputs that show nothing."""
        return [
            f"{name}.{words}" for name, loop in self.open.items() for words in loop.exercise.idle
        ]

    @property
    def _ineffective(self) -> list[str]:
        """Clauses on answers, faults and tolerances that make the verdict say less."""
        out: list[str] = []
        effects = {} if self.flight is None else self.flight.effects
        out += filter(None, (effect.nothing(name) for name, effect in effects.items()))
        out += [*self.never_acted, *self.doubts]
        wide = self._wide
        what = "signals differ within a tolerance that exceeds a tenth of their range"
        return [*out, *([f"{what}: {', '.join(wide)}"] if wide else [])]

    @property
    def never_acted(self) -> list[str]:
        """A clause on the faults that never acted; empty if all acted."""
        never = [fault.name for fault in self.faults if not fault.activations]
        return [f"these faults never acted: {', '.join(never)}"] if never else []

    @property
    def doubts(self) -> list[str]:
        """Clauses on what else the option ``--strict`` refuses in a comparison that passes."""
        return [*self.too_slow, *self._too_long, *self._missed]

    @property
    def _missed(self) -> list[str]:
        """Clauses on stimuli that do not reach what they name; the run has the first row."""
        return [
            clause
            for name, one in self.stimulated.items()
            if name in self.reached
            for clause in self.reached[name].lacking(one.stimuli, first=1)
        ]

    @property
    def _too_long(self) -> list[str]:
        """Clauses on boards whose exchange takes longer than the period."""
        flown = {} if self.flight is None else self.flight.targets
        stepped = {name: loop.target for name, loop in self.open.items()}
        found = {**stepped, **flown}
        clauses = (t.too_long(name) for name, t in found.items() if t is not None)
        return [clause for clause in clauses if clause]

    @property
    def _wide(self) -> list[str]:
        """Names of signals that differ, and whose tolerance exceeds a tenth of their range."""
        out = [
            f"{name}.{signal.name}"
            for name, loop in self.open.items()
            for signal in loop.signals
            if signal.remark
        ]
        closed = [] if self.flight is None else self.flight.comparison.results
        return [*out, *(result.name for result in closed if result.remark)]

    @property
    def unexercised(self) -> list[str]:
        """Sentences on everything that was not exercised."""
        out = [
            f"{name}: {words}"
            for name, loop in self.open.items()
            for words in loop.exercise.in_words
        ]
        out += [f"{name}: {one.in_words}" for name, one in self.reached.items() if one.in_words]
        return [*out, *self._ineffective]

    @property
    def coverage(self) -> list[str]:
        """Sentences on what was compared."""
        out = [f"open loop of {loop.covered}" for loop in self.open.values()]
        out += [one.covered for one in self.stimulated.values()]
        if self.flight is not None:
            out.append(f"closed loop: {self.flight.covered.in_words}")
        return out

    def to_json(self) -> dict[str, Any]:
        """Return plain data; a number that is not finite becomes ``None``."""
        return {
            "scenario": self.scenario,
            "sides": list(self.sides),
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "settings": self.settings,
            "notes": list(self.notes),
            "covered": self.coverage,
            "not_exercised": self.unexercised,
            "open": {name: loop.to_json() for name, loop in self.open.items()},
            "stimulated": {name: one.to_json() for name, one in self.stimulated.items()},
            "closed": None if self.flight is None else self.flight.to_json(),
            "reached": {name: one.to_json() for name, one in self.reached.items()},
            "explanation": self.explanation,
        }


def headline(error: str) -> str:
    """Return the first line of an error, without the process's output, the inputs and the case."""
    return error.partition("\n")[0].removesuffix("; it said:")


def _alike(error: str, other: str) -> bool:
    """Return True if both errors are the same, apart from the process and the step."""
    return _WHICH.sub("", error) in _WHICH.sub("", other)


def _what_the_loop_adds(flight: LoopComparison) -> str:
    """Return why the closed loop may fail although each step agrees in open loop."""
    if flight.held_up or (flight.error and flight.outcome is Outcome.UNDECIDED):
        who = flight.sides.translation
        return f"this host, not the {who}, ended the run early: {flight.error}"
    if flight.error:
        return f"the run ended early, at {short(Tag(flight.candidate.end_ns))}"
    if flight.late or flight.missed:
        counts = f"{flight.late} answers were late and {flight.missed} requests missed"
        return f"{counts}; {time_needed(flight)}"
    return (
        "either the loop amplifies differences that the open loop allows, as a loop near its "
        "stability limit does (try a smaller --latency), or the "
        f"{flight.sides.translation} depends on more than its inputs (compare the open loop with a "
        "smaller tolerance)"
    )


def _when(loop: OpenLoop) -> tuple[int, int]:
    """Return the tag of the first failure of ``loop``, or of its last step if no step fails."""
    first = loop.first
    ns, microstep = loop.tag(loop.steps - 1 if first is None else first.step)
    return ns, microstep
