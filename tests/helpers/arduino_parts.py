"""Arduino's build of a folder, with the core of Debian's package, and a comparison of two runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from hitl.boards.avr import UNO
from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.firmware.compiling import Tools
from hitl.firmware.program import Program
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

COMPILED = (".c", ".cpp", ".ino")


def arduino_build(folder: Path, libraries: Iterable[Path], into: Path, *more: str) -> Path:
    """Build the sketch in ``folder`` as the IDE does; return the Intel HEX file.

    The IDE compiles the sketch's folder and its ``src``, and the ``src`` of each library.
    """
    into.mkdir()
    tools, how = Tools(folder.name, UNO), UNO.compiler
    sources = [*(p for p in folder.iterdir() if p.is_file()), *(folder / "src").rglob("*")]
    includes = []
    for library in libraries:
        sources += (library / "src").rglob("*")
        includes.append(f"-I{library / 'src'}")
    objects: list[Path] = []
    for source in sorted(p for p in sources if p.suffix in COMPILED):
        objects.append(into / f"{len(objects)}.o")
        ino = ["-x", "c++", "-include", "Arduino.h"] if source.suffix == ".ino" else []
        tools.compile(source, objects[-1], *includes, *more, *ino)
    core = tools.archive()
    assert core is not None
    program = into / "firmware.elf"
    link = (*how.machine, *how.flags, *how.link)
    tools.run("gcc", *link, "-o", program, *objects, core, *how.libraries, folder=into)
    image = into / "firmware.hex"
    memory = UNO.memory
    text = Program(program.read_bytes(), UNO.processor).hex(
        memory.flash_begins, memory.flash, memory.beside
    )
    image.write_text(text)
    return image


def rows_of(controller: InProcess | BoardController, inputs: Vector) -> Vector:
    """Run one step for each row of ``inputs``; return the outputs, row by row."""
    running: Any = controller.fresh()
    period, out = running.interface.period, []
    with closing(running):
        for k, row in enumerate(inputs):
            tag = Tag(period.tick(k))
            running.send(tag, row)
            answer = running.receive(tag, 0.1)
            assert answer is not None
            out.append(answer.copy())
    return np.array(out)
