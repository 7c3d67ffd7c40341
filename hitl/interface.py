"""The interface file: a TOML that says once what a C controller is.

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

Entry points are C statements, so that any calling convention is written as its caller would write
it.  A signal is a C lvalue (``c``); without one the worker declares a variable of its name.  The
generator (:mod:`hitl.unit`) makes the compiler check every type and size, and its complaints name
the lines of this file.
"""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from hitl.lines import Lines
from rtsim.errors import RtsimError, ScenarioError
from rtsim.signals import Signal, Signals
from rtsim.tag import Period

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TOP = ("name", "period", "sources", "headers", "include", "flags", "libraries", "real")
_CODE = ("objects", "initialize", "step", "terminate", "parameters")
_FIELD = ("c", "type", "shape", "unit", "scale", "bias", "overflow", "initial", "low", "high")
_FIELD_MORE = ("kind", "description")
_STEP = ("call", "every", "offset")
WHEN = ("after initialize", "before initialize")
OVERFLOW = ("error", "saturate")
MOST_ELEMENTS = 65_536
"""Of one direction; a typing error must not ask for gigabytes."""


@dataclass(frozen=True)
class Field:
    """A signal and where it lives in C: ``real = raw * scale + bias``."""

    signal: Signal
    lvalue: str
    declared: bool
    """The worker declares a variable for it."""
    line: int
    scale: float = 1.0
    bias: float = 0.0
    overflow: str = "error"

    @property
    def scaled(self) -> bool:
        return self.scale != 1.0 or self.bias != 0.0


@dataclass(frozen=True)
class Step:
    """One entry point: called at ticks ``offset``, ``offset + every``, …"""

    call: str
    every: int = 1
    offset: int = 0
    line: int = 0


