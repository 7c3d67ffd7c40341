"""Run an emulated board by a clock, and connect its serial line to a port.

``due`` is the clock's time, and ``reached`` is the time that the board has reached, both in cycles
of the board::

    reached <= due           The line is quiet.  The board is at most one slice behind the clock,
                             so its time never passes the arrival of the next byte.
    reached <= due + AHEAD   An answer is expected.  It is computed early, and its bytes are
                             held back until they are due.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Protocol

from hitl.boards.contract import Stamped
from rtsim.core.clock import Clock, Wake

SLICE_NS = 500_000
"""Time by which the board runs behind the clock while the line is quiet."""
AHEAD_NS = 400_000
"""Time by which the board may run ahead of the clock while an answer is expected."""
AHEAD_SLICE_NS = 200_000
"""Length of a slice while an answer is expected."""
MOST_BEHIND_NS = 20_000_000
"""Longest delay that the board makes up for; after a longer delay the board's time slips."""
ON_LINE_NS = 5_000_000
"""Most bytes that the emulator gets in advance, as transmission time; further bytes are queued."""
BOOT_NS = 2_000_000
"""Time after a reset in which the board gets no bytes: booting firmware has its UART off."""
_AWAITED_NS = 50_000_000
"""Time for which an answer is expected; an answer that begins later may be a slice late."""
_LOOK_AT_BAUD_NS = 50_000_000


class Paceable(Protocol):
    """The members of :class:`hitl.boards.emulated.EmulatedBoard` that a paced line uses."""

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
    """The members of :class:`hitl.boards.paced_terminal.Terminal` that a paced line uses."""

    def opened(self) -> bool: ...
    def read(self) -> bytes: ...
    def write(self, data: bytes) -> None: ...


@dataclass
class Timing:
    """Timing of an emulated board compared with the clock; all times are ns of the clock."""

    wall_ns: int = 0
    """Time that has passed by the clock."""
    board_ns: int = 0
    """Time that has passed on the board."""
    behind_ns: int = 0
    """Longest delay of the board, beyond the slice by which it trails the clock."""
    late_ns: int = 0
    """Longest delay of a byte that the board sent."""
    slips: int = 0
    """Number of times at which the board was too far behind to catch up."""
    slipped_ns: int = 0
    """Sum of all slips: time that passed for the clock but not for the board."""
    received: int = 0
    """Number of bytes from the host."""
    sent: int = 0
    """Number of bytes from the board."""
    opened: int = 0
    """Number of times at which a client opened the port."""

    @property
    def rate(self) -> float:
        """Seconds of the board's time per second of the clock; 1.0 if the board kept up."""
        return self.board_ns / self.wall_ns if self.wall_ns else 1.0

    @property
    def slipped_share(self) -> float:
        """Slipped time as a fraction of the clock's time; 0.0 if the board kept up."""
        return self.slipped_ns / self.wall_ns if self.wall_ns else 0.0

    @property
    def in_words(self) -> str:
        """Text of one sentence that describes the timing."""
        return (
            f"{self.rate:.4f} board seconds per second; at most {self.behind_ns / 1e6:.2f} ms "
            f"behind the clock, bytes at most {self.late_ns / 1e6:.2f} ms late; slipped "
            f"{self.slips} times, {self.slipped_ns / 1e6:.1f} ms in total "
            f"({100 * self.slipped_share:.2f} %)"
        )

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "rate": self.rate, "slipped_share": self.slipped_share}


