"""Build the images that ship with rtsim: ``python -m hitl.firmware.shipping``.

A test checks that the images are up to date.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict

from hitl.firmware.compiling import compiled
from hitl.firmware.images import FOLDER, MANIFEST, Shipped
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface

SHIPPED = (
    ("firmware/core/f16_control.toml:single", 500_000),
    ("firmware/core/f16_control.toml:single", 115_200),
    ("firmware/core/pid.toml:single", 500_000),
    ("firmware/core/unstable_control.toml:single", 500_000),
    ("firmware/io_node/io_node.toml", 500_000),
    ("hitl/starter/motor.toml:float", 500_000),  # this and the following: docs/pitl.md
    *(
        (f"hitl/examples/processor/{name}.toml", 500_000)
        for name in ("level", "position", "position_float", "busy", "deep")
    ),
)
"""Interface file and baud rate of each shipped image."""


def build_all() -> list[Shipped]:
    """Build all images, write the manifest, and remove images that no longer ship."""
    rows = []
    for reference, baud in SHIPPED:
        interface = load_interface(reference)
        sketch = sketch_of(interface, baud)
        image = compiled(sketch)
        file = "_".join(filter(None, (interface.name, interface.variant, f"{baud}.hex")))
        shutil.copyfile(image.path, FOLDER / file)
        sizes = image.flash_bytes, image.ram_bytes
        row = Shipped(file, reference, baud, sketch.build, *sizes, image.compiler, sketch.key)
        rows.append(row)
    for path in FOLDER.glob("*.hex"):
        if path.name not in {row.file for row in rows}:
            path.unlink()
    text = json.dumps([asdict(row) for row in rows], indent=2)
    MANIFEST.write_text(text + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    for row in build_all():
        print(f"{row.file}: {row.flash_bytes} bytes of flash, {row.ram_bytes} bytes of RAM")
