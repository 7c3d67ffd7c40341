"""What tests of the link commands share: a board in Python, in lockstep or behind a terminal."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from protocol_parts import F16, FakeBoard

from rtsim.core.clock import stopwatch

HZ = 16_000_000
BYTE = 320
"""Cycles, at 500000 baud."""
WORK = 1600
"""Cycles that the board takes to answer."""


@dataclass
class LockstepBoard:
    """A link to a :class:`FakeBoard` whose time are cycles; answers take wire time and WORK.

    ``spoil(k, answer)`` gives what arrives in the place of the k-th answer.
    """

    board: FakeBoard = field(default_factory=lambda: FakeBoard(F16))
    drift: float = 0.0
    began_us: int = 0
    clock_hz: int = HZ
    cycles: int = 0

    def __post_init__(self) -> None:
        self.answers = 0
        self.coming: list[tuple[int, bytes]] = []
        self.arrived = b""

    def spoil(self, k: int, answer: bytes) -> bytes:  # noqa: ARG002
        return answer

    def send(self, data: bytes) -> None:
        heard = self.cycles + len(data) * BYTE
        self.board.micros = (self.began_us + int(heard / 16 * (1 + self.drift))) // 4 * 4 % 2**32
        answer = self.board.feed(data)
        if answer:
            self.answers += 1
            answer = self.spoil(self.answers, answer)
            self.coming.append((heard + WORK + len(answer) * BYTE, answer))

    def receive(self) -> bytes:
        data, self.arrived = self.arrived, b""
        return data

    def wait(self, timeout: float) -> bool:
        end = self.cycles + round(timeout * HZ)
        self.coming.sort()
        if self.coming and self.coming[0][0] <= end:
            self.cycles, data = self.coming.pop(0)
            self.arrived += data
            return True
        self.cycles = end
        return False

    def close(self) -> None:
        pass


@contextmanager
def board_at_a_terminal(board: FakeBoard) -> Iterator[str]:
    """The name of a port at which ``board`` answers."""
    near, far = os.openpty()
    tty.setraw(far)

    def answer() -> None:
        while True:
            try:
                data = os.read(near, 4096)
                board.micros = stopwatch() // 4000 * 4 % 2**32
                os.write(near, board.feed(data))
            except OSError:  # nobody has the other end open any more
                return

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield os.ttyname(far)
    finally:
        os.close(far)
        thread.join()
        os.close(near)
