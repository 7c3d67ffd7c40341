"""The pacing of an emulated board, on a fake clock with a fake board and port: nothing waits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hitl.boards.contract import Stamped
from hitl.boards.paced import (
    AHEAD_NS,
    BOOT_NS,
    MOST_BEHIND_NS,
    ON_LINE_NS,
    SLICE_NS,
    PacedLine,
    Timing,
)
from rtsim.core.clock import Wake
from rtsim.testing.clock import FakeClock

MS = 1_000_000
HZ = 16_000_000
BYTE = 320
"""Cycles, at 500000 baud."""


def cycles(ns: int) -> int:
    return ns * HZ // 1_000_000_000


class Echo:
    """A board that sends back each byte as soon as it has it, and begins with ``first``."""

    clock_hz = HZ

    def __init__(self, clock: FakeClock, cost: float = 0.0, answers: bool = True) -> None:
        self.cycles = 0
        self.baud = 500_000.0
        self.clock, self.cost, self.answers = clock, cost, answers
        self.stamps: list[tuple[int, int]] = []
        """(when it came to the line, when that was) of each part from the host."""
        self.slices: list[int] = []
        self.most_waiting = 0
        self.resets = 0
        self.free = 0
        self.echoes: deque[Stamped] = deque()

    def advance(self, cycles: int) -> None:
        assert cycles > 0
        self.cycles += cycles
        self.slices.append(cycles)
        self.clock.advance(int(cycles * 62.5 * self.cost))

    def send(self, data: bytes, at: int | None = None) -> None:
        assert at is not None
        assert at >= self.cycles, "nothing reaches a board in its past"
        self.stamps.append((at, self.clock.simulated(self.clock.now())))
        for value in data:
            self.free = max(self.free, at) + BYTE
            if self.answers:
                self.echoes.append(Stamped(self.free + BYTE, value))
        self.most_waiting = max(self.most_waiting, self.free - self.cycles)

    def take(self) -> list[Stamped]:
        out = []
        while self.echoes and self.echoes[0].cycle <= self.cycles:
            out.append(self.echoes.popleft())
        return out

    def reset(self) -> None:
        self.resets += 1
        self.echoes.clear()


@dataclass
class FakePort:
    """``inbox`` is what a client wrote; ``out`` what it was sent, with the board's ns then."""

    clock: FakeClock
    inbox: bytearray = field(default_factory=bytearray)
    out: list[tuple[int, bytes]] = field(default_factory=list)
    openings: int = 0

    def opened(self) -> bool:
        if self.openings:
            self.openings -= 1
            return True
        return False

    def read(self) -> bytes:
        data = bytes(self.inbox[:4096])
        del self.inbox[:4096]
        return data

    def write(self, data: bytes) -> None:
        self.out.append((self.clock.simulated(self.clock.now()), data))

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.out)


class Arrived(Wake):
    """Set while the client has written something that is taken now."""

    def __init__(self, port: FakePort) -> None:
        super().__init__()
        self.port = port
        self.line: PacedLine | None = None

    def is_set(self) -> bool:
        assert self.line is not None
        return bool(self.port.inbox) and self.line.hungry


@dataclass
class Bench:
    """Clock, board, port and the line between them."""

    cost: float = 0.0
    answers: bool = True

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.board = Echo(self.clock, self.cost, self.answers)
        self.port = FakePort(self.clock)
        self.wake = Arrived(self.port)
        self.line = self.wake.line = PacedLine(self.board, self.port, self.clock)

    def run(self, ns: int) -> None:
        end = self.clock.now() + ns
        while self.clock.now() < end:
            self.line.turn()
            self.line.wait(self.wake)

    def write_at(self, ns: int, data: bytes) -> None:
        self.clock.call_at(self.clock.now() + ns, lambda: self.port.inbox.extend(data))

    def trails_by(self) -> int:
        due = self.clock.simulated(self.clock.now())
        return due - self.board.cycles * 1_000_000_000 // HZ


def test_a_quiet_board_trails_the_clock_by_a_slice_at_most() -> None:
    bench = Bench()
    for _ in range(40):
        bench.run(MS)
        assert 0 <= bench.trails_by() <= SLICE_NS + 100
    state = bench.line.state()
    assert (state.slips, state.slipped_ns) == (0, 0)
    assert state.behind_ns < 100, "beyond its slice it is behind by the rounding to cycles at most"
    assert 1.0 - 2 * SLICE_NS / (40 * MS) <= state.rate <= 1.0


def test_a_byte_meets_a_quiet_board_at_the_time_it_came() -> None:
    bench = Bench()
    bench.run(3 * MS)
    for k in range(1, 8):
        bench.write_at(k * 9 * MS + k * 77_777, b"x")
    bench.run(80 * MS)
    assert len(bench.board.stamps) == 7
    for at, ns in bench.board.stamps:
        assert at == cycles(ns), "the board had not run past it, and did not have to catch up first"


def test_what_the_board_sends_leaves_when_it_is_due() -> None:
    bench = Bench(cost=0.2)
    bench.write_at(5 * MS, bytes(range(40)))
    bench.run(20 * MS)
    assert bench.port.text == bytes(range(40))
    (came, _), *_ = bench.board.stamps
    last_cycle = came + 41 * BYTE
    left, _ = bench.port.out[-1]
    late = left - last_cycle * 62.5
    assert 0 <= late < 100, "answers are computed ahead, so nothing is left to do when they are due"
    assert bench.line.state().late_ns < MS


