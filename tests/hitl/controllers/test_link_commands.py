"""``rtsim link-test``, ``board serve`` and ``flash`` as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from emulated_board_parts import IMAGES, need
from firmware_parts import with_avr_gcc
from link_parts import board_at_a_terminal
from protocol_parts import F16, ROOT, FakeBoard

from hitl.boards.avr import UNO
from hitl.cli.link import flash as flash_command
from hitl.cli.link import link_test
from hitl.firmware import firmware
from hitl.interface import load_interface
from hitl.protocol.session import SilentBoard
from rtsim.cli import main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX")

ROOM = UNO.memory.room
ECHO = str(IMAGES / "echo_500000.hex")
PID = f"{ROOT / 'firmware' / 'core' / 'pid.toml'}:single"
F16_SINGLE = f"{F16.path}:single"


def rtsim(*words: str) -> Result:
    pytest.importorskip("serial", reason="needs pyserial: pip install 'rtsim[pitl]'")
    return CliRunner().invoke(main, words)


def linked(*words: str) -> Result:
    return rtsim("link-test", *words)


def test_the_commands_are_there() -> None:
    assert main.get_command(None, "link-test") is link_test  # type: ignore[arg-type]
    assert main.get_command(None, "flash") is flash_command  # type: ignore[arg-type]


def test_link_test_at_a_port() -> None:
    with board_at_a_terminal(FakeBoard(F16, build=0xB1D)) as port:
        done = linked(f"serial://{port}?baud=500000", "-c", F16_SINGLE)
    assert done.exit_code == 0, done.output
    for text in (
        "protocol 1, double of 4 bytes, payload up to 128 bytes, 16 MHz",
        "build 00000b1d",
        "boot nonce 0000b007",
        "controller  f16_control",
        "500000 baud (+0.0 %); 16 MHz divides well to 9600, ",
        "and not to 115200 (+2.1 %)",
        "200 sent, 200 answered, 0 lost, 0 repeated, 0 damaged",
        "ms by the wall clock; 0.560 ms of it on the wire",
        "ppm; unequal delays of request and reply",
        "request 96 bytes 1.920 ms",
    ):
        assert text in done.output
    bars = [line for line in done.output.splitlines() if "#" in line]
    assert sum(int(line.split()[4]) for line in bars) == 198, "99 in 100"


def test_link_test_for_machines() -> None:
    with board_at_a_terminal(FakeBoard(F16)) as port:
        done = linked(f"serial://{port}?baud=115200", "--count", "40", "--json", "-c", F16_SINGLE)
    told = json.loads(done.output)
    assert told["ok"]
    assert (told["outcome"], told["exit_status"], told["why"]) == ("passed", 0, None)
    assert (told["sent"], told["answered"], told["time"]) == (40, 40, "wall")
    assert told["board"]["boot_nonce"] == "0000b007"
    assert not told["baud"]["good"]
    assert told["wire_ns"] == 28 * 10 * 1_000_000_000 // 115_200 + 1
    trip = told["round_trip_ns"]
    assert trip["min"] <= trip["median"] <= trip["p99"] <= trip["max"]
    assert told["budget"]["request_bytes"] == 96
    assert told["budget"]["holds"]


def test_another_controller_is_a_no_and_its_facts_are_told_all_the_same() -> None:
    with board_at_a_terminal(FakeBoard(F16, name_hash=0xABAD1DEA)) as port:
        done = linked(f"serial://{port}", "--count", "5", "-c", F16_SINGLE)
    assert done.exit_code == 1
    assert "5 sent, 5 answered" in done.output
    assert "runs another controller than f16_control (name hash abad1dea" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["board:uno"], "has no firmware; give an image or a controller: --firmware FILE.hex"),
        (["serial:///dev/nowhere", "--paced"], "always runs in real time; leave out --paced"),
        (["serial:///dev/nowhere", "--firmware", "a.hex"], "rtsim flash a.hex --port /dev/nowhere"),
        (["serial:///dev/nowhere"], "cannot open serial port /dev/nowhere"),
        (["usb:3"], "'usb:3' is not a board URL"),
    ],
)
def test_link_test_says_what_to_type(words: list[str], said: str) -> None:
    done = linked(*words)
    assert done.exit_code == 2
    assert said in done.output


def test_a_rate_that_is_not_the_firmwares_is_guessed() -> None:
    need("avr8js")
    image = ROOT / "hitl" / "firmware" / "images" / "pid_single_500000.hex"
    done = linked("board:uno?baud=9600", "--firmware", str(image))
    assert done.exit_code == 2
    assert (
        "malformed and 0 valid frames arrived; check that the baud rate is the rate of"
        in done.output
    )


@pytest.mark.parametrize("words", [[], ["--firmware", "a.hex"], ["-c", F16_SINGLE]])
def test_serve_is_for_emulated_boards(words: list[str]) -> None:
    done = rtsim("board", "serve", "serial:///dev/ttyS0", *words)
    assert done.exit_code == 2
    said = "serial:///dev/ttyS0 is not an emulated board; an emulated board is: board:uno"
    assert said in done.output


@pytest.mark.long
def test_firmware_of_another_kind_does_not_answer() -> None:
    need("avr8js")
    done = linked("board:uno", "--firmware", ECHO)
    assert done.exit_code == 2
    assert "no board answered within" in done.output


# board serve


@contextmanager
def serving(*words: str) -> Iterator[subprocess.Popen[str]]:
    """The command, started deaf to SIGINT, as a shell starts what is to run in the background."""
    need("avr8js")
    command = [sys.executable, "-m", "rtsim", "board", "serve", "--firmware", ECHO, *words]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with server:
        try:
            yield server
        finally:
            server.kill()


def line_of(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    return server.stdout.readline()


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_where_and_sums_up_when_it_is_interrupted(number: int) -> None:
    with serving() as server:
        at = line_of(server).strip()
        assert at.startswith("serial:///dev/")
        assert at.endswith("?baud=500000")
        port = at.removeprefix("serial://").partition("?")[0]
        assert os.path.exists(port)
        greeting = [line_of(server) for _ in range(3)]
        assert f"rtsim link-test '{at}'" in greeting[1]
        assert greeting[2] == "Ctrl-C stops the board.\n"
        server.send_signal(number)
        out, err = server.communicate(timeout=20)
    assert server.returncode == 0, err
    assert "port opened 0 times; 0 bytes to the board, 0 bytes from the board" in out
    assert "board seconds per second" in out
    assert err == ""
    assert not os.path.exists(port)


def test_serve_for_machines(tmp_path: Path) -> None:
    link = tmp_path / "uno"
    with serving("--json", "--link", str(link)) as server:
        told = json.loads(line_of(server))
        assert told["url"] == f"serial://{link}?baud=500000"
        assert os.readlink(link) == told["port"]
        server.send_signal(signal.SIGINT)
        out, _ = server.communicate(timeout=20)
    assert json.loads(out)["slips"] >= 0
    assert not link.is_symlink()


def test_serve_wants_firmware() -> None:
    done = rtsim("board", "serve")
    assert done.exit_code == 2
    assert "board:uno has no firmware" in done.output


# flash

AVRDUDE = r"""#!/bin/sh
printf '%s\n' "$@" > "$TOLD"
echo "avrdude: stk500_getsync(): not in sync" >&2
exit "${ENDS:-0}"
"""


@pytest.fixture
def avrdude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that notes what it was called with; where it does."""
    program, told = tmp_path / "bin" / "avrdude", tmp_path / "told"
    program.parent.mkdir()
    program.write_text(AVRDUDE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("TOLD", str(told))
    return told


def test_flash_calls_avrdude_and_asks_the_board(avrdude: Path) -> None:
    with board_at_a_terminal(FakeBoard(F16, build=0xB1D)) as port:
        done = rtsim("flash", ECHO, "--port", port)
    assert done.exit_code == 0, done.output
    words = ["-p", "atmega328p", "-c", "arduino", "-P", port, "-b", "115200", "-D", "-U"]
    assert avrdude.read_text().splitlines() == [*words, f"flash:w:{ECHO}:i"]
    assert "build 00000b1d" in done.output


def test_flash_may_leave_the_board_alone(avrdude: Path) -> None:
    words = ["--port", "serial:///dev/nowhere", "--boot-baud", "57600", "--no-verify", "--json"]
    done = rtsim("flash", ECHO, *words)
    assert done.exit_code == 0, done.output
    called = avrdude.read_text().splitlines()
    assert called[5:8:2] == ["/dev/nowhere", "57600"]
    told = json.loads(done.output)
    assert told["command"] == ["avrdude", *called]
    assert told["board"] is None


def test_a_dry_run_needs_no_avrdude_and_does_nothing(avrdude: Path) -> None:
    done = rtsim("flash", ECHO, "--port", "/dev/ttyACM0", "--dry-run")
    assert done.exit_code == 0
    assert done.output.startswith("avrdude -p atmega328p -c arduino -P /dev/ttyACM0 -b 115200 -D")
    assert not avrdude.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--port", "serial:///dev/ttyACM0?baud=115200"), "115200 baud is +2.1 % off"),
        (("--port", "COM3", "--baud", "57600"), "57600 baud is +2.1 % off at the board; choose"),
        (("--port", "COM3", "--baud", "115300"), "115300 baud is +2.0 % off at the board; choose"),
        (("--port", "serial://COM3"), "500000 baud (+0.0 %)"),
    ],
)
def test_flash_tells_the_rate_of_the_line(words: tuple[str, ...], said: str) -> None:
    done = rtsim("flash", ECHO, *words, "--dry-run")
    assert done.exit_code == 0, done.output
    assert f"line        {said}" in done.output
    told = json.loads(rtsim("flash", ECHO, *words, "--dry-run", "--json").output)
    assert told["baud"]["good"] == ("off" not in said)


