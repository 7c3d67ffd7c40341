"""Verdicts of requirements on recorded runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.ages import ages
from rtsim.record.component_values import SAMPLED, Rows
from rtsim.record.events import RunEnding
from rtsim.record.named_signals import SignalsByName
from rtsim.record.reading import Recording
from rtsim.record.table import Changes, Recorded, signal_changes, signal_of
from rtsim.requirements.chains import AGE, ChainLimit
from rtsim.requirements.formula import TOO_DEEP, margin_unit
from rtsim.requirements.language import Node, horizon
from rtsim.requirements.measures import Measured, Signals, measure_in, measured
from rtsim.requirements.requirement import NOT_EXERCISED, Given, Requirement, gather
from rtsim.requirements.robustness import (
    FOREVER,
    HIGH,
    LOW,
    POSSIBLE,
    SURE,
    Evaluation,
    Pieces,
)

VERDICTS = {Outcome.PASSED: "holds", Outcome.FAILED: "violated", Outcome.UNDECIDED: "undecided"}
"""The verdict on a requirement in one word, for each outcome."""


class Condition(NamedTuple):
    """A condition of an implication, and how often the condition became true.

    If the implication is checked only once, ``only_ns`` is the time of this check [ns]. For a step
    measure, ``times`` is the number of steps, and ``none`` says why no step counts.
    """

    text: str
    times: int
    only_ns: int | None = None
    none: str = ""
    possible: bool = True
    """True if the condition was true at a time, or if the run leaves open whether it was."""

    @property
    def never(self) -> str:
        if self.none:
            return f"{NOT_EXERCISED}, because {self.none}"
        if self.only_ns is not None:
            at = f"{self.only_ns / NS_PER_S:.9g} s"
            return (
                f"{NOT_EXERCISED}, because {self.text} was false at {at}, the only time of the "
                f"check; write always ({self.text} implies ...)"
            )
        return f"{NOT_EXERCISED}, because {self.text} was never true"


class Margin(NamedTuple):
    """The robustness of a part of a formula over time.

    ``values`` (n,) is the robustness from the times ``ns`` (n,) [ns] on, or NaN if unknown.
    """

    text: str
    ns: NDArray[np.int64]
    values: Vector


@dataclass(frozen=True)
class RequirementResult(Judged):
    """The verdict on a requirement in one run.

    ``low`` and ``high`` are bounds of the robustness, in the unit of the compared signals. Both
    bounds are equal if the robustness is known.
    """

    requirement: Requirement
    low: float
    high: float
    result: Outcome
    reason: str = ""
    """Why the requirement is undecided; empty otherwise."""
    worst_ns: int | None = None
    """The time that determines the robustness [ns]."""
    worst: str = ""
    """The part of the formula that determines the robustness."""
    violated: tuple[tuple[int, int], ...] = ()
    """First and last times of the spans in which the requirement is violated [ns]."""
    note: str = ""
    """A remark on a formula that is checked at the start of the run only."""
    exercised: int | None = None
    """How often the conditions of the formula became true; None without a condition."""
    margins: tuple[Margin, ...] = field(default=(), repr=False)
    """The robustness over time of each part that must hold throughout a window."""
    unit: str = ""
    """The unit of the robustness; empty without one."""

    def _judge(self) -> Outcome:
        return self.result

    @property
    def verdict(self) -> str:
        """The verdict as a word: ``holds``, ``violated`` or ``undecided``."""
        return VERDICTS[self.result]

    @property
    def is_exercised(self) -> bool:
        """False if the run does not test the requirement, as without its condition.

        An undecided requirement counts as exercised if the run only ended too early.
        """
        return not self.reason.startswith(NOT_EXERCISED)

    @property
    def name(self) -> str:
        """The name of the requirement."""
        return self.requirement.name

    @property
    def robustness(self) -> float:
        """The robustness; for an undecided requirement, its lower bound."""
        return self.high if self.result is Outcome.FAILED else self.low

    @property
    def in_words(self) -> str:
        said = {Outcome.PASSED: "holds", Outcome.FAILED: "is violated"}
        words = said.get(self.result, f"is undecided: {self.reason}")
        if self.result is Outcome.UNDECIDED:
            return f"{self.requirement.name} {words}"
        at = "" if self.worst_ns is None else f" at {self.worst_ns / NS_PER_S:.9g} s"
        return f"{self.requirement.name} {words}, robustness {self.robustness:.6g}{at}"

    def to_json(self) -> dict[str, object]:
        return {
            **self.requirement.to_plain(),
            "outcome": self.result.name.lower(),
            "robustness": [_finite(self.low), _finite(self.high)],
            "unit": self.unit,
            "worst_s": None if self.worst_ns is None else self.worst_ns / NS_PER_S,
            "worst": self.worst,
            "violated_s": [[a / NS_PER_S, b / NS_PER_S] for a, b in self.violated],
            "exercised": self.exercised,
            "reason": self.reason,
            "note": self.note,
        }


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def check(
    requirements: Iterable[Given], run: Recorded | SignalsByName, *, margins: bool = False
) -> list[RequirementResult]:
    """Return the verdicts on requirements in a run.

    Args:
        requirements: Requirements, texts of requirements, or requirement files.
        run: A recording or the result of a run.
        margins: Also return the robustness over time.

    Raises:
        ScenarioError: A formula does not match the run.
    """
    given = gather(requirements)
    judge = _Run(run._signals_from() if isinstance(run, SignalsByName) else run)
    return _listed([judge.result(one, margins) for one in given])


def check_run(
    requirements: Iterable[Requirement], read: Callable[[], Recorded], *, margins: bool = False
) -> list[RequirementResult]:
    """Return the verdicts on requirements in the recording that ``read`` returns.

    If the recording cannot be checked, all requirements are undecided, with the reason.
    """
    given = gather(requirements)
    try:
        return check(given, read(), margins=margins) if given else []
    except (RecordingError, ScenarioError) as error:
        return unchecked(given, str(error))


def unchecked(requirements: Iterable[Requirement], why: str) -> list[RequirementResult]:
    low, high, undecided = -math.inf, math.inf, Outcome.UNDECIDED
    return _listed([RequirementResult(one, low, high, undecided, why) for one in requirements])


_LISTS: list[list[RequirementResult]] = []


@contextmanager
def collected() -> Iterator[list[RequirementResult]]:
    """Context manager that collects the results of all checks in its block."""
    found: list[RequirementResult] = []
    _LISTS.append(found)
    try:
        yield found
    finally:
        _LISTS[:] = [one for one in _LISTS if one is not found]


def _listed(results: list[RequirementResult]) -> list[RequirementResult]:
    for one in _LISTS:
        one += results
    return results


class _Run:
    def __init__(self, recording: Recorded) -> None:
        self._recording = recording
        self.begin, self.end = recording.span_ns
        self._from_start = recording.from_start
        self._start = self.begin if self._from_start else -FOREVER
        continues = bool(getattr(recording, "continues", None))
        self.zero = 0 if continues else self.begin
        """The time at which the formulas are evaluated [ns]."""
        self.why_open, self._least = _why_open(recording)
        self._signals: dict[str, Pieces] = {}

    def _unit(self, name: str) -> str:
        values, column = signal_of(self._recording, name)
        return values.rows.spec.units[column]

    def _pieces(self, node: Node) -> Pieces:
        found = self._signals.get(node.name)
        if found is None:
            rows = signal_of(self._recording, node.name)[0].rows
            changes = signal_changes(self._recording, node.name)
            found = self._signals[node.name] = self._closed(rows, changes)
        return found

    def _closed(self, rows: Rows, changes: Changes) -> Pieces:
        end, plant = self.end, "side" in rows.integers
        if self._least is not None:  # a recording that was cut off
            end = int(rows.ns[-1]) if plant and len(rows.ns) else min(end, self._least)
        if "arrival" in rows.integers and not self._from_start:
            changes = unknown(changes)
        sampled = rows.spec.name.endswith(SAMPLED) and self._from_start
        return closed(changes, self._start, self.begin, end, sampled)

    def _reads_plants_only(self, node: Node) -> bool:
        found = [signal_of(self._recording, o.name)[0] for o in node.walk() if o.kind == "signal"]
        return all("side" in one.rows.integers and not one.read for one in found)

    def result(self, requirement: Requirement, margins: bool) -> RequirementResult:
        if requirement.chain is not None:
            return _of_chain(requirement, requirement.chain, self._recording, self.why_open)
        node = requirement.check(self._unit)
        measures: dict[Node, Measured] = {}

        def truth_of(part: Node) -> Vector | None:
            if measure_in(part) is None:
                return None
            measures[part] = found = measured(part, requirement.text_of, signals)
            return found.truth

        complete = not self.why_open
        evaluation = Evaluation(self._pieces, self._start, self.end, complete, truth_of)
        signals = Signals(
            lambda one: evaluation(one)[one], self._reads_plants_only, self.zero, self.end, complete
        )
        try:
            parts = evaluation(node)
            found = _Found(
                requirement, parts, measures, node, self.zero, self.begin, self.end, self.why_open
            )
            result = found.result(margins)
            worst = [one for one in node.walk() if requirement.text_of(one) == result.worst]
            return replace(result, unit=margin_unit(worst, self._unit))
        except RecursionError:
            raise ScenarioError(f"requirement {requirement.name}: {TOO_DEEP}") from None


def _of_chain(
    requirement: Requirement, limit: ChainLimit, recording: Recorded, why_open: str
) -> RequirementResult:
    """Return the verdict of the limit of a chain; the robustness is the limit minus the worst."""
    found = ages(recording, limit.elements)
    of_age = limit.measure == AGE
    worst = found.worst_age if of_age else found.worst_reaction
    longest = (0 if worst is None else worst.ns) if of_age else found.reaction_so_far
    margin = (limit.limit_ns - longest) / NS_PER_S
    reason = ""
    if margin >= 0 and worst is None:
        reason = found.reason or "no value depends on a later sample"
    elif margin >= 0:
        begin = recording.span_ns[0] / NS_PER_S
        late = f"the recording begins at {begin:.9g} s, so that earlier ages are not known"
        reason = why_open or ("" if recording.from_start else late)
    outcome = Outcome.FAILED if margin < 0 else Outcome.UNDECIDED if reason else Outcome.PASSED
    low = -math.inf if outcome is Outcome.UNDECIDED else margin
    text = "" if worst is None else str(worst)
    at = None if worst is None else worst.until_ns
    if margin < 0 and (worst is None or worst.ns < longest):
        last = "" if worst is None else "later "
        text, at = f"no {last}sample reached the end of the chain", recording.span_ns[1]
    return RequirementResult(
        requirement, low, margin, outcome, reason, worst_ns=at, worst=text, unit="s"
    )


def unknown(changes: Changes) -> Changes:
    """Return messages of an incomplete run as changes to unknown values.

    A message from before the start of the recording can arrive at any time.
    """
    return changes._replace(values=np.full(len(changes.values), math.nan), first=math.nan)


def closed(changes: Changes, start: int, begin: int, end: int, sampled: bool = False) -> Pieces:
    """Return the changes of a signal as pieces from the time ``start`` [ns] on.

    Before ``begin`` and after ``end`` [ns], the values are unknown. With ``sampled``, the first
    known value is the change at the time ``begin``.
    """
    ns, order, values, first = changes
    inside = (ns >= begin) & (ns <= end)
    earlier = np.flatnonzero(ns < begin)
    first = float(values[earlier[-1]]) if len(earlier) else first
    ns, order, values = ns[inside], order[inside].copy(), values[inside]
    lead = [(start, math.nan)] if start < begin else []
    if sampled and len(ns) and ns[0] == begin:
        order[0] = 0
    if not len(ns) or ns[0] > begin or order[0] > 0:
        lead.append((begin, first))
    ns = np.concatenate(([at for at, _ in lead], ns, [end + 1])).astype(np.int64)
    order = np.concatenate(([0] * len(lead), order, [0])).astype(np.int64)
    values = np.concatenate(([v for _, v in lead], values, [math.nan]))
    return Pieces.of(ns, order, values)


def _why_open(recording: Recorded) -> tuple[str, int | None]:
    if not isinstance(recording, Recording):
        return "", None
    ending = RunEnding.of(recording)
    if recording.truncated is not None:
        ends = [int(t.ns[-1]) for t in recording.tracks.values() if "side" in t.integers and len(t)]
        return f"the recording is incomplete ({recording.truncated})", min(ends, default=0)
    if recording.span_ns[1] < ending.reached_ns:
        return f"the copy ends at {recording.span_ns[1] / NS_PER_S:.9g} s, before the run", None
    early = ending.asked_ns is not None and ending.reached_ns < ending.asked_ns
    stopped = ending.reason == "end" and early  # as a replay of a part is
    ended = (ending.complete and not stopped) or ending.reason == "quit"
    return ("" if ended else f"the run {ending.in_one_line}"), None


@dataclass(frozen=True)
class _Found:
    requirement: Requirement
    parts: Mapping[Node, Pieces]
    measures: Mapping[Node, Measured]
    node: Node
    zero: int
    begin: int
    end: int
    why_open: str

    def result(self, margins: bool) -> RequirementResult:
        low, high, sure, possible = (self.parts[self.node].at(self.zero) + 0.0).tolist()
        outcome = Outcome.UNDECIDED
        if sure > 0:
            outcome = Outcome.PASSED
        elif possible < 0:
            outcome = Outcome.FAILED
        column = HIGH if outcome is Outcome.FAILED else LOW
        worst_ns, worst = self._worst(self.node, (self.zero, 0), column)
        conditions = list(self._conditions(self.node, self.zero, self.zero))
        exercised = min((one.times for one in conditions), default=None)
        reason = ""
        if outcome is Outcome.UNDECIDED:
            never = (one.never for one in conditions if not one.possible)
            reason = "" if self.why_open else next(never, "")
            reason = "; ".join(part for part in (reason, self._open()) if part)
        elif outcome is Outcome.PASSED and exercised == 0:
            outcome = Outcome.UNDECIDED
            reason = next(one for one in conditions if one.times == 0).never
        elif outcome is Outcome.PASSED and low == math.inf:
            outcome, reason = Outcome.UNDECIDED, f"{NOT_EXERCISED}, because no value was compared"
        decided = outcome is not Outcome.UNDECIDED or low == high
        at = worst_ns if decided and self.begin <= worst_ns <= self.end else None
        failed = outcome is Outcome.FAILED
        violated = tuple(sorted(set(self._violated(self.node, self.zero)))) if failed else ()
        return RequirementResult(
            self.requirement, low, high, outcome, reason, at, worst, violated, self._note(),
            exercised, tuple(self._margins(self.node, self.zero)) if margins else (),
        )  # fmt: skip

    def _text(self, node: Node) -> str:
        return self.requirement.text_of(node)

    def _note(self) -> str:
        if self.measures or any(node.window is not None for node in self.node.walk()):
            return ""
        at = f"{self.zero / NS_PER_S:.9g} s"
        return f"{self.requirement.name} is checked at {at} only; write always for the whole run"

    def _open(self) -> str:
        if self.why_open:  # the missing part can exercise the requirement
            return f"{self.why_open}, so the formula is not decided"
        for one in self._conditions(self.node, self.zero, self.zero):
            if one.none:
                return one.never
        for measure in self.measures.values():
            if measure.undecided:
                return measure.undecided
        for node, pieces in self.parts.items():
            if pieces.values.ndim == 1:
                within = (pieces.last >= self.begin) & (pieces.ns <= self.end)
                unknown = pieces.ns[within & np.isnan(pieces.values)]
                if len(unknown):
                    at = max(int(unknown[0]), self.begin) / NS_PER_S
                    return f"{self._text(node)} is unknown at {at:.9g} s"
        if self.zero < self.begin:
            return f"values before {self.begin / NS_PER_S:.9g} s are unknown"
        ended = f"the run ended at {self.end / NS_PER_S:.9g} s, before the formula was decided"
        needed = horizon(self.node)
        if needed is None:
            return f"{ended}; limit the window of the outer operator, as in always[0, 10]"
        return f"{ended}; the formula needs a run until {(self.zero + needed) / NS_PER_S:.9g} s"

    # -- the time and the comparison that determine the robustness

    def _worst(self, node: Node, moment: tuple[int, int], column: int) -> tuple[int, str]:
        if node in self.measures:
            ns = self.measures[node].worst(column)
            return moment[0] if ns is None else ns, self._text(node)
        kind = node.kind
        swapped = LOW + HIGH - column
        if kind == "not":
            return self._worst(node.children[0], moment, swapped)
        if kind in ("and", "or", "implies"):
            values = [self.parts[child].at(*moment)[column] for child in node.children]
            if kind == "implies":
                values[0] = -self.parts[node.children[0]].at(*moment)[swapped]
            at = int(np.argmin(values) if kind == "and" else np.argmax(values))
            side = swapped if kind == "implies" and at == 0 else column
            return self._worst(node.children[at], moment, side)
        if kind in ("always", "eventually", "historically", "once"):
            pieces = self.parts[node.children[0]]
            first, last = self._window(node, moment[0])
            rows = self._rows(pieces, first, last)
            if first == moment[0]:  # without the earlier microsteps of this instant
                rows = rows[rows >= pieces.row(*moment)]
            elif last == moment[0]:
                rows = rows[rows <= pieces.row(*moment)]
            if len(rows):
                values = pieces.values[rows, column]
                low = kind in ("always", "historically")
                row = rows[int(np.argmin(values) if low else np.argmax(values))]
                ns = int(pieces.ns[row])
                there = (ns, int(pieces.order[row])) if ns >= first else (first, 0)
                return self._worst(node.children[0], there, column)
        return moment[0], self._text(node)

    def _window(self, node: Node, ns: int) -> tuple[int, int]:
        assert node.window is not None
        first, last = node.window
        if node.kind in ("historically", "once", "since"):
            return (self.begin if last is None else max(self.begin, ns - last)), ns - first
        return ns + first, (self.end if last is None else ns + last)

    @staticmethod
    def _rows(pieces: Pieces, first: int, last: int) -> Any:
        return np.flatnonzero((pieces.last >= first) & (pieces.ns <= last))

    # -- how often the conditions became true

    def _conditions(self, node: Node, first: int, last: int) -> Iterator[Condition]:
        if node in self.measures:
            steps = self.measures[node]
            if steps.of_steps or steps.none:
                yield Condition(self._text(node), len(steps.rows), none=steps.none)
            return
        if node.kind == "implies":
            pieces = self.parts[node.children[0]]
            rows = self._rows(pieces, first, min(last, self.end))
            true = pieces.values[rows, SURE] > 0
            count = int(np.count_nonzero(true & ~np.append(False, true[:-1])))
            text = self._text(node.children[0])
            possible = bool((pieces.values[rows, POSSIBLE] > 0).any())
            yield Condition(text, count, first if first == last else None, possible=possible)
        if node.window is not None:
            begins, ends = self._window(node, first)[0], self._window(node, last)[1]
            first, last = max(begins, self.begin), min(ends, self.end)
        for child in node.children:
            if child.kind not in ("signal", "number", "call"):
                yield from self._conditions(child, first, last)

    # -- the robustness over time

    def _margins(self, node: Node, ns: int) -> Iterator[Margin]:
        if node.kind == "and":
            for child in node.children:
                yield from self._margins(child, ns)
        elif node.kind in ("always", "historically"):
            part = node.children[0]
            first, last = self._window(node, ns)
            pieces, last = self.parts[part], min(last, self.end)
            rows = self._rows(pieces, first, last)
            if not len(rows):
                return
            low, high = pieces.values[rows, LOW], pieces.values[rows, HIGH]
            values = np.where(low == high, low, np.nan)
            ends = np.append(np.maximum(pieces.ns[rows], first), max(first, last))
            yield Margin(self._text(part), ends, np.append(values, values[-1:]))

    # -- the spans of a violation

    def _violated(self, node: Node, ns: int) -> Iterator[tuple[int, int]]:
        if node.kind == "and":
            for child in node.children:
                yield from self._violated(child, ns)
        elif node.kind in ("always", "historically"):
            pieces = self.parts[node.children[0]]
            first, last = self._window(node, ns)
            last = min(last, self.end)
            rows = self._rows(pieces, first, last)
            bad = pieces.values[rows, POSSIBLE] < 0
            edges = np.flatnonzero(np.diff(np.concatenate(([False], bad, [False])).astype(int)))
            for a, b in edges.reshape(-1, 2):
                yield (
                    max(int(pieces.ns[rows[a]]), first),
                    min(int(pieces.last[rows[b - 1]]), last),
                )
