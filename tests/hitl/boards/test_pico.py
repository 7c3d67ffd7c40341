"""The emulated Raspberry Pi Pico: instruction cycles, sleep, serial line, pins, resets, errors."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from emulated_board_parts import need
from firmware_parts import random_inputs, started

from hitl.boards import BoardError
from hitl.boards.description import Emulator
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.intel_hex import read_image
from hitl.boards.known import BOARDS, add_board
from hitl.boards.pico import PICO, pwm
from hitl.building.toolchain import BuildError
from hitl.controllers.in_process import InProcess
from hitl.firmware import firmware
from hitl.firmware.compiling import PROGRAM, NoTools
from hitl.firmware.make_hex import main
from hitl.interface import load_interface
from hitl.testing import check_board
from rtsim.core.tag import Tag

PID = "firmware/core/pid.toml:single"
LAW = "firmware/core/f16_control.toml"
TOP = 0x2004_2000
IO, SIO, RAM = 0x4001_4004, 0xD000_0000, 0x2000_1000


def image_of(code: Sequence[int], literals: Sequence[int] = ()) -> bytes:
    """An image whose reset handler is ``code``, in halfwords, followed by ``literals``."""
    text = struct.pack(f"<{len(code)}H", *code)
    text += b"\0" * (-len(text) % 4) + struct.pack(f"<{len(literals)}I", *literals)
    vectors = struct.pack("<2I", TOP, 0x1000_0200 | 1)
    return b"\xff" * 256 + vectors + b"\0" * (256 - len(vectors)) + text


def literal(register: int, at: int, place: int) -> int:
    """LDR register, [PC]: from the byte ``place`` of the code, at the byte ``at``."""
    return 0x4800 | register << 8 | (place - ((at + 4) & ~3)) // 4


@contextmanager
def running(image: bytes) -> Iterator[EmulatedBoard]:
    need("rp2040js")
    command = PICO.emulators["rp2040js"].command()
    with closing(EmulatedBoard(image, command, "rp2040js", description=PICO)) as board:
        yield board


@pytest.fixture(scope="module")
def chip() -> Iterator[EmulatedBoard]:
    """A board whose process takes the program of one test after the other."""
    with running(image_of([0xE7FE])) as board:
        yield board


def cycles_of(sequence: Sequence[int], board: EmulatedBoard) -> int:
    """The cycles of ``sequence``, between two stores to a pin, which take a cycle each.

    R5 points to RAM, and R4 is 3.  Behind the second store and an endless loop are two functions,
    to which a BL can branch: PUSH {R4, LR}, POP {R4, PC}; and BX LR.
    """
    head = [0, 0x2105, 0x6001, 0, 0x2101, 0, 0x2403, 0x6241, 0x6141]
    tail = [0x6181, 0xE7FE, 0xB510, 0xBD10, 0x4770, 0xBF00]
    code = [*head, *sequence, *tail]
    place = 2 * len(code) + 2 * (len(code) % 2)
    code[0], code[3], code[5] = (
        literal(0, 0, place), literal(0, 6, place + 4), literal(5, 10, place + 8),
    )  # fmt: skip
    board._process.ask("L", image_of(code, (IO, SIO, RAM)))
    board.advance(2000)
    ends = [edge.cycle for edge in board.pins.edges() if edge.pin == "GP0"]
    return ends[-1] - ends[-2] - 1


CYCLES = {
    "MOVS R3, #5": ([0x2305], 1),
    "ADDS R3, R3, R4; MULS R3, R4": ([0x191B, 0x4363], 2),
    "LSLS R3, R4; RORS R3, R4; ADCS R3, R4": ([0x40A3, 0x41E3, 0x4163], 3),
    "LDR R3, [R5]": ([0x682B], 2),
    "LDRB R3, [R5]; LDRH R3, [R5]": ([0x782B, 0x882B], 4),
    "STR R3, [R5]; STRH R3, [R5]": ([0x602B, 0x802B], 4),
    "LDMIA R5!, {R3, R4, R6}": ([0xCD58], 4),
    "STMIA R5!, {R3, R4, R6}": ([0xC558], 4),
    "PUSH {R3, R4}; POP {R3, R4}": ([0xB418, 0xBC18], 6),
    "PUSH {R4, LR}; ADD SP, #8": ([0xB510, 0xB002], 4),
    "MOVS R3, #5; BEQ (not taken)": ([0x2305, 0xD0FF], 2),
    "MOVS R3, #5; BNE (taken)": ([0x2305, 0xD1FF], 3),
    "B": ([0xE7FF], 2),
    "BL; PUSH {R4, LR}; POP {R4, PC}": ([0xF000, 0xF802], 3 + 3 + 5),
    "BL; BX LR": ([0xF000, 0xF804], 3 + 2),
    "MRS R3, PRIMASK; MSR PRIMASK, R3": ([0xF3EF, 0x8310, 0xF383, 0x8810], 6),
    "DMB; DSB; ISB": ([0xF3BF, 0x8F5F, 0xF3BF, 0x8F4F, 0xF3BF, 0x8F6F], 9),
    "CPSID i; CPSIE i; NOP": ([0xB672, 0xB662, 0xBF00], 3),
}
"""Sequences, and their cycles by the Cortex-M0+ Technical Reference Manual (ARM DDI 0484), table
3-1, without wait states, with the multiplier of the RP2040 that takes one cycle."""


@pytest.mark.parametrize("name", CYCLES)
def test_instructions_take_the_cycles_of_the_manual(name: str, chip: EmulatedBoard) -> None:
    sequence, cycles = CYCLES[name]
    assert cycles_of(sequence, chip) == cycles


def test_a_page_shows_these_sequences() -> None:
    page = (Path(__file__).parents[3] / "docs/boards.md").read_text(encoding="utf-8")
    for name, (_, cycles) in CYCLES.items():
        assert f"| `{name}` | {cycles} |" in page, name


# -- the firmware on it


def test_the_board_keeps_the_contract() -> None:
    need("rp2040js")
    assert check_board(PICO) == ()


def test_a_controller_gives_the_bits_of_the_host() -> None:
    """PID has memory, and divides: 200 steps of random inputs."""
    interface = load_interface(PID)
    made, inputs = firmware(interface, board=PICO), random_inputs(interface.inputs, 200)
    with closing(InProcess(PID).fresh()) as host, started(made) as talk:
        for k, u in enumerate(inputs):
            host.send(Tag(k), u)
            commands = host.receive(Tag(k), 1.0)
            assert commands is not None
            assert talk.stepped(k, u).outputs.tobytes() == commands.tobytes()
        assert talk.board.lost <= 14  # HELLO, while it booted
        assert talk.board.garbled == 0
        assert talk.board.baud == 2_000_000


def test_bytes_follow_one_another_in_625_cycles() -> None:
    """Ten bits of 2 Mbit/s at 125 MHz; the interrupts of the firmware keep up."""
    with started(firmware(LAW, board=PICO)) as talk:
        talk.session.ping(1, talk.now_ns)
        talk.board.send(talk.session.outgoing())
        talk.board.advance(50_000)
        cycles = [stamped.cycle for stamped in talk.board.take()]
    assert len(cycles) == 14
    assert {b - a for a, b in pairwise(cycles)} == {625}


def test_slices_of_any_size_give_the_same_bytes() -> None:
    heard = []
    for slice in (50_000, 77):
        with started(firmware(PID, board=PICO)) as talk:
            talk.session.ping(1, 0)
            talk.board.send(talk.session.outgoing(), at=1_000_000)
            talk.board.advance(1_000_000 - talk.board.cycles)
            for _ in range(50_000 // slice):
                talk.board.advance(slice)
            heard.append([(s.cycle, s.value) for s in talk.board.take()])
    assert len(heard[0]) == 14
    assert heard[0] == heard[1]


def test_without_requests_the_processor_sleeps() -> None:
    """100 s of a waiting board take less than a second of this machine's time."""
    with started(firmware(PID, board=PICO)) as talk:
        talk.board.advance(100 * PICO.clock_hz)
        assert talk.board.take() == []


