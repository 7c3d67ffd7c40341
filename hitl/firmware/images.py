"""Images that ship, so that an emulated board needs no toolchain.

``python -m hitl.firmware.images`` builds them anew; a test does too, and compares what they do.
They are known by the hash of all files of their sketch: a changed byte of C asks for a build.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from hitl.firmware.compiling import compiled
from hitl.firmware.sketch import Sketch, sketch_of
from hitl.interface import load_interface

FOLDER = Path(__file__).parent / "images"
MANIFEST = FOLDER / "manifest.json"
SHIPPED = (
    ("firmware/core/f16_control.toml:single", 500_000),
    ("firmware/core/f16_control.toml:single", 115_200),
    ("firmware/core/pid.toml:single", 500_000),
    ("firmware/core/unstable_control.toml:single", 500_000),
)
"""Interface and baud rate of each."""


@dataclass(frozen=True)
class Shipped:
    """One image's line in the manifest; ``key`` is its sketch's."""

    file: str
    interface: str
    baud: int
    build: int
    flash_bytes: int
    ram_bytes: int
    compiler: str
    key: str

    @property
    def path(self) -> Path:
        return FOLDER / self.file


def manifest() -> list[Shipped]:
    """All images that ship."""
    if not MANIFEST.is_file():
        return []
    return [Shipped(**row) for row in json.loads(MANIFEST.read_text(encoding="utf-8"))]


def shipped(sketch: Sketch) -> Shipped | None:
    """The image of exactly this sketch."""
    return next((image for image in manifest() if image.key == sketch.key), None)


def build_all() -> list[Shipped]:
    """Build them, and write the manifest."""
    rows = []
    for reference, baud in SHIPPED:
        interface = load_interface(reference)
        sketch = sketch_of(interface, baud)
        image = compiled(sketch)
        file = f"{interface.name}_{interface.variant}_{baud}.hex"
        shutil.copyfile(image.path, FOLDER / file)
        sizes = image.flash_bytes, image.ram_bytes
        rows.append(Shipped(file, reference, baud, sketch.build, *sizes, image.compiler, sketch.key))
    text = json.dumps([asdict(row) for row in rows], indent=2)
    MANIFEST.write_text(text + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    for row in build_all():
        print(f"{row.file}: {row.flash_bytes} bytes of flash, {row.ram_bytes} of RAM")
