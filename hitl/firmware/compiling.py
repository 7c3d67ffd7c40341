"""Compile a sketch with avr-gcc and Arduino's core, and keep the image."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from hitl.boards import BoardError
from hitl.boards.uno import FLASH
from hitl.building import store
from hitl.building.arguments import check_arguments
from hitl.building.complaints import in_few_words, no_c
from hitl.building.toolchain import BuildError, CompilerOutput, Toolchain, named
from hitl.building.unit import SUPPORT
from hitl.firmware import flags as how
from hitl.firmware.sketch import Sketch

BOOT_LOADER = 512
"""Flash used by the boot loader optiboot, bytes."""
RAM = 2048
"""RAM of an Uno, bytes."""
_RAM_BEGINS = 0x800100
"""First address of the RAM for the linker, after the registers."""
LEAST_STACK = 64
"""Least stack, bytes; an interrupt of the serial line needs about half of it."""
_TOOLS = ("avr-gcc", "avr-g++", "avr-gcc-ar", "avr-objcopy", "avr-size")
_COMPILED = (".c", ".cpp", ".ino")
_WARNINGS = ("-Wall", "-Wextra")
IMAGE, PROGRAM, ABOUT = "firmware.hex", "firmware.elf", "about.json"
_CORE = "core.a"


class NoTools(BoardError):
    """The tools that build firmware are not installed; the C code itself was not judged."""


@dataclass(frozen=True)
class FirmwareImage:
    """A compiled image: its Intel HEX file, its flash, and its static data (``ram_bytes``)."""

    path: Path
    flash_bytes: int
    ram_bytes: int
    compiler: str
    warnings: str
    """The compiler's warnings of the controller's own C."""


def compiled(sketch: Sketch) -> FirmwareImage:
    """Compile ``sketch``, or return the image that was kept.

    Raises :class:`NoTools` if tools are missing, :class:`BoardError` if the Uno is too small, and
    :class:`InterfaceError` or :class:`BuildError` with file and line for an error in the C.
    """
    return _Job(sketch).image()


class _Tools:
    """The installed avr-gcc and Arduino core."""

    def __init__(self, name: str) -> None:
        absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
        core = Path(os.environ.get("RTSIM_ARDUINO_AVR") or how.CORE)
        if not (core / "cores" / "arduino" / "Arduino.h").is_file():
            absent.append(f"Arduino's core in {core}")
        if absent:
            raise NoTools(
                f"cannot build the firmware of {name} without {', '.join(absent)}; type: "
                f"{how.INSTALL}"
            )
        self.core = core / "cores" / "arduino"
        self.include = (f"-I{self.core}", f"-I{core / 'variants' / 'standard'}")
        self.files = [p for p in self.core.iterdir() if p.is_file()]
        self.files += (core / "variants" / "standard").glob("*.h")
        self.gcc = named("avr-gcc")
        self.identity = [self.gcc.identity(), str(core)]

    def run(self, tool: str, *arguments: str | Path, folder: Path) -> CompilerOutput:
        return Toolchain((tool,), self.gcc.version).run(arguments, folder)

    def compile(self, source: Path, into: Path, *more: str | Path) -> str:
        """Compile ``source`` and return the warnings."""
        tool, dialect = ("avr-gcc", how.C) if source.suffix == ".c" else ("avr-g++", how.CPP)
        common = (*how.MACHINE, *how.ARDUINO, *how.FLAGS, *dialect, *self.include, *more)
        return self.run(tool, *common, "-c", source, "-o", into, folder=into.parent).warnings

    def archive(self) -> Path:
        """Return the compiled core of Arduino, which all sketches share."""
        stem = f"arduino-core-{_key(self.identity, how.FLAGS, how.C, how.CPP)}"
        if kept := store.find(stem, (_CORE,)):
            return kept / _CORE
        with store.workshop() as work:
            snapshot = store.Snapshot.of(self.files)
            made = work / "made"
            made.mkdir()
            objects = []
            for source in sorted(p for p in self.files if p.suffix in (".c", ".cpp")):
                objects.append(work / f"{source.name}.o")
                self.compile(source, objects[-1], "-w")
            self.run("avr-gcc-ar", "rcs", made / _CORE, *objects, folder=work)
            folder = store.root() / f"{stem}-{snapshot.digest}"
            store.settle(made, folder, snapshot, (_CORE,))
        return folder / _CORE


class _Job:
    def __init__(self, sketch: Sketch) -> None:
        self.sketch, self.tools = sketch, _Tools(sketch.name)

    def image(self) -> FirmwareImage:
        sketch, contents = self.sketch, (IMAGE, PROGRAM, ABOUT)
        stem = f"{sketch.name}-uno-{_key(self.tools.identity, sketch.key, _WARNINGS)}"
        folder = store.find(stem, contents)
        if folder is None:
            core = self.tools.archive()
            with store.workshop() as work, in_few_words(sketch.interface):
                snapshot = store.Snapshot.of(self.tools.files)
                made = self._made(work, core)
                folder = store.root() / f"{stem}-{snapshot.digest}"
                store.settle(made, folder, snapshot, contents)
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        made_by, said = self.tools.gcc.version, about["warnings"]
        image = FirmwareImage(folder / IMAGE, about["flash"], about["ram"], made_by, said)
        _check_room(sketch.name, image.flash_bytes, image.ram_bytes)
        return image

    def _made(self, work: Path, core: Path) -> Path:
        interface = self.sketch.interface
        for number, source in enumerate(interface.sources):
            if not source.name.endswith(_COMPILED):
                raise no_c(interface, number)
        place, made = self.sketch.write(work), work / "made"
        made.mkdir()
        objects: list[Path] = []
        warnings = ""
        in_order = sorted(self.sketch.files, key=lambda name: (name.endswith(".ino"), name))
        for name in in_order:  # as in the Makefile, because the linker's order changes the image
            if name.endswith(_COMPILED):
                objects.append(work / f"{len(objects)}.o")
                more = ["-x", "c++", "-include", "Arduino.h"] if name.endswith(".ino") else []
                if users := name in self.sketch.users:
                    more += self._shown
                said = self._compile(place / name, objects[-1], *self.sketch.flags, *more)
                warnings += said if users else ""
        self._check_calls()
        program = made / PROGRAM
        link = (*how.MACHINE, *how.FLAGS, *self.sketch.flags, *how.LINK)
        try:
            self.tools.run("avr-gcc", *link, "-o", program, *objects, core, "-lm", folder=work)
        except BuildError as error:
            if refusal := _too_large(self.sketch.name, str(error)):
                raise refusal from error
            raise
        self.tools.run("avr-objcopy", *how.HEX, program, made / IMAGE, folder=work)
        flash, ram = _sizes(self.tools.run("avr-size", "-A", program, folder=work).output)
        about = {"flash": flash, "ram": ram, "warnings": warnings}
        (made / ABOUT).write_text(json.dumps(about), encoding="utf-8")
        return made

    @property
    def _shown(self) -> list[str]:
        """The warnings to enable; none if the user's -Werror would turn them into errors."""
        asked = any(flag.startswith("-Werror") for flag in self.sketch.flags)
        return [] if asked else list(_WARNINGS)

    def _check_calls(self) -> None:
        """Check the types in calls with the board's compiler, for which an int has two bytes."""
        interface = self.sketch.interface
        folders = [f"-I{folder}" for folder in (SUPPORT, *interface.include)]
        flags = [*how.MACHINE, *how.ARDUINO, *how.C, *folders, *interface.flags]
        check_arguments(interface, self.tools.gcc, flags)

    def _compile(self, source: Path, into: Path, *more: str) -> str:
        """Compile ``source``; errors get the path of the interface file in place of its name."""
        try:
            return self.tools.compile(source, into, *more)
        except BuildError as error:
            path = self.sketch.interface.path
            name = rf"^{re.escape(path.name)}:"
            said = re.sub(name, lambda _: f"{path}:", str(error), flags=re.M)
            raise BuildError(said) from error


