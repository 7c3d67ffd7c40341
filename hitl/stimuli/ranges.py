"""The values that generated stimuli may give to the inputs of a controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hitl.interface import Interface
from hitl.interface.ranges import Range, range_of, short, usual_of
from rtsim.core.signals import Vector

Table = NDArray[np.float64]


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
                self.columns.append(range_of(place, name, usual_of(seen, largest)))
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
