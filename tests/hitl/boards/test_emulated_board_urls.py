"""Board URLs, what is said where something is missing, and every link against the contract."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from emulated_board_parts import IMAGES, echoing_terminal, need, on_each

from hitl.boards import BoardError, BoardLink, emulators, open_board, open_link, parse_url
from hitl.boards.avr import UNO
from hitl.boards.description import Emulator
from hitl.cli.boards import board
from hitl.testing import check_link

ECHO = IMAGES / "echo_500000.hex"


@on_each
@pytest.mark.parametrize("image", ["echo_115200", "echo_500000"])
def test_an_emulated_board_is_a_link(backend: str, image: str) -> None:
    need(backend)

    def booted() -> BoardLink:
        board = open_board(f"board:uno?backend={backend}", IMAGES / f"{image}.hex")
        board.advance(board.clock_hz // 1000)
        return board

    check_link(booted)


def test_a_serial_port_is_a_link() -> None:
    pytest.importorskip("serial", reason="needs pyserial: pip install 'rtsim[pitl]'")
    with echoing_terminal() as name:
        check_link(lambda: open_link(f"serial://{name}?baud=500000"), patience=30.0)


def test_a_serial_port_has_one_user_at_a_time() -> None:
    serial = pytest.importorskip("serial", reason="needs pyserial: pip install 'rtsim[pitl]'")
    with echoing_terminal() as name:
        first = open_link(f"serial://{name}?baud=500000")
        for other in ("?baud=500000", "?baud=9600"):
            with pytest.raises(BoardError, match=f"serial port {name}: another program uses it"):
                open_link(f"serial://{name}{other}")
        first.send(b"mine")
        got = b""
        while len(got) < 4:
            assert first.wait(30.0)
            got += first.receive()
        assert got == b"mine", "the refused client disturbed nothing"
        first.close()
        open_link(f"serial://{name}?baud=500000").close()
        with (
            serial.Serial(name, exclusive=True),
            pytest.raises(BoardError, match="another program"),
        ):
            open_link(f"serial://{name}?baud=500000")


@pytest.mark.skipif(sys.platform != "linux", reason="the flag is read as Linux tells it")
@pytest.mark.parametrize(("pseudo", "while_open"), [("/dev/pts/", 0), ("/elsewhere/", 1)])
def test_a_program_that_knows_no_locks_is_refused_at_a_real_port(
    pseudo: str, while_open: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A privileged user may open the port all the same, so the flag of the terminal is read."""
    pytest.importorskip("serial", reason="needs pyserial: pip install 'rtsim[pitl]'")
    monkeypatch.setattr("hitl.boards.serial_port._PSEUDO", pseudo)
    with echoing_terminal() as name:
        link = open_link(f"serial://{name}?baud=500000")
        kept = os.dup(cast(Any, link)._port.fileno())
        flags = [_exclusive(kept)]
        link.close()
        flags.append(_exclusive(kept))
        os.close(kept)
    assert flags == [while_open, 0]


def _exclusive(fd: int) -> int:
    import fcntl
    import struct
    import termios

    asked = getattr(termios, "TIOCGEXCL", 0x80045440)
    (flag,) = struct.unpack("i", fcntl.ioctl(fd, asked, bytes(4)))
    return int(flag)


class Loop:
    """A link to itself; what tests break."""

    def __init__(self) -> None:
        self.kept = b""
        self.closed = False

    def check(self) -> None:
        if self.closed:
            raise BoardError("closed")

    def send(self, data: bytes) -> None:
        self.check()
        self.kept += data

    def receive(self) -> bytes:
        self.check()
        data, self.kept = self.kept, b""
        return data

    def wait(self, timeout: float) -> bool:  # noqa: ARG002
        self.check()
        return bool(self.kept)

    def close(self) -> None:
        self.closed = True


class Translates(Loop):
    def send(self, data: bytes) -> None:
        super().send(data.replace(b"\n", b"\r\n"))