def test_no_byte_leaves_before_its_time() -> None:
    bench = Bench(cost=0.3)
    for k in range(30):
        bench.write_at(k * 3 * MS + k * 12_345, bytes([k, 255 - k]))
    bench.run(100 * MS)
    stamps = [at + (2 + j) * BYTE for at, _ in bench.board.stamps for j in range(2)]
    left = [ns for ns, data in bench.port.out for _ in data]
    assert len(left) == len(stamps) == 60
    assert all(ns >= at * 62.5 - 63 for ns, at in zip(left, stamps, strict=True))


def test_who_asks_again_at_once_finds_the_board_ahead_by_its_bound_at_most() -> None:
    bench = Bench()
    bench.run(2 * MS)
    write = bench.port.write

    def again(data: bytes) -> None:
        write(data)
        bench.port.inbox.extend(b"y")

    bench.port.write = again  # type: ignore[method-assign]
    bench.write_at(MS, b"x")
    bench.run(50 * MS)
    assert len(bench.board.stamps) > 30
    assert all(0 <= at - cycles(ns) <= cycles(AHEAD_NS) for at, ns in bench.board.stamps)


def test_an_emulator_slower_than_time_slips_and_says_by_how_much() -> None:
    bench = Bench(cost=2.0)
    bench.run(1000 * MS)
    state = bench.line.state()
    assert 0.45 < state.rate < 0.55
    assert abs(state.rate + state.slipped_share - 1.0) < 0.05
    assert state.slips > 10
    assert MOST_BEHIND_NS < state.behind_ns + SLICE_NS < MOST_BEHIND_NS + 2 * MS


def test_the_timing_begins_anew_when_asked() -> None:
    bench = Bench(cost=2.0)
    bench.run(1000 * MS)
    opened = bench.line.timing.opened
    bench.line.count_anew()
    assert bench.line.state() == Timing(opened=opened)
    bench.run(100 * MS)
    state = bench.line.state()
    assert 0 < state.wall_ns < 200 * MS
    assert 0.3 < state.rate < 0.7


def test_after_a_stall_there_is_no_sprint() -> None:
    bench = Bench()
    bench.run(10 * MS)
    bench.clock.advance(1000 * MS)
    before = bench.board.cycles
    bench.run(2 * MS)
    assert bench.board.cycles - before <= cycles(4 * MS)
    assert max(bench.board.slices) <= cycles(SLICE_NS) + 1
    state = bench.line.state()
    assert state.slips == 1
    assert 999 * MS <= state.slipped_ns <= 1001 * MS
    assert state.behind_ns >= 999 * MS


def test_a_short_stall_is_caught_up_with() -> None:
    bench = Bench(cost=0.3)
    bench.run(10 * MS)
    bench.clock.advance(MOST_BEHIND_NS - MS)
    bench.run(20 * MS)
    assert bench.line.state().slips == 0
    assert bench.trails_by() <= SLICE_NS + 200_000


def test_a_flood_waits_outside_the_emulator_and_arrives_in_order() -> None:
    bench = Bench()
    sent = bytes(k * 7 % 251 for k in range(20_000))
    bench.port.inbox.extend(sent)
    bench.run(500 * MS)
    assert bench.port.text == sent
    assert bench.board.most_waiting <= cycles(ON_LINE_NS + SLICE_NS + AHEAD_NS)
    assert bench.line.state().received == bench.line.state().sent == 20_000


def test_opening_the_port_resets_the_board() -> None:
    bench = Bench()
    bench.run(5 * MS)
    bench.write_at(0, bytes(200))
    bench.run(2 * MS)
    assert bench.trails_by() < 0, "some of its answer is computed already"
    said = bench.port.text
    assert 0 < len(said) < 200
    bench.port.openings = 1
    bench.run(5 * MS)
    assert bench.board.resets == 1
    assert bench.line.state().opened == 1
    assert bench.port.text == said, "what it had still to say is gone"


def test_the_button_resets_it_and_opens_nothing() -> None:
    bench = Bench()
    bench.run(5 * MS)
    bench.line.reset()
    bench.run(5 * MS)
    assert bench.board.resets == 1
    assert bench.line.state().opened == 0


def test_what_is_written_with_the_opening_waits_until_the_board_has_booted() -> None:
    bench = Bench()
    bench.run(5 * MS)
    bench.port.openings = 1
    bench.port.inbox.extend(b"hello")
    before = bench.board.cycles
    bench.run(5 * MS)
    ((at, _),) = bench.board.stamps
    assert at >= before + cycles(BOOT_NS)
    assert bench.port.text == b"hello"


def test_a_board_that_does_not_answer_is_not_computed_ahead_for_ever() -> None:
    bench = Bench(answers=False)
    bench.write_at(MS, b"x")
    bench.run(20 * MS)
    assert bench.trails_by() < 0
    bench.run(100 * MS)
    assert bench.trails_by() >= 0


def test_the_rate_of_the_line_is_the_firmwares_which_may_change_it() -> None:
    bench = Bench()
    bench.run(MS)
    assert bench.line.baud == 500_000
    bench.board.baud = 250_000.0
    bench.run(100 * MS)
    assert bench.line.baud == 250_000
    fixed = PacedLine(bench.board, bench.port, bench.clock, 9600)
    assert fixed.baud == 9600
