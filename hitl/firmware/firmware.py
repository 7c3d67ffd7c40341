"""Find the firmware of an interface file among the shipped images, or build it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD
from hitl.firmware.compiling import compiled
from hitl.firmware.images import shipped
from hitl.firmware.sketch import sketch_of
from hitl.interface import Interface, load_interface


@dataclass(frozen=True)
class Firmware:
    """A controller's image for a board."""

    path: Path
    """The Intel HEX file."""
    interface: Interface
    build: int
    """Build number in HELLO: 32 bits of the hash of the sources, independent of the baud rate."""
    baud: int
    """Rate of the serial line, bit/s."""
    flash_bytes: int
    """Flash that the image uses."""
    ram_bytes: int
    """Static data; the rest of the board's RAM is left for the stack."""
    compiler: str
    """Version of the compiler."""
    prebuilt: bool
    """True for an image that ships with rtsim."""
    warnings: str = ""
    """The compiler's warnings of the controller's own C; unknown ("") for a shipped image."""
    board: BoardDescription = field(default=DEFAULT_BOARD, repr=False)

    @property
    def stack_bytes(self) -> int:
        """RAM that is left for the stack."""
        return self.board.memory.ram - self.ram_bytes


def firmware(
    interface: Interface | str | Path, *, baud: int | None = None, build: bool = False,
    board: BoardDescription = DEFAULT_BOARD,
) -> Firmware:  # fmt: skip
    """Return the firmware of ``interface`` (an interface or its file) for ``board``.

    ``baud`` is the rate of the serial line, bit/s (``None``: the board's default rate).  A shipped
    image of exactly these sources is used if there is one, unless ``build`` is True.  Otherwise the
    image is built.  Raises :class:`hitl.firmware.compiling.NoTools` if tools for the build are
    missing, :class:`BoardError` if the board is too small, and :class:`InterfaceError` or
    :class:`BuildError` if the C code does not compile.
    """
    if not isinstance(interface, Interface):
        interface = load_interface(interface)
    sketch = sketch_of(interface, baud, board)
    baud = sketch.baud
    if not build and (image := shipped(sketch)):
        return Firmware(
            image.path, interface, sketch.build, baud, image.flash_bytes, image.ram_bytes,
            image.compiler, prebuilt=True, board=board,
        )  # fmt: skip
    made = compiled(sketch)
    return Firmware(
        made.path, interface, sketch.build, baud, made.flash_bytes, made.ram_bytes, made.compiler,
        prebuilt=False, warnings=made.warnings, board=board,
    )  # fmt: skip
