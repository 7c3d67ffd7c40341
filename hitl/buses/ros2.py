"""ROS 2 messages without an installation of ROS 2: their description and their bytes.

A file with the suffix ``.ros2`` describes the messages in TOML::

    [odometry]                                # one table for each topic
    topic = "/odom"
    type = "nav_msgs/msg/Odometry"

    [odometry.fields]
    x = { path = "pose.pose.position.x", unit = "m" }
    covariance = { path = "pose.covariance", count = 36 }
    frame = { path = "header.frame_id", value = "odom" }

A field without ``value`` is a signal.  Fields of the message that the file does not list are zero,
and the orientation of a quaternion is the identity.  When a message is sent, each
``builtin_interfaces/msg/Time`` that the file does not list is the simulated time.

The package rosbags encodes and decodes the messages (CDR), and knows the types of ROS 2 Jazzy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.components.frames import FrameError
from rtsim.components.frames.contract import RawType, integer
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import extra
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.core.toml import Entries, Key, named, number, open_toml, read, table, text, whole

MOST_BYTES = 1 << 20
"""Size of the longest message that is decoded, bytes."""
MOST_COUNT = 10_000
"""Largest number of values in an array or sequence that is a signal."""
_TIME, _QUATERNION = "builtin_interfaces/msg/Time", "geometry_msgs/msg/Quaternion"
_ROW = {
    "path": text(wanted="the path of a field, such as header.frame_id"),
    "unit": text("1", empty=True),
    "count": whole(1, MOST_COUNT, None),
    "initial": number(default=0.0),
    "value": Key(default=None),
    "description": text("", empty=True),
}
_EXAMPLE = 'lines such as x = { path = "linear.x", unit = "m/s" }'
_MESSAGE = {
    "topic": text(wanted="the name of the topic, such as /odom"),
    "type": text(wanted="the type of the messages, such as nav_msgs/msg/Odometry"),
    "fields": named(table(_ROW, 'a table such as { path = "data" }'), f"a table with {_EXAMPLE}"),
}
_FILE = table(_MESSAGE, "a table [NAME] with a table [NAME.fields]")


@cache
def _types() -> Any:
    typesys = extra("rosbags.typesys", "ros2", "messages of ROS 2")
    return typesys.get_typestore(typesys.Stores.ROS2_JAZZY)


def _kinds() -> Any:
    return extra("rosbags.interfaces", "ros2", "messages of ROS 2").Nodetype


def _new(name: str) -> Any:
    """Return a message of the type ``name`` whose fields have their default values."""
    types, kinds = _types(), _kinds()
    values: list[Any] = []
    for field, (kind, about) in types.fielddefs[name][1]:
        if kind == kinds.NAME:
            values.append(_new(about))
        elif kind == kinds.BASE:
            identity = name == _QUATERNION and field == "w"
            values.append("" if about[0] == "string" else False if about[0] == "bool"
                          else 1.0 if identity else 0)  # fmt: skip
        else:
            (inner, of), count = about
            count = count if kind == kinds.ARRAY else 0
            if inner == kinds.BASE and of[0] != "string":
                values.append(np.zeros(count, np.bool_ if of[0] == "bool" else of[0]))
            else:
                values.append([_new(of) if inner == kinds.NAME else "" for _ in range(count)])
    return types.types[name](*values)


def _stamps(name: str, path: str = "") -> Iterator[str]:
    """Yield the paths of all times in a message of the type ``name``."""
    for field, (kind, about) in _types().fielddefs[name][1]:
        if kind == _kinds().NAME:
            here = f"{path}{field}"
            if about == _TIME:
                yield here
            else:
                yield from _stamps(about, f"{here}.")


@dataclass(frozen=True)
class _Field:
    path: tuple[str, ...]
    raw: RawType
    count: int | None
    """Number of values of an array or a sequence; None for a scalar."""
    dtype: str

    def owner(self, message: Any) -> Any:
        """Return the part of ``message`` whose attribute is this field."""
        for name in self.path[:-1]:
            message = getattr(message, name)
        return message


class RosCodec:
    """The codec of the messages of one topic.

    Its frames are CDR with the encapsulation header.  Received messages may have any frame
    identifier, time stamp and other field that is not a signal.
    """

    extended = False
    period_ns = 0

    def __init__(self, name: str, row: Entries, identifier: int, source: str) -> None:
        self.name, self.topic, self.type = name, row["topic"], row["type"]
        self.identifier, self._source = identifier, source
        types = _types()
        if self.type not in types.fielddefs:
            with row.checking("type"):
                raise UnknownName("message type", self.type, types.fielddefs, "ROS 2")
        parts = self.topic.strip("/").split("/")
        if not all(part.isidentifier() for part in parts):
            raise row.error("topic", f"topic = {self.topic!r} is not a name such as /robot/odom")
        self._start = _new(self.type)
        self._fields: list[_Field] = []
        signals: list[Signal] = []
        listed = set()
        for field, entry in row["fields"].items():
            with entry.checking("path"):
                kind, base = self._kind(entry["path"])
            listed.add(entry["path"].rpartition(".")[0])
            if entry["value"] is not None:
                with entry.checking("value"):
                    self._set(entry["path"], kind, base, entry["value"])
                continue
            with entry.checking("count"):
                count = self._count(entry["path"], kind, base, entry["count"])
            path = tuple(entry["path"].split("."))
            self._fields.append(_Field(path, _raw(field, base), count, base))
            shape = () if count is None else (count,)
            initial = entry["initial"] if count is None else (entry["initial"],) * count
            with entry.checking():
                signals.append(Signal(field, entry["unit"] or "1", shape=shape, initial=initial))
        self.signals = Signals(*signals)
        self._stamps = [path.split(".") for path in _stamps(self.type) if path not in listed]
        self.length = len(self.encode(self.signals.initial()))

    # -- the description

    def _kind(self, path: str) -> tuple[Any, Any]:
        """Return the kind and the definition of the field at ``path``."""
        types, kinds = _types(), _kinds()
        name = self.type
        *outer, last = path.split(".")
        for part in outer:
            kind, about = self._one(name, part)
            if kind != kinds.NAME:
                raise ScenarioError(f"{part} of {name} has no fields; end the path at {part}")
            name = about
        kind, about = self._one(name, last)
        if kind == kinds.NAME:
            fields = ", ".join(field for field, _ in types.fielddefs[about][1])
            raise ScenarioError(f"{path} is a {about}; give one of its fields: {fields}")
        if kind != kinds.BASE and about[0][0] != kinds.BASE:
            raise ScenarioError(f"{path} contains messages; only numbers can be signals")
        return kind, about[0] if kind == kinds.BASE else about[0][1][0]

    def _one(self, name: str, field: str) -> tuple[Any, Any]:
        known = dict(_types().fielddefs[name][1])
        if field not in known:
            raise UnknownName("field", field, known, name)
        found: tuple[Any, Any] = known[field]
        return found

    def _count(self, path: str, kind: Any, base: str, given: int | None) -> int | None:
        kinds = _kinds()
        if base == "string":
            raise ScenarioError(f'{path} is a text; give value = "..." for a constant text')
        if kind == kinds.BASE:
            if given is not None:
                raise ScenarioError(f"{path} is one number; leave out count")
            return None
        if kind == kinds.ARRAY:
            fixed = len(self._get(self._start, path))
            if given not in (None, fixed):
                raise ScenarioError(f"{path} has {fixed} values; write count = {fixed}")
            return fixed
        if given is None:
            raise ScenarioError(f"{path} is a sequence of any length; write count = 3")
        return given

    @staticmethod
    def _get(message: Any, path: str) -> Any:
        for part in path.split("."):
            message = getattr(message, part)
        return message

    def _set(self, path: str, kind: Any, base: str, value: Any) -> None:
        """Set a constant field of the messages that are sent."""
        single = kind == _kinds().BASE
        values = [value] if single else value
        right = str if base == "string" else bool if base == "bool" else int | float
        if not isinstance(values, list) or not all(isinstance(v, right) for v in values):
            raise ScenarioError(f"{path} is a {base if single else f'list of {base}'}")
        if base not in ("string", "bool"):
            values = [_raw(path, base).raw(v) for v in values]
        if (
            not single
            and kind == _kinds().ARRAY
            and len(values) != len(self._get(self._start, path))
        ):
            raise ScenarioError(f"{path} has {len(self._get(self._start, path))} values")
        owner, _, last = path.rpartition(".")
        made: Any = values[0] if single else values
        if not single and base != "string":
            made = np.array(values, np.bool_ if base == "bool" else base)
        setattr(self._get(self._start, owner) if owner else self._start, last, made)

    # -- the bytes

    def encode(self, values: Vector) -> bytes:
        return self.encode_at(0, values)

    def encode_at(self, ns: int, values: Vector) -> bytes:
        """Return the bytes of the message with ``values`` (n,), stamped with the time ``ns``."""
        message, at = self._start, 0
        for field in self._fields:
            size = field.count or 1
            try:
                raw = [field.raw.raw(v) for v in values[at : at + size].tolist()]
            except FrameError as error:
                raise FrameError(f"message {self.name}: {error}") from None
            at += size
            new: Any = raw[0] if field.count is None else np.array(raw, _dtype(field.dtype))
            if field.dtype == "bool" and field.count is None:
                new = bool(new)
            setattr(field.owner(message), field.path[-1], new)
        for path in self._stamps:
            stamp = message
            for part in path:
                stamp = getattr(stamp, part)
            stamp.sec, stamp.nanosec = divmod(ns, NS_PER_S)
        return bytes(_types().serialize_cdr(message, self.type, little_endian=True))

    def decode(self, data: bytes, into: Vector) -> None:
        if len(data) > MOST_BYTES:
            raise FrameError(
                f"message {self.name} has {len(data)} bytes; at most {MOST_BYTES} are decoded"
            )
        types = _types()
        try:
            message = types.deserialize_cdr(data, self.type)
            size = len(types.serialize_cdr(message, self.type))
        except Exception as error:  # rosbags raises several types for wrong bytes
            raise FrameError(
                f"message {self.name} is malformed: {str(error) or type(error).__name__}"
            ) from None
        padding = data[size:]
        if any(padding) or (padding and len(data) % 4):
            raise FrameError(f"message {self.name} has {len(data)} bytes instead of {size}")
        found: list[float] = []
        for field in self._fields:
            value = getattr(field.owner(message), field.path[-1])
            values = [value] if field.count is None else value.tolist()
            if field.count is not None and len(values) != field.count:
                raise FrameError(
                    f"message {self.name}: {'.'.join(field.path)} has {len(values)} values instead "
                    f"of {field.count}"
                )
            found += values
        if not all(map(math.isfinite, found)):
            raise FrameError(f"message {self.name} contains a value that is not finite")
        into[:] = found

    # -- names in the network

    @property
    def dds_type(self) -> str:
        """Name of the type as it appears in the network."""
        package, _, name = self.type.split("/")
        return f"{package}::msg::dds_::{name}_"

    @property
    def type_hash(self) -> str:
        """Hash of the type's definition (RIHS01 of REP 2016)."""
        found: str = _types().hash_rihs01(self.type)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RosCodec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"RosCodec({self.name}, {self._source})"


