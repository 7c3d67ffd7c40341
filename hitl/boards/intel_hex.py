"""Read flash images in the format Intel HEX, with one record ``:LLAAAATTDD...CC`` per line.

A file in another format or for another processor is rejected. Without this check, a processor would
execute the wrong image.
"""

from __future__ import annotations

import struct
from pathlib import Path

from hitl.boards.avr import VECTORS_OF_OTHERS
from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import BOARDS, DEFAULT_BOARD, board_named

_DATA, _END, _SEGMENT, _START_SEGMENT, _LINEAR, _START_LINEAR = range(6)
_MOST_FILE_BYTES = 1 << 20
_WINDOW = 1 << 16
"""Number of bytes that records can address relative to the last segment or linear address."""
_BYTES_OF_TEXT = 16
"""Greatest number of characters in a file per byte of flash, reached with one record per byte."""
_ELF, _UF2 = b"\x7fELF", b"UF2\n"
_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 83: "AVR", 94: "Xtensa", 183: "ARM", 243: "RISC-V"}
"""Processors of ELF files, by the machine number in the file header."""
_FAMILIES = {"avr": "AVR", "cortex": "ARM", "arm": "ARM", "riscv": "RISC-V", "xtensa": "Xtensa"}
"""Families of board processors, by the first letters of their names."""
_TOOLS = {"AVR": "avr-objcopy", "ARM": "arm-none-eabi-objcopy"}
_JMP = b"\x0c\x94"
"""First word of the AVR instruction JMP, with which avr-gcc fills each interrupt vector."""
_VECTOR_BYTES = 4
_NEAR_BYTES = 128 << 10
"""Flash size up to which function pointers reach. In larger flash, avr-gcc puts jumps after the
vectors.
"""


class _Outside(BoardError):
    def __init__(self, text: str, address: int) -> None:
        super().__init__(text)
        self.address = address


def read_image(
    path: Path, board: BoardDescription = DEFAULT_BOARD, *, boot_loader: bool = False
) -> bytes:
    """Return the image for a board from an Intel HEX file.

    The image begins at the first address of the flash, and gaps contain 0xff. With ``boot_loader``,
    the image must not overlap the boot loader. Raises ``BoardError`` if the file cannot be read, is
    invalid, is too large, or is for another processor.
    """
    memory = board.memory
    flash = memory.room if boot_loader else memory.flash
    most = max(_MOST_FILE_BYTES, _BYTES_OF_TEXT * flash)
    try:
        with path.open("rb") as file:
            text = file.read(most + 1)
    except OSError as error:
        raise BoardError(f"cannot read the firmware file {path}: {error.strerror}") from None
    if why := _other_format(path, text, board):
        raise BoardError(f"{path} {why}")
    if len(text) > most:
        raise BoardError(
            f"{path} is larger than {most} bytes, the limit for firmware; give an Intel HEX file"
        )
    try:
        image = parse(
            text.decode("ascii", "replace"), flash, str(path), memory.flash_begins, board.phrase
        )
    except _Outside as error:
        raise BoardError(f"{error}; {_elsewhere(error.address, board)}") from None
    _check_vectors(path, image, board)
    return image


def _other_format(path: Path, data: bytes, board: BoardDescription) -> str:
    if not data.strip():
        return "is empty; build the firmware again"
    if data.startswith(_ELF):
        (machine,) = struct.unpack_from("<H", data.ljust(20, b"\0"), 18)
        name = _MACHINES.get(machine, f"the machine number {machine}")
        ours = next((v for k, v in _FAMILIES.items() if board.processor.startswith(k)), name)
        if name != ours:
            return (
                f"is an ELF file for {name}, but {board.phrase} has the processor {board.mcu} "
                f"({ours}); build the firmware for {board.phrase}"
            )
        return (
            f"is an ELF file, not Intel HEX; type: {_TOOLS.get(name, 'objcopy')} -O ihex -R "
            f".eeprom {path.name} {path.stem}.hex   and give {path.stem}.hex"
        )
    if data.startswith(_UF2):
        return (
            "is a UF2 file, which a boot loader takes (Raspberry Pi Pico); give the Intel HEX file "
            f"of a build for {board.phrase}"
        )
    if data.lstrip()[:1] != b":":
        return (
            "is not Intel HEX, whose lines begin with a colon; give the HEX file that the build "
            f"wrote, or build one: rtsim board build SKETCH.ino --board {board.name}"
        )
    return ""


