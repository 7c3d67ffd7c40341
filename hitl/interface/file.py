"""The interface file: a TOML file that describes a controller in C.

::

    name = "pid"
    period = "1/100"                       # s
    sources = ["pid.c"]
    headers = ["pid.h"]

    [code]
    objects = ["PIDController pid"]        # static objects of the worker
    initialize = "PIDController_Init(&pid)"
    step = "command = PIDController_Update(&pid, setpoint, measurement)"

    [inputs]
    setpoint = { type = "float32", unit = "m" }
    measurement = { type = "float32", unit = "m" }

    [outputs]
    command = { type = "float32", unit = "N" }

    [parameters]
    gain = { c = "pid.Kp", type = "float32", initial = 2.0 }

Entry points are C statements that call the controller, so any calling convention is possible.  A
signal is a C lvalue (``c``); without ``c`` the generated code declares a variable with the signal's
name.  The generator (:mod:`hitl.building.unit`) makes the compiler check every type and size, and
the compiler's errors name the lines of the interface file.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hitl.interface.fields import KEYS, Field, exact, fault_of_statement, number, read_field, whole
from hitl.interface.lines import InterfaceError, Lines, Table
from hitl.interface.shipped import found
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.core.toml import open_toml

# The language of a controller's code, and the clock of Arduino code

C, CPP = "c", "c++"
SKETCH = ".ino"
CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".C", SKETCH)
"""Suffixes of the sources that a C++ compiler compiles."""
AVR, EXACT = "avr", "exact"
_KEYS = ("timer", "start", "setup", "first_step")
_MOST_S = 4000.0
WRAP = 2**32
"""The number of values of a clock of 32 bits: micros() is 0 again after 4294.967296 s."""
_MOST_START_S = WRAP / 1000  # millis() is 0 again


@dataclass(frozen=True)
class ArduinoClock:
    """The clock that ``millis()`` and ``micros()`` read; all times in µs.

    The times of setup and of the first step are since the reset, and apply to SIL only.
    """

    timer: str = AVR
    """``"avr"``: ``micros()`` has steps of 4 µs and ``millis()`` of 1.024 ms, as in the core for
    AVR boards with 16 MHz; ``"exact"``: steps of 1 µs and of 1 ms."""
    setup_us: int = 0
    """Time at which the controller is initialised."""
    first_step_us: int = 10_000
    """Time of the step at the simulated time 0."""
    start_us: int = 0
    """What the clock shows at the reset, on the host and on a board, to test its wrap-around."""

    @property
    def start_ms(self) -> int:
        """What ``millis()`` shows at the reset."""
        if self.timer == AVR:
            return self.start_us // 1024 * 128 // 125
        return self.start_us // 1000


@dataclass(frozen=True)
class Language:
    """The language of a controller, and the clock of Arduino code."""

    name: str = C
    clock: ArduinoClock | None = None
    """The clock in SIL; ``None`` if the code is not Arduino code."""

    @property
    def cpp(self) -> bool:
        """True if the code around the controller is C++."""
        return self.name == CPP


def is_cpp(path: Path) -> bool:
    """Return True if a C++ compiler compiles ``path``."""
    return path.suffix in CPP_SUFFIXES


def is_sketch(path: Path) -> bool:
    """Return True if ``path`` is an Arduino sketch."""
    return path.suffix == SKETCH


def read_language(top: Table) -> Language:
    """Read the keys ``language`` and ``arduino``; raises :class:`InterfaceError` for a mistake."""
    given = top.data.get("arduino", False)
    if not isinstance(given, (bool, dict)):
        text = f"arduino = {given!r} is not valid; write arduino = true, or a table [arduino]"
        raise top.error("arduino", text)
    name = top.data.get("language", CPP if given is not False else C)
    if name not in (C, CPP):
        raise top.error("language", f'language = {name!r} is unknown; choose "c" or "c++"')
    if given is False:
        return Language(name)
    if name == C:
        raise top.error("language", 'Arduino code is C++; write language = "c++", or remove it')
    table = Table(top.lines, "arduino", given if isinstance(given, dict) else {}, _KEYS)
    return Language(name, _clock(table))


def check_sources(top: Table, language: Language, sources: tuple[Path, ...]) -> None:
    """Check that ``language`` allows ``sources``; raises :class:`InterfaceError` otherwise."""
    sketches = 0
    for element, path in enumerate(sources):
        if not is_sketch(path):
            continue
        sketches += 1
        if language.clock is None:
            text = f"{path.name} is an Arduino sketch; write arduino = true in the interface file"
            raise top.error("sources", text, element)
        if sketches > 1:
            text = f"{path.name} is a second sketch; name one .ino file, and the others as .cpp"
            raise top.error("sources", text, element)


def check_pins(top: Table, language: Language, tables: Mapping[str, Sequence[Field]]) -> None:
    """Check that only Arduino code has pins, and each pin one signal in each of ``tables``."""
    for table, fields in tables.items():
        seen: dict[str, str] = {}
        for place in filter(lambda place: place.pin, fields):
            name, text = place.signal.name, ""
            if language.clock is None:
                text = f"{name} has a pin; write arduino = true in the interface file"
            elif place.pin in seen:
                text = f"{name} and {seen[place.pin]} have the same pin; give each its own pin"
            if text:
                raise top.lines.error(table, name, text)
            seen[place.pin] = name


def sketch_entries(sources: tuple[Path, ...]) -> dict[str, str]:
    """Return the entry points of a sketch, for a table ``[code]`` that does not name them."""
    return {"initialize": "setup()", "step": "loop()"} if any(map(is_sketch, sources)) else {}


def _clock(table: Table) -> ArduinoClock:
    standard = ArduinoClock()
    timer = table.data.get("timer", AVR)
    if timer not in (AVR, EXACT):
        raise table.error("timer", f'timer = {timer!r} is unknown; choose "{AVR}" or "{EXACT}"')
    setup = _micros(table, "setup", standard.setup_us)
    first = _micros(table, "first_step", max(standard.first_step_us, setup))
    if first < setup:
        text = f"first_step = {first / 1e6:g} s is before setup = {setup / 1e6:g} s"
        raise table.error("first_step", f"{text}; give a later time")
    start = _micros(table, "start", 0, _MOST_START_S)
    return ArduinoClock(timer, setup, first, start)


def _micros(table: Table, key: str, default: int, most: float = _MOST_S) -> int:
    data: Mapping[str, object] = table.data
    if key not in data:
        return default
    try:
        value = number(data[key])
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise table.error(key, f"{key}: {error}") from None
    if not 0.0 <= value <= most:
        text = f"{key} = {value:g} is not a time in s since the reset, from 0 to {most:g}"
        hint = (
            "; to test the wrap-around of micros(), write start = 4294.9" if most == _MOST_S else ""
        )
        raise table.error(key, text + hint)
    return round(value * 1e6)


# The table ``[code]`` of an interface file: entry points as C statements.

_ENTRY_KEYS = ("objects", "initialize", "initialize_once", "step", "terminate", "parameters")
_STEP = ("call", "every", "offset")
WHEN = ("after initialize", "before initialize")


@dataclass(frozen=True)
class StepEntry:
    """An entry point of the controller: called at ticks ``offset``, ``offset + every``, …"""

    call: str
    every: int = 1
    offset: int = 0
    line: int = 0


def read_statements(code: Table, key: str) -> tuple[str, ...]:
    """Return the statements under ``key`` without their ``;``.

    Raises :class:`InterfaceError` for a text that is no statement.
    """
    return tuple(_statement(code, key, text, k) for k, text in enumerate(code.texts(key)))


def read_once(code: Table) -> bool:
    """Return True if the controller is initialised only once in a process.

    Raises :class:`InterfaceError` for another value than true or false.
    """
    value = code.data.get("initialize_once", False)
    if not isinstance(value, bool):
        raise code.error(
            "initialize_once", f"initialize_once = {value!r} is not valid; write true or false"
        )
    return value


def read_parameters_first(code: Table) -> bool:
    """Return True if parameters are set before the controller is initialised.

    Raises :class:`InterfaceError` for an unknown value.
    """
    when = code.data.get("parameters", WHEN[0])
    if when not in WHEN:
        raise code.error(
            "parameters", f"parameters = {when!r} is unknown; choose {' or '.join(WHEN)}"
        )
    return bool(when == WHEN[1])


def read_steps(code: Table) -> tuple[StepEntry, ...]:
    """Return the entry points of a step; raises :class:`InterfaceError` if there is none."""
    value = code.data.get("step", [])
    rows = value if isinstance(value, list) else [value]
    if not rows:
        raise code.error("step", 'step is missing; write step = "controller_step(&in, &out)"')
    return tuple(_step(code, row, element) for element, row in enumerate(rows))


def _step(code: Table, row: object, element: int) -> StepEntry:
    if isinstance(row, str):
        row = {"call": row}
    if not isinstance(row, dict) or not isinstance(row.get("call"), str):
        text = 'a step must be a text or { call = "...", every = ... }'
        raise code.error("step", text, element)
    for key in row:
        if key not in _STEP:
            text = f"a step has no key {key!r}; known: {', '.join(_STEP)}"
            raise code.error("step", text, element)
    call = _statement(code, "step", row["call"], element)
    every, offset = row.get("every", 1), row.get("offset", 0)
    if not whole(every, 1) or not whole(offset, 0):
        text = (
            f"every = {every!r}, offset = {offset!r}; every must be a whole number >= 1, offset a "
            "whole number >= 0"
        )
        raise code.error("step", text, element)
    return StepEntry(call, every, offset, code.lines.of("code", "step", element))


def _statement(code: Table, key: str, text: str, element: int) -> str:
    bare = text.strip().rstrip("; \n\t")
    fault = fault_of_statement(bare) if bare else "it is empty"
    if fault:
        raise code.error(key, f"{text!r} is not a statement of C: {fault}", element)
    return bare


__all__ = ["Field", "Interface", "InterfaceError", "StepEntry", "load_interface"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_HEADER = re.compile(r"<[^<>\"\n\\]+>\Z|[^<>\"\n\\]+\Z")
_TOP = (
    "name", "period", "any_period", "sources", "headers", "include", "flags", "libraries", "real",
    "language", "arduino",
)  # fmt: skip
_TABLES = ("code", "inputs", "outputs", "parameters", "tolerance", "variants")
_VARIANT = ("flags", "real", "sources", "include", "tolerance")
MOST_ELEMENTS = 65_536
"""Most elements in one table of signals, so that a typing error cannot request gigabytes."""
_MOST_RESPONSES = 100


Fields = tuple[Field, ...]


@dataclass(frozen=True)
class Interface:
    """A controller in C as its interface file describes it; all paths are absolute."""

    path: Path
    variant: str
    name: str
    period: Period
    sources: tuple[Path, ...]
    headers: tuple[str, ...]
    include: tuple[Path, ...]
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    objects: tuple[str, ...]
    initialize: tuple[str, ...]
    steps: tuple[StepEntry, ...]
    terminate: tuple[str, ...]
    parameters_first: bool
    input_fields: tuple[Field, ...]
    output_fields: tuple[Field, ...]
    parameter_fields: tuple[Field, ...]
    tolerances: Mapping[str, tuple[float, float]]
    """Allowed deviation of the C code from its reference model: (absolute, relative) by pattern."""
    lines: Lines = field(repr=False, compare=False)
    any_period: bool = False
    """True if the controller's step does not depend on the period."""
    language: Language = Language()
    initialize_once: bool = False
    """True if a reset of the processor always precedes ``initialize``: each run has a process."""

    @property
    def restarts(self) -> bool:
        """True if the controller can be initialised again, on the memory that it has used.

        A sketch cannot: its global objects get their first values only from a reset.
        """
        sketch = any(is_sketch(path) for path in self.sources)
        return not (sketch or self.initialize_once) and bool(
            self.initialize or (self.language.cpp and self.objects)
        )

    @property
    def inputs(self) -> Signals:
        """The input signals."""
        return Signals(*(f.signal for f in self.input_fields))

    @property
    def outputs(self) -> Signals:
        """The output signals."""
        return Signals(*(f.signal for f in self.output_fields))

    @property
    def parameters(self) -> Signals:
        """The parameters."""
        return Signals(*(f.signal for f in self.parameter_fields))

    def place(self, table: str, key: str) -> str:
        """Return ``file:line`` of a signal in any table, or of a key or its table."""
        fields = {"inputs": self.input_fields, "outputs": self.output_fields}.get(table, ())
        line = next((field.line for field in fields if field.signal.name == key), 0)
        return f"{self.lines.path}:{line or self.lines.of(table, key)}"

    @property
    def schema(self) -> int:
        """64 bits of a hash of all signals; both ends of a connection compare these bits."""
        parts = (self.inputs, self.outputs, self.parameters)
        text = ":".join([self.name, *(s.schema_hash for s in parts)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of all inputs, outputs and parameters."""
        return self.input_fields + self.output_fields + self.parameter_fields

    def describe(self) -> dict[str, object]:
        """Return the description of the interface for a recording's header."""
        return {
            "interface": str(self.path),
            "variant": self.variant,
            "schema": f"{self.schema:016x}",
            "sha256": self.sha256,
        }

    @property
    def sha256(self) -> str:
        """SHA-256 of this file and its sources, in hexadecimal; nothing is compiled."""
        out = hashlib.sha256()
        for path in (self.path, *self.sources):
            out.update(hashlib.sha256(path.read_bytes()).digest())
        return out.hexdigest()


def load_interface(reference: str | Path) -> Interface:
    """Read the interface file ``FILE.toml``, or its variant as ``FILE.toml:VARIANT``.

    If ``FILE.toml`` is ``firmware/core/NAME.toml`` and does not exist in the current folder, the
    file of that name that ships with the package is read.  Raises :class:`InterfaceError` with file
    and line for any error.
    """
    path, variant = _split(reference)
    path = found(path)
    file = open_toml(path, "an interface file", "pid.toml", InterfaceError)
    return _Reader(path.resolve(), variant, file.data, Lines(path, file.text)).interface()


def _split(reference: str | Path) -> tuple[Path, str]:
    text = str(reference)
    path, colon, variant = text.rpartition(":")
    if colon and path.endswith(".toml"):
        return Path(path), variant
    return Path(text), ""


def _words(text: str) -> list[str]:
    """Return the arguments in a response file, split by the rules of gcc and clang."""
    out: list[str] = []
    for word in re.finditer(r"(?:\\.|'(?:\\.|[^'])*'|\"(?:\\.|[^\"])*\"|[^\s\\'\"])+", text, re.S):
        parts = re.finditer(r"\\(.)|'|\"|([^\\'\"]+)", word[0], re.S)
        bare, quote = "", ""
        for part in parts:
            mark = part[0]
            if mark in ("'", '"') and quote in ("", mark):
                quote = "" if quote else mark
            else:
                bare += part[1] or part[2] or mark
        out.append(bare)
    return out


class _Reader:
    def __init__(self, path: Path, variant: str, data: dict[str, Any], lines: Lines) -> None:
        self.path, self.variant, self.lines = path, variant, lines
        self.folder = path.parent
        top = Table(lines, "", data, (*_TOP, *_TABLES))
        changes = self._changes(top)
        moved = dict.fromkeys(changes, f"variants.{variant}")
        self.top = Table(lines, "", {**data, **changes}, (*_TOP, *_TABLES), moved)

    def interface(self) -> Interface:
        top = self.top
        name = top.text("name")
        if not _IDENTIFIER.match(name):
            text = f"name {name!r} is not an identifier of at most 63 letters, digits and _"
            raise top.error("name", text)
        language, sources = read_language(top), self._sources()
        check_sources(top, language, sources)
        statements = {**sketch_entries(sources), **top.table("code")}
        code = Table(self.lines, "code", statements, _ENTRY_KEYS)
        inputs, outputs = self._fields("inputs"), self._fields("outputs")
        if not outputs:
            raise top.error("outputs", "[outputs] is missing; name at least one output")
        parameters = self._fields("parameters")
        self._apart(inputs, outputs, parameters)
        check_pins(top, language, {"inputs": inputs, "outputs": outputs})
        return Interface(
            path=self.path,
            variant=self.variant,
            name=name,
            period=self._period(),
            sources=sources,
            headers=self._headers(),
            include=(self.folder, *self._folders("include")),
            flags=self._flags(),
            libraries=top.texts("libraries"),
            objects=read_statements(code, "objects"),
            initialize=read_statements(code, "initialize"),
            steps=read_steps(code),
            terminate=read_statements(code, "terminate"),
            parameters_first=read_parameters_first(code),
            input_fields=inputs,
            output_fields=outputs,
            parameter_fields=parameters,
            tolerances=self._tolerances(),
            lines=self.lines,
            any_period=self._any_period(),
            language=language,
            initialize_once=read_once(code),
        )

    def _changes(self, top: Table) -> dict[str, Any]:
        """Return the keys that the variant changes; all variants are checked."""
        variants = top.table("variants")
        for name, changes in variants.items():
            if not isinstance(changes, dict):
                text = f"the variant {name} must be a table [variants.{name}]"
                raise self.lines.error("variants", name, text)
            Table(self.lines, f"variants.{name}", changes, _VARIANT)
        if not self.variant:
            return {}
        if self.variant not in variants:
            known = ", ".join(sorted(variants)) or "none"
            raise top.error("variants", f"unknown variant {self.variant!r}; known: {known}")
        changes = variants[self.variant]
        return dict(changes)

    def _tolerances(self) -> dict[str, tuple[float, float]]:
        """Return the tolerances, written as ``aileron = 0.04`` or ``"f16.*" = [1e-3, 1e-2]``."""
        out = {}
        for pattern, value in self.top.table("tolerance").items():
            pair = value if isinstance(value, list) else [value, 0.0]
            numbers = [v for v in pair if isinstance(v, (int, float)) and not isinstance(v, bool)]
            if len(pair) != 2 or len(numbers) != 2 or not all(0 <= v < math.inf for v in numbers):
                text = f"tolerance {value!r}; write ABSOLUTE or [ABSOLUTE, RELATIVE], both >= 0"
                raise self.lines.error("tolerance", pattern, text)
            out[pattern] = (float(numbers[0]), float(numbers[1]))
        return out

    def _period(self) -> Period:
        value = self.top.data.get("period")
        try:
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise ValueError("the period is missing or not a number")
            return Period.of(exact(value) if isinstance(value, str) else value)
        except (ValueError, OverflowError, ZeroDivisionError, RtsimError) as error:
            text = f'period {value!r}: {error}; write seconds, such as "1/50" or 0.02'
            raise self.top.error("period", text) from None

    def _any_period(self) -> bool:
        value = self.top.data.get("any_period", False)
        if not isinstance(value, bool):
            raise self.top.error(
                "any_period", f"any_period = {value!r} is not valid; write true or false"
            )
        return value

    def _sources(self) -> tuple[Path, ...]:
        if "sources" not in self.top.data:
            text = 'sources is missing; write sources = ["pid.c"], or [] if all C is in headers'
            raise self.top.error("sources", text)
        paths = self._paths("sources")
        for element, path in enumerate(paths):
            text = ""
            if not path.is_file():
                text = f"there is no file {path}; paths are relative to {self.folder}"
            elif path.suffix in (".h", ".hpp"):
                text = f"{path.name} is a header; name it under headers"
            elif path in paths[:element]:
                text = f"{path.name} is named twice"
            if text:
                raise self.top.error("sources", text, element)
        return paths

    def _folders(self, key: str) -> tuple[Path, ...]:
        paths = self._paths(key)
        for element, path in enumerate(paths):
            if not path.is_dir():
                text = f"there is no folder {path}; paths are relative to {self.folder}"
                raise self.top.error(key, text, element)
        return paths

    def _flags(self) -> tuple[str, ...]:
        """Return the flags, with the contents of response files (``@FILE``) in their place."""
        out: list[str] = []
        for element, flag in enumerate(self.top.texts("flags")):
            given, files = [flag], 0
            while given:
                word = given.pop(0)
                if not word.startswith("@"):
                    out.append(word)
                    continue
                path, files = self.folder / word[1:], files + 1
                try:
                    text = path.read_text(encoding="utf-8", errors="surrogateescape")
                except OSError as error:
                    text = f"{word}: cannot read {path}: {error.strerror}; name a file of flags"
                    raise self.top.error("flags", text, element) from None
                if files > _MOST_RESPONSES:
                    text = f"{flag} names more than {_MOST_RESPONSES} files of flags; is it a cycle"
                    raise self.top.error("flags", f"{text}?", element)
                given[:0] = _words(text)
        return tuple(out)

    def _paths(self, key: str) -> tuple[Path, ...]:
        return tuple((self.folder / p).resolve() for p in self.top.texts(key))

    def _headers(self) -> tuple[str, ...]:
        names = self.top.texts("headers")
        for element, name in enumerate(names):
            if not _HEADER.match(name):
                text = f"{name!r} is not the name of a header; write 'pid.h' or '<math.h>'"
                raise self.top.error("headers", text, element)
        return names

    def _fields(self, table: str) -> tuple[Field, ...]:
        given = self.top.table(table)
        fields = tuple(self._field(table, name, row) for name, row in given.items())
        size = sum(f.signal.size for f in fields)
        if size > MOST_ELEMENTS:
            text = f"[{table}] has {size} elements; at most {MOST_ELEMENTS} are allowed"
            raise self.top.error(table, text)
        columns: dict[str, str] = {}
        for place in fields:
            for column in place.signal.columns:
                if column in columns:
                    text = f"{column} is also an element of {columns[column]}; rename one of them"
                    raise self.lines.error(table, place.signal.name, text)
                columns[column] = place.signal.name
        return fields

    def _field(self, table: str, name: str, row: object) -> Field:
        if not isinstance(row, dict):
            text = f'{name} is not a table; write {name} = {{ type = "float32", unit = "m" }}'
            raise self.lines.error(table, name, text)
        real = self.top.data.get("real", "float64")
        if real not in ("float64", "float32"):
            raise self.top.error(
                "real", f"real = {real!r} is not a type of real numbers; choose float64 or float32"
            )
        Table(self.lines, f"{table}.{name}", row, KEYS)
        try:
            return read_field(table, name, row, self.lines.of(table, name), real)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
            raise self.lines.error(table, name, f"{name}: {error}") from None

    def _apart(self, inputs: Fields, outputs: Fields, parameters: Fields) -> None:
        """Check that no variable is declared twice or set twice."""
        declared: dict[str, str] = {}
        written: dict[str, str] = {}
        for table, fields in (
            ("inputs", inputs), ("outputs", outputs), ("parameters", parameters),
        ):  # fmt: skip
            for place in fields:
                name, text = place.signal.name, ""
                if place.declared and name in declared:
                    text = (
                        f"{name} is also declared in [{declared[name]}]; rename one of them, or "
                        f'name its variable in C: {name} = {{ c = "..." }}'
                    )
                elif table != "outputs" and place.lvalue in written:
                    text = (
                        f"{name} and {written[place.lvalue]} are both written to {place.lvalue}; "
                        "give each a variable of its own"
                    )
                if text:
                    raise self.lines.error(table, name, text)
                if place.declared:
                    declared[name] = table
                if table != "outputs":
                    written[place.lvalue] = name