def test_a_reset_keeps_the_ram_and_gives_another_nonce() -> None:
    with running(image_of_pid()) as board:
        nonces = set()
        for _ in range(3):
            board.advance(500_000)
            nonces.add(board.receive())
            board.reset()
    assert len(nonces) == 3


def image_of_pid() -> bytes:
    path = firmware(PID, board=PICO).path
    return read_image(path, PICO)


# -- what goes wrong


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ([0xBE00], "a trap or breakpoint"),
        ([0xDE01], "a trap or breakpoint"),
        ([0x2000, 0x4700], "left the flash and the RAM"),
        ([0x2009, 0x0700, 0x6800], "memory address: 90000000"),  # LSLS R0, #28; LDR R0, [R0]
    ],
)
def test_firmware_that_runs_wild_is_told(code: list[int], said: str) -> None:
    with running(image_of([*code, 0xE7FE])) as board, pytest.raises(BoardError, match=said):
        board.advance(1000)


def test_what_is_missing_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BOARDS, "_added", {})
    gcc = replace(PICO.compiler, package="no_such_compiler")
    board = add_board(replace(PICO, name="other", compiler=gcc))
    with pytest.raises(
        NoTools, match=r"package no_such_compiler; type: pip install 'rtsim\[sil\]'"
    ):
        firmware("firmware/core/pid.toml", board=board, build=True)
    monkeypatch.setenv("RTSIM_CACHE_DIR", "/nowhere")
    with pytest.raises(
        BoardError, match="rp2040js is not installed; type: rtsim board install --b"
    ):
        PICO.emulators["rp2040js"].command()
    assert isinstance(PICO.emulators["rp2040js"], Emulator)


