"""LIN: a master repeats a schedule table of frames, each with one publisher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from rtsim.components.framed import names_of
from rtsim.components.frames.contract import FrameCodec
from rtsim.components.lines import Lines, Openings
from rtsim.components.medium import PeriodicSender, SenderLoad, SharedTransport, duration_ns
from rtsim.components.networks.slots import SlotFrame, durations_ns, loads_of
from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import Duration, declared_ns

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
        durations_ns((slot for _, slot in rows), "LinBus: schedule")
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
        longest = self.ns(bits, MAXIMUM)
        starts, at = [], 0
        for scheduled, slot in self.schedule:
            slot_ns = declared_ns(slot)
            if scheduled == identifier:
                starts.append(at)
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
            self, label, Openings(tuple(starts), at), self.ns(bits, self.timing), longest,
            -(-14 * bits // 10), length,
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
        return loads_of(senders)


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
