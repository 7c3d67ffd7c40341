"""An emulator that dies, hangs or lies is one clear error, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from emulated_board_parts import IMAGES, need, on_each, running, with_simavr

from hitl.boards import BoardError, emulators
from hitl.boards.contract import BoardGone
from hitl.boards.emulated import EmulatedBoard
from rtsim.core.clock import stopwatch

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
            "answered with a message of 7 bytes; expected 8 bytes, and 12 more for each event",
        ),
        ("put('A', at + b'x')", "answered with a message of 9 bytes; expected 8"),
        ("put('A', struct.pack('<Q', target + 1))", "cycle 101; expected a cycle from 0 to 100"),
        ("put('A', at + event(50, 9))", "an unknown event of kind 9"),
        ("put('A', at + event(50, 1, 24))", "an unknown event of kind 1 at pin 24"),
        (
            "put('A', at + event(101))",
            "cycle 101; expected at most 255, after cycle 0 and not after 100",
        ),
        (
            "put('A', at + event(50) + event(50))",
            "a byte 0 at cycle 50; expected at most 255, after cycle 50",
        ),
        ("put('A', at + event(50, 0, 0, 256))", "a byte 256"),
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