def test_flash_takes_the_image_of_the_rate_that_the_port_says() -> None:
    done = rtsim("flash", F16_SINGLE, "--port", "serial:///dev/tty?baud=115200", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "_115200" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--port", "board:uno"), "board:uno is an emulated board, which needs no flashing"),
        (
            ("--port", "serial://COM3?baud=500000", "--baud", "9600"),
            "leave out one of the two rates",
        ),
        (("--port", "COM3", "--baud", "2000000"), "300<=x<=1000000"),
    ],
)
def test_flash_says_which_port_and_rate_it_takes(words: tuple[str, ...], said: str) -> None:
    done = rtsim("flash", ECHO, *words, "--dry-run")
    assert done.exit_code == 2
    assert said in done.output


def test_flash_says_what_went_wrong(
    avrdude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDS", "1")
    done = rtsim("flash", ECHO, "--port", "/dev/nowhere")
    assert done.exit_code == 2
    assert "could not flash the board at /dev/nowhere (exit status 1)" in done.output
    assert "not in sync" in done.output
    assert avrdude.exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    done = rtsim("flash", ECHO, "--port", "/dev/nowhere")
    assert done.exit_code == 2
    assert "avrdude, which is not installed; type: sudo apt install avrdude" in done.output


def test_an_image_that_reaches_into_the_boot_loader_is_not_flashed(
    avrdude: Path, tmp_path: Path
) -> None:
    address = ROOM - 1
    record = bytes([2, address >> 8, address & 255, 0, 1, 2])
    lines = [record.hex() + f"{-sum(record) % 256:02x}", "00000001ff"]
    image = tmp_path / "large.hex"
    image.write_text("".join(f":{line}\n" for line in lines))
    done = rtsim("flash", str(image), "--port", "/dev/ttyACM0")
    assert done.exit_code == 2
    assert f"has data at {ROOM - 1:#x} to {ROOM:#x}" in done.output
    assert f"the flash of an Uno ({ROOM} bytes at 0x0 to {ROOM - 1:#x})" in done.output
    assert not avrdude.exists()


def test_a_board_that_is_silent_after_it_was_flashed_is_told(
    avrdude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: object) -> None:
        raise SilentBoard("no board answered within 5 s, no byte arrived")

    monkeypatch.setattr("hitl.cli.link.meet", nobody)
    with board_at_a_terminal(FakeBoard(F16)) as port:
        done = rtsim("flash", ECHO, "--port", port)
    assert avrdude.exists()
    assert done.exit_code == 2
    assert (
        "the firmware was written, but the check of the board failed: no board answered within"
        in done.output
    )
    assert "--no-verify for firmware that does not use rtsim's protocol" in done.output


# with the firmware of a controller


@pytest.fixture
def pid() -> list[str]:
    """``-c INTERFACE`` for a board of this machine; the image for 500 kbaud ships."""
    need("avr8js")
    return ["-c", PID]


@pytest.mark.parametrize(
    ("url", "baud"),
    [
        ("board:uno", 500_000),
        pytest.param("board:uno?baud=115200", 115_200, marks=with_avr_gcc),
    ],
)
def test_a_lockstep_trial_is_the_same_each_time_and_near_the_wires_own(
    pid: list[str], url: str, baud: int
) -> None:
    done = [linked(url, *pid, "--count", "30", "--json") for _ in range(2)]
    assert [one.exit_code for one in done] == [0, 0], done[0].output
    assert done[0].output == done[1].output
    told = json.loads(done[0].output)
    assert (told["time"], told["baud"]["rate"]) == ("board", baud)
    assert told["round_trip_ns"]["max"] <= 1.3 * told["wire_ns"]
    assert abs(told["clock"]["drift_ppm"]) <= 3 * told["clock"]["drift_sigma_ppm"]
    assert told["wrong"] is None


def test_link_test_serves_an_emulated_board_itself(pid: list[str]) -> None:
    done = linked("board:uno", "--paced", *pid, "--count", "20", "--json")
    told = json.loads(done.output)
    assert told["sent"] == 20
    assert told["round_trip_ns"]["min"] > told["wire_ns"], "no byte is faster than its line"
    assert told["pacing"]["opened"] == 1
    assert told["pacing"]["rate"] <= 1.0


def test_firmware_of_an_interface_is_flashed_and_found(pid: list[str], avrdude: Path) -> None:
    made = firmware(PID)
    interface = load_interface(PID)
    with board_at_a_terminal(FakeBoard(interface, build=made.build)) as port:
        done = rtsim("flash", pid[1], "--port", port)
    assert done.exit_code == 0, done.output
    assert avrdude.read_text().rstrip().endswith(f"flash:w:{made.path}:i")
    assert "controller  pid, name hash" in done.output
    with board_at_a_terminal(FakeBoard(interface, build=made.build ^ 1)) as port:
        done = rtsim("flash", pid[1], "--port", port)
    assert done.exit_code == 2
    assert "flash the current build" in done.output
