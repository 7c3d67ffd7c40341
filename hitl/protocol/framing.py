"""Encode and decode protocol frames.

Layout of a frame before COBS: ``kind u8 | sequence u8 | payload | CRC-16/CCITT-FALSE u16``.  The
CRC is little-endian.  The frame is then encoded by COBS, and a zero byte ends it.
Source of COBS: Cheshire and Baker, IEEE/ACM Transactions on Networking 7 (1999), 159.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import NamedTuple

from hitl.protocol.messages import KINDS, LAYOUTS, MOST_PAYLOAD, Message, Why

OVERHEAD = 4
"""Bytes of a frame in addition to its payload, before COBS encoding."""
_BLOCK = 254
_CODES = [bytes([n]) for n in range(256)]


class ProtocolFrame(NamedTuple):
    """A received frame with a valid checksum."""

    kind: int
    sequence: int
    payload: bytes


class GarbageBytes(NamedTuple):
    """Received bytes that are no valid frame, with the reason."""

    why: Why


def crc16(data: bytes) -> int:
    """Return the CRC-16/CCITT-FALSE (polynomial 0x1021, initial value 0xFFFF) of ``data``."""
    return crc_hqx(data, 0xFFFF)


def stuffed(data: bytes) -> bytes:
    """Return ``data`` in COBS encoding, without the delimiter."""
    blocks = data.split(b"\0")
    if len(data) < _BLOCK:
        return b"".join([_CODES[len(block) + 1] + block for block in blocks])
    parts: list[bytes] = []
    for block in blocks:
        while len(block) >= _BLOCK:
            parts += (b"\xff", block[:_BLOCK])
            block = block[_BLOCK:]
        parts += (_CODES[len(block) + 1], block)
    last = len(blocks[-1])
    if last and last % _BLOCK == 0:
        parts = parts[:-2]  # a full block at the end of the data needs no further block
    return b"".join(parts)


def unstuffed(data: bytes) -> tuple[bytes, bool]:
    """Decode COBS bytes, and return ``(decoded, complete)``.

    ``complete`` is False if the last block is too short.
    """
    parts: list[bytes] = []
    at, size = 0, len(data)
    if size < 255:  # no full block, so a zero separates the blocks
        while at < size:
            end = at + data[at]
            parts.append(data[at + 1 : end])
            at = end
        return b"\0".join(parts), at == size
    code = 255
    while at < size:
        if code < 255:
            parts.append(b"\0")
        code = data[at]
        parts.append(data[at + 1 : at + code])
        at += code
    return b"".join(parts), at == size


def stuffed_size(size: int) -> int:
    """Return the maximum size of the COBS encoding of ``size`` bytes."""
    return size + size // _BLOCK + 1


def wire_size(payload: int) -> int:
    """Return the maximum size of a frame with ``payload`` bytes on the line."""
    return stuffed_size(payload + OVERHEAD) + 1


def encode(kind: int, sequence: int, payload: bytes) -> bytes:
    body = bytes((kind, sequence)) + payload
    return stuffed(body + crc16(body).to_bytes(2, "little")) + b"\0"


class Parser:
    """Find frames in a byte stream, which may arrive in pieces of any size.

    The payload of a frame has at most ``most`` bytes.
    """

    def __init__(self, most: int = MOST_PAYLOAD) -> None:
        self._most = most + OVERHEAD
        self._longest = stuffed_size(self._most)
        self._held = bytearray()

    def feed(self, data: bytes) -> list[ProtocolFrame | GarbageBytes]:
        """Return the frames that ``data`` completes, both valid and malformed ones.

        Empty frames are ignored.  Malformed input never raises an error.
        """
        *ended, rest = data.split(b"\0")
        events: list[ProtocolFrame | GarbageBytes] = []
        for piece in ended:
            self._hold(piece)
            if self._held:
                events.append(self._event(bytes(self._held)))
                self._held.clear()
        self._hold(rest)
        return events

    @property
    def unended(self) -> bool:
        """True if a part of a frame has arrived."""
        return bool(self._held)

    def _hold(self, piece: bytes) -> None:
        self._held += piece[: self._longest + 1 - len(self._held)]

    def _event(self, held: bytes) -> ProtocolFrame | GarbageBytes:
        data, whole = unstuffed(held)
        if len(data) > self._most:
            return GarbageBytes(Why.TOO_LONG)
        if not whole:
            return GarbageBytes(Why.TRUNCATED)
        if len(data) < OVERHEAD:
            return GarbageBytes(Why.TOO_SHORT)
        if crc16(data[:-2]) != data[-2] | data[-1] << 8:
            return GarbageBytes(Why.BAD_CRC)
        return ProtocolFrame(data[0], data[1], data[2:-2])


def encode_message(message: Message, sequence: int) -> bytes:
    """Return the bytes of ``message`` on the line.

    Raises struct.error if the value of a field is too large.
    """
    kind = KINDS[type(message)]
    _, layout, tailed = LAYOUTS[kind]
    if not tailed:
        return encode(kind, sequence, layout.pack(*message))
    values: tuple[int | bytes, ...] = message
    tail = values[-1]
    assert isinstance(tail, bytes)
    return encode(kind, sequence, layout.pack(*values[:-1]) + tail)


def decode_message(frame: ProtocolFrame) -> Message | None:
    """Return the message in a frame, or None for an unknown kind or a wrong length."""
    known = LAYOUTS.get(frame.kind)
    if known is None:
        return None
    build, layout, tailed = known
    if tailed:
        if len(frame.payload) < layout.size:
            return None
        return build(*layout.unpack_from(frame.payload), frame.payload[layout.size :])
    return build(*layout.unpack(frame.payload)) if len(frame.payload) == layout.size else None
