"""The emulated Uno: bytes at their cycles, whatever the slices, the same on both emulators.

Pins of the emulated Uno: levels, edges, ADC, PWM.

An emulator that dies, hangs or lies is one clear error, and leaves no process behind.
"""

from __future__ import annotations

import itertools
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from emulated_board_parts import BACKENDS, IMAGES, need, on_each, running, with_simavr

from hitl.boards import BoardError, Edge, Pwm, Stamped, avr, emulators
from hitl.boards.contract import BoardGone
from hitl.boards.emulated import EmulatedBoard
from rtsim.core.clock import stopwatch

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


@pytest.mark.sample(2)
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


PIN_MS = 16_000


def registers(**values: int) -> bytes:
    """The timers' registers, by name, all others 0."""
    places = {
        "TCCR0A": 0x44, "TCCR0B": 0x45, "OCR0A": 0x47, "OCR0B": 0x48, "TCCR1A": 0x80,
        "TCCR1B": 0x81, "ICR1L": 0x86, "ICR1H": 0x87, "OCR1AL": 0x88, "OCR1AH": 0x89,
        "OCR1BL": 0x8A, "TCCR2A": 0xB0, "TCCR2B": 0xB1, "OCR2A": 0xB3, "OCR2B": 0xB4,
    }  # fmt: skip
    start, length = avr.UNO_REGISTERS
    data = bytearray(length)
    for name, value in values.items():
        data[places[name] - start] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("pin", "values", "expected"),
    [  # analogWrite(pin, 128) of the Arduino core, and modes of the data sheet's tables
        ("D6", {"TCCR0A": 0x83, "TCCR0B": 3, "OCR0A": 128}, Pwm(129 / 256, 16e6 / 64 / 256)),
        ("D9", {"TCCR1A": 0x81, "TCCR1B": 3, "OCR1AL": 128}, Pwm(256 / 510, 16e6 / 64 / 510)),
        ("D3", {"TCCR2A": 0x21, "TCCR2B": 4, "OCR2B": 128}, Pwm(256 / 510, 16e6 / 64 / 510)),
        ("D9", {"TCCR1A": 0x82, "TCCR1B": 0x1A, "ICR1L": 0x3F, "ICR1H": 0x9C, "OCR1AH": 7,
                "OCR1AL": 0xCF}, Pwm(2000 / 40_000, 50.0)),
        ("D5", {"TCCR0A": 0x23, "TCCR0B": 0x09, "OCR0A": 99, "OCR0B": 24}, Pwm(0.25, 160e3)),
        ("D6", {"TCCR0A": 0xC3, "TCCR0B": 1, "OCR0A": 63}, Pwm(0.75, 62_500.0)),
        ("D6", {"TCCR0A": 0x83, "TCCR0B": 0, "OCR0A": 63}, None),
        ("D6", {"TCCR0A": 0x03, "TCCR0B": 1, "OCR0A": 63}, None),
        ("D6", {"TCCR0A": 0x82, "TCCR0B": 1, "OCR0A": 63}, None),
        ("D2", {}, None),
    ],
)  # fmt: skip
def test_pwm_is_what_the_timer_makes(
    pin: str, values: dict[str, int], expected: Pwm | None
) -> None:
    found = avr.uno_pwm(pin, registers(**values))
    if expected is None or found is None:
        assert found == expected
    else:
        assert found.duty == pytest.approx(expected.duty)
        assert found.frequency == pytest.approx(expected.frequency)


@on_each
def test_the_board_drives_and_reads_its_pins(backend: str) -> None:
    with running("pins", backend) as board:
        assert board.pins.read("D13") is False
        board.pins.write("D2", True)
        board.advance(PIN_MS)
        assert board.pins.read("D13") is True
        board.reset()
        assert board.pins.read("D13") is False
        board.advance(PIN_MS)
        assert board.pins.read("D13") is True, "what drives a pin from outside stays"
        edges = board.pins.edges()
        assert {edge.pin for edge in edges} == {"D12", "D13"}, "timers' edges are not among them"
        toggles = [edge for edge in edges if edge.pin == "D12"][2:14]
        gaps = [b.cycle - a.cycle for a, b in itertools.pairwise(toggles)]
        assert sum(gaps) == pytest.approx(11_000, abs=40), "a poll finds it some cycles later"


