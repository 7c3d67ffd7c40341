"""Uses the board that the wheel adds, in a process that has it installed.

Prints a line ``ok NAME`` for each check of the arguments; a check that fails ends the program.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import rtsim_mega
from click.testing import CliRunner

from hitl.boards.known import BOARDS, board_named
from hitl.boards.urls import parse_url
from hitl.testing import check_board
from rtsim.cli import main

CONTROLLER = "firmware/core/pid.toml:single"


def run(*arguments: str) -> tuple[int, str]:
    """The exit status and the output of ``rtsim``."""
    done = CliRunner().invoke(main, list(arguments))
    return done.exit_code, done.output


def listed() -> None:
    assert board_named("mega") is rtsim_mega.MEGA
    assert list(BOARDS) == ["uno", "nano", "mega2560", "pico", "stm32f4", "mega"]
    for words in (("sil", "check", CONTROLLER), ("board", "build", CONTROLLER)):
        status, told = run(*words, "--board", "meg")
        assert status == 2
        assert "unknown board 'meg'; known: uno, " in told, told


def url() -> None:
    assert parse_url("serial:///dev/ttyACM0?board=mega").description is rtsim_mega.MEGA
    assert parse_url("serial:///dev/ttyACM0?board=mega").rate == 250_000
    status, told = run("link-test", "board:mega")
    assert status == 2
    assert "a Mega has no emulator; use a real board" in told, told
    status, told = run("board", "install", "--board", "mega")
    assert status == 2
    assert "cannot download an emulator of a Mega (its emulators: none)" in told, told


def flash() -> None:
    """At most 256 kB less the boot loader, by its own programmer."""
    Path("blink.hex").write_text(":0200000001 02FB\n:00000001FF\n".replace(" ", ""))
    words = ("flash", "blink.hex", "--board", "mega", "--dry-run")
    status, told = run(*words, "--port", "/dev/ttyACM0")
    assert status == 0, told
    assert told.startswith("avrdude -p atmega2560 -c wiring -P /dev/ttyACM0 -b 115200 -D"), told
    assert "250000 baud" in told
    status, told = run(*words, "--port", "/dev/ttyACM0", "--baud", "500000")
    assert status == 2
    assert "500000 is not in the range 300<=x<=250000" in told, told
    status, told = run("flash", "blink.hex", "--dry-run", "--port", "serial:///dev/a?board=mega")
    assert status == 0, told
    assert "-p atmega2560 " in told


def checked() -> None:
    """As far as it goes on this machine: without avr-gcc the build is left out, and named."""
    unchecked = check_board(rtsim_mega.MEGA)
    assert any("no emulator" in text or "without avr-" in text for text in unchecked), unchecked


def built() -> None:
    unchecked = ("a Mega at run time: the description names no emulator",)
    assert check_board(rtsim_mega.MEGA) == unchecked
    status, told = run("sil", "check", CONTROLLER, "--board", "mega", "--json")
    assert status == 0, told
    found = json.loads(told)
    assert (found["target"], found["board"], found["fits"]) == ("avr", "mega", True)
    assert found["checked"][0].startswith("compiled and linked for a Mega by avr-gcc")
    assert found["checked"][1].endswith("bytes of RAM are left for the stack")
    status, told = run("board", "build", CONTROLLER, "--board", "mega", "-o", "made", "--json")
    assert status == 0, told
    made = json.loads(told)
    assert found["checked"][1] == (
        f"{made['flash_bytes']} bytes of flash, {made['ram_bytes']} bytes of static RAM; "
        f"{8192 - made['ram_bytes']} bytes of RAM are left for the stack"
    )
    assert (made["board"], made["baud"], made["prebuilt"]) == ("mega", 250_000, False)
    assert Path("made/pid/pid.c").is_file()
    assert "-mmcu=atmega2560" in Path("made/pid/Makefile").read_text()
    assert Path("made/pid/pid.hex").is_file()


def too_large() -> None:
    """What does not fit the one board fits the other, and the linker's words are understood."""
    Path("big.h").write_text("float big(float u);\n")
    Path("big.toml").write_text(
        'name = "big"\nperiod = 0.01\nsources = ["big.c"]\nheaders = ["big.h"]\n'
        'real = "float32"\n[code]\nstep = "y = big(u)"\n[inputs]\nu = {}\n[outputs]\ny = {}\n'
    )
    for count, boards in ((3000, {"uno": 1, "mega": 0}), (9000, {"uno": 1, "mega": 1})):
        Path("big.c").write_text(
            f'#include "big.h"\nstatic volatile char room[{count}];\n'
            "float big(float u)\n{\n  room[0]++;\n  return u;\n}\n"
        )
        for board, expected in boards.items():
            status, told = run("sil", "check", "big.toml", "--board", board)
            assert status == expected, (board, count, told)
            ram = board_named(board).memory.ram
            assert expected == 0 or f"has {ram} bytes of RAM and needs at least" in told, told


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check for check in (listed, url, flash, checked, built, too_large)
}


if __name__ == "__main__":
    assert "site-packages" not in str(rtsim_mega.__file__)
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in sys.argv[1:]:
            CHECKS[name]()
            print("ok", name, flush=True)
        os.chdir("/")
