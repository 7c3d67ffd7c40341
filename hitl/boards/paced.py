"""An emulated board in real time, at a serial port for any terminal program.

:class:`PacedLine` runs the board by a clock. In cycles of the board, ``due`` is the time of the
clock, and ``reached`` is the time that the board has reached::

    reached <= due           The line is quiet.  The board is at most one slice behind the clock,
                             so its time never passes the arrival of the next byte.
    reached <= due + AHEAD   An answer is expected.  The answer is computed early, and its bytes are
                             held back until they are due.

:class:`PacedBoard` starts the process that does this, :mod:`hitl.boards.paced_server`.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, Protocol

from hitl.boards.contract import BoardError, BoardGone, Stamped
from hitl.boards.known import DEFAULT_URL
from hitl.boards.urls import parse_url
from hitl.worker.ending import end_process
from rtsim.core.clock import Clock, Wake, stopwatch

SLICE_NS = 500_000
"""Time by which the board trails the clock while the line is quiet."""
AHEAD_NS = 400_000
"""Time by which the board may run ahead of the clock while an answer is expected."""
AHEAD_SLICE_NS = 200_000
"""Length of a slice while an answer is expected."""
MOST_BEHIND_NS = 20_000_000
"""Longest delay that the board can make up. After a longer delay, the board's time slips."""
ON_LINE_NS = 5_000_000
"""Limit of the bytes that the emulator receives in advance, as transmission time. Further bytes are
queued.
"""
BOOT_NS = 2_000_000
"""Time after a reset in which the board receives no bytes, because the UART of booting firmware is
off.
"""
_AWAITED_NS = 50_000_000
"""Time for which an answer is expected. A later answer may begin up to one slice late."""
_LOOK_AT_BAUD_NS = 50_000_000


class Paceable(Protocol):
    """The members of :class:`hitl.boards.emulated.EmulatedBoard` that :class:`PacedLine` uses."""

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
    """The methods of :class:`hitl.boards.paced_server.Terminal` that :class:`PacedLine` calls."""

    def opened(self) -> bool: ...
    def read(self) -> bytes: ...
    def write(self, data: bytes) -> None: ...


@dataclass
class Timing:
    """Comparison of the board's time with the wall clock, in ns."""

    wall_ns: int = 0
    """Time that has passed by the clock."""
    board_ns: int = 0
    """Time that has passed on the board."""
    behind_ns: int = 0
    """Longest delay of the board beyond the slice by which it trails the clock."""
    late_ns: int = 0
    """Longest delay of a byte that the board sent."""
    slips: int = 0
    """Number of times that the board was too far behind to catch up."""
    slipped_ns: int = 0
    """Total of all slips: time that passed for the clock but not for the board."""
    received: int = 0
    """Number of bytes from the host."""
    sent: int = 0
    """Number of bytes from the board."""
    opened: int = 0
    """Number of times that a client opened the port."""

    @property
    def rate(self) -> float:
        """Seconds of the board's time per second; 1.0 if the emulation is fast enough."""
        return self.board_ns / self.wall_ns if self.wall_ns else 1.0

    @property
    def slipped_share(self) -> float:
        """Lost time as a fraction of the wall-clock time; 0.0 if the emulation is fast enough."""
        return self.slipped_ns / self.wall_ns if self.wall_ns else 0.0

    @property
    def in_words(self) -> str:
        return (
            f"{self.rate:.4f} board seconds per second; at most {self.behind_ns / 1e6:.2f} ms "
            f"behind the clock, bytes at most {self.late_ns / 1e6:.2f} ms late; slipped "
            f"{self.slips} times, {self.slipped_ns / 1e6:.1f} ms in total "
            f"({100 * self.slipped_share:.2f} %)"
        )

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "rate": self.rate, "slipped_share": self.slipped_share}


