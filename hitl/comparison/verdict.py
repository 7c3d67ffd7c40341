"""The verdict of a back-to-back test, with its explanation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.design_branches import DesignReach
from hitl.comparison.exercise import Exercise
from hitl.comparison.flight import LoopComparison, time_needed
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import C_AGAINST_DESIGN, REFERENCE_MODEL, Sides
from hitl.comparison.required import RequiredOfRuns
from hitl.comparison.tolerances import another_period
from hitl.controllers.c_controller import interface_of
from hitl.interface import Interface, InterfaceError
from hitl.stimuli.file import Stimuli, Table
from hitl.stimuli.generating import Reach
from hitl.worker.ending import MISFIT
from rtsim.components.controller import ControllerProtocol
from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.protocols import parameters_of
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Signals
from rtsim.core.tag import Period, Tag
from rtsim.record.comparison import Comparison
from rtsim.record.events import Acted
from rtsim.record.verdict import short

# Open loops on generated stimuli. Each loop begins with both controllers newly initialised.

Drive = Callable[[Table, NDArray[np.int64]], OpenLoop]
"""A function that runs an open loop on inputs (k, m) at tags (k, 2)."""


@dataclass(frozen=True, eq=False)
class Stimulated(Judged):
    """Results of a controller in open loop, with the stimuli of a file as inputs."""

    name: str
    stimuli: Stimuli
    loops: tuple[OpenLoop, ...]
    """The result for each stimulus, in the order of the file."""

    @classmethod
    def of(
        cls, name: str, stimuli: Stimuli, layout: Signals, period: Period | None, drive: Drive
    ) -> Stimulated:
        """Run all stimuli with ``drive``.

        ``layout`` contains the inputs of the reference controller. Step k is at tick k of
        ``period``. Without a period, step k is at k ns.
        """
        loops = []
        for table in stimuli.ordered(layout):
            times = [k if period is None else period.tick(k) for k in range(len(table))]
            tags = np.array([(ns, 0) for ns in times], np.int64)
            # The purpose of a stimulus is to reach a branch. No output needs to move.
            loops.append(replace(drive(table, tags), exercise=Exercise()))
        return cls(name, stimuli, tuple(loops))

    def beside(self, run: OpenLoop) -> OpenLoop:
        """Return a copy of ``run`` with the names of signals that changed only in stimuli."""
        still, outputs = run.exercise, [signal.name for signal in run.signals]
        answers = [loop.design[: loop.answered] for loop in self.loops]
        given = [loop.inputs[: loop.answered] for loop in self.loops]
        moved = replace(
            still,
            stimulated_outputs=_moved(outputs, still.still_outputs, run.design, answers),
            stimulated_inputs=_moved(run.input_names, still.still_inputs, run.inputs, given),
        )
        return replace(run, exercise=moved)

    def _judge(self) -> Outcome:
        return Outcome.of_all(loop.outcome for loop in self.loops) if self.loops else Outcome.PASSED

    @property
    def title(self) -> str:
        count = len(self.loops)
        what = f"{count} stimul{'us' if count == 1 else 'i'}"
        return f"{self.name}: {what} of {self.stimuli.name}, {self.stimuli.steps} steps"

    @property
    def why(self) -> list[str]:
        out = []
        for number, loop in enumerate(self.loops, 1):
            if loop.outcome is not Outcome.PASSED:
                first, *more = (*self.stimuli.stimuli[number - 1].reaches, "")
                others = f", and {len(more) - 1} more" if len(more) > 1 else ""
                out.append(
                    f"stimulus {number} of {self.stimuli.name}: {loop.in_words}"
                    + (f" (reaches {first}{others})" if first else "")
                )
        return out

    def reaches(self, number: int) -> str:
        """Return the branches that a stimulus was generated for."""
        return "; ".join(self.stimuli.stimuli[number].reaches)

    @property
    def covered(self) -> str:
        """Text about what was compared."""
        answered = sum(loop.answered for loop in self.loops)
        return f"{self.title}, {answered} answered"

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "file": None if self.stimuli.path is None else str(self.stimuli.path),
            "generated": dict(self.stimuli.generated),
            "stimuli": [
                {**loop.to_json(), "reaches": list(stimulus.reaches)}
                for loop, stimulus in zip(self.loops, self.stimuli.stimuli, strict=True)
            ],
        }


def _moved(
    columns: Sequence[str], still: Sequence[str], run: Table, stimuli: Sequence[Table]
) -> tuple[str, ...]:
    at = {name: columns.index(name) for name in still}
    return tuple(n for n in still if any((t[:, at[n]] != run[0, at[n]]).any() for t in stimuli))


# Differences between a reference model and its translation other than their answers.


def mismatches(
    name: str,
    design: ControllerProtocol,
    translation: ControllerProtocol,
    period: Period | None = None,
) -> Iterator[str]:
    """Yield sentences about differences between the two versions of a controller.

    With ``period``, a different period in the interface file is also reported. A comparison omits
    the argument ``period``, because :mod:`hitl.comparison.tolerances` checks the period.
    """
    interface = interface_of(translation)
    if interface is not None and period is not None:
        yield from filter(None, [another_period(name, interface, period)])
    # A parameter that only one side has is never transferred to the other side.
    ours, theirs = (parameters_of(c).names for c in (design, translation))
    sides = ((REFERENCE_MODEL, ours, theirs), ("interface file", theirs, ours))
    for whose, here, there in sides:
        if alone := [parameter for parameter in here if parameter not in there]:
            yield f"{name}: only the {whose} has the parameters {', '.join(alone)}"


def refuse_misfit(loop: OpenLoop, translation: ControllerProtocol) -> None:
    """Raise ``InterfaceError`` if the loop ended because the interface file is incomplete.

    Such a comparison proves nothing about the C code.
    """
    interface = interface_of(translation)
    if interface is not None and replace(loop, environment=True).outcome is Outcome.UNDECIDED:
        refuse_lack(loop.error, interface)


def refuse_lack(error: str, interface: Interface) -> None:
    """Raise ``InterfaceError`` if an error shows that the interface file is incomplete.

    ``error`` is the message with which the C code ended.
    """
    _, found, lacking = error.partition(MISFIT)
    if found:
        text = lacking.partition("\n")[0]
        raise InterfaceError(f"{interface.place('inputs', '')}: {MISFIT}{text}")


def too_slow(name: str, latency: LatencyModel, period: Period | None) -> Iterator[str]:
    if isinstance(latency, Fixed) and period is not None and latency.constant[0] > period.ns:
        yield (
            f"{name}: a latency of {latency.constant[0] / 1e9:g} s is longer than its period of "
            f"{float(period.ns) / 1e9:g} s, so most requests are missed because the last one is "
            "still pending; give --latency less than the period"
        )


def reservation(reserved: Iterable[str]) -> str:
    """Return reservations about a passed result, as a text that begins with ``; but``."""
    text = "; ".join(dict.fromkeys(reserved))
    return f"; but {text}" if text else ""


_WHICH = re.compile(r"process \d+|[\d.]+ s(?: \+\d+)?")
"""Pattern of the process id and the tag in an error message."""


@dataclass(frozen=True, eq=False)
class BackToBack(Judged):
    """The result of a comparison; ``flight`` is ``None`` without a closed loop."""

    scenario: str
    open: dict[str, OpenLoop]
    """The open loop of each controller, by name."""
    flight: LoopComparison | None = None
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    sides: Sides = C_AGAINST_DESIGN
    faults: tuple[Acted, ...] = ()
    """The injected faults, and how often each fault acted."""
    stimulated: dict[str, Stimulated] = field(default_factory=dict)
    """The open loops on generated stimuli, by controller name."""
    too_slow: tuple[str, ...] = ()
    """Clauses about controllers whose latency is longer than their period."""
    reached: dict[str, Reach] = field(default_factory=dict)
    """The branches of the C code that the open loop and the stimuli reach, by controller, if
    measured.
    """
    reached_in_design: dict[str, DesignReach] = field(default_factory=dict)
    """The branches of the reference models that are reached, by controller, if measured."""
    required: RequiredOfRuns = field(default_factory=RequiredOfRuns)
    """The verdicts of the scenario's requirements on the runs."""

    @property
    def pairs(self) -> tuple[BackToBack, ...]:
        """This comparison as a tuple, as in ``ComparisonChain.pairs``."""
        return (self,)

    def _judge(self) -> Outcome:
        return Outcome.of_all([self.agreement, *self.required.outcomes])

    @property
    def agreement(self) -> Outcome:
        closed = [] if self.flight is None else [self.flight.outcome]
        stepped = [loop.outcome for loop in self.open.values()]
        stepped += [one.outcome for one in self.stimulated.values()]
        return Outcome.of_all([*stepped, *closed])

    @property
    def closed(self) -> Comparison | None:
        """The verdict on each signal in closed loop, or ``None``."""
        return None if self.flight is None else self.flight.comparison

    @property
    def first_failed(self) -> OpenLoop | None:
        failed = [loop for loop in self.open.values() if loop.outcome is Outcome.FAILED]
        return min(failed, key=_when, default=None)

    @property
    def explanation(self) -> str:
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
        """Why the closed loop has not passed, as a sentence, or ""."""
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
        if self._judge() is Outcome.PASSED:
            how = f"{self.how}{self.required.met}"
            return f"{self.scenario}: {self.statement}{how}{reservation(self.reserved)}"
        how = self.how if self.agreement is Outcome.PASSED else ""
        head = "; ".join([f"{self.scenario}: {self.statement}{how}", *self.required.unmet])
        return "\n".join([head, *self.why, *self.required.why])

    @property
    def how(self) -> str:
        loops = ", in open loop" if self.flight is None else ", in open and in closed loop"
        count = sum(len(one.loops) for one in self.stimulated.values())
        return f"{loops}, and on {count} stimul{'us' if count == 1 else 'i'}" if count else loops

    @property
    def statement(self) -> str:
        """The result as a sentence, such as ``the C does what its reference model does``."""
        who = f"the {self.sides.translation}"
        if self.agreement is not Outcome.UNDECIDED:
            passed = self.agreement is Outcome.PASSED
            return f"{who} {'does' if passed else 'does not do'} {self.sides.aim}"
        decided = all(loop.ok for loop in self.open.values())
        decided = decided and all(one.ok for one in self.stimulated.values())
        if decided and self.flight is not None and self.flight.too_slow:
            return f"this host was too slow to say whether {who} does {self.sides.aim}"
        return f"it could not be decided whether {who} does {self.sides.aim}"

    @property
    def why(self) -> list[str]:
        lines = [f"open loop: {loop.in_words}" for loop in self.open.values() if not loop.ok]
        lines += [line for one in self.stimulated.values() for line in one.why]
        if self.flight is not None and not self.flight.ok:
            lines += [f"closed loop: {self.closed_in_words}", self.explanation]
        return [line for line in lines if line]

    @property
    def reserved(self) -> list[str]:
        ran = [f"{name}: {words}" for name, one in self._branches for words in one.in_brief]
        return [*self._still, *self._ineffective, *ran]

    @property
    def _branches(self) -> list[tuple[str, Reach | DesignReach]]:
        return [*self.reached.items(), *self.reached_in_design.items()]

    @property
    def _still(self) -> list[str]:
        return [
            f"{name}.{words}" for name, loop in self.open.items() for words in loop.exercise.idle
        ]

    @property
    def _ineffective(self) -> list[str]:
        out: list[str] = []
        effects = {} if self.flight is None else self.flight.effects
        out += filter(None, (effect.nothing(name) for name, effect in effects.items()))
        out += [*self.never_acted, *self.doubts, *self.required.unchecked]
        wide = self._wide
        what = "signals differ within a tolerance that exceeds a tenth of their range"
        return [*out, *([f"{what}: {', '.join(wide)}"] if wide else [])]

    @property
    def never_acted(self) -> list[str]:
        never = [fault.name for fault in self.faults if not fault.activations]
        return [f"these faults never acted: {', '.join(never)}"] if never else []

    @property
    def doubts(self) -> list[str]:
        """Reasons, except faults, for which ``--strict`` rejects a passed comparison."""
        return [*self.too_slow, *self._too_long, *self._missed]

    @property
    def _missed(self) -> list[str]:
        return [
            clause
            for name, one in self.stimulated.items()
            if name in self.reached
            for clause in self.reached[name].lacking(one.stimuli, first=1)
        ]

    @property
    def _too_long(self) -> list[str]:
        flown = {} if self.flight is None else self.flight.targets
        stepped = {name: loop.target for name, loop in self.open.items()}
        found = {**stepped, **flown}
        clauses = (t.too_long(name) for name, t in found.items() if t is not None)
        return [clause for clause in clauses if clause]

    @property
    def _wide(self) -> list[str]:
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
        out = [
            f"{name}: {words}"
            for name, loop in self.open.items()
            for words in loop.exercise.in_words
        ]
        out += [f"{name}: {words}" for name, one in self._branches for words in one.in_words]
        if self.stimulated and (self.required.runs or self.required.unchecked):
            out.append("requirements on stimuli: a stimulus drives a controller without the plant")
        return [*out, *self._ineffective]

    @property
    def coverage(self) -> list[str]:
        out = [f"open loop of {loop.covered}" for loop in self.open.values()]
        out += [one.covered for one in self.stimulated.values()]
        if self.flight is not None:
            out.append(f"closed loop: {self.flight.covered.in_words}")
        return [*out, *self.required.covered]

    def to_json(self) -> dict[str, Any]:
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
            "reached_in_design": {
                name: one.to_json() for name, one in self.reached_in_design.items()
            },
            "requirements": self.required.to_json(),
            "explanation": self.explanation,
        }


