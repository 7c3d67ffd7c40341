"""What is said to an emulator's process and what it says, as bytes; no I/O.

A frame is ``u32 length, u8 kind, length bytes``, little-endian, in both directions; each request
has one answer.

==========  ==========================================  =========================================
request     body                                        answer
==========  ==========================================  =========================================
(started)                                               H: text ``rtsim-board 1 NAME VERSION``
L load      the image                                   K
A advance   u64 cycle, u8 flags, inputs                 A: u64 cycle reached, events
R reset                                                 K
B baud      u32 cycles of a byte, 0: the firmware's     K
P peek      u16 address, u16 length                     P: the bytes, of data space
==========  ==========================================  =========================================

Any request may be answered by E, a text: what was wrong.  Flag 1 of advance stops it at the end of
the next byte sent.  Inputs and events are records of 12 bytes: ``u64 cycle, u8 kind, u8 which, u16
value``.  An answer may stop early, after 65536 events, and the rest is asked for again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from hitl.boards.contract import BoardError

HEAD = struct.Struct("<IB")
MOST_BODY = 1 << 20
"""No frame is longer, in either direction."""
MOST_EVENTS = 65536
UNTIL_BYTE = 1
_ADVANCE = struct.Struct("<QB")
_CYCLE = struct.Struct("<Q")
_RECORD = struct.Struct("<QBBH")
_PINS = 24
_GREETING = ("rtsim-board", "1")


class In(IntEnum):
    """Kinds of input: a byte, a level at a pin, millivolts at an ADC channel."""

    BYTE, LEVEL, VOLTS = range(3)


class Out(IntEnum):
    """Kinds of event: a byte sent (``which`` 1: garbled), an edge, a byte lost, a reset."""

    BYTE, EDGE, LOST, RESTARTED = range(4)


@dataclass(frozen=True)
class WireEvent:
    """What happened at ``cycle``."""

    cycle: int
    kind: Out
    which: int
    value: int


@dataclass(frozen=True)
class Input:
    """What reaches the board at ``cycle``."""

    cycle: int
    kind: In
    which: int
    value: int


def frame(kind: str, body: bytes) -> bytes:
    """One message."""
    return HEAD.pack(len(body), ord(kind)) + body


def advance(target: int, inputs: Iterable[Input], until_byte: bool) -> bytes:
    """The body of A."""
    head = _ADVANCE.pack(target, UNTIL_BYTE if until_byte else 0)
    return head + b"".join(_RECORD.pack(i.cycle, i.kind, i.which, i.value) for i in inputs)


def advanced(body: bytes, start: int, target: int) -> tuple[int, list[WireEvent]]:
    """The cycle reached and the events of an answer A to ``advance(target)`` from ``start``.

    Raises :class:`BoardError` where it cannot be true.
    """
    if len(body) < _CYCLE.size or (len(body) - _CYCLE.size) % _RECORD.size:
        raise BoardError(f"an answer of {len(body)} bytes")
    (reached,) = _CYCLE.unpack_from(body)
    if not start <= reached <= target:
        raise BoardError(f"cycle {reached}, but it was to run from {start} to {target}")
    events, last = [], start
    for cycle, kind, which, value in _RECORD.iter_unpack(body[_CYCLE.size :]):
        if kind not in Out.__members__.values() or which >= _PINS:
            raise BoardError(f"an event of kind {kind} at {which}")
        if value > 255 or (kind == Out.BYTE and not last < cycle <= reached):
            raise BoardError(f"a byte {value} at cycle {cycle}, between {last} and {reached}")
        last = cycle if kind == Out.BYTE else last
        events.append(WireEvent(cycle, Out(kind), which, value))
    return reached, events


def greeting(body: bytes) -> tuple[str, str]:
    """Name and version of the emulator, from H."""
    words = body.decode("ascii", "replace").split(maxsplit=3)
    if len(words) != 4 or tuple(words[:2]) != _GREETING:
        raise BoardError(f"the greeting {body[:60]!r}; expected {' '.join(_GREETING)} NAME VERSION")
    return words[2], words[3]
