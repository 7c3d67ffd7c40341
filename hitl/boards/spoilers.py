"""Fault injectors for the bytes of one direction of a line, one class for each kind of fault.

A fault acts on one item at a time.  An item is a byte; for ``truncation`` and ``garbage`` it is a
protocol frame, which ends with a 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.at_lines import LineFaults

Timed = tuple[int, int]
"""A byte as (time on the line in ticks of the link's own time, value)."""
_BITS_PER_BYTE = 10


class Spoiler:
    """A fault at one direction of a line; subclasses define its effect on a byte."""

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        self.activity = activity
        self.parameters = activity.fault.parameters
        self.rate = rate
        self.count = -1
        """Number of the current byte, counted from 0 at the start of the run."""
        self._line, self._ns_at = line, ns_at

    def take(self, arriving: list[Timed]) -> list[Timed]:
        """Return the bytes that are on the line instead of ``arriving``, in order."""
        out: list[Timed] = []
        for ticks, value in arriving:
            self.count += 1
            self.one(ticks, value, out)
        return out

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        raise NotImplementedError

    def struck(self, ticks: int) -> bool:
        """Return True if the fault acts on an item at ``ticks``.

        Reports the end of an activation that ends with this item or before it.
        """
        struck = self.activity.strikes(self._ns_at(ticks))
        if self.activity.ended and not self.activity.begins:
            self._line.ended(self.activity)
        return struck

    def tell(self, ticks: int, text: str, **values: float) -> None:
        """Report the effect ``text`` if an activation begins with it."""
        if self.activity.begins:
            values = {"byte": float(self.count), **values}
            self._line.began(self.activity, self._ns_at(ticks), text, values)
            if self.activity.ended:
                self._line.ended(self.activity)


class BitFlip(Spoiler):
    """A fault that inverts bit ``bit`` of a byte, or without ``bit`` a random bit."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            drawn = self.parameters.get("bit")
            bit = int(self.activity.stream.integers(8)) if drawn is None else int(drawn)
            was, value = value, value ^ 1 << bit
            text = f"byte {self.count} {was:#04x} is {value:#04x} on the line"
            self.tell(ticks, text, was=was, now=value, bit=bit)
        out.append((ticks, value))


class Silence(Spoiler):
    """A fault that removes all bytes from the line."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            self.tell(ticks, f"the line is silent from byte {self.count} on")
        else:
            out.append((ticks, value))


class SlowLine(Spoiler):
    """A fault that slows the line down: each byte takes ten bit times at the rate ``baud``."""

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        super().__init__(activity, line, ns_at, rate)
        self._byte = -(-_BITS_PER_BYTE * rate // int(self.parameters["baud"]))
        self._free = 0
        """Tick at which the line is free again."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            self._free = max(ticks, self._free) + self._byte
            self.tell(ticks, f"the line is slow from byte {self.count} on", baud=self._baud)
        out.append((max(ticks, self._free), value))

    @property
    def _baud(self) -> float:
        return self.parameters["baud"]


class OfFrames(Spoiler):
    """A fault that acts on protocol frames; it is decided at the first byte of each frame."""

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        super().__init__(activity, line, ns_at, rate)
        self.place = 0
        """Place of the current byte within its frame."""
        self.hit = False
        """True if the fault acts on the current frame."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.place == 0:
            if value == 0:  # an extra delimiter ends no frame
                out.append((ticks, value))
                return
            self.hit = self.struck(ticks)
        self.within(ticks, value, out)
        self.place = self.place + 1 if value else 0

    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        raise NotImplementedError


class Truncation(OfFrames):
    """A fault that cuts a frame after ``keep`` bytes; its final 0 is lost as well."""

    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        keep = int(self.parameters.get("keep", 0))
        if self.hit and self.place == 0:
            text = f"the frame from byte {self.count} on is cut after {keep} bytes"
            self.tell(ticks, text, kept=keep)
        if not self.hit or self.place < keep:
            out.append((ticks, value))


class LineNoise(OfFrames):
    """A fault that inserts ``length`` random bytes before a frame."""

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
    """Return the fault injectors of one direction, in the order in which they act.

    ``end`` is ``to_board`` or ``from_board``, ``ns_at`` converts ticks to ns since the start of the
    run, and ``rate`` is the number of ticks per second.
    """
    return [_KINDS[a.fault.kind.name](a, line, ns_at, rate) for a in line.at(end)]