def _dtype(base: str) -> Any:
    return np.bool_ if base == "bool" else base


def _raw(name: str, base: str) -> RawType:
    if base.startswith("float"):
        return RawType(name, float_bits=int(base[5:]))
    if base == "bool":
        return RawType(name, 0, 1)
    bits = {"byte": "uint8", "octet": "uint8", "char": "uint8"}.get(base, base)
    return integer(name, int(bits.lstrip("uint")), bits[0] == "i", 1.0, 0.0, "error")


def read_messages(path: Path, overflow: str = "error") -> Mapping[str, RosCodec]:  # noqa: ARG001
    """Return the codecs of all messages of the file ``path``, by their names.

    Raises :class:`ScenarioError` for a mistake in the file.
    """
    file = open_toml(path, "a file of ROS 2 messages", "robot.ros2")
    rows = read(file.data, dict.fromkeys(file.data, _FILE), file.place)
    source = f"{path.name} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    out: dict[str, RosCodec] = {}
    for name, row in rows.items():
        if not name.isidentifier():
            raise row.error("", "the name of a message must have letters, digits and _ only")
        out[name] = RosCodec(name, row, len(out), source)
        for other in out.values():
            if other.name != name and other.topic.strip("/") == out[name].topic.strip("/"):
                raise row.error("topic", f"{other.name} has the same topic {row['topic']}")
    if not out:
        raise ScenarioError(f"{path} describes no messages; write a table [NAME.fields] for each")
    return out
