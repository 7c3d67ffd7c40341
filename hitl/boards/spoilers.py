"""What each kind of fault makes of the bytes of one direction, byte by byte.

An item is a byte; for ``truncation`` and ``garbage`` a frame, which ends with a 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.at_lines import LineFaults

Timed = tuple[int, int]
"""When a byte is on the line, in ticks of the link's own time, and its value."""
_BITS_PER_BYTE = 10


class Spoiler:
    """One fault; subclasses say what it does to a byte that is struck."""

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        self.activity = activity
        self.parameters = activity.fault.parameters
        self.rate = rate
        self.count = -1
        """Of the byte at hand, since the start of the run."""
        self._line, self._ns_at = line, ns_at

    def take(self, arriving: list[Timed]) -> list[Timed]:
        """What is on the line instead, in order."""
        out: list[Timed] = []
        for ticks, value in arriving:
            self.count += 1
            self.one(ticks, value, out)
        return out

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        raise NotImplementedError

    def struck(self, ticks: int) -> bool:
        """An item; an activation that ends with it, or before it, is told."""
        struck = self.activity.strikes(self._ns_at(ticks))
        if self.activity.ended and not self.activity.begins:
            self._line.ended(self.activity)
        return struck

    def tell(self, ticks: int, text: str, **values: float) -> None:
        """What was done, where an activation begins with it."""
        if self.activity.begins:
            values = {"byte": float(self.count), **values}
            self._line.began(self.activity, self._ns_at(ticks), text, values)
            if self.activity.ended:
                self._line.ended(self.activity)


class BitFlip(Spoiler):
    """Bit ``bit``, or one that is drawn."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            drawn = self.parameters.get("bit")
            bit = int(self.activity.stream.integers(8)) if drawn is None else int(drawn)
            was, value = value, value ^ 1 << bit
            text = f"byte {self.count} {was:#04x} is {value:#04x} on the line"
            self.tell(ticks, text, was=was, now=value, bit=bit)
        out.append((ticks, value))


class Silence(Spoiler):
    """Nothing is on the line."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            self.tell(ticks, f"the line is silent from byte {self.count} on")
        else:
            out.append((ticks, value))


class SlowLine(Spoiler):
    """A byte takes ten bit times of ``baud``, after the one before it."""

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        super().__init__(activity, line, ns_at, rate)
        self._byte = -(-_BITS_PER_BYTE * rate // int(self.parameters["baud"]))
        self._free = 0
        """When the line is free again, ticks."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            self._free = max(ticks, self._free) + self._byte
            self.tell(ticks, f"the line is slow from byte {self.count} on", baud=self._baud)
        out.append((max(ticks, self._free), value))

    @property
    def _baud(self) -> float:
        return self.parameters["baud"]


class OfFrames(Spoiler):
    """One whose item is a frame, asked for at its first byte."""

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        super().__init__(activity, line, ns_at, rate)
        self.place = 0
        """Of the byte at hand within its frame."""
        self.hit = False
        """The frame under way was struck."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.place == 0:
            if value == 0:  # a delimiter more ends nothing
                out.append((ticks, value))
                return
            self.hit = self.struck(ticks)
        self.within(ticks, value, out)
        self.place = self.place + 1 if value else 0

    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        raise NotImplementedError


class Truncation(OfFrames):
    """The first ``keep`` bytes are on the line; the rest, and the 0 at the end, are not."""

    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        keep = int(self.parameters.get("keep", 0))
        if self.hit and self.place == 0:
            text = f"the frame from byte {self.count} on is cut after {keep} bytes"
            self.tell(ticks, text, kept=keep)
        if not self.hit or self.place < keep:
            out.append((ticks, value))


class LineNoise(OfFrames):
    """``length`` bytes that nobody sent come before the frame."""

    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.hit and self.place == 0:
            length = int(self.parameters["length"])
            drawn = self.activity.stream.integers(256, size=length)
            out.extend((ticks, int(v)) for v in drawn)
            self.tell(ticks, f"{length} bytes of garbage before byte {self.count}", length=length)
        out.append((ticks, value))


_KINDS: Mapping[str, type[Spoiler]] = {
    "bit_flip": BitFlip, "silence": Silence, "slow_line": SlowLine, "truncation": Truncation,
    "garbage": LineNoise,
}  # fmt: skip


def spoilers_at(
    end: str, line: LineFaults, ns_at: Callable[[int], int], rate: int
) -> list[Spoiler]:
    """Those of one direction, in the order in which they act."""
    return [_KINDS[a.fault.kind.name](a, line, ns_at, rate) for a in line.at(end)]
