"""Frames that a TOML file describes field by field, such as datagrams.

::

    [attitude]                 # one table for each frame
    endian = "big"             # or "little", the default
    identifier = 0x120         # only for CAN; extended = true for 29 bits
    period = 0.02              # s; for the load of a bus

    [attitude.fields]          # in the order of the bytes, without gaps
    magic = { type = "uint16", value = 0xCAFE }
    roll = { type = "int16", scale = 0.01, unit = "deg" }
    rates = { type = "float32", count = 3, unit = "rad/s" }
    spare = { type = "padding", count = 2 }
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.components.frames.contract import FrameError, RawType, check_identifiers, integer
from rtsim.core import toml
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import to_ns

MOST_BYTES = 65_507
"""Bytes of the longest UDP datagram."""
MOST_FILE_BYTES = 1 << 20
PADDING = "padding"
_CODES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float32": "f", "float64": "d", "bool": "B", PADDING: "x",
}  # fmt: skip
_ENDIAN = {"little": "<", "big": ">"}
_FRAME_KEYS = ("endian", "identifier", "extended", "period", "fields")
_FIELD_KEYS = (
    "type", "count", "scale", "bias", "unit", "overflow", "value", "initial", "description",
)  # fmt: skip


@dataclass(frozen=True)
class _Field:
    """One field: ``count`` numbers of one raw type; ``value`` if all of them are constant."""

    raw: RawType | None
    """None for padding."""
    count: int
    code: str
    value: int | float | None = None


class StructCodec:
    """The codec of one frame of a TOML file; its constants must be equal in a received frame."""

    def __init__(
        self, name: str, table: Mapping[str, Any], overflow: str, path: Path, source: str
    ) -> None:
        self.name = name
        self._where = f"{path}: frame {name}"
        self._source = source
        _known(table, _FRAME_KEYS, self._where)
        self.identifier = self._whole(table, "identifier", 0, 2**29 - 1)
        self.extended = bool(table.get("extended", False))
        self.period_ns = to_ns(table.get("period", 0), f"{self._where}: period")
        endian = table.get("endian", "little")
        if endian not in _ENDIAN:
            raise ScenarioError(f"{self._where}: endian = {endian!r}; choose little or big")
        rows = table.get("fields")
        if not isinstance(rows, Mapping) or not rows:
            raise ScenarioError(
                f"{self._where} has no fields; add [{name}.fields] with lines such as "
                'roll = { type = "int16", scale = 0.01 }'
            )
        made = [self._field(field, row, overflow) for field, row in rows.items()]
        self._fields = [field for field, _ in made]
        self.signals = Signals(*(signal for _, signal in made if signal is not None))
        codes = "".join(f"{f.count}{f.code}" for f in self._fields)
        self._struct = struct.Struct(_ENDIAN[endian] + codes)
        self.length = self._struct.size
        if self.length > MOST_BYTES:
            raise ScenarioError(
                f"{self._where} has {self.length} bytes; a datagram has at most {MOST_BYTES}"
            )

    def _whole(self, table: Mapping[str, Any], key: str, default: int, most: int) -> int:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ScenarioError(
                f"{self._where}: {key} = {value!r}; give a whole number from 0 to {most}"
            )
        return value

    def _field(self, name: str, row: object, overflow: str) -> tuple[_Field, Signal | None]:
        where = f"{self._where}, field {name}"
        if not isinstance(row, Mapping):
            raise ScenarioError(f'{where} is {row!r}; write {name} = {{ type = "float64" }}')
        _known(row, _FIELD_KEYS, where)
        kind, count = row.get("type"), row.get("count", 1)
        if kind not in _CODES:
            raise UnknownName("type", str(kind), _CODES, where)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_BYTES:
            raise ScenarioError(f"{where}: count = {count!r}; give a whole number >= 1")
        if kind == PADDING:
            return _Field(None, count, "x"), None
        scale, bias = (
            _number(row, key, start, where) for key, start in (("scale", 1), ("bias", 0))
        )
        raw = _raw_type(name, kind, scale, bias, row.get("overflow", overflow))
        if "value" in row:
            return _Field(raw, count, _CODES[kind], _constant(raw, row["value"], where)), None
        initial = _number(row, "initial", raw.value(0.0), where)
        shape = (count,) if "count" in row else ()
        start: float | tuple[float, ...] = (initial,) * count if shape else initial
        unit = row.get("unit", "1")
        if not isinstance(unit, str):
            raise ScenarioError(f"{where}: unit = {unit!r} is not a text")
        signal = Signal(name, unit or "1", shape=shape, initial=start)
        return _Field(raw, count, _CODES[kind]), signal

    def encode(self, values: Vector) -> bytes:
        at, out = 0, []
        for field in self._fields:
            if field.raw is None:
                continue
            if field.value is not None:
                out += [field.value] * field.count
                continue
            for value in values[at : at + field.count].tolist():
                try:
                    out.append(field.raw.raw(value))
                except FrameError as error:
                    raise FrameError(f"frame {self.name}: {error}") from None
            at += field.count
        return self._struct.pack(*out)

    def decode(self, data: bytes, into: Vector) -> None:
        if len(data) != self.length:
            raise FrameError(
                f"frame {self.name} has {len(data)} bytes; its description says {self.length}"
            )
        found = iter(self._struct.unpack(data))
        values: list[float] = []
        for field in self._fields:
            if field.raw is None:
                continue
            for _ in range(field.count):
                values += self._read(field, field.raw, next(found))
        into[:] = values

    def _read(self, field: _Field, raw: RawType, number: float) -> Sequence[float]:
        if field.value is not None:
            if number != field.value:
                raise FrameError(
                    f"frame {self.name} is malformed: {raw.name} is {number}, not {field.value}"
                )
            return ()
        if not raw.float_bits and not raw.low <= number <= raw.high:  # a bool that is neither
            raise FrameError(f"frame {self.name} is malformed: {raw.name} is {number}")
        value = raw.value(float(number))
        if not math.isfinite(value):
            raise FrameError(f"frame {self.name} is malformed: {raw.name} is {value}")
        return (value,)

    @property
    def raw_types(self) -> tuple[RawType, ...]:
        """The raw type of each signal."""
        return tuple(f.raw for f in self._fields if f.raw is not None and f.value is None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructCodec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        """Return a short text that identifies the frame by its name and the file's hash."""
        return f"StructCodec({self.name}, {self._source})"


