"""Read a linked program (a 32-bit ELF file), and write its flash as Intel HEX.

Source: System V Application Binary Interface, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription

_RECORD = 16
_NO_BITS, _ALLOCATED, _LOAD = 8, 2, 1
_EXECUTABLE = 2
_MACHINES = {"avr": 83, "cortex": 40, "arm": 40, "riscv": 243, "xtensa": 94}
"""Machine number in an ELF file, by the first letters of a board's processor."""

NOTHING: Mapping[str, tuple[int, int]] = {}


@dataclass(frozen=True)
class _Section:
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int

    @property
    def has_contents(self) -> bool:
        return bool(self.flags & _ALLOCATED and self.type != _NO_BITS and self.size)


class Program:
    """A linked program; ``data`` contains its ELF file.

    ``processor`` is the processor of the board, or "" for any. Raises ``BoardError`` unless
    ``data`` is a complete 32-bit little-endian ELF file for this processor.
    """

    def __init__(self, data: bytes, processor: str = "") -> None:
        if data[:6] != b"\x7fELF\x01\x01":
            raise BoardError("the linker wrote no ELF file of 32 bits; use another compiler")
        self._data = data
        try:
            self._read(processor)
        except (struct.error, IndexError, ValueError):
            raise BoardError(
                f"the linked program is truncated or damaged: its tables do not lie within its "
                f"{len(data)} bytes; link it again"
            ) from None
        for section in self.sections:
            if section.has_contents and section.offset + section.size > len(data):
                raise BoardError(
                    f"the linked program is truncated: section {section.name} ends at byte "
                    f"{section.offset + section.size} of a file of {len(data)} bytes; link it again"
                )

    def _read(self, processor: str) -> None:
        kind, machine = struct.unpack_from("<2H", self._data, 16)
        if kind != _EXECUTABLE:
            raise BoardError(
                f"the ELF file is of type {kind}, but an executable program has type "
                f"{_EXECUTABLE}; link the program with fixed addresses"
            )
        wanted = next((m for name, m in _MACHINES.items() if processor.startswith(name)), machine)
        if machine != wanted:
            raise BoardError(
                f"the program is for the machine with ELF number {machine}, but {processor} has "
                f"number {wanted}; use the compiler of the board"
            )
        segments, sections = struct.unpack_from("<2I", self._data, 28)
        self._loads = [row for row in self._table(segments, 42, "<8I") if row[0] == _LOAD]
        rows = list(self._table(sections, 46, "<10I"))
        (names,) = struct.unpack_from("<H", self._data, 50)
        if not rows:
            raise BoardError("the program has no table of sections; link it without stripping it")
        self.sections = tuple(
            _Section(self._text(rows[names][4] + row[0]), row[1], row[2], row[3], row[4], row[5])
            for row in rows
        )

    def size(self, names: Iterable[str]) -> int:
        """Return the total size (bytes) of sections."""
        wanted = {f".{name}" for name in names}
        return sum(section.size for section in self.sections if section.name in wanted)

    def flash_bytes(self, begins: int, size: int) -> int:
        parts = self._parts()
        return sum(len(data) for at, _, data in parts if begins <= at < begins + size)

    def left_out(self, board: BoardDescription) -> str:
        """Return a warning for each memory besides flash and RAM that the program uses.

        The flash image does not contain bytes for other memories. Returns "" if there are none.
        """
        counts: dict[str, int] = {}
        for at, _, data in self._parts():
            for name, (first, end) in board.memory.beside.items():
                if first <= at < end:
                    counts[name] = counts.get(name, 0) + len(data)
        return "".join(
            f"warning: the program has {count} bytes for the {name}, which are not in the image "
            f"of the flash: {board.phrase} keeps what is there; set the {name} in another way\n"
            for name, count in counts.items()
        )

    def hex(self, begins: int, size: int, beside: Mapping[str, tuple[int, int]] = NOTHING) -> str:
        """Return the flash of the program as Intel HEX.

        The flash has ``size`` bytes from the address ``begins`` on. ``beside`` contains the address
        ranges of other memories, by name. Bytes in these memories are omitted. Raises
        ``BoardError`` for bytes outside the flash and for overlapping sections.
        """
        lines, upper = [], 0
        for address, data in self._flash(begins, begins + size, beside):
            for at in range(0, len(data), _RECORD):
                here = address + at
                if here >> 16 != upper:
                    upper = here >> 16
                    lines.append(_record(4, 0, upper.to_bytes(2, "big")))
                lines.append(_record(0, here & 0xFFFF, data[at : at + _RECORD]))
        return "\r\n".join([*lines, _record(1, 0, b""), ""])

    def _flash(
        self, begins: int, ends: int, beside: Mapping[str, tuple[int, int]]
    ) -> Iterator[tuple[int, bytes]]:
        last, reached = "", begins
        for at, name, data in self._parts():
            end = at + len(data)
            if any(first <= at and end <= after for first, after in beside.values()):
                continue
            if at < begins or end > ends:
                raise BoardError(
                    f"the image would not contain the section {name}: its load addresses {at:#x} "
                    f"to "
                    f"{end - 1:#x} are outside the board's flash, {begins:#x} to {ends - 1:#x}; "
                    "give the section a load address in the flash, from which the start-up code "
                    "copies the section"
                )
            if at < reached:
                raise BoardError(
                    f"the sections {last} and {name} overlap at {at:#x} in the flash; change the "
                    "linker script"
                )
            last, reached = name, end
            yield at, data

    def _parts(self) -> list[tuple[int, str, bytes]]:
        found = []
        for section in self.sections:
            if section.has_contents:
                data = self._data[section.offset : section.offset + section.size]
                found.append((self._loaded(section), section.name, data))
        return sorted(found)

    def _loaded(self, section: _Section) -> int:
        for _, offset, _, address, size, *_ in self._loads:
            if offset <= section.offset < offset + size:
                return int(address + section.offset - offset)
        return section.address

    def _table(self, start: int, sizes: int, row: str) -> Iterator[tuple[int, ...]]:
        size, count = struct.unpack_from("<2H", self._data, sizes)
        for k in range(count):
            yield struct.unpack_from(row, self._data, start + k * size)

    def _text(self, start: int) -> str:
        return self._data[start : self._data.index(0, start)].decode("ascii", "replace")


def _record(kind: int, address: int, data: bytes) -> str:
    body = bytes([len(data)]) + address.to_bytes(2, "big") + bytes([kind]) + data
    return ":" + (body + bytes([-sum(body) % 256])).hex().upper()
