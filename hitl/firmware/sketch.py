"""Write a controller's sketch: a folder that make, and for an Arduino also its tools, can build.

::

    NAME/NAME.ino                the board's main file: the serial line, and sleep
    NAME/src/rtsim/              dispatcher, protocol and the HAL: the files for the board
    NAME/src/controller/         the generated unit, the controller's sources and headers
    NAME/Makefile                for the board's compiler
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hitl.boards import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD
from hitl.building.unit import ARDUINO, SUPPORT
from hitl.firmware.flags import makefile
from hitl.firmware.sources import Flags, Support, gathered, prologue, text_of
from hitl.firmware.unit import ARDUINO_HEADER, SKETCH_HEADER, unit_text
from hitl.interface import Interface
from hitl.interface.shipped import FIRMWARE
from hitl.interface.targets import check_target
from hitl.protocol.line import BaudRate
from hitl.protocol.messages import MOST_PAYLOAD
from hitl.protocol.session import payload_needed

LEAST_PAYLOAD = 64
"""Lower limit of the largest payload, bytes; START sends the parameters in such pieces."""
UNIT, CPP_UNIT = "rtsim_unit.c", "rtsim_unit.cpp"
SHARED_FOLDER = "src/rtsim"
"""Folder of the dispatcher, the protocol and the HAL in a sketch."""
CONTROLLER_FOLDER = "src/controller"
"""Folder of the unit and of the controller's own files in a sketch."""
_RTSIM, _CONTROLLER = f"{SHARED_FOLDER}/", f"{CONTROLLER_FOLDER}/"
_MARK = _RTSIM + "board.h"
SHARED = ("board.c", "board.h", "protocol.c", "protocol.h", "messages.h")
"""Files of ``firmware/src/rtsim`` that every sketch has."""
CHECKS, CPP_CHECKS = "rtsim_checks.h", "rtsim_checks_cpp.h"
_BOARD_CLOCK = tuple(ARDUINO / name for name in ("clock_board.cpp", "text.cpp"))
_CORE_CLOCK = (ARDUINO / "clock_core.cpp",)
_PINS = ARDUINO / "rtsim_arduino.cpp"


@dataclass(frozen=True)
class Sketch:
    """The files of a controller's sketch."""

    interface: Interface
    baud: int
    """Rate of the serial line, bit/s."""
    build: int
    """Build number in HELLO: 32 bits of the hash of all files, independent of the baud rate."""
    files: Mapping[str, str]
    """Text of each file, by its path in the sketch's folder."""
    flags: tuple[str, ...]
    """Compiler flags that the Makefile and this package pass, but not Arduino IDE."""
    board: BoardDescription = field(default=DEFAULT_BOARD, repr=False)

    @property
    def name(self) -> str:
        """Name of the controller and of the sketch's folder."""
        return self.interface.name

    @property
    def key(self) -> str:
        """Hash of all files, which identifies the image of this sketch."""
        return _hash(self.files)

    @property
    def main(self) -> str:
        """Path of the board's main file in the sketch's folder."""
        return self.name + Path(self.board.main).suffix

    @property
    def users(self) -> set[str]:
        """Paths of the controller's own sources in the folder."""
        own = {
            _CONTROLLER + n
            for n in (
                UNIT,
                CPP_UNIT,
                *(p.name for p in support_of(self.interface, self.board).sources),
            )
        }
        return {n for n in self.files if n.startswith(_CONTROLLER)} - own

    def write(self, folder: Path) -> Path:
        """Write the files to ``folder/NAME`` and return that path; replace an older sketch there.

        Raises :class:`BoardError` if the path holds something else or cannot be written.
        """
        place = folder / self.name
        if place.exists() and not (place / _MARK).is_file():
            raise BoardError(
                f"{place} exists and is not a sketch of rtsim, so it is not replaced; give another "
                "folder"
            )
        try:
            shutil.rmtree(place / "src", ignore_errors=True)
            for name, text in self.files.items():
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise BoardError(f"cannot write the sketch to {place}: {error.strerror}") from None
        return place


