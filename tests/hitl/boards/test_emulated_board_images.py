"""Intel HEX, and the images that are checked in: the ones that their sources make."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from emulated_board_parts import IMAGES
from firmware_parts import with_avr_gcc

from hitl.boards import BoardError
from hitl.boards.avr import UNO
from hitl.boards.intel_hex import parse, read_image

FLASH = UNO.memory.flash
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
            "image:1: the record ends at byte 65, but the board has 64 bytes",
        ),
        (
            record(0, b"\xff\xff", 4) + record(0, b"a") + END,
            "image:2: the record ends at byte 4294901761",
        ),
        (
            record(0, b"ab") + record(1, b"c") + END,
            "image:2: an earlier record has already set byte 1 of the flash",
        ),
        (record(0, b"ab", 9) + END, "image:1: a record of type 9 with 2 bytes"),
        (record(0xFFFF, b"ab") + END, "image:1: the record passes the end of its 65536 bytes"),
    ],
)
def test_a_damaged_image_is_refused(text: str, said: str) -> None:
    with pytest.raises(BoardError, match=said):
        parse(text, 64)


def test_a_file_that_is_no_image(tmp_path: Path) -> None:
    huge = tmp_path / "huge.hex"
    huge.write_bytes(b"\n" * ((1 << 20) + 1))
    with pytest.raises(BoardError, match="larger than 1048576 bytes"):
        read_image(huge, FLASH)


def test_a_file_may_be_as_large_as_an_image_of_all_flash(tmp_path: Path) -> None:
    """A Pico has 2 MiB of flash; the text of such an image has three times as many characters."""
    data, size = bytes(range(1, 17)), 0x8_0000
    rows = []
    for at in range(0, size, len(data)):
        if at % 0x1_0000 == 0:
            rows.append(record(0, (at >> 16).to_bytes(2, "big"), 4))
        rows.append(record(at % 0x1_0000, data))
    (tmp_path / "full.hex").write_text("".join(rows) + END)
    assert read_image(tmp_path / "full.hex", size) == data * (size // len(data))


@with_avr_gcc
def test_the_images_are_what_their_sources_make(tmp_path: Path) -> None:
    """By content where the compiler is the one of Debian 12; by being built, with any other."""
    said = subprocess.run(
        ["make", "-s", "-C", IMAGES, f"OUT={tmp_path}"], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    built = {path.name: read_image(path, FLASH) for path in tmp_path.glob("*.hex")}
    kept = {path.name: read_image(path, FLASH) for path in IMAGES.glob("*.hex")}
    assert built.keys() == kept.keys()
    version = subprocess.run(["avr-gcc", "-dumpversion"], capture_output=True, text=True)
    if version.stdout.strip() == "5.4.0":
        assert built == kept
