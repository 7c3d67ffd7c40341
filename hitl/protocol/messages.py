"""Generated from messages.toml by ``python -m hitl.protocol.generate``."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

VERSION = 1
MOST_PAYLOAD = 1024


class MessageKind(IntEnum):
    HELLO = 1
    HELLO_REPLY = 129
    START = 2
    START_REPLY = 130
    STEP = 3
    STEP_REPLY = 131
    PING = 4
    PONG = 132
    STOP = 5
    STOP_REPLY = 133
    RESET = 192
    ERROR = 193


class Why(IntEnum):
    TOO_LONG = 1
    TRUNCATED = 2
    TOO_SHORT = 3
    BAD_CRC = 4


class Code(IntEnum):
    UNKNOWN_KIND = 1
    WRONG_LENGTH = 2
    NOT_STARTED = 3
    OUT_OF_ORDER = 4
    TOO_MANY = 5
    STACK_OVERFLOW = 6


class Hello(NamedTuple):
    """Request for the board's identity; allowed in any state, without changing the state."""

    version: int


class HelloReply(NamedTuple):
    """Identity of the firmware and its controller.  ``boot_nonce`` differs after each reset."""

    version: int
    double_bytes: int
    max_payload: int
    schema: int
    build: int
    clock_hz: int
    boot_nonce: int
    name_hash: int


class Start(NamedTuple):
    """Request to set a piece of the packed parameters.

    ``offset`` is the position of ``values`` in the packed parameters, which have ``total`` bytes.
    After the last piece of the parameters, the board initialises the controller and sets the step
    counter to 0.
    """

    offset: int
    total: int
    values: bytes


class StartReply(NamedTuple):
    """Reply to START.

    ``status`` is 0, or ``1 + k`` if the parameter with the index ``k`` is rejected. ``received`` is
    the number of parameter bytes received so far.
    """

    status: int
    received: int


class StepMessage(NamedTuple):
    """Request for one step of the controller at the given tag."""

    ns: int
    microstep: int
    inputs: bytes


class StepReply(NamedTuple):
    """Reply to STEP.

    ``cycles`` is the execution time of the step.  ``stack`` is the maximum stack use so far, in
    bytes.  ``counter`` is the number of steps since START, including this one.
    """

    status: int
    cycles: int
    stack: int
    counter: int
    outputs: bytes


class Ping(NamedTuple):
    """Request for the board's time.  ``padding`` makes the message as long as PONG."""

    nonce: int
    padding: int


class Pong(NamedTuple):
    """Reply to PING; ``micros`` is the board's micros() at the end of the PING."""

    nonce: int
    micros: int


class Stop(NamedTuple):
    """Request to terminate the controller."""


class StopReply(NamedTuple):
    """Reply to STOP: ``counter`` is the number of steps since START."""

    counter: int


class Reset(NamedTuple):
    """Message that a board sends once after each reset, without a request.

    A zero byte precedes the frame. The sequence number of the frame is 0. ``cause`` contains the
    processor's reset register.
    """

    boot_nonce: int
    cause: int


class Error(NamedTuple):
    """Reply to a rejected request, with the sequence of the request."""

    code: int
    detail: int


Message = (
    Hello
    | HelloReply
    | Start
    | StartReply
    | StepMessage
    | StepReply
    | Ping
    | Pong
    | Stop
    | StopReply
    | Reset
    | Error
)
KINDS: dict[type[Message], MessageKind] = {
    Hello: MessageKind.HELLO,
    HelloReply: MessageKind.HELLO_REPLY,
    Start: MessageKind.START,
    StartReply: MessageKind.START_REPLY,
    StepMessage: MessageKind.STEP,
    StepReply: MessageKind.STEP_REPLY,
    Ping: MessageKind.PING,
    Pong: MessageKind.PONG,
    Stop: MessageKind.STOP,
    StopReply: MessageKind.STOP_REPLY,
    Reset: MessageKind.RESET,
    Error: MessageKind.ERROR,
}
LAYOUTS: dict[int, tuple[Callable[..., Message], struct.Struct, bool]] = {
    1: (Hello, struct.Struct("<B"), False),
    129: (HelloReply, struct.Struct("<BBHQIIII"), False),
    2: (Start, struct.Struct("<HH"), True),
    130: (StartReply, struct.Struct("<hH"), False),
    3: (StepMessage, struct.Struct("<QH"), True),
    131: (StepReply, struct.Struct("<hIHI"), True),
    4: (Ping, struct.Struct("<II"), False),
    132: (Pong, struct.Struct("<II"), False),
    5: (Stop, struct.Struct("<"), False),
    133: (StopReply, struct.Struct("<I"), False),
    192: (Reset, struct.Struct("<IB"), False),
    193: (Error, struct.Struct("<BH"), False),
}