@on_each
def test_pwm_and_adc_of_a_running_program(backend: str) -> None:
    with running("pins", backend) as board:
        assert board.pins.pwm("D6") == Pwm(0.25, 16e6 / 64 / 256)
        assert board.pins.pwm("D3") == Pwm(0.2, 16e6 / 64 / 510)
        assert board.pins.pwm("D9") is None
        for volts, value in ((0.0, 0), (1.234, 252), (2.5, 512), (4.999, 1023), (5.0, 1023)):
            board.pins.set_volts("A3", volts)
            board.send(b"\x03")
            board.advance(PIN_MS)
            assert int.from_bytes(board.receive(), "little") == value


FAKE = """
import struct, sys
def put(kind, body): sys.stdout.buffer.write(struct.pack("<IB", len(body), ord(kind)) + body)
def get():
    sys.stdout.buffer.flush()
    head = sys.stdin.buffer.read(5)
    if len(head) < 5: sys.exit(0)
    length, kind = struct.unpack("<IB", head)
    return chr(kind), sys.stdin.buffer.read(length)
def event(cycle, kind=0, which=0, value=0): return struct.pack("<QBBH", cycle, kind, which, value)
put("H", b"rtsim-board 1 fake 0")
while True:
    kind, body = get()
    if kind != "A":
        put("K", b"")
        continue
    (target,) = struct.unpack_from("<Q", body)
    at = struct.pack("<Q", target)
"""
"""An emulator that is well until it is told to advance; what it does then is added."""


def fake(then: str, patience: float | None = None) -> EmulatedBoard:
    script = FAKE + "".join(f"    {line}\n" for line in then.splitlines())
    return EmulatedBoard(b"\0\0", [sys.executable, "-c", script], "fake", patience=patience)


def gone(pid: int) -> bool:
    """True once there is no process ``pid``; waits for it, 20 s at most."""
    start = stopwatch()
    while stopwatch() - start < 20e9:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        os.sched_yield()
    return False


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("sys.exit(7)", "ended with exit status 7"),
        ("sys.exit('out of luck')", "ended with exit status 1; it said:\nout of luck"),
        ("sys.exit(0)", "ended with exit status 0"),
        ("import os; os.abort()", "was ended by SIGABRT"),
        ("put('E', b'no such thing')", "reports: no such thing"),
        ("put('K', b'')", "answered 'A' with 'K'; expected 'A'"),
        ("sys.stdout.buffer.write(b'\\xff' * 5)", "announced 4294967295 bytes; at most 1048576"),
        (
            "put('A', at[:-1])",
            "answered with a message of 7 bytes; expected 8 bytes, plus 12 bytes for each event",
        ),
        ("put('A', at + b'x')", "answered with a message of 9 bytes; expected 8"),
        ("put('A', struct.pack('<Q', target + 1))", "cycle 101; expected a cycle from 0 to 100"),
        ("put('A', at + event(50, 9))", "an unknown event of kind 9"),
        ("put('A', at + event(50, 1, 24))", "an unknown event of kind 1 at pin 24"),
        (
            "put('A', at + event(101))",
            "cycle 101; expected a value from 0 to 255, at a cycle after 0 and not after 100",
        ),
        (
            "put('A', at + event(50) + event(50))",
            "the value 0 at cycle 50; expected a value from 0 to 255, at a cycle after 50",
        ),
        ("put('A', at + event(50, 0, 0, 256))", "the value 256"),
    ],
)
def test_one_that_dies_or_lies_is_named(then: str, said: str) -> None:
    board = fake(then)
    pid = board._process.pid
    with pytest.raises(BoardError) as first:
        board.advance(100)
    assert str(first.value).startswith("the emulated board (fake) ")
    assert said in str(first.value)
    assert gone(pid)
    for call in (lambda: board.advance(1), board.receive, lambda: board.send(b"x")):
        with pytest.raises(BoardError) as again:
            call()
        assert str(again.value) == str(first.value), "the same error, for good"
    board.close()