def headline(error: str) -> str:
    """Return the first line of an error message."""
    return error.partition("\n")[0].removesuffix("; it said:")


def _alike(error: str, other: str) -> bool:
    return _WHICH.sub("", error) in _WHICH.sub("", other)


def _what_the_loop_adds(flight: LoopComparison) -> str:
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
    first = loop.first
    ns, microstep = loop.tag(loop.steps - 1 if first is None else first.step)
    return ns, microstep


# A chain of stages: reference model, C on the host, board. Each is compared with the previous one.


@dataclass(frozen=True, eq=False)
class ComparisonChain(Judged):
    """Comparisons of each stage with the previous stage; the first stage is the reference model."""

    pairs: tuple[BackToBack, ...]

    @property
    def scenario(self) -> str:
        return self.pairs[0].scenario

    @property
    def names(self) -> tuple[str, ...]:
        return (self.pairs[0].sides.design, *(pair.sides.translation for pair in self.pairs))

    def _judge(self) -> Outcome:
        return Outcome.of_all(pair.outcome for pair in self.pairs)

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the last run.

        All runs except the last one were executed as fast as possible.
        """
        return self.pairs[-1].settings

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for pair in self.pairs for note in pair.notes))

    @property
    def coverage(self) -> list[str]:
        return [f"{pair.sides.gap}, {text}" for pair in self.pairs for text in pair.coverage]

    @property
    def unexercised(self) -> list[str]:
        return list(dict.fromkeys(text for pair in self.pairs for text in pair.unexercised))

    @property
    def doubts(self) -> list[str]:
        return list(dict.fromkeys(text for pair in self.pairs for text in pair.doubts))

    @property
    def in_words(self) -> str:
        verdicts = ", and ".join(pair.statement for pair in self.pairs)
        loops = but = ""
        if all(pair.agreement is Outcome.PASSED for pair in self.pairs):
            loops = self.pairs[-1].how
        if self._judge() is Outcome.PASSED:
            but = self.pairs[-1].required.met
            but += reservation(text for pair in self.pairs for text in pair.reserved)
        unmet = [text for pair in self.pairs for text in pair.required.unmet]
        lines = ["; ".join([f"{self.scenario}: {verdicts}{loops}{but}", *unmet])]
        for pair in self.pairs:
            lines += [f"{pair.sides.gap}, {line}" for line in pair.why]
        return "\n".join([*lines, *(line for pair in self.pairs for line in pair.required.why)])

    def to_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "columns": list(self.names),
            "settings": self.settings,
            "notes": list(self.notes),
            "pairs": [pair.to_json() for pair in self.pairs],
        }
