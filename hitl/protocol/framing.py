"""Frames: kind, sequence, payload and CRC, COBS-stuffed, with a zero after each.

``kind u8 | sequence u8 | payload | CRC-16/CCITT-FALSE u16, little-endian``.  COBS: Cheshire and
Baker, IEEE/ACM Transactions on Networking 7 (1999), 159.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import NamedTuple

from hitl.protocol.messages import MOST_PAYLOAD, Why

OVERHEAD = 4
"""Bytes of a frame besides its payload, before it is stuffed."""
_BLOCK = 254
_CODES = [bytes([n]) for n in range(256)]


class ProtocolFrame(NamedTuple):
    """What arrived whole; whether it means anything is another question."""

    kind: int
    sequence: int
    payload: bytes


class GarbageBytes(NamedTuple):
    """Bytes up to a delimiter that are no frame."""

    why: Why


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE: polynomial 0x1021, from 0xFFFF, not reflected."""
    return crc_hqx(data, 0xFFFF)


def stuffed(data: bytes) -> bytes:
    """COBS of ``data``, without the delimiter: no byte of it is 0."""
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
        parts = parts[:-2]  # a full block at the end is followed by nothing
    return b"".join(parts)


def unstuffed(data: bytes) -> tuple[bytes, bool]:
    """What COBS ``data`` stands for, and whether its last block is whole.  Never raises."""
    parts: list[bytes] = []
    at, size = 0, len(data)
    if size < 255:  # no block is full: there is a zero between each two
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
    """Bytes of the longest COBS of ``size`` bytes."""
    return size + size // _BLOCK + 1


def wire_size(payload: int) -> int:
    """Bytes on the line, at most, of a frame with that many bytes of payload."""
    return stuffed_size(payload + OVERHEAD) + 1


def encode(kind: int, sequence: int, payload: bytes) -> bytes:
    """One frame with its delimiter."""
    body = bytes((kind, sequence)) + payload
    return stuffed(body + crc16(body).to_bytes(2, "little")) + b"\0"


class Parser:
    """Takes bytes in pieces of any size; holds at most one frame of ``most`` bytes of payload."""

    def __init__(self, most: int = MOST_PAYLOAD) -> None:
        self._most = most + OVERHEAD
        self._longest = stuffed_size(self._most)
        self._held = bytearray()

    def feed(self, data: bytes) -> list[ProtocolFrame | GarbageBytes]:
        """What ``data`` completes, in order.  Never raises; an empty frame is nothing."""
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
        """Bytes were fed that no delimiter has ended."""
        return bool(self._held)

    def _hold(self, piece: bytes) -> None:
        """One byte too many is kept, and tells that there were more."""
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
