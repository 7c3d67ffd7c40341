"""Connect a window on another machine with a run, over ZeroMQ.

The relay ``python -m rtsim.pilot.remote FILE tcp://HOST:PORT`` is a process beside the simulation.
The relay reads the shared memory FILE as a viewer does. Network traffic therefore cannot delay the
simulation.

A message is a list in MessagePack: version, kind, first 8 bytes of the schema's hash, ``number``,
``heard``, ``sent``, ``echo``, ``received``, body. The first two elements of each message are the
version and the kind. Each side answers a ``HELLO`` of any version, so that the other side can
report a wrong version. The sockets encrypt and sign each message. The bodies are:

- ``SCHEMA``: the schema as JSON;
- ``OVER``: the reason why the run sends nothing more to this viewer, as text;
- ``RECORDS``: a map from names of records to their integers and floats, as bytes;
- ``WHOLE``: as ``RECORDS``, but with all records.

``number`` counts the messages with records. ``heard`` acknowledges all messages up to this
``number``. ``sent``, ``echo`` and ``received`` are times for :class:`ClockOffset`, ns. ``sent`` and
``received`` are times on the sender's clock, and ``echo`` is a time on the receiver's clock.

Only a few messages may be in transit at the same time. A record that changes meanwhile is sent in
the next message, with its latest value. This module therefore skips values. For all samples of a
run, use ``rtsim.gateway``.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.net.keys import Keys
from rtsim.core.net.messagepack import EncodingError, Limits, pack, unpack
from rtsim.core.net.sockets import Caller, ListeningSocket
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.processes import READY, input_closed
from rtsim.pilot.shared import (
    MOST_ORDERS,
    NOBODY,
    ORDERS,
    PAIR,
    RUN,
    STICK,
    VERSION,
    ControlAuthority,
    Integers,
    Reader,
    Schema,
    Shape,
    Shared,
    SharedError,
    Writer,
)

MOST_BYTES = 1 << 20
"""Limit of the size of a message, for encoder and sockets, bytes."""
HELLO, SCHEMA, RECORDS, WHOLE, OVER = 1, 2, 3, 4, 5
TO_RUN = ("stick", "orders", "viewer")
"""Records that a viewer sends. A viewer receives ``stick``, ``orders`` and all other records."""
_KEPT = 64
_MOST_REASON = 400
_ROOM = 4096
"""Limit of the bytes that the head and the record names of a message take."""
_LIMITS = Limits(depth=3, values=100_000, extensions=False)
_WALLS: dict[str, tuple[int, ...]] = {
    "run": (RUN.index("wall_ns"),),
    "stick": (STICK.index("initiated"), STICK.index("completed")),
    "viewer": (0,),
    "orders": tuple(range(1 + MOST_ORDERS, len(ORDERS))),
    "answer": (),
}
_PLANT_WALLS = tuple(PAIR.index(n) for n in ("last_wall", "next_wall", "applied_initiated"))


class WireError(RtsimError):
    """A received message is malformed. Such messages are counted and dropped."""


class OtherVersion(WireError):
    """A message is from another version of rtsim."""


@dataclass(frozen=True)
class Head:
    kind: int
    number: int = 0
    heard: int = 0
    sent: int = 0
    echo: int = 0
    """``sent`` of the other side's last message; 0 if no message has arrived."""
    received: int = 0
    """Arrival time of the other side's last message, on the clock of this message's sender, ns."""


@dataclass(frozen=True)
class WireMessage:
    head: Head
    text: str = ""
    """The schema as JSON, or the reason why the run ended."""
    hash: bytes = b""
    records: Mapping[str, tuple[Integers, Vector]] = field(default_factory=dict)


