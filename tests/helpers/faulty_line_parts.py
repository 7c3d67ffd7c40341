"""A board that echoes, in Python; a line with faults; a controller that flies over it."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from semantics_parts import U

from hitl.boards.contract import BoardError, BoardLink, Pins, Stamped
from hitl.boards.faulty import FaultyBoard, FaultyLink, faulty
from rtsim.core.errors import ControllerError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.description import fault_of
from rtsim.engine.faults.kind import Present
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.record.events import Event

HZ = 1_000_000
BYTE = 20
"""Cycles in which the board sends a byte."""


class EchoBoard:
    """Echoes each byte ``BYTE`` cycles after it or the one before came; dead after a reset."""

    clock_hz = HZ

    def __init__(self, dead: int = 0) -> None:
        self.cycles = 0
        self.resets: list[int] = []
        self.got: list[tuple[int, int]] = []
        """(cycle, value) of what arrived at the board."""
        self._dead, self._alive = dead, 0
        self._coming: deque[tuple[int, int]] = deque()
        self._there: deque[Stamped] = deque()
        self._closed = False

    @property
    def pins(self) -> Pins:
        raise BoardError("no pins")

    def send(self, data: bytes) -> None:
        self._check()
        for value in data:
            self.got.append((self.cycles, value))
            if self.cycles >= self._alive:
                last = self._coming[-1][0] if self._coming else self.cycles
                self._coming.append((max(last, self.cycles) + BYTE, value))

    def advance(self, cycles: int) -> None:
        self.cycles += cycles
        while self._coming and self._coming[0][0] <= self.cycles:
            self._there.append(Stamped(*self._coming.popleft()))

    def take(self) -> list[Stamped]:
        self._check()
        out = list(self._there)
        self._there.clear()
        return out

    def receive(self) -> bytes:
        return bytes(s.value for s in self.take())

    def wait(self, timeout: float) -> bool:
        self._check()
        if not self._there:
            end = self.cycles + round(timeout * HZ)
            first = self._coming[0][0] if self._coming else end
            self.advance(min(end, first) - self.cycles)
        return bool(self._there)

    def reset(self) -> None:
        self.resets.append(self.cycles)
        self._coming.clear()
        self._alive = self.cycles + self._dead

    def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise BoardError("closed")


class Plain:
    """The same board as a link alone; ``now`` is its clock."""

    def __init__(self, board: EchoBoard) -> None:
        self.board = board
        self.send, self.receive, self.close = self.board.send, self.board.receive, self.board.close
        self.wait = self.board.wait

    def now(self) -> int:
        return self.board.cycles * NS_PER_S // HZ


class Line:
    """A line with faults, outside of any run: its instant is set by hand."""

    def __init__(self, *faults: dict[str, Any], seed: int = 0, plain: bool = False) -> None:
        self.present = Present()
        self.present.ns = 0
        self.events: list[Event] = []
        self.present.event = lambda *a: self.events.append(Event(*a))
        streams = RandomStreams(seed)
        found = [fault_of({"name": "f", **f}) for f in faults]
        activities = [Activity(f, streams.stream(f"fault/{f.name}")) for f in found]
        line = LineFaults(activities, self.present)
        self.board = EchoBoard()
        self.link: Any = faulty(self.board, line)
        if plain:
            far = Plain(self.board)
            self.link = FaultyLink(far, line, far.now)

    def to_ms(self, ms: float) -> None:
        self.present.ns = round(ms * 1_000_000)
        self.advance(round(ms * HZ / 1000) - self.board.cycles)

    def advance(self, cycles: int) -> None:
        if isinstance(self.link, FaultyBoard):
            self.link.advance(cycles)
        else:
            end = self.board.cycles + cycles
            while self.board.cycles < end:
                self.board.advance(1)
                self.link.wait(0.0)

    def echoed(self, data: bytes, ms: float = 100.0) -> bytes:
        """What comes back of ``data`` within ``ms``, taken at the end."""
        self.link.send(data)
        self.to_ms(self.board.cycles * 1000 / HZ + ms)
        back: bytes = self.link.receive()
        return back


class Wired:
    """A controller behind a line: a request is a number and its CRC in hex, and comes back."""

    inputs, outputs, outside, own_time, silence = U, Signals("y [1]"), True, True, 5.0

    def __init__(self, link: Callable[[], BoardLink] = EchoBoard) -> None:
        self._make = link
        self.board: Any = None
        self._got = self._request = b""
        self._zero = 0

    def fresh(self) -> Wired:
        out = Wired(self._make)
        out.board = self._make()
        out.board.advance(12_345)  # a handshake
        out._zero = out.board.cycles
        return out

    def spoil(self, line: LineFaults) -> None:
        self.board = faulty(self.board, line)

    def advance(self, tag: Tag) -> None:
        self.board.advance(max(0, self._zero + tag.ns * HZ // NS_PER_S - self.board.cycles))

    def anchor(self, tag: Tag) -> None:
        pass

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        text = inputs.tobytes().hex().encode()
        self._request = text + b"%08x" % zlib.crc32(text) + b"\0"
        self.board.send(self._request)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        self.advance(Tag(tag.ns + round(patience * NS_PER_S)))
        self._got += self.board.receive()
        *frames, self._got = self._got.split(b"\0")
        for frame in frames:
            if frame[16:] == b"%08x" % zlib.crc32(frame[:16]):
                return np.frombuffer(bytes.fromhex(frame[:16].decode()))
        if patience > 0.05:  # it is long overdue: ask again
            self.board.send(self._request)
        return None

    def close(self) -> None:
        if self.board is not None:
            self.board.close()

    def silent(self, tag: Tag) -> ControllerError:
        return ControllerError(f"nothing came at {tag}")

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:  # noqa: ARG002
        return error