@pytest.mark.parametrize(
    ("then", "outside"),
    [
        ("put('E', b'it was ended by SIGKILL')", False),
        ("import os; os.kill(os.getpid(), 9)", True),
    ],
)
def test_what_an_emulator_reports_is_not_how_it_ended(then: str, outside: bool) -> None:
    with pytest.raises(BoardError, match="was ended by SIGKILL") as told:
        fake(then).advance(100)
    assert isinstance(told.value, BoardGone) is told.value.environment is outside


def test_the_fake_is_well_otherwise() -> None:
    board = fake("put('A', at + event(50, 0, 0, 65))")
    board.advance(100)
    assert board.receive() == b"A"
    board.close()
    assert gone(board._process.pid)


def test_one_that_hangs_is_killed() -> None:
    board = fake("sys.stdout.buffer.flush(); import threading; threading.Event().wait()", 0.2)
    with pytest.raises(BoardGone, match=r"did not answer within 0\.2 s and was killed"):
        board.advance(100)
    assert gone(board._process.pid)
    board.close()


@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        (b"rtsim-board 2 fake 0", "expected rtsim-board 1"),
        (b"\xff\xfe", "expected rtsim-board 1"),
    ],
)
def test_a_stranger_is_not_let_in(greeting: bytes, said: str) -> None:
    frame = struct.pack("<IB", len(greeting), ord("H")) + greeting
    script = f"import sys; sys.stdout.buffer.write({frame!r}); sys.stdout.flush(); sys.stdin.read()"
    with pytest.raises(BoardError, match=said):
        EmulatedBoard(b"\0\0", [sys.executable, "-c", script], "fake")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"cannot start .*nothing: No such file"):
        EmulatedBoard(b"\0\0", [tmp_path / "nothing"], "fake")


@on_each
def test_close_ends_the_process_and_all_calls(backend: str) -> None:
    with running("echo_500000", backend) as board:
        pid = board._process.pid
    assert gone(pid)
    board.close()
    calls: list[Callable[[], object]] = [board.receive, lambda: board.wait(0), board.reset]
    for call in calls:
        with pytest.raises(BoardError, match="is closed"):
            call()


@pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX")
@on_each
def test_a_killed_parent_leaves_no_emulator(backend: str) -> None:
    need(backend)
    script = (
        "import os, signal, sys; from pathlib import Path; from hitl.boards import open_board; "
        f"b = open_board('board:uno?backend={backend}', Path({str(IMAGES / 'pins.hex')!r})); "
        "print(b._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))


@pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX")
@on_each
def test_an_emulator_that_is_killed_is_named(backend: str) -> None:
    with running("echo_500000", backend) as board:
        os.kill(board._process.pid, signal.SIGKILL)
        with pytest.raises(BoardGone, match=rf"\({backend}\) was ended by SIGKILL"):
            board.advance(100)


@pytest.mark.parametrize(
    ("backend", "image"),
    [
        ("avr8js", "ffff"),  # no program at all
        pytest.param("simavr", "ffff", marks=with_simavr),
        pytest.param("simavr", "0c940080", marks=with_simavr),  # jmp 0x10000: 0, to avr8js
    ],
)
def test_a_firmware_that_runs_away_is_named(backend: str, image: str) -> None:
    need(backend)
    command = {"avr8js": emulators.command, "simavr": emulators.simavr_command}[backend]()
    said = "the firmware left the program memory or the RAM"
    with (
        closing(EmulatedBoard(bytes.fromhex(image), command, backend)) as board,
        pytest.raises(BoardError, match=said),
    ):
        board.advance(100_000)