class Format:
    """Encode and decode messages; ``schema`` is ``None`` until it was received."""

    def __init__(self, schema: Schema | None) -> None:
        self._hash = bytes(8) if schema is None else schema.hash[:8]
        self._shapes = {} if schema is None else dict(schema.shapes())
        self._text = "" if schema is None else schema.to_json()
        for name, shape in self._shapes.items():
            size = max(shape.payload, len(self._text.encode()))
            if size > MOST_BYTES - _ROOM:
                raise WireError(
                    f"{name} or the schema is too large for a window on another machine: "
                    f"{size} bytes; at most {MOST_BYTES - _ROOM} are allowed"
                )

    def message(self, head: Head, body: Any = None) -> bytes:
        kind, *rest = astuple(head)
        return pack([VERSION, kind, self._hash, *rest, body])

    def hello(self) -> bytes:
        return self.message(Head(HELLO))

    def schema(self) -> bytes:
        return self.message(Head(SCHEMA), self._text)

    def over(self, why: str) -> bytes:
        return self.message(Head(OVER), why)

    @property
    def most_to_run(self) -> int:
        """Largest size (bytes) of a message from a viewer."""
        return _ROOM + sum(self._shapes[name].payload for name in TO_RUN)

    def records(self, head: Head, payloads: Mapping[str, bytes]) -> list[bytes]:
        """Distribute records over as few messages as possible."""
        bodies: list[dict[str, bytes]] = [{}]
        size = 0
        for name, payload in payloads.items():
            size += len(payload) + len(name.encode()) + 10
            if bodies[-1] and size > MOST_BYTES - _ROOM:
                bodies.append({})
                size = len(payload)
            bodies[-1][name] = payload
        return [self.message(head, body) for body in bodies]

    def read(self, data: bytes) -> WireMessage:
        """Decode a message; raise :class:`WireError` if it is malformed."""
        if len(data) > MOST_BYTES:
            raise WireError(f"a message has {len(data)} bytes, which is too long")
        try:
            version, kind, *rest = unpack(data, _LIMITS)
        except (EncodingError, TypeError, ValueError) as error:
            raise WireError(f"a message is not a list in MessagePack: {error}") from None
        if kind == HELLO:
            return WireMessage(Head(HELLO))
        if type(version) is not int or version != VERSION:
            raise OtherVersion(
                f"the other side has protocol version {version!r:.20}, this side has version "
                f"{VERSION}"
            )
        if len(rest) != _PARTS or not all(_is_word(number) for number in (kind, *rest[1:-1])):
            raise WireError("the head of a message is malformed")
        digest, *numbers, body = rest
        head = Head(kind, *numbers)
        if kind in (OVER, SCHEMA) and isinstance(digest, bytes) and isinstance(body, str):
            return WireMessage(head, _printable(body) if kind == OVER else body, digest)
        if kind not in (RECORDS, WHOLE) or digest != self._hash or not isinstance(body, dict):
            raise WireError("a message comes from another run or has an unknown kind")
        return WireMessage(head, records={name: self._record(name, body[name]) for name in body})

    def _record(self, name: object, payload: object) -> tuple[Integers, Vector]:
        shape = self._shapes.get(name) if isinstance(name, str) else None
        if shape is None:
            raise WireError(f"record {name!r:.40} is unknown; known: {', '.join(self._shapes)}")
        if not isinstance(payload, bytes) or len(payload) != shape.payload:
            raise WireError(f"record {name} is malformed; expected {shape.payload} bytes")
        words = np.frombuffer(payload, np.int64)
        return words[: shape.integers], words[shape.integers :].view(np.float64)


_PARTS = 7


def _is_word(number: object) -> bool:
    return type(number) is int and -(2**63) <= number < 2**63


def _printable(reason: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in reason[:_MOST_REASON])
    return text.strip() or "no reason is given"


def payload_of(name: str, integers: Integers, floats: Vector, later_ns: int) -> bytes:
    """Return a record as bytes, with ``later_ns`` added to the wall-clock times."""
    if later_ns:
        integers = shifted(name, integers, later_ns)
    return integers.tobytes() + floats.tobytes()


def shifted(name: str, integers: Integers, later_ns: int) -> Integers:
    """Return the integers of a record, with ``later_ns`` added to the wall-clock times.

    A time of 0, which means an absent time, stays 0.
    """
    out = integers.copy()
    for k in _WALLS.get(name, _PLANT_WALLS):
        if out[k]:
            out[k] += later_ns
    return out


def put(writer: Writer, integers: Integers, floats: Vector) -> None:
    """Publish a received record in shared memory."""
    writer.integers[:] = integers
    writer.floats[:] = floats
    writer.publish()


