"""The emulated Uno: bytes at their cycles, whatever the slices, the same on both emulators."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from emulated_board_parts import BACKENDS, on_each, running, with_simavr

from hitl.boards import BoardError, Edge, Stamped
from hitl.boards.emulated import EmulatedBoard

SECOND = 16_000_000
MS = SECOND // 1000


@dataclass
class Seen:
    """All that a run shows."""

    bytes: list[Stamped]
    edges: list[Edge]
    lost: int


def flown(image: str, backend: str, slices: list[int]) -> Seen:
    """After 1 ms, some bytes and levels in; then ``slices``, in cycles."""
    with running(image, backend) as board:
        board.pins.write("D2", True)
        board.pins.set_volts("A0", 1.234)
        board.send(bytes(range(1, 9)))
        for cycles in slices:
            board.advance(cycles)
        assert board.cycles == MS + sum(slices)
        return Seen(board.take(), board.pins.edges(), board.lost)


@on_each
def test_one_slice_of_a_second_is_a_thousand_of_a_millisecond(backend: str) -> None:
    whole = flown("interrupt_echo", backend, [SECOND])
    assert flown("interrupt_echo", backend, [MS] * 1000) == whole
    assert whole.bytes


@on_each
@pytest.mark.parametrize("image", ["echo_115200", "slow_echo", "interrupt_echo_busy", "pins"])
def test_slices_of_any_size_change_nothing(image: str, backend: str) -> None:
    whole = flown(image, backend, [30_000])
    assert flown(image, backend, [7, 1, 2, 3, 0, 5, 11] * 300 + [21_300]) == whole
    assert whole.bytes


@on_each
def test_inputs_between_slices_come_at_their_cycle(backend: str) -> None:
    def levels(slices: list[int]) -> list[Edge]:
        with running("pins", backend) as board:
            for k, cycles in enumerate(slices):
                if sum(slices[:k]) in (5003, 9001):
                    board.pins.write("D2", sum(slices[:k]) == 5003)
                board.advance(cycles)
            return [edge for edge in board.pins.edges() if edge.pin == "D13"]

    coarse = levels([5003, 3998, 6000])
    assert levels([1, 2, 5000, 1999, 1999, 4, 1000, 4996]) == coarse
    assert [edge.level for edge in coarse] == [True, False]
    for edge, input_at in zip(coarse, (MS + 5003, MS + 9001), strict=True):
        assert 0 <= edge.cycle - input_at < 100


@with_simavr
@pytest.mark.parametrize(
    "image", ["echo_115200", "echo_500000", "slow_echo", "interrupt_echo", "interrupt_echo_busy"]
)
def test_the_two_emulators_send_the_same_bytes_at_the_same_cycles(image: str) -> None:
    ours, theirs = (flown(image, backend, [10 * MS]) for backend in BACKENDS)
    assert ours.bytes == theirs.bytes
    assert len(ours.bytes) >= 5
    assert ours.lost == theirs.lost


@with_simavr
def test_the_two_emulators_measure_the_same_execution_cycles() -> None:
    def timed(backend: str) -> list[Stamped]:
        with running("cycles", backend) as board:
            for work in (0, 1, 48, 100):
                board.send(bytes([work]))
                board.advance(20 * MS)
            return board.take()

    ours, theirs = (timed(backend) for backend in BACKENDS)
    assert ours == theirs
    assert len(ours) == 4 * 7
    fields = [byte.value for byte in ours[14:21]]
    integers, floats, interrupted = (fields[k] | fields[k + 1] << 8 for k in (0, 2, 4))
    assert 48 * 10 < integers < 48 * 40
    assert 48 * 100 < floats < 48 * 1000
    assert fields[6] > 0
    assert interrupted > floats, "the interrupts take their share"


@on_each
@pytest.mark.parametrize(("image", "bit"), [("echo_115200", 136), ("echo_500000", 32)])
def test_a_byte_takes_ten_bit_times_each_way(image: str, bit: int, backend: str) -> None:
    with running(image, backend) as board:
        board.send(b"x" * 50)
        board.advance(10 * MS)
        stamps = [byte.cycle for byte in board.take()]
    assert 0 <= stamps[0] - (MS + 2 * 10 * bit) < bit, "in, then out"
    assert all(b - a in (10 * bit, 10 * bit + 4) for a, b in itertools.pairwise(stamps))
    assert stamps[-1] - stamps[1] == 48 * 10 * bit, "buffered: no gap"


@on_each
def test_a_firmware_that_looks_away_overruns(backend: str) -> None:
    """Of 8 bytes while it is away: 2 in the FIFO, the last in the shift register, the rest gone."""
    with running("slow_echo", backend) as board:
        board.send(bytes(range(1, 9)))
        board.advance(10 * MS)
        assert board.receive() == b"\x01\x02!\x03\x08"
        assert board.lost == 4


@on_each
def test_bytes_before_the_firmware_listens_are_lost(backend: str) -> None:
    with running("echo_500000", backend) as board:
        board.reset()
        board.send(b"a")
        board.advance(MS)
        assert (board.receive(), board.lost) == (b"", 1)
        board.send(b"b")
        board.advance(MS)
        assert board.receive() == b"b"


@on_each
def test_the_other_end_of_the_line_has_a_rate_of_its_own(backend: str) -> None:
    with running("echo_115200", backend, baud=115_200) as board:
        board.send(b"ab")
        board.advance(10 * MS)
        assert (board.receive(), board.garbled) == (b"ab", 0)
        assert board.baud == pytest.approx(117_647, abs=1), "16 MHz / 8 / 17: 2.1 % off"
    with running("echo_115200", backend, baud=500_000) as board:
        board.send(b"ab")
        board.advance(10 * MS)
        got = board.receive()
        assert not {*b"ab", 0} & {*got}, "another byte each, and no delimiter"
        assert board.garbled == len(got) > 0


@on_each
def test_wait_lets_the_board_run_to_its_next_byte(backend: str) -> None:
    with running("echo_500000", backend) as board:
        board.send(b"abc")
        got = b""
        while board.wait(0.001):
            part = board.take()
            assert len(part) == 1
            assert part[0].cycle == board.cycles, "not a cycle further"
            got += bytes([part[0].value])
        assert got == b"abc"
        assert flown("echo_500000", backend, [MS]).bytes[0].cycle == MS + 650


@on_each
def test_reset_keeps_the_ram_and_the_time(backend: str) -> None:
    with running("interrupt_echo", backend) as board:
        board.send(b"abc")
        board.advance(MS)
        before, ram = board.cycles, board.peek(0x100, 0x40)
        assert b"abc" in ram
        board.reset()
        assert (board.cycles, board.peek(0x100, 0x40)) == (before, ram)
        board.receive()
        board.advance(MS)
        board.send(b"d")
        board.advance(MS)
        assert board.receive() == b"d", "the program clears its own variables at its start"


@on_each
def test_more_events_than_one_answer_holds(backend: str) -> None:
    with running("toggle", backend) as board:
        board.advance(20 * MS)
        assert board.cycles == 21 * MS
        edges = board.pins.edges()
    assert len(edges) > 65_536
    assert {b.cycle - a.cycle for a, b in itertools.pairwise(edges)} == {3}
    assert [edge.level for edge in edges[:4]] == [True, False, True, False]


def test_what_makes_no_sense_is_refused() -> None:
    with running("pins", "avr8js") as board:
        with pytest.raises(BoardError, match="the number of cycles must be >= 0"):
            board.advance(-1)
        with pytest.raises(BoardError, match="no pin 'D14'; it has D0 to D13"):
            board.pins.write("D14", True)
        with pytest.raises(BoardError, match="'D2' of an Uno has no ADC channel; A0 to A5"):
            board.pins.set_volts("D2", 1.0)
        with pytest.raises(BoardError, match="take 0 to 5 V"):
            board.pins.set_volts("A0", float("nan"))
        with pytest.raises(BoardError, match="let the board run"):
            board.send(bytes(70_000))


def test_an_emulated_board_is_a_board() -> None:
    from hitl.boards import Board

    def of(board: EmulatedBoard) -> Board:
        return board

    with running("pins", "avr8js") as board:
        assert of(board).clock_hz == SECOND
