"""Rows of a track that stay in the recording's file and are read by row range or by column.

:class:`StoredWords` takes the place of an array (n, width) of int64.  Slices of rows
(``words[a:b]``) stay in the file; columns (``words[:, 3]``) and single rows are read as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtsim.record.chunks import HEAD, RECORD, Messages
from rtsim.record.schema import TrackSpec, Words

TOGETHER = 100 << 20
"""Bytes of columns that are read together and cached, because a pass over the file takes the same
time for one column as for ten."""
PIECE = 1 << 24
"""Default size in bytes of the pieces of :func:`pieces`."""

_NONE = np.empty((0, 0), np.int64)


class StoredWords:
    """Rows ``first`` to ``stop`` of a track in a file, in the layout of :class:`TrackSpec`."""

    def __init__(
        self, spec: TrackSpec, messages: Messages, first: int = 0, stop: int | None = None
    ) -> None:
        self._spec, self._messages = spec, messages
        self._first = first
        self._stop = messages.count if stop is None else stop

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._spec.width

    def __len__(self) -> int:
        return self._stop - self._first

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                "rows that are stored in a file can only be copied into an array; leave "
                "copy=False out"
            )
        out = self._read(0, self._spec.width, self._first, self._stop, "C")
        return out if dtype is None else out.astype(dtype, copy=False)

    def tobytes(self) -> bytes:
        """Return the bytes of all rows, as for an array."""
        return np.asarray(self).tobytes()

    def tolist(self) -> list[list[int]]:
        """Return all rows as lists, as for an array."""
        out: list[list[int]] = np.asarray(self).tolist()
        return out

    def __getitem__(self, key: Any) -> Any:
        """Return the rows of a slice or a mask, or one row; a second index selects columns."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice):
            part = self._between(rows)
            if part is None:
                return np.asarray(self)[key]
            return part if not isinstance(key, tuple) else part._columns(columns)
        if isinstance(rows, int | np.integer):
            at = range(len(self))[int(rows)] + self._first
            return self._read(0, self._spec.width, at, at + 1, "C")[0][columns]
        chosen = np.asarray(rows)
        if chosen.dtype == bool and not isinstance(key, tuple):
            there = np.flatnonzero(chosen)
            if not len(there) or there[-1] - there[0] + 1 == len(there):
                begin = int(there[0]) if len(there) else 0
                return self[begin : begin + len(there)]
        return np.asarray(self)[key]

    def _between(self, rows: slice) -> StoredWords | None:
        first, stop, step = rows.indices(len(self))
        if step != 1:
            return None
        first, stop = self._first + first, self._first + max(first, stop)
        return StoredWords(self._spec, self._messages, first, stop)

    def _columns(self, columns: Any) -> NDArray[np.int64]:
        """Return whole columns; the columns after them are read and cached at the same time."""
        if not isinstance(columns, int | np.integer | slice):
            return np.asarray(self)[:, columns]
        chosen = range(self._spec.width)[columns]
        if isinstance(chosen, int):
            return self._column(chosen).copy()
        out = np.empty((len(self), len(chosen)), np.int64, "F")
        for k, column in enumerate(chosen):
            out[:, k] = self._column(column)
        return out

    def _column(self, column: int) -> NDArray[np.int64]:
        """Return a view of a cached column; read the column first if it is not cached."""
        all_rows = self._messages.count
        kept = self._messages.chunks.columns
        first, block = kept.get(id(self._messages), (0, _NONE))
        if not first <= column < first + block.shape[1]:
            block = _NONE
            kept.clear()  # free the old columns before the next are read
            many = max(1, TOGETHER // max(1, 8 * all_rows))
            first, last = column, min(self._spec.width, column + many)
            block = self._read(first, last, 0, all_rows, "F")
            kept[id(self._messages)] = first, block
        return block[self._first : self._stop, column - first]

    def _read(self, low: int, high: int, first: int, stop: int, order: Any) -> NDArray[np.int64]:
        """Read columns ``low`` to ``high`` of rows ``first`` to ``stop`` of the whole track."""
        out = np.empty((max(0, stop - first), high - low), np.int64, order)
        for at, rows in self._records(first, stop):
            begin = max(0, first - at)
            rows = rows[begin : stop - at]
            into = out[at + begin - first : at + begin - first + len(rows)]
            if low == 0 and high > 0:
                into[:, 0] = rows["time"].astype(np.int64)
            if high > max(low, 1) and "row" in (rows.dtype.names or ()):
                fields = max(low, 1)
                self._spec.decode_columns(rows["row"], fields, into[:, fields - low :])
        return out

    def _records(self, first: int, stop: int) -> Iterator[tuple[int, NDArray[np.void]]]:
        """Give blocks of messages, each with the number of its first message."""
        if first >= stop:
            return
        layout = [("record", f"V{RECORD.size + 6}"), ("time", "<u8"), ("published", "<u8")]
        wire = self._spec.wire
        kind = np.dtype([*layout, ("row", wire)] if wire.itemsize else layout)
        assert kind.itemsize == HEAD + (self._messages.size or 0)
        for number, many, data, at in self._messages.runs(first):
            if number >= stop:
                return
            yield number, np.frombuffer(data, kind, many, at)


Table: TypeAlias = Words | StoredWords
"""Rows (n, width), in memory or in a file."""


def pieces(*tables: Table, size: int = PIECE) -> Iterator[tuple[int, tuple[Words, ...]]]:
    """Give the rows that are present in all ``tables``, in pieces of ``size`` bytes.

    Each piece is the number of its first row, and the rows of each table.
    """
    shortest = min(map(len, tables))
    width = max(1, *(table.shape[1] for table in tables))
    rows = max(1, size // (8 * width))
    for first in range(0, shortest, rows):
        last = min(shortest, first + rows)
        yield first, tuple(np.asarray(table[first:last]) for table in tables)
