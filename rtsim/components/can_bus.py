"""Model of a CAN bus, whose frames compete for transmission by their identifiers.

The model covers classical CAN (ISO 11898-1) without CAN FD. The transmission time of a frame
includes its stuff bits. A frame arrives at the end of its end-of-frame field. The bus is free again
three bits later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from rtsim.components.frames.contract import FrameCodec, hexadecimal
from rtsim.components.medium import Carrier, SharedTransport, Transmission
from rtsim.components.ports import check_units
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S

EXACT, WORST = STUFFING = ("exact", "worst")
INTERMISSION = 3
"""Bits after a frame in which no frame can begin."""
TAIL = 10
"""Bits of a frame that are never stuffed: CRC delimiter, acknowledgement (2), end of frame (7)."""
ERROR_FRAME = 20
"""Bits of an error frame: two successive error flags (6 + 6) and a delimiter (8)."""
MOST_BYTES = 8
_POLYNOMIAL = 0x4599


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
        names = tuple(sorted((signals or {}).items()))
        return CanFrame(self, of.identifier, of.extended, of.length, of, names)

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
        """Return the duration (ns) of ``bits``, rounded up."""
        return -(-bits * NS_PER_S // self.bitrate)


@dataclass(frozen=True)
class CanFrame:
    """Latency model of messages that are frames with one identifier."""

    bus: CanBus
    identifier: int
    extended: bool = False
    length: int = MOST_BYTES
    codec: FrameCodec | None = None
    names: tuple[tuple[str, str], ...] = ()
    """Pairs of a signal of the message and a signal of the frame, where their names differ."""
    ordered: bool = field(default=True, init=False)
    _delays: ClassVar[tuple[int, ...]] = (0,)

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

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return ``(0,)``, because a CAN frame can be sent as soon as it is complete."""
        return self._delays

    def carrier(self, signals: Signals, topic: str) -> Carrier:
        if self.codec is None:
            return self._opaque(signals, topic)
        codec = self.codec
        where = self._positions(signals, codec, topic)
        whole = codec.signals.initial()

        def carry(payload: Vector) -> Transmission:
            values, found = whole.copy(), np.full(whole.size, np.nan)
            values[where] = payload
            data = codec.encode(values)
            codec.decode(data, found)
            worst = self.bus.stuffing == WORST
            bits = self.worst_bits if worst else frame_bits(self.identifier, self.extended, data)
            return self._transmission(bits, found[where])

        return carry

    def _opaque(self, signals: Signals, topic: str) -> Carrier:
        if signals.size and not self.length:
            raise ScenarioError(
                f"messages of {topic} have {signals.size} values, but their CAN frame has no data; "
                "give its length= in bytes"
            )
        return lambda payload: self._transmission(self.worst_bits, payload.copy())

    def _transmission(self, bits: int, payload: Vector) -> Transmission:
        takes, whole = self.bus.ns(bits), self.bus.ns(bits + INTERMISSION)
        failed = self.bus.ns(bits + ERROR_FRAME + INTERMISSION)
        priority = arbitration(self.identifier, self.extended)
        return Transmission(priority, takes, whole - takes, failed, payload)

    def _positions(self, signals: Signals, codec: FrameCodec, topic: str) -> list[int]:
        names = dict(self.names)
        for given in names:
            if given not in signals:
                raise UnknownName("signal", given, signals.names, f"messages of {topic}")
        out: list[int] = []
        for signal in signals:
            name = names.get(signal.name, signal.name)
            if name not in codec.signals:
                raise UnknownName(
                    "signal", name, codec.signals.names,
                    f"frame {codec.name}, which carries messages of {topic} (if the frame has "
                    "another name for the signal, give it in signals=)",
                )  # fmt: skip
            check_units(f"{topic}.{signal.name}", signal, codec.signals[name], codec.name)
            here = codec.signals.slice(name)
            if here.stop - here.start != signal.size:
                raise ScenarioError(
                    f"{topic}.{signal.name} has {signal.size} elements, but {name} of frame "
                    f"{codec.name} has {here.stop - here.start}"
                )
            out += range(here.start, here.stop)
        return out

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