def _sizes(said: str) -> tuple[int, int]:
    """Return the bytes of flash and of static data."""
    found = dict(re.findall(r"^\.(text|data|bss|noinit)\s+(\d+)", said, re.M))
    size = {name: int(found.get(name, 0)) for name in ("text", "data", "bss", "noinit")}
    return size["text"] + size["data"], size["data"] + size["bss"] + size["noinit"]


def _check_room(name: str, flash: int, ram: int) -> None:
    if flash > FLASH - BOOT_LOADER:
        raise _too_much_flash(name, flash)
    if ram > RAM - LEAST_STACK:
        raise _too_much_ram(name, ram)


def _too_large(name: str, said: str) -> BoardError | None:
    """Return the error for a memory overflow that the linker reports, or ``None``."""
    if over := re.search(r"region `text' overflowed by (\d+) bytes", said):
        return _too_much_flash(name, FLASH + int(over[1]))
    ends = re.findall(r"address 0x([0-9a-f]+) of .* is not within region `data'", said)
    if ends:
        return _too_much_ram(name, max(int(end, 16) for end in ends) - _RAM_BEGINS)
    return None


def _too_much_flash(name: str, flash: int) -> BoardError:
    return BoardError(
        f"{name} needs {flash} bytes of flash, but an Uno has {FLASH - BOOT_LOADER} in addition to "
        "its boot loader; make the controller smaller"
    )


def _too_much_ram(name: str, ram: int) -> BoardError:
    return BoardError(
        f"{name} has {ram} bytes of static data, but an Uno has {RAM} bytes of RAM and needs at "
        f"least {LEAST_STACK} of them for the stack; make the static objects smaller"
    )


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]
