"""A signal of a run over time, from the rows of its track."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.schema import TrackSpec

_MESSAGES = "messages/"
"""The outputs of a controller are recorded as messages; a signal may leave this prefix out."""
_HELD = (_MESSAGES, "inputs/")
Points = tuple[NDArray[np.int64], Vector]
"""Times (n,) in ns, in ascending order, and the values (n,) at these times."""
_NO_POINTS: Points = (np.empty(0, np.int64), np.empty(0))


class Column:
    """Where the values of ``signal`` (``"component.name"``) are in the rows of its track."""

    def __init__(self, signal: str) -> None:
        """Raise :class:`ScenarioError` if ``signal`` names no component."""
        self.track, dot, self.name = signal.rpartition(".")
        if not dot:
            raise ScenarioError(
                f"{signal!r} is not a signal of a component; write COMPONENT.SIGNAL"
            )
        self.tracks = (self.track, f"{_MESSAGES}{self.track}")
        """The tracks that may have the signal."""
        self._at = -1

    def of(self, spec: TrackSpec, words: NDArray[np.int64]) -> Vector:
        """Return the values (n,) in the rows ``words`` (n, width).

        Raises :class:`UnknownName` if the track has no such signal.
        """
        if self._at < 0:
            columns = spec.signals.columns
            if self.name not in columns:
                raise UnknownName("signal", self.name, columns, f"track {self.track}")
            self._at = 1 + len(spec.integers) + columns.index(self.name)
        return words[:, self._at].view(np.float64)

    def initial(self, spec: TrackSpec) -> float:
        """Return the declared initial value of the signal."""
        return float(spec.signals.initial()[spec.signals.columns.index(self.name)])


class Series:
    """The values of one signal over a window of one run; rows come in, points in time come out.

    A signal of messages or of an external input is *held*: it has its declared initial value from
    0 s on, and each message changes it when the message arrives.  The last value holds until the
    end of the run.  The signal of a plant is linear between two rows.  The points therefore begin
    and end exactly with the window, whether or not rows lie there.
    """

    def __init__(self, signal: str, after: float = 0.0, before: float = math.inf) -> None:
        """``after`` and ``before``: the window, s; both ends belong to it."""
        self.column = Column(signal)
        self.held = False
        """True if each value holds until the next point; known after the first :meth:`take`."""
        self._begin = round(after * NS_PER_S)
        self._end = None if before == math.inf else round(before * NS_PER_S)
        self._spec: TrackSpec | None = None
        self._value = math.nan
        """Held: the value at the latest time that is decided."""
        self._t = -1
        """Time of the last point, ns; negative before the first."""
        self._waiting: tuple[NDArray[np.int64], Vector] = (np.empty((0, 2), np.int64), np.empty(0))
        """Held: the arrivals (n, 2) that a later row may still precede, and their values (n,)."""
        self._last: Points = _NO_POINTS
        """Linear: the latest row; it may lie outside the window."""

    def take(self, spec: TrackSpec, words: NDArray[np.int64]) -> Points:
        """Take further rows (n, width), and return the points that are known now."""
        values = self.column.of(spec, words)
        if self._spec is None:
            self._spec, self.held = spec, spec.name.startswith(_HELD)
            self._value = self.column.initial(spec) if self.held else math.nan
        if not len(words):
            return _NO_POINTS
        if not self.held:
            return self._on_lines(words[:, 0], values)
        arrivals, values = _arrivals(spec, words, values)
        arrivals = np.concatenate((self._waiting[0], arrivals))
        values = np.concatenate((self._waiting[1], values))
        order = np.lexsort((arrivals[:, 1], arrivals[:, 0]))
        arrivals, values = arrivals[order], values[order]
        # No later row arrives before the time at which the last one was sent.
        known = int(np.searchsorted(arrivals[:, 0], words[-1, 0], side="left"))
        self._waiting = arrivals[known:], values[known:]
        return self._changes(arrivals[:known, 0], values[:known])

    def rows(self, spec: TrackSpec, words: NDArray[np.int64]) -> Points:
        """Return the rows (n, width) in the window as they are, at the times of their messages."""
        ns, values = words[:, 0], self.column.of(spec, words)
        inside = ns >= self._begin
        if self._end is not None:
            inside &= ns <= self._end
        return ns[inside], values[inside]

    def end(self, ended_ns: int) -> Points:
        """Return the last points of a run that ended at ``ended_ns``."""
        if not self.held:
            return _NO_POINTS
        there = int(np.searchsorted(self._waiting[0][:, 0], ended_ns, side="right"))
        t, v = self._changes(self._waiting[0][:there, 0], self._waiting[1][:there])
        end = ended_ns if self._end is None else min(self._end, ended_ns)
        if end < self._begin:
            return _NO_POINTS
        closing = [self._begin] if self._t < 0 else []
        if end > max(self._t, self._begin):
            closing.append(end)
        self._t = end
        return np.append(t, closing).astype(np.int64), np.append(v, [self._value] * len(closing))

    def uncovered(self, ended_ns: int) -> str:
        """Return which part of the window a run that ended at ``ended_ns`` lacks; empty if none."""
        for name, at in (("begins", self._begin), ("ends", self._end)):
            if at is not None and ended_ns < at:
                ended = f"the run ended at {ended_ns / NS_PER_S:g} s"
                return f"{ended}, but its window {name} at {at / NS_PER_S:g} s"
        return ""

    def _changes(self, ns: NDArray[np.int64], values: Vector) -> Points:
        """Return the points of a held signal that changes at ``ns`` (n,) to ``values`` (n,)."""
        if self._end is not None:
            inside = int(np.searchsorted(ns, self._end, side="right"))
            ns, values = ns[:inside], values[:inside]
        before = int(np.searchsorted(ns, self._begin, side="right"))
        if before:
            self._value = float(values[before - 1])
        if before == len(ns):
            return _NO_POINTS
        ns, values = ns[before:], values[before:]
        if self._t < 0:
            ns = np.insert(ns, 0, self._begin)
            values = np.insert(values, 0, self._value)
        self._t, self._value = int(ns[-1]), float(values[-1])
        return ns, values

    def _on_lines(self, ns: NDArray[np.int64], values: Vector) -> Points:
        """Return the points of a signal whose rows (n,) are joined by lines."""
        old = len(self._last[0])
        t, v = np.concatenate((self._last[0], ns)), np.concatenate((self._last[1], values))
        self._last = t[-1:], v[-1:]
        first = max(old, int(np.searchsorted(t, self._begin, side="left")))
        behind = len(t)
        if self._end is not None:
            behind = max(old, int(np.searchsorted(t, self._end, side="right")))
        out_t, out_v = t[first:behind], v[first:behind]
        if 0 < first < len(t) and t[first - 1] < self._begin < t[first]:
            out_t = np.insert(out_t, 0, self._begin)
            out_v = np.insert(out_v, 0, _between(t, v, first, self._begin))
        end = self._end
        if end is not None and 0 < behind < len(t) and t[behind - 1] < end and self._begin < end:
            out_t = np.append(out_t, end)
            out_v = np.append(out_v, _between(t, v, behind, end))
        return out_t, out_v


def _arrivals(spec: TrackSpec, words: NDArray[np.int64], values: Vector) -> Points:
    """Return the tags (n, 2) at which rows take effect, without lost ones, and their values."""
    if "arrival" not in spec.integers:
        return np.stack((words[:, 0], np.zeros(len(words), np.int64)), axis=1), values
    at = [1 + spec.integers.index(name) for name in ("arrival", "arrival_step")]
    arrived = words[:, at[0]] >= 0
    return words[arrived][:, at], values[arrived]


def _between(t: NDArray[np.int64], v: Vector, after: int, at: int) -> float:
    """Return the value at ``at`` ns on the line that ends with the row number ``after``."""
    share = (at - t[after - 1]) / (t[after] - t[after - 1])
    return float(v[after - 1] + share * (v[after] - v[after - 1]))
