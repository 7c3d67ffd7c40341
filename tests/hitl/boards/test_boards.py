"""A board is one description and one folder of C, of rtsim or of a wheel; nothing else names it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from emulated_board_parts import need
from firmware_parts import with_avr_gcc
from rtsim_mega import MEGA
from wheel_parts import build_wheel

from hitl.boards import BoardError, emulators, open_board, parse_url
from hitl.boards.avr import UNO
from hitl.boards.description import (
    BoardDescription,
    Emulator,
    Flasher,
    Line,
    Memory,
    Window,
    ranges,
)
from hitl.boards.intel_hex import parse
from hitl.boards.known import BOARDS, add_board, board_named, board_of
from hitl.firmware.compiling import overflow_error
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface
from hitl.protocol.line import BaudRate, Budget
from hitl.testing import check_board
from rtsim.core.errors import ScenarioError

ROOT = Path(__file__).resolve().parents[3]
WHEEL = ROOT / "tests/helpers/board_wheel"
PID = f"{ROOT / 'firmware/core/pid.toml'}:single"
PINS, FLASHER = MEGA.require_pins(), cast(Flasher, MEGA.flasher)
OF_THE_UNO = re.compile(
    r"hitl/boards/((uno|nano|mega|avr|known)\.py|avr8js/.*|simavr/.*)|firmware/uno/.*|firmware/README\.md"
    r"|firmware/(tests|examples)/.*|hitl/rigs/(illumination|pendulum)/.*"
    r"|hitl/firmware/images/NOTICE\.md"
    r"|firmware/bus/.*_avr\.c|firmware/io_node/io_node_mega\.(c|toml)"
    # the bytes of these two are those of the images
    r"|firmware/src/rtsim/board\.h|firmware/io_node/io_node\.h"
    # execution times that were measured on it
    r"|rtsim/models/f16/one_processor\.py|tools/(uno_cycles|f16_processor_picture)\.py"
)


@pytest.fixture(autouse=True)
def _none_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BOARDS, "_added", {})


def test_nothing_but_its_description_its_c_and_its_emulators_names_the_board() -> None:
    named = []
    for folder in ("rtsim", "hitl", "firmware", "tools"):
        for path in (ROOT / folder).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".py", ".c", ".h", ".toml", ".cjs", ".ino", ".md"):
                text = path.read_text(encoding="utf-8")
                if re.search(r"\buno\b|atmega", text, re.I) and not OF_THE_UNO.fullmatch(name):
                    named.append(name)
    assert named == []


def test_a_board_of_rtsim_keeps_the_contract() -> None:
    need("avr8js")
    assert all(text.startswith(("the emulator simavr", "the sizes")) for text in check_board(UNO))


@with_avr_gcc
def test_a_board_without_arduinos_core_answers_on_the_emulator() -> None:
    """The C of the wheel, for the processor that the emulators know."""
    need("avr8js")
    gcc = replace(MEGA.compiler, machine=("-mmcu=atmega328p", "-DF_CPU=16000000UL"))
    plain = replace(
        MEGA, name="plain", compiler=gcc, memory=UNO.memory, pins=UNO.pins, uart=UNO.uart,
        emulators={"avr8js": UNO.emulators["avr8js"]},
    )  # fmt: skip
    assert check_board(add_board(plain)) == ()
    with pytest.raises(AssertionError, match="reports a clock of 16000000 Hz, and the description"):
        check_board(add_board(replace(plain, clock_hz=8_000_000)))


def test_an_emulated_board_is_opened_by_its_name(tmp_path: Path) -> None:
    need("avr8js")
    board = add_board(replace(UNO, name="mine", phrase="a Mine", pins=None))
    image = ROOT / "firmware/tests/echo_500000.hex"
    with pytest.raises(BoardError, match="the description of a Mine has no pins"):
        _with(open_board("board:mine", image), lambda opened: opened.pins.read("D2"))
    _with(open_board("board:mine", image), lambda opened: opened.advance(1000))
    assert parse_url("board:mine").description is board
    far = tmp_path / "far.hex"
    far.write_text(image.read_text())
    add_board(replace(board, memory=replace(UNO.memory, flash_begins=0x1000_0000)))
    with pytest.raises(BoardError, match=r"flash of a Mine .32768 bytes at 0x10000000 to"):
        open_board("board:mine", far)


def _with(opened: Any, use: Any) -> None:
    try:
        use(opened)
    finally:
        opened.close()


def test_an_emulator_from_npm_is_a_folder_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(emulators, "find_node", lambda: Path("node"))
    adapter = tmp_path / "chip8js"
    adapter.mkdir()
    (adapter / "package-lock.json").write_text("{}")
    with pytest.raises(BoardError, match="emulator chip8js is not installed; type: rtsim board i"):
        emulators.command(adapter)
    there = emulators.library(adapter)
    assert there != emulators.library()
    assert there.name == "chip8js"
    there.mkdir(parents=True)
    (there / "package.json").write_text("{}")
    assert emulators.install(adapter) == there
    assert emulators.command(adapter) == [Path("node"), adapter / "board.cjs", there]


def test_flash_may_begin_anywhere() -> None:
    assert parse(":020000041000EA\n:020010000102EB\n:00000001FF\n", 64, begins=0x1000_0000) == (
        b"\xff" * 16 + b"\x01\x02"
    )


def _flaw(name: str, **changed: Any) -> tuple[BoardDescription, str]:
    return replace(MEGA, **changed), name


@pytest.mark.parametrize(
    ("board", "said"),
    [
        _flaw("must be positive", clock_hz=0),
        _flaw("must be smaller than the flash", memory=replace(MEGA.memory, boot_loader=1 << 18)),
        _flaw("must be smaller than the RAM", memory=replace(MEGA.memory, least_stack=8192)),
        _flaw("double of 5 bytes", types=replace(MEGA.types, double_bytes=5)),
        _flaw("must select the processor", compiler=replace(MEGA.compiler, machine=())),
        _flaw("must be from 1 to line.most_baud", line=replace(MEGA.line, baud=500_000)),
        _flaw("the default rate must be good", line=replace(MEGA.line, baud=115_200)),
        _flaw("the same number", pins=replace(PINS, numbers={"D0": 1, "D1": 1})),
        _flaw("pin D53 has the number 53; expected 0 to 52", pins=replace(PINS, count=53)),
        _flaw("pin A1 has an ADC channel", pins=replace(PINS, numbers={"A0": 0})),
        _flaw("must contain {image}", flasher=replace(FLASHER, arguments=("{port}",))),
        _flaw("there is no file", main="main.c"),
        _flaw("there is no folder", hal=Path("nowhere")),
        _flaw("contains rtsim_clock_hz", hal=ROOT / "firmware/core", main="pid.c"),
        _flaw("needs uart", emulators={"none": Emulator(list)}),
        _flaw("title must not be empty", title=" "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_flaw_of_a_description_is_found(board: BoardDescription, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_board(add_board(board))


def test_a_board_that_is_not_registered_is_told() -> None:
    with pytest.raises(AssertionError, match="board 'mega' is not registered"):
        check_board(MEGA)


@with_avr_gcc
def test_sizes_that_the_compiler_does_not_have_are_found() -> None:
    board = add_board(replace(MEGA, types=replace(MEGA.types, int_bytes=4)))
    with pytest.raises(AssertionError, match="compiler's size of int differs"):
        check_board(board)


def test_what_cannot_be_registered_says_why() -> None:
    with pytest.raises(ScenarioError, match="board 'uno' is rtsim's own"):
        add_board(UNO)
    with pytest.raises(ScenarioError, match="is of type int; expected a BoardDescription"):
        BOARDS.add("seven", 7)  # type: ignore[arg-type]
    with pytest.raises(
        ScenarioError, match="registered as 'other' has the attribute name = 'mega'"
    ):
        BOARDS.add("other", MEGA)
    with pytest.raises(BoardError, match="unknown board 'mega'; known: uno, "):
        board_named("mega")
    for url in ("board:pico", "board:pico?baud=9600"):
        with pytest.raises(BoardError, match=r"but .board:pico.*. is a URL; write pico"):
            board_named(url)
    with pytest.raises(BoardError, match="no board has the processor 'vax'; known boards: uno, "):
        board_of("vax")
    add_board(replace(MEGA, name="other", processor="vax"))
    assert board_of("vax").name == "other"
    assert board_of("avr") is UNO


def test_a_double_of_eight_bytes_is_no_lack() -> None:
    wide = replace(MEGA, processor="arm", types=replace(MEGA.types, double_bytes=8))
    assert "float64" in MEGA.target.lacks
    assert wide.target.lacks == {}
    double = load_interface(PID.partition(":")[0])
    assert sketch_of(double, board=wide).board is wide


def test_a_hal_file_has_a_name_of_its_own(tmp_path: Path) -> None:
    shutil.copytree(MEGA.hal, tmp_path / "hal")
    (tmp_path / "hal/board.h").write_text("")
    with pytest.raises(BoardError, match=r"board\.h has the same name as a file that rtsim adds"):
        sketch_of(load_interface(PID), board=replace(MEGA, hal=tmp_path / "hal"))


def test_linker_flags_may_name_the_folder_of_the_hal() -> None:
    gcc = replace(MEGA.compiler, link=("-T{hal}/mega.ld",))
    made = sketch_of(load_interface(PID), board=replace(MEGA, compiler=gcc)).files["Makefile"]
    assert " -Tsrc/rtsim/mega.ld " in made
    assert "ARDUINO" not in made


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("region `FLASH' overflowed by 8 bytes", "c needs 2097160 bytes of flash, but a Wide has"),
        ("region `RAM' overflowed by 8 bytes", "c has 270344 bytes of static data, but a Wide has"),
        ("address 0x20042008 of c.elf section `.bss' is not within region `RAM'", "has 270344 by"),
        ("undefined reference to `step'", ""),
    ],
)
def test_an_overflow_is_read_by_the_names_of_the_boards_linker(said: str, told: str) -> None:
    memory = Memory(
        flash=2 << 20, ram=264 << 10, flash_region="FLASH", ram_region="RAM", ram_begins=1 << 29
    )
    board = replace(MEGA, phrase="a Wide", memory=memory)
    error = overflow_error(board, "c", f"arm-none-eabi-ld: {said}")
    assert (told in str(error)) if told else error is None
    if "flash" in told:
        assert "boot loader" not in str(error)


def test_a_fractional_divider_makes_more_rates() -> None:
    """A PL011 divides by 64ths: 125 MHz / (16 * (67 + 52/64)) is 115207 baud."""
    line = Line(samples=16, fractions=64, most=65_535)
    rate = BaudRate(115_200, 125_000_000, line)
    assert rate.steps == 67 * 64 + 52
    assert rate.actual == pytest.approx(115_207.37, abs=0.01)
    assert BaudRate(115_200, 125_000_000, replace(line, fractions=1)).steps == 68
    with pytest.raises(ScenarioError, match="no divider makes 100 baud"):
        BaudRate(100, 125_000_000, replace(line, most=4096))


def test_the_cycles_of_the_line_are_the_boards() -> None:
    interface, line = load_interface(PID), replace(UNO.line, handling=(3200, 11, 38))
    slow = Budget.of(interface, 250_000, line=line)
    assert slow.handling_ns - Budget.of(interface, 250_000).handling_ns == 100_000


def test_names_of_pins_in_few_words() -> None:
    assert ranges(UNO.require_pins().numbers) == "D0 to D13 and A0 to A5"
    assert ranges(["GP0", "GP1", "GP5", "RUN"]) == "GP0 to GP1, GP5 and RUN"
    assert ranges([]) == "none"
    assert Window(0, 4).length == 4


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the wheel is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel, target = build_wheel(WHEEL, folder), folder / "installed"
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
            "--no-compile", "--disable-pip-version-check", "--no-warn-script-location",
            "--target", str(target), str(wheel),
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


def ran(installed: Path, *checks: str) -> None:
    """The checks pass in a process that has the wheel, and rtsim, on its path."""
    paths = os.pathsep.join((str(installed), str(ROOT)))
    done = subprocess.run(
        [sys.executable, str(WHEEL / "run_board_checks.py"), *checks],
        cwd=installed, env={**os.environ, "PYTHONPATH": paths, "PYTHONUTF8": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[1::2] == list(checks)


@pytest.mark.sample(2)
@pytest.mark.parametrize("check", ["listed", "url", "flash", "checked"])
def test_a_wheel_adds_a_board(installed: Path, check: str) -> None:
    ran(installed, check)


@with_avr_gcc
@pytest.mark.parametrize("check", ["built", "too_large"])
def test_c_is_built_for_the_board_of_a_wheel(installed: Path, check: str) -> None:
    ran(installed, check)


def test_the_page_shows_the_files_of_the_wheel() -> None:
    page = (ROOT / "docs/extending-boards.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^```(?:python|c) file=(\S+)\n(.*?)^```", page, re.M | re.S))
    for name, text in shown.items():
        assert text == (WHEEL / name).read_text(encoding="utf-8"), name
    assert sorted(shown) == ["rtsim_mega/__init__.py", "rtsim_mega/hal/mega.c"]
