"""Activations of faults in a recording: when each began and ended, and how many there were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rtsim.core.tag import NS_PER_S
from rtsim.record.event import Event

FAULT, FAULT_ENDED, FAULT_IDLE = "Fault", "FaultEnded", "FaultIdle"
"""Kinds of events: an activation, the end of a longer activation, and a fault without effect."""
_AT_ONCE = ("count", "probability")
_KINDS_AT_ONCE = ("burst", "board_reset", "stall", "late_wake", "lost_tick", "load")


class Span(NamedTuple):
    """One activation of a fault, times in s; an activation on one message has no duration."""

    fault: str
    began: float
    ended: float
    text: str


class Acted(NamedTuple):
    """The number of activations of one fault."""

    name: str
    kind: str
    where: str
    idle: str
    """Why the fault has no effect in this run; else empty."""
    activations: int
    first: str
    last: str
    """Beginning of the first and the last activation, s; empty without activations."""


def spans(
    events: Iterable[Event], described: Sequence[Mapping[str, Any]], end_ns: int
) -> list[Span]:
    """Return all activations in the order of time.

    ``described``: the faults as the header describes them.  If the end of an activation is not
    recorded, the activation lasts to ``end_ns``, provided that its fault has a duration or does not
    act on single items.
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
    """Return whether an activation of the ``described`` fault lasts until an event ends it."""
    if described.get("kind") in _KINDS_AT_ONCE:
        return False
    return "duration" in described or not any(key in described for key in _AT_ONCE)


def rows(events: Sequence[Event], described: Sequence[Mapping[str, Any]]) -> list[Acted]:
    """Return the activations of each fault in ``described``."""
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
    """Return the faults that a recording's header describes."""
    scenario = header.get("scenario")
    listed = scenario.get("faults") if isinstance(scenario, Mapping) else None
    return [f for f in listed if isinstance(f, Mapping)] if isinstance(listed, list) else []


def notes(idle: Mapping[str, str], never: Iterable[str]) -> list[str]:
    """Return notes on faults without effect in this run, with reasons, and on unused faults."""
    told = "; ".join(f"{name} ({reason})" for name, reason in idle.items())
    unmet = ", ".join(name for name in never if name not in idle)
    out = [f"note: these faults have no effect here: {told}"] if told else []
    return out + ([f"note: these faults never acted in this run: {unmet}"] if unmet else [])
