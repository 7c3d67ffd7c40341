"""The image of a linked program has all of its bytes, or an error names those that it lacks."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from firmware_parts import with_avr_gcc

from hitl.boards import BoardError
from hitl.boards.avr import UNO
from hitl.boards.intel_hex import parse
from hitl.boards.pico import PICO
from hitl.firmware import firmware
from hitl.firmware.program import Program

BEGINS, SIZE = 0x4200_0000, 0x1000
BITS, NO_BITS, ALLOCATED = 1, 8, 2
AVR, ARM, X86, RELOCATABLE = 83, 40, 3, 1


@dataclass
class Part:
    """One section: its name, the address at which it is loaded, and its bytes."""

    name: str
    at: int
    data: bytes
    type: int = BITS
    flags: int = ALLOCATED
    runs_at: int | None = None


def elf(*parts: Part, machine: int = AVR, kind: int = 2) -> bytes:
    """Return an ELF file of 32 bits with ``parts`` as sections, each with a segment of its own."""
    names, offsets = b"\0.names\0", {}
    for part in parts:
        offsets[part.name] = len(names)
        names += part.name.encode() + b"\0"
    body, segments = b"", []
    begin = 52 + 32 * len(parts)
    sections = [(0,) * 10]
    for part in parts:
        runs, offset = part.at if part.runs_at is None else part.runs_at, begin + len(body)
        filled = 0 if part.type == NO_BITS else len(part.data)
        segments.append((1, offset, runs, part.at, filled, len(part.data), 5, 1))
        row = (offsets[part.name], part.type, part.flags, runs, offset, len(part.data))
        sections.append((*row, 0, 0, 1, 0))
        body += part.data[:filled]
    sections.append((1, 3, 0, 0, begin + len(body), len(names), 0, 0, 1, 0))
    body += names
    head = b"\x7fELF\x01\x01\x01" + bytes(9)
    counts = (52, 32, len(segments), 40, len(sections), len(sections) - 1)
    head += struct.pack("<2H5I6H", kind, machine, 1, parts[0].at, 52, begin + len(body), 0, *counts)
    head += b"".join(struct.pack("<8I", *row) for row in segments)
    return head + body + b"".join(struct.pack("<10I", *row) for row in sections)


TEXT = Part(".text", BEGINS, b"0123456789")


def image(program: bytes) -> bytes:
    return parse(Program(program).hex(BEGINS, SIZE), SIZE, "made", BEGINS)


def test_the_image_has_each_byte_at_its_load_address() -> None:
    """Data run in the RAM and are loaded from the flash; sections that are not loaded are left."""
    data = Part(".data", BEGINS + 12, b"ab", runs_at=0x2000_0000)
    bss, note = Part(".bss", 0x2000_0010, b"...", NO_BITS), Part(".comment", 0, b"gcc", flags=0)
    program = Program(elf(TEXT, data, bss, note))
    text = program.hex(BEGINS, SIZE)
    assert parse(text, SIZE, "made", BEGINS) == b"0123456789\xff\xffab"
    assert program.flash_bytes(BEGINS, SIZE) == 12


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (0x4038_0000, r"section \.more: its load addresses 0x40380000 to 0x40380003.* 0x42000fff"),
        (BEGINS - 2, r"section \.more: its load addresses 0x41fffffe to 0x42000001"),
        (BEGINS + SIZE - 2, r"section \.more: its load addresses 0x42000ffe to 0x42001001"),
        (BEGINS + SIZE, r"section \.more: its load addresses 0x42001000"),
        (0x81_0000, r"section \.more: its load addresses 0x810000"),
        (BEGINS + 8, r"sections \.text and \.more overlap at 0x42000008"),
        (BEGINS, r"sections (\.text and \.more|\.more and \.text) overlap at 0x42000000"),
    ],
)
def test_a_section_that_cannot_be_in_the_image_is_an_error(at: int, said: str) -> None:
    with pytest.raises(BoardError, match=said):
        image(elf(TEXT, Part(".more", at, b"more")))


def test_a_program_from_a_linker_with_code_in_a_ram_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        '__attribute__((section(".quick"), used)) int quick(int x) { return 3 * x; }\n'
        "int main(void) { return quick(2); }\n"
    )
    (tmp_path / "a.ld").write_text(
        "MEMORY { F (rx) : ORIGIN = 0x10000100, LENGTH = 1M  R (rwx) : ORIGIN = 0x20000000,\n"
        "LENGTH = 64K }\n"
        "SECTIONS { .text : { *(.text*) } > F  .quick : { KEEP(*(.quick)) } > R\n"
        "/DISCARD/ : { *(.ARM.*) *(.eh_frame*) } }\nENTRY(main)\n"
    )
    flags = ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0plus", "-nostdlib", "-O1")
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", *flags, "-Wl,-T,a.ld", "a.c", "-o", "a.elf"],
        cwd=tmp_path,
        check=True,
    )
    memory = PICO.memory
    program = Program((tmp_path / "a.elf").read_bytes(), PICO.processor)
    with pytest.raises(BoardError, match=r"section \.quick: its load addresses 0x20000000"):
        program.hex(memory.flash_begins, memory.flash, memory.beside)


MEMORIES = (
    Part(".eeprom", 0x81_0000, b"\x05\x06"),
    Part(".fuse", 0x82_0000, b"\xff\xde\xfd"),
    Part(".lock", 0x83_0000, b"\xff"),
    Part(".signature", 0x84_0000, b"\x0f\x95\x1e"),
)


def test_contents_of_other_memories_of_an_avr_are_left_out_and_named() -> None:
    program = Program(elf(Part(".text", 0, b"code"), *MEMORIES), UNO.processor)
    memory = UNO.memory
    window = memory.flash_begins, memory.flash
    assert parse(program.hex(*window, memory.beside), memory.flash) == b"code"
    assert program.flash_bytes(*window) == 4
    said = program.left_out(UNO).splitlines()
    assert [line.partition(", which")[0] for line in said] == [
        "warning: the program has 2 bytes for the EEPROM",
        "warning: the program has 3 bytes for the fuses",
        "warning: the program has 1 bytes for the lock bits",
        "warning: the program has 3 bytes for the signature",
    ]
    assert Program(elf(Part(".text", 0, b"code")), "avr").left_out(UNO) == ""


def test_no_other_board_has_the_memories_of_an_avr() -> None:
    program = Program(elf(Part(".text", 0x1000_0100, b"code"), MEMORIES[0], machine=ARM))
    memory = PICO.memory
    with pytest.raises(BoardError, match=r"section \.eeprom: its load addresses 0x810000"):
        program.hex(memory.flash_begins, memory.flash, memory.beside)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (elf(TEXT, machine=X86), "ELF number 3, but avr has number 83"),
        (elf(TEXT, machine=ARM), "ELF number 40, but avr has number 83"),
        (elf(TEXT, kind=RELOCATABLE), "of type 1, but an executable program has type 2"),
        (b"\x7fELF\x02\x01" + bytes(60), "no ELF file of 32 bits"),
        (b"", "no ELF file of 32 bits"),
    ],
)
def test_another_kind_of_file_is_no_program(program: bytes, said: str) -> None:
    with pytest.raises(BoardError, match=said):
        Program(program, "avr")


def test_a_processor_that_rtsim_does_not_know_may_have_any_machine() -> None:
    assert Program(elf(TEXT, machine=X86), "z80").sections


def test_a_truncated_program_is_an_error_at_each_length() -> None:
    whole = elf(TEXT, Part(".data", BEGINS + 12, b"ab"))
    for length in range(len(whole)):
        with pytest.raises(BoardError, match=r"truncated|no ELF file|link it"):
            Program(whole[:length])


def test_contents_beyond_the_end_of_the_file_are_an_error() -> None:
    whole = elf(TEXT)
    first = whole.rindex(struct.pack("<2I", BITS, ALLOCATED)) + 16
    longer = whole[:first] + struct.pack("<I", 5000) + whole[first + 4 :]
    with pytest.raises(BoardError, match=r"section \.text ends at byte 5084 of a file of"):
        Program(longer)


def test_a_program_without_a_table_of_sections_is_an_error() -> None:
    whole = bytearray(elf(TEXT))
    whole[48:50] = b"\0\0"
    with pytest.raises(BoardError, match="no table of sections"):
        Program(bytes(whole))


@with_avr_gcc
def test_initial_contents_of_the_eeprom_are_a_warning_of_the_build(tmp_path: Path) -> None:
    """avrdude writes the image into the flash, and no board gets this EEPROM from rtsim."""
    (tmp_path / "kept.c").write_text(
        '#include "kept.h"\n#include <avr/eeprom.h>\n'
        "EEMEM uint16_t first_value = 7;\n"
        "float kept_step(float u) { return u + eeprom_read_word(&first_value); }\n"
    )
    (tmp_path / "kept.h").write_text("float kept_step(float u);\n")
    (tmp_path / "kept.toml").write_text(
        'name = "kept"\nperiod = 0.01\nsources = ["kept.c"]\nheaders = ["kept.h"]\n'
        'real = "float32"\n[code]\nstep = "y = kept_step(u)"\n[inputs]\nu = {}\n[outputs]\ny = {}\n'
    )
    made = firmware(tmp_path / "kept.toml")
    assert "2 bytes for the EEPROM" in made.warnings
    assert parse(made.path.read_text(), UNO.memory.flash)
