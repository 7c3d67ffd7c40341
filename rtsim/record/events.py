"""Events of a run, their encoding, and summaries of faults."""

from __future__ import annotations

import builtins
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.schema import EVENT_TYPE, PACKAGE, message_class
from rtsim.timing.policy import Overrun

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


Value: TypeAlias = float | int | str


@dataclass(frozen=True)
class Event:
    """An event of a run, such as an overrun, a late answer or a command."""

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
    from google.protobuf import descriptor_pb2  # the process of the loop does not need it

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


CHANGE = "Change"
"""Kind of the event that records a changed parameter or source value.

The source of the event is the name of the value.
"""

VIOLATION = "Violated"
"""Kind of the event that records when a run in progress reported a violated requirement.

The source of the event is the name of the requirement. The time of the event depends on the wall
clock.
"""
OVERRUN = "Overrun"
"""Kind of the event of an overrun."""


def overrun_event(overrun: Overrun) -> Event:
    values: dict[str, Value] = {
        "amount": float(overrun.amount_ns), "consecutive": float(overrun.consecutive),
        "cause": overrun.cause, "action": overrun.action,
    }  # fmt: skip
    if overrun.stood_ns is not None:
        values["stood"] = float(overrun.stood_ns)
    source = overrun.job or overrun.cause
    return Event(Tag(overrun.tag_ns), OVERRUN, source, str(overrun), values)


# Activations of faults: start and end of each, and their number.

FAULT, FAULT_ENDED, FAULT_IDLE = "Fault", "FaultEnded", "FaultIdle"
"""Kinds of events: an activation of a fault, its end, and a fault without effect."""
_AT_ONCE = ("count", "probability")
_KINDS_AT_ONCE = ("burst", "board_reset", "stall", "late_wake", "lost_tick", "load")


class Span(NamedTuple):
    """One activation of a fault; times in s.

    An activation on a single message has no duration.
    """

    fault: str
    began: float
    ended: float
    text: str


class Acted(NamedTuple):
    """Summary of the activations of one fault."""

    name: str
    kind: str
    where: str
    idle: str
    """Reason why the fault has no effect in this run, or ""."""
    activations: int
    first: str
    last: str
    """Start times of the first and of the last activation [s]; empty without activations."""


def spans(
    events: Iterable[Event], described: Sequence[Mapping[str, Any]], end_ns: int
) -> list[Span]:
    """Return all activations in order of time.

    ``described`` contains the descriptions of the faults in the header. If the end of an activation
    is not recorded, the activation lasts until ``end_ns``.
    """
    lasting = {str(f.get("name")) for f in described if lasts(f)}
    began: dict[str, Event] = {}
    out: list[Span] = []

    def close(event: Event, ended_ns: int) -> None:
        ended = ended_ns / NS_PER_S
        out.append(Span(event.source, event.tag.seconds, ended, event.text))

    for event in events:
        if event.kind == FAULT:
            before = began.pop(event.source, None)
            if before is not None:
                close(before, before.tag.ns)
            began[event.source] = event
        elif event.kind == FAULT_ENDED and event.source in began:
            close(began.pop(event.source), event.tag.ns)
    for name, event in began.items():
        close(event, end_ns if name in lasting else event.tag.ns)
    return sorted(out, key=lambda span: (span.began, span.fault))


def lasts(described: Mapping[str, Any]) -> bool:
    """Return whether another event ends each activation of the fault."""
    if described.get("kind") in _KINDS_AT_ONCE:
        return False
    return "duration" in described or not any(key in described for key in _AT_ONCE)


def rows(events: Sequence[Event], described: Sequence[Mapping[str, Any]]) -> list[Acted]:
    """Return a summary of the activations of each fault."""
    counts = Counter(e.source for e in events if e.kind == FAULT)
    idle = {e.source: e.text for e in events if e.kind == FAULT_IDLE}
    out = []
    for fault in described:
        name = str(fault.get("name", ""))
        times = [e.tag.seconds for e in events if e.kind == FAULT and e.source == name]
        ends = (f"{times[0]:g}", f"{times[-1]:g}") if times else ("", "")
        kind, where = str(fault.get("kind", "")), str(fault.get("where", ""))
        out.append(Acted(name, kind, where, idle.get(name, ""), counts[name], *ends))
    return out


