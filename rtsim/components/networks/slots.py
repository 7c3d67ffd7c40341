"""Buses on which each sender has time slots: time division (FlexRay, TTP) and LIN.

A message waits for the next slot of its sender.  A message that is ready at the instant at which a
slot begins is sent in this slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from math import gcd
from typing import Any, ClassVar, Protocol

from rtsim.components.framed import NEWEST, Framed, Names, check_keep, names_of
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
    duration_ns,
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
    bits: int
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

    def load_of(self, sender: PeriodicSender, bitrate: int) -> SenderLoad:
        """Return the load of this frame.

        The longest latency is the longest wait for a slot and the transmission.  If the bus keeps
        all messages, and messages come more often than slots, the latency is not analysed.
        """
        wait = self.openings.longest_wait_ns
        sent_ns = max(sender.period_ns, self.openings.cycle_ns // len(self.openings.starts))
        analysed = self.keep == NEWEST or sender.period_ns >= wait
        return SenderLoad(
            sender.sender, self.label, self.bits, sender.period_ns,
            duration_ns(self.bits, bitrate) / sent_ns,
            wait + self.takes_ns if analysed else None, analysed,
        )  # fmt: skip


def _slots(given: Iterable[Duration], what: str) -> tuple[int, ...]:
    found = tuple(declared_ns(one, what) for one in given)
    if not found or min(found) <= 0:
        raise ScenarioError(f"{what}: give at least one duration > 0, in s")
    return found


@dataclass(frozen=True)
class TimeDivision:
    """A bus with a cycle of static slots, such as the static segment of FlexRay, or TTP.

    A frame takes ``overhead + bits_per_byte * length`` bits of ``bitrate`` bit/s, and begins
    ``offset`` s after the start of its slot.

    Args:
        bitrate: Bits per s.
        slots: Duration of each slot, s. Slots have the numbers 1, 2, …
        cycle: Duration of the cycle, s; by default the sum of the slots.
        name: Name of the bus.
        offset: Time from the start of a slot to the start of its frame, s.
        overhead: Bits of a frame besides its data.
        bits_per_byte: Bits on the bus for each byte of data.

    Example:
        bus = TimeDivision.flexray(cycle=0.005, slot=50e-6, count=60)
        out.sensor("speed", {"v": "car.v"}, period=0.005, transport=bus.frame(slot=3, length=8))
    """

    bitrate: int
    slots: Sequence[Duration]
    cycle: Duration | None = None
    name: str = "tdma"
    offset: Duration = 0
    overhead: int = 0
    bits_per_byte: int = 8
    kind: ClassVar[str] = "Bus"

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", tuple(self.slots))
        if not isinstance(self.bitrate, int) or self.bitrate < 1:
            raise ScenarioError(
                f"TimeDivision: bitrate = {self.bitrate!r}; give a whole number of bit/s"
            )
        used = sum(self.slots_ns)
        if self.cycle_ns < used:
            raise ScenarioError(
                f"TimeDivision: the slots take {used / 1e6:g} ms, but the cycle is "
                f"{self.cycle_ns / 1e6:g} ms; give a longer cycle, or fewer slots"
            )
        if declared_ns(self.offset) < 0 or self.overhead < 0 or self.bits_per_byte < 8:
            raise ScenarioError(
                f"TimeDivision: offset = {self.offset!r}, overhead = {self.overhead!r}, "
                f"bits_per_byte = {self.bits_per_byte!r}; give offset >= 0, overhead >= 0 and "
                "bits_per_byte >= 8"
            )

    @classmethod
    def flexray(
        cls,
        cycle: Duration,
        slot: Duration,
        count: int,
        bitrate: int = 10_000_000,
        name: str = "flexray",
        offset: Duration = 1e-6,
        start_bits: int = 5,
    ) -> TimeDivision:
        """Return the static segment of a FlexRay bus: ``count`` slots of ``slot`` s.

        Each byte has 10 bits on the bus. A frame also has ``start_bits`` bits of transmission start
        sequence, 1 bit of frame start sequence, 5 bytes of header, 3 bytes of CRC, and 2 bits of
        frame end sequence. ``offset`` is the action point offset, s. The rest of the cycle is the
        dynamic segment, which rtsim does not model.
        """
        overhead = start_bits + 1 + 10 * (5 + 3) + 2
        return cls(bitrate, (slot,) * count, cycle, name, offset, overhead, 10)

    @property
    def slots_ns(self) -> tuple[int, ...]:
        return _slots(self.slots, "TimeDivision: slots")

    @property
    def cycle_ns(self) -> int:
        if self.cycle is None:
            return sum(self.slots_ns)
        return declared_ns(self.cycle, "TimeDivision: cycle")

    def frame(
        self,
        slot: int | Iterable[int],
        *,
        of: FrameCodec | None = None,
        length: int = 8,
        every: int = 1,
        first: int = 0,
        signals: Mapping[str, str] | None = None,
        keep: str = NEWEST,
    ) -> SlotFrame:
        """Return the transport of messages that are sent in one slot, or in several slots.

        Args:
            slot: Number of the slot, from 1, or several numbers.
            of: Codec that rounds values to the bits of the data.
            length: Bytes of data in a frame without codec.
            every: The slots are used in each ``every``-th cycle.
            first: First cycle in which the slots are used, from 0 to ``every - 1``.
            signals: Names in the codec by names in the message, for signals whose names differ.
            keep: If several messages wait for one slot, ``"newest"`` sends the newest and loses
                the others; ``"all"`` sends them one after another.
        """
        numbers = (slot,) if isinstance(slot, int) else tuple(sorted(set(slot)))
        bad = [n for n in numbers if not 1 <= n <= len(self.slots)]
        if bad or not numbers:
            raise ScenarioError(
                f"{self.name} has the slots 1 to {len(self.slots)}; slot = {slot!r} is not valid"
            )
        if not (every >= 1 and 0 <= first < every):
            raise ScenarioError(
                f"{self.name}: every = {every}, first = {first}; give every >= 1 and first from 0 "
                "to every - 1"
            )
        length = length if of is None else of.length
        bits = self.overhead + self.bits_per_byte * length
        takes = declared_ns(self.offset) + duration_ns(bits, self.bitrate)
        for n in numbers:
            if takes > self.slots_ns[n - 1]:
                raise ScenarioError(
                    f"{self.name}: a frame of {length} bytes takes {takes / 1000:g} us, but slot "
                    f"{n} has {self.slots_ns[n - 1] / 1000:g} us; give longer slots or less data"
                )
        ends = list(accumulate(self.slots_ns, initial=0))
        starts = tuple(first * self.cycle_ns + ends[n - 1] for n in numbers)
        label = f"slot {', '.join(map(str, numbers))}"
        label += "" if every == 1 else f" of cycle {first} in {every}"
        return SlotFrame(
            self, label, Openings(starts, every * self.cycle_ns), takes, bits, length,
            every, first, numbers, of, names_of(signals), keep,
        )  # fmt: skip

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        """Raise :class:`ScenarioError` if two senders use one slot of one cycle."""
        for (a, x), (b, y) in combinations(topics, 2):
            assert isinstance(x, SlotFrame)
            assert isinstance(y, SlotFrame)
            both = set(x.slots) & set(y.slots)
            if both and (x.first - y.first) % gcd(x.every, y.every) == 0:
                raise ScenarioError(
                    f"{a} and {b} both send in slot {min(both)} of {self.name}; give each sender "
                    "a slot of its own, or other cycles"
                )

    def start(self, streams: RandomStreams) -> Lines:  # noqa: ARG002
        return Lines(self.name)

    def load(self, senders: Iterable[PeriodicSender]) -> list[SenderLoad]:
        """Return the load of periodic senders, in the order of their first slots."""
        return _loads(senders, self.bitrate)


def _loads(senders: Iterable[PeriodicSender], bitrate: int) -> list[SenderLoad]:
    rows = [
        (one.transport.openings.starts, one.sender, one.transport.load_of(one, bitrate))
        for one in senders
        if isinstance(one.transport, SlotFrame)
    ]
    return [row for *_, row in sorted(rows, key=lambda one: one[:2])]


NOMINAL, MAXIMUM = LIN_TIMES = ("nominal", "maximum")
LIN_HEADER, LIN_BYTE = 34, 10
"""Bits of a header (break 14, synchronisation 10, identifier 10), and of a byte of a response."""
LIN_MOST_BYTES = 8
LIN_LAST_IDENTIFIER = 0x3D
"""The identifiers 0x3E and 0x3F are reserved."""


@dataclass(frozen=True)
class LinBus:
    """A LIN bus, on which a master repeats a schedule table of frames.

    A frame with n bytes of data nominally has a header of 34 bits and a response of 10 (n + 1)
    bits. The specification LIN 2.2A allows nodes to take up to 1.4 times as long.

    Args:
        schedule: Pairs of an identifier and the duration of its slot, s, in the order of the
            schedule table. An identifier can occur several times.
        bitrate: Bit/s, at most 20000.
        name: Name of the bus.
        timing: ``"nominal"``, or ``"maximum"`` for 1.4 times the nominal duration of each frame.

    Example:
        doors = LinBus([(0x10, 0.01), (0x11, 0.01)], 19_200, "doors")
        out.sensor("window", {"x": "car.x"}, period=0.02, transport=doors.frame(0x10, length=2))
    """

    schedule: Sequence[tuple[int, Duration]]
    bitrate: int = 19_200
    name: str = "lin"
    timing: str = NOMINAL
    kind: ClassVar[str] = "Bus"

    def __post_init__(self) -> None:
        rows = tuple(_scheduled(row) for row in self.schedule)
        object.__setattr__(self, "schedule", rows)
        _slots((slot for _, slot in rows), "LinBus: schedule")
        if not isinstance(self.bitrate, int) or not 1_000 <= self.bitrate <= 20_000:
            raise ScenarioError(
                f"LinBus: a bit rate of {self.bitrate!r} is not valid; give a whole number from "
                "1000 to 20000, in bit/s"
            )
        if self.timing not in LIN_TIMES:
            raise ScenarioError(
                f"LinBus: timing = {self.timing!r}; choose {' or '.join(map(repr, LIN_TIMES))}"
            )

    def ns(self, bits: int, timing: str) -> int:
        """Return the nominal or the maximum duration of ``bits`` nominal bits, ns."""
        return duration_ns(bits * 14 if timing == MAXIMUM else bits * 10, 10 * self.bitrate)

    def frame(
        self,
        of: FrameCodec | int,
        *,
        length: int = LIN_MOST_BYTES,
        signals: Mapping[str, str] | None = None,
    ) -> SlotFrame:
        """Return the transport of messages that are sent as the response of one frame.

        If several messages wait for a slot, the newest is sent, and the others are lost.

        Args:
            of: Codec of the frame, or only its identifier, which the schedule must contain.
            length: Bytes of data in a frame without codec, 1 to 8.
            signals: Names in the frame by names in the message, for signals whose names differ.
        """
        identifier, codec = (of, None) if isinstance(of, int) else (of.identifier, of)
        length = length if codec is None else codec.length
        if not 1 <= length <= LIN_MOST_BYTES:
            raise ScenarioError(
                f"{self.name}: a LIN frame has from 1 to 8 bytes of data, not {length}"
            )
        bits = LIN_HEADER + LIN_BYTE * (length + 1)
        starts, at = [], 0
        for scheduled, slot in self.schedule:
            slot_ns = declared_ns(slot)
            if scheduled == identifier:
                starts.append(at)
                longest = self.ns(bits, MAXIMUM)
                if slot_ns < longest:
                    raise ScenarioError(
                        f"{self.name}: frame {identifier:#04x} of {length} bytes takes up to "
                        f"{longest / 1e6:g} ms, but its slot has {slot_ns / 1e6:g} ms; give a "
                        "longer slot"
                    )
            at += slot_ns
        if not starts:
            known = ", ".join(f"{one:#04x}" for one in dict(self.schedule))
            raise ScenarioError(
                f"the schedule of {self.name} has no frame {identifier:#04x}; it has {known}"
            )
        label = f"{identifier:#04x} {codec.name if codec else ''}".strip()
        return SlotFrame(
            self, label, Openings(tuple(starts), at), self.ns(bits, self.timing), bits, length,
            slots=(identifier,), codec=codec, names=names_of(signals),
        )  # fmt: skip

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        """Raise :class:`ScenarioError` if two senders use one identifier."""
        for (a, x), (b, y) in combinations(topics, 2):
            assert isinstance(x, SlotFrame)
            assert isinstance(y, SlotFrame)
            if x.slots == y.slots:
                raise ScenarioError(
                    f"{a} and {b} both send the frame {x.slots[0]:#04x} on {self.name}; a frame of "
                    "a LIN bus has one publisher"
                )

    def start(self, streams: RandomStreams) -> Lines:  # noqa: ARG002
        return Lines(self.name)

    def load(self, senders: Iterable[PeriodicSender]) -> list[SenderLoad]:
        """Return the load of periodic senders, in the order of the schedule."""
        return _loads(senders, self.bitrate)


def _scheduled(row: Any) -> tuple[int, Duration]:
    try:
        identifier, slot = row
        whole = int(identifier, 0) if isinstance(identifier, str) else identifier
        if not isinstance(whole, int) or not 0 <= whole <= LIN_LAST_IDENTIFIER:
            raise ValueError(identifier)
    except (TypeError, ValueError):
        raise ScenarioError(
            f"LinBus: {row!r} is not a row of a schedule; give an identifier from 0 to "
            f"{LIN_LAST_IDENTIFIER:#x} and the duration of its slot in s, such as (0x10, 0.01)"
        ) from None
    return whole, slot
