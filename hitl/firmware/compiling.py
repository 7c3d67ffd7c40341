"""A sketch compiled by avr-gcc around Arduino's core; built once and kept."""

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
from hitl.building.complaints import in_few_words
from hitl.building.toolchain import BuildError, Toolchain, named
from hitl.firmware import flags as how
from hitl.firmware.sketch import Sketch

BOOT_LOADER = 512
"""Bytes of flash that optiboot takes."""
RAM = 2048
_RAM_BEGINS = 0x800100
"""As the linker counts: registers come first."""
LEAST_STACK = 64
"""Bytes: an interrupt of the serial line takes about half of that."""
_TOOLS = ("avr-gcc", "avr-g++", "avr-gcc-ar", "avr-objcopy", "avr-size")
IMAGE, PROGRAM, ABOUT = "firmware.hex", "firmware.elf", "about.json"
_CORE = "core.a"


@dataclass(frozen=True)
class Image:
    """An Intel HEX file, and what it takes; ``ram_bytes`` is static data."""

    path: Path
    flash_bytes: int
    ram_bytes: int
    compiler: str


def compiled(sketch: Sketch) -> Image:
    """The image of ``sketch``, compiled unless that was done before.

    Raises :class:`BoardError` where tools are missing or the Uno is too small, an
    :class:`InterfaceError` or :class:`BuildError` with file and line where the C is at fault.
    """
    return _Job(sketch).image()


class _Tools:
    """avr-gcc and Arduino's core, as they are on this machine."""

    def __init__(self, name: str) -> None:
        absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
        core = Path(os.environ.get("RTSIM_ARDUINO_AVR") or how.CORE)
        if not (core / "cores" / "arduino" / "Arduino.h").is_file():
            absent.append(f"Arduino's core in {core}")
        if absent:
            raise BoardError(
                f"building the firmware of {name} needs {', '.join(absent)}; type: {how.INSTALL}"
            )
        self.core = core / "cores" / "arduino"
        self.include = (f"-I{self.core}", f"-I{core / 'variants' / 'standard'}")
        self.files = [p for p in self.core.iterdir() if p.is_file()]
        self.files += (core / "variants" / "standard").glob("*.h")
        self.gcc = named("avr-gcc")
        self.identity = [self.gcc.identity(), str(core)]

    def run(self, tool: str, *arguments: str | Path, folder: Path) -> str:
        return Toolchain((tool,), self.gcc.version).run(arguments, folder).output

    def compile(self, source: Path, into: Path, *more: str | Path) -> None:
        tool, dialect = ("avr-gcc", how.C) if source.suffix == ".c" else ("avr-g++", how.CPP)
        common = (*how.MACHINE, *how.ARDUINO, *how.FLAGS, *dialect, *self.include, *more)
        self.run(tool, *common, "-c", source, "-o", into, folder=into.parent)

    def archive(self) -> Path:
        """Arduino's core, compiled; the same for all sketches."""
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

    def image(self) -> Image:
        sketch, contents = self.sketch, (IMAGE, PROGRAM, ABOUT)
        stem = f"{sketch.name}-uno-{_key(self.tools.identity, sketch.key)}"
        folder = store.find(stem, contents)
        if folder is None:
            core = self.tools.archive()
            with store.workshop() as work, in_few_words(sketch.interface):
                snapshot = store.Snapshot.of(self.tools.files)
                made = self._made(work, core)
                folder = store.root() / f"{stem}-{snapshot.digest}"
                store.settle(made, folder, snapshot, contents)
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        image = Image(folder / IMAGE, about["flash"], about["ram"], self.tools.gcc.version)
        _check_room(sketch.name, image.flash_bytes, image.ram_bytes)
        return image

    def _made(self, work: Path, core: Path) -> Path:
        place, made = self.sketch.write(work), work / "made"
        made.mkdir()
        objects: list[Path] = []
        in_order = sorted(self.sketch.files, key=lambda name: (name.endswith(".ino"), name))
        for name in in_order:  # of the Makefile: the linker's order is part of the image
            if name.endswith((".c", ".cpp", ".ino")):
                objects.append(work / f"{len(objects)}.o")
                more = ["-x", "c++", "-include", "Arduino.h"] if name.endswith(".ino") else []
                self._compile(place / name, objects[-1], *self.sketch.flags, *more)
        program = made / PROGRAM
        link = (*how.MACHINE, *how.FLAGS, *self.sketch.flags, *how.LINK)
        try:
            self.tools.run("avr-gcc", *link, "-o", program, *objects, core, "-lm", folder=work)
        except BuildError as error:
            if refusal := _too_large(self.sketch.name, str(error)):
                raise refusal from error
            raise
        self.tools.run("avr-objcopy", *how.HEX, program, made / IMAGE, folder=work)
        flash, ram = _sizes(self.tools.run("avr-size", "-A", program, folder=work))
        (made / ABOUT).write_text(json.dumps({"flash": flash, "ram": ram}), encoding="utf-8")
        return made

    def _compile(self, source: Path, into: Path, *more: str) -> None:
        """Complaints name the interface file by its path, which the sketch does not know."""
        try:
            self.tools.compile(source, into, *more)
        except BuildError as error:
            path = self.sketch.interface.path
            name = rf"^{re.escape(path.name)}:"
            said = re.sub(name, lambda _: f"{path}:", str(error), flags=re.M)
            raise BuildError(said) from error


def _sizes(said: str) -> tuple[int, int]:
    """Bytes of flash and of RAM."""
    found = dict(re.findall(r"^\.(text|data|bss|noinit)\s+(\d+)", said, re.M))
    size = {name: int(found.get(name, 0)) for name in ("text", "data", "bss", "noinit")}
    return size["text"] + size["data"], size["data"] + size["bss"] + size["noinit"]


def _check_room(name: str, flash: int, ram: int) -> None:
    if flash > FLASH - BOOT_LOADER:
        raise _too_much_flash(name, flash)
    if ram > RAM - LEAST_STACK:
        raise _too_much_ram(name, ram)


def _too_large(name: str, said: str) -> BoardError | None:
    """What the linker said of memory, in bytes."""
    if over := re.search(r"region `text' overflowed by (\d+) bytes", said):
        return _too_much_flash(name, FLASH + int(over[1]))
    ends = re.findall(r"address 0x([0-9a-f]+) of .* is not within region `data'", said)
    if ends:
        return _too_much_ram(name, max(int(end, 16) for end in ends) - _RAM_BEGINS)
    return None


def _too_much_flash(name: str, flash: int) -> BoardError:
    return BoardError(
        f"{name} takes {flash} bytes of flash, and an Uno has {FLASH - BOOT_LOADER} beside its "
        "boot loader; leave parts of it out"
    )


def _too_much_ram(name: str, ram: int) -> BoardError:
    return BoardError(
        f"{name} has {ram} bytes of static data, and an Uno has {RAM} bytes of RAM, at least "
        f"{LEAST_STACK} of them for the stack; make its objects smaller"
    )


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]
