"""The values that generated stimuli may give to the inputs of a controller."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hitl.interface import Field, Interface
from hitl.interface.fields import limits
from rtsim.core.signals import Vector

Table = NDArray[np.float64]
_WITHOUT_A_RUN = 1000.0
"""Largest absolute value of an input without declared range, if no run shows one."""
_WIDER = 2.0
"""Without a declared range, values go this far beyond those of the run."""


@dataclass(frozen=True)
class Range:
    """The allowed values of one input column: ``low`` to ``high``, in steps of ``grain``."""

    name: str
    low: float
    high: float
    grain: float
    """Distance of neighbouring values of an integer type; 0 for floating point."""
    bias: float
    specials: tuple[float, ...]
    """Infinities and NaN, if the interface file allows them."""
    single: bool = False
    """True for float32."""

    def fitted(self, value: float) -> float:
        """Return the allowed value that is nearest to ``value``; a special value stays."""
        if math.isnan(value) or math.isinf(value):
            return value if _among(value, self.specials) else self.fitted(_finite(value))
        value = min(max(value, self.low), self.high)
        if self.grain:
            inside = math.ceil((self.low - self.bias) / self.grain - 1e-9)
            most = math.floor((self.high - self.bias) / self.grain + 1e-9)
            raw = min(max(round((value - self.bias) / self.grain), inside), most)
            value = raw * self.grain + self.bias
        return value + 0.0

    @property
    def rest(self) -> float:
        """0, or the allowed value that is nearest to 0."""
        return self.fitted(0.0)

    @property
    def width(self) -> float:
        return self.high - self.low


class Ranges:
    """The ranges of all input columns, with values that are worth a try.

    A range is that of the interface file (``low``, ``high``) and of the C type.  Where the file
    gives none, ``inputs`` (k, m), the inputs of a run, show which values are usual: the range is
    symmetric and twice as wide.  ``numbers`` are those in the text of the C code.
    """

    def __init__(
        self, interface: Interface, inputs: Table | None = None, numbers: Iterable[float] = ()
    ) -> None:
        self.columns: list[Range] = []
        known = sorted(set(numbers))
        largest = max((abs(n) for n in known if abs(n) < 1e6), default=0.0)
        for place in interface.input_fields:
            for name in place.signal.columns:
                at = len(self.columns)
                seen = None if inputs is None or not len(inputs) else inputs[:, at]
                self.columns.append(_range(place, name, seen, largest))
        self.values = [_values(one, known) for one in self.columns]

    def __len__(self) -> int:
        return len(self.columns)

    def fitted(self, table: Table) -> Table:
        """Return a copy of ``table`` (k, m) with the nearest allowed values."""
        out = np.array(table, np.float64)
        for at, one in enumerate(self.columns):
            changes = np.flatnonzero(np.r_[True, out[1:, at] != out[:-1, at]])
            for start, end in zip(changes, [*changes[1:], len(out)], strict=True):
                out[start:end, at] = one.fitted(float(out[start, at]))
        return out

    def holds(self, table: Table) -> bool:
        """Return True if all values of ``table`` are allowed."""
        return bool(np.array_equal(self.fitted(table), table, equal_nan=True))

    @property
    def rest(self) -> Vector:
        """(m,): the values nearest to 0."""
        return np.array([one.rest for one in self.columns])

    def drawn(self, rng: np.random.Generator, column: int) -> float:
        """Draw a value for a column: a special one, one of those worth a try, or any."""
        one, known = self.columns[column], self.values[column]
        if known and rng.random() < 0.4:
            return known[int(rng.integers(len(known)))]
        share = rng.random()
        if rng.random() < 0.3:  # near one end, or near 0 where both ends are far away
            share = share * 10.0 ** -float(rng.integers(1, 5))
            centre = one.rest if rng.random() < 0.5 else (one.low, one.high)[int(rng.integers(2))]
            sign = 1.0 if rng.random() < 0.5 else -1.0
            return one.fitted(short(centre + sign * share * one.width, 3))
        return one.fitted(short(one.low + share * one.width, 3))


def short(value: float, digits: int) -> float:
    """Return ``value`` rounded to ``digits`` significant digits."""
    return float(f"{value:.{digits - 1}e}") if math.isfinite(value) else value


def _range(place: Field, name: str, seen: Vector | None, largest: float) -> Range:
    signal = place.signal
    low, high = signal.low, signal.high
    specials = place.specials
    if signal.type == "bool":
        return Range(name, max(low, 0.0), min(high, 1.0), 1.0, 0.0, ())
    grain = 0.0
    if "int" in signal.type:
        grain = abs(place.scale)
        ends = sorted(raw * place.scale + place.bias for raw in limits(signal.type))
        low, high = max(low, ends[0]), min(high, ends[1])
    if signal.type == "float32":
        largest_float = float(np.finfo(np.float32).max)
        low, high = max(low, -largest_float), min(high, largest_float)
    if math.isinf(signal.low) and math.isinf(signal.high) and not _narrow(signal.type):
        usual = _usual(seen, largest)
        low, high = max(low, -usual), min(high, usual)
    elif math.isinf(signal.low):
        low = max(low, high - 2.0 * max(_usual(seen, largest), abs(high)))
    elif math.isinf(signal.high):
        high = min(high, low + 2.0 * max(_usual(seen, largest), abs(low)))
    return Range(name, low, high, grain, place.bias, specials, signal.type == "float32")


def _narrow(type: str) -> bool:
    """Return True for integer types whose whole range is searched."""
    return type in ("int8", "uint8", "int16", "uint16")


def _usual(seen: Vector | None, largest: float) -> float:
    """Return the largest absolute value to try for an input without a declared range."""
    if seen is None:
        return max(_WITHOUT_A_RUN, _WIDER * largest)
    finite = np.abs(seen[np.isfinite(seen)])
    return short(_WIDER * max(float(finite.max(initial=0.0)), largest, 1.0), 2)


def _values(one: Range, numbers: Sequence[float]) -> list[float]:
    tried = [one.low, one.high, 0.0, 1.0, -1.0, (one.low + one.high) / 2]
    for number in numbers:
        tried += [number, -number]
        if one.grain:
            tried += [number - one.grain, number + one.grain]
        else:
            tried += [short(number * 1.01, 4), short(number * 0.99, 4)]
    inside = [v for v in tried if one.low <= v <= one.high]
    return list(dict.fromkeys([*(one.fitted(v) for v in inside), *one.specials]))


def _among(value: float, values: Sequence[float]) -> bool:
    return any(v == value or (math.isnan(v) and math.isnan(value)) for v in values)


def _finite(value: float) -> float:
    return 0.0 if math.isnan(value) else math.copysign(1.7976931348623157e308, value)