class Changes:
    """Determine which records have changed since the last call of ``take``."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers
        self._seen = dict.fromkeys(readers, 0)

    def send_all(self) -> None:
        """Treat all records as changed, because messages may have been lost."""
        self._seen = dict.fromkeys(self._readers, 0)

    def take(self, later_ns: int = 0) -> dict[str, bytes]:
        found = {}
        for name, reader in self._readers.items():
            if reader.number == self._seen[name]:
                continue
            record = reader.read()
            if record is not None:
                self._seen[name] = record.number
                found[name] = payload_of(name, record.integers, record.floats, later_ns)
        return found


class ClockOffset:
    """Estimate the offset of the clock of another machine.

    As in NTP (RFC 5905, section 8), the fastest round trip gives the offset. The error is at most
    half of the round-trip delay.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def add(self, head: Head, now: int) -> None:
        """Update the estimate with a message that arrived at the local time ``now``."""
        if not head.echo:
            return
        way = (now - head.echo) - (head.sent - head.received)
        if way >= 0:
            self._kept.append((way, ((head.received - head.echo) + (head.sent - now)) // 2))

    @property
    def known(self) -> bool:
        return bool(self._kept)

    @property
    def ns(self) -> int:
        return min(self._kept, default=(0, 0))[1]

    @property
    def error_ns(self) -> int:
        """Greatest possible error of :attr:`ns`, ns."""
        return min(self._kept, default=(0, 0))[0] // 2


# One side of the exchange. It sends the latest records and never blocks.

MOST_UNDER_WAY = 4
"""Limit of the messages that were sent and are not yet acknowledged."""
_EVERY_NS = 2_000_000
_QUIET_NS = 100_000_000
"""Keep-alive period: a message is sent at least this often, ns."""
_LOST_NS = 1_000_000_000
"""If no acknowledgement arrives within this time, all records are sent again, ns."""


class Flow:
    """Determine which messages to send, and when."""

    def __init__(self, format: Format, changes: Changes, now: int) -> None:
        self.offset = ClockOffset()
        self.heard_ns = now
        self._format, self._changes = format, changes
        self._number = self._acknowledged = self._theirs = 0
        self._echo = self._received = 0
        self._sent_ns = now - _QUIET_NS
        self._moved_ns = now
        self._owed = False
        self._whole = True

    def hear(self, message: WireMessage, now: int) -> None:
        head = message.head
        self.heard_ns = now
        self.offset.add(head, now)
        self._echo, self._received = head.sent, now
        if message.records:
            self._owed = True
            if head.kind == WHOLE or head.number in (self._theirs, self._theirs + 1):
                self._theirs = head.number  # otherwise an earlier message is missing
        if self._acknowledged < head.heard <= self._number:
            self._acknowledged, self._moved_ns = head.heard, now

    def due(self, now: int, clock: Callable[[], int], later_ns: int = 0) -> list[bytes]:
        """Return the messages to send now.

        The method adds ``later_ns`` to the wall-clock times in the records.
        """
        if now - self._sent_ns < _EVERY_NS:
            return []
        if self._number > self._acknowledged and now - self._moved_ns >= _LOST_NS:
            self._acknowledged, self._moved_ns = self._number, now
            self._changes.send_all()
            self._whole = True
        records = {}
        if self._number - self._acknowledged < MOST_UNDER_WAY:
            records = self._changes.take(later_ns)
        if not records and not self._owed and now - self._sent_ns < _QUIET_NS:
            return []
        if records:
            if self._number == self._acknowledged:
                self._moved_ns = now
            self._number += 1
        self._sent_ns, self._owed = now, False
        kind = WHOLE if self._whole and records else RECORDS
        self._whole = self._whole and not records
        head = Head(kind, self._number, self._theirs, clock(), self._echo, self._received)
        return self._format.records(head, records)


# The viewer's side.

_AT_ONCE = 64

PATIENCE_S = 10.0
"""Timeout for the first answer of the run, s."""
SILENT_NS = 10 * NS_PER_S
"""Without a message for this time, the run counts as ended or unreachable, ns."""
_AGAIN_MS = 300
_LOOK_MS = 5


class RunConnection(Protocol):
    """Interface of the socket to the run (:class:`rtsim.core.net.sockets.Caller`)."""

    endpoint: str

    def send(self, data: bytes) -> bool: ...

    def receive(self, milliseconds: int) -> bytes | None: ...

    def close(self) -> None: ...


class RemoteExchange:
    """Exchange records with another machine; use ``connect`` to create an object."""

    def __init__(
        self, line: RunConnection, schema: Schema, clock: Callable[[], int] = stopwatch
    ) -> None:
        schema.check_size()
        self.schema = schema
        self.skipped = 0
        """Number of malformed messages that were dropped."""
        self._refused = ""
        self._line, self._clock = line, clock
        self._format = Format(schema)
        shapes = dict(schema.shapes())
        self._in = {name: _memory(shape) for name, shape in shapes.items()}
        self._out = {name: _memory(shapes[name]) for name in TO_RUN}
        self._shapes = shapes
        self._writers = {n: Writer(memory, shapes[n]) for n, memory in self._in.items()}
        own = {n: Reader(memory, shapes[n]) for n, memory in self._out.items()}
        self._flow = Flow(self._format, Changes(own), clock())

    @classmethod
    def connect(cls, endpoint: str, keys: Keys | None, patience_s: float = PATIENCE_S) -> Self:
        """Request the description of a run, and wait until the records arrive.

        Raises ``SharedError`` without an answer, or for another version of rtsim.
        """
        return cls.over_line(Caller(endpoint, keys), patience_s)

    @classmethod
    def over_line(
        cls,
        line: RunConnection,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], int] = stopwatch,
    ) -> Self:
        """Connect to a run over the open connection ``line``."""
        until = stopwatch() + round(patience_s * NS_PER_S)
        try:
            self = cls(line, _request_schema(line, until), clock)
            while not self.complete:
                if self._refused:
                    raise SharedError(f"{line.endpoint}: {self._refused}")
                if stopwatch() > until:
                    raise SharedError(
                        f"{line.endpoint} sent its schema, but no records within {patience_s:g} s"
                    )
                self._hear(line.receive(_LOOK_MS))
                self.look()
        except BaseException:
            line.close()
            raise
        return self

    @property
    def complete(self) -> bool:
        """True if records of the run have arrived."""
        return self._flow.offset.known

    @property
    def offset_ns(self) -> int:
        """Offset of the run's clock from the clock of this machine, ns."""
        return self._flow.offset.ns

    def writer(self, record: str) -> Writer:
        return Writer(self._out[record], self._shapes[record])

    def reader(self, record: str) -> Reader:
        return Reader(self._in[record], self._shapes[record])

    def look(self) -> None:
        for _ in range(_AT_ONCE):
            data = self._line.receive(0)
            if data is None:
                break
            self._hear(data)
        for data in self._flow.due(self._clock(), self._clock, self.offset_ns):
            self._line.send(data)

    def _hear(self, data: bytes | None) -> None:
        if data is None:
            return
        try:
            message = self._format.read(data)
        except WireError:
            self.skipped += 1
            return
        if message.head.kind == SCHEMA:  # the answer to a repeated request
            return
        if message.head.kind == OVER:
            self._refused = message.text
            return
        self._flow.hear(message, self._clock())
        for name, (integers, floats) in message.records.items():
            put(self._writers[name], shifted(name, integers, -self.offset_ns), floats)

    @property
    def over(self) -> str:
        if self._refused:
            return self._refused
        if self._clock() - self._flow.heard_ns < SILENT_NS:
            return ""
        return f"no message came from {self._line.endpoint} for {SILENT_NS // NS_PER_S} s"

    def close(self) -> None:
        self._line.close()


