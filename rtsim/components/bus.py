"""The message bus, which carries messages between components.

A message has three times: ``initiated`` (the sender sampled its inputs), ``completed`` (the sender
finished its computation) and ``arrival`` (the message takes effect). The bus delivers the messages
in a defined order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rtsim.components.latency import ZERO, LatencyModel, draw, latency_state, put_latency_back
from rtsim.components.medium import (
    Delivery,
    Outcome,
    Parcel,
    RunningMedium,
    SharedTransport,
    shared,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NEVER, Tag

DELIVERED, LOST, COPY = 0, 1, 2
"""Status of a message: delivered, lost, or delivered as a second copy."""


class Message(NamedTuple):
    """A message, or one copy of it."""

    topic: str
    source: str
    sequence: int
    initiated: Tag
    completed: Tag
    arrival: Tag
    payload: Vector
    status: int = DELIVERED

    def stamps(self) -> tuple[int, ...]:
        """Return the times and numbers of the message for the recording."""
        return (self.sequence, *self.initiated, *self.completed, *self.arrival, self.status)


STAMPS = (
    "sequence",
    "initiated",
    "initiated_step",
    "completed",
    "completed_step",
    "arrival",
    "arrival_step",
    "status",
)
LOST_ARRIVAL = Tag(-1, 0)


@dataclass(frozen=True)
class Topic:
    """Messages of one kind: name, sender, signals and transport latency."""

    name: str
    source: str
    signals: Signals
    transport: LatencyModel = ZERO
    immediate: bool = False
    """True if a message without delay arrives in the sender's microstep (for a declared order)."""

    @cached_property
    def stream(self) -> str:
        """Name of the random stream for the transport latency."""
        return f"transport/{self.name}"

    @cached_property
    def link(self) -> str:
        """Name of the link in error messages."""
        return f"topic {self.name}"

    @cached_property
    def size_bytes(self) -> int:
        return self.signals.size * 8


