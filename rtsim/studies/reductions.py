"""Reductions: results that are computed during a run, without a recording.

Each reduction is a class in :data:`REDUCTIONS`. Other packages add reductions through the entry
point ``rtsim.reductions`` (docs/studies.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.signals import Vector
from rtsim.requirements import responses
from rtsim.requirements.responses import Running as Running
from rtsim.requirements.responses import crossed
from rtsim.studies.texts import call_of, made


@dataclass(frozen=True)
class Reduction(ABC):
    """Base class of results that reduce a signal over time to one number.

    A reduction uses the time from ``after`` to ``before`` (s). By default, a reduction uses the
    whole run. The result is NaN if the run ends before ``after`` or ``before``.

    A signal of a plant is interpolated linearly between rows. A signal of messages keeps each value
    until the next message arrives. Before the first message, the signal has its declared initial
    value.
    """

    name: ClassVar[str]
    of_rows: ClassVar[bool] = False
    """If True, the points are the recorded rows, and the time of a message is the time at which it
    was sent. If False, the window's ends are additional points, and the time of a message is its
    arrival.
    """

    signal: str
    after: float = field(default=0.0, kw_only=True)
    before: float = field(default=math.inf, kw_only=True)

    def __post_init__(self) -> None:
        if not 0.0 <= self.after <= self.before or self.after == math.inf:
            raise ScenarioError(
                f"the window of {self.signal} is from {self.after!r} to {self.before!r} s; give "
                "'after' >= 0 s, and a time 'before' that is not earlier"
            )

    @abstractmethod
    def begin(self) -> Running:
        """Return an object that computes the result during a run."""

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data for :func:`reduction_of`."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        own = {k: v for k, v in own.items() if not (k == "before" and v == math.inf)}
        return {"reduction": self.name, **own}


class _Fold(Running):
    def __init__(self, fold: Callable[[float, Vector], float]) -> None:
        self._fold, self._value = fold, math.nan

    def take(self, t: Vector, v: Vector) -> None:  # noqa: ARG002
        self._value = float(self._fold(self._value, v))

    def value(self) -> float:
        return self._value


def _largest(so_far: float, v: Vector) -> float:
    new = float(v.max())
    return new if math.isnan(so_far) else max(so_far, new)


def _smallest(so_far: float, v: Vector) -> float:
    new = float(v.min())
    return new if math.isnan(so_far) else min(so_far, new)


@dataclass(frozen=True)
class Last(Reduction):
    """Last value of the signal."""

    name: ClassVar[str] = "last"

    def begin(self) -> Running:
        return _Fold(lambda _, v: float(v[-1]))


@dataclass(frozen=True)
class Max(Reduction):
    """Largest value of the signal."""

    name: ClassVar[str] = "max"

    def begin(self) -> Running:
        return _Fold(_sticky(_largest))


@dataclass(frozen=True)
class Min(Reduction):
    """Smallest value of the signal."""

    name: ClassVar[str] = "min"

    def begin(self) -> Running:
        return _Fold(_sticky(_smallest))


@dataclass(frozen=True)
class MaxAbs(Reduction):
    """Largest distance of the signal from ``target``."""

    name: ClassVar[str] = "max_abs"

    target: float = 0.0

    def begin(self) -> Running:
        largest = _sticky(_largest)
        return _Fold(lambda so_far, v: largest(so_far, np.abs(v - self.target)))


def _sticky(fold: Callable[[float, Vector], float]) -> Callable[[float, Vector], float]:
    bad = False

    def folded(so_far: float, v: Vector) -> float:
        nonlocal bad
        bad = bad or bool(np.isnan(v).any())
        return math.nan if bad else fold(so_far, v)

    return folded


def _added(so_far: float, v: Vector) -> float:
    return float(np.cumsum(np.concatenate(([so_far], v)))[-1])


class _Integral(Running):
    def __init__(self, between: Callable[[Vector, Vector], Vector], average: bool) -> None:
        self._between, self._average = between, average
        self._sum, self._begin, self._t, self._v = 0.0, math.nan, math.nan, math.nan

    def take(self, t: Vector, v: Vector) -> None:
        if math.isnan(self._begin):
            self._begin = float(t[0])
        else:
            t, v = np.concatenate(([self._t], t)), np.concatenate(([self._v], v))
        steps = self._between(v[:-1], v[:-1] if self.held else v[1:]) * np.diff(t)
        self._sum = _added(self._sum, steps)
        self._t, self._v = float(t[-1]), float(v[-1])

    def value(self) -> float:
        lasted = self._t - self._begin
        # The last value of a held signal does not contribute to the sum, so it is checked here.
        if math.isnan(lasted) or math.isnan(self._v):
            return math.nan
        if not self._average:
            return self._sum
        return self._sum / lasted if lasted else self._v


@dataclass(frozen=True)
class Mean(Reduction):
    """Average of the signal over the time of the window.

    A signal of messages keeps its value until the next message arrives. Use this average for
    quantities such as the length of a queue. For an average over messages, such as the waiting time
    of customers, use ``MeanOfRows``.
    """

    name: ClassVar[str] = "mean"

    def begin(self) -> Running:
        return _Integral(lambda a, b: 0.5 * (a + b), average=True)


class _Rows(Running):
    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def take(self, t: Vector, v: Vector) -> None:  # noqa: ARG002
        self._sum = _added(self._sum, v)
        self._count += len(v)

    def value(self) -> float:
        return self._sum / self._count if self._count else math.nan


@dataclass(frozen=True)
class MeanOfRows(Reduction):
    """Average over rows or messages, such as the mean waiting time of customers."""

    name: ClassVar[str] = "mean_of_rows"
    of_rows: ClassVar[bool] = True

    def begin(self) -> Running:
        return _Rows()


@dataclass(frozen=True)
class IntegralSquaredError(Reduction):
    """Integral of (signal - ``target``)^2 over time.

    The integral is exact for signals of messages, and for signals that are linear between rows.
    """

    name: ClassVar[str] = "ise"

    target: float = 0.0

    def begin(self) -> Running:
        return _Integral(self._squared, average=False)

    def _squared(self, first: Vector, last: Vector) -> Vector:
        a, b = first - self.target, last - self.target
        average: Vector = (a**2 + b**2 + (a + b) ** 2) / 6.0
        return average


class _Crossing(Running):
    def __init__(self, level: float, rising: int) -> None:
        self._level, self._rising = level, rising
        self._found, self._t, self._v = math.nan, math.nan, math.nan
        self._ended = False

    def take(self, t: Vector, v: Vector) -> None:
        if self._ended:
            return
        if math.isnan(self._t):
            self._found = math.inf
        else:
            t, v = np.concatenate(([self._t], t)), np.concatenate(([self._v], v))
        d = v - self._level
        up = (d[:-1] < 0.0) & (d[1:] >= 0.0)
        down = (d[:-1] > 0.0) & (d[1:] <= 0.0)
        hit = {1: up, -1: down, 0: up | down}[self._rising]
        k = int(np.argmax(hit)) if hit.any() else len(hit)
        if np.isnan(d[: k + 1]).any():
            self._found, self._ended = math.nan, True
        elif k < len(hit):
            self._ended = True
            self._found = float(t[k + 1]) if self.held else crossed(t[k:], d[k:])
        self._t, self._v = float(t[-1]), float(v[-1])

    def value(self) -> float:
        return self._found


@dataclass(frozen=True)
class FirstCrossing(Reduction):
    """Time (s) at which the signal first crosses ``level``, or infinity.

    ``direction`` is 1 for rising, -1 for falling, or 0 for both. The result is NaN if a value
    before the crossing is NaN. A signal of a plant is interpolated linearly between rows. A signal
    of messages crosses ``level`` when a message arrives.
    """

    name: ClassVar[str] = "first_crossing"

    level: float = 0.0
    direction: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in (-1, 0, 1):
            raise ScenarioError(f"direction is {self.direction!r}; give 1, -1 or 0")

    def begin(self) -> Running:
        return _Crossing(self.level, self.direction)


@dataclass(frozen=True)
class SettlingTime(Reduction):
    """Time (s) from ``after`` until the signal stays within ``band`` of ``target``.

    The result is infinite if the signal ends outside the band, and NaN if a value is NaN. A signal
    of a plant is interpolated linearly between rows. A signal of messages enters the band when a
    message arrives.
    """

    name: ClassVar[str] = "settling_time"

    target: float = 0.0
    band: float = 0.05

    def begin(self) -> Running:
        return responses.Settling(self.target, self.band, self.after)


@dataclass(frozen=True)
class Overshoot(Reduction):
    """Largest excess of the signal over ``target``, relative to the step.

    The step is the distance from the signal's first value to ``target``.
    """

    name: ClassVar[str] = "overshoot"

    target: float = 0.0

    def begin(self) -> Running:
        return responses.Overshoot(self.target)


def _checked(name: str, one: object) -> type[Reduction]:
    if not (isinstance(one, type) and issubclass(one, Reduction)) or one.name != name:
        raise ScenarioError(
            f"reduction {name!r} is {one!r}; expected a subclass of rtsim.studies.Reduction whose "
            f"name is {name!r}"
        )
    return one


_SHIPPED: tuple[type[Reduction], ...] = (
    Last, Max, Min, MaxAbs, Mean, MeanOfRows, IntegralSquaredError, FirstCrossing, SettlingTime,
    Overshoot,
)  # fmt: skip
REDUCTIONS: ExtensionPoint[type[Reduction]] = ExtensionPoint(
    "rtsim.reductions", "reduction", {one.name: one for one in _SHIPPED}, _checked
)
"""Classes of the reductions, by name."""


def reduction_of(plain: Mapping[str, Any]) -> Reduction:
    given = dict(plain)
    make = REDUCTIONS.get_or_raise(str(given.pop("reduction", "")))
    return made(f"reduction {make.name}", make, [], given)


def reduction_of_text(text: str) -> Reduction:
    call = call_of(text)
    make = REDUCTIONS.get_or_raise(call.name)
    return made(f"result {text!r}", make, call.values, call.named)
