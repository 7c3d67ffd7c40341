"""Changes of input sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hitl.interface.ranges import short
from hitl.stimuli.ranges import Ranges, Table
from rtsim.core.signals import Vector

_ON = (1.0, -0.5, 3.0, 0.5, 10.0)
"""Factors by which a change that helped is continued."""
_GAPS = (1.0, -1.0, 1.01, -1.01, 0.5, 2.0, -2.0, 10.0, -10.0)


def continued(ranges: Ranges, table: Table, change: Table) -> Iterator[Table]:
    """Yield sequences that go on from ``table`` in the direction of ``change``."""
    with np.errstate(all="ignore"):
        for factor in _ON:
            on = ranges.fitted(table + factor * change)
            if not np.array_equal(on, table, equal_nan=True):
                yield on


class Mutations:
    """Random changes within ``ranges``, of sequences with at most ``rows`` steps."""

    def __init__(self, ranges: Ranges, rng: np.random.Generator, rows: int) -> None:
        self.ranges, self.rng, self.rows = ranges, rng, rows
        self._all = (
            self._set, self._set, self._set, self._hinted, self._hinted, self._added,
            self._added, self._longer, self._several, self._shorter, self._pulse,
        )  # fmt: skip

    def fresh(self) -> Table:
        """Return a sequence that depends on no other."""
        rows = self._length()
        return np.tile([self.ranges.drawn(self.rng, c) for c in range(len(self.ranges))], (rows, 1))

    def changed(self, table: Table, sides: Vector | None, others: Sequence[Table]) -> Table:
        """Return ``table`` with one to three changes.

        ``sides`` (2,) are the values that were compared where the sequence came nearest to the
        wanted branch; ``others`` are sequences to continue with.
        """
        out = table
        for _ in range(1 + int(self.rng.integers(3))):
            if others and self.rng.random() < 0.06:
                out = self._spliced(out, others)
            elif len(self.ranges):
                how = self._all[int(self.rng.integers(len(self._all)))]
                out = how(np.array(out), sides)
        return self.ranges.fitted(out[: self.rows])

    def _column(self) -> int:
        return int(self.rng.integers(len(self.ranges)))

    def _length(self) -> int:
        """Draw a number of steps; short sequences are more frequent."""
        return max(1, min(self.rows, int(self.rows ** self.rng.random() + 0.5)))

    def _span(self, table: Table) -> slice:
        """Draw rows: all, from a row to the end, or some."""
        kind, rows = self.rng.random(), len(table)
        if kind < 0.4 or rows == 1:
            return slice(0, rows)
        start = int(self.rng.integers(rows))
        if kind < 0.75:
            return slice(start, rows)
        return slice(start, min(rows, start + self._length()))

    def _set(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        column = self._column()
        table[self._span(table), column] = self.ranges.drawn(self.rng, column)
        return table

    def _several(self, table: Table, sides: Vector | None) -> Table:
        span = self._span(table)
        for _ in range(2 + int(self.rng.integers(3))):
            column = self._column()
            table[span, column] = self.ranges.drawn(self.rng, column)
        return self._longer(table, sides) if self.rng.random() < 0.3 else table

    def _hinted(self, table: Table, sides: Vector | None) -> Table:
        """Bring a value of the comparison into an input, or add the gap between both sides."""
        if sides is None or not np.isfinite(sides).all():
            return self._added(table, sides)
        left, right = sides.tolist()
        column, span = self._column(), self._span(table)
        if self.rng.random() < 0.4:
            side = (left, right, -left, -right)[int(self.rng.integers(4))]
            nudge = 0.0 if self.rng.random() < 0.5 else 0.01 * abs(side) + 1e-3
            table[span, column] = side + (nudge if self.rng.random() < 0.5 else -nudge)
        else:
            table[span, column] += _GAPS[int(self.rng.integers(len(_GAPS)))] * (right - left)
        return table

    def _added(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        column = self._column()
        one = self.ranges.columns[column]
        size = max(one.width * 10.0 ** -float(self.rng.integers(0, 7)), one.grain)
        with np.errstate(all="ignore"):
            table[self._span(table), column] += short(size * float(self.rng.uniform(-1, 1)), 3)
        return table

    def _longer(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        """Hold the last row, or repeat rows."""
        room = self.rows - len(table)
        if room < 1:
            return table
        more = min(room, max(1, int(len(table) * self.rng.choice([0.1, 0.5, 1.0, 3.0]))))
        if self.rng.random() < 0.7:
            return np.concatenate([table, np.repeat(table[-1:], more, axis=0)])
        return np.concatenate([table, np.resize(table[self._span(table)], (more, table.shape[1]))])

    def _shorter(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        if len(table) < 2:
            return table
        span = self._span(table)
        if span.stop - span.start >= len(table):
            return table[: 1 + int(self.rng.integers(len(table)))]
        return np.delete(table, span, axis=0)

    def _pulse(self, table: Table, sides: Vector | None) -> Table:
        """Set an input in one row; the rows around it keep their values."""
        if len(table) < 2:
            table = self._longer(table, sides)
        column = self._column()
        table[int(self.rng.integers(len(table))), column] = self.ranges.drawn(self.rng, column)
        return table

    def _spliced(self, table: Table, others: Sequence[Table]) -> Table:
        other = others[int(self.rng.integers(len(others)))]
        head = table[: 1 + int(self.rng.integers(len(table)))]
        return np.concatenate([head, other[int(self.rng.integers(len(other))) :]])
