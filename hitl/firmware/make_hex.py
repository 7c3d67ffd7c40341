"""Write the image of a linked program: ``python -m hitl.firmware.make_hex BOARD PROGRAM IMAGE``.

Makefiles use this module if the compiler is a Python package.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hitl.boards.known import board_named
from hitl.firmware.program import Program


def main(board: str, program: str, image: str) -> None:
    """Write the flash of an ELF file to an Intel HEX file."""
    described = board_named(board)
    memory = described.memory
    linked = Program(Path(program).read_bytes(), described.processor)
    window = memory.flash_begins, memory.flash
    text = linked.hex(*window, memory.beside)
    Path(image).write_text(text, encoding="ascii", newline="")
    flash, ram = linked.flash_bytes(*window), linked.size(memory.ram_sections)
    print(linked.left_out(described), end="", file=sys.stderr)
    print(f"{flash} bytes of flash, {ram} bytes of static RAM")


if __name__ == "__main__":
    main(*sys.argv[1:4])
