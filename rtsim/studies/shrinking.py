"""Make a counterexample smaller, as property-based tests do.

:func:`shrink` tries smaller runs, and continues with each one that still violates the requirement:
with fewer control points, fewer changed factors, a shorter run and rounder numbers. The search ends
when no smaller run violates the requirement. All decisions depend only on the verdicts.

:func:`without`, :func:`least` and :func:`rounder` are the searches themselves. The search for
stimuli of C code uses them for sequences of inputs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S
from rtsim.requirements.language import horizon, parse
from rtsim.requirements.measures import relative_limits
from rtsim.scenario.loading import find_maker
from rtsim.studies.counterexample import Counterexample, Point, Runs, Waveform
from rtsim.studies.factors import Choice, Range, Spread
from rtsim.studies.input_signals import PIECES
from rtsim.studies.texts import Value

T = TypeVar("T")
C = TypeVar("C")
DIGITS = (1, 2, 3, 4)
"""Numbers of significant digits to which numbers are rounded."""
TICK = 1_000_000
"""Grid of times in a scenario without a period (ns)."""


# -- searches that do not depend on what is made smaller


def without(
    start: T,
    count: Callable[[T], int],
    fewer: Callable[[T, slice], list[C]],
    first: Callable[[T, Sequence[C]], T | None],
) -> T:
    """Remove elements from ``start``, first in large groups and finally one by one.

    Args:
        start: The value from which elements are removed.
        count: Function that returns the number of elements.
        fewer: Function that returns candidates with fewer elements.
        first: Function that returns the first suitable candidate, or None.
    """
    size = max(1, count(start) // 2)
    while size >= 1:
        starts = range(0, count(start) - size + 1, size)
        found = first(start, [c for s in starts for c in fewer(start, slice(s, s + size))])
        if found is None:
            size //= 2
        else:
            start = found
    return start


def least(high: int, does: Callable[[int], T | None]) -> T | None:
    """Return the result ``does(k)`` for a small k below ``high`` with a result.

    The search halves the interval. If results exist for all larger k too, k is the smallest
    possible number.
    """
    low, best = 0, None
    while high - low > 1:
        middle = (low + high) // 2
        found = does(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best


def rounder(value: float) -> list[float]:
    if not math.isfinite(value):
        return []
    return list(dict.fromkeys(float(f"{value:.{digits - 1}e}") for digits in DIGITS))


# -- counterexamples


class Factor(NamedTuple):
    """Limits of a factor, and its value in the scenario."""

    low: float = -math.inf
    high: float = math.inf
    usual: Value | None = None
    """The value without the search; None if the scenario has none."""


def factors_of(one: Counterexample, spreads: Mapping[str, Spread]) -> dict[str, Factor]:
    """Return limits and usual value of each factor that differs in ``one``.

    Values from a list are not rounded.
    """
    scenario = one.loaded()
    defaults = inspect.signature(find_maker(one.scenario)).parameters
    out = {}
    for name in one.values.keys() & spreads.keys():
        usual: Value | None = None
        if "." in name:
            values, signals, _ = scenario.settable_of(name)
            own = name.partition(".")[2]
            found = np.ravel(signals.initial(values)[signals.slice(own)])
            usual = float(found[0]) if len(found) == 1 else None
        elif isinstance(defaults[name].default, bool | int | float | str):
            usual = defaults[name].default
        spread = spreads[name]
        limits = (spread.low, spread.high) if isinstance(spread, Range) else (-math.inf, math.inf)
        if isinstance(spread, Choice):
            limits = math.inf, -math.inf
        out[name] = Factor(*limits, usual)
    return out


def tick_of(one: Counterexample) -> int:
    """Return the smallest period or plant step of the scenario, ns, or ``TICK`` without one."""
    scenario = one.loaded()
    parts = scenario.describe()["parts"].values()
    given = (part.get(key) for part in parts for key in ("step", "period", "update_period"))
    periods = [Fraction(ns) for ns in given if ns is not None]
    return min((int(ns) for ns in periods if ns.denominator == 1), default=TICK)


class Shrunk(NamedTuple):
    """The result of :func:`shrink`."""

    counterexample: Counterexample
    runs: int
    """Number of runs."""
    complete: bool
    """False if the budget of runs ended the search."""
    robustness: float = math.nan
    """The robustness of the counterexample; NaN from :func:`shrink`."""


def shrunk(
    one: Counterexample, spreads: Mapping[str, Spread], budget: int = 500, share: float = 0.5
) -> Shrunk:
    """Make a counterexample smaller, by runs in this process.

    The robustness of each accepted run is at most ``share`` times that of ``one``. A smaller
    violation could disappear through rounding or latency. A relative measure, such as an overshoot
    in %, could grow without limit for smaller steps. A measure is therefore at most ``1 / share``
    times that of ``one``. The result is checked by one more run.

    Raises ``ScenarioError`` if the repeated run does not violate its requirement.

    Args:
        one: A run that violates its requirement.
        spreads: The factors of the search, by name.
        budget: Greatest number of runs.
        share: Fraction of the robustness that must remain.
    """
    runs = Runs()
    found = runs.check(one)
    if found.result is not Outcome.FAILED:
        raise ScenarioError(
            f"the run does not violate {one.requirement.name} when it is repeated: "
            f"{found.in_words}; the scenario {one.scenario} depends on more than its values, "
            "inputs and seed"
        )
    most, least = 0.0, -math.inf
    if math.isfinite(found.robustness):
        most = share * found.robustness
        limits = relative_limits(parse(one.requirement.formula))
        if limits and share:  # a measure is the limit minus the robustness
            least = (found.robustness - max(limits)) / share + max(limits)
    small = shrink(
        one, lambda x: runs.violates(x, most, least), factors_of(one, spreads), budget, tick_of(one)
    )
    return small._replace(robustness=small.counterexample.check().robustness)


class _Spent(Exception):
    """The budget of runs is spent."""


def size(one: Counterexample, factors: Mapping[str, Factor] | None = None) -> tuple[int, ...]:
    """Return the size of a counterexample as a tuple, for comparison.

    The size consists of the number of control points, the number of changed factors, the end of the
    run and the time of the last control point (ns, rounded up to two digits and one digit), and the
    number of digits.
    """
    changed = [name for name in one.values if name in (factors or {})]
    numbers = [v for wave in one.inputs for ns, v in wave.points]
    numbers += [float(one.values[name]) for name in changed
                if isinstance(one.values[name], int | float)]  # fmt: skip
    times = [ns / NS_PER_S for wave in one.inputs for ns, _ in wave.points]
    return (
        sum(len(wave.points) for wave in one.inputs),
        len(changed),
        _coarse(one.until_ns, 2),
        max((_coarse(wave.points[-1][0], 1) for wave in one.inputs), default=0),
        sum(map(_digits, [*numbers, *times, one.until_ns / NS_PER_S, one.seed])),
    )


def shrink(
    start: Counterexample,
    violates: Callable[[Counterexample], bool],
    factors: Mapping[str, Factor] | None = None,
    budget: int = 500,
    tick: int = TICK,
) -> Shrunk:
    """Return a counterexample that is at most as large as ``start``.

    New times are multiples of ``tick``.

    Args:
        start: A run that violates its requirement.
        violates: Function that returns whether a run violates the requirement. All accepted runs
            violate the requirement.
        factors: Values that may change, by name.
        budget: Greatest number of runs.
        tick: Unit of all times, ns.
    """
    shrinking = _Shrinking(start, violates, factors or {}, budget, tick)
    complete = True
    try:
        shrinking.run()
    except _Spent:
        complete = False
    return Shrunk(shrinking.best, shrinking.runs, complete)


class _Shrinking:
    def __init__(
        self, start: Counterexample, violates: Callable[[Counterexample], bool],
        factors: Mapping[str, Factor], budget: int, tick: int,
    ) -> None:  # fmt: skip
        self.best = start
        self.runs = 0
        self._tick = tick
        self._violates, self._factors, self._budget = violates, factors, budget
        self._tried: set[str] = set()
        needed = horizon(parse(start.requirement.formula)) or 0
        self._least_ns = min(start.until_ns, needed)
        """Earliest end of the run, ns. In an earlier run, the requirement could be violated but not
        met, so that correct code could not pass.
        """

    def run(self) -> None:
        before = None
        while before is not self.best:
            before = self.best
            for part in (
                self._round_times_to_grid, self._points, self._without_inputs, self._unchanged,
                self._with_earlier_end, self._pauses, self._rounded,
            ):  # fmt: skip
                part()

    def _round_times_to_grid(self) -> None:
        inputs = []
        until = max(self._near(self.best.until_ns), self._tick)
        for wave in self.best.inputs:
            points = {self._near(ns): value for ns, value in wave.points}
            if len(points) < len(wave.points) or (wave.kind == PIECES and max(points) >= until):
                return
            inputs.append(replace(wave, points=tuple(points.items())))
        self._first([replace(self.best, inputs=tuple(inputs), until_ns=until)])

    def _near(self, ns: int) -> int:
        return round(Fraction(ns, self._tick)) * self._tick

    def _grid(self, ns: int) -> int:
        return -(-_grid(ns) // self._tick) * self._tick

    def _first(self, candidates: Sequence[Counterexample]) -> Counterexample | None:
        for one in candidates:
            if one.until_ns < self._least_ns:
                one = replace(one, until_ns=self._least_ns)
            if size(one, self._factors) < size(self.best, self._factors):
                key = repr(one)  # a run without violation is not repeated
                if key in self._tried:
                    continue
                if self.runs >= self._budget:
                    raise _Spent
                self.runs += 1
                if self._violates(one):
                    self.best = one
                    return one
                self._tried.add(key)
        return None

    def _smaller(
        self, one: Counterexample, candidates: Sequence[Counterexample]
    ) -> Counterexample | None:
        assert one is self.best
        return self._first(candidates)

    # -- fewer control points, inputs and changed factors

    def _points(self) -> None:
        for k in range(len(self.best.inputs)):

            def fewer(one: Counterexample, gone: slice, k: int = k) -> list[Counterexample]:
                return _without_points(one, k, gone)

            def count(one: Counterexample, k: int = k) -> int:
                return len(one.inputs[k].points)

            def extreme(one: Counterexample, gone: slice, k: int = k) -> list[Counterexample]:
                return [_at_bounds(c, k) for c in _without_points(one, k, gone)]

            without(self.best, count, fewer, self._smaller)
            # Fewer points often need larger values.
            without(self.best, count, extreme, self._smaller)

    def _without_inputs(self) -> None:
        def fewer(one: Counterexample, gone: slice) -> list[Counterexample]:
            return [replace(one, inputs=(*one.inputs[: gone.start], *one.inputs[gone.stop :]))]

        without(self.best, lambda one: len(one.inputs), fewer, self._smaller)

    def _unchanged(self) -> None:
        for name in sorted(self.best.values):
            if name in self._factors and self._factors[name].usual is not None:
                values = {key: v for key, v in self.best.values.items() if key != name}
                self._first([replace(self.best, values=values)])

    # -- a shorter run

    def _with_earlier_end(self) -> None:
        grid = self._grid(self.best.until_ns)
        start = self.best
        least(
            -(-start.until_ns // grid),
            lambda count: self._first([_ended(start, count * grid)]),
        )

    def _pauses(self) -> None:
        k = 1
        while k < len(times := _times(self.best)):
            before, after = times[k - 1], times[k]
            pause, start = after - before, self.best
            grid = self._grid(pause)

            def shorter(count: int, start: Counterexample = start, before: int = before,
                        after: int = after, grid: int = grid) -> Counterexample | None:  # fmt: skip
                begin = self._near(before) + count * grid
                return self._first([_cut(start, begin, after)] if before < begin < after else [])

            least(-(-pause // grid), shorter)
            k += 1

    # -- rounder numbers

    def _rounded(self) -> None:
        for k, wave in enumerate(self.best.inputs):
            for at in range(len(wave.points)):
                self._round_point(k, at)
        for name in sorted(self.best.values):
            value = self.best.values[name]
            if name in self._factors and isinstance(value, int | float):
                self._round_factor(name, value)
        self._first([replace(self.best, seed=0)])
        rounded = [self._near(_ns(s)) for s in rounder(self.best.until_ns / NS_PER_S)]
        self._first([replace(self.best, until_ns=ns) for ns in rounded if ns > 0])

    def _round_point(self, k: int, at: int) -> None:
        wave = self.best.inputs[k]
        low, high = wave.low, wave.high
        ns, value = wave.points[at]
        fewer = [v for v in (0.0, *rounder(value)) if low <= v <= high and v != value]
        self._first([_with_point(self.best, k, at, (ns, v)) for v in fewer])
        wave = self.best.inputs[k]
        if at:
            points = wave.points
            after = points[at + 1][0] if at + 1 < len(points) else self.best.until_ns
            times = [self._near(_ns(s)) for s in rounder(ns / NS_PER_S)]
            inside = [t for t in times if points[at - 1][0] < t < after and t != ns]
            self._first([_with_point(self.best, k, at, (t, points[at][1])) for t in inside])

    def _round_factor(self, name: str, value: float) -> None:
        factor = self._factors[name]
        whole = isinstance(value, int)  # also of a bool, which has no other values
        fewer = [] if isinstance(value, bool) else [0.0, *rounder(float(value))]
        inside = [v for v in fewer if factor.low <= v <= factor.high and v != value]
        values = [int(v) for v in inside if v.is_integer()] if whole else inside
        self._first([replace(self.best, values={**self.best.values, name: v}) for v in values])


def _without_points(one: Counterexample, k: int, gone: slice) -> list[Counterexample]:
    points = one.inputs[k].points
    kept = (*points[: gone.start], *points[gone.stop :])
    out: list[Counterexample] = []
    if not kept:
        return out
    begin = points[gone.start][0]
    if gone.stop < len(points):
        out.append(_cut(one, begin, points[gone.stop][0]))
    elif one.inputs[k].kind == PIECES and begin > 0:
        out.append(_ended(one, begin))
    if gone.start > 0:
        out.append(_with_points(one, k, kept))
    if gone.stop < len(points):
        earlier = ((begin, points[gone.stop][1]), *points[gone.stop + 1 :])
        out.append(_with_points(one, k, (*points[: gone.start], *earlier)))
    return out


def _with_points(one: Counterexample, k: int, points: Sequence[Point]) -> Counterexample:
    inputs = list(one.inputs)
    inputs[k] = replace(inputs[k], points=tuple(points))
    return replace(one, inputs=tuple(inputs))


def _with_point(one: Counterexample, k: int, at: int, point: Point) -> Counterexample:
    points = list(one.inputs[k].points)
    points[at] = point
    return _with_points(one, k, points)


def _at_bounds(one: Counterexample, k: int) -> Counterexample:
    wave = one.inputs[k]
    middle = 0.5 * (wave.low + wave.high)
    points = [(ns, wave.low if value < middle else wave.high) for ns, value in wave.points]
    return _with_points(one, k, points)


def _ended(one: Counterexample, until_ns: int) -> Counterexample:
    inputs = tuple(wave.within(until_ns) for wave in one.inputs)
    return replace(one, inputs=inputs, until_ns=until_ns)


def _cut(one: Counterexample, begin: int, end: int) -> Counterexample:
    inputs = tuple(_cut_wave(wave, begin, end) for wave in one.inputs)
    return replace(one, inputs=inputs, until_ns=one.until_ns - (end - begin))


def _cut_wave(wave: Waveform, begin: int, end: int) -> Waveform:
    before = [point for point in wave.points if point[0] < begin]
    after = [(ns - (end - begin), value) for ns, value in wave.points if ns >= end]
    inside = [value for ns, value in wave.points if begin <= ns < end]
    if inside and not (after and after[0][0] == begin):
        after.insert(0, (begin, inside[-1]))  # the value at the end of the time that is left out
    return replace(wave, points=(*before, *after))


def _times(one: Counterexample) -> list[int]:
    return sorted({ns for wave in one.inputs for ns, _ in wave.points})


def _grid(ns: int, digits: int = 2) -> int:
    return int(10 ** max(0, len(str(ns)) - digits))


def _coarse(ns: int, digits: int) -> int:
    grid = _grid(ns, digits)
    return -(-ns // grid) * grid


def _digits(value: float) -> int:
    return len(Decimal(repr(value)).normalize().as_tuple().digits) if value else 0


def _ns(s: float) -> int:
    return round(s * NS_PER_S)
