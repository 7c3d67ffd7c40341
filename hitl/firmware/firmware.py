"""The firmware of an interface file: one that ships, else one that avr-gcc builds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hitl.firmware.compiling import compiled
from hitl.firmware.images import shipped
from hitl.firmware.sketch import sketch_of
from hitl.interface import Interface, load_interface

BAUD = 500_000


@dataclass(frozen=True)
class Firmware:
    """An image for an Uno."""

    path: Path
    """Intel HEX."""
    interface: Interface
    build: int
    """What HELLO says of it: 32 bits of the hash of its sources, at any baud rate."""
    baud: int
    flash_bytes: int
    ram_bytes: int
    """Static data; the stack has the rest of 2048."""
    compiler: str
    prebuilt: bool
    warnings: str = ""
    """What the compiler said of the controller's own C; of an image that ships nothing is known."""


def firmware(
    interface: Interface | str | Path, *, baud: int = BAUD, build: bool = False
) -> Firmware:
    """The firmware of ``interface`` at ``baud``; ``build``: even where an image ships.

    Raises :class:`NoTools` where it has to be built and tools are missing, :class:`BoardError`
    where the board is too small, :class:`InterfaceError` or :class:`BuildError` where the C does
    not compile.
    """
    if not isinstance(interface, Interface):
        interface = load_interface(interface)
    sketch = sketch_of(interface, baud)
    if not build and (image := shipped(sketch)):
        return Firmware(
            image.path, interface, sketch.build, baud, image.flash_bytes, image.ram_bytes,
            image.compiler, prebuilt=True,
        )  # fmt: skip
    made = compiled(sketch)
    return Firmware(
        made.path, interface, sketch.build, baud, made.flash_bytes, made.ram_bytes, made.compiler,
        prebuilt=False, warnings=made.warnings,
    )  # fmt: skip
