"""Read interface files: TOML files that describe controllers in C.

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

Entry points are C statements, so any calling convention is possible. The key ``c`` of a signal is
its C lvalue. For a signal without this key, the generated code declares a variable with the
signal's name. The compiler checks all types and sizes in the generated code
(``hitl.building.unit``). Compiler errors refer to the lines of the interface file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hitl.interface.fields import (
    FIELD,
    Field,
    InterfaceError,
    exact,
    exact_number,
    fault_of_statement,
    read_field,
)
from hitl.interface.shipped import found
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.core.toml import (
    NEEDED,
    Entries,
    Key,
    Lines,
    ListKey,
    Place,
    TomlFile,
    choice,
    flag,
    named,
    number,
    open_toml,
    read,
    table,
    text,
    texts,
    whole,
)

# The language of a controller's code, and the clock of Arduino code.

C, CPP = "c", "c++"
SKETCH = ".ino"
CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".C", SKETCH)
AVR, EXACT = "avr", "exact"
_MOST_S = 4000.0
WRAP = 2**32
"""Number of values of a 32-bit clock: micros() wraps to 0 after 4294.967296 s."""
_MOST_START_S = WRAP / 1000  # millis() wraps to 0


@dataclass(frozen=True)
class ArduinoClock:
    """The clock that ``millis()`` and ``micros()`` read.

    All times are in µs. ``setup_us`` and ``first_step_us`` are times after the reset, for SIL only.
    """

    timer: str = AVR
    """Resolution of the clock, "avr" or "exact".

    With "avr", ``micros()`` has steps of 4 µs and ``millis()`` steps of 1.024 ms, as on AVR boards
    with 16 MHz.  With "exact", the steps are 1 µs and 1 ms.
    """
    setup_us: int = 0
    """Time at which the controller is initialised."""
    first_step_us: int = 10_000
    """Time of the step at simulated time 0."""
    start_us: int = 0
    """Value of the clock at the reset, on the host and on a board; used to test the wrap to 0."""

    @property
    def start_ms(self) -> int:
        if self.timer == AVR:
            return self.start_us // 1024 * 128 // 125
        return self.start_us // 1000


@dataclass(frozen=True)
class Language:
    """The language of a controller, with the clock of Arduino code."""

    name: str = C
    clock: ArduinoClock | None = None
    """Clock in SIL; None if the code is not Arduino code."""

    @property
    def cpp(self) -> bool:
        return self.name == CPP


def is_cpp(path: Path) -> bool:
    return path.suffix in CPP_SUFFIXES


def is_sketch(path: Path) -> bool:
    return path.suffix == SKETCH


def _micros(default: int | None, most: float = _MOST_S) -> Key:
    def convert(given: object) -> int:
        seconds = exact_number(given)
        if not 0.0 <= seconds <= most:
            raise ValueError(
                "to test the wrap-around of micros(), write start = 4294.9"
                if most == _MOST_S and seconds > most
                else ""
            )
        return round(seconds * 1e6)

    return Key(f"a time in s since the reset, from 0 to {most:g}", default, convert)


_CLOCK = {
    "timer": choice((AVR, EXACT), AVR, "timer"),
    "start": _micros(0, _MOST_START_S),
    "setup": _micros(0),
    "first_step": _micros(None),
}


class _Arduino(Key):
    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        if isinstance(given, bool):
            return _clock(read({}, _CLOCK, place)) if given else None
        return _clock(table(_CLOCK, self.wanted).value(given, place, name, element))


def _clock(row: Entries) -> ArduinoClock:
    setup, first = row["setup"], row["first_step"]
    if first is None:
        first = max(ArduinoClock.first_step_us, setup)
    if first < setup:
        text = f"first_step = {first / 1e6:g} s is before setup = {setup / 1e6:g} s"
        raise row.error("first_step", f"{text}; give a later time")
    return ArduinoClock(row["timer"], setup, first, row["start"])


def language_of(top: Entries) -> Language:
    """Return the language of the controller.

    Raises ``InterfaceError`` for Arduino code in C.
    """
    clock = top["arduino"]
    name = top["language"] or (C if clock is None else CPP)
    if clock is not None and name == C:
        raise top.error("language", 'Arduino code is C++; write language = "c++", or remove it')
    return Language(name, clock)


def check_sources(top: Entries, language: Language, sources: tuple[Path, ...]) -> None:
    """Raise ``InterfaceError`` if a source is not in ``language``."""
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


def check_pins(top: Entries, language: Language, tables: Mapping[str, Sequence[Field]]) -> None:
    """Raise an error for a pin without Arduino code, and for two signals at one pin."""
    for of, fields in tables.items():
        seen: dict[str, str] = {}
        for place in filter(lambda place: place.pin, fields):
            name, text = place.signal.name, ""
            if language.clock is None:
                text = f"{name} has a pin; write arduino = true in the interface file"
            elif place.pin in seen:
                text = f"{name} and {seen[place.pin]} have the same pin; give each its own pin"
            if text:
                raise top[of].error(name, text)
            seen[place.pin] = name


# The table ``[code]`` of an interface file, which contains the entry points.

WHEN = ("after initialize", "before initialize")


@dataclass(frozen=True)
class StepEntry:
    """Entry point of the C code, called at the ticks ``offset``, ``offset + every`` and so on."""

    call: str
    every: int = 1
    offset: int = 0
    line: int = 0


def _statement(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError
    bare = given.strip().rstrip("; \n\t")
    if fault := fault_of_statement(bare) if bare else "it is empty":
        raise ValueError(fault)
    return bare


_STATEMENT = Key("a statement of C", convert=_statement)
_MOST_TICKS = 2**31 - 1
_STEP = {
    "call": _STATEMENT,
    "every": whole(1, _MOST_TICKS, 1),
    "offset": whole(0, _MOST_TICKS, 0),
}


class _Step(Key):
    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        row = {"call": given} if isinstance(given, str) else given
        read = table(_STEP, self.wanted).value(row, place, name, element)
        return StepEntry(read["call"], read["every"], read["offset"], place.line(name, element))


_STATEMENTS = ListKey("a statement of C, or a list of them", (), of=_STATEMENT, single=True)
_CODE = {
    "objects": _STATEMENTS,
    "initialize": _STATEMENTS,
    "initialize_once": flag(),
    "step": ListKey(
        'step = "controller_step(&in, &out)"',
        of=_Step('a text or { call = "...", every = ... }'), count=range(1, 1000), single=True,
    ),
    "terminate": _STATEMENTS,
    "parameters": choice(WHEN, WHEN[0], "time of the parameters"),
}  # fmt: skip


__all__ = ["Field", "Interface", "InterfaceError", "StepEntry", "load_interface"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_HEADER = re.compile(r"<[^<>\"\n\\]+>\Z|[^<>\"\n\\]+\Z")
MOST_ELEMENTS = 65_536
"""Maximum number of elements in one table of signals.

