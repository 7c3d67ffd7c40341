"""An emulated board kept in step with a clock, between its serial line and whoever reads it.

::

    .--- due: what the clock says ---.
    reached <= due           quiet: the board trails by a slice at most, so a byte that comes in
                             finds a board whose time is not past it
    reached <= due + AHEAD   an answer is awaited: it is computed before it is due, and its bytes
                             are kept back until they are
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Protocol

from hitl.boards.contract import Stamped
from rtsim.core.clock import Clock, Wake

SLICE_NS = 500_000
"""So far a quiet board trails behind the clock."""
AHEAD_NS = 400_000
"""So far a board runs ahead while an answer is awaited."""
AHEAD_SLICE_NS = 200_000
MOST_BEHIND_NS = 20_000_000
"""What is more than this is not caught up with: time slips instead."""
ON_LINE_NS = 5_000_000
"""Bytes of the host's wait here, not in the emulator, while the line has this much to carry."""
BOOT_NS = 2_000_000
"""After a reset nothing goes on the line: firmware that boots has its UART off."""
_AWAITED_NS = 50_000_000
"""A board that has not begun to answer by then will not, or does not mind a slice."""
_LOOK_AT_BAUD_NS = 50_000_000


class Paceable(Protocol):
    """What of an :class:`hitl.boards.emulated.EmulatedBoard` is used."""

    @property
    def clock_hz(self) -> int: ...
    @property
    def cycles(self) -> int: ...
    @property
    def baud(self) -> float: ...
    def advance(self, cycles: int) -> None: ...
    def send(self, data: bytes, at: int | None = None) -> None: ...
    def take(self) -> list[Stamped]: ...
    def reset(self) -> None: ...


class PacedPort(Protocol):
    """What of a :class:`hitl.boards.paced_terminal.Terminal` is used."""

    def opened(self) -> bool: ...
    def read(self) -> bytes: ...
    def write(self, data: bytes) -> None: ...


@dataclass
class Timing:
    """How the board kept to the clock.  ns are the clock's."""

    wall_ns: int = 0
    board_ns: int = 0
    behind_ns: int = 0
    """Most that it was behind, beyond the slice by which it trails."""
    late_ns: int = 0
    """Most that a byte of the board's left after its time."""
    slips: int = 0
    """Times that it was too far behind to catch up."""
    slipped_ns: int = 0
    """Time that passed for the clock and not for the board, in all slips."""
    received: int = 0
    """Bytes from the host."""
    sent: int = 0
    """Bytes of the board's."""
    opened: int = 0

    @property
    def rate(self) -> float:
        """Board seconds in a second; 1.0 where it kept up."""
        return self.board_ns / self.wall_ns if self.wall_ns else 1.0

    @property
    def slipped_share(self) -> float:
        """Of all time; 0.0 where it kept up."""
        return self.slipped_ns / self.wall_ns if self.wall_ns else 0.0

    @property
    def in_words(self) -> str:
        """How an emulated board kept to the clock."""
        return (
            f"{self.rate:.4f} board seconds a second; at most {self.behind_ns / 1e6:.2f} ms behind "
            f"its slice, bytes at most {self.late_ns / 1e6:.2f} ms late; slipped {self.slips} "
            f"times, {self.slipped_ns / 1e6:.1f} ms in all ({100 * self.slipped_share:.2f} %)"
        )

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "rate": self.rate, "slipped_share": self.slipped_share}


