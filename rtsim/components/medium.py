"""A medium for several topics, such as a CAN bus: it transmits one message at a time, by priority.

A latency model on a medium is a :class:`SharedTransport`. The arrival time of a message is unknown
when it is sent, because a message of higher priority may come first. The message bus therefore
keeps one :class:`MediumQueue` for each medium. A transmission in progress is not interrupted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rtsim.core.errors import LatencyError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NEVER, Tag

MOST_WAITING = 10_000
"""Limit of the messages that wait for one medium; more indicate an overload."""


class Transmission(NamedTuple):
    """Data for the transmission of one message, such as priority and duration."""

    priority: tuple[int, ...]
    """Sort key; the smallest goes first."""
    takes_ns: int
    """Time from the start of the transmission to the arrival, ns; > 0."""
    gap_ns: int
    """Time after the arrival until the medium is free again, ns."""
    failed_ns: int
    """Time from the start of a failing transmission until the medium is free again, ns."""
    payload: Vector
    """Values (n,) that arrive, for example after rounding to the bits of a frame.

    NaN marks a value that is not transmitted, so receivers keep the last one.
    """


Carrier = Callable[[Vector], Transmission]
"""Function that returns the transmission of a message with the given values (n,)."""


class Medium(Protocol):
    """Declaration of a medium; media with the same name are one medium."""

    @property
    def name(self) -> str: ...

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        """Raise ``ScenarioError`` if these topics cannot share the medium."""
        ...


@runtime_checkable
class SharedTransport(Protocol):
    """Latency model of messages on a medium.

    ``delays`` returns the time from the completion of a message until it is ready for the medium.
    This time is 0, unless a fault delays, copies or loses the message. All copies use the medium.
    """

    @property
    def ordered(self) -> bool: ...

    @property
    def medium(self) -> Medium: ...

    def carrier(self, signals: Signals, topic: str) -> Carrier:
        """Return a function that computes the transmission of a message.

        Raises ``ScenarioError`` for messages that do not fit.
        """
        ...

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]: ...


def shared(model: object) -> SharedTransport | None:
    """Return the ``SharedTransport`` in a latency model, or None."""
    found: Any = model
    while found is not None and not isinstance(found, SharedTransport):
        found = getattr(found, "inner", None)
    return found


class Parcel(NamedTuple):
    """A message that waits for a medium."""

    topic: str
    sequence: int
    initiated: Tag
    completed: Tag
    sent: Vector
    """The values as they were sent, (n,)."""
    copy: int
    failures: int
    """Number of transmissions of the message that will fail before one succeeds."""

    def save(self) -> list[Any]:
        return [
            self.topic, self.sequence, list(self.initiated), list(self.completed),
            self.sent.tolist(), self.copy, self.failures,
        ]  # fmt: skip

    @classmethod
    def restored(cls, row: list[Any]) -> Parcel:
        topic, sequence, initiated, completed, sent, copy, failures = row
        values = np.array(sent, dtype=np.float64)
        return cls(topic, sequence, Tag(*initiated), Tag(*completed), values, copy, failures)


class Delivery(NamedTuple):
    """A message in transmission, with its arrival time and values."""

    parcel: Parcel
    arrival: Tag
    payload: Vector


@dataclass(frozen=True)
class _Entry:
    """A parcel in a queue, with its position in the order of the queue."""

    ready_ns: int
    number: int
    parcel: Parcel
    transmission: Transmission


class MediumQueue:
    """Messages that wait for one medium, and the time at which the medium becomes free.

    The next message is chosen after all microsteps of an instant, so that all its messages compete.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._carriers: dict[str, Carrier] = {}
        self._last: dict[str, Vector] = {}
        """Last values that arrived, by topic."""
        self.free_ns = 0
        self._coming: list[tuple[int, int, _Entry]] = []
        self._waiting: list[tuple[tuple[int, ...], int, int, _Entry]] = []
        self._number = 0

    def add(self, topic: str, carrier: Carrier, values: Vector) -> None:
        """Add a topic; ``values`` (n,) are its initial values."""
        self._carriers[topic], self._last[topic] = carrier, values

    def put(self, ready_ns: int, parcel: Parcel) -> None:
        """Add a message, which competes for the medium from ``ready_ns`` on.

        Too many waiting messages raise :class:`LatencyError`.
        """
        if len(self._coming) + len(self._waiting) >= MOST_WAITING:
            raise LatencyError(
                f"{MOST_WAITING} messages wait for {self.name}, which is overloaded; send fewer or "
                "shorter messages, or give it a higher bit rate (rtsim bus load SCENARIO shows "
                "who loads it)"
            )
        transmission = self._carriers[parcel.topic](parcel.sent)
        entry = _Entry(ready_ns, self._number, parcel, transmission)
        self._number += 1
        heapq.heappush(self._coming, (ready_ns, entry.number, entry))

    @property
    def next_ns(self) -> int:
        """Time (ns) of the next decision, or ``NEVER``."""
        if self._waiting:
            return self.free_ns
        return max(self.free_ns, self._coming[0][0]) if self._coming else NEVER.ns

    def decide(self, ns: int) -> Delivery | None:
        """Begin the next transmission if the medium is free at ``ns``.

        Call this method after the instant. The result is None without a successful transmission.
        """
        while self._coming and self._coming[0][0] <= ns:
            entry = heapq.heappop(self._coming)[-1]
            self._wait(entry)
        if not self._waiting or self.free_ns > ns:
            return None
        entry = heapq.heappop(self._waiting)[-1]
        parcel, takes = entry.parcel, entry.transmission
        if parcel.failures:
            self.free_ns = ns + takes.failed_ns
            again = parcel._replace(failures=parcel.failures - 1)
            self._wait(_Entry(entry.ready_ns, entry.number, again, takes))
            return None
        arrival = ns + takes.takes_ns
        self.free_ns = arrival + takes.gap_ns
        payload, last = takes.payload, self._last[parcel.topic]
        last[:] = np.where(np.isnan(payload), last, payload)
        return Delivery(parcel, Tag(arrival), last.copy())

    def _wait(self, entry: _Entry) -> None:
        order = entry.transmission.priority, entry.ready_ns, entry.number
        heapq.heappush(self._waiting, (*order, entry))

    def waiting(self, ns: int) -> dict[str, int]:
        entries = [e[-1] for e in self._coming if e[0] <= ns] + [e[-1] for e in self._waiting]
        return dict(sorted(Counter(entry.parcel.topic for entry in entries).items()))

    def save(self) -> dict[str, Any]:
        """Return the waiting messages as plain data."""
        entries = [e[-1] for e in sorted(self._coming, key=lambda e: e[:2])]
        entries += [e[-1] for e in sorted(self._waiting, key=lambda e: e[:3])]
        rows = [[e.ready_ns, e.number, e.parcel.save()] for e in entries]
        last = {topic: values.tolist() for topic, values in self._last.items()}
        return {"free": self.free_ns, "number": self._number, "waiting": rows, "last": last}

    def restore(self, saved: dict[str, Any]) -> None:
        self.free_ns, self._number = saved["free"], saved["number"]
        self._coming, self._waiting = [], []
        for topic, values in saved["last"].items():
            self._last[topic][:] = values
        for ready_ns, number, row in saved["waiting"]:
            parcel = Parcel.restored(row)
            transmission = self._carriers[parcel.topic](parcel.sent)
            entry = _Entry(ready_ns, number, parcel, transmission)
            self._coming.append((ready_ns, number, entry))
        heapq.heapify(self._coming)