class EatsFlowControl(Loop):
    def send(self, data: bytes) -> None:
        super().send(data.replace(b"\x11", b""))


class Reverses(Loop):
    def send(self, data: bytes) -> None:
        self.check()
        self.kept = data + self.kept


class Chatters(Loop):
    def receive(self) -> bytes:
        return super().receive() or b"?"


class WaitsForever(Loop):
    def wait(self, timeout: float) -> bool:
        super().wait(timeout)
        return True


class OutlivesClose(Loop):
    def close(self) -> None:
        pass


class TextOut(Loop):
    def receive(self) -> bytes:
        return super().receive() and "text"  # type: ignore[return-value]


def test_a_loop_is_a_link() -> None:
    check_link(Loop)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (Translates, "unchanged and in order"),
        (EatsFlowControl, "ended after 5 s without a byte"),
        (Reverses, "in the order in which they were sent"),
        (Chatters, "must return b'' while no byte has arrived"),
        (WaitsForever, "must return False at once"),
        (OutlivesClose, "raise BoardError"),
        (TextOut, "not str"),
    ],
)
def test_a_broken_link_is_caught(broken: Callable[[], BoardLink], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_link(broken)


def test_urls_are_understood() -> None:
    uno = parse_url("board:uno")
    assert (uno.emulated, uno.backend, uno.baud) == (True, "avr8js", None)
    other = parse_url("board:uno?backend=simavr&baud=115200")
    assert (other.backend, other.baud) == ("simavr", 115_200)
    port = parse_url("serial:///dev/ttyACM0?baud=500000")
    assert (port.emulated, port.place, port.baud) == (False, "/dev/ttyACM0", 500_000)
    assert parse_url("serial://COM3").place == "COM3"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("usb", r"'usb' is not a board URL; expected board:uno, serial:///dev/ttyACM0"),
        ("pico", r"'pico' is not a board URL; did you mean board:pico\?"),
        ("pico?baud=9600", r"is not a board URL; did you mean board:pico\?baud=9600\?"),
        ("/dev/ttyACM0", "is not a board URL"),
        (
            "serial://[::1",
            r"'serial://\[::1' is not a board URL; expected board:uno, serial:///dev",
        ),
        ("board:mega", "unknown board 'mega'; known: uno, "),
        ("board:", "unknown board ''; known: uno, "),
        ("serial://COM3?board=mega", "unknown board 'mega'; known: uno, "),
        ("board:uno?backend=simvr", "unknown back end 'simvr'; did you mean simavr"),
        ("board:uno?backed=simavr", "unknown option 'backed'; did you mean backend"),
        (
            "board:uno?baud=fast",
            "baud=fast is not a rate from 300 to 9999999 bit/s; write, for example, baud=500000",
        ),
        ("board:uno?baud=1&baud=2", "the URL contains an option twice"),
        ("serial://", "names no port; type: serial:///dev/ttyACM0"),
        ("serial://COM3?backend=simavr", "unknown option 'backend'"),
    ],
)
def test_a_wrong_url_says_what_to_type(url: str, said: str) -> None:
    with pytest.raises(BoardError, match=said):
        parse_url(url)


def test_what_is_no_board_for_lockstep() -> None:
    with pytest.raises(
        BoardError, match="lockstep and access to pins need an emulated board; give board:uno"
    ):
        open_board("serial://COM3", ECHO)
    with pytest.raises(BoardError, match="no firmware is given; give an Intel HEX file"):
        open_board("board:uno", None)
    with pytest.raises(
        BoardError, match=r"cannot read the firmware file .*nothing\.hex: No such file"
    ):
        open_board("board:uno", Path("nothing.hex"))


def test_without_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(emulators, "find_spec", lambda _: None)
    with pytest.raises(
        BoardError, match=r"needs Node, which was not found; type: pip install 'rtsim\[pitl\]'"
    ):
        open_board("board:uno", ECHO)


