"""Step-response measures in formulas: rise time, overshoot, settling time and errors.

A measure has a lower and an upper bound, because a run can end before its value is known.
``docs/requirements.md`` defines each measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.requirements.language import COMPARISONS, Node
from rtsim.requirements.responses import Overshoot, Settling, reached
from rtsim.requirements.robustness import Pieces, computed

RISEN = 0.9
"""Share of a step that a response must cover, so that its rise has ended."""


class Response(NamedTuple):
    """The values ``v`` (n,) of a signal at the times ``t`` (n,) in s after a step."""

    t: Vector
    v: Vector
    target: float
    """Value of the reference after the step."""
    held: bool
    """True if the signal keeps each value until the next point, False if it is linear."""
    lasted: float
    """Time (s) from the step until the end of the response."""
    still_open: bool
    """True if the run continued after the end of the response."""


class Bounds(NamedTuple):
    """Bounds of a measure, and the time (s after the step) that determines the measure."""

    low: float
    high: float
    at: float
    until: float = math.inf
    """Largest limit that the response lasted long enough for."""


_UNKNOWN = Bounds(-math.inf, math.inf, 0.0)
Rule = Callable[[Response, float, bool], Bounds]
"""Function that measures a response.

Its arguments are the response, the third argument of the measure, and whether it is in percent.
"""


def _rise(one: Response, _: float, __: bool) -> Bounds:
    first, last = (reached(one.t, one.v, one.target, s, one.held) for s in (1.0 - RISEN, RISEN))
    if math.isnan(last):
        since = 0.0 if math.isnan(first) else one.lasted - first
        return Bounds(since, math.inf, one.lasted)
    return Bounds(last - first, last - first, last)


def _settling(one: Response, band: float, percent: bool) -> Bounds:
    within = band * abs(one.target - float(one.v[0])) / 100.0 if percent else band
    running = Settling(one.target, within)
    running.held = one.held
    running.take(one.t, one.v)
    found = running.value()
    if found == math.inf:
        return Bounds(one.lasted, math.inf, one.lasted)
    return Bounds(found, math.inf if one.still_open else found, found, one.lasted)


def _overshoot(one: Response, _: float, __: bool) -> Bounds:
    running = Overshoot(one.target)
    running.take(one.t, one.v)
    found = 100.0 * running.value()
    risen = not math.isnan(reached(one.t, one.v, one.target, RISEN, True))
    return Bounds(found, found if risen and not one.still_open else math.inf, running.at)


def _steady_state_error(one: Response, span: float, _: bool) -> Bounds:
    begin = one.lasted - span
    if begin < 0.0 or one.still_open:
        return Bounds(0.0, math.inf, one.lasted)
    row = int(np.searchsorted(one.t, begin, side="right")) - 1
    t, v = one.t[row:].copy(), one.v[row:].copy()
    if not one.held and len(t) > 1 and t[1] > t[0]:
        v[0] += (begin - t[0]) / (t[1] - t[0]) * (v[1] - v[0])
    t[0] = begin
    return _largest(t, np.abs(v - one.target))


def _largest(t: Vector, error: Vector) -> Bounds:
    k = int(np.argmax(error))
    return Bounds(float(error[k]), float(error[k]), float(t[k]))


def _max_error(one: Response, _: float, __: bool) -> Bounds:
    found = _largest(one.t, np.abs(one.v))
    return found._replace(high=math.inf) if one.still_open else found


def _rms_error(one: Response, _: float, __: bool) -> Bounds:
    if one.still_open or not one.lasted:
        return Bounds(0.0, math.inf, one.lasted)
    a, b = one.v[:-1], one.v[:-1] if one.held else one.v[1:]
    total = float(np.sum((a * a + a * b + b * b) / 3.0 * np.diff(one.t)))
    found = math.sqrt(total / one.lasted)
    return Bounds(found, found, one.lasted)


@dataclass(frozen=True)
class Measure:
    """A measure of the language, with its unit, its third argument and its computation."""

    rule: Rule
    unit: str = ""
    """``"s"``, ``"%"``, or empty for the unit of the signal."""
    third: str = ""
    """``"band"``, ``"time"``, or empty without a third argument."""
    of_steps: bool = True
    """False for a measure of the whole run."""
    moves: bool = False
    """True if the measure needs a step of the signal, whose height is not 0."""
    example: str = "< 6 s"
    """A limit, for messages."""


MEASURES: Mapping[str, Measure] = {
    "rise_time": Measure(_rise, "s", moves=True),
    "settling_time": Measure(_settling, "s", "band"),
    "overshoot": Measure(_overshoot, "%", moves=True, example="< 20 %"),
    "steady_state_error": Measure(_steady_state_error, third="time", example="< 0.1"),
    "max_error": Measure(_max_error, of_steps=False, example="< 0.1"),
    "rms_error": Measure(_rms_error, of_steps=False, example="< 0.1"),
}
"""The measures of the language, by name."""


MIN_STEP = "min_step"
"""Argument for the smallest height of a step that counts."""


def measure_in(node: Node) -> Node | None:
    """Return the measure that a comparison compares with a limit, or ``None``."""
    if node.kind not in COMPARISONS:
        return None
    return next((c for c in node.children if c.kind == "call" and c.name in MEASURES), None)


def _in_percent(call: Node) -> bool:
    return len(call.children) > 2 and call.children[2].name == "%"


def is_relative(call: Node) -> bool:
    """Return whether a measure is relative to the height of the step."""
    return MEASURES[call.name].moves or _in_percent(call)


def relative_limits(node: Node) -> list[float]:
    pairs = ((one, measure_in(one)) for one in node.walk())
    sides = (s for one, call in pairs if call is not None and is_relative(call)
             for s in one.children if s is not call)  # fmt: skip
    return [abs(n.value) for side in sides for n in side.walk() if n.kind == "number"]


# Measures of a run.


class Signals(NamedTuple):
    """Data for a measure: values of parts of a formula, and times in ns."""

    values: Callable[[Node], Pieces]
    linear: Callable[[Node], bool]
    """Function that returns whether a part is linear between its rows."""
    zero: int
    end: int
    complete: bool


@dataclass(frozen=True)
class Measured:
    """The truth of a comparison of a measure with its limit.

    ``rows`` (n, 4) contains the truth values of n step responses, and ``ns`` (n,) the times [ns]
    that determine them.
    """

    rows: Vector
    ns: tuple[int, ...]
    undecided: str = ""
    """Why the comparison is undecided; empty if it is decided."""
    none: str = ""
    """Why no response counts; empty if a response counts."""
    of_steps: bool = True
    """False if the measure needs no step."""

    @property
    def truth(self) -> Vector:
        """The truth value (4,) of the comparison."""
        if not len(self.rows):
            return np.array([-np.inf, np.inf, -1.0, 1.0])
        found: Vector = self.rows.min(axis=0)
        return found

    def worst(self, column: int) -> int | None:
        """Return the time [ns] that determines one of the truth values."""
        return self.ns[int(np.argmin(self.rows[:, column]))] if self.ns else None


def measured(node: Node, text: Callable[[Node], str], run: Signals) -> Measured:
    """Return the truth of ``node``, which compares a measure with its limit."""
    call = measure_in(node)
    assert call is not None
    measure, (signal, reference, *third) = MEASURES[call.name], call.children
    limit_side = node.children[1 if node.children[0] is call else 0]
    limit = float(run.values(limit_side).values[0])
    sign = node.kind if node.children[0] is call else node.kind.translate(_TURNED)
    given = float(run.values(third[0]).values[0]) if third else 0.0
    percent = _in_percent(call)
    least = dict(call.keywords).get(MIN_STEP)
    rows, ns = [], []
    open_at, skipped = "", ""
    for start, followed, one in _responses(call, run):
        if not (np.isfinite(one.v).all() and math.isfinite(one.target)):
            bounds = _UNKNOWN
        elif is_relative(call) and one.v[0] == one.target:
            skipped = f"{text(signal)} was at the new value of {text(reference)} at each step"
            continue
        elif least is not None and abs(one.target - float(one.v[0])) < least.value:
            skipped = f"each step from {text(signal)} to {text(reference)} is below {text(least)}"
            continue
        else:
            bounds = measure.rule(one, given, percent)
        truth = _compared(sign, bounds, limit)
        if truth[2] < 0.0 < truth[3]:
            if followed and bounds is not _UNKNOWN:
                skipped = f"each step of {text(reference)} was followed by another one too early"
                continue
            why = f"the run ended {one.lasted:.9g} s after the step at {start / NS_PER_S:.9g} s"
            if not measure.of_steps:
                why = f"the run ended at {run.end / NS_PER_S:.9g} s"
            open_at = f"{why}, before {text(node)} was decided"
            if bounds is _UNKNOWN:
                open_at = f"{text(signal)} or {text(reference)} is unknown in the run"
        rows.append(truth)
        ns.append(start + round(bounds.at * NS_PER_S))
    if not rows:
        early = f"the run ended before the first time of {text(call)}"
        none = f"{text(reference)} has no step" if measure.of_steps else early
        return Measured(np.empty((0, 4)), (), none=skipped or none)
    return Measured(np.stack(rows), tuple(ns), open_at, of_steps=measure.of_steps)


_TURNED = str.maketrans("<>", "><")


def _compared(sign: str, bounds: Bounds, limit: float) -> Vector:
    high = bounds.high if limit <= bounds.until else math.inf
    low_margin, high_margin = limit - high, limit - bounds.low
    if sign in (">", ">="):
        low_margin, high_margin = bounds.low - limit, high - limit
    if math.isnan(low_margin) or math.isnan(high_margin):
        low_margin, high_margin = -math.inf, math.inf
    strict = sign in ("<", ">")
    holds = [x > 0.0 or (x == 0.0 and not strict) for x in (low_margin, high_margin)]
    return np.array([low_margin, high_margin, *(1.0 if h else -1.0 for h in holds)])


def _responses(call: Node, run: Signals) -> Iterator[tuple[int, bool, Response]]:
    measure, (signal, reference) = MEASURES[call.name], call.children[:2]
    window = {key: round(float(v.value) * NS_PER_S) for key, v in call.keywords if key != MIN_STEP}
    first = run.zero + window.get("after", 0)
    last = min(run.end, run.zero + window["before"]) if "before" in window else run.end
    beyond = "before" in window and run.zero + window["before"] > run.end
    still_open = beyond or (not run.complete and last == run.end)
    values, wanted = run.values(signal), run.values(reference)
    if not run.complete:  # a signal of a recording that was cut off ends earlier
        last = min(last, *(_known_until(one) for one in (values, wanted)))
    held = not run.linear(signal)
    if first > last:
        return
    if not np.isfinite(wanted.values[(wanted.last >= first) & (wanted.ns <= last)]).all():
        nothing = np.array([math.nan])
        yield first, False, Response(np.zeros(1), nothing, math.nan, True, 0.0, still_open)
    if not measure.of_steps:
        error = computed(np.subtract, [values, wanted])
        yield first, False, _response(error, first, last, 0.0, held, still_open, closed=True)
        return
    steps = list(_steps(wanted, first, last))
    if not any(one.kind == "signal" for one in reference.walk()):
        steps = [(first, float(wanted.values[0]))]
    for (at, target), following in zip_longest(steps, steps[1:]):
        end = last if following is None else following[0]
        ends_it = following is None and still_open
        yield (
            at, following is not None,
            _response(values, at, end, target, held, ends_it, closed=following is None),
        )  # fmt: skip


def _steps(wanted: Pieces, first: int, last: int) -> Iterator[tuple[int, float]]:
    final = np.append(np.diff(wanted.ns) > 0, True)
    ns, after = wanted.ns[final], wanted.values[final]
    before = np.concatenate((wanted.values[:1], after[:-1]))
    changed = np.isfinite(before) & np.isfinite(after) & (before != after)
    inside = changed & (ns >= first) & (ns <= last)
    yield from zip(ns[inside].tolist(), after[inside].tolist(), strict=True)


def _known_until(one: Pieces) -> int:
    known = np.flatnonzero(np.isfinite(one.values))
    return int(one.last[known[-1]]) if len(known) else -1


def _response(
    values: Pieces, first: int, last: int, target: float, held: bool, still_open: bool, closed: bool
) -> Response:
    begin = values.row(first)
    end = int(np.searchsorted(values.ns, last, side="right")) if closed else values.row(last) + 1
    ns, v = values.ns[begin:end].copy(), values.values[begin:end].copy()
    if not held and ns[0] < first and len(values.ns) > begin + 1:  # between two rows of a plant
        until = int(values.ns[begin + 1])
        if np.isfinite(values.values[begin + 1]):
            share = (first - ns[0]) / (until - ns[0])
            v[0] += share * (values.values[begin + 1] - v[0])
    ns[0] = first
    if ns[-1] < last:
        ns, v = np.append(ns, last), np.append(v, v[-1])
    t = (ns - first) / NS_PER_S
    return Response(t, v, target, held, (last - first) / NS_PER_S, still_open)
