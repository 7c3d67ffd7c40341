"""A medium that several messages share, such as a CAN bus or a network.

A latency model on a medium is a :class:`SharedTransport`.  The arrival time of a message is unknown
when it is sent, because other messages can precede it.  The message bus therefore keeps one
:class:`RunningMedium` for each medium.  A medium takes messages with ``put``, states the time of
its next decision with ``next_ns``, and returns the outcomes of this decision with ``decide``.  Most
media consist of lines (:class:`rtsim.components.lines.Lines`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rtsim.core.errors import LatencyError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

MOST_WAITING = 10_000
"""Limit of the messages that wait for one medium; more indicate an overload."""
FULL, REPLACED, CORRUPTED = "a queue was full", "a newer value came first", "a frame was corrupted"
"""Reasons for which a medium loses messages."""


@dataclass(frozen=True)
class MediumLine:
    """One place of a medium where messages wait, and which carries one message at a time."""

    name: str = ""
    repeats: bool = False
    """True if a failed transmission is repeated; otherwise its message is lost."""
    limit: int | None = None
    """Largest number of messages of one priority that wait; None for any number."""
    newest: bool = False
    """If more messages wait than ``limit`` allows: True loses the oldest, False the newest."""
    opens: Callable[[int], int] | None = None
    """Function that returns the first time >= its argument at which a transmission can begin, ns.

    None if a transmission can begin whenever the line is free.
    """


class Hop(NamedTuple):
    """The transmission of a message on one line."""

    takes_ns: int
    """Time from the start to the end of the transmission, ns; > 0."""
    gap_ns: int = 0
    """Time after the end until the line is free again, ns."""
    failed_ns: int = 0
    """Time from the start of a failing transmission until the line is free again, ns.

    Only for lines that repeat a failed transmission.
    """
    onward_ns: int = 0
    """Time from the end until the arrival, or until the message competes for its next line, ns."""
    line: MediumLine = MediumLine()


class Transmission(NamedTuple):
    """The data that a medium needs to transmit one message."""

    priority: tuple[int, ...]
    """Sort key; the smallest goes first."""
    hops: tuple[Hop, ...]
    """The lines that the message passes, one after another; at least one."""
    payload: Vector
    """Values (n,) that arrive, for example after rounding to the bits of a frame.

    NaN marks a value that is not transmitted, so receivers keep the last one.
    """


Carrier = Callable[[Vector], Transmission]
"""Function that returns the transmission of a message with the given values (n,)."""


class PeriodicSender(NamedTuple):
    """A sender that gives its medium a message of ``values`` values every ``period_ns``."""

    sender: str
    transport: SharedTransport
    period_ns: int
    values: int


class SenderLoad(NamedTuple):
    """The share of a line that one periodic sender uses."""

    sender: str
    frame: str
    """What identifies the frame on the medium, such as its identifier."""
    bits: int
    """Largest number of bits of one frame."""
    period_ns: int
    load: float
    """Largest share of time for which the sender occupies the line."""
    worst_latency_ns: int | None = None
    """Longest time from ``completed`` to ``arrival``, ns; None if unbounded or not analysed."""
    analysed: bool = True
    """False if rtsim has no analysis of the longest latency on this medium."""
    line: str = ""


class Medium(Protocol):
    """Declaration of a medium; media with the same name are one medium."""

    @property
    def name(self) -> str: ...

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        """Raise ``ScenarioError`` if these topics cannot share the medium."""
        ...

    def start(self, streams: RandomStreams) -> RunningMedium:
        """Return the state of the medium at the beginning of a run."""
        ...


@runtime_checkable
class LoadedMedium(Protocol):
    """A medium whose load ``rtsim bus load`` prints."""

    kind: str
    """The noun for such a medium, such as ``Bus``."""

    @property
    def name(self) -> str: ...

    @property
    def bitrate(self) -> int:
        """Bits per s."""
        ...

    def load(self, senders: Iterable[PeriodicSender]) -> list[SenderLoad]:
        """Return the load that ``senders`` cause: a row for each sender and each of its lines."""
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


def duration_ns(bits: int, bitrate: int) -> int:
    """Return the duration of ``bits`` at ``bitrate`` bit/s, rounded up to a whole ns."""
    return -(-bits * NS_PER_S // bitrate)


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
    """A message whose arrival is certain, with its arrival time and values."""

    parcel: Parcel
    arrival: Tag
    payload: Vector


class Lost(NamedTuple):
    """A message that the medium has lost, with the reason."""

    parcel: Parcel
    reason: str


Outcome = Delivery | Lost


@dataclass(frozen=True)
class Entry:
    """A parcel on a medium."""

    ready_ns: int
    """Time from which the parcel competes for the line of its present hop, ns."""
    number: int
    """Number of the parcel in the order of ``put``."""
    parcel: Parcel
    transmission: Transmission
    at: int = 0
    """Index of the present hop."""

    @property
    def hop(self) -> Hop:
        return self.transmission.hops[self.at]


class RunningMedium(ABC):
    """The state of a medium during one run.

    A medium decides after all microsteps of an instant, so that all messages of the instant
    compete.  Each message that is ``put`` has exactly one outcome.  The outcomes must not depend on
    the order of ``put`` within an instant, except for messages of one topic.  The function
    :func:`rtsim.testing.check_medium` checks these rules.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._carriers: dict[str, Carrier] = {}
        self._last: dict[str, Vector] = {}
        """Last values that arrived, by topic."""
        self._number = 0
        self._held = 0
        self._lost: Counter[tuple[str, str]] = Counter()

    def add(self, topic: str, carrier: Carrier, values: Vector) -> None:
        """Add a topic; ``values`` (n,) are its initial values."""
        self._carriers[topic], self._last[topic] = carrier, values

    def put(self, ready_ns: int, parcel: Parcel) -> None:
        """Add a message, which competes for the medium from ``ready_ns`` on.

        Too many waiting messages raise :class:`LatencyError`.
        """
        if self._held >= MOST_WAITING:
            raise LatencyError(
                f"{MOST_WAITING} messages wait for {self.name}, which is overloaded; send fewer or "
                "shorter messages, or give it a higher bit rate (rtsim bus load SCENARIO shows "
                "who loads it)"
            )
        transmission = self._carriers[parcel.topic](parcel.sent)
        self._number += 1
        self._held += 1
        self._enter(Entry(ready_ns, self._number, parcel, transmission))

    @property
    @abstractmethod
    def next_ns(self) -> int:
        """Time of the next decision, ns; :data:`NEVER` if nothing is to be decided."""

    @abstractmethod
    def decide(self, ns: int) -> list[Outcome]:
        """Decide what is due at ``ns``, and return the outcomes.

        Call this method after the instant.  Afterwards ``next_ns`` is later than ``ns``.  Arrivals
        are later than ``ns``.
        """

    @abstractmethod
    def _enter(self, entry: Entry) -> None:
        """Add an entry that is new, or that :meth:`restore` puts back."""

    @abstractmethod
    def _entries(self) -> Iterable[Entry]:
        """Return all messages without an outcome."""

    @abstractmethod
    def _save_state(self) -> Any:
        """Return the state besides the entries, as plain data."""

    @abstractmethod
    def _restore_state(self, saved: Any) -> None:
        """Remove all entries, and restore the data from :meth:`_save_state`."""

    def _delivered(self, entry: Entry, arrival_ns: int) -> Delivery:
        parcel, payload = entry.parcel, entry.transmission.payload
        last = self._last[parcel.topic]
        last[:] = np.where(np.isnan(payload), last, payload)
        self._held -= 1
        return Delivery(parcel, Tag(arrival_ns), last.copy())

    def _lose(self, entry: Entry, reason: str) -> Lost:
        self._lost[reason, entry.parcel.topic] += 1
        self._held -= 1
        return Lost(entry.parcel, reason)

    @property
    def lost(self) -> dict[str, dict[str, int]]:
        """Number of lost messages by reason and topic."""
        found: dict[str, dict[str, int]] = {}
        for (reason, topic), count in sorted(self._lost.items()):
            found.setdefault(reason, {})[topic] = count
        return found

    def waiting(self, ns: int) -> dict[str, int]:
        """Return the number of messages that wait at ``ns``, by topic."""
        topics = (e.parcel.topic for e in self._entries() if e.at or e.ready_ns <= ns)
        return dict(sorted(Counter(topics).items()))

    def save(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "number": self._number,
            "waiting": [row_of(e) for e in sorted(self._entries(), key=lambda e: e.number)],
            "last": {topic: values.tolist() for topic, values in self._last.items()},
            "lost": [[*key, count] for key, count in sorted(self._lost.items())],
            "state": self._save_state(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._number, self._held = saved["number"], len(saved["waiting"])
        for topic, values in saved["last"].items():
            self._last[topic][:] = values
        self._lost = Counter({(reason, topic): count for reason, topic, count in saved["lost"]})
        self._restore_state(saved["state"])
        for row in saved["waiting"]:
            self._enter(self._entry_of(row))

    def _entry_of(self, row: list[Any]) -> Entry:
        ready_ns, number, at, saved = row
        parcel = Parcel.restored(saved)
        return Entry(ready_ns, number, parcel, self._carriers[parcel.topic](parcel.sent), at)


def row_of(entry: Entry) -> list[Any]:
    """Return ``entry`` as plain data for a checkpoint."""
    return [entry.ready_ns, entry.number, entry.at, entry.parcel.save()]