class Bus:
    """The topics of a run, and the messages in transit."""

    def __init__(self, streams: RandomStreams) -> None:
        self._streams = streams
        self.topics: dict[str, Topic] = {}
        self._sequence: dict[str, int] = {}
        self._last_arrival: dict[str, Tag] = {}
        self._flight: list[tuple[Tag, str, str, int, int, Message]] = []
        self._media: dict[str, RunningMedium] = {}
        """The media of the run, by name."""
        self._on: dict[str, tuple[SharedTransport, RunningMedium]] = {}
        """Transports on media and their media, by topic."""

    def add(self, topic: Topic) -> None:
        if topic.name in self.topics:
            raise ScenarioError(
                f"topic {topic.name} has two senders; give one of the senders another name"
            )
        self.topics[topic.name] = topic
        self._sequence[topic.name] = 0
        self._last_arrival[topic.name] = Tag(-1, 0)
        transport = shared(topic.transport)
        if transport is not None:
            self._share(topic, transport)

    def _share(self, topic: Topic, transport: SharedTransport) -> None:
        medium = transport.medium
        others = [(n, t) for n, (t, _) in self._on.items() if t.medium.name == medium.name]
        for other, one in others:
            if one.medium != medium:
                raise ScenarioError(
                    f"{other} and {topic.name} declare {medium.name} differently: {one.medium!r} "
                    f"and {medium!r}; declare it once, or give the two media different names"
                )
        medium.check([*others, (topic.name, transport)])
        carrier = transport.carrier(topic.signals, topic.name)
        if medium.name not in self._media:
            self._media[medium.name] = medium.start(self._streams)
        running = self._media[medium.name]
        running.add(topic.name, carrier, topic.signals.initial())
        self._on[topic.name] = transport, running

    def send(self, name: str, initiated: Tag, completed: Tag, payload: Vector) -> list[Message]:
        """Send a message with a copy of ``payload`` (n,); return the messages to record.

        The result contains the message and its copies, or the lost message. If the message must
        wait for a medium, ``transmit`` returns it later. An impossible delay raises
        :class:`LatencyError`.
        """
        topic = self.topics[name]
        sequence = self._sequence[name]
        self._sequence[name] = sequence + 1
        content = payload.copy()
        content.setflags(write=False)
        delays = draw(topic.transport, self._streams, topic.stream, topic.size_bytes, topic.link)
        if not delays:
            return [
                Message(
                    name, topic.source, sequence, initiated, completed, LOST_ARRIVAL, content, LOST
                )
            ]
        if name in self._on:
            self._queue(topic, sequence, initiated, completed, content, delays)
            return []
        sent: list[Message] = []
        for copy, delay in enumerate(delays):
            arrival = self._arrival(topic, initiated, completed, delay, first=copy == 0)
            message = Message(
                name, topic.source, sequence, initiated, completed, arrival, content,
                COPY if copy else DELIVERED,
            )  # fmt: skip
            sent.append(message)
            self._put(message, copy)
        return sent

    def _put(self, message: Message, copy: int = 0) -> None:
        order = (message.arrival, message.source, message.topic, message.sequence, copy)
        heapq.heappush(self._flight, (*order, message))

    def _queue(
        self, topic: Topic, sequence: int, initiated: Tag, completed: Tag, content: Vector,
        delays: tuple[int, ...],
    ) -> None:  # fmt: skip
        failures = getattr(topic.transport, "failures", 0)
        for copy, delay in enumerate(delays):
            parcel = Parcel(topic.name, sequence, initiated, completed, content, copy, failures)
            self._on[topic.name][1].put(completed.ns + delay, parcel)

    @property
    def next_transmission_ns(self) -> int:
        """Time of the next decision of a medium, such as the begin of a transmission, ns."""
        if not self._media:  # asked for at each tag, mostly without a medium
            return NEVER.ns
        return min(medium.next_ns for medium in self._media.values())

    def transmit(self, ns: int) -> list[Message]:
        """Let the media decide what is due at ``ns``, and return the messages to record.

        Call this method after the instant.  The returned messages contain their arrival times, or
        are lost.
        """
        found: list[Message] = []
        for medium in self._media.values():
            if medium.next_ns <= ns:
                found += [self._carried(outcome) for outcome in medium.decide(ns)]
        return found

    def _carried(self, outcome: Outcome) -> Message:
        parcel = outcome.parcel
        source = self.topics[parcel.topic].source
        stamps = parcel.topic, source, parcel.sequence, parcel.initiated, parcel.completed
        if not isinstance(outcome, Delivery):
            parcel.sent.setflags(write=False)
            return Message(*stamps, LOST_ARRIVAL, parcel.sent, LOST)
        outcome.payload.setflags(write=False)
        status = COPY if parcel.copy else DELIVERED
        message = Message(*stamps, outcome.arrival, outcome.payload, status)
        self._put(message, parcel.copy)
        return message

    def waiting(self, ns: int) -> dict[str, dict[str, int]]:
        """Return the number of waiting messages at ``ns``, by medium and topic."""
        found = {name: medium.waiting(ns) for name, medium in self._media.items()}
        return {name: senders for name, senders in found.items() if senders}

    def lost_on_media(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the number of messages that media lost, by medium, reason and topic."""
        return {name: medium.lost for name, medium in self._media.items() if medium.lost}

    def on_medium(self, name: str) -> bool:
        """Return whether messages of a topic use a medium."""
        return name in self._on

    def inject(self, name: str, tag: Tag, payload: Vector) -> Message:
        """Add the message of a command, which arrives at ``tag``."""
        topic = self.topics[name]
        sequence = self._sequence[name]
        self._sequence[name] = sequence + 1
        content = payload.copy()
        content.setflags(write=False)
        message = Message(name, topic.source, sequence, tag, tag, tag, content, DELIVERED)
        self._put(message)
        return message

    def _arrival(
        self, topic: Topic, initiated: Tag, completed: Tag, delay: int, first: bool
    ) -> Tag:
        # The total delay of computation and transport decides the microstep.  Without any delay,
        # the message arrives one microstep later; a reply that took time arrives at (ns, 0).
        if delay == 0 and (topic.immediate or completed.ns > initiated.ns):
            arrival = completed
        else:
            arrival = completed.after(delay)
        if topic.transport.ordered:
            arrival = max(arrival, self._last_arrival[topic.name])
            if first:  # a later message does not wait for a copy
                self._last_arrival[topic.name] = arrival
        return arrival

    @property
    def next_ns(self) -> int:
        """Time (ns) of the earliest arrival, or ``NEVER``."""
        return self._flight[0][0].ns if self._flight else NEVER.ns

    def due(self, tag: Tag) -> list[Message]:
        """Remove and return the messages that arrive at ``tag``, in order."""
        out: list[Message] = []
        while self._flight and self._flight[0][0] <= tag:
            out.append(heapq.heappop(self._flight)[-1])
        return out

    def position(self, name: str) -> tuple[int, Tag]:
        """Return the next sequence number and the last arrival of a topic."""
        return self._sequence[name], self._last_arrival[name]

    def adopt_position(self, name: str, sequence: int, last_arrival: Tag) -> None:
        """Set the position of a topic, after compiled code has sent messages."""
        self._sequence[name], self._last_arrival[name] = sequence, last_arrival

    def arrivals_except(self, names: Set[str]) -> list[int]:
        """Return the first arrival (ns) on topics that are not in ``names``, as a list."""
        return [min(ns)] if (ns := [e[0].ns for e in self._flight if e[2] not in names]) else []

    def take(self, names: Set[str]) -> list[Message]:
        taken = [e for e in self._flight if e[2] in names]
        self._flight = [e for e in self._flight if e[2] not in names]
        heapq.heapify(self._flight)
        return [e[-1] for e in sorted(taken, key=lambda e: e[:5])]

    def put(self, messages: Iterable[Message]) -> None:
        """Add ``messages``, which must not contain second copies, to the messages in transit."""
        for message in messages:
            self._put(message)

    def save(self) -> dict[str, Any]:
        """Return the messages in transit and the counters as plain data."""
        flight = [
            {
                "topic": m.topic,
                "sequence": m.sequence,
                "initiated": list(m.initiated),
                "completed": list(m.completed),
                "arrival": list(m.arrival),
                "payload": m.payload.tolist(),
                "status": m.status,
                "copy": copy,
            }
            for *_, copy, m in sorted(self._flight, key=lambda entry: entry[:5])
        ]
        states = {name: latency_state(topic.transport) for name, topic in self.topics.items()}
        kept = {name: state for name, state in states.items() if state}
        return {
            "sequence": dict(self._sequence),
            "last_arrival": {k: list(v) for k, v in self._last_arrival.items()},
            "flight": flight,
            **({"media": {n: m.save() for n, m in self._media.items()}} if self._media else {}),
            **({"transports": kept} if kept else {}),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self._sequence = dict(saved["sequence"])
        self._last_arrival = {k: Tag(*v) for k, v in saved["last_arrival"].items()}
        self._flight = []
        for name, topic in self.topics.items():
            put_latency_back(topic.transport, saved.get("transports", {}).get(name, {}))
        for name, medium in self._media.items():
            medium.restore(saved["media"][name])
        for row in saved["flight"]:
            payload = np.array(row["payload"], dtype=np.float64)
            payload.flags.writeable = False
            initiated, completed, arrival = (
                Tag(*row[key]) for key in ("initiated", "completed", "arrival")
            )
            message = Message(
                row["topic"], self.topics[row["topic"]].source, row["sequence"],
                initiated, completed, arrival, payload, row["status"],
            )  # fmt: skip
            self._put(message, row["copy"])
