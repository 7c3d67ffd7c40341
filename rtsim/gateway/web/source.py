"""What a page shows, and where it comes from: a run in progress or a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S

MOST_POINTS = 600
"""Limit of the number of points of a curve, whatever the length of the run."""
MOST_NAMES = 900
"""Limit of the number of signals that a page reads at a time."""

MOST_VIEWS = 100
"""Limit of the number of views of a page."""


@dataclass(frozen=True)
class PageState:
    """The state of a run or of a recording that is played, at simulated time ``ns``.

    ``rate`` is 0 if as fast as possible.  ``margin_ns`` and ``lateness_ns`` are those of the latest
    frame, ``None`` if the run is not paced.
    """

    ns: int
    rate: float
    standing: bool
    late: int = 0
    missed: int = 0
    overruns: int = 0
    overruns_compute: int = 0
    margin_ns: int | None = None
    lateness_ns: int | None = None
    frames: int = 0
    segment: int = 1


@dataclass(frozen=True)
class Look:
    """One look at a source: state, values by name, and stamps of the latest messages by topic.

    The stamps are the times, ns, at which the message was initiated, was completed and arrives.
    """

    state: PageState
    values: Mapping[str, float]
    stamps: Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True)
class Past:
    """Values of signals over time: ``seconds`` (k,), and one array (k,) for each name."""

    seconds: Vector
    values: Mapping[str, Vector]


@dataclass(frozen=True)
class About:
    """The description of a source; signals, parameters and topics are as in the catalogue."""

    title: str
    signals: Mapping[str, str]
    """The unit of each signal, by name."""
    kinds: Mapping[str, str]
    parameters: Sequence[Mapping[str, Any]] = ()
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    views: Sequence[Mapping[str, Any]] = ()
    """The views as plain data, at most :data:`MOST_VIEWS`."""
    bodies: Sequence[Mapping[str, Any]] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    ends: tuple[int, int] | None = None
    """Begin and end of a recording, ns; ``None`` for a run in progress."""


class Source(Protocol):
    """A run in progress or a recording; all methods are called from one thread."""

    about: About

    def look(self, names: Sequence[str]) -> Look | None:
        """Return the present state and the values of ``names``; ``None`` without an answer.

        Raises :class:`RtsimError` at the end of the run.
        """
        ...

    def past(self, names: Sequence[str], span_s: float) -> Past:
        """Return the values of the last ``span_s`` s, at most :data:`MOST_POINTS` points."""
        ...

    def tell(self, kind: str, **arguments: Any) -> str:
        """Give a command, and return when it acts; raises :class:`RtsimError` if refused."""
        ...

    def close(self) -> None: ...


class History:
    """The values of signals at the latest looks: a ring of :data:`MOST_POINTS` rows.

    A row is kept if it is later than the last one by ``span_s`` / :data:`MOST_POINTS`.
    """

    def __init__(self, names: Sequence[str], span_s: float, most: int = MOST_POINTS) -> None:
        self.names, self.span_s = tuple(names), span_s
        self._gap_ns = round(span_s * NS_PER_S / most)
        self._rows: NDArray[np.float64] = np.full((most, len(self.names)), np.nan)
        self._ns: NDArray[np.int64] = np.zeros(most, np.int64)
        self._count = 0

    def add(self, ns: int, values: Mapping[str, float]) -> None:
        """Add a row; forget everything if simulated time went back."""
        most = len(self._ns)
        if self._count:
            last = int(self._ns[(self._count - 1) % most])
            if ns < last:
                self._count = 0
            elif ns - last < max(1, self._gap_ns):
                return
        at = self._count % most
        self._ns[at] = ns
        self._rows[at] = [values.get(name, np.nan) for name in self.names]
        self._count += 1

    def past(self, span_s: float) -> Past:
        most = len(self._ns)
        order = np.arange(max(0, self._count - most), self._count) % most
        ns, rows = self._ns[order], self._rows[order]
        if len(ns):
            inside = ns >= ns[-1] - round(span_s * NS_PER_S)
            ns, rows = ns[inside], rows[inside]
        return Past(ns / NS_PER_S, {n: rows[:, k] for k, n in enumerate(self.names)})

    def moved_to(self, names: Sequence[str], span_s: float) -> History:
        """Return a history of other ``names``, with the past values of the names that stay."""
        out = History(names, span_s, len(self._ns))
        most = len(self._ns)
        stays = set(self.names) & set(out.names)
        for k in range(max(0, self._count - most), self._count) if stays else ():
            row = dict(zip(self.names, self._rows[k % most].tolist(), strict=True))
            out.add(int(self._ns[k % most]), row)
        return out
