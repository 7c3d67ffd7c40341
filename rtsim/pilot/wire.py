"""The records of :mod:`rtsim.pilot.shared` as messages between two machines; no socket in here.

A message is a head, a body, and a CRC-32 over both, little-endian::

    magic "RTPV" | version u16 | kind u16 | schema's hash, 8 bytes | number u64 | heard u64
    | sent i64 | echo i64 | received i64 | body | crc u32

Magic, version, kind and CRC stand there in every version: a ``HELLO`` of any is answered, so that
who asks can say that the other end is of another.

The body of ``SCHEMA`` is JSON; of ``OVER`` it is why the run says nothing more to this viewer, as
text.  That of ``RECORDS`` is any number of entries, an index u16 and that
record's payload: its length follows from the schema, so that no length is believed; ``WHOLE`` is
the same with all that there is.  ``number`` counts messages that carry records, ``heard`` is the
other side's latest up to which none is missing; what is sent and not heard is bounded by that.  The
last three are for the clocks (:class:`ClockOffset`), ns of each side's own.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.pilot.sequence import Integers, Reader, Shape, Writer
from rtsim.pilot.shared import MOST_ORDERS, ORDERS, PAIR, RUN, STICK, VERSION, Schema

MOST_BYTES = 1 << 20
"""Of a message; what sockets of ours take at most."""
HELLO, SCHEMA, RECORDS, WHOLE, OVER = 1, 2, 3, 4, 5
TO_RUN = ("stick", "orders", "viewer")
"""Records that a viewer writes; all others, and the first two again, go to it."""
_MAGIC = b"RTPV"
_FIRST = struct.Struct("<4sHH")
_HEAD = struct.Struct("<4sHH8sQQqqq")
_INDEX = struct.Struct("<H")
_CRC = struct.Struct("<I")
_KEPT = 64
_MOST_REASON = 400
_WALLS: dict[str, tuple[int, ...]] = {
    "run": (RUN.index("wall"),),
    "stick": (STICK.index("initiated"), STICK.index("completed")),
    "viewer": (0,),
    "orders": tuple(range(1 + MOST_ORDERS, len(ORDERS))),
    "answer": (),
}
_PLANT_WALLS = tuple(PAIR.index(n) for n in ("last_wall", "next_wall", "applied_initiated"))


class WireError(RtsimError):
    """Bytes that are no message; they are counted and skipped."""


class OtherVersion(WireError):
    """A message of another release of rtsim."""


@dataclass(frozen=True)
class Head:
    """What stands before the body."""

    kind: int
    number: int = 0
    heard: int = 0
    sent: int = 0
    echo: int = 0
    """The ``sent`` of the other side's message that came last, by its clock; 0: none came."""
    received: int = 0
    """When that came, by the clock of who sends this."""


@dataclass(frozen=True)
class WireMessage:
    """One that fits its schema."""

    head: Head
    text: str = ""
    """The schema, or a reason."""
    hash: bytes = b""
    """The first bytes of the schema's."""
    records: Mapping[str, tuple[Integers, Vector]] = field(default_factory=dict)


