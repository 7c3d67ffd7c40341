"""Inject faults into the bytes between a board and this process.

A fault changes single bytes while they are on the line. For an emulated board, the time is counted
in cycles; for any other board, it is wall-clock time. The result does not depend on when
``advance`` and ``wait`` are called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from hitl.boards.contract import Board, BoardError, BoardLink, Stamped
from hitl.boards.known import DEFAULT_URL
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.engine.faults.activity import FAR_NS, Activity
from rtsim.engine.faults.line_kinds import BoardFault, LineFaults, Timed, faults_at


def faulty(link: BoardLink, line: LineFaults) -> FaultyLink:
    """Return ``link`` with the faults of ``line``.

    For a ``hitl.boards.contract.Board``, the result is also a board. Raises :class:`BoardError` if
    a fault resets the board and ``link`` has no ``reset``.
    """
    if hasattr(link, "advance"):
        return FaultyBoard(link, line)  # type: ignore[arg-type]
    return FaultyLink(link, line)


class FaultyLink:
    """A ``hitl.boards.contract.BoardLink`` with faults on the line.

    Faults have no effect before the start of the run. ``now`` returns the link's time (ns). Raises
    ``BoardError`` for a reset of the board if ``link`` has no method ``reset``.
    """

    rate = NS_PER_S
    """Ticks per second of the link's own time."""

    def __init__(
        self, link: BoardLink, line: LineFaults, now: Callable[[], int] = stopwatch
    ) -> None:
        self.reset_by = ""
        """Name and time of the latest fault that reset the board, or ""."""
        self._link: Any = link
        self._line = line
        self._now = now
        self._origin: int | None = None
        self._out: deque[Timed] = deque()
        self._in: deque[Timed] = deque()
        # Bytes are sent at a tag. A time rounded to cycles could precede a fault at this tag.
        self._to_board = faults_at("to_board", line, lambda _: line.now_ns, self.rate)
        self._from_board = faults_at("from_board", line, self.ns_at, self.rate)
        resets = line.at("board")
        for activity in resets:
            needs = _at_board(activity).needs
            if not hasattr(link, needs):
                raise BoardError(
                    f"fault {activity.fault.name}: this fault must {needs} the board, but the "
                    "host cannot do that over this serial line; use the emulated board "
                    f"{DEFAULT_URL}, or remove the fault"
                )
        self._by_request = [a for a in resets if _by_request(a)]
        self._by_time = [a for a in resets if not _by_request(a)]
        self._reset_ns = min((a.next_edge(-1) for a in self._by_time), default=FAR_NS)

    def send(self, data: bytes) -> None:
        if not self._running():
            self._link.send(data)
            return
        self._due()
        now = self.ticks
        for activity in self._by_request if data else ():
            self._reset(activity, self._line.now_ns)
        timed = [(now, value) for value in data]
        for fault in self._to_board:
            timed = fault.take(timed)
        self._out.extend(timed)
        self._hand_over()

    def receive(self) -> bytes:
        return bytes(value for _, value in self._arrived())

    def wait(self, timeout: float) -> bool:
        if not self._running():
            self._pull()
            return bool(self._in) or bool(self._link.wait(timeout))
        end = self.ticks + max(0, round(timeout * self.rate))
        while True:
            self._due()
            self._pull()
            now = self.ticks
            if self._in and self._in[0][0] <= now:
                return True
            if now >= end:
                return False
            stop = min(end, self._next_stop(), self._in[0][0] if self._in else end)
            self._link.wait((stop - now) / self.rate)

    def close(self) -> None:
        self._link.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    # -- time ------------------------------------------------------------------------------------

    @property
    def ticks(self) -> int:
        return self._now()

    def ns_at(self, ticks: int) -> int:
        """Convert the link's own time to ns since the start of the run."""
        assert self._origin is not None
        return (ticks - self._origin) * NS_PER_S // self.rate

    def _ticks_at(self, ns: int) -> int:
        assert self._origin is not None
        return self._origin - (-ns * self.rate // NS_PER_S)

    def _running(self) -> bool:
        if self._origin is None and self._line.now_ns >= 0:
            self._origin = self._begun_at()
        return self._origin is not None

    def _begun_at(self) -> int:
        return self.ticks - self._line.now_ns

    def _next_stop(self) -> int:
        stops = [self._out[0][0]] if self._out else []
        if self._reset_ns < FAR_NS:
            stops.append(self._ticks_at(self._reset_ns))
        return min(stops, default=FAR_NS)

    # -- actions of faults -------------------------------------------------------------------------

    def _due(self) -> None:
        ns = self.ns_at(self.ticks)
        if ns >= self._reset_ns:
            for activity in self._by_time:
                self._reset(activity, ns)
            self._reset_ns = min((a.next_edge(ns) for a in self._by_time), default=FAR_NS)
        self._hand_over()

    def _reset(self, activity: Activity, ns: int) -> None:
        if activity.strikes(ns):
            kind = _at_board(activity)
            self._line.began(activity, ns, f"the board {kind.does}", {"at": ns / NS_PER_S})
            kind.strike(self._link)
            self.reset_by = f"fault {activity.fault.name!r} at {ns / NS_PER_S:g} s"

    def _hand_over(self) -> None:
        now, data = self.ticks, bytearray()
        while self._out and self._out[0][0] <= now:
            data.append(self._out.popleft()[1])
        if data:
            self._link.send(bytes(data))

    def _pull(self) -> None:
        running = self._running()
        timed = self._taken()
        for fault in self._from_board if running else ():
            timed = fault.take(timed)
        self._in.extend(timed)

    def _taken(self) -> list[Timed]:
        now = self.ticks
        return [(now, value) for value in self._link.receive()]

    def _arrived(self) -> list[Timed]:
        if self._running():
            self._due()
        self._pull()
        now, out = self.ticks, []
        while self._in and self._in[0][0] <= now:
            out.append(self._in.popleft())
        return out


class FaultyBoard(FaultyLink):
    """A ``hitl.boards.contract.Board`` with faults on the line, timed in cycles."""

    def __init__(self, board: Board, line: LineFaults) -> None:
        self._board = board
        self.rate = board.clock_hz
        super().__init__(board, line)

    @property
    def ticks(self) -> int:
        return self._board.cycles

    def _begun_at(self) -> int:
        # No cycle passes between the handshake and the first request, so the present cycle is 0 s.
        return self._board.cycles

    def advance(self, cycles: int) -> None:
        if not self._running():
            self._board.advance(cycles)
            return
        end = self._board.cycles + cycles
        while True:
            self._due()
            now = self._board.cycles
            stop = min(end, self._next_stop())
            self._board.advance(stop - now)
            if stop == end:
                self._due()
                return

    def take(self) -> list[Stamped]:
        return [Stamped(cycle, value) for cycle, value in self._arrived()]

    def _taken(self) -> list[Timed]:
        return [(stamped.cycle, stamped.value) for stamped in self._board.take()]


def _at_board(activity: Activity) -> type[BoardFault]:
    kind = activity.fault.kind
    assert issubclass(kind, BoardFault), f"{kind.name} is not at a board: check_where refused it"
    return kind


def _by_request(activity: Activity) -> bool:
    return activity.fault.probability is not None or activity.fault.when is not None