def sketch_of(
    interface: Interface, baud: int | None = None, board: BoardDescription = DEFAULT_BOARD
) -> Sketch:
    """Return the sketch of ``interface`` for ``board`` with a serial line of ``baud`` bit/s.

    Without ``baud`` the line has the board's default rate.  Raises :class:`InterfaceError` with the
    line of a signal whose type the processor lacks, and :class:`BoardError` if the rate is too
    high, a step does not fit a frame, or a library is needed.
    """
    check_target(interface, board.target)
    baud = baud or board.line.baud
    BaudRate.of(board, baud)
    if baud > board.line.most_baud:
        text = f"at {baud} baud bytes arrive faster than {board.phrase} can take them"
        raise BoardError(f"{text}; choose at most {board.line.most_baud}")
    payload = max(LEAST_PAYLOAD, payload_needed(interface))
    if payload > MOST_PAYLOAD:
        raise BoardError(
            f"a step of {interface.name} needs {payload} bytes of payload, but a frame has at most "
            f"{MOST_PAYLOAD}; use smaller arrays or narrower types"
        )
    for name in interface.libraries:
        if name != "m":
            text = f"{interface.name} needs the library {name}, which Arduino tools cannot link"
            raise BoardError(f"{text}; name the library's source files under sources")
    flags = Flags.of(interface).others
    unbuilt = _files(interface, 0, 0, payload, flags, board)
    build = int(_hash(unbuilt)[:8], 16)
    files = _files(interface, baud, build, payload, flags, board)
    return Sketch(interface, baud, build, files, flags, board)


def own_files(payload: int, board: BoardDescription = DEFAULT_BOARD) -> dict[str, str]:
    """Return the files, by path, that all sketches for ``board`` and this payload have in common.

    Raises :class:`BoardError` if a file of the HAL has the name of a file that all boards share.
    """
    files = {_RTSIM + Path(path).name: text_of(FIRMWARE / "src/rtsim" / path) for path in SHARED}
    files[_RTSIM + CHECKS] = text_of(SUPPORT / CHECKS)
    for path in board.hal_files:
        if _RTSIM + path.name in files:
            raise BoardError(
                f"{path} has the same name as a file that rtsim adds for every board; rename it"
            )
        if path.name != board.main:
            files[_RTSIM + path.name] = text_of(path)
    largest = prologue([f"#define RTSIM_MAX_PAYLOAD {payload}"], "protocol.h")
    files[_RTSIM + "protocol.h"] = largest + files[_RTSIM + "protocol.h"]
    return files


def support_of(interface: Interface, board: BoardDescription) -> Support:
    """Return the files of rtsim that C++ or Arduino code needs on ``board``."""
    core = board.compiler.core is not None
    if not interface.language.cpp:
        return Support()
    runtime = () if core else (SUPPORT / "cpp_board.cpp",)
    if interface.language.clock is None:
        return Support(runtime)
    first, clock = (ARDUINO_HEADER,), _CORE_CLOCK if core else (*runtime, *_BOARD_CLOCK)
    if core:  # the header Arduino.h is the core's, so it must not be found in rtsim's folder
        headers = tuple(ARDUINO / name for name in (ARDUINO_HEADER, SKETCH_HEADER))
        return Support((_PINS, *clock), headers=headers, first=first)
    return Support((_PINS, *clock), folders=(ARDUINO,), first=first)


def _files(
    interface: Interface, baud: int, build: int, payload: int, flags: tuple[str, ...],
    board: BoardDescription,
) -> dict[str, str]:  # fmt: skip
    name, files = interface.name, own_files(payload, board)
    sketch = text_of(board.hal / board.main)
    headers = [path.name for path in board.hal_files if path.suffix == ".h"]
    for header in ("board.h", *headers):
        sketch = sketch.replace(f'#include "{header}"', f'#include "{_RTSIM}{header}"')
    main = name + Path(board.main).suffix
    files[main] = prologue([f"#define RTSIM_BAUD {baud}"], main) + sketch
    if interface.language.cpp:
        files[_RTSIM + CPP_CHECKS] = text_of(SUPPORT / CPP_CHECKS)
    unit, support = unit_text(interface, build), support_of(interface, board)
    unit_name = CPP_UNIT if interface.language.cpp else UNIT
    for file, text in gathered(interface, unit, unit_name, support).items():
        files[_CONTROLLER + file] = text
    flags = (*board.compiler.flags, *flags)
    files["Makefile"] = makefile(board, name, main, flags, SHARED_FOLDER)
    return files


def _hash(files: Mapping[str, str]) -> str:
    text = json.dumps(sorted(files.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
