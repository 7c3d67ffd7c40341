"""The sketch of a controller: a folder that Arduino IDE, arduino-cli and make can build.

::

    NAME/NAME.ino                the serial line, and sleep
    NAME/src/rtsim/              dispatcher, protocol and the code for the Uno
    NAME/src/controller/         the generated unit, the controller's sources and headers
    NAME/Makefile                for Debian's gcc-avr avr-libc arduino-core-avr
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hitl.boards import BoardError
from hitl.building.unit import SUPPORT
from hitl.firmware.flags import FLAGS, makefile
from hitl.firmware.sources import Flags, gathered, prologue, text_of
from hitl.firmware.unit import unit_text
from hitl.interface import Interface
from hitl.interface.shipped import FIRMWARE
from hitl.interface.targets import check_target
from hitl.protocol.line import MOST_BAUD, BaudRate
from hitl.protocol.messages import MOST_PAYLOAD
from hitl.protocol.verdicts import payload_needed

LEAST_PAYLOAD = 64
"""Least size of the largest payload, bytes; parameters are sent in pieces of this size."""
UNIT = "rtsim_unit.c"
_RTSIM, _CONTROLLER = "src/rtsim/", "src/controller/"
_MARK = _RTSIM + "board.h"
_OWN = ("board/board.c", "board/board.h", "protocol/protocol.c", "protocol/protocol.h",
        "protocol/messages.h", "uno/uno.c", "uno/uno.h")  # fmt: skip


@dataclass(frozen=True)
class Sketch:
    """The files of a controller's sketch."""

    interface: Interface
    baud: int
    """Rate of the serial line, bit/s."""
    build: int
    """Build number in HELLO: 32 bits of the hash of all files, independent of the baud rate."""
    files: Mapping[str, str]
    """Texts by path in the sketch's folder."""
    flags: tuple[str, ...]
    """Compiler flags that the Makefile and this package pass, but not Arduino IDE."""

    @property
    def name(self) -> str:
        """Name of the controller and of the sketch's folder."""
        return self.interface.name

    @property
    def key(self) -> str:
        """Hash of all files, which identifies their image."""
        return _hash(self.files)

    @property
    def users(self) -> set[str]:
        """Paths of the controller's own sources in the folder."""
        return {n for n in self.files if n.startswith(_CONTROLLER)} - {_CONTROLLER + UNIT}

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


def sketch_of(interface: Interface, baud: int) -> Sketch:
    """Return the sketch of ``interface`` for an Uno with a serial line of ``baud`` bit/s.

    Raises :class:`InterfaceError` with the line of a signal whose type an AVR lacks, and
    :class:`BoardError` if the rate is too high, a step does not fit a frame, or a library is
    needed.
    """
    check_target(interface, "avr")
    BaudRate(baud)
    if baud > MOST_BAUD:
        text = f"at {baud} baud bytes arrive faster than an Uno can take them"
        raise BoardError(f"{text}; choose at most {MOST_BAUD}")
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
    unbuilt = _files(interface, 0, 0, payload, flags)
    build = int(_hash(unbuilt)[:8], 16)
    return Sketch(interface, baud, build, _files(interface, baud, build, payload, flags), flags)


def own_files(payload: int) -> dict[str, str]:
    """Return the files, by path, that all sketches with this largest payload share."""
    files = {_RTSIM + Path(path).name: text_of(FIRMWARE / path) for path in _OWN}
    files[_RTSIM + "rtsim_checks.h"] = text_of(SUPPORT / "rtsim_checks.h")
    largest = prologue([f"#define RTSIM_MAX_PAYLOAD {payload}"], "protocol.h")
    files[_RTSIM + "protocol.h"] = largest + files[_RTSIM + "protocol.h"]
    return files


def _files(
    interface: Interface, baud: int, build: int, payload: int, flags: tuple[str, ...]
) -> dict[str, str]:
    name, files = interface.name, own_files(payload)
    sketch = text_of(FIRMWARE / "uno" / "uno.ino")
    for header in ("board.h", "uno.h"):
        sketch = sketch.replace(f'#include "{header}"', f'#include "{_RTSIM}{header}"')
    files[f"{name}.ino"] = prologue([f"#define RTSIM_BAUD {baud}"], f"{name}.ino") + sketch
    for file, text in gathered(interface, unit_text(interface, build), UNIT).items():
        files[_CONTROLLER + file] = text
    files["Makefile"] = makefile(name, (*FLAGS, *flags))
    return files


def _hash(files: Mapping[str, str]) -> str:
    text = json.dumps(sorted(files.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