def described(header: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    scenario = header.get("scenario")
    listed = scenario.get("faults") if isinstance(scenario, Mapping) else None
    return [f for f in listed if isinstance(f, Mapping)] if isinstance(listed, list) else []


def notes(idle: Mapping[str, str], never: Iterable[str]) -> list[str]:
    """Return notes on faults without effect, and on faults that never occurred."""
    told = "; ".join(f"{name} ({reason})" for name, reason in idle.items())
    unmet = ", ".join(name for name in never if name not in idle)
    out = [f"note: these faults have no effect here: {told}"] if told else []
    return out + ([f"note: these faults never acted in this run: {unmet}"] if unmet else [])


# The end of a run: the requested time or an earlier one, and the reason.

TERMINAL, PLANT_ENDED = "terminal", "plant ended"
"""Reasons of a run that a terminal guard ended, or the program of a plant, such as an FMU."""
TO_THE_END = frozenset(("end", TERMINAL, PLANT_ENDED))
"""Reasons of a complete run, which ended by its own equations."""
LACKING = (OSError, ImportError, MemoryError)
"""Exceptions for a missing resource: a file, a device, a library or memory."""
CUT_OFF, UNKNOWN, ERROR = "cut off", "unknown", "error"
VIOLATED = "requirement violated"
"""Reason for the end of a run that stops as soon as a requirement is violated."""
_STOPPED = {
    "interrupted": "was interrupted at",
    "quit": "was ended by the command quit at",
    "restored": "went back to a checkpoint at",
    CUT_OFF: "was cut off at",
    VIOLATED: "was ended by the option --stop-on-violation at",
}
_EACH_TIME = re.compile(r"\b0x[0-9a-fA-F]+\b|\([^()]+:\d+ in [^()]+\)")
"""Matches addresses and source lines, which are ignored in a comparison of two errors."""
_NAMED = re.compile(r"\b([A-Z]\w*): ")
_OF_A_DEVICE = "the device of input "
"""Start of the messages of :mod:`rtsim.engine.microsteps` about a device."""
_OF_THE_LOOP = "OverrunError"
"""Name of the error of a run that fell behind the wall clock. At another pace, it may not occur."""


@dataclass(frozen=True)
class RunEnding:
    """The end of a run: reached time, requested time, and reason."""

    reached_ns: int
    asked_ns: int | None
    """The requested end [ns]; ``None`` if not recorded."""
    reason: str
    """Reason from the footer, or ``cut off``, or ``unknown`` if no run wrote the recording."""
    error: str = ""
    """The error that ended the run, or the failure that a terminal guard declares."""

    @classmethod
    def of(cls, recording: Recording) -> RunEnding:
        until = recording.header.get("until")
        asked = None if until is None else int(until)
        footer = recording.footer
        if recording.truncated is not None or (footer is None and asked is not None):
            return cls(recording.end_ns, asked, CUT_OFF)
        if footer is None:
            return cls(recording.end_ns, asked, UNKNOWN)
        reached = int(footer.get("ended", recording.end_ns))
        reason, error = str(footer.get("reason", "end")), str(footer.get("error", ""))
        return cls(reached, asked, reason, error)

    def up_to(self, ns: int | None) -> RunEnding:
        """Return how the run ended if only the time up to ``ns`` (ns) counts.

        A run that reached ``ns`` is complete. A truncated recording is always incomplete, because
        its last rows may be missing.
        """
        if ns is None or self.reached_ns < ns or self.reason == CUT_OFF:
            return self
        return replace(self, reached_ns=ns, asked_ns=ns, reason="end", error="")

    @property
    def complete(self) -> bool:
        return self.reason in TO_THE_END or self.reason == UNKNOWN

    @property
    def stopped(self) -> bool:
        """Return whether a cause outside the simulation ended the run."""
        return self.reason in _STOPPED

    def __str__(self) -> str:
        return f"{self.in_brief}: {self.error}" if self.error else self.in_brief

    @property
    def in_one_line(self) -> str:
        """Return the text without further lines of the error, such as the output of a program."""
        return str(self).partition("\n")[0]

    @property
    def failed(self) -> bool:
        """Return whether the run ended with an error or a declared failure."""
        declared = self.reason in (TERMINAL, PLANT_ENDED) and bool(self.error)
        return self.reason == ERROR or declared

    @property
    def in_brief(self) -> str:
        at = f"{self.reached_ns / NS_PER_S:g} s"
        early = self.asked_ns is not None and self.reached_ns < self.asked_ns
        of = f"{at} of {self.asked_ns / NS_PER_S:g} s" if early and self.asked_ns else at
        if self.reason in _STOPPED:
            return f"{_STOPPED[self.reason]} {of}"
        if self.reason == ERROR:
            return f"ended in an error at {of}"
        if self.reason == TERMINAL:
            return f"was ended by a terminal guard at {at}"
        if self.reason == PLANT_ENDED:
            return f"was ended by a plant at {of}"
        if self.reason == UNKNOWN:
            return f"ends at {at}"
        return f"stopped at {of}" if early else f"reached its end at {at}"

    def to_json(self) -> dict[str, object]:
        asked = None if self.asked_ns is None else self.asked_ns / NS_PER_S
        return {
            "reason": self.reason,
            "reached_s": self.reached_ns / NS_PER_S,
            "asked_s": asked,
            "error": self.error,
        }


def last_error(recording: Recording) -> Event | None:
    return next((e for e in reversed(recording.events) if e.kind == "Error"), None)


def died_of(recording: Recording) -> Event | None:
    """Return the error that ended the run, or ``None``.

    The result is also ``None`` for overruns and missing devices or files, which a repeated run need
    not reproduce.
    """
    error = last_error(recording)
    outside = error is not None and (
        error.source == _OF_THE_LOOP
        or _is_lack(error.source)
        or error.text.startswith(_OF_A_DEVICE)
    )
    return None if outside else error


def in_words(died: Event | None) -> str:
    """Return time, type and text of an error in a form that is equal in repeated runs."""
    return "" if died is None else _EACH_TIME.sub("", f"{died.tag} {died.source}: {died.text}")


def _is_lack(name: str) -> bool:
    known = getattr(builtins, name, None)
    return isinstance(known, type) and issubclass(known, LACKING)


def names_lack(text: str) -> bool:
    """Return whether an error text names the exception for a missing resource."""
    return any(map(_is_lack, _NAMED.findall(text)))