def _memory(shape: Shape) -> memoryview:
    return memoryview(bytearray(shape.size))


def _request_schema(line: RunConnection, until: int) -> Schema:
    format = Format(None)
    while stopwatch() < until:
        line.send(format.hello())
        data = line.receive(_AGAIN_MS)
        while data is not None:
            try:
                message = format.read(data)
            except OtherVersion as error:
                raise SharedError(
                    f"{line.endpoint} has another release of rtsim ({error}); use the same "
                    "release on both machines"
                ) from None
            except WireError as error:
                raise SharedError(
                    f"{line.endpoint} does not serve a window of rtsim: {error}"
                ) from None
            if message.head.kind == OVER:
                raise SharedError(f"{line.endpoint}: {message.text}")
            if message.head.kind == SCHEMA:
                return _check_layout(Schema.from_json(message.text), message, line.endpoint)
            data = line.receive(0)
    raise SharedError(
        f"no answer from {line.endpoint}; check that a run with --view tcp://... is in "
        "progress at this address, and that rtsim keys made the client keys together with the "
        "keys of that run"
    )


def _check_layout(schema: Schema, message: WireMessage, endpoint: str) -> Schema:
    if message.hash != schema.hash[: len(message.hash)]:
        raise SharedError(
            f"{endpoint} uses the record layout of another release of rtsim; use the same release "
            "on both machines"
        )
    return schema


# The run's side: the relay.

