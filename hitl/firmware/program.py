"""Read a linked program, an ELF file of 32 bits, and write its flash as Intel HEX.

Source: System V Application Binary Interface, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hitl.boards.contract import BoardError

_RECORD = 16
_NO_BITS, _ALLOCATED, _LOAD = 8, 2, 1


@dataclass(frozen=True)
class _Section:
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int


class Program:
    """A linked program; ``data`` is the contents of its ELF file.

    Raises :class:`BoardError` if ``data`` is no ELF file of 32 bits in little-endian order.
    """

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x01\x01":
            raise BoardError("the linker wrote no ELF file of 32 bits; use another compiler")
        self._data = data
        segments, sections = struct.unpack_from("<2I", data, 28)
        self._loads = [row for row in self._table(segments, 42, "<8I") if row[0] == _LOAD]
        rows = list(self._table(sections, 46, "<10I"))
        (names,) = struct.unpack_from("<H", data, 50)
        self.sections = tuple(
            _Section(self._text(rows[names][4] + row[0]), row[1], row[2], row[3], row[4], row[5])
            for row in rows
        )

    def size(self, names: Iterable[str]) -> int:
        """Return the bytes of the sections ``names``, which are without their leading dot."""
        wanted = {f".{name}" for name in names}
        return sum(section.size for section in self.sections if section.name in wanted)

    def hex(self, begins: int, size: int) -> str:
        """Return the Intel HEX text of the ``size`` bytes of flash from the address ``begins``."""
        lines, upper = [], 0
        for address, data in self._flash(begins, begins + size):
            for at in range(0, len(data), _RECORD):
                here = address + at
                if here >> 16 != upper:
                    upper = here >> 16
                    lines.append(_record(4, 0, upper.to_bytes(2, "big")))
                lines.append(_record(0, here & 0xFFFF, data[at : at + _RECORD]))
        return "\r\n".join([*lines, _record(1, 0, b""), ""])

    def _flash(self, begins: int, ends: int) -> Iterator[tuple[int, bytes]]:
        """Yield each section in the flash with its address there, in the order of addresses."""
        found = []
        for section in self.sections:
            empty = section.type == _NO_BITS or not section.size
            if section.flags & _ALLOCATED and not empty:
                address = self._loaded(section)
                if begins <= address < ends:
                    end = section.offset + section.size
                    found.append((address, self._data[section.offset : end]))
        yield from sorted(found)

    def _loaded(self, section: _Section) -> int:
        """Return the address at which the file is to be loaded (LMA)."""
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
