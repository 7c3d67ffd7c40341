"""Images that ship, so that an emulated board needs no toolchain (:mod:`hitl.firmware.shipping`).

They are known by the hash of all files of their sketch: a changed byte of C asks for a build.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hitl.firmware.sketch import Sketch

FOLDER = Path(__file__).parent / "images"
MANIFEST = FOLDER / "manifest.json"


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