class Format:
    """Messages of one schema; ``None`` is who has not heard it yet."""

    def __init__(self, schema: Schema | None) -> None:
        self._hash = b"\0" * 8 if schema is None else schema.hash[:8]
        self._shapes: list[tuple[str, Shape]] = [] if schema is None else list(schema.shapes())
        self._index = {name: k for k, (name, _) in enumerate(self._shapes)}
        self._text = b"" if schema is None else schema.to_json().encode()
        for name, shape in self._shapes:
            if max(shape.payload, len(self._text)) > MOST_BYTES - 256:
                raise WireError(
                    f"{name} and the schema are too large to be seen from another machine: "
                    f"{max(shape.payload, len(self._text))} bytes, at most {MOST_BYTES - 256}"
                )

    def hello(self) -> bytes:
        return self._signed(Head(HELLO), b"")

    def schema(self) -> bytes:
        return self._signed(Head(SCHEMA), self._text)

    def over(self, why: str) -> bytes:
        return self._signed(Head(OVER), why.encode())

    @property
    def most_to_run(self) -> int:
        """Bytes of the longest message that a viewer has to send."""
        told = [shape.payload for name, shape in self._shapes if name in TO_RUN]
        return _HEAD.size + sum(told) + len(told) * _INDEX.size + _CRC.size

    def records(self, head: Head, payloads: Mapping[str, bytes]) -> list[bytes]:
        """As few messages as hold them; all with the same head."""
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
        """Raises :class:`WireError` for whatever is none."""
        if not _FIRST.size + _CRC.size <= len(data) <= MOST_BYTES:
            raise WireError(f"a message of {len(data)} bytes")
        magic, version, kind = _FIRST.unpack_from(data)
        if magic != _MAGIC or zlib.crc32(data[: -_CRC.size]) != _CRC.unpack(data[-_CRC.size :])[0]:
            raise WireError("no message of ours")
        if kind == HELLO:
            return WireMessage(Head(HELLO))
        if version != VERSION:
            raise OtherVersion(f"a message of version {version}; this is {VERSION}")
        if len(data) < _HEAD.size + _CRC.size:
            raise WireError(f"a message of {len(data)} bytes")
        digest, *rest = _HEAD.unpack_from(data)[3:]
        head, body = Head(kind, *rest), data[_HEAD.size : -_CRC.size]
        if kind == OVER:
            return WireMessage(head, _printable(body))
        if kind == SCHEMA:
            try:
                return WireMessage(head, body.decode(), digest)
            except UnicodeDecodeError as error:
                raise WireError(f"a schema that is no text: {error}") from None
        if kind not in (RECORDS, WHOLE) or digest != self._hash:
            raise WireError("a message of another run, or of no known kind")
        return WireMessage(head, records=self._entries(body))

    def _entries(self, body: bytes) -> dict[str, tuple[Integers, Vector]]:
        found, at = {}, 0
        while at < len(body):
            if at + _INDEX.size > len(body):
                raise WireError("a record without its index")
            index = _INDEX.unpack_from(body, at)[0]
            at += _INDEX.size
            if index >= len(self._shapes):
                raise WireError(f"record {index} of {len(self._shapes)}")
            name, shape = self._shapes[index]
            payload = body[at : at + shape.payload]
            at += shape.payload
            if len(payload) < shape.payload:
                raise WireError(f"{name} in {len(payload)} bytes, not {shape.payload}")
            words = np.frombuffer(payload, np.int64)
            found[name] = words[: shape.integers], words[shape.integers :].view(np.float64)
        return found


def _printable(reason: bytes) -> str:
    """Whatever the bytes are, a line for a person."""
    text = reason[:_MOST_REASON].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text).strip() or "no reason is given"


def payload_of(name: str, integers: Integers, floats: Vector, later_ns: int) -> bytes:
    """A record's bytes; moments of the wall in it are told by a clock that is so much ahead."""
    if later_ns:
        integers = shifted(name, integers, later_ns)
    return integers.tobytes() + floats.tobytes()


def shifted(name: str, integers: Integers, later_ns: int) -> Integers:
    """The record's integers with its moments of the wall by another clock; 0 stands for none."""
    out = integers.copy()
    for k in _WALLS.get(name, _PLANT_WALLS):
        if out[k]:
            out[k] += later_ns
    return out


def put(writer: Writer, integers: Integers, floats: Vector) -> None:
    """What came, where the reader looks."""
    writer.integers[:] = integers
    writer.floats[:] = floats
    writer.publish()


class Changes:
    """Which records were written since they were last asked for."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers
        self._seen = dict.fromkeys(readers, 0)

    def again(self) -> None:
        """All of them, the next time: what was sent may not have come."""
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
    """How far the other side's clock is ahead of one's own, from messages there and back.

    As NTP does (RFC 5905, section 8): of the last exchanges the quickest one tells it best, and it
    is wrong by no more than half of what that took on the way.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def add(self, head: Head, now: int) -> None:
        """A message came at ``now``, by one's own clock."""
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
        """At most."""
        return min(self._kept, default=(0, 0))[0] // 2