class PacedLine:
    """The serial line between an emulated board and a port, in real time.

    The caller calls :meth:`turn` and :meth:`wait` alternately. The simulated time of ``clock`` is
    the time of the board. ``baud`` is the bit rate of the host (bit/s); ``None`` means the rate of
    the program on the board.
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
        """True if the line can accept bytes from the host."""
        return not self._inbox

    def turn(self) -> None:
        """Run the board for a short time, and transfer bytes between the board and the port."""
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
        self._inbox.clear()
        self._kept.clear()
        self._board.reset()
        self._awaited = True
        self._asked = self._board.cycles
        self._looked = self._board.cycles
        self._booted = self._board.cycles + self._cycles(BOOT_NS)

    def count_anew(self) -> None:
        """Clear the statistics of the timing."""
        self.timing = Timing(opened=self.timing.opened)
        self._began, self._first = self._clock.now(), self._board.cycles

    def wait(self, wake: Wake) -> None:
        """Wait until ``turn`` must be called again, or until ``wake`` is set."""
        ahead, grain = self._manner()
        until = self._board.cycles + grain - ahead
        if self._kept:
            until = min(until, self._kept[0].cycle)
        self._clock.wait_until(self._ns(until) + 1, wake)

    def state(self) -> Timing:
        self.timing.wall_ns = self._clock.now() - self._began
        self.timing.board_ns = self._ns(self._board.cycles - self._first)
        return self.timing

    # -- private methods, with times in cycles

    def _ns(self, cycles: int) -> int:
        return cycles * 1_000_000_000 // self._board.clock_hz

    def _cycles(self, ns: int) -> int:
        return ns * self._board.clock_hz // 1_000_000_000

    def _due(self) -> int:
        return self._cycles(self._clock.simulated(self._clock.now()))

    def _manner(self) -> tuple[int, int]:
        if self._awaited:
            return self._cycles(AHEAD_NS), self._cycles(AHEAD_SLICE_NS)
        return 0, self._cycles(SLICE_NS)

    def _feed(self, due: int) -> None:
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
        behind = self._ns(due - self._board.cycles)
        self.timing.behind_ns = max(self.timing.behind_ns, behind - SLICE_NS)
        if behind <= MOST_BEHIND_NS:
            return due
        self.timing.slips += 1
        self.timing.slipped_ns += behind - SLICE_NS
        self._clock.anchor(self._ns(self._board.cycles) + SLICE_NS)
        return self._due()

    def _advance(self, goal: int) -> None:
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
        if not self._kept or self._kept[0].cycle > due:
            return
        self.timing.late_ns = max(self.timing.late_ns, self._ns(due - self._kept[0].cycle))
        out = bytearray()
        while self._kept and self._kept[0].cycle <= due:
            out.append(self._kept.popleft().value)
        self.timing.sent += len(out)
        self._port.write(bytes(out))

    def _look_at_baud(self) -> None:
        reached = self._board.cycles
        due = reached - self._looked > self._cycles(_LOOK_AT_BAUD_NS)
        if due and self._baud is None and not self._awaited:
            self._looked, self.baud = reached, self._board.baud


POSIX = os.name == "posix"
_PATIENCE_S = 30.0
_GRACE_S = 5.0
_MOST_SAID = 65_536
_MOST_TOLD = 2000


@dataclass(frozen=True)
class Status:
    """State of a served board: its timing, and counts of bytes."""

    timing: Timing
    open: bool
    """True while a client has the port open."""
    baud: float
    """Rate of the line from the URL or from the firmware, bit/s."""
    unread: int
    """Number of bytes from the board that no client read."""
    lost: int
    """Number of bytes that the board's receiver dropped."""
    garbled: int
    """Number of bytes from the board that were sent and received at different rates."""
    restarts: int
    """Number of resets of the board by its own watchdog."""

    def to_json(self) -> dict[str, object]:
        more = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "timing"}
        return {**self.timing.to_json(), **more}


def check_posix() -> None:
    """Raise ``BoardError`` on Windows, where a board cannot be served."""
    if not POSIX:
        raise BoardError(
            "a board in real time needs a pseudo-terminal, and Windows has none; "
            f"use {DEFAULT_URL} in lockstep, or a board at a real port: serial://COM3"
        )


class PacedBoard:
    """An emulated board in real time at a pseudo-terminal, in a separate process.

    The object is a context manager. The port exists until the object is closed or this process
    ends. Opening ``port`` resets the board, as with a real board. Raises :class:`BoardError` if the
    board cannot be served, which is always the case on Windows.

    Args:
        url: URL of an emulated board.
        firmware: Intel HEX file.
        link: Symbolic link to the port, created for the user.
        patience: Longest time to wait for an answer of the process, s.
    """

    def __init__(
        self, url: str, firmware: Path, *, link: Path | None = None, patience: float = _PATIENCE_S
    ) -> None:
        check_posix()
        if not parse_url(url).emulated:
            raise BoardError(
                f"{url} is a real port, but only an emulated board can be served; give "
                f"{DEFAULT_URL}"
            )
        self._patience = patience
        self._over: str | None = None
        self._asking = threading.Lock()
        self._said = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        options = {
            "url": url, "firmware": str(firmware), "parent": os.getpid(),
            "link": None if link is None else str(link),
        }  # fmt: skip
        # Ctrl-C at a terminal must reach this process only, which then ends the server.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hitl.boards.paced_server", json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            process_group=0,
        )  # fmt: skip
        try:
            greeting = self._answer()
            self.port = str(greeting["port"])
            self.emulator = str(greeting["emulator"])
            self.baud = float(greeting["baud"])
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def status(self) -> Status:
        """Return the board's state.

        Raises ``BoardError``, with the reason, if the board has ended.
        """
        with self._asking:
            self._tell(b"status\n")
            answer = self._answer()
        names = {f.name for f in fields(Timing)}
        timing = Timing(**{name: answer[name] for name in names})
        rest = {f.name: answer[f.name] for f in fields(Status) if f.name != "timing"}
        return Status(timing, **rest)

    def reset(self) -> None:
        with self._asking:
            self._tell(b"reset\n")

    def count_anew(self) -> None:
        """Clear the statistics of the timing, and wait until this is done."""
        with self._asking:
            self._tell(b"anew\n")
        self.status()

    def close(self) -> None:
        """End the process, and remove the port and its link."""
        if self._over is None:
            self._over = "the served board is closed"
        end_process(self._process, _GRACE_S)
        self._errors.close()

    def __enter__(self) -> PacedBoard:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _tell(self, words: bytes) -> None:
        if self._over is not None:
            raise BoardError(self._over)
        assert self._process.stdin is not None
        with suppress(OSError):  # the process is gone; its output may give the reason
            self._process.stdin.write(words)
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        end = stopwatch() + int(self._patience * 1e9)
        while b"\n" not in self._said:
            rest = (end - stopwatch()) / 1e9
            if rest <= 0 or len(self._said) > _MOST_SAID:
                self._process.kill()
                self._fail(f"did not answer within {self._patience:g} s and was killed", BoardGone)
            if select.select([source], [], [], rest)[0]:
                part = os.read(source, 4096)
                if not part:
                    self._fail(f"has ended{self._last_words()}")
                self._said += part
        line, _, self._said = self._said.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self._over = str(answer["error"])
            raise BoardError(self._over)
        return answer

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _MOST_TOLD))
        words = self._errors.read().decode("utf-8", "replace").strip()
        return f"; it said:\n{words}" if words else ""

    def _fail(self, what: str, kind: type[BoardError] = BoardError) -> NoReturn:
        self._over = f"the process of the served board {what}"
        raise kind(self._over)
