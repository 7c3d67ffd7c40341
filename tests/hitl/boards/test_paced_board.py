"""A served board as any program meets it: a port of a process of its own, which leaves nothing."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from emulated_board_parts import IMAGES, need

from hitl.boards import BoardError, open_link
from hitl.boards.paced import PacedBoard
from hitl.boards.paced_server import Terminal
from hitl.testing import check_link
from rtsim.core.clock import stopwatch

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX")

ECHO = IMAGES / "echo_500000.hex"
PATIENCE_S = 30.0


@contextmanager
def served(
    image: str = "echo_500000", query: str = "", link: Path | None = None
) -> Iterator[PacedBoard]:
    need("avr8js")
    with PacedBoard(f"board:uno{query}", IMAGES / f"{image}.hex", link=link) as board:
        yield board


@contextmanager
def opened(port: str) -> Iterator[int]:
    """As ``cat`` opens it: nothing is set."""
    descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read(descriptor: int, count: int) -> bytes:
    got, start = b"", stopwatch()
    while len(got) < count and stopwatch() - start < PATIENCE_S * 1e9:
        if select.select([descriptor], [], [], 1.0)[0]:
            got += os.read(descriptor, count - len(got))
    return got


def until(board: PacedBoard, **wanted: object) -> None:
    """Until the server says so."""
    start = stopwatch()
    while stopwatch() - start < PATIENCE_S * 1e9:
        told = board.status().to_json()
        if all(told[name] == value for name, value in wanted.items()):
            return
    raise AssertionError(f"{wanted} never came; {board.status()}")


def asked_until_it_fails(board: PacedBoard) -> None:
    while True:
        board.status()


def gone(pid: int) -> bool:
    """No process ``pid``, or only its exit status; waits for it."""
    start = stopwatch()
    while stopwatch() - start < PATIENCE_S * 1e9:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        os.sched_yield()
    return False


def children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_served_board_is_a_link_like_any_other_port() -> None:
    pytest.importorskip("serial", reason="needs pyserial: pip install 'rtsim[pitl]'")
    with served() as board:
        check_link(lambda: open_link(f"serial://{board.port}?baud=500000"), patience=PATIENCE_S)
        status = board.status()
        assert status.timing.received == status.timing.sent > 256
        assert (status.lost, status.garbled, status.unread) == (0, 0, 0)


def test_any_program_can_open_it_and_nothing_is_translated_or_echoed() -> None:
    everything = bytes(range(256))
    with served() as board, opened(board.port) as descriptor:
        os.write(descriptor, everything)
        assert read(descriptor, 256) == everything
        assert not select.select([descriptor], [], [], 0.05)[0], "the terminal echoes as well"


def test_a_client_may_come_again_and_finds_a_board_that_was_reset() -> None:
    with served() as board:
        for turn in range(1, 4):
            with opened(board.port) as descriptor:
                os.write(descriptor, bytes([turn]) * 5)
                assert read(descriptor, 5) == bytes([turn]) * 5
            until(board, open=False, opened=turn)


def test_what_one_client_left_is_not_for_the_next() -> None:
    with served() as board:
        with opened(board.port) as descriptor:
            os.write(descriptor, b"left behind")
            until(board, sent=11)
        until(board, open=False)
        with opened(board.port) as descriptor:
            os.write(descriptor, b"new")
            assert read(descriptor, 3) == b"new"


def test_a_board_that_speaks_to_nobody_is_counted() -> None:
    with served() as board:
        with opened(board.port) as descriptor:
            os.write(descriptor, bytes(2000))
            until(board, received=2000)
        until(board, open=False)
        start = stopwatch()
        while board.status().timing.sent < 2000 and stopwatch() - start < PATIENCE_S * 1e9:
            pass
        status = board.status()
        assert status.timing.sent == 2000
        assert 0 < status.unread <= 2000


def test_the_rate_of_the_line_is_told_and_another_one_garbles() -> None:
    with served("echo_115200") as board:
        assert round(board.baud) == 117_647
    with served("echo_115200", "?baud=9600") as board, opened(board.port) as descriptor:
        os.write(descriptor, b"x")
        assert read(descriptor, 1) not in (b"\0", b"x")
        until(board, garbled=1, baud=9600.0)


def test_a_link_leads_to_the_port_while_it_is_there(tmp_path: Path) -> None:
    name = tmp_path / "board"
    name.symlink_to(tmp_path / "of a server that was killed")
    with served(link=name) as board:
        assert name.readlink() == Path(board.port)
        with opened(str(name)) as descriptor:
            os.write(descriptor, b"x")
            assert read(descriptor, 1) == b"x"
    assert not name.is_symlink()


def test_a_file_in_the_place_of_the_link_stays(tmp_path: Path) -> None:
    name = tmp_path / "board"
    name.write_text("mine")
    with pytest.raises(BoardError, match=r"board: a file with this name exists; remove the file"):
        Terminal(name)
    assert name.read_text() == "mine"


def test_closing_leaves_no_process_and_may_be_done_again() -> None:
    with served() as board:
        emulators = children(board.pid)
        assert len(emulators) == 1
    board.close()
    assert gone(board.pid)
    assert gone(emulators[0])
    assert not os.path.exists(board.port)
    with pytest.raises(BoardError, match="the served board is closed"):
        board.status()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_was_killed_is_one_error_and_takes_its_emulator_along(number: int) -> None:
    with served() as board:
        (emulator,) = children(board.pid)
        os.kill(board.pid, number)
        with pytest.raises(BoardError, match="the process of the served board has ended"):
            asked_until_it_fails(board)
        with pytest.raises(BoardError, match="has ended"):
            board.status()
        assert gone(emulator)


def test_an_emulator_that_was_killed_is_named() -> None:
    with served() as board:
        (emulator,) = children(board.pid)
        os.kill(emulator, signal.SIGKILL)
        with pytest.raises(BoardError, match=r"emulated board \(avr8js\) was ended by SIGKILL"):
            asked_until_it_fails(board)


PARENT = """
import json, signal, sys
from pathlib import Path
from hitl.boards.paced import PacedBoard
board = PacedBoard("board:uno", Path(sys.argv[1]), link=Path(sys.argv[2]))
print(json.dumps([board.port, board.pid]), flush=True)
signal.pause()
"""


def test_a_parent_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    need("avr8js")
    link = tmp_path / "board"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(ECHO), str(link)], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        port, pid = json.loads(parent.stdout.readline())
        emulators = children(pid)
        parent.kill()
        parent.wait()
    assert [gone(p) for p in (pid, *emulators)] == [True, True]
    assert not os.path.exists(port)
    assert not link.is_symlink()


def test_the_servers_process_is_not_in_the_way_of_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGINT)
    with served() as board:
        assert os.getpgid(board.pid) != os.getpgid(0), "Ctrl-C reaches the whole group"
        assert signal.getsignal(signal.SIGINT) is before
        board.status()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("url", "image", "said"),
    [
        (
            "serial:///dev/ttyACM0",
            "echo_500000",
            "is a real port, but only an emulated board can be served",
        ),
        ("board:mega", "echo_500000", "board:mega: unknown board 'mega'; known: uno"),
        ("board:uno", "nothing", "cannot read the firmware file"),
        ("board:uno", "toggle", "does not use its serial line: the UART was still off 0.05 s"),
    ],
)
def test_what_cannot_be_served_is_told(url: str, image: str, said: str) -> None:
    need("avr8js")
    with pytest.raises(BoardError, match=said):
        PacedBoard(url, IMAGES / f"{image}.hex")


def test_windows_is_told_what_to_type_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl.boards.paced.POSIX", False)
    with pytest.raises(BoardError, match=r"Windows has none; .* serial://COM3"):
        PacedBoard("board:uno", ECHO)
