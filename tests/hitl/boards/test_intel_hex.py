"""Images of the flash: Intel HEX, and files that are something else or for another board."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from emulated_board_parts import IMAGES
from firmware_parts import with_avr_gcc

from hitl.boards import BoardError
from hitl.boards.avr import MEGA, UNO
from hitl.boards.description import BoardDescription
from hitl.boards.intel_hex import parse, read_image
from hitl.boards.pico import PICO
from hitl.firmware.firmware import FOLDER

END = ":00000001FF\n"


def record(address: int, data: bytes, kind: int = 0) -> str:
    body = bytes([len(data)]) + address.to_bytes(2, "big") + bytes([kind]) + data
    return f":{(body + bytes([-sum(body) % 256])).hex().upper()}\n"


def test_records_land_at_their_addresses() -> None:
    text = record(4, b"\x01\x02") + record(0, b"\x03") + END
    assert parse(text, 64) == b"\x03\xff\xff\xff\x01\x02"
    assert parse(text.replace("\n", "\r\n"), 64) == parse(text.lower(), 64)
    segment = record(0, b"\x00\x02", 2) + record(0, b"\x09") + END
    assert parse(segment, 64) == b"\xff" * 32 + b"\x09"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no end record"),
        (record(0, b"a"), "no end record"),
        (END, "contains no program bytes"),
        ("hello\n" + END, "image:1: this line is not an Intel HEX record"),
        (":0g\n" + END, "image:1: this line is not an Intel HEX record"),
        (":00000001FE\n", "image:1: wrong checksum"),
        (":0400000001FB\n", "image:1: the record has 1 data bytes, but declares 4"),
        (record(0, b"a") + END + record(1, b"b"), "image:3: this line comes after the end record"),
        (
            record(63, b"ab") + END,
            "image:1: the record has data at 0x3f to 0x40, outside the flash of the board",
        ),
        (
            record(0, b"\xff\xff", 4) + record(0, b"a") + END,
            "image:2: the record has data at 0xffff0000 to 0xffff0000",
        ),
        (
            record(0, b"ab") + record(1, b"c") + END,
            "image:2: the record sets byte 1 of the flash, which an earlier record",
        ),
        (record(0, b"ab", 9) + END, "image:1: a record of type 9 with 2 bytes"),
        (
            record(0xFFFF, b"ab") + END,
            "image:1: the record extends beyond its segment of 65536 bytes",
        ),
    ],
)
def test_a_damaged_image_is_refused(text: str, said: str) -> None:
    with pytest.raises(BoardError, match=said):
        parse(text, 64)


def test_a_file_that_is_no_image(tmp_path: Path) -> None:
    huge = tmp_path / "huge.hex"
    huge.write_bytes(b":" * ((1 << 20) + 1))
    with pytest.raises(BoardError, match="larger than 1048576 bytes"):
        read_image(huge)


def test_a_file_may_be_as_large_as_an_image_of_all_flash(tmp_path: Path) -> None:
    """A Pico has 2 MiB of flash; the text of such an image has three times as many characters."""
    data, size = bytes(range(1, 17)), 0x8_0000
    rows = []
    for at in range(0, size, len(data)):
        if at % 0x1_0000 == 0:
            rows.append(record(0, (at >> 16).to_bytes(2, "big"), 4))
        rows.append(record(at % 0x1_0000, data))
    (tmp_path / "full.hex").write_text("".join(rows) + END)
    board = replace(UNO, memory=replace(UNO.memory, flash=size))
    assert read_image(tmp_path / "full.hex", board) == data * (size // len(data))


def _board(path: Path) -> BoardDescription:
    return MEGA if "mega2560" in path.name else UNO


@with_avr_gcc
def test_the_images_are_what_their_sources_make(tmp_path: Path) -> None:
    """By content where the compiler is the one of Debian 12; by being built, with any other."""
    said = subprocess.run(
        ["make", "-s", "-C", IMAGES, f"OUT={tmp_path}"], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    built = {path.name: read_image(path, _board(path)) for path in tmp_path.glob("*.hex")}
    kept = {path.name: read_image(path, _board(path)) for path in IMAGES.glob("*.hex")}
    assert built.keys() == kept.keys()
    version = subprocess.run(["avr-gcc", "-dumpversion"], capture_output=True, text=True)
    if version.stdout.strip() == "5.4.0":
        assert built == kept


def elf(machine: int) -> bytes:
    return b"\x7fELF\x01\x01" + bytes(10) + struct.pack("<2H", 2, machine) + bytes(100)


OTHER = [  # a file, the board, and what is said
    (b"", UNO, "is empty; build the firmware again"),
    (b" \n", UNO, "is empty"),
    (b"UF2\n\x57\x51\x5d\x9e", UNO, "is a UF2 file.*the Intel HEX file of a build for an Uno"),
    (elf(83), UNO, r"is an ELF file, not .* type: avr-objcopy -O ihex -R .eeprom a.hex a.hex"),
    (elf(40), PICO, "is an ELF file, not Intel HEX; type: arm-none-eabi-objcopy"),
    (elf(40), UNO, r"is an ELF file for ARM, .* ATmega328P \(AVR\); build .* for an Uno"),
    (elf(62), UNO, "is an ELF file for x86-64"),
    (elf(83), PICO, r"is an ELF file for AVR, .* RP2040 \(ARM\); build the firmware for a Pico"),
    (b"\x7fELF", UNO, "is an ELF file for the machine number 0"),
    (b"void setup() {}", UNO, "is not Intel HEX.*rtsim board build SKETCH.ino --board uno"),
    (b"\x00\x01\xff", UNO, "is not Intel HEX"),
]


@pytest.mark.parametrize(("data", "board", "said"), OTHER)
def test_a_file_of_another_format_is_named_with_the_remedy(
    data: bytes, board: BoardDescription, said: str, tmp_path: Path
) -> None:
    (tmp_path / "a.hex").write_bytes(data)
    with pytest.raises(BoardError, match=rf"a\.hex {said}"):
        read_image(tmp_path / "a.hex", board)


@pytest.mark.parametrize("kept", [5000, 5003, 5044])
def test_a_truncated_image_is_called_so(kept: int, tmp_path: Path) -> None:
    whole = (FOLDER / "thermostat_500000.hex").read_bytes()
    (tmp_path / "a.hex").write_bytes(whole[:kept])
    with pytest.raises(BoardError, match=r"truncated.*: ?;? ?copy it again, or build the firmware"):
        read_image(tmp_path / "a.hex")


IMAGES_OF_OTHERS = [
    ("mega2560_io_node_500000", "uno", r"vectors of a Mega 2560 \(ATmega2560, board:mega2560\)"),
    ("io_node_500000", "mega2560", r"vectors of an Uno \(ATmega328P, board:uno\)"),
    ("pico_pid_single_2000000", "uno", r"flash of a Pico \(board:pico\) has this address"),
    ("io_node_500000", "pico", r"flash of an Uno .* or a Mega 2560 \(board:mega2560\) has this"),
]


@pytest.mark.parametrize(("name", "board", "said"), IMAGES_OF_OTHERS)
def test_an_image_for_another_board_is_refused_and_that_board_named(
    name: str, board: str, said: str
) -> None:
    described = {b.name: b for b in (UNO, MEGA, PICO)}[board]
    path = FOLDER / f"{name}.hex"
    with pytest.raises(BoardError, match=rf"(?s){name}\.hex.*{said}.*build the firmware for"):
        read_image(path, described)


def test_an_image_for_a_leonardo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text(_vectors(43))
    with pytest.raises(BoardError, match=r"vectors of a Leonardo or Micro .* an ATmega328P; build"):
        read_image(tmp_path / "a.hex")


@pytest.mark.parametrize("count", [0, 1, 25, 26, 27, 42])
def test_an_image_whose_vectors_are_those_of_no_other_board_is_read(
    count: int, tmp_path: Path
) -> None:
    """An assembler makes as many vectors as its author writes."""
    (tmp_path / "a.hex").write_text(_vectors(count))
    assert len(read_image(tmp_path / "a.hex")) == 4 * count + 2


def _vectors(count: int) -> str:
    code = b"\x0c\x94\x34\x00" * count + b"\x11\x24"
    rows = [record(at, code[at : at + 16]) for at in range(0, len(code), 16)]
    return "".join(rows) + END


def test_a_boot_loader_takes_its_part_of_the_flash(tmp_path: Path) -> None:
    (tmp_path / "a.hex").write_text(record(0x7E00, b"a") + END)
    assert len(read_image(tmp_path / "a.hex")) == 0x7E01
    with pytest.raises(BoardError, match=r"flash of an Uno \(32256 bytes at 0x0 to 0x7dff\)"):
        read_image(tmp_path / "a.hex", boot_loader=True)
