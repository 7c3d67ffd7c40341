"""A session with a board, which repeats lost requests and keeps the first error.

The line has the clock that decides whether an answer is late::

    CycleLine     emulated board in lockstep: cycles, which advance only on request
    WallLine      board that runs by itself, in real time: monotonic clock of the host
    └── ModelLine such a board in lockstep: reported execution time plus wire time
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from hitl.boards.contract import Board, BoardError, BoardLink
from hitl.protocol.line import BITS_PER_BYTE, Budget, wire_ns
from hitl.protocol.session import (
    HELLO_EVERY_NS,
    BoardFailure,
    Failed,
    Session,
    SessionState,
    Stepped,
)
from rtsim.components.tasks import FAR
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.tag import NS_PER_S, Tag


class Piece(NamedTuple):
    """Bytes that arrived, and the time ``ns`` at which the last byte arrived."""

    ns: int
    data: bytes


class BoardLine(ABC):
    """The line to a board with a controller. All times are in ns of the line's own clock.

    The default methods are for a board that runs by itself.
    """

    repeat_ns: int
    """Shortest time before a request is repeated, ns."""

    def __init__(self, link: BoardLink) -> None:
        self.send, self.close = link.send, link.close

    @abstractmethod
    def now(self) -> int:
        """Return the time of the line's clock, ns."""

    def reached(self, ns: int) -> bool:
        """Return True if the line's clock has reached ``ns``."""
        return self.now() >= ns

    def zero(self) -> None:  # noqa: B027
        """Set the clock to 0 at the start of the run, if possible."""

    def reach(self, tag: Tag) -> int | None:  # noqa: ARG002
        """Return the time up to which a board in lockstep runs for ``tag``, or ``None``."""
        return None

    def anchor(self, tag: Tag) -> None:  # noqa: B027
        """Set the clock to ``tag``, if possible."""

    @abstractmethod
    def until(self, tag: Tag, allowed_ns: int) -> int:
        """Return the latest time at which the answer to a request may arrive."""

    def in_time(self, modelled_ns: int, allowed_ns: int) -> bool:  # noqa: ARG002
        return True

    @abstractmethod
    def run(self, until_ns: int, rest_ns: int | None) -> list[Piece]:
        """Wait until ``until_ns``, or until bytes arrive; return the bytes.

        ``rest_ns`` is the least time from the first byte to the end of a reply. Within ``rest_ns``,
        the line need not check for bytes. If ``rest_ns`` is ``None``, the wait always lasts until
        ``until_ns``.
        """