@dataclass(frozen=True)
class Interface:
    """What the file says; paths are absolute."""

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
    steps: tuple[Step, ...]
    terminate: tuple[str, ...]
    parameters_first: bool
    input_fields: tuple[Field, ...]
    output_fields: tuple[Field, ...]
    parameter_fields: tuple[Field, ...]
    lines: Lines = field(repr=False, compare=False)

    @property
    def inputs(self) -> Signals:
        return Signals(*(f.signal for f in self.input_fields))

    @property
    def outputs(self) -> Signals:
        return Signals(*(f.signal for f in self.output_fields))

    @property
    def parameters(self) -> Signals:
        return Signals(*(f.signal for f in self.parameter_fields))

    @property
    def schema(self) -> int:
        """What both ends compare before they talk: 64 bits of the hash of all signals."""
        parts = (self.inputs, self.outputs, self.parameters)
        text = ":".join([self.name, *(s.schema_hash for s in parts)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input_fields + self.output_fields + self.parameter_fields


class InterfaceError(ScenarioError):
    """An interface file that cannot be used; the text begins with ``file:line:``."""


def load_interface(reference: str | Path) -> Interface:
    """Read ``FILE.toml`` or ``FILE.toml:VARIANT``; :class:`InterfaceError` names file and line."""
    path, variant = _split(reference)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InterfaceError(
            f"{path}: {error.strerror}; give the path of an interface file, such as pid.toml"
        ) from None
    except UnicodeDecodeError as error:
        raise InterfaceError(f"{path}: not UTF-8 text at byte {error.start}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InterfaceError(f"{path}: not TOML: {error}") from None
    return _Reader(path.resolve(), variant, data, Lines(path, text)).interface()


def _split(reference: str | Path) -> tuple[Path, str]:
    text = str(reference)
    path, colon, variant = text.rpartition(":")
    if colon and path.endswith(".toml"):
        return Path(path), variant
    return Path(text), ""


class _Reader:
    """Checks each key as it is read; what is left over is unknown."""

    def __init__(self, path: Path, variant: str, data: dict[str, Any], lines: Lines) -> None:
        self.path, self.variant, self.lines = path, variant, lines
        self.folder = path.parent
        self.data = self._with_variant(data, variant)

    def interface(self) -> Interface:
        top = self.data
        self._known("", top, (*_TOP, "code", "inputs", "outputs", "parameters"))
        code = self._table("code")
        self._known("code", code, _CODE)
        name = self._text("", top, "name")
        if not _IDENTIFIER.match(name):
            raise self.error("", "name", f"name {name!r} is not an identifier; use letters, _")
        outputs = self._fields("outputs")
        if not outputs:
            raise self.error("", "outputs", "no [outputs]: what would be compared?")
        when = code.get("parameters", WHEN[0])
        if when not in WHEN:
            raise self.error("code", "parameters", f"{when!r}; choose {' or '.join(WHEN)}")
        return Interface(
            path=self.path,
            variant=self.variant,
            name=name,
            period=self._period(),
            sources=self._files("sources"),
            headers=self._texts("", top, "headers"),
            include=(self.folder, *self._folders("include")),
            flags=self._texts("", top, "flags"),
            libraries=self._texts("", top, "libraries"),
            objects=self._texts("code", code, "objects"),
            initialize=self._texts("code", code, "initialize"),
            steps=self._steps(code),
            terminate=self._texts("code", code, "terminate"),
            parameters_first=when == WHEN[1],
            input_fields=self._fields("inputs"),
            output_fields=outputs,
            parameter_fields=self._fields("parameters"),
            lines=self.lines,
        )

    def error(self, table: str, key: str, text: str) -> InterfaceError:
        return InterfaceError(f"{self.lines.where(table, key)}: {text}")

    # -- pieces

    def _with_variant(self, data: dict[str, Any], variant: str) -> dict[str, Any]:
        variants = data.pop("variants", {})
        if not isinstance(variants, dict) or not all(
            isinstance(v, dict) for v in variants.values()
        ):
            raise self.error("", "variants", "write each variant as a table [variants.NAME]")
        for name, changes in variants.items():
            self._known(f"variants.{name}", changes, ("flags", "real", "sources", "include"))
        if not variant:
            return data
        if variant not in variants:
            known = ", ".join(sorted(variants)) or "none"
            raise InterfaceError(f"{self.path}: no variant {variant!r}; it has: {known}")
        return {**data, **variants[variant]}

    def _known(self, table: str, given: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
        for key in given:
            if key not in allowed:
                where = f"[{table}]" if table else "the top level"
                text = f"{key!r} is not known in {where}; known: {', '.join(allowed)}"
                raise self.error(table, key, text)

    def _table(self, name: str) -> dict[str, Any]:
        table = self.data.get(name, {})
        if not isinstance(table, dict):
            raise self.error("", name, f"{name} is not a table; write [{name}] on its own line")
        return table

    def _text(self, table: str, given: Mapping[str, Any], key: str, default: str = "") -> str:
        value = given.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.error(table, key, f'{key} is missing or no text; write {key} = "..."')
        return value.strip()

    def _texts(self, table: str, given: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = given.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(v, str) for v in listed):
            raise self.error(table, key, f"{key} is neither a text nor a list of texts")
        return tuple(v.strip().rstrip(";") for v in listed if v.strip())

    def _period(self) -> Period:
        value = self.data.get("period")
        try:
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise ValueError("missing")
            return Period.of(Fraction(value) if isinstance(value, str) else value)
        except (ValueError, ZeroDivisionError, RtsimError) as error:
            text = f'period {value!r} ({error}); write seconds, such as "1/50" or 0.02'
            raise self.error("", "period", text) from None

    def _files(self, key: str) -> tuple[Path, ...]:
        paths = tuple((self.folder / p).resolve() for p in self._texts("", self.data, key))
        for path in paths:
            if not path.is_file():
                raise self.error("", key, f"no file {path}; paths are relative to {self.folder}")
        return paths

    def _folders(self, key: str) -> tuple[Path, ...]:
        paths = tuple((self.folder / p).resolve() for p in self._texts("", self.data, key))
        for path in paths:
            if not path.is_dir():
                raise self.error("", key, f"no folder {path}; paths are relative to {self.folder}")
        return paths

    def _steps(self, code: Mapping[str, Any]) -> tuple[Step, ...]:
        value = code.get("step", [])
        rows = value if isinstance(value, list) else [value]
        line = self.lines.of("code", "step")
        steps = []
        for row in rows:
            if isinstance(row, str):
                row = {"call": row}
            if not isinstance(row, dict):
                raise self.error("code", "step", "a step is a text, or { call = ..., every = ... }")
            self._known("code.step", row, _STEP)
            call = self._text("code", row, "call").rstrip(";")
            every, offset = row.get("every", 1), row.get("offset", 0)
            if not _whole(every, 1) or not _whole(offset, 0):
                text = f"every = {every!r}, offset = {offset!r}; whole numbers >= 1 and >= 0"
                raise self.error("code", "step", text)
            steps.append(Step(call, every, offset, line))
        if not steps:
            raise self.error("code", "step", 'no step; write step = "controller_step(&in, &out)"')
        return tuple(steps)

    def _fields(self, table: str) -> tuple[Field, ...]:
        given = self._table(table)
        fields = tuple(self._field(table, name, row) for name, row in given.items())
        size = sum(f.signal.size for f in fields)
        if size > MOST_ELEMENTS:
            text = f"{size} elements in [{table}]; at most {MOST_ELEMENTS}"
            raise self.error("", table, text)
        return fields

    def _field(self, table: str, name: str, row: object) -> Field:
        if not isinstance(row, dict):
            raise self.error(table, name, f'write {name} = {{ type = "float32", unit = "m" }}')
        self._known(f"{table}.{name}", row, (*_FIELD, *_FIELD_MORE))
        try:
            signal = self._signal(name, row)
            scale, bias = _number(row.get("scale", 1.0)), _number(row.get("bias", 0.0))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
            raise self.error(table, name, str(error)) from None
        integral = "int" in signal.type
        if (scale != 1.0 or bias != 0.0) and not integral:
            raise self.error(table, name, f"scale and bias are for integers, not {signal.type}")
        if not math.isfinite(scale) or scale == 0.0 or not math.isfinite(bias):
            raise self.error(table, name, f"scale {scale}, bias {bias}; finite, and scale not 0")
        overflow = row.get("overflow", OVERFLOW[0])
        if overflow not in OVERFLOW:
            raise self.error(table, name, f"overflow {overflow!r}; choose {' or '.join(OVERFLOW)}")
        lvalue = row.get("c", name)
        if not isinstance(lvalue, str) or not lvalue.strip():
            raise self.error(table, name, 'c is a C lvalue, such as c = "rtU.alpha"')
        line = self.lines.of(table, name)
        return Field(signal, lvalue.strip(), "c" not in row, line, scale, bias, overflow)

    def _signal(self, name: str, row: Mapping[str, Any]) -> Signal:
        shape = row.get("shape", [])
        listed = [shape] if isinstance(shape, int) else shape
        if not isinstance(listed, list) or not all(_whole(n, 1) for n in listed):
            raise ValueError(f"shape {shape!r}; write shape = [3] or [2, 3]")
        initial = row.get("initial", 0.0)
        values = tuple(map(_number, _flat(initial))) if isinstance(initial, list) else None
        return Signal(
            name,
            row.get("unit", "1"),
            type=row.get("type", self.data.get("real", "float64")),
            shape=tuple(listed),
            kind=row.get("kind", "scalar"),
            initial=_number(initial) if values is None else values,
            low=_number(row.get("low", -math.inf)),
            high=_number(row.get("high", math.inf)),
            description=row.get("description", ""),
        )


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _flat(value: object) -> list[object]:
    return [x for v in value for x in _flat(v)] if isinstance(value, list) else [value]


def _number(value: object) -> float:
    """A number, or a text such as ``"1/256"`` or ``"2**-8"``."""
    if isinstance(value, str):
        base, power, exponent = value.partition("**")
        return float(Fraction(base) ** int(exponent)) if power else float(Fraction(base))
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return float(value)
