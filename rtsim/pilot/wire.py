"""The records of :mod:`rtsim.pilot.shared` as messages between two machines; without sockets.

A message has a head, a body, and a CRC-32 of both, little-endian::

    magic "RTPV" | version u16 | kind u16 | schema's hash, 8 bytes | number u64 | heard u64
    | sent i64 | echo i64 | received i64 | body | crc u32

Every version has magic, version, kind and CRC at these positions. A side answers a ``HELLO`` of any
version, so that the other side can report that the versions differ.

The bodies are:

- ``SCHEMA``: JSON;
- ``OVER``: why the run sends nothing more to this viewer, as text;
- ``RECORDS``: any number of entries, each an index u16 and the payload of that record; the length
  of a payload follows from the schema;
- ``WHOLE``: the same, with all records.

``number`` counts the messages with records. ``heard`` acknowledges the other side's messages: it is
the number up to which no message is missing. It limits the number of messages in transit. ``sent``,
``echo`` and ``received`` are times of each side's own clock, ns, for :class:`ClockOffset`.

Only a few messages may be in transit. A record that changes while too many messages are in transit
is sent with the next message, which contains the value at its sending time.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.pilot.sequence import Integers, Reader, Shape, Writer
from rtsim.pilot.shared import MOST_ORDERS, ORDERS, PAIR, RUN, STICK, VERSION, Schema

MOST_BYTES = 1 << 20
"""Greatest size of a message, bytes, and limit of the sockets."""
HELLO, SCHEMA, RECORDS, WHOLE, OVER = 1, 2, 3, 4, 5
TO_RUN = ("stick", "orders", "viewer")
"""Records that a viewer sends; it receives ``stick``, ``orders`` and all other records."""
_MAGIC = b"RTPV"
_FIRST = struct.Struct("<4sHH")
_HEAD = struct.Struct("<4sHH8sQQqqq")
_INDEX = struct.Struct("<H")
_CRC = struct.Struct("<I")
_KEPT = 64
_MOST_REASON = 400
_WALLS: dict[str, tuple[int, ...]] = {
    "run": (RUN.index("wall_ns"),),
    "stick": (STICK.index("initiated"), STICK.index("completed")),
    "viewer": (0,),
    "orders": tuple(range(1 + MOST_ORDERS, len(ORDERS))),
    "answer": (),
}
_PLANT_WALLS = tuple(PAIR.index(n) for n in ("last_wall", "next_wall", "applied_initiated"))


class WireError(RtsimError):
    """A received message is malformed; such messages are counted and dropped."""


class OtherVersion(WireError):
    """A message came from another release of rtsim."""


@dataclass(frozen=True)
class Head:
    """The head of a message."""

    kind: int
    number: int = 0
    heard: int = 0
    sent: int = 0
    echo: int = 0
    """The field ``sent`` of the other side's last message; 0 if no message has arrived."""
    received: int = 0
    """Arrival time of the other side's last message, by this sender's clock."""


@dataclass(frozen=True)
class WireMessage:
    """A decoded message."""

    head: Head
    text: str = ""
    """The schema as text, or the reason of the end."""
    hash: bytes = b""
    """The first bytes of the hash of the schema."""
    records: Mapping[str, tuple[Integers, Vector]] = field(default_factory=dict)


