"""Messages on the media of a scenario: their loads, and their longest latencies by analysis."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from rtsim.components.latency import Fixed, Loss
from rtsim.components.medium import LoadedMedium, PeriodicSender, SenderLoad, shared
from rtsim.core.tag import NS_PER_S, Period
from rtsim.record.reading import Recording
from rtsim.scenario.component import Component, readable
from rtsim.scenario.scenario import Scenario

OVERLOADED = "the medium cannot carry the load"
MESSAGES = "messages/"
"""Prefix of the names of tracks with messages."""


def loads_of(
    scenario: Scenario,
) -> tuple[list[tuple[LoadedMedium, list[SenderLoad]]], list[tuple[str, str]]]:
    """Return the load of each medium, and the senders that are not included with the reason."""
    senders: defaultdict[str, list[PeriodicSender]] = defaultdict(list)
    media: dict[str, LoadedMedium] = {}
    notes: list[tuple[str, str]] = []
    for name, component in sorted(scenario.components.items()):
        transport = shared(getattr(component, "transport", None))
        if transport is None:
            continue
        medium, period = transport.medium, getattr(component, "period", None)
        if not isinstance(medium, LoadedMedium):
            notes.append((name, f"uses {medium.name}, which computes no load"))
        elif not isinstance(period, Period):
            notes.append((name, "sends without a fixed period"))
        else:
            values = readable(component, scenario.components).size
            media[medium.name] = medium
            sender = PeriodicSender(name, transport, round(period.ns), values)
            senders[medium.name].append(sender)
    return [(medium, medium.load(senders[name])) for name, medium in sorted(media.items())], notes


@dataclass(frozen=True)
class MessageRow:
    """The messages of one sender on a medium. All times are in ns."""

    medium: str
    sender: str
    frame: str
    period: int
    load: float
    worst: int | None
    """Longest latency from ``completed`` to ``arrival`` by analysis, or None."""
    reason: str
    """Reason why the longest latency is not known."""
    longest: int | None
    """Longest latency in the run, or None."""

    def to_json(self) -> dict[str, Any]:
        return {
            "medium": self.medium,
            "sender": self.sender,
            "frame": self.frame,
            "period_s": self.period / NS_PER_S,
            "load": self.load,
            "worst_latency_s": None if self.worst is None else self.worst / NS_PER_S,
            "reason": self.reason,
            "simulated_s": None if self.longest is None else self.longest / NS_PER_S,
        }


def message_rows(scenario: Scenario, read: Recording | None) -> list[MessageRow]:
    """Return a row for each sender on a medium of ``scenario``.

    ``read`` is a recording of the scenario, or None without a run. The analyses assume that each
    sender completes its messages at a fixed period. If a sender does not, the medium has no
    figures.
    """
    media, notes = loads_of(scenario)
    out = []
    for medium, loads in media:
        here = [f"{n} {why}" for n, why in notes if _medium_of(scenario, n) == medium.name]
        one = here[0] if here else ""
        varying = [row.sender for row in loads if _varies(scenario.components[row.sender])]
        if varying:
            one = f"the time at which {', '.join(varying)} sends varies"
        for row in _whole(loads):
            reason = one
            if not reason and not row.analysed:
                reason = f"rtsim has no analysis for {medium.kind.lower()} {medium.name}"
            if not reason and row.worst_latency_ns is None:
                reason = OVERLOADED
            out.append(
                MessageRow(
                    medium.name, row.sender, row.frame, row.period_ns, row.load,
                    None if reason else row.worst_latency_ns, reason, _longest(read, row.sender),
                )
            )  # fmt: skip
    return out


def _medium_of(scenario: Scenario, sender: str) -> str:
    transport = shared(getattr(scenario.components[sender], "transport", None))
    return "" if transport is None else transport.medium.name


def _whole(loads: list[SenderLoad]) -> list[SenderLoad]:
    """Return one row for each sender, with its largest load on a line."""
    largest: dict[str, SenderLoad] = {}
    for row in loads:
        if row.sender not in largest or row.load > largest[row.sender].load:
            largest[row.sender] = row
    return list(largest.values())


def _varies(component: Component) -> bool:
    """Return whether the time from a tick to the message can differ between ticks."""
    compute = getattr(component, "compute", Fixed(0))
    transport: Any = getattr(component, "transport", None)
    while isinstance(transport, Loss):  # a lost message only reduces the load
        transport = transport.inner
    if transport is not shared(transport):
        return True
    return type(compute) is not Fixed or getattr(component, "options", None) is not None


def _longest(read: Recording | None, sender: str) -> int | None:
    track = None if read is None else read.tracks.get(f"{MESSAGES}{sender}")
    if track is None or not len(track.ns):
        return None
    arrived = track.integer("arrival") >= 0
    delays = (track.integer("arrival") - track.integer("completed"))[arrived]
    return int(delays.max()) if len(delays) else None
