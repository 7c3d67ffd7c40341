"""Protobuf schemas of recordings, for other programs.

Each track is a message type whose fields have a fixed length (``sfixed64``, ``double``). numpy can
convert many rows at once, because all rows have the same layout. The exact bits of each double are
preserved, even of a NaN.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.signals import Signals

PACKAGE = "rtsim"
EVENT_TOPIC = "events"
EVENT_TYPE = f"{PACKAGE}.Event"
HEADER, FOOTER = "rtsim.header", "rtsim.footer"
DETERMINISTIC = "deterministic"

Words: TypeAlias = NDArray[np.int64]
"""Rows of eight-byte words: the time in ns, the integers, then the bit patterns of the doubles."""

_FIXED64 = 1  # wire type
_TAG_WIDTHS = ((1, 15), (16, 2047), (2048, 262143))  # field numbers with tags of 1, 2, 3 bytes
MOST_COLUMNS = _TAG_WIDTHS[-1][1]


@dataclass(frozen=True)
class TrackSpec:
    """The columns of a topic: first the int64 ``integers``, then the doubles of ``signals``.

    ``about`` contains arbitrary texts by key. ``{"deterministic": "no"}`` marks a track of
    wall-clock times, which a replay need not reproduce. Raises :class:`ScenarioError` for an
    invalid name, repeated column names, or too many columns.
    """

    name: str
    integers: tuple[str, ...]
    signals: Signals
    about: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or self.name == EVENT_TOPIC or len(self.name) > 200:
            raise ScenarioError(
                f"{self.name!r} cannot be the name of a track; "
                f"give a name of 1 to 200 characters other than {EVENT_TOPIC!r}"
            )
        if len(self.integers) + self.signals.size > MOST_COLUMNS:
            raise ScenarioError(
                f"track {self.name} has {len(self.integers) + self.signals.size} columns; at most "
                f"{MOST_COLUMNS} are allowed"
            )
        for names in (self.integers, self.signals.columns):
            twice = sorted(n for n, many in Counter(names).items() if many > 1)
            if twice:
                raise ScenarioError(
                    f"track {self.name} has two columns with the name {', '.join(twice)}; "
                    "rename one of the signals"
                )

    @property
    def width(self) -> int:
        """Number of eight-byte words in a row, including the time."""
        return 1 + len(self.integers) + self.signals.size

    @property
    def deterministic(self) -> bool:
        return self.about.get(DETERMINISTIC) != "no"

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Names of the protobuf fields, which are the column names, made unique by numbers."""
        out: list[str] = []
        taken: set[str] = set()
        for column in (*self.integers, *self.signals.columns):
            name, n = column, 1
            while (key := name.replace("_", "").lower()) in taken:
                n += 1
                name = f"{column}_no{n}"
            taken.add(key)
            out.append(name)
        return tuple(out)

    @cached_property
    def units(self) -> dict[str, str]:
        return {column: s.unit for s in self.signals for column in s.columns}

    @property
    def message_type(self) -> str:
        name = re.sub(r"[^A-Za-z0-9]", "_", self.name)
        return f"{PACKAGE}.{name if name[0].isalpha() else 't' + name}"

    @cached_property
    def wire(self) -> np.dtype[np.void]:
        """Layout of a row as a protobuf message."""
        count = self.width - 1
        groups = []
        for width, (first, last) in enumerate(_TAG_WIDTHS, start=1):
            n = min(count, last) - first + 1
            if n > 0:
                groups.append((f"g{width}", [("tag", "u1", (width,)), ("value", "<i8")], (n,)))
        return np.dtype(groups)

    @cached_property
    def _blank(self) -> NDArray[np.void]:
        row = np.zeros(1, self.wire)
        tags = b"".join(_varint(n << 3 | _FIXED64) for n in range(1, self.width))
        for width, name in enumerate(self.wire.names or (), start=1):
            shape = row[name]["tag"].shape
            size = math.prod(shape)
            row[name]["tag"] = np.frombuffer(tags[:size], np.uint8).reshape(shape)
            tags = tags[size:]
            assert shape[-1] == width
        return row

    def blank(self, count: int) -> NDArray[np.void]:
        """Return ``count`` encoded rows with zeros, for ``fill``."""
        return np.repeat(self._blank, count)

    def fill(self, rows: NDArray[np.void], words: Words) -> None:
        """Write ``words`` (n, width), except the times, into ``rows`` made by :meth:`blank`."""
        at = 1
        for name in self.wire.names or ():
            values = rows[name]["value"]
            values[...] = words[:, at : at + values.shape[1]]
            at += values.shape[1]

    def encode(self, words: Words) -> bytes:
        """Encode the rows ``words`` (n, width) as protobuf messages without times."""
        out = self.blank(len(words))
        self.fill(out, words)
        return out.tobytes()

    def decode(self, ns: NDArray[np.int64], payload: bytes) -> Words:
        """Return the rows (n, width) of messages at the times ``ns`` (n,).

        This method is the inverse of :meth:`encode`. Raises ``RecordingError`` for messages with
        another layout.
        """
        size = self.wire.itemsize
        if len(payload) != len(ns) * size:
            raise RecordingError(
                f"track {self.name} has {len(payload)} bytes instead of {len(ns)} rows of {size} "
                "bytes; the file was not written by this version of rtsim"
            )
        words = np.empty((len(ns), self.width), np.int64)
        words[:, 0] = ns
        if size:
            self.decode_columns(np.frombuffer(payload, self.wire), 1, words[:, 1:])
        return words

    def decode_columns(self, rows: NDArray[np.void], first: int, into: Words) -> None:
        """Decode ``k`` columns of the messages ``rows`` (n,) into the array ``into`` (n, k).

        The first column is ``first``, which is at least 1. Raises ``RecordingError`` for messages
        with another layout.
        """
        at, last = 1, first + into.shape[1]
        for name in self.wire.names or ():
            group = rows[name]
            behind = at + group.shape[1]
            if at < last and first < behind:
                these = slice(max(first, at) - at, min(last, behind) - at)
                expected = self._blank[name]["tag"][:, these]
                if (group["tag"][:, these] != expected).any():
                    raise RecordingError(
                        f"the rows of track {self.name} do not follow its schema; "
                        "the file was not written by this version of rtsim"
                    )
                begin = at + these.start - first
                into[:, begin : begin + these.stop - these.start] = group["value"][:, these]
            at = behind

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "integers": list(self.integers),
            "signals": self.signals.to_json(),
            "about": dict(self.about),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrackSpec:
        return cls(
            str(data["name"]),
            tuple(map(str, data["integers"])),
            Signals.from_json(data["signals"]),
            {str(k): str(v) for k, v in data["about"].items()},
        )

    def metadata(self) -> dict[str, str]:
        return {
            **self.about,
            "units": json.dumps(self.units),
            "signals": json.dumps(self.signals.to_json()),
            "integers": json.dumps(self.integers),
        }

    def descriptor(self, message_type: str) -> bytes:
        """Return the protobuf descriptor of the track's messages, with units as comments."""
        from google.protobuf import descriptor_pb2  # the process of the loop does not need it

        field_of = descriptor_pb2.FieldDescriptorProto
        name = message_type.removeprefix(f"{PACKAGE}.")
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{PACKAGE}/{name}.proto", package=PACKAGE, syntax="proto3"
        )
        message = file.message_type.add(name=name)
        texts = [""] * len(self.integers) + [
            f"[{s.unit}] {s.description}".rstrip() for s in self.signals for _ in s.columns
        ]
        for number, (column, text) in enumerate(zip(self.fields, texts, strict=True), start=1):
            exact = number <= len(self.integers)
            message.field.add(
                name=column,
                number=number,
                type=field_of.TYPE_SFIXED64 if exact else field_of.TYPE_DOUBLE,
                label=field_of.LABEL_OPTIONAL,
                json_name=column,
            )
            if text:
                file.source_code_info.location.add(
                    path=[4, 0, 2, number - 1], span=[number, 0, 0], leading_comments=f" {text}\n"
                )
        return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def unique_message_types(specs: list[TrackSpec]) -> dict[str, str]:
    out: dict[str, str] = {}
    taken = {EVENT_TYPE.lower()}
    for spec in specs:
        name, n = spec.message_type, 1
        while name.lower() in taken:
            n += 1
            name = f"{spec.message_type}_{n}"
        taken.add(name.lower())
        out[spec.name] = name
    return out


def message_class(descriptor_set: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def sealed(data: Mapping[str, object]) -> dict[str, str]:
    """Return JSON texts with a checksum, because MCAP has none for metadata."""
    texts = {key: json.dumps(value) for key, value in data.items()}
    return {**texts, "crc32": _checksum(texts)}


def unsealed(texts: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the data that ``sealed`` encoded, or ``None`` for a wrong checksum."""
    data = {key: text for key, text in texts.items() if key != "crc32"}
    if texts.get("crc32") != _checksum(data):
        return None
    return {key: json.loads(text) for key, text in data.items()}


def _checksum(texts: Mapping[str, str]) -> str:
    return str(zlib.crc32(json.dumps(list(texts.items())).encode()))
