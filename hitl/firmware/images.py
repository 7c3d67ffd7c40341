"""Find the images that ship with rtsim, so that an emulated board needs no compiler.

An image is identified by the hash of all files of its sketch.  If a byte of the C code changes, no
shipped image fits, and the firmware must be built.  :mod:`hitl.firmware.shipping` makes the images.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hitl.firmware.sketch import Sketch

FOLDER = Path(__file__).parent / "images"
MANIFEST = FOLDER / "manifest.json"
NOTICE = FOLDER / "NOTICE.md"
"""The licences of the libraries in the images; it has to accompany each copy of an image."""
CORE_SOURCES = FOLDER / "ArduinoCore-avr.tar.xz"
"""The sources of the Arduino core that the images contain."""


@dataclass(frozen=True)
class Shipped:
    """The entry of one image in the manifest; ``key`` is the hash of its sketch."""

    file: str
    interface: str
    baud: int
    build: int
    flash_bytes: int
    ram_bytes: int
    compiler: str
    key: str
    board: str

    @property
    def path(self) -> Path:
        """Path of the Intel HEX file."""
        return FOLDER / self.file


def manifest() -> list[Shipped]:
    """Return the entries of all shipped images."""
    if not MANIFEST.is_file():
        return []
    return [Shipped(**row) for row in json.loads(MANIFEST.read_text(encoding="utf-8"))]


def shipped(sketch: Sketch) -> Shipped | None:
    """Return the shipped image of exactly this sketch, or ``None``."""
    return next((image for image in manifest() if image.key == sketch.key), None)