class PacedLine:
    """The line between a paced board and its port: call ``turn`` and ``wait`` alternately.

    The simulated time of ``clock`` is the board's time.  ``baud`` is the rate of the host's end of
    the line in bit/s; ``None`` means the firmware's rate, which is read repeatedly.
    """

    def __init__(
        self, board: Paceable, port: PacedPort, clock: Clock, baud: int | None = None
    ) -> None:
        self._board, self._port, self._clock, self._baud = board, port, clock, baud
        self.timing = Timing()
        self.count_anew()
        self._inbox = bytearray()
        self._kept: deque[Stamped] = deque()
        self._awaited = False
        self._asked = self._answered = 0
        self._line_free = 0
        self._booted = 0
        self._looked = 0
        self.baud = float(baud or 0) or board.baud
        """Rate of the line, bit/s."""
        clock.anchor(self._ns(board.cycles))

    @property
    def hungry(self) -> bool:
        """True if the line can take bytes that the host writes now."""
        return not self._inbox

    def turn(self) -> None:
        """Run the board one slice towards the clock, and move bytes in both directions."""
        if self._port.opened():  # opening a real board's port resets it by DTR
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
        """Press the board's reset button; bytes in transit are lost."""
        self._inbox.clear()
        self._kept.clear()
        self._board.reset()
        self._awaited = True
        self._asked = self._board.cycles
        self._looked = self._board.cycles
        self._booted = self._board.cycles + self._cycles(BOOT_NS)

    def count_anew(self) -> None:
        """Begin the timing now; only the number of times at which the port was opened is kept."""
        self.timing = Timing(opened=self.timing.opened)
        self._began, self._first = self._clock.now(), self._board.cycles

    def wait(self, wake: Wake) -> None:
        """Wait until the next call of ``turn`` is due, or until ``wake`` is set."""
        ahead, grain = self._manner()
        until = self._board.cycles + grain - ahead
        if self._kept:
            until = min(until, self._kept[0].cycle)
        self._clock.wait_until(self._ns(until) + 1, wake)

    def state(self) -> Timing:
        """Return the timing up to now."""
        self.timing.wall_ns = self._clock.now() - self._began
        self.timing.board_ns = self._ns(self._board.cycles - self._first)
        return self.timing

    # Private methods; their times are in cycles.

    def _ns(self, cycles: int) -> int:
        return cycles * 1_000_000_000 // self._board.clock_hz

    def _cycles(self, ns: int) -> int:
        return ns * self._board.clock_hz // 1_000_000_000

    def _due(self) -> int:
        return self._cycles(self._clock.simulated(self._clock.now()))

    def _manner(self) -> tuple[int, int]:
        """Return how far the board may run ahead of the clock, and the length of a slice."""
        if self._awaited:
            return self._cycles(AHEAD_NS), self._cycles(AHEAD_SLICE_NS)
        return 0, self._cycles(SLICE_NS)

    def _feed(self, due: int) -> None:
        """Put the host's bytes on the line, at most :data:`ON_LINE_NS` of transmission time."""
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
        """Return the cycle that is due by the clock.

        If the board is too far behind, let the board's time slip first.
        """
        behind = self._ns(due - self._board.cycles)
        self.timing.behind_ns = max(self.timing.behind_ns, behind - SLICE_NS)
        if behind <= MOST_BEHIND_NS:
            return due
        self.timing.slips += 1
        self.timing.slipped_ns += behind - SLICE_NS
        self._clock.anchor(self._ns(self._board.cycles) + SLICE_NS)
        return self._due()

    def _advance(self, goal: int) -> None:
        """Run the board for at most one slice, so that a late board still serves its port."""
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
        """Write to the port the bytes that the board has sent by the cycle ``due``."""
        if not self._kept or self._kept[0].cycle > due:
            return
        self.timing.late_ns = max(self.timing.late_ns, self._ns(due - self._kept[0].cycle))
        out = bytearray()
        while self._kept and self._kept[0].cycle <= due:
            out.append(self._kept.popleft().value)
        self.timing.sent += len(out)
        self._port.write(bytes(out))

    def _look_at_baud(self) -> None:
        """Read the firmware's rate again while the line is quiet; this takes as long as a slice."""
        reached = self._board.cycles
        due = reached - self._looked > self._cycles(_LOOK_AT_BAUD_NS)
        if due and self._baud is None and not self._awaited:
            self._looked, self.baud = reached, self._board.baud