class PacedLine:
    """``turn`` after ``turn``; ``wait`` between them.  The clock's simulated time is the board's.

    ``baud``: of the line's other end; ``None``: the firmware's own, looked up now and then.
    """

    def __init__(
        self, board: Paceable, port: PacedPort, clock: Clock, baud: int | None = None
    ) -> None:
        self._board, self._port, self._clock, self._baud = board, port, clock, baud
        self.timing = Timing()
        self._inbox = bytearray()
        self._kept: deque[Stamped] = deque()
        self._awaited = False
        self._asked = self._answered = 0
        self._line_free = 0
        self._booted = 0
        self._looked = 0
        self.baud = float(baud or 0) or board.baud
        """Of the line, bit/s."""
        self._began = clock.now()
        self._first = board.cycles
        clock.anchor(self._ns(board.cycles))

    @property
    def hungry(self) -> bool:
        """What the host writes now can go on the line."""
        return not self._inbox

    def turn(self) -> None:
        """Let the board catch up with the clock by a slice, and bytes pass in both directions."""
        if self._port.opened():  # as DTR does it where a board is at a port
            self.timing.opened += 1
            self.reset()
        due = self._due()
        if self.hungry:
            data = self._port.read()
            self._inbox += data
            self.timing.received += len(data)
        self._feed(due)
        due = self._not_too_far_behind(due)
        ahead, grain = self._manner()
        if due + ahead - self._board.cycles >= grain:
            self._advance(due + ahead)
        self._release(self._due())
        self._look_at_baud()

    def reset(self) -> None:
        """Press the board's button; what is on its way is lost."""
        self._inbox.clear()
        self._kept.clear()
        self._board.reset()
        self._awaited = True
        self._asked = self._board.cycles
        self._looked = self._board.cycles
        self._booted = self._board.cycles + self._cycles(BOOT_NS)

    def wait(self, wake: Wake) -> None:
        """Until there is something to do, or ``wake``."""
        ahead, grain = self._manner()
        until = self._board.cycles + grain - ahead
        if self._kept:
            until = min(until, self._kept[0].cycle)
        self._clock.wait_until(self._ns(until) + 1, wake)

    def state(self) -> Timing:
        """Up to now."""
        self.timing.wall_ns = self._clock.now() - self._began
        self.timing.board_ns = self._ns(self._board.cycles - self._first)
        return self.timing

    # How it is done; times are cycles.

    def _ns(self, cycles: int) -> int:
        return cycles * 1_000_000_000 // self._board.clock_hz

    def _cycles(self, ns: int) -> int:
        return ns * self._board.clock_hz // 1_000_000_000

    def _due(self) -> int:
        return self._cycles(self._clock.simulated(self._clock.now()))

    def _manner(self) -> tuple[int, int]:
        """How far ahead of the clock, and in what slices."""
        if self._awaited:
            return self._cycles(AHEAD_NS), self._cycles(AHEAD_SLICE_NS)
        return 0, self._cycles(SLICE_NS)

    def _feed(self, due: int) -> None:
        """Bytes of the host's onto the line, as many as it will have carried before long."""
        if not self._inbox:
            return
        at = max(due, self._board.cycles, self._booted)
        byte = self._byte()
        free = max(self._line_free, at)
        room = max(0, at + self._cycles(ON_LINE_NS) - free) // byte
        part = bytes(self._inbox[:room])
        if part:
            del self._inbox[:room]
            self._board.send(part, at)
            self._line_free = free + len(part) * byte
            self._awaited, self._asked = True, self._line_free

    def _byte(self) -> int:
        return max(1, round(10 * self._board.clock_hz / self.baud))

    def _not_too_far_behind(self, due: int) -> int:
        """What is due, once more; time slips where the board could not catch up."""
        behind = self._ns(due - self._board.cycles)
        self.timing.behind_ns = max(self.timing.behind_ns, behind - SLICE_NS)
        if behind <= MOST_BEHIND_NS:
            return due
        self.timing.slips += 1
        self.timing.slipped_ns += behind - SLICE_NS
        self._clock.anchor(self._ns(self._board.cycles) + SLICE_NS)
        return self._due()

    def _advance(self, goal: int) -> None:
        """At most a slice: who is behind looks at the port in between."""
        before = self._board.cycles
        self._board.advance(min(goal - before, self._cycles(SLICE_NS)))
        taken = self._board.take()
        if taken:
            self._kept.extend(taken)
            self._answered = taken[-1].cycle
        reached = self._board.cycles
        since = max(self._asked, self._answered)
        quiet = self._answered > self._asked and reached - since > 2 * self._byte()
        if quiet or reached - since > self._cycles(_AWAITED_NS):
            self._awaited = False

    def _release(self, due: int) -> None:
        """What the board has sent by now."""
        if not self._kept or self._kept[0].cycle > due:
            return
        self.timing.late_ns = max(self.timing.late_ns, self._ns(due - self._kept[0].cycle))
        out = bytearray()
        while self._kept and self._kept[0].cycle <= due:
            out.append(self._kept.popleft().value)
        self.timing.sent += len(out)
        self._port.write(bytes(out))

    def _look_at_baud(self) -> None:
        """Firmware may change its rate; asking takes as long as a slice, so it waits for quiet."""
        reached = self._board.cycles
        due = reached - self._looked > self._cycles(_LOOK_AT_BAUD_NS)
        if due and self._baud is None and not self._awaited:
            self._looked, self.baud = reached, self._board.baud