class Format:
    """Encodes and decodes messages; ``schema`` is ``None`` while it is unknown."""

    def __init__(self, schema: Schema | None) -> None:
        self._hash = b"\0" * 8 if schema is None else schema.hash[:8]
        self._shapes: list[tuple[str, Shape]] = [] if schema is None else list(schema.shapes())
        self._index = {name: k for k, (name, _) in enumerate(self._shapes)}
        self._text = b"" if schema is None else schema.to_json().encode()
        for name, shape in self._shapes:
            if max(shape.payload, len(self._text)) > MOST_BYTES - 256:
                raise WireError(
                    f"{name} or the schema is too large for a window on another machine: "
                    f"{max(shape.payload, len(self._text))} bytes; at most {MOST_BYTES - 256} are "
                    "allowed"
                )

    def hello(self) -> bytes:
        return self._signed(Head(HELLO), b"")

    def schema(self) -> bytes:
        return self._signed(Head(SCHEMA), self._text)

    def over(self, why: str) -> bytes:
        return self._signed(Head(OVER), why.encode())

    @property
    def most_to_run(self) -> int:
        """The size of the longest message that a viewer sends, bytes."""
        told = [shape.payload for name, shape in self._shapes if name in TO_RUN]
        return _HEAD.size + sum(told) + len(told) * _INDEX.size + _CRC.size

    def records(self, head: Head, payloads: Mapping[str, bytes]) -> list[bytes]:
        """Return as few messages as possible with all ``payloads``, each message with ``head``."""
        bodies, body = [], b""
        for name, payload in payloads.items():
            entry = _INDEX.pack(self._index[name]) + payload
            if body and len(body) + len(entry) > MOST_BYTES - 256:
                bodies.append(body)
                body = b""
            body += entry
        return [self._signed(head, body) for body in (*bodies, body)]

    def _signed(self, head: Head, body: bytes) -> bytes:
        data = _HEAD.pack(
            _MAGIC, VERSION, head.kind, self._hash, head.number, head.heard, head.sent, head.echo,
            head.received,
        ) + body  # fmt: skip
        return data + _CRC.pack(zlib.crc32(data))

    def read(self, data: bytes) -> WireMessage:
        """Decode a message; raises :class:`WireError` if it is malformed."""
        if not _FIRST.size + _CRC.size <= len(data) <= MOST_BYTES:
            raise WireError(f"a message has {len(data)} bytes, which is too short or too long")
        magic, version, kind = _FIRST.unpack_from(data)
        if magic != _MAGIC or zlib.crc32(data[: -_CRC.size]) != _CRC.unpack(data[-_CRC.size :])[0]:
            raise WireError("a message has a wrong magic number or checksum")
        if kind == HELLO:
            return WireMessage(Head(HELLO))
        if version != VERSION:
            raise OtherVersion(
                f"the other side has protocol version {version}, this side has version {VERSION}"
            )
        if len(data) < _HEAD.size + _CRC.size:
            raise WireError(f"a message has {len(data)} bytes, which is too short")
        digest, *rest = _HEAD.unpack_from(data)[3:]
        head, body = Head(kind, *rest), data[_HEAD.size : -_CRC.size]
        if kind == OVER:
            return WireMessage(head, _printable(body))
        if kind == SCHEMA:
            try:
                return WireMessage(head, body.decode(), digest)
            except UnicodeDecodeError as error:
                raise WireError(f"the schema in a message is not UTF-8 text: {error}") from None
        if kind not in (RECORDS, WHOLE) or digest != self._hash:
            raise WireError("a message comes from another run or has an unknown kind")
        return WireMessage(head, records=self._entries(body))

    def _entries(self, body: bytes) -> dict[str, tuple[Integers, Vector]]:
        found, at = {}, 0
        while at < len(body):
            if at + _INDEX.size > len(body):
                raise WireError("a message ends within the index of a record")
            index = _INDEX.unpack_from(body, at)[0]
            at += _INDEX.size
            if index >= len(self._shapes):
                raise WireError(
                    f"record index {index} is unknown; the schema has {len(self._shapes)} records"
                )
            name, shape = self._shapes[index]
            payload = body[at : at + shape.payload]
            at += shape.payload
            if len(payload) < shape.payload:
                raise WireError(f"record {name} has {len(payload)} bytes; expected {shape.payload}")
            words = np.frombuffer(payload, np.int64)
            found[name] = words[: shape.integers], words[shape.integers :].view(np.float64)
        return found


def _printable(reason: bytes) -> str:
    """Return ``reason`` as one line of printable text."""
    text = reason[:_MOST_REASON].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text).strip() or "no reason is given"


def payload_of(name: str, integers: Integers, floats: Vector, later_ns: int) -> bytes:
    """Return the bytes of a record, with times converted to a clock ``later_ns`` ahead."""
    if later_ns:
        integers = shifted(name, integers, later_ns)
    return integers.tobytes() + floats.tobytes()


def shifted(name: str, integers: Integers, later_ns: int) -> Integers:
    """Return the integers with times converted to a clock ``later_ns`` ahead; 0 means no time."""
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
    """Finds the records that were written since the last call of :meth:`take`."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers
        self._seen = dict.fromkeys(readers, 0)

    def send_all(self) -> None:
        """Make the next :meth:`take` return all records, because messages may have been lost."""
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
    """Measures how far the other side's clock is ahead of this side's, from round trips.

    The method is that of NTP (RFC 5905, section 8): the round trip with the shortest delay gives
    the offset.  The error is at most half of that delay.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def add(self, head: Head, now: int) -> None:
        """Add the times in the head of a message that arrived at ``now``, by this side's clock."""
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
        """The greatest possible error of :attr:`ns`, ns."""
        return min(self._kept, default=(0, 0))[0] // 2


# One side of the exchange: it sends the latest records and never blocks.

MOST_UNDER_WAY = 4
"""Limit of the messages that were sent and are not acknowledged yet."""
_EVERY_NS = 2_000_000
"""Shortest time between two messages, ns."""
_QUIET_NS = 100_000_000
"""Keep-alive period, ns: a message is sent at least this often."""
_LOST_NS = 1_000_000_000
"""Time without an acknowledgement after which messages count as lost and are sent again, ns."""


class Flow:
    """Decides which messages to send and when, given the messages that were received."""

    def __init__(self, format: Format, changes: Changes, now: int) -> None:
        self.offset = ClockOffset()
        self.heard_ns = now
        """The time of the last message received."""
        self._format, self._changes = format, changes
        self._number = self._acknowledged = self._theirs = 0
        self._echo = self._received = 0
        self._sent_ns = now - _QUIET_NS
        self._moved_ns = now
        self._owed = False
        self._whole = True
        """True if the next message must contain all records."""

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

        Wall-clock times in the records are converted to a clock that is ``later_ns`` ahead.
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
