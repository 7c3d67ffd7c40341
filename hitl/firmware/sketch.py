"""Generate the sketch of a controller: a folder that make or Arduino's tools can build.

::

    NAME/NAME.ino                the board's main file: the serial line, and sleep
    NAME/src/rtsim/              dispatcher, protocol and the HAL: the files for the board
    NAME/src/controller/         the generated unit, the controller's sources and headers
    NAME/Makefile                for the board's compiler
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hitl.boards import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD
from hitl.building.c_code import (
    at,
    cpp_text,
    element_of,
    ending,
    feed_pins,
    in_order,
    over,
    preamble,
    read_pins,
    start_pins,
    type_bytes,
)
from hitl.building.unit import ARDUINO, SUPPORT
from hitl.interface import Field, Interface, StepEntry
from hitl.interface.file import is_cpp, is_sketch
from hitl.interface.shipped import FIRMWARE
from hitl.interface.targets import check_target
from hitl.protocol.codec import Codec, name_hash, wire_schema
from hitl.protocol.line import BaudRate
from hitl.protocol.messages import MOST_PAYLOAD
from hitl.protocol.session import payload_needed

# Any Arduino tool can compile the controller's code, because it lies in one flat folder.  The
# Arduino IDE accepts neither ``-I`` nor ``-D``.  Therefore ``#include`` lines are rewritten to the
# header's name in the folder, and definitions precede each source.  Included files are found from
# the text alone, because a shipped image must be identified without a compiler.

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
_COMPILED = (".c", ".cpp", ".cc", ".cxx", ".s", ".ino")
_FOLDERS = ("-iquote", "-isystem", "-I")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Flags:
    """The flags of an interface file, sorted by their use."""

    defines: tuple[str, ...]
    """Definitions (``-D``), as lines of C."""
    folders: tuple[Path, ...]
    """Folders of headers (``-I``)."""
    others: tuple[str, ...]
    """Other flags, which the Arduino IDE does not receive."""

    @classmethod
    def of(cls, interface: Interface) -> Flags:
        defines, folders, others = [], [], []
        flags = iter(interface.flags)
        for flag in flags:
            option = next((o for o in ("-D", "-U", *_FOLDERS) if flag.startswith(o)), "")
            value = (flag[len(option) :] or next(flags, "")).strip()
            if option == "-D":
                name, _, meant = value.partition("=")
                defines.append(f"#define {name} {meant if '=' in value else '1'}")
            elif option == "-U":
                defines.append(f"#undef {value}")
            elif option:
                folders.append((interface.path.parent / value).resolve())
            else:
                others.append(flag)
        return cls(tuple(defines), tuple(folders), tuple(others))


@dataclass(frozen=True)
class Support:
    """Files of rtsim that a controller needs on a board."""

    sources: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    headers: tuple[Path, ...] = ()
    """Headers that are found by name, although their folder is not searched."""
    first: tuple[str, ...] = ()
    """Headers that each C++ source of the controller includes first."""


def prologue(defines: Iterable[str], name: str) -> str:
    """Return ``defines`` and a directive that makes the next line the first line of ``name``."""
    lines = list(defines)
    return "\n".join([*lines, f'#line 1 "{name}"', ""]) if lines else ""


def gathered(
    interface: Interface, unit: str, unit_name: str, support: Support = Support()
) -> dict[str, str]:
    """Return the generated code, the sources and all included headers, by file name.

    Raises ``BoardError`` if a file cannot be read.
    """
    flags = Flags.of(interface)
    sources = (*interface.sources, *support.sources)
    folders = (*interface.include, *flags.folders, *support.folders)
    job = _Gathering(folders, sources, {unit_name}, support.headers)
    files = {unit_name: prologue(flags.defines, unit_name) + job.rewritten(unit, interface.path)}
    for source in sources:
        job.named(source)
    while job.queue:
        path = job.queue.pop(0)
        text = text_of(path)
        if is_sketch(path):
            text = cpp_text(text, path.name, '"rtsim_sketch.h"')
        before: list[str] = []
        if path in interface.sources:
            first = support.first if is_cpp(path) else ()
            before = [*flags.defines, *(f'#include "{name}"' for name in first)]
        named = job.rewritten(prologue(before, path.name), path)
        files[job.names[path]] = named + job.rewritten(text, path)
    return files


def text_of(path: Path) -> str:
    """Return the text of a file with normalised line ends.

    Raises ``BoardError`` if the file cannot be read or is too large.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BoardError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise BoardError(
            f"{path} has more than {_MOST_BYTES} bytes, the limit of a C file in a sketch"
        )
    return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