def read_structs(path: Path, overflow: str = "error") -> dict[str, StructCodec]:
    """Return the codecs of all frames of the TOML file ``path``, by their names.

    Raises :class:`ScenarioError` for a mistake in the file.
    """
    if path.stat().st_size > MOST_FILE_BYTES:
        raise ScenarioError(f"{path} has more than {MOST_FILE_BYTES} bytes, too many for frames")
    try:
        tables = toml.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path} is not valid TOML: {error}") from None
    source = f"{path.name} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    out: dict[str, StructCodec] = {}
    for name, table in tables.items():
        if not isinstance(table, Mapping) or not name.isidentifier():
            raise ScenarioError(
                f"{path}: {name} is not a frame; write a table [NAME] with a table [NAME.fields]"
            )
        out[name] = StructCodec(name, table, overflow, path, source)
    if not out:
        raise ScenarioError(f"{path} describes no frames; write a table [NAME.fields] for each")
    check_identifiers(path, (out[name] for name, table in tables.items() if "identifier" in table))
    return out


def _raw_type(name: str, kind: str, scale: float, bias: float, overflow: str) -> RawType:
    if kind.startswith("float"):
        return RawType(name, 0, 0, int(kind[5:]), scale, bias, overflow)
    if kind == "bool":
        return RawType(name, 0, 1, 0, scale, bias, overflow)
    return integer(name, int(kind.lstrip("uint")), kind[0] == "i", scale, bias, overflow)


def _constant(raw: RawType, value: object, where: str) -> int | float:
    fits = isinstance(value, int | float) and (bool(raw.float_bits) or raw.low <= value <= raw.high)
    if not fits or isinstance(value, float) > bool(raw.float_bits):
        raise ScenarioError(f"{where}: value = {value!r} does not fit into the type of the field")
    assert isinstance(value, int | float)
    return value


def _number(row: Mapping[str, Any], key: str, default: float, where: str) -> float:
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(f"{where}: {key} = {value!r} is not a finite number")
    return float(value)


def _known(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise UnknownName("entry", key, keys, where)
