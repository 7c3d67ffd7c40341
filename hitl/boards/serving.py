"""Serve an emulator that is written in Python, in a process of its own.

:mod:`hitl.boards.wire` defines the messages. ``serve`` reads requests from stdin, and writes
answers to stdout.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

from hitl.boards import wire
from hitl.boards.wire import Input, WireEvent


class Emulation(Protocol):
    """A board after a reset, which runs only at a request."""

    def load(self, image: bytes) -> None:
        """Write ``image`` into the flash, and reset the board with an empty RAM."""

    def reset(self) -> None:
        """Reset the board; the RAM keeps its contents."""

    def host_byte(self, cycles: int) -> None:
        """Set the duration of a byte from the host; 0 for the rate of the firmware."""

    def advance(
        self, target: int, inputs: list[Input], until_byte: bool
    ) -> tuple[int, list[WireEvent]]:
        """Run to the cycle ``target``, or to the end of the next byte.

        Returns the cycle reached and all events up to this cycle.
        """

    def peek(self, address: int, length: int) -> bytes:
        """Return the registers at a 16-bit address, without any effect on the board."""


def serve(name: str, version: str, board: Emulation) -> None:
    """Answer requests until stdin ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # the pipe carries only messages

    def reply(kind: str, body: bytes = b"") -> None:
        sink.write(wire.frame(kind, body))
        sink.flush()

    reply("H", f"rtsim-board 1 {name} {version}".encode())
    while len(head := source.read(wire.HEAD.size)) == wire.HEAD.size:
        length, kind = wire.HEAD.unpack(head)
        if length > wire.MOST_BODY or len(body := source.read(length)) < length:
            return
        try:
            reply(*_answer(board, chr(kind), body))
        except Exception as error:  # of any kind: the other end reports it
            reply("E", f"{error}"[:500].encode())


def _answer(board: Emulation, kind: str, body: bytes) -> tuple[str, bytes]:
    if kind == "A":
        reached, events = board.advance(*wire.asked(body))
        return "A", wire.answered(reached, events)
    if kind == "P":
        return "P", board.peek(*wire.PEEK.unpack(body))
    if kind == "L":
        board.load(body)
    elif kind == "B":
        board.host_byte(int.from_bytes(body, "little"))
    elif kind == "R":
        board.reset()
    else:
        raise ValueError(f"no request {kind!r}")
    return "K", b""
