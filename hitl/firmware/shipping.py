"""Build the images that rtsim contains: ``python -m hitl.firmware.shipping``.

rtsim also contains the sources of the Arduino core. The licence of the core requires that users can
change it and link the images again. Tests check that images and sources are up to date.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from hitl.boards.known import DEFAULT_BOARD, board_named
from hitl.firmware.compiling import Tools, compiled
from hitl.firmware.firmware import CORE_SOURCES, FOLDER, MANIFEST, Shipped
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface

_UNO = (
    ("firmware/core/f16_control.toml:single", 500_000),
    ("firmware/core/f16_control.toml:single", 115_200),
    ("firmware/core/pid.toml:single", 500_000),
    ("firmware/core/unstable_control.toml:single", 500_000),
    ("firmware/io_node/io_node.toml", 500_000),
    ("hitl/starter/motor.toml:float", 500_000),  # this image and the following ones: docs/pitl.md
    *(
        (f"hitl/examples/processor/{name}.toml", 500_000)
        for name in ("level", "position", "position_float", "busy", "deep")
    ),
    ("hitl/examples/arduino/regulator.toml", 500_000),  # this image and the next: docs/arduino.md
    ("hitl/examples/arduino/thermostat.toml", 500_000),
)
SHIPPED = (
    *((reference, baud, DEFAULT_BOARD.name) for reference, baud in _UNO),
    ("firmware/core/f16_control.toml:single", 500_000, "nano"),
    ("firmware/io_node/io_node.toml", 500_000, "nano"),
    ("firmware/io_node/io_node_mega.toml", 500_000, "mega2560"),
    ("firmware/core/f16_control.toml:single", 500_000, "mega2560"),
    ("firmware/core/f16_control.toml", 2_000_000, "pico"),
    ("firmware/core/f16_control.toml:single", 2_000_000, "pico"),
    ("firmware/core/pid.toml:single", 2_000_000, "pico"),
)
"""Interface file, baud rate and board of each shipped image."""


def build_all() -> list[Shipped]:
    """Build all images, write the manifest, and delete old images."""
    rows = []
    for reference, baud, name in SHIPPED:
        interface, board = load_interface(reference), board_named(name)
        sketch = sketch_of(interface, baud, board)
        image = compiled(sketch)
        prefix = "" if board is DEFAULT_BOARD else name
        words = (prefix, interface.name, interface.variant, f"{baud}.hex")
        file = "_".join(filter(None, words))
        shutil.copyfile(image.path, FOLDER / file)
        sizes = image.flash_bytes, image.ram_bytes
        row = Shipped(file, reference, baud, sketch.build, *sizes, image.compiler, sketch.key, name)
        rows.append(row)
    for path in FOLDER.glob("*.hex"):
        if path.name not in {row.file for row in rows}:
            path.unlink()
    _write_core(core_sources())
    text = json.dumps([asdict(row) for row in rows], indent=2)
    MANIFEST.write_text(text + "\n", encoding="utf-8")
    return rows


def core_sources() -> dict[str, Path]:
    """Return the files of the Arduino core that the images contain.

    Paths are relative to the folder of the core. Raises ``NoTools`` if the core is not installed.
    """
    found: dict[str, Path] = {}
    for name in dict.fromkeys(board for _, _, board in SHIPPED):
        board = board_named(name)
        if board.compiler.core is not None:
            root = Tools(name, board).core_folder
            files = [p for part in board.compiler.core.parts for p in (root / part).iterdir()]
            found |= {p.relative_to(root).as_posix(): p for p in sorted(files) if p.is_file()}
    return found


def _write_core(files: Mapping[str, Path]) -> None:
    with tarfile.open(CORE_SOURCES, "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in sorted(files.items()):
            data = path.read_bytes()
            member = tarfile.TarInfo(f"{CORE_SOURCES.name.partition('.')[0]}/{name}")
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    for row in build_all():
        print(f"{row.file}: {row.flash_bytes} bytes of flash, {row.ram_bytes} bytes of RAM")
