"""Generate the Makefile of a sketch with the compiler flags of the board's description."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from hitl.boards.description import BoardDescription

_START = """\
# {name}: `make` builds {name}.hex for {phrase}{writes}.
# {install}
"""
_CORE = """\
ARDUINO ?= {core}
"""
_NAMES = """\
PORT    ?= /dev/ttyACM0
FLAGS   := {flags}
C       := {c}
CPP     := {cpp}

"""
_CORE_FILES = """\
core    := $(sort $(wildcard $(addprefix $(ARDUINO)/{cores}/*,.c .cpp)))
"""
_FILES = """\
own     := $(sort $(wildcard src/*/*.c src/*/*.cpp))
objects := $(addprefix build/,$(addsuffix .o,$(own)) {main}.o)
include :={include}

{name}.hex: build/{name}.elf
{image}build/{name}.elf: $(objects){archive}
\t{gcc} $(FLAGS) {link} -o $@ $^{libraries}
"""
_IMAGE = """\
\t{objcopy} {hex} $< $@
\t{size} -A $< | grep -E '^.({sections}) '
"""
_IMAGE_BY_RTSIM = """\
\tpython3 -m hitl.firmware.make_hex {board} $< $@
"""
_HEADERS = """\
PACKAGE := $(shell python3 -c 'import {package}; print({package}.__path__[0])')
FLAGS   += {headers}
"""
_CORE_RULES = """\
build/core.a: $(patsubst $(ARDUINO)/{cores}/%,build/core/%.o,$(core))
\trm -f $@
\t{ar} rcs $@ $^
build/core/%.c.o: $(ARDUINO)/{cores}/%.c
\t@mkdir -p $(@D)
\t{gcc} $(FLAGS) -w $(C) $(include) -c $< -o $@
build/core/%.cpp.o: $(ARDUINO)/{cores}/%.cpp
\t@mkdir -p $(@D)
\t{cxx} $(FLAGS) -w $(CPP) $(include) -c $< -o $@
"""
_RULES = """\
build/%.c.o: %.c $(wildcard src/*/*.h)
\t@mkdir -p $(@D)
\t{gcc} $(FLAGS) $(C) $(include) -c $< -o $@
build/%.cpp.o: %.cpp $(wildcard src/*/*.h)
\t@mkdir -p $(@D)
\t{cxx} $(FLAGS) $(CPP) $(include) -c $< -o $@
"""
_SKETCH_RULE = """\
build/%.ino.o: %.ino $(wildcard src/*/*.h)
\t@mkdir -p $(@D)
\t{cxx} $(FLAGS) $(CPP) $(include) -x c++ -include Arduino.h -c $< -o $@
"""
_FLASH = """\
flash: {name}.hex
\t{flash}
"""
_END = """\
clean:
\trm -rf build {name}.hex
.PHONY: flash clean
"""


def makefile(board: BoardDescription, name: str, main: str, flags: Iterable[str], hal: str) -> str:
    """Return the Makefile of the sketch ``name`` for ``board``.

    ``main`` is the sketch's main file.  ``flags`` are added to those of the board.  ``hal`` is the
    folder of the board's files in the sketch.
    """
    gcc, flasher = board.compiler, board.flasher
    core = gcc.core
    cores, variant = core.parts if core else ("", "")
    parts = [
        _START, _CORE if core else "", _NAMES, _HEADERS if gcc.headers else "",
        _CORE_FILES if core else "", _FILES, _CORE_RULES if core else "", _RULES,
        _SKETCH_RULE if main.endswith(".ino") else "",
        _FLASH if flasher else "", _END,
    ]  # fmt: skip
    command = flasher.command("$<", "$(PORT)", flasher.baud) if flasher else []
    return "".join(parts).format(
        name=name, main=main, phrase=board.titled,
        writes=", `make flash PORT=/dev/ttyACM0` writes it" if flasher else "",
        install=gcc.install, core=core.folder if core else "", cores=cores,
        include=f" -I$(ARDUINO)/{cores} -I$(ARDUINO)/{variant}" if core else "",
        archive=" build/core.a" if core else "",
        flags=shlex.join([*gcc.machine, *gcc.defines, *flags]),
        c=shlex.join(gcc.c), cpp=shlex.join(gcc.cpp),
        link=shlex.join(linker_flags(board, hal)), image=_image(board),
        flash=" ".join(command), gcc=gcc.tool("gcc"), cxx=gcc.tool("g++"), ar=gcc.tool("gcc-ar"),
        package=gcc.package, libraries="".join(f" {flag}" for flag in gcc.libraries),
        headers=" ".join(f"-isystem$(PACKAGE)/{folder}" for folder in gcc.headers),
    )  # fmt: skip


def _image(board: BoardDescription) -> str:
    """Return the commands that make the Intel HEX file from the linked program."""
    gcc, memory = board.compiler, board.memory
    if gcc.package:
        return _IMAGE_BY_RTSIM.format(board=board.name)
    sections = dict.fromkeys((*memory.flash_sections, *memory.ram_sections))
    return _IMAGE.format(
        objcopy=gcc.tool("objcopy"), hex=shlex.join(gcc.hex), size=gcc.tool("size"),
        sections="|".join(sections),
    )  # fmt: skip


def linker_flags(board: BoardDescription, hal: str) -> list[str]:
    """Return the linker flags of ``board``; ``hal`` is the folder of the files of its HAL."""
    return [flag.replace("{hal}", hal) for flag in board.compiler.link]