The limit stops a typing error from allocating gigabytes.
"""
_MOST_RESPONSES = 100


Fields = tuple[Field, ...]


@dataclass(frozen=True)
class Interface:
    """A controller in C, as described in its interface file. All paths are absolute."""

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
    """Allowed deviations (absolute, relative) from the reference model, by pattern of signal
    names."""
    lines: Lines = field(repr=False, compare=False)
    any_period: bool = False
    """True if the controller's step does not depend on the period."""
    language: Language = Language()
    initialize_once: bool = False
    """True if ``initialize`` may run only once after a reset; each run then needs a new process."""

    @property
    def restarts(self) -> bool:
        """True if the controller can be initialised again without a reset.

        Global objects of a sketch are only initialised at a reset. A sketch therefore cannot be
        initialised again.
        """
        sketch = any(is_sketch(path) for path in self.sources)
        return not (sketch or self.initialize_once) and bool(
            self.initialize or (self.language.cpp and self.objects)
        )

    @property
    def inputs(self) -> Signals:
        return Signals(*(f.signal for f in self.input_fields))

    @property
    def outputs(self) -> Signals:
        return Signals(*(f.signal for f in self.output_fields))

    @property
    def parameters(self) -> Signals:
        return Signals(*(f.signal for f in self.parameter_fields))

    def place(self, table: str, key: str) -> str:
        """Return ``file:line`` of a signal, of another key, or of a table."""
        fields = {"inputs": self.input_fields, "outputs": self.output_fields}.get(table, ())
        line = next((field.line for field in fields if field.signal.name == key), 0)
        return f"{self.lines.path}:{line or self.lines.of(table, key)}"

    @property
    def schema(self) -> int:
        """A hash (64 bits) of all signals, which host and controller compare."""
        parts = (self.inputs, self.outputs, self.parameters)
        text = ":".join([self.name, *(s.schema_hash for s in parts)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    @property
    def fields(self) -> tuple[Field, ...]:
        """All inputs, outputs and parameters, with their C variables."""
        return self.input_fields + self.output_fields + self.parameter_fields

    def describe(self) -> dict[str, object]:
        return {
            "interface": str(self.path),
            "variant": self.variant,
            "schema": f"{self.schema:016x}",
            "sha256": self.sha256,
        }

    @property
    def sha256(self) -> str:
        out = hashlib.sha256()
        for path in (self.path, *self.sources):
            out.update(hashlib.sha256(path.read_bytes()).digest())
        return out.hexdigest()


def load_interface(reference: str | Path) -> Interface:
    """Read the interface file ``FILE.toml``, or a variant as ``FILE.toml:VARIANT``.

    For a missing path that begins with ``firmware/``, rtsim uses its own file of this name. Raises
    :class:`InterfaceError` with file and line for any error.
    """
    path, variant = _split(reference)
    file = open_toml(found(path), "an interface file", "pid.toml", InterfaceError)
    return _Reader(file, variant).interface()


def _split(reference: str | Path) -> tuple[Path, str]:
    text = str(reference)
    path, colon, variant = text.rpartition(":")
    if colon and path.endswith(".toml"):
        return Path(path), variant
    return Path(text), ""


def _words(text: str) -> list[str]:
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


def _period(given: object) -> Period:
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise TypeError
    return Period.of(exact(given) if isinstance(given, str) else given)


def _header(given: object) -> str:
    if not isinstance(given, str) or not _HEADER.match(given):
        raise ValueError
    return given


def _tolerance(given: object) -> tuple[float, float]:
    pair = given if isinstance(given, list) else [given, 0.0]
    absolute, relative = map(number(0.0).convert, pair)
    return absolute, relative


_REAL = choice(("float64", "float32"), "float64", "type of real numbers")
_TOLERANCE = named(Key("ABSOLUTE or [ABSOLUTE, RELATIVE], both >= 0", convert=_tolerance))
"""Tolerances, such as ``aileron = 0.04`` or ``"f16.*" = [1e-3, 1e-2]``."""
_SIGNALS = named(table(FIELD, 'a table, such as { type = "float32", unit = "m" }'))
_VARIANT = {
    "flags": texts(), "real": _REAL, "sources": texts(), "include": texts(),
    "tolerance": _TOLERANCE,
}  # fmt: skip
_TOP = {
    **_VARIANT,
    "name": text(),
    "period": Key('seconds, such as "1/50" or 0.02', convert=_period),
    "any_period": flag(),
    "sources": texts(NEEDED, 'sources = ["pid.c"], or [] if all C is in headers'),
    "headers": ListKey(
        "a list of headers", (), of=Key("'pid.h' or '<math.h>'", convert=_header), single=True
    ),
    "libraries": texts(),
    "language": choice((C, CPP), None, "language"),
    "arduino": _Arduino("arduino = true, or a table [arduino]", None),
    "code": table(_CODE),
    "inputs": _SIGNALS,
    "outputs": _SIGNALS,
    "parameters": _SIGNALS,
    "variants": named(table(_VARIANT, "a table [variants.NAME]")),
}


def _has_sketch(sources: object) -> bool:
    listed = sources if isinstance(sources, list) else [sources]
    return any(isinstance(one, str) and one.endswith(SKETCH) for one in listed)


class _Reader:
    def __init__(self, file: TomlFile, variant: str) -> None:
        self.path, self.variant, self.lines = file.path.resolve(), variant, file.lines
        self.folder = self.path.parent
        data, place = file.data, file.place
        variants = _TOP["variants"].value(data.get("variants", {}), place, "variants")
        if variant and variant not in variants:
            known = ", ".join(sorted(variants)) or "none"
            raise place.error("variants", f"unknown variant {variant!r}; known: {known}")
        changes = variants[variant].given if variant else {}
        place = replace(place, moved=dict.fromkeys(changes, f"variants.{variant}"))
        data = {**data, **changes}
        if _has_sketch(data.get("sources")) and isinstance(data.get("code", {}), dict):
            data["code"] = {"initialize": "setup()", "step": "loop()", **data.get("code", {})}
        self.top = read(data, _TOP, place)

    def interface(self) -> Interface:
        top, code = self.top, self.top["code"]
        if not _IDENTIFIER.match(top["name"]):
            text = f"name {top['name']!r} is not an identifier of at most 63 letters, digits and _"
            raise top.error("name", text)
        language, sources = language_of(top), self._sources()
        check_sources(top, language, sources)
        inputs, outputs = self._fields("inputs"), self._fields("outputs")
        if not outputs:
            raise top.error("outputs", "[outputs] is missing; name at least one output")
        parameters = self._fields("parameters")
        self._apart(inputs, outputs, parameters)
        check_pins(top, language, {"inputs": inputs, "outputs": outputs})
        return Interface(
            path=self.path,
            variant=self.variant,
            name=top["name"],
            period=top["period"],
            sources=sources,
            headers=top["headers"],
            include=(self.folder, *self._folders("include")),
            flags=self._flags(),
            libraries=top["libraries"],
            objects=code["objects"],
            initialize=code["initialize"],
            steps=code["step"],
            terminate=code["terminate"],
            parameters_first=code["parameters"] == WHEN[1],
            input_fields=inputs,
            output_fields=outputs,
            parameter_fields=parameters,
            tolerances=dict(top["tolerance"]),
            lines=self.lines,
            any_period=top["any_period"],
            language=language,
            initialize_once=code["initialize_once"],
        )

    def _sources(self) -> tuple[Path, ...]:
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
        out: list[str] = []
        for element, option in enumerate(self.top["flags"]):
            given, files = [option], 0
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
                    text = (
                        f"{option} names more than {_MOST_RESPONSES} files of flags; is it a cycle"
                    )
                    raise self.top.error("flags", f"{text}?", element)
                given[:0] = _words(text)
        return tuple(out)

    def _paths(self, key: str) -> tuple[Path, ...]:
        return tuple((self.folder / p).resolve() for p in self.top[key])

    def _fields(self, table: str) -> tuple[Field, ...]:
        rows = self.top[table]
        fields = tuple(self._field(table, name, row) for name, row in rows.items())
        size = sum(f.signal.size for f in fields)
        if size > MOST_ELEMENTS:
            text = f"[{table}] has {size} elements; at most {MOST_ELEMENTS} are allowed"
            raise self.top.error(table, text)
        columns: dict[str, str] = {}
        for place in fields:
            for column in place.signal.columns:
                if column in columns:
                    text = f"{column} is also an element of {columns[column]}; rename one of them"
                    raise rows.error(place.signal.name, text)
                columns[column] = place.signal.name
        return fields

    def _field(self, table: str, name: str, row: Entries) -> Field:
        with row.checking():
            return read_field(table, name, row, self.top["real"])

    def _apart(self, inputs: Fields, outputs: Fields, parameters: Fields) -> None:
        declared: dict[str, str] = {}
        written: dict[str, str] = {}
        for of, fields in (
            ("inputs", inputs), ("outputs", outputs), ("parameters", parameters),
        ):  # fmt: skip
            for place in fields:
                name, text = place.signal.name, ""
                if place.declared and name in declared:
                    text = (
                        f"{name} is also declared in [{declared[name]}]; rename one of them, or "
                        f'name its variable in C: {name} = {{ c = "..." }}'
                    )
                elif of != "outputs" and place.lvalue in written:
                    text = (
                        f"{name} and {written[place.lvalue]} are both written to {place.lvalue}; "
                        "give each a variable of its own"
                    )
                if text:
                    raise self.top[of].error(name, text)
                if place.declared:
                    declared[name] = of
                if of != "outputs":
                    written[place.lvalue] = name
