"""The line to a board and the time that counts on it.

::

    CycleLine     an emulated board in lockstep: its cycles, which pass when they are asked for
    WallLine      whatever runs by itself: the host's monotonic clock
    └── ModelLine the same in lockstep: the step as the board measured it, and the bytes on the wire
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hitl.boards.contract import Board, BoardLink
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S, Tag


class Piece(NamedTuple):
    """Bytes that arrived; ``ns`` is when the last of them was complete."""

    ns: int
    data: bytes


class BoardLine(Protocol):
    """What a controller on a board needs of its line; ns of the time that counts there."""

    repeat_ns: int
    """The least time before a request is sent again."""

    def now(self) -> int: ...

    def reached(self, ns: int) -> bool:
        """Whether it is ``ns``, as near as this line's time is divided."""
        ...

    def zero(self) -> None:
        """The run begins: it is 0 ns now, where that is for this side to say."""
        ...

    def reach(self, tag: Tag) -> int | None:
        """How far time has to pass up to ``tag``; ``None`` where it passes by itself."""
        ...

    def anchor(self, tag: Tag) -> None:
        """It is ``tag`` now."""
        ...

    def until(self, tag: Tag, allowed_ns: int) -> int:
        """When to stop waiting for the answer to ``tag``."""
        ...

    def in_time(self, modelled_ns: int, allowed_ns: int) -> bool:
        """Whether an answer that is there would have been; ``modelled_ns``: what it cost."""
        ...

    def send(self, data: bytes) -> None: ...

    def run(self, until_ns: int, rest_ns: int | None) -> list[Piece]:
        """What arrives up to ``until_ns``, or up to the first of it.

        ``rest_ns``: what comes after a first byte takes so long at least, and may be waited for at
        once.  ``None``: do not stop at what arrives.
        """
        ...

    def close(self) -> None: ...


class CycleLine:
    """A board in lockstep.  0 ns is the cycle at which the run began, or was anchored."""

    repeat_ns = 2_000_000

    def __init__(self, board: Board) -> None:
        self._board, self._hz = board, board.clock_hz
        self._origin = 0
        self.send, self.close = board.send, board.close

    def now(self) -> int:
        return -(-(self._board.cycles - self._origin) * NS_PER_S // self._hz)

    def reached(self, ns: int) -> bool:
        return self._left(ns) <= 0  # between two cycles there is no later one to wait for

    def zero(self) -> None:
        self._origin = self._board.cycles

    def reach(self, tag: Tag) -> int | None:
        return tag.ns

    def anchor(self, tag: Tag) -> None:
        self._origin = self._board.cycles - tag.ns * self._hz // NS_PER_S

    def until(self, tag: Tag, allowed_ns: int) -> int:
        return tag.ns + allowed_ns

    def in_time(self, modelled_ns: int, allowed_ns: int) -> bool:  # noqa: ARG002
        return True  # it ran up to there and no further

    def run(self, until_ns: int, rest_ns: int | None) -> list[Piece]:
        board = self._board
        left = self._left(until_ns)
        if left > 0:
            if rest_ns is None:
                board.advance(left)
            elif board.wait(left / self._hz) and rest_ns > 0:
                rest = rest_ns * self._hz // NS_PER_S
                board.advance(max(0, min(self._left(until_ns), rest)))
        stamped = board.take()
        data = bytes([s.value for s in stamped])
        pieces, at = [], 0
        while at < len(data):
            end = data.find(0, at) + 1 or len(data)
            cycle = stamped[end - 1].cycle - self._origin
            pieces.append(Piece(-(-cycle * NS_PER_S // self._hz), data[at:end]))
            at = end
        return pieces

    def _left(self, until_ns: int) -> int:
        """Cycles up to there."""
        return self._origin + until_ns * self._hz // NS_PER_S - self._board.cycles


class WallLine:
    """A board that runs by itself, in real time."""

    repeat_ns = 10_000_000

    def __init__(self, link: BoardLink) -> None:
        self._link = link
        self.now = stopwatch
        self.send, self.close = link.send, link.close

    def reached(self, ns: int) -> bool:
        return stopwatch() >= ns

    def zero(self) -> None:
        pass

    def reach(self, tag: Tag) -> int | None:  # noqa: ARG002
        return None

    def anchor(self, tag: Tag) -> None:
        pass

    def until(self, tag: Tag, allowed_ns: int) -> int:  # noqa: ARG002
        return stopwatch() + allowed_ns

    def in_time(self, modelled_ns: int, allowed_ns: int) -> bool:  # noqa: ARG002
        return True

    def run(self, until_ns: int, rest_ns: int | None) -> list[Piece]:  # noqa: ARG002
        data = self._link.receive()
        if not data and self._link.wait(max(0, until_ns - stopwatch()) / NS_PER_S):
            data = self._link.receive()
        return [Piece(stopwatch(), data)] if data else []


class ModelLine(WallLine):
    """A board that runs by itself, in lockstep: how long the host waits is not what counts."""

    repeat_ns = 50_000_000

    def __init__(self, link: BoardLink, silence_ns: int) -> None:
        super().__init__(link)
        self._silence_ns = silence_ns

    def until(self, tag: Tag, allowed_ns: int) -> int:  # noqa: ARG002
        return stopwatch() + 2 * self._silence_ns  # the session's patience ends before that

    def in_time(self, modelled_ns: int, allowed_ns: int) -> bool:
        return modelled_ns <= allowed_ns


def line_to(link: BoardLink, paced: bool, silence_ns: int) -> BoardLine:
    """The line over ``link``: an emulated board keeps lockstep by its cycles."""
    if paced:
        return WallLine(link)
    if hasattr(link, "advance"):
        board: Board = link  # type: ignore[assignment]
        return CycleLine(board)
    return ModelLine(link, silence_ns)