def test_with_a_node_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v12.22.9\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(emulators, "find_spec", lambda _: None)
    with pytest.raises(BoardError, match="older than Node 18"):
        emulators.find_node()


def test_without_avr8js(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(emulators, "find_node", lambda: Path("node"))
    with pytest.raises(BoardError, match="is not installed; type: rtsim board install"):
        open_board("board:uno", ECHO)


@pytest.mark.skipif(os.name != "posix", reason="a stand-in for npm, a shell script")
def test_an_install_that_fails_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho ENETUNREACH >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(emulators, "find_node", lambda: Path("node"))
    monkeypatch.setattr(emulators, "_npm", lambda: [str(npm)])
    with pytest.raises(BoardError, match=r"check the network .*\nENETUNREACH"):
        emulators.install()
    assert list((tmp_path / "cache" / "boards").iterdir()) == []


def test_the_lock_file_pins_and_names_no_place() -> None:
    lock = (emulators.FILES / "package-lock.json").read_text()
    assert '"integrity": "sha512-' in lock
    assert "resolved" not in lock
    assert "://" not in lock


def test_without_simavr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cc = tmp_path / "cc"
    cc.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'gcc (x) 12.1' && exit 0\n"
        "echo 'fatal error: simavr/avr_adc.h: No such file or directory' >&2\nexit 1\n"
    )
    cc.chmod(0o755)
    monkeypatch.setenv("CC", str(cc))
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(BoardError, match="not installed; type: sudo apt install libsimavr-dev"):
        emulators.simavr_command()


def test_without_pyserial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(BoardError, match=r"needs pyserial; type: pip install 'rtsim\[pitl\]'"):
        open_link("serial://COM3")


def test_a_port_that_is_not_there() -> None:
    pytest.importorskip("serial", reason="needs pyserial: pip install 'rtsim[pitl]'")
    with pytest.raises(
        BoardError, match=r"cannot open serial port /dev/nothing.* serial port|ports"
    ):
        open_link("serial:///dev/nothing")


PORTS = [  # name, vendor id and product id of each port; what is said
    ([], "this machine has no serial port; check the board and its cable"),
    ([("/dev/ttyS0", None, None)], "the ports of this machine are /dev/ttyS0"),
    (
        [("/dev/ttyS0", None, None), ("/dev/ttyACM1", 0x2341, 0x0043), ("/dev/ttyUSB0", 1, 2)],
        "the ports of this machine are /dev/ttyACM1 (Arduino Uno), /dev/ttyUSB0",
    ),
    ([("COM7", 0x2341, 0x0042)], "the ports of this machine are COM7 (Arduino Mega 2560)"),
]


@pytest.mark.parametrize(("ports", "said"), PORTS)
def test_the_ports_that_are_there_are_named_with_their_boards(
    ports: list[tuple[str, int | None, int | None]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pytest.importorskip("serial.tools.list_ports", reason="pip install 'rtsim[pitl]'")
    found = [SimpleNamespace(device=name, vid=vid, pid=pid) for name, vid, pid in ports]
    monkeypatch.setattr(here, "comports", lambda: found)
    with pytest.raises(BoardError) as error:
        open_link("serial:///dev/nothing")
    assert str(error.value).endswith(f"; {said}")


def test_rtsim_board_install(monkeypatch: pytest.MonkeyPatch) -> None:
    here = UNO.emulators["avr8js"]
    there = replace(here, install=lambda: Path("there"))
    monkeypatch.setitem(cast(dict[str, Emulator], UNO.emulators), "avr8js", there)
    said = CliRunner().invoke(board, ["install"])
    assert said.exit_code == 0
    assert "avr8js is in there" in said.output


def test_set_up_goes_on_without_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(files: Path) -> Path:
        raise BoardError(f"no network for {files.name}")

    monkeypatch.setattr(emulators, "install", fails)
    assert emulators.main() == ("The emulated boards could not be set up: no network for avr8js")
