"""Export a controller as a sketch for the Arduino IDE, arduino-cli and PlatformIO.

The sketch runs on any board with ``Stream`` and ``micros()``, because it uses the Arduino library
in ``firmware/``.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hitl.boards import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD
from hitl.firmware.sketch import (
    CHECKS,
    CONTROLLER_FOLDER,
    CPP_CHECKS,
    SHARED,
    SHARED_FOLDER,
    sketch_of,
    text_of,
)
from hitl.interface import Interface
from hitl.interface.shipped import FIRMWARE

LIBRARY = ("src/rtsim.h", "src/rtsim.cpp")
_MARK = "platformio.ini"
_SUMS = "rtsim-export.sha256"
"""Checksums of all files of an export, in the format of ``sha256sum``."""
_MOST = 3
_MAIN = """\
// The controller {name} for rtsim: written by rtsim board export.
#include {header}

void setup() {{
  Serial.begin({baud});  // any other Stream does as well, such as SerialUSB or Serial1
  rtsim.begin(Serial);
}}

void loop() {{
  rtsim.poll();
}}
"""
_OF_LIBRARY = {"src_dir = examples/Motor": "src_dir = .", "lib_deps = symlink://.\n": ""}
"""Replacements that turn the library's platformio.ini into that of an exported sketch."""


@dataclass(frozen=True)
class Exported:
    """An exported sketch; ``files`` contains the text of each file by path."""

    name: str
    baud: int
    build: int
    """Build number in HELLO, equal to the build number of the firmware for ``board``."""
    board: BoardDescription
    files: Mapping[str, str]

    def write(self, folder: Path, force: bool = False) -> Path:
        """Write the files to ``folder/NAME``, and return this path.

        Raises ``BoardError`` if the path is no earlier export, or cannot be written. Without
        ``force``, an edited file also raises ``BoardError``.
        """
        place = folder / self.name
        if place.exists() and not (place / _MARK).is_file():
            raise BoardError(
                f"{place} exists and was not written by rtsim board export, so it is not replaced; "
                "give another folder"
            )
        data = {name: text.encode("utf-8", "surrogateescape") for name, text in self.files.items()}
        sums = "".join(f"{_sum(found)}  {name}\n" for name, found in sorted(data.items()))
        try:
            edited = [] if force else _edited(place, data)
            if edited:
                raise BoardError(
                    f"{' and '.join(map(str, edited[:_MOST]))} would be replaced, but rtsim board "
                    "export did not write this text; save a copy and give --force, or give another "
                    "folder"
                )
            shutil.rmtree(place / "src", ignore_errors=True)
            for name, found in {**data, _SUMS: sums.encode()}.items():
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(found)
        except OSError as error:
            raise BoardError(f"cannot write the sketch to {place}: {error.strerror}") from None
        return place


def _edited(place: Path, data: Mapping[str, bytes]) -> list[Path]:
    sums: dict[str, str] = {}
    if (place / _SUMS).is_file():
        lines = (place / _SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
        sums = {name: text for text, _, name in (line.partition("  ") for line in lines)}
    inside = {str(p.relative_to(place).as_posix()) for p in (place / "src").rglob("*")}
    out = []
    for name in sorted({*data, *inside}):
        path = place / name
        if path.is_file():
            found = path.read_bytes()
            if found != data.get(name) and sums.get(name) != _sum(found):
                out.append(path)
    return out


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def exported(
    interface: Interface, baud: int | None = None, board: BoardDescription = DEFAULT_BOARD
) -> Exported:
    """Return a sketch with a copy of the Arduino library.

    ``board`` determines the sizes of the C types and the default of ``baud`` (bit/s). Raises
    ``BoardError`` for a board without an Arduino core.
    """
    if board.compiler.core is None:
        raise BoardError(
            f"the firmware of {board.phrase} uses no Arduino core, so its types are not those of a "
            "sketch; use a board with a core, or rtsim board build"
        )
    sketch = sketch_of(interface, baud, board)
    files = {path: text for path, text in sketch.files.items() if _is_shared(path)}
    files |= {path: text_of(FIRMWARE / path) for path in LIBRARY}
    files[f"{sketch.name}.ino"] = _MAIN.format(
        name=sketch.name, header='"src/rtsim.h"', baud=sketch.baud
    )
    files[_MARK] = _platformio(sketch.flags)
    return Exported(sketch.name, sketch.baud, sketch.build, board, files)


def library_example(interface: Interface, board: BoardDescription = DEFAULT_BOARD) -> Exported:
    """Return a sketch in one folder that uses the installed Arduino library.

    This function generates the examples of the Arduino library.
    """
    whole = exported(interface, board=board)
    shared, own = f"{SHARED_FOLDER}/", f"{CONTROLLER_FOLDER}/"
    files = {}
    for path, text in whole.files.items():
        if path.startswith(own) or path in (shared + CHECKS, shared + CPP_CHECKS):
            text = text.replace('"../rtsim/board.h"', "<rtsim/board.h>")
            files[Path(path).name] = text.replace('"../rtsim/', '"')
    files[f"{whole.name}.ino"] = _MAIN.format(name=whole.name, header="<rtsim.h>", baud=whole.baud)
    return Exported(whole.name, whole.baud, whole.build, board, files)


def _platformio(flags: tuple[str, ...]) -> str:
    text = text_of(FIRMWARE / _MARK)
    for old, new in _OF_LIBRARY.items():
        text = text.replace(old, new)
    text = text.replace("the example of the library", "this sketch of rtsim board export")
    framework = "framework = arduino\n"
    options = f"build_flags = {' '.join(flags)}\n" if flags else ""
    return text.replace(framework, framework + options)


def _is_shared(path: str) -> bool:
    shared = {f"{SHARED_FOLDER}/{name}" for name in (*SHARED, CHECKS, CPP_CHECKS)}
    return path in shared or path.startswith(f"{CONTROLLER_FOLDER}/")
