"""Messages to and from a worker.

A message consists of a header of 64 bytes and ``count`` float64 values, little-endian.
:func:`parse` never raises; for malformed bytes it returns :class:`MalformedMessage` with the
reason.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

MAGIC = b"RTSM"
VERSION = 1
_HEADER = struct.Struct("<4sBBhiIQQqqqq")
HEADER_BYTES = _HEADER.size
FROM_ENVIRONMENT = 1
"""Status of a FAULT caused by the environment of the C code, such as a killed process."""
OF_ANOTHER_SIZE = 0x7FFF
"""Status of the answer to a message with a wrong number of values."""


class WorkerMessageKind(IntEnum):
    """Kinds of message.

    HELLO means that a worker is ready for a run. START contains parameters; READY confirms the
    initialisation. STEP contains inputs; ANSWER contains outputs. STOP requests termination; BYE
    confirms it. Only a server for other machines sends FAULT and PING. FAULT contains a text that
    explains why the worker ended. PING checks that the client is still connected.
    """

    HELLO = 1
    START = 2
    READY = 3
    STEP = 4
    ANSWER = 5
    STOP = 6
    BYE = 7
    FAULT = 8
    PING = 9


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """A message from a worker.

    ``status`` is 0, or ``1 + i`` if element i did not fit its C type, or ``-(1 + i)`` if output i
    has no exact float64. In a FAULT, ``status`` is :data:`FROM_ENVIRONMENT` or 0. ``began_ns`` is
    the start of the step on the worker's clock, and ``took_ns`` its execution time. In a HELLO,
    ``began_ns`` is the process id.
    """

    kind: WorkerMessageKind
    status: int
    schema: int
    sequence: int
    tag: Tag
    began_ns: int
    took_ns: int
    values: Vector

    @property
    def text(self) -> str:
        return self.values.tobytes().rstrip(b"\0").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class MalformedMessage:
    """Why received bytes are no valid message."""

    why: str


def parse(data: bytes, most: int) -> WorkerMessage | MalformedMessage:
    """Parse a message with at most ``most`` values."""
    if len(data) < HEADER_BYTES:
        return MalformedMessage(f"it has {len(data)} bytes, a header has {HEADER_BYTES}")
    magic, version, kind, _, status, count, schema, sequence, ns, step, began, took = (
        _HEADER.unpack_from(data)
    )
    if magic != MAGIC:
        return MalformedMessage(f"it begins with {magic!r}")
    if version != VERSION:
        return MalformedMessage(f"it has version {version} of the protocol, expected {VERSION}")
    if kind not in _KINDS:
        return MalformedMessage(f"its kind {kind} is not known")
    most = _MOST_WORDS if kind == WorkerMessageKind.FAULT else most
    if count > most:
        return MalformedMessage(f"it announces {count} values, at most {most} are expected")
    if len(data) != HEADER_BYTES + 8 * count:
        return MalformedMessage(
            f"{len(data) - HEADER_BYTES} bytes follow its header, expected {8 * count}"
        )
    values = np.frombuffer(data, "<f8", count, HEADER_BYTES)
    return WorkerMessage(_KINDS[kind], status, schema, sequence, Tag(ns, step), began, took, values)


_KINDS = {int(k): k for k in WorkerMessageKind}
_MOST_WORDS = 2048


def text_message(
    kind: WorkerMessageKind, schema: int = 0, text: str = "", status: int = 0
) -> bytes:
    words = text.encode()[: 8 * _MOST_WORDS]
    words += bytes(-len(words) % 8)
    head = (MAGIC, VERSION, kind, 0, status, len(words) // 8, schema, 0, -1, 0, 0, 0)
    return _HEADER.pack(*head) + words


def longest(inputs: int, outputs: int, parameters: int) -> int:
    """Return the size (bytes) of the longest message."""
    return HEADER_BYTES + 8 * max(inputs, outputs, parameters)


class MessageWriter:
    """Write messages with at most ``most`` values into one buffer."""

    def __init__(self, most: int, schema: int) -> None:
        self._buffer = bytearray(HEADER_BYTES + 8 * most)
        self._values = np.frombuffer(self._buffer, "<f8", most, HEADER_BYTES)
        self._view = memoryview(self._buffer)
        self._schema = schema

    def message(
        self, kind: WorkerMessageKind, sequence: int, tag: Tag, values: Vector
    ) -> memoryview:
        """Return the bytes of a message, which are valid until the next call."""
        count = len(values)
        _HEADER.pack_into(
            self._buffer, 0, MAGIC, VERSION, kind, 0, 0, count,
            self._schema, sequence, tag.ns, tag.step, 0, 0,
        )  # fmt: skip
        self._values[:count] = values
        return self._view[: HEADER_BYTES + 8 * count]
