"""Buses with a cycle of static slots: the static segment of FlexRay, and TTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from math import gcd
from typing import ClassVar

from rtsim.components.framed import NEWEST, names_of
from rtsim.components.frames.contract import FrameCodec
from rtsim.components.lines import Lines, Openings
from rtsim.components.medium import PeriodicSender, SenderLoad, SharedTransport, duration_ns
from rtsim.components.networks.slots import SlotFrame, durations_ns, loads_of
from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import Duration, declared_ns


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
        return durations_ns(self.slots, "TimeDivision: slots")

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
            self, label, Openings(starts, every * self.cycle_ns), takes, takes, bits, length,
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
        return loads_of(senders)
