"""Messages between rtsim and the process of an emulator.

A message consists of ``u32 length, u8 kind, length bytes``, little-endian. Each request has one
answer.

========== ========================================== =========================================
request body answer ========== ==========================================
========================================= (started) H: text ``rtsim-board 1 NAME VERSION`` L load
the image K A advance u64 cycle, u8 flags, inputs A: u64 cycle reached, events R reset K B baud u32
cycles per byte; 0: firmware's rate K P peek u16 address, u16 length P: the bytes, of data space
========== ========================================== =========================================

The emulator can answer each request with a message E, which contains an error text. With flag 1 of
``advance``, the board stops at the end of its next byte. Inputs and events are records of 12 bytes:
``u64 cycle, u8 kind, u8 which, u16 value``. After 65536 events, the emulator stops early, and rtsim
requests the remaining cycles again.

For an operation on a bus (``hitl.boards.contract.BusOp``), the emulator sends an event and stops.
The value of the event is ``number << 11 | operation << 8 | byte``; ``number`` counts the operations
modulo 32. The answer is an input with the value ``number << 11 | lost << 9 | ack << 8 | byte``. The
operation completes after its duration, when its answer has arrived.

The address in P has 16 bits. For a processor with longer addresses, the emulator maps the necessary
registers to addresses of 16 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from hitl.boards.contract import BoardError, BusOp, BusReply

HEAD = struct.Struct("<IB")
MOST_BODY = 1 << 20
"""Greatest number of bytes in the body of a message, in either direction."""
MOST_EVENTS = 65536
UNTIL_BYTE = 1
_ADVANCE = struct.Struct("<QB")
_CYCLE = struct.Struct("<Q")
_RECORD = struct.Struct("<QBBH")
PEEK = struct.Struct("<HH")
MOST_PINS = 256
MOST_BUSES = 16
_GREETING = ("rtsim-board", "1")


class In(IntEnum):
    """Inputs of the board: a byte, a pin level, millivolts at an ADC channel, or a bus answer."""

    BYTE, LEVEL, VOLTS, BUS = range(4)


class Out(IntEnum):
    """Kinds of event on the board.

    - With ``BYTE``, the board has sent a byte; if the field ``which`` is 1, the byte is damaged.
    - ``EDGE``: a pin has changed.
    - With ``LOST``, the board's receiver has lost a byte.
    - With ``RESTARTED``, the watchdog has reset the board.
    - ``BUS``: an operation on a bus begins.
    """

    BYTE, EDGE, LOST, RESTARTED, BUS = range(5)


@dataclass(frozen=True)
class WireEvent:
    """An event at an emulated board at the cycle ``cycle``."""

    cycle: int
    kind: Out
    which: int
    value: int


@dataclass(frozen=True)
class Input:
    """An input of an emulated board at the cycle ``cycle``."""

    cycle: int
    kind: In
    which: int
    value: int


def frame(kind: str, body: bytes) -> bytes:
    return HEAD.pack(len(body), ord(kind)) + body


def advance(target: int, inputs: Iterable[Input], until_byte: bool) -> bytes:
    """Return a request to run the board to the cycle ``target`` with ``inputs``."""
    head = _ADVANCE.pack(target, UNTIL_BYTE if until_byte else 0)
    return head + b"".join(_RECORD.pack(i.cycle, i.kind, i.which, i.value) for i in inputs)


def advanced(
    body: bytes, start: int, target: int, pins: int = MOST_PINS
) -> tuple[int, list[WireEvent]]:
    """Decode the answer to a request to run the board from ``start`` to ``target``.

    ``pins`` is the number of pins. Returns the reached cycle and the events. Raises
    :class:`BoardError` for an impossible answer.
    """
    if len(body) < _CYCLE.size or (len(body) - _CYCLE.size) % _RECORD.size:
        raise BoardError(
            f"a message of {len(body)} bytes; expected {_CYCLE.size} bytes, plus {_RECORD.size} "
            "bytes for each event"
        )
    (reached,) = _CYCLE.unpack_from(body)
    if not start <= reached <= target:
        raise BoardError(f"the cycle {reached}; expected a cycle from {start} to {target}")
    events, last = [], start
    for cycle, kind, which, value in _RECORD.iter_unpack(body[_CYCLE.size :]):
        most = MOST_BUSES if kind == Out.BUS else pins
        if kind not in Out.__members__.values() or which >= most:
            place = "bus" if kind == Out.BUS else "pin"
            raise BoardError(f"an unknown event of kind {kind} at {place} {which}")
        if kind == Out.BUS:
            bus_operation(value)
            events.append(WireEvent(cycle, Out.BUS, which, value))
            continue
        if value > 255 or (kind == Out.BYTE and not last < cycle <= reached):
            raise BoardError(
                f"the value {value} at cycle {cycle}; expected a value from 0 to 255, at a cycle "
                f"after {last} and not after {reached}"
            )
        last = cycle if kind == Out.BYTE else last
        events.append(WireEvent(cycle, Out(kind), which, value))
    return reached, events


def asked(body: bytes) -> tuple[int, list[Input], bool]:
    """Decode a request to run the board, the result of :func:`advance`."""
    target, flags = _ADVANCE.unpack_from(body)
    rows = _RECORD.iter_unpack(body[_ADVANCE.size :])
    inputs = [Input(cycle, In(kind), which, value) for cycle, kind, which, value in rows]
    return target, inputs, bool(flags & UNTIL_BYTE)


def answered(reached: int, events: Iterable[WireEvent]) -> bytes:
    """Return the answer that :func:`advanced` decodes."""
    records = (_RECORD.pack(e.cycle, e.kind, e.which, e.value) for e in events)
    return _CYCLE.pack(reached) + b"".join(records)


def bus_operation(value: int) -> tuple[int, BusOp, int]:
    """Decode a bus event into number, operation and byte.

    Raises :class:`BoardError` for an unknown operation.
    """
    number, op, byte = value >> 11, value >> 8 & 7, value & 0xFF
    if op >= len(BusOp):
        raise BoardError(f"an unknown operation {op} on a bus")
    return number, BusOp(op), byte


def bus_answer(number: int, reply: BusReply) -> int:
    return number << 11 | int(reply.lost) << 9 | int(reply.ack) << 8 | reply.data & 0xFF


def greeting(body: bytes) -> tuple[str, str]:
    """Return name and version of the emulator from its first message.

    Raises :class:`BoardError` for an unknown greeting.
    """
    words = body.decode("ascii", "replace").split(maxsplit=3)
    if len(words) != 4 or tuple(words[:2]) != _GREETING:
        raise BoardError(f"the greeting {body[:60]!r}; expected {' '.join(_GREETING)} NAME VERSION")
    return words[2], words[3]
