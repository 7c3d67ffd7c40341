"""Model of a CAN bus, whose frames compete for transmission by their identifiers.

The model covers classical CAN (ISO 11898-1) without CAN FD. The transmission time of a frame
includes its stuff bits. A frame arrives at the end of its end-of-frame field. The bus is free again
three bits later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from rtsim.components.framed import Framed, Names, names_of
from rtsim.components.frames.contract import FrameCodec, hexadecimal
from rtsim.components.lines import Lines
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

EXACT, WORST = STUFFING = ("exact", "worst")
INTERMISSION = 3
"""Bits after a frame in which no frame can begin."""
TAIL = 10
"""Bits of a frame that are never stuffed: CRC delimiter, acknowledgement (2), end of frame (7)."""
ERROR_FRAME = 20
"""Bits of an error frame: two successive error flags (6 + 6) and a delimiter (8)."""
MOST_BYTES = 8
_POLYNOMIAL = 0x4599
_WIRE = MediumLine(repeats=True)


def crc15(bits: int, count: int) -> int:
    """Return the CRC of the lowest ``count`` bits of ``bits``, most significant bit first."""
    crc = 0
    for at in range(count - 1, -1, -1):
        crc = ((crc << 1) ^ (_POLYNOMIAL if (crc >> 14) ^ (bits >> at & 1) else 0)) & 0x7FFF
    return crc


def stuffed_part(identifier: int, extended: bool, data: bytes) -> tuple[int, int]:
    """Return the bits from the start of a frame to its CRC, and their number.

    The result contains no stuff bits.
    """
    size = len(data)
    if extended:
        # start, base identifier, SRR and IDE (recessive), identifier extension, RTR, r1, r0
        bits = ((identifier >> 18) << 2 | 0b11) << 18 | (identifier & 0x3FFFF)
        bits, count = bits << 3, 35
    else:  # start, identifier, RTR, IDE, r0
        bits, count = identifier << 3, 15
    bits = (bits << 4 | size) << 8 * size | int.from_bytes(data, "big")
    count += 4 + 8 * size
    return bits << 15 | crc15(bits, count), count + 15


def stuff_bits(bits: int, count: int) -> int:
    """Return the number of stuff bits: one after each run of five equal bits."""
    added, run, last = 0, 0, -1
    for at in range(count - 1, -1, -1):
        bit = bits >> at & 1
        run, last = (run + 1 if bit == last else 1), bit
        if run == 5:
            added, run, last = added + 1, 1, 1 - bit
    return added


def frame_bits(identifier: int, extended: bool, data: bytes) -> int:
    bits, count = stuffed_part(identifier, extended, data)
    return count + stuff_bits(bits, count) + TAIL


def worst_frame_bits(extended: bool, length: int) -> int:
    count = (54 if extended else 34) + 8 * length
    return count + (count - 1) // 4 + TAIL


def arbitration(identifier: int, extended: bool) -> tuple[int, int, int]:
    """Return the key of a frame in the arbitration; the smallest key wins.

    A short identifier wins against a long one with the same first 11 bits.
    """
    if extended:
        return identifier >> 18, 1, identifier & 0x3FFFF
    return identifier, 0, 0


@dataclass(frozen=True)
class CanBus:
    """A CAN bus of ``bitrate`` bit/s; buses with the same ``name`` are one bus.

    With ``stuffing="exact"``, stuff bits are counted; with ``"worst"``, their maximum is assumed.

    Example:
        body = CanBus(500_000, "body")
        out.sensor("speed", {"v": "car.v"}, period=0.01, transport=body.frame(0x120, length=4))
    """

    bitrate: int
    name: str = "can"
    stuffing: str = EXACT
    kind: ClassVar[str] = "Bus"

    def __post_init__(self) -> None:
        if not isinstance(self.bitrate, int) or not 1_000 <= self.bitrate <= 1_000_000:
            raise ScenarioError(
                f"CanBus({self.bitrate!r}): the bit rate of a classical CAN bus is a whole number "
                "from 1000 to 1000000, in bit/s, such as 500_000"
            )
        if self.stuffing not in STUFFING:
            raise ScenarioError(
                f"CanBus: stuffing is {self.stuffing!r}; choose {' or '.join(map(repr, STUFFING))}"
            )

    def frame(
        self,
        of: FrameCodec | int,
        *,
        signals: Mapping[str, str] | None = None,
        length: int = MOST_BYTES,
        extended: bool = False,
    ) -> CanFrame:
        """Return the transport of messages that are frames on this bus.

        A codec rounds values to the raw numbers in the frame. Without a codec, values are
        unchanged, and the number of stuff bits is the maximum.

        Args:
            of: Codec of the frame, such as a message of a DBC file, or only the identifier.
            signals: Names in the frame by names in the message, for signals whose names differ.
            length: Length of a frame without codec, bytes.
            extended: True for a long identifier without codec (29 bits).
        """
        if isinstance(of, int):
            return CanFrame(self, of, extended, length)
        codec = of.identifier, of.extended, of.length, of
        return CanFrame(self, *codec, names_of(signals))

    def start(self, streams: RandomStreams) -> Lines:  # noqa: ARG002
        return Lines(self.name)

    def check(self, topics: Iterable[tuple[str, SharedTransport]]) -> None:
        """Raise ``ScenarioError`` if two senders have the same identifier."""
        known: dict[tuple[int, int, int], str] = {}
        for topic, frame in topics:
            assert isinstance(frame, CanFrame)
            other = known.setdefault(arbitration(frame.identifier, frame.extended), topic)
            if other != topic:
                told = hexadecimal(frame.identifier, frame.extended)
                raise ScenarioError(
                    f"{other} and {topic} both send the identifier {told} on {self.name}; two "
                    "nodes of a CAN bus must not send the same identifier"
                )

    def ns(self, bits: int) -> int:
        """Return the duration of ``bits``, rounded up to a whole ns."""
        return duration_ns(bits, self.bitrate)

    def load(self, senders: Iterable[PeriodicSender]) -> list[SenderLoad]:
        """Return the load of periodic frames, with the largest number of stuff bits.

        The rows are in the order of priority.
        """
        frames = [
            PeriodicFrame(one.sender, one.transport, one.period_ns)
            for one in senders
            if isinstance(one.transport, CanFrame)
        ]
        latencies = worst_latencies(frames)
        return [
            SenderLoad(
                one.sender, one.frame.label, one.frame.worst_bits, one.period_ns, one.load,
                latencies[one.sender],
            )
            for one in sorted(frames, key=lambda one: one.frame.priority)
        ]  # fmt: skip


@dataclass(frozen=True)
class CanFrame(Framed):
    """Latency model of messages that are sent as frames with one identifier on ``bus``."""

    bus: CanBus
    identifier: int
    extended: bool = False
    length: int = MOST_BYTES
    codec: FrameCodec | None = None
    names: Names = ()
    ordered: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        most = 2**29 if self.extended else 2**11
        if not 0 <= self.identifier < most:
            longer = "" if self.extended else "; for 29 bits give extended=True"
            raise ScenarioError(
                f"CAN identifier {self.identifier:#x} is not from 0 to {most - 1:#x}{longer}"
            )
        if not 0 <= self.length <= MOST_BYTES:
            name = "" if self.codec is None else f" {self.codec.name}"
            raise ScenarioError(
                f"CAN frame{name} has {self.length} bytes; a classical CAN frame has from 0 to "
                f"{MOST_BYTES} (rtsim does not model CAN FD)"
            )

    @property
    def medium(self) -> CanBus:
        return self.bus

    @property
    def worst_bits(self) -> int:
        """Maximum number of bits of the frame, with stuff bits."""
        return worst_frame_bits(self.extended, self.length)

    @property
    def priority(self) -> tuple[int, int, int]:
        return arbitration(self.identifier, self.extended)

    @property
    def label(self) -> str:
        """The identifier and the name of the frame."""
        name = "" if self.codec is None else self.codec.name
        return f"{hexadecimal(self.identifier, self.extended)} {name}".strip()

    def carrier(self, signals: Signals, topic: str) -> Carrier:
        content = self.content(signals, topic, "CAN", self.length)
        exact = self.bus.stuffing == EXACT

        def carry(values: Vector) -> Transmission:
            data, payload = content(values)
            bits = self.worst_bits
            if exact and data is not None:
                bits = frame_bits(self.identifier, self.extended, data)
            takes, whole = self.bus.ns(bits), self.bus.ns(bits + INTERMISSION)
            failed = self.bus.ns(bits + ERROR_FRAME + INTERMISSION)
            hop = Hop(takes, whole - takes, failed, line=_WIRE)
            return Transmission(self.priority, (hop,), payload)

        return carry

    def __repr__(self) -> str:
        told = hexadecimal(self.identifier, self.extended)
        what = f"{self.length} bytes" if self.codec is None else repr(self.codec)
        names = "".join(f", {a}={b}" for a, b in self.names)
        bus = f"{self.bus.name}, {self.bus.bitrate} bit/s"
        return f"CanFrame({told} on {bus}, {what}{names}, {self.bus.stuffing} stuffing)"


class PeriodicFrame(NamedTuple):
    """A frame that a sender sends every ``period_ns``."""

    sender: str
    frame: CanFrame
    period_ns: int

    @property
    def taken_ns(self) -> int:
        """Longest time (ns) for which a frame occupies the bus."""
        return self.frame.bus.ns(self.frame.worst_bits + INTERMISSION)

    @property
    def load(self) -> float:
        """Largest fraction of time for which the frame occupies the bus."""
        return self.taken_ns / self.period_ns


def worst_latencies(frames: Sequence[PeriodicFrame]) -> dict[str, int | None]:
    """Return the longest latency (ns) of each sender's frame on a bus.

    The latency lasts from the completion of a frame until its arrival. The latency is None if the
    bus cannot carry the frame together with all frames of higher priority.
    """
    ordered = sorted(frames, key=lambda f: arbitration(f.frame.identifier, f.frame.extended))
    out: dict[str, int | None] = {}
    for m, own in enumerate(ordered):
        higher = ordered[:m]
        blocking = max((lower.taken_ns for lower in ordered[m + 1 :]), default=0)
        if sum(f.load for f in (*higher, own)) >= 1.0:
            out[own.sender] = None
        else:
            out[own.sender] = _longest_latency(own, higher, blocking)
    return out


def _longest_latency(own: PeriodicFrame, higher: Sequence[PeriodicFrame], blocking: int) -> int:
    bit = own.frame.bus.ns(1)

    def interference(t: int) -> int:
        return sum(-(-t // f.period_ns) * f.taken_ns for f in higher)

    def busy(t: int) -> int:
        return blocking + interference(t) - (-t // own.period_ns) * own.taken_ns

    instances = -(-_fixed_point(busy, own.taken_ns) // own.period_ns)
    worst, begins = 0, blocking
    for instance in range(instances):
        before = blocking + instance * own.taken_ns

        def queued(t: int, before: int = before) -> int:
            return before + interference(t + bit)

        # The time before an instance grows with its number, so the search continues from the last
        # result.
        begins = _fixed_point(queued, max(begins, before))
        arrives = begins + own.frame.bus.ns(own.frame.worst_bits)
        worst = max(worst, arrives - instance * own.period_ns)
    return worst


def _fixed_point(step: Callable[[int], int], start: int) -> int:
    while (found := step(start)) != start:
        start = found
    return start