class CycleLine(BoardLine):
    """The line to an emulated board in lockstep; 0 ns is the start of the run.

    The board stops at the end of the wait, so that its answers are never late.
    """

    repeat_ns = 2_000_000

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._board, self._hz = board, board.clock_hz
        self._origin = 0

    def now(self) -> int:
        return -(-(self._board.cycles - self._origin) * NS_PER_S // self._hz)

    def reached(self, ns: int) -> bool:
        return self._left(ns) <= 0  # a time between two cycles counts as reached

    def zero(self) -> None:
        self._origin = self._board.cycles

    def reach(self, tag: Tag) -> int | None:
        return tag.ns

    def anchor(self, tag: Tag) -> None:
        self._origin = self._board.cycles - tag.ns * self._hz // NS_PER_S

    def until(self, tag: Tag, allowed_ns: int) -> int:
        return tag.ns + allowed_ns

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
        return self._origin + until_ns * self._hz // NS_PER_S - self._board.cycles


class WallLine(BoardLine):
    """The line to a board in real time."""

    repeat_ns = 10_000_000

    def __init__(self, link: BoardLink) -> None:
        super().__init__(link)
        self._link = link

    def now(self) -> int:
        return stopwatch()

    def until(self, tag: Tag, allowed_ns: int) -> int:  # noqa: ARG002
        return stopwatch() + allowed_ns

    def run(self, until_ns: int, rest_ns: int | None) -> list[Piece]:  # noqa: ARG002
        data = self._link.receive()
        if not data and self._link.wait(max(0, until_ns - stopwatch()) / NS_PER_S):
            data = self._link.receive()
        return [Piece(stopwatch(), data)] if data else []


class ModelLine(WallLine):
    """The line to a board with its own clock, in a simulation that waits for each answer.

    Lateness is decided without the host's clock.
    """

    repeat_ns = 50_000_000

    def __init__(self, link: BoardLink, silence_ns: int) -> None:
        super().__init__(link)
        self._silence_ns = silence_ns

    def until(self, tag: Tag, allowed_ns: int) -> int:  # noqa: ARG002
        return stopwatch() + 2 * self._silence_ns  # the session's timeout ends the wait earlier

    def in_time(self, modelled_ns: int, allowed_ns: int) -> bool:
        return modelled_ns <= allowed_ns


def line_to(link: BoardLink, paced: bool, silence_ns: int) -> BoardLine:
    """Return the line over ``link``.

    ``silence_ns`` is the longest time without an answer (ns).
    """
    if paced:
        return WallLine(link)
    if hasattr(link, "advance"):
        board: Board = link  # type: ignore[assignment]
        return CycleLine(board)
    return ModelLine(link, silence_ns)


def wait_ns(first_ns: int, repeats: int, most_ns: int) -> int:
    """Return the time (ns) until a request is repeated again, after ``repeats`` repetitions."""
    return min(first_ns << repeats, max(first_ns, most_ns))


def as_failure(error: BoardError, before: str = "") -> BoardFailure:
    out = BoardFailure(f"{before}{error}")
    out.environment = error.environment
    return out


class RetryingSession:
    """A session with a board over a line, which repeats requests.

    ``stepped`` is called with each answer and its time. After ``repeat_ns`` without an answer, a
    request is sent again with the same sequence number. A board that has already answered sends the
    same answer again. The time between repetitions doubles up to ``most_ns``, because the board may
    still be computing.
    """

    def __init__(
        self,
        session: Session,
        line: BoardLine,
        repeat_ns: int,
        stepped: Callable[[Stepped, int], None],
    ) -> None:
        self.session, self.line, self.repeat_ns = session, line, repeat_ns
        self.most_ns = FAR
        self.error: ControllerError | None = None
        """The first error, which ends the session."""
        self.repeats = 0
        """Number of repeats of the latest request."""
        self.begun_ns: list[int] = []
        """Start of each copy of the latest request on the line (ns), after its leading zero bytes.
        """
        self._stepped = stepped
        self._byte_ns = self._reply_ns = 0
        self._baud = NS_PER_S
        self._again_ns = FAR
        self._reply_bytes = self._rest = 1

    def expect(self, budget: Budget, baud: int) -> None:
        """Set the expected length of replies from the time budget."""
        self._reply_bytes, self._reply_ns = budget.reply_bytes, budget.reply_ns
        self._byte_ns = BITS_PER_BYTE * NS_PER_S // baud
        self._baud = baud

    def ask(self, now_ns: int) -> None:
        self.repeats, self._again_ns = 0, now_ns + self.repeat_ns
        self._rest = self._reply_bytes
        self.begun_ns.clear()
        try:
            self._speak(self.session.outgoing(), now_ns)
        except BoardError as error:
            self.error = as_failure(error)

    def listen(self, until_ns: int) -> None:
        """Wait for an answer or an error, at most until ``until_ns``."""
        self._pass(until_ns, stop=True)

    def drift(self, until_ns: int) -> None:
        """Wait until ``until_ns`` or an error."""
        self._pass(until_ns, stop=False)

    def _pass(self, until_ns: int, stop: bool) -> None:
        line, session = self.line, self.session
        try:
            while self.error is None and (session.waiting or not stop):
                rest_ns = (self._rest - 1) * self._byte_ns if stop else None
                for ns, data in line.run(min(until_ns, self._next_ns()), rest_ns):
                    self._rest -= len(data)
                    self._again_ns = max(self._again_ns, ns + self._reply_ns)  # a reply is arriving
                    self._hear(data, ns)
                if session.waiting:
                    self._urge()
                if line.reached(until_ns):
                    return
        except BoardError as error:
            self.error = as_failure(error)

    def _next_ns(self) -> int:
        if self.session.state is SessionState.CONNECTING:
            return self.line.now() + HELLO_EVERY_NS
        return self._again_ns if self.session.waiting else FAR

    def _urge(self) -> None:
        session, now = self.session, self.line.now()
        for event in session.poll(now):
            assert isinstance(event, Failed)
            self.error = event.error
            return
        if session.state is SessionState.READY and self.line.reached(self._again_ns):
            session.repeat()
            self.repeats += 1
            self._again_ns = now + wait_ns(self.repeat_ns, self.repeats, self.most_ns)
            self._rest = self._reply_bytes
        if data := session.outgoing():
            self._speak(data, now)

    def _speak(self, data: bytes, now_ns: int) -> None:
        zeros = len(data) - len(data.lstrip(b"\0"))
        self.begun_ns.append(now_ns + wire_ns(zeros, self._baud))
        self.line.send(data)

    def _hear(self, data: bytes, ns: int) -> None:
        for event in self.session.receive(data, ns):
            if isinstance(event, Stepped):
                self._stepped(event, ns)
            elif isinstance(event, Failed) and self.error is None:
                self.error = event.error
