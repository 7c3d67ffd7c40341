"""Frames that a TOML file describes, such as datagrams.

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

import numpy as np

from rtsim.components.frames.contract import FrameError, RawType, check_identifiers, integer
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Undeclared, Vector
from rtsim.core.tag import to_ns
from rtsim.core.toml import (
    Entries,
    Key,
    Place,
    choice,
    flag,
    named,
    number,
    open_toml,
    read,
    table,
    text,
    whole,
)

MOST_BYTES = 65_507
"""Bytes of the longest UDP datagram."""
PADDING = "padding"
_CODES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float32": "f", "float64": "d", "bool": "B", PADDING: "x",
}  # fmt: skip
_ENDIAN = {"little": "<", "big": ">"}
_FIELD = {
    "type": choice(_CODES, what="type"),
    "count": whole(1, MOST_BYTES, None),
    "scale": number(default=1.0),
    "bias": number(default=0.0),
    "unit": text("1", empty=True),
    "overflow": text(None),
    "value": Key(default=None),
    "initial": number(default=None),
    "optional": flag(),
    "description": text("", empty=True),
}
_EXAMPLE = 'lines such as roll = { type = "int16", scale = 0.01 }'
_FRAME = {
    "endian": choice(_ENDIAN, "little", "endian"),
    "identifier": whole(0, 2**29 - 1, default=None),
    "extended": flag(),
    "period": Key("seconds, or 0 for no period", 0, lambda given: to_ns(given, "period")),
    "fields": named(
        table(_FIELD, 'a table such as { type = "float64" }'), f"a table with {_EXAMPLE}"
    ),
}
_FILE = table(_FRAME, "a table [NAME] with a table [NAME.fields]")


@dataclass(frozen=True)
class _Field:
    raw: RawType | None
    """None for padding."""
    count: int
    code: str
    value: int | float | None = None


class StructCodec:
    """The codec of a frame in a TOML file.

    A received frame must contain the declared constants.
    """

    def __init__(self, name: str, frame: Entries, overflow: str, source: str) -> None:
        self.name, self._source = name, source
        self.identifier, self.extended = frame["identifier"] or 0, frame["extended"]
        self.period_ns = frame["period"]
        rows = frame["fields"]
        if not rows:
            raise frame.error(
                "fields", f"the frame has no fields; add [{name}.fields] with {_EXAMPLE}"
            )
        made = [self._field(field, row, overflow) for field, row in rows.items()]
        self._fields = [field for field, _ in made]
        self.signals = Signals(*(signal for _, signal in made if signal is not None))
        codes = "".join(f"{f.count}{f.code}" for f in self._fields)
        self._struct = struct.Struct(_ENDIAN[frame["endian"]] + codes)
        self.length = self._struct.size
        if self.length > MOST_BYTES:
            problem = f"the frame has {self.length} bytes; a datagram has at most {MOST_BYTES}"
            raise frame.error("fields", problem)

        self._doubles = self._as_doubles(_ENDIAN[frame["endian"]])

    def _as_doubles(self, order: str) -> tuple[np.dtype[np.float64], Vector, Vector] | None:
        raws = [raw for field in self._fields for raw in [field.raw] * field.count]
        if any(f.code != "d" or f.value is not None for f in self._fields):
            return None
        pairs = np.array([(raw.scale, raw.bias) for raw in raws if raw is not None])
        return np.dtype(f"{order}f8"), pairs[:, 0].copy(), pairs[:, 1].copy()

    def _field(self, name: str, row: Entries, overflow: str) -> tuple[_Field, Signal | None]:
        kind, count = row["type"], row["count"] or 1
        if kind == PADDING:
            return _Field(None, count, "x"), None
        with row.checking():
            raw = _raw_type(name, kind, row["scale"], row["bias"], row["overflow"] or overflow)
        if row["value"] is not None:
            with row.checking("value"):
                return _Field(raw, count, _CODES[kind], _constant(raw, row["value"])), None
        given = row["initial"]
        initial = Undeclared(raw.value(0.0)) if given is None else given
        shape = () if row["count"] is None else (count,)
        start: float | tuple[float, ...] = (initial,) * count if shape else initial
        with row.checking():
            signal = Signal(
                name, row["unit"] or "1", shape=shape, initial=start, optional=row["optional"]
            )
        return _Field(raw, count, _CODES[kind]), signal

    def encode(self, values: Vector) -> bytes:
        if self._doubles is not None:
            kind, scales, biases = self._doubles
            with np.errstate(over="ignore"):  # the numbers one by one give the error
                numbers = (values - biases) / scales
            if np.isfinite(numbers).all():
                return numbers.astype(kind).tobytes()
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
        return tuple(f.raw for f in self._fields if f.raw is not None and f.value is None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructCodec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        """Return a text with the name of the frame and the hash of the file."""
        return f"StructCodec({self.name}, {self._source})"


def read_structs(path: Path, overflow: str = "error") -> dict[str, StructCodec]:
    """Return the codecs of all frames in a TOML file, by name.

    Raises :class:`ScenarioError` for a mistake in the file.
    """
    file = open_toml(path, "a file of frames", "frames.toml")
    source = f"{path.name} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    return described_structs(file.data, source, overflow, file.place)


def described_structs(
    data: Mapping[str, Any], source: str, overflow: str = "error", place: Place | None = None
) -> dict[str, StructCodec]:
    """Return the codecs of all frames in the contents of a TOML file.

    ``source`` identifies the table in recordings. Raises :class:`ScenarioError` for a mistake in
    ``data``.
    """
    place = Place(source) if place is None else place
    frames = read(data, dict.fromkeys(data, _FILE), place)
    out = {}
    for name, frame in frames.items():
        if not name.isidentifier():
            raise frame.error("", "the name of a frame must have letters, digits and _ only")
        out[name] = StructCodec(name, frame, overflow, source)
    if not out:
        raise ScenarioError(
            f"{place.file} describes no frames; write a table [NAME.fields] for each"
        )
    check_identifiers(
        Path(place.file),
        (out[name] for name, frame in frames.items() if "identifier" in frame.given),
    )
    return out


def _raw_type(name: str, kind: str, scale: float, bias: float, overflow: str) -> RawType:
    if kind.startswith("float"):
        return RawType(name, 0, 0, int(kind[5:]), scale, bias, overflow)
    if kind == "bool":
        return RawType(name, 0, 1, 0, scale, bias, overflow)
    return integer(name, int(kind.lstrip("uint")), kind[0] == "i", scale, bias, overflow)


def _constant(raw: RawType, value: Any) -> int | float:
    fits = isinstance(value, int | float) and (bool(raw.float_bits) or raw.low <= value <= raw.high)
    if not fits or isinstance(value, float) > bool(raw.float_bits):
        raise ValueError(f"value = {value!r} does not fit into the type of the field")
    return value  # type: ignore[no-any-return]
