"""Events of a run, such as overruns, late answers and commands, and their protobuf encoding."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rtsim.core.tag import Tag
from rtsim.record.schema import EVENT_TYPE, PACKAGE, message_class

Value: TypeAlias = float | int | str


@dataclass(frozen=True)
class Event:
    """An event of a run, such as an overrun, a late answer, a missed request or a command."""

    tag: Tag
    kind: str
    source: str
    text: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)

    def encode(self) -> bytes:
        message = _event_class()()
        message.step = self.tag.step
        message.kind, message.source, message.text = self.kind, self.source, self.text
        for name, value in self.values.items():
            _fill(message.values.add(name=name), value)
        data: bytes = message.SerializeToString()
        return data

    @classmethod
    def decode(cls, ns: int, data: bytes) -> Event:
        message = _event_class().FromString(data)
        values = {v.name: getattr(v, v.WhichOneof("value") or "text") for v in message.values}
        return cls(Tag(ns, message.step), message.kind, message.source, message.text, values)


def _fill(entry: Any, value: Value) -> None:
    if isinstance(value, (bool, int, np.integer)) and -(2**63) <= int(value) < 2**63:
        entry.integer = int(value)
    elif isinstance(value, (float, np.floating)):
        entry.number = float(value)
    else:
        entry.text = str(value)


@functools.cache
def event_descriptor() -> bytes:
    """Return a FileDescriptorSet with the Event message."""
    from google.protobuf import descriptor_pb2  # not loaded by the process that runs the loop

    field_of = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{PACKAGE}/Event.proto", package=PACKAGE, syntax="proto3"
    )
    value = file.message_type.add(name="EventValue")
    value.oneof_decl.add(name="value")
    value.field.add(name="name", number=1, type=field_of.TYPE_STRING, label=field_of.LABEL_OPTIONAL)
    for number, (name, kind) in enumerate(
        (
            ("number", field_of.TYPE_DOUBLE),
            ("integer", field_of.TYPE_SFIXED64),
            ("text", field_of.TYPE_STRING),
        ),
        start=2,
    ):
        value.field.add(
            name=name, number=number, type=kind, label=field_of.LABEL_OPTIONAL, oneof_index=0
        )
    event = file.message_type.add(name="Event")
    event.field.add(
        name="step", number=1, type=field_of.TYPE_SFIXED64, label=field_of.LABEL_OPTIONAL
    )
    for number, name in enumerate(("kind", "source", "text"), start=2):
        event.field.add(
            name=name, number=number, type=field_of.TYPE_STRING, label=field_of.LABEL_OPTIONAL
        )
    event.field.add(
        name="values",
        number=5,
        type=field_of.TYPE_MESSAGE,
        label=field_of.LABEL_REPEATED,
        type_name=f".{PACKAGE}.EventValue",
    )
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@functools.cache
def _event_class() -> Any:
    return message_class(event_descriptor(), EVENT_TYPE)
