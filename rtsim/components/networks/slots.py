"""What buses with time slots have in common: frames that wait for the next slot of their sender.

A message that is ready at the instant at which a slot begins is sent in this slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from rtsim.components.framed import NEWEST, Framed, Names, check_keep
from rtsim.components.frames.contract import FrameCodec
from rtsim.components.lines import Lines, Openings
from rtsim.components.medium import (
    Carrier,
    Hop,
    MediumLine,
    PeriodicSender,
    SenderLoad,
    SharedTransport,
    Transmission,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, declared_ns


class SlottedBus(Protocol):
    """What frames in slots read of their bus."""

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None: ...

    def start(self, streams: RandomStreams) -> Lines: ...


@dataclass(frozen=True)
class SlotFrame(Framed):
    """Latency model of messages that are sent in the slots of one sender on ``bus``."""

    bus: SlottedBus
    label: str
    """The slots or the identifier of the frame."""
    openings: Openings
    takes_ns: int
    """Time from the start of a slot until the frame ends, ns."""
    longest_ns: int
    """Longest possible ``takes_ns`` of the standard."""
    bits: int
    """Largest number of bits of the frame."""
    length: int
    every: int = 1
    """The slots are used in each ``every``-th cycle."""
    first: int = 0
    """The first cycle in which the slots are used."""
    slots: tuple[int, ...] = ()
    codec: FrameCodec | None = None
    names: Names = ()
    keep: str = NEWEST
    ordered: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        check_keep(self.keep, self.bus.name)

    @property
    def medium(self) -> SlottedBus:
        return self.bus

    def carrier(self, signals: Signals, topic: str) -> Carrier:
        content = self.content(signals, topic, self.bus.name, self.length)
        newest = self.keep == NEWEST
        limit = 1 if newest else None
        line = MediumLine(topic, limit=limit, newest=newest, opens=self.openings)
        hops = (Hop(self.takes_ns, line=line),)

        def carry(values: Vector) -> Transmission:
            return Transmission((0,), hops, content(values)[1])

        return carry

    def __repr__(self) -> str:
        """Return a short text that identifies the slots and the times of the frame."""
        codec = "" if self.codec is None else f", {self.codec!r}"
        names = "".join(f", {a}={b}" for a, b in self.names)
        return (
            f"SlotFrame({self.label} on {self.bus.name}, {self.length} bytes{codec}{names}, at "
            f"{self.openings.starts} of {self.openings.cycle_ns} ns, takes {self.takes_ns} ns, "
            f"keeps {self.keep})"
        )

    def load_of(self, sender: PeriodicSender) -> SenderLoad:
        """Return the load of this frame with its longest duration.

        The longest latency is the longest wait for a slot and the transmission.  If the bus keeps
        all messages, and messages come more often than slots, the latency is not analysed.
        """
        wait = self.openings.longest_wait_ns
        sent_ns = max(sender.period_ns, self.openings.cycle_ns // len(self.openings.starts))
        analysed = self.keep == NEWEST or sender.period_ns >= wait
        return SenderLoad(
            sender.sender, self.label, self.bits, sender.period_ns, self.longest_ns / sent_ns,
            wait + self.longest_ns if analysed else None, analysed,
        )  # fmt: skip


def durations_ns(given: Iterable[Duration], what: str) -> tuple[int, ...]:
    found = tuple(declared_ns(one, what) for one in given)
    if not found or min(found) <= 0:
        raise ScenarioError(f"{what}: give at least one duration > 0, in s")
    return found


def loads_of(senders: Iterable[PeriodicSender]) -> list[SenderLoad]:
    rows = [
        (one.transport.openings.starts, one.sender, one.transport.load_of(one))
        for one in senders
        if isinstance(one.transport, SlotFrame)
    ]
    return [row for *_, row in sorted(rows, key=lambda one: one[:2])]