def _elsewhere(address: int, board: BoardDescription) -> str:
    fits = [
        other
        for other in map(board_named, BOARDS)
        if 0 <= address - other.memory.flash_begins < other.memory.flash and other.mcu != board.mcu
    ]
    build = f"build the firmware for {board.phrase}, or make it smaller"
    if not fits:
        return build
    names = " or ".join(f"{other.phrase} ({other.url})" for other in fits)
    return f"the flash of {names} has this address: {build}"


def _check_vectors(path: Path, image: bytes, board: BoardDescription) -> None:
    found = 0
    while image.startswith(_JMP, _VECTOR_BYTES * found):
        found += 1
    if not board.vectors or _has_vectors(board, found):
        return
    whose = VECTORS_OF_OTHERS.get(found, "")
    for other in map(board_named, BOARDS):
        if not whose and other.vectors and _has_vectors(other, found):
            whose = f"{other.phrase} ({other.mcu}, {other.url})"
    if whose:
        raise BoardError(
            f"{path} has the interrupt vectors of {whose}, but {board.phrase} has an {board.mcu}; "
            f"build the firmware for {board.phrase}, or choose the board for which it was built"
        )


def _has_vectors(board: BoardDescription, found: int) -> bool:
    jumps_follow = board.memory.flash > _NEAR_BYTES and found > board.vectors
    return found == board.vectors or jumps_follow


def parse(
    text: str, flash: int, name: str = "image", begins: int = 0, phrase: str = "the board"
) -> bytes:
    """Return the bytes of all Intel HEX records in ``text``.

    The result has at most ``flash`` bytes from the address ``begins`` on; gaps contain 0xff. Raises
    :class:`BoardError` with ``name`` and the line number for a malformed record, a wrong checksum,
    a byte outside the flash of ``phrase``, an address that occurs twice, or a missing end record.
    """
    image, given = bytearray(), bytearray(flash)
    base, ended = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        if ended:
            raise BoardError(
                f"{where}: this line comes after the end record, which must be last; build the "
                "firmware again"
            )
        kind, address, data = _record(line.strip(), where)
        if kind == _DATA:
            if address + len(data) > _WINDOW:
                raise BoardError(
                    f"{where}: the record extends beyond its segment of {_WINDOW} bytes, so the "
                    "addresses of its last bytes are ambiguous; build the firmware again"
                )
            _place(image, given, base + address, data, begins, f"{where}: the record", phrase)
        elif kind in (_SEGMENT, _LINEAR) and len(data) == 2:
            base = int.from_bytes(data, "big") << (4 if kind == _SEGMENT else 16)
        elif kind == _END:
            ended = True
        elif kind not in (_START_SEGMENT, _START_LINEAR):
            raise BoardError(
                f"{where}: a record of type {kind} with {len(data)} bytes is not an Intel HEX "
                "record"
            )
    if not ended:
        raise BoardError(
            f"{name} has no end record: the file is truncated; copy it again, or build the "
            "firmware again"
        )
    if not image:
        raise BoardError(f"{name} contains no program bytes; build the firmware again")
    return bytes(image)


def _record(line: str, where: str) -> tuple[int, int, bytes]:
    try:
        raw = bytes.fromhex(line[1:]) if line[0] == ":" else b""
    except ValueError:
        raw = b""
    if len(raw) < 5 or " " in line:
        raise BoardError(
            f"{where}: this line is not an Intel HEX record; the file is truncated or damaged: "
            "copy it again, or build the firmware again"
        )
    if len(raw) != raw[0] + 5:
        raise BoardError(
            f"{where}: the record has {len(raw) - 5} data bytes, but declares {raw[0]}; the file "
            "is truncated or damaged: copy it again, or build the firmware again"
        )
    if sum(raw) % 256:
        raise BoardError(f"{where}: wrong checksum; the file is damaged, build the firmware again")
    return raw[3], int.from_bytes(raw[1:3], "big"), raw[4:-1]


def _place(
    image: bytearray, given: bytearray, address: int, data: bytes, begins: int, where: str,
    phrase: str,
) -> None:  # fmt: skip
    start, flash = address - begins, len(given)
    end = start + len(data)
    if start < 0 or end > flash:
        raise _Outside(
            f"{where} has data at {address:#x} to {address + len(data) - 1:#x}, outside the flash "
            f"of {phrase} ({flash} bytes at {begins:#x} to {begins + flash - 1:#x})",
            address,
        )
    if any(given[start:end]):
        twice = given.index(1, start)
        raise BoardError(
            f"{where} sets byte {twice} of the flash, which an earlier record has already set; "
            "build the firmware again"
        )
    image.extend(b"\xff" * (end - len(image)))
    image[start:end] = data
    given[start:end] = b"\x01" * len(data)
