"""The latest states of the tasks of simulated processors, for clients of a run in progress.

The loop adds rows to a :class:`RecentJobs`.  A client asks for the rows after the last time that it
knows, and joins them to its own copy.  The number of rows is limited, so the copy begins later if
more rows were added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RtsimError

MOST_ROWS = 2000
"""Limit of the rows and of the marks that are kept for a processor."""
MOST_CELLS = 40_000
"""Limit of the cells of all rows of a processor; with many tasks, fewer rows are kept."""
ENDED, AT_DEADLINE = 0, 1
"""Marks: a job has ended, a job was unfinished at its deadline."""


class RecentJobs:
    """The latest states and jobs of the ``tasks`` of one processor. Times are in ns."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self.tasks = tuple(tasks)
        self.since_ns = -1
        """All rows and marks after this time are known."""
        self.until_ns = -1
        most = max(1, min(MOST_ROWS, MOST_CELLS // (1 + len(tasks))))
        self._rows: deque[tuple[int, ...]] = deque(maxlen=most)
        self._marks: deque[tuple[int, int, int]] = deque(maxlen=most)

    def add(
        self,
        until_ns: int,
        rows: Iterable[tuple[int, Sequence[int]]] = (),
    ) -> None:
        """Add all rows up to the time ``until_ns``: time, and the state of each task."""
        for ns, states in rows:
            self._push(self._rows, (ns, *states))
        self.until_ns = until_ns

    def mark(self, ns: int, task: int, kind: int) -> None:
        """Add a mark of the task at position ``task``: :data:`ENDED` or :data:`AT_DEADLINE`."""
        self._push(self._marks, (ns, task, kind))

    def _push(self, kept: deque[Any], row: tuple[int, ...]) -> None:
        if len(kept) == kept.maxlen:
            self.since_ns = max(self.since_ns, kept[0][0])
        kept.append(row)

    def after(self, ns: int) -> dict[str, Any]:
        """Return all rows and marks after ``ns`` as plain data, for :meth:`join`."""
        since = max(ns, self.since_ns)
        return {
            "since": since,
            "until": self.until_ns,
            "rows": _packed(self._rows, since, self.until_ns),
            "marks": _packed(self._marks, since, self.until_ns),
        }

    def join(self, found: Mapping[str, Any]) -> None:
        """Add plain data of :meth:`after` from another process.

        If rows between the known ones and the new ones are missing, the known ones are discarded.
        Raises :class:`RtsimError` for data of a wrong form.
        """
        try:
            since, until = _time(found["since"]), _time(found["until"])
            rows = _unpacked(found["rows"], 1 + len(self.tasks)).tolist()
            marks = _unpacked(found["marks"], 3).tolist()
        except (KeyError, TypeError, ValueError) as error:
            raise RtsimError(f"the states of tasks have a wrong form: {error}") from None
        if since > self.until_ns or until < self.until_ns:
            self._rows.clear()
            self._marks.clear()
            self.since_ns = self.until_ns = since
        for ns, task, kind in marks:
            if ns > self.until_ns:
                self.mark(ns, task, kind)
        self.add(until, ((row[0], row[1:]) for row in rows if row[0] > self.until_ns))

    def states(self) -> NDArray[np.int64]:
        """Return the rows (k, 1 + n): time, and the state of each of n tasks."""
        found = [row for row in self._rows if row[0] > self.since_ns]
        return np.array(found, np.int64).reshape(-1, 1 + len(self.tasks))

    def marks(self, task: int, kind: int) -> NDArray[np.int64]:
        """Return the times of the marks of one task and kind, shape (k,)."""
        return np.array([ns for ns, i, k in self._marks if (i, k) == (task, kind)], np.int64)


def _packed(rows: deque[Any], since_ns: int, until_ns: int) -> bytes:
    new = list(takewhile(lambda row: row[0] > since_ns, reversed(rows)))
    return np.array([row for row in reversed(new) if row[0] <= until_ns], "<i8").tobytes()


def _time(ns: object) -> int:
    if type(ns) is not int or abs(ns) >= 2**63:
        raise ValueError(f"expected a time in ns, not {ns!r:.40}")
    return ns


def _unpacked(data: object, width: int) -> NDArray[np.int64]:
    if not isinstance(data, bytes) or len(data) % (8 * width) or len(data) > 8 * MOST_CELLS * 3:
        raise ValueError(f"expected rows of {width} integers")
    return np.frombuffer(data, "<i8").astype(np.int64).reshape(-1, width)
