"""A whole run in compiled code, from the tag at 0 ns to the last one, again and again.

A prepared run (:mod:`rtsim.runs.prepared`) in which everything is compiled does not go through the
objects of the system: this module puts the words and the vectors of its first state back, and calls
the kernel until the run ends.  Whatever the kernel leaves to the interpreter ends the attempt, and
the run is then made from its beginning by the :class:`rtsim.engine.executive.Executive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.stretch import Stretches
from rtsim.engine.compiled.table import Table
from rtsim.engine.compiled.transfer import call, copy_in, give_up, undo
from rtsim.record.track import BLOCK_BYTES
from rtsim.solve.internal_steps import nothing

Sink = Callable[[NDArray[np.int64]], object]
"""Receives rows (n, columns) of a track; the array is valid only during the call."""
_MOST_BYTES = 1 << 25
"""Memory for the blocks of all tracks; with more, the rows of many tracks leave the caches."""


class _Blocks:
    """Two blocks of memory for the rows of one track."""

    def __init__(self, width: int, tracks: int) -> None:
        self.width = width
        size = min(BLOCK_BYTES, _MOST_BYTES // (2 * tracks))
        self.capacity = max(16, min(4096, size // (8 * width)))
        self.blocks = [np.zeros((self.capacity, width), np.int64) for _ in range(2)]
        self.addresses = [block.ctypes.data for block in self.blocks]
        self.present = 0
        """Which of them the kernel fills."""


class WholeRun:
    """Repeated runs of one system, each in a single call of compiled code."""

    def __init__(self, stretches: Stretches, table: Table) -> None:
        self._stretches, self._table = stretches, table
        copy_in(table, ())
        self._state = table.changing
        self._w = table.w
        self._w[self._state + at.NOW] = at.NOTHING
        self._start = self._w[self._state :].copy()
        self._vectors = [(vector, vector.copy()) for vector in _changing(table)]
        self._blocks = [_Blocks(t.spec.width, len(table.tracks)) for t in table.tracks]
        self._call = stretches.kernel.on(self._w)
        self._sinks: Sequence[Sink | None] = ()
        self.wall_ns = 0
        """How long the kernel computed in the latest run, ns of the wall clock."""
        self._lent: tuple[bool, ...] = ()
        """Which tracks keep rows, as the words of the table say."""

    @property
    def names(self) -> list[str]:
        """The names of the tracks, in the order of the sinks."""
        return [track.name for track in self._table.tracks]

    @property
    def valid(self) -> bool:
        """Return whether the system still has the table that this object uses."""
        return self._table.w is self._w

    @property
    def now_ns(self) -> int:
        """The last tag that was run, ns."""
        return int(self._w[self._state + at.NOW])

    def reset(self) -> None:
        """Restore the initial state; write changed parameter values after this call."""
        self._w[self._state :] = self._start
        give_up(self._table)
        for vector, first in self._vectors:
            vector[...] = first
        for blocks in self._blocks:
            blocks.present = 0

    def disturbed(self) -> None:
        """Note that another run used the table."""
        self._lent = ()

    def run(self, until_ns: int, sinks: Sequence[Sink | None]) -> int | None:
        """Run to ``until_ns`` (ns) after :meth:`reset`; return the number of tags.

        ``sinks`` receive the rows of the tracks; the rows of a track without a sink are dropped.
        Returns ``None`` if a tag needs the interpreter; sinks may have received rows before that.
        """
        self._sinks = sinks
        lent = tuple(sink is not None for sink in sinks)
        if lent != self._lent:
            self._lend(lent)
        w = self._w
        w[at.LIMIT], w[at.LAST] = until_ns, 1
        try:
            tags = self._run(until_ns)
        finally:
            w[at.LAST] = 0
        if tags is not None:
            for row, blocks, sink in zip(self._table.track_rows, self._blocks, sinks, strict=True):
                if sink is not None and (count := int(w[row.state + at.B_ROW])):
                    sink(blocks.blocks[blocks.present][:count])
        return tags

    def _run(self, until_ns: int) -> int | None:
        self.wall_ns = 0
        w, state, table, drawing = self._w, self._state, self._table, self._table.draws
        tags: int = 0
        while True:
            if drawing:
                table.system.ns = max(0, self.now_ns)
                self._stretches.draw_ahead(table, until_ns)
            began = stopwatch()
            try:
                done = call(table, self._call, nothing)
            except KeyboardInterrupt:
                raise
            except Exception:
                return None  # the interpreter meets the same error, and says where it is
            self.wall_ns += stopwatch() - began
            tags += done
            unfinished, dry = w[state + at.IN_TAG], w[state + at.DRY]
            if unfinished:
                undo(table)
                if not (dry and done):
                    return None
            if drawing:
                for row, draws in zip(table.draw_rows, drawing.values(), strict=True):
                    draws.settle(int(w[row.state + at.C_NEXT]))
            if w[state + at.ROLLED]:
                self._empty()
            elif w[state + at.NOW] >= until_ns:
                return tags
            elif not done:
                return None

    def _lend(self, kept: tuple[bool, ...]) -> None:
        """Let the kernel write rows of the ``kept`` tracks into the blocks of this object."""
        w, begin = self._w, self._state
        for row, blocks, keep in zip(self._table.track_rows, self._blocks, kept, strict=True):
            w[row.at + at.R_STATE], w[row.at + at.R_WIDTH] = row.state, blocks.width
            w[row.at + at.R_CAPACITY] = blocks.capacity
            self._point(row.state, blocks)
            if not keep:
                w[row.state + at.B_BLOCK_LENGTH] = w[row.state + at.B_SPARE_LENGTH] = 0
            first = slice(row.state - begin, row.state - begin + at.TRACK_STATE)
            self._start[first] = w[row.state : row.state + at.TRACK_STATE]
        self._lent = kept

    def _point(self, s: int, blocks: _Blocks) -> None:
        """Let the kernel begin at the first row of the first block."""
        w, size = self._w, blocks.blocks[0].size
        w[s + at.B_BLOCK], w[s + at.B_BLOCK_LENGTH] = blocks.addresses[0], size
        w[s + at.B_SPARE], w[s + at.B_SPARE_LENGTH] = blocks.addresses[1], size
        w[s + at.B_ROW] = w[s + at.B_ROLLED] = 0

    def _empty(self) -> None:
        """Hand over the full blocks, and let the kernel have them as its spare ones."""
        w = self._w
        for row, blocks, sink in zip(
            self._table.track_rows, self._blocks, self._sinks, strict=True
        ):
            s = row.state
            if w[s + at.B_ROLLED]:
                full = blocks.present
                if sink is not None:
                    sink(blocks.blocks[full])
                blocks.present = 1 - full
                w[s + at.B_SPARE], w[s + at.B_ROLLED] = blocks.addresses[full], 0
        w[self._state + at.ROLLED] = 0


def _changing(table: Table) -> list[Vector]:
    """The vectors that a run changes, and those that hold values that can be set."""
    system = table.system
    found = chain(
        table.spans,
        (plant.p for plant in system.plants),
        (vector for initial in system.initials.values() for vector in initial.vectors),
        (one for port in system.ports.values() for one in (port.value, port.early)),
    )
    return list({(v.ctypes.data, v.size): v for v in found if v.size}.values())