class _Gathering:
    def __init__(
        self, folders: Sequence[Path], sources: Sequence[Path], taken: Iterable[str],
        headers: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        self.headers = {path.name: path for path in headers}
        self.folders, self.sources = folders, sources
        self.names: dict[Path, str] = {}
        self.queue: list[Path] = []
        self._taken = set(taken)

    def named(self, path: Path) -> str:
        if path not in self.names:
            name = path.name
            if path not in self.sources and path.suffix.lower() in _COMPILED:
                name += ".h"  # included, so Arduino tools must not compile it
            elif is_cpp(path) and path.suffix != ".cpp":
                name += ".cpp"  # a sketch, or another suffix of C++
            for folder in path.parent.parts[::-1]:
                if name.lower() not in self._taken:
                    break
                name = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', folder)}_{name}"
            self._taken.add(name.lower())
            self.names[path] = name
            self.queue.append(path)
        return self.names[path]

    def rewritten(self, text: str, path: Path) -> str:
        def renamed(match: re.Match[str]) -> str:
            quoted, pointed = match[2], match[3]
            header = self._found(quoted or pointed, [path.parent] if quoted else [])
            return f'{match[1]}"{self.named(header)}"' if header else match[0]

        return _INCLUDE.sub(renamed, text)

    def _found(self, name: str, first: Sequence[Path]) -> Path | None:
        for folder in (*first, *self.folders):
            if (path := folder / name).is_file():
                return path.resolve()
        return self.headers.get(name)


# The Makefile, with the compiler flags of the board's description

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

    Args:
        board: Description of the board.
        name: Name of the sketch.
        main: Main file of the sketch.
        flags: Compiler flags in addition to those of the board.
        hal: Folder with the board's C code in the sketch.
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
    gcc, memory = board.compiler, board.memory
    if gcc.package:
        return _IMAGE_BY_RTSIM.format(board=board.name)
    sections = dict.fromkeys((*memory.flash_sections, *memory.ram_sections))
    return _IMAGE.format(
        objcopy=gcc.tool("objcopy"), hex=shlex.join(gcc.hex), size=gcc.tool("size"),
        sections="|".join(sections),
    )  # fmt: skip


def linker_flags(board: BoardDescription, hal: str) -> list[str]:
    return [flag.replace("{hal}", hal) for flag in board.compiler.link]


# The unit copies packed bytes to the controller's variables, and back.  It defines the functions
# that ``firmware/src/rtsim/board.h`` declares for a controller.  Static assertions check every type
# and size, as on the host.  The host scales the values.

ARDUINO_HEADER, SKETCH_HEADER = "rtsim_arduino.h", "rtsim_sketch.h"
"""Headers for Arduino code and for a sketch on a board."""
UNIT_SUPPORT = ("../rtsim/board.h", "../rtsim/rtsim_checks.h")


def unit_support_of(interface: Interface) -> tuple[str, ...]:
    """Return rtsim's headers that the generated code includes."""
    if not interface.language.cpp:
        return UNIT_SUPPORT
    arduino: tuple[str, ...] = ()
    if interface.language.clock is not None:
        sketch = any(map(is_sketch, interface.sources))
        arduino = (SKETCH_HEADER if sketch else ARDUINO_HEADER,)
    return (UNIT_SUPPORT[0], "../rtsim/rtsim_checks_cpp.h", *arduino)


def unit_text(interface: Interface, build: int) -> str:
    """Return the generated C code; ``build`` is the number that the board reports.

    The folder ``rtsim/`` with the headers must be beside the folder of the code.
    """
    file = interface.path.name
    parameters = Codec(interface.parameter_fields).bytes
    parts = [
        *preamble(interface, unit_support_of(interface), file),
        f"const uint64_t rtsim_schema = 0x{wire_schema(interface):016x}ULL;",
        f"const uint32_t rtsim_name_hash = 0x{name_hash(interface.name):08x}UL;",
        f"const uint32_t rtsim_build = 0x{build:08x}UL;",
        f"const uint16_t rtsim_input_bytes = {Codec(interface.input_fields).bytes};",
        f"const uint16_t rtsim_output_bytes = {Codec(interface.output_fields).bytes};",
        f"const uint16_t rtsim_parameter_bytes = {parameters};",
        f"uint8_t rtsim_parameters[{max(1, parameters)}];",
        "__attribute__((weak)) void rtsim_idle(void)\n{\n}",
        *_start(interface, file),
        *_step(interface, file),
        "void rtsim_terminate(void)\n{",
        *ending(interface, file),
        "}",
    ]
    return "\n".join(parts) + "\n"


def _start(interface: Interface, file: str) -> Iterator[str]:
    slow = [(k, step) for k, step in enumerate(interface.steps) if not _always(step)]
    yield from (f"static uint32_t rtsim_due_{k};" for k, _ in slow)
    yield "int16_t rtsim_start(const uint8_t *rtsim_p)\n{\n  (void)rtsim_p;"
    yield from (f"  rtsim_due_{k} = {step.offset}UL;" for k, step in slow)
    yield from start_pins(interface)
    yield from in_order(interface, _sets(interface.parameter_fields, "rtsim_p"), file)
    yield "  return 0;\n}"


def _step(interface: Interface, file: str) -> Iterator[str]:
    yield (
        "int16_t rtsim_step(uint64_t rtsim_ns, const uint8_t *rtsim_u, uint8_t *rtsim_y,\n"
        "                   uint32_t *rtsim_took)\n{\n  (void)rtsim_ns, (void)rtsim_u;"
    )
    yield from _sets(interface.input_fields, "rtsim_u")
    yield from feed_pins(interface)
    yield "  const uint32_t rtsim_began = rtsim_cycles();"
    for k, step in enumerate(interface.steps):
        yield from _entry(k, step, file)
    yield "  *rtsim_took = rtsim_cycles() - rtsim_began;"
    yield from read_pins(interface)
    yield from _gets(interface.output_fields)
    yield "  return 0;\n}"


def _always(step: StepEntry) -> bool:
    return step.every == 1 and step.offset == 0


def _entry(k: int, step: StepEntry, file: str) -> Iterator[str]:
    call = at(step.line, file, f"  {step.call};")
    if _always(step):
        yield call
    else:
        yield f"  if (rtsim_due_{k} == 0) {{\n    rtsim_due_{k} = {step.every}UL;\n{call}\n  }}"
        yield f"  rtsim_due_{k}--;"


def _sets(fields: Iterable[Field], packed: str) -> Iterator[str]:
    for place, byte, size in _placed(fields):
        type, element = place.signal.type, element_of(place, "rtsim_k")
        source = f"{packed} + {byte}u + rtsim_k * {size}u"
        if type == "bool":
            yield over(place.signal.size, f"{element} = *({source}) != 0;")
        else:
            body = f"rtsim_{type} rtsim_v; __builtin_memcpy(&rtsim_v, {source}, {size});"
            yield over(place.signal.size, f"{body} {element} = rtsim_v;")


def _gets(fields: Iterable[Field]) -> Iterator[str]:
    for place, byte, size in _placed(fields):
        type, element = place.signal.type, element_of(place, "rtsim_k")
        body = f"const rtsim_{type} rtsim_v = {element}{' != 0' if type == 'bool' else ''};"
        copied = f"__builtin_memcpy(rtsim_y + {byte}u + rtsim_k * {size}u, &rtsim_v, {size});"
        yield over(place.signal.size, f"{body} {copied}")


def _placed(fields: Iterable[Field]) -> Iterator[tuple[Field, int, int]]:
    byte = 0
    for place in fields:
        size = type_bytes(place.signal.type)
        yield place, byte, size
        byte += size * place.signal.size


LEAST_PAYLOAD = 64
"""Lower limit of the maximum payload, bytes; START sends the parameters in pieces."""
UNIT, CPP_UNIT = "rtsim_unit.c", "rtsim_unit.cpp"
SHARED_FOLDER = "src/rtsim"
"""Folder of the dispatcher, the protocol and the HAL in a sketch."""
CONTROLLER_FOLDER = "src/controller"
"""Folder of the unit and of the controller's own files in a sketch."""
_RTSIM, _CONTROLLER = f"{SHARED_FOLDER}/", f"{CONTROLLER_FOLDER}/"
_MARK = _RTSIM + "board.h"
SHARED = ("board.c", "board.h", "protocol.c", "protocol.h", "messages.h")
"""Files of ``firmware/src/rtsim`` that every sketch contains."""
CHECKS, CPP_CHECKS = "rtsim_checks.h", "rtsim_checks_cpp.h"
_BOARD_CLOCK = tuple(ARDUINO / name for name in ("clock_board.cpp", "text.cpp"))
_CORE_CLOCK = (ARDUINO / "clock_core.cpp",)
_PINS = ARDUINO / "rtsim_arduino.cpp"


@dataclass(frozen=True)
class Sketch:
    """The files of a controller's sketch."""

    interface: Interface
    baud: int
    build: int
    """Build number in HELLO: 32 bits of the hash of all files, independent of the baud rate."""
    files: Mapping[str, str]
    """Text of each file, by its path in the sketch's folder."""
    flags: tuple[str, ...]
    """Compiler flags for the Makefile and this package; the Arduino IDE does not receive them."""
    board: BoardDescription = field(default=DEFAULT_BOARD, repr=False)

    @property
    def name(self) -> str:
        return self.interface.name

    @property
    def key(self) -> str:
        """Hash of all files, which identifies the image."""
        return _hash(self.files)

    @property
    def main(self) -> str:
        return self.name + Path(self.board.main).suffix

    @property
    def users(self) -> set[str]:
        """Paths of the controller's own sources in the sketch."""
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
        """Write the files to ``folder/NAME``, and return this path.

        Raises ``BoardError`` if the path is no sketch of rtsim, or cannot be written.
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
    """Return the sketch of a controller for a board, with a serial line of ``baud`` bit/s.

    By default, the line has the default rate of the board. Raises ``InterfaceError`` if the board
    lacks the type or the pin of a signal. Raises ``BoardError`` if the bit rate is too high, or a
    step does not fit a frame.
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
    """Return the files that all sketches for a board share, by path.

    Raises ``BoardError`` if two files have the same name.
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
    """Return rtsim's files that C++ or Arduino code needs on a board."""
    core = board.compiler.core is not None
    if not interface.language.cpp:
        return Support()
    runtime = () if core else (SUPPORT / "cpp_board.cpp",)
    if interface.language.clock is None:
        return Support(runtime)
    first, clock = (ARDUINO_HEADER,), _CORE_CLOCK if core else (*runtime, *_BOARD_CLOCK)
    if core:  # Arduino.h must come from the core, not from rtsim's folder
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
