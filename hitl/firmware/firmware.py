"""Find or build the firmware of a controller, and check that it fits its target.

An image in rtsim is identified by the hash of all files of its sketch. After a change of the C
code, the firmware must be built. :mod:`hitl.firmware.shipping` builds the shipped images.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD, board_of
from hitl.building.build import build
from hitl.building.toolchain import Toolchain
from hitl.firmware.compiling import NoTools, compiled
from hitl.firmware.sketch import Sketch, sketch_of
from hitl.interface import Interface, load_interface
from hitl.interface.targets import check_target

FOLDER = Path(__file__).parent / "images"
MANIFEST = FOLDER / "manifest.json"
NOTICE = FOLDER / "NOTICE.md"
"""Licences of the libraries in the images, which must accompany each copy of an image."""
CORE_SOURCES = FOLDER / "ArduinoCore-avr.tar.xz"
"""Sources of the Arduino core that the images contain."""


@dataclass(frozen=True)
class Shipped:
    """An image in rtsim; ``key`` is the hash of its sketch."""

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
        return FOLDER / self.file


def manifest() -> list[Shipped]:
    if not MANIFEST.is_file():
        return []
    return [Shipped(**row) for row in json.loads(MANIFEST.read_text(encoding="utf-8"))]


def shipped(sketch: Sketch) -> Shipped | None:
    return next((image for image in manifest() if image.key == sketch.key), None)


@dataclass(frozen=True)
class Firmware:
    """A controller's image for a board."""

    path: Path
    interface: Interface
    build: int
    """Build number in HELLO: 32 bits of the hash of the sources, independent of the baud rate."""
    baud: int
    flash_bytes: int
    ram_bytes: int
    """Bytes of static data; the rest of the RAM is available for the stack."""
    compiler: str
    prebuilt: bool
    """True for an image that ships with rtsim."""
    warnings: str = ""
    """Compiler warnings about the controller's own C code; "" for a shipped image."""
    board: BoardDescription = field(default=DEFAULT_BOARD, repr=False)

    @property
    def stack_bytes(self) -> int:
        return self.board.memory.ram - self.ram_bytes

    def to_json(self) -> dict[str, object]:
        """Return plain data about the image."""
        return {
            "build": f"{self.build:08x}",
            "baud": self.baud,
            "flash_bytes": self.flash_bytes,
            "ram_bytes": self.ram_bytes,
            "compiler": self.compiler,
            "prebuilt": self.prebuilt,
        }


def firmware(
    interface: Interface | str | Path, *, baud: int | None = None, build: bool = False,
    board: BoardDescription = DEFAULT_BOARD,
) -> Firmware:  # fmt: skip
    """Return the firmware of ``interface`` for ``board``.

    If rtsim contains an image of the same sources, nothing is built. Otherwise, the image is built.

    Args:
        interface: An interface or the path of its file.
        baud: Bit rate of the serial line; None for the board's default.
        build: True to build the image in any case.
        board: Description of the board.

    Raises:
        NoTools: Tools for the build are not installed.
        BoardError: The board has too little memory.
        InterfaceError: The interface file and the code do not match.
        BuildError: The C code does not compile.
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


# A controller fits a target if it compiles and links, and if flash and RAM suffice.

HOST = "host"


@dataclass(frozen=True)
class Fit:
    """Result of a check without errors; parts of the check may be undecided."""

    checked: tuple[str, ...]
    unchecked: str = ""
    """Properties that could not be checked, with the reason; "" if there are none."""
    warnings: str = ""

    @property
    def decided(self) -> bool:
        return not self.unchecked


def fit(
    interface: Interface, target: str = HOST, toolchain: Toolchain | None = None,
    board: BoardDescription | None = None,
) -> Fit:  # fmt: skip
    """Check that a controller compiles, links and fits ``target``.

    The build is cached.

    Args:
        interface: Interface of the controller.
        target: ``"host"`` or a family of processors, such as ``"avr"``. A family stands for its
            first board.
        toolchain: Compiler of the host.
        board: Board to use in place of ``target``.

    Raises:
        InterfaceError, BuildError, BoardError: The controller does not fit the target.
        CannotBuild: No compiler works.
    """
    if board is None:
        check_target(interface, target)
        if target == HOST:
            return _on_host(interface, toolchain)
        board = board_of(target)
    target = board.target.name
    check_target(interface, board.target)
    try:
        made = firmware(interface, board=board)
    except NoTools as error:
        host = _on_host(interface, toolchain)
        checked = (f"the types of its signals for {target}", *host.checked)
        return Fit(checked, f"the build for {target} and its size: {error}", host.warnings)
    return Fit((_built(made), _room(made)), warnings=made.warnings)


def _on_host(interface: Interface, toolchain: Toolchain | None) -> Fit:
    made = build(interface, toolchain=toolchain)
    return Fit((f"compiled and linked for this host by {made.compiler}",), warnings=made.warnings)


def _built(made: Firmware) -> str:
    image = "; the image of these sources ships with rtsim" if made.prebuilt else ""
    return f"compiled and linked for {made.board.phrase} by {made.compiler}{image}"


def _room(made: Firmware) -> str:
    return (
        f"{made.flash_bytes} bytes of flash, {made.ram_bytes} bytes of static RAM; "
        f"{made.stack_bytes} bytes of RAM are left for the stack"
    )