MOST_VIEWERS = 8
GONE_NS = 5 * NS_PER_S
"""A viewer that sends nothing for this time is dropped, ns."""
FULL = (
    f"{MOST_VIEWERS} windows on other machines show this run, which is the limit; close one, and "
    f"try again after {GONE_NS // NS_PER_S} s"
)
ENDED = "the run has ended"
_RELAY_LOOK_MS = 1
_LAST_TURNS, _LAST_MS = 20, 5
_OWN = ("viewer",)
_WHO = STICK.index("who")


class ViewerConnection(Protocol):
    """Interface of the socket to the viewers (:class:`rtsim.core.net.sockets.ListeningSocket`)."""

    def receive(self) -> tuple[bytes, bytes] | None: ...

    def send(self, who: bytes, data: bytes) -> bool: ...


class ViewerRelay:
    """Forward records between a run and its viewers; call ``turn`` repeatedly."""

    def __init__(
        self, shared: Shared, line: ViewerConnection, clock: Callable[[], int] = stopwatch
    ) -> None:
        self.skipped = 0
        """Number of malformed messages that were dropped."""
        self._shared, self._line, self._clock = shared, line, clock
        self._format = Format(shared.schema)
        self._names = [name for name, _ in shared.schema.shapes() if name not in _OWN]
        self._viewers: dict[bytes, Flow] = {}
        self._authority = ControlAuthority(shared.reader("stick"), clock)
        self._flies = b""
        self._writers: dict[str, Writer] = {}

    def turn(self) -> None:
        """Process the messages that have arrived, and send due messages."""
        for _ in range(_AT_ONCE):
            said = self._line.receive()
            if said is None:
                break
            self._hear(*said)
        now = self._clock()
        for who, flow in list(self._viewers.items()):
            if now - flow.heard_ns > GONE_NS:
                del self._viewers[who]
                continue
            for data in flow.due(now, self._clock):
                self._line.send(who, data)

    def end(self, why: str) -> None:
        """Send the reason for the end of the run to all viewers."""
        for who in self._viewers:
            self._line.send(who, self._format.over(why))

    def _hear(self, who: bytes, data: bytes) -> None:
        try:
            message = self._format.read(data)
        except WireError:
            self.skipped += 1
            return
        if message.head.kind not in (HELLO, RECORDS, WHOLE):
            self.skipped += 1
        elif who not in self._viewers and len(self._viewers) >= MOST_VIEWERS:
            self._line.send(who, self._format.over(FULL))
        elif message.head.kind == HELLO:
            self._line.send(who, self._format.schema())
        else:
            self._enter(who)
            self._viewers[who].hear(message, self._clock())
            self._pass_on(who, message)

    def _enter(self, who: bytes) -> None:
        if who not in self._viewers:
            readers = {name: self._shared.reader(name) for name in self._names}
            self._viewers[who] = Flow(self._format, Changes(readers), self._clock())

    def _pass_on(self, who: bytes, message: WireMessage) -> None:
        stick = message.records.get("stick")
        if stick is not None:
            number = int(stick[0][_WHO])
            free = number == NOBODY or self._authority.free_for(number)
            if not free:
                self._flies = b"" if who == self._flies else self._flies
            elif number != NOBODY and who != self._flies:
                self._flies = who
                self._writers = {name: self._shared.writer(name) for name in TO_RUN}
        if who != self._flies:
            return
        for name, (integers, floats) in message.records.items():
            if name in TO_RUN:
                put(self._writers[name], integers, floats)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve viewers until the standard input closes."""
    parser = argparse.ArgumentParser(prog="rtsim.pilot.remote")
    parser.add_argument("shared", type=Path)
    parser.add_argument("endpoint")
    parser.add_argument("--keys", type=Path, required=True)
    given = parser.parse_args(arguments)
    over = input_closed()
    try:
        shared = Shared.open(given.shared)
        most = Format(shared.schema).most_to_run
        listener = ListeningSocket(given.endpoint, Keys.load(given.keys), most)
        relay = ViewerRelay(shared, listener)
    except RtsimError as error:
        print(error, flush=True)
        return 2
    print(READY, flush=True)
    while not over.is_set() and not shared.over:
        listener.wait(_RELAY_LOOK_MS)
        relay.turn()
    for _ in range(_LAST_TURNS):  # viewers still have to receive the end of the run
        relay.turn()
        listener.wait(_LAST_MS)
    relay.end(shared.over or ENDED)
    listener.close()
    if over.is_set():  # a killed simulation has not removed the file
        shared.remove()
    print(relay.skipped, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