def test_pwm_is_read_from_the_registers_of_a_slice() -> None:
    """125 MHz, divided by 4 and 1000, with 250 of 1000 at B of slice 0: GP1."""
    registers = bytearray(0xA0 + 30)
    for offset, value in ((0, 1), (4, 4 << 4), (0x0C, 250 << 16), (0x10, 999)):
        registers[offset : offset + 4] = value.to_bytes(4, "little")
    registers[0xA0 + 1] = 4
    found = pwm("GP1", bytes(registers))
    assert found is not None
    assert (found.duty, found.frequency) == (0.25, 31_250.0)
    assert pwm("GP0", bytes(registers)) is None


@pytest.mark.long
def test_make_builds_the_same_image(tmp_path: Path) -> None:
    """The last command of the Makefile is rtsim's own; it writes the image that ships."""
    made = firmware("firmware/core/pid.toml:single", board=PICO, build=True)
    main("pico", str(made.path.parent / PROGRAM), str(tmp_path / "pid.hex"))
    shipped = firmware("firmware/core/pid.toml:single", board=PICO)
    assert shipped.prebuilt
    assert (tmp_path / "pid.hex").read_bytes() == made.path.read_bytes()
    if shipped.compiler == made.compiler:
        assert made.path.read_bytes() == shipped.path.read_bytes()


@pytest.mark.long
def test_a_function_that_no_library_has_is_named(tmp_path: Path) -> None:
    (tmp_path / "far.c").write_text(
        '#include <math.h>\n#include "far.h"\ndouble far(double u) { return atan2(sin(u), 2.0); }\n'
    )
    (tmp_path / "far.h").write_text("double far(double u);\n")
    (tmp_path / "far.toml").write_text(
        'name = "far"\nperiod = "1/100"\nsources = ["far.c"]\nheaders = ["far.h"]\n'
        '[code]\nstep = "y = far(u)"\n[inputs]\nu = {}\n[outputs]\ny = {}\n'
    )
    with pytest.raises(
        BuildError, match="far calls atan2, which the compiler's library for a Pico"
    ):
        firmware(tmp_path / "far.toml", board=PICO)
