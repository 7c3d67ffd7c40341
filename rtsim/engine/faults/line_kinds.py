"""Faults on a serial line, either in the bytes of one direction or at the board.

An item is a byte. For ``truncation`` and ``garbage``, an item is a frame of the protocol. The
faulty link of a board (:mod:`hitl.boards.faulty`) passes its bytes to :meth:`LineFault.take`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from rtsim.components.latency import ZERO
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.at_messages import FaultyTransport, MessageFault
from rtsim.engine.faults.kind import (
    FaultError,
    FaultKind,
    Level,
    Parameter,
    Places,
    Present,
    check_part_signal,
)

if TYPE_CHECKING:
    from rtsim.engine.faults.kind import Fault


Timed = tuple[int, int]
"""A byte on the line: (time in ticks of the link's own time, value)."""
_BITS_PER_BYTE = 10
BOARD_ENDS = ("to_board", "from_board", "board")
"""Places of faults at a controller on a board."""


class _AtLine(FaultKind):
    """Base class of faults at one end of a serial line."""

    level: ClassVar[Level] = "line"
    ends: ClassVar[tuple[str, ...]]

    @classmethod
    def check_where(cls, where: str) -> None:
        end = check_part_signal(cls, where, "end")
        if end not in cls.ends:
            text = str(UnknownName("end", end, cls.ends, f"where = {where!r}"))
            raise FaultError.of("where", text)

    @classmethod
    def put(cls, fault: Fault, places: Places) -> None:
        places.at_line(fault)


class BoardFault(_AtLine):
    """Base class of faults at a board itself.  A subclass defines :meth:`strike`."""

    example: ClassVar[str] = "controller.board"
    ends: ClassVar[tuple[str, ...]] = ("board",)
    once: ClassVar[bool] = True
    needs: ClassVar[str]
    """Name of the link's method that :meth:`strike` calls."""

    @classmethod
    def check_kind(cls) -> None:
        super().check_kind()
        if not isinstance(getattr(cls, "needs", None), str):
            raise ScenarioError(
                f"fault kind {cls.name!r}: the class {cls.__name__} does not name the method of "
                "the link that strike() calls; write needs = 'METHOD' in the class"
            )

    @classmethod
    @abstractmethod
    def strike(cls, link: Any) -> None:
        """Apply the fault to a board."""


class LineFault(_AtLine):
    """Base class of faults that change bytes in one direction. A subclass defines :meth:`one`."""

    example: ClassVar[str] = "controller.to_board"
    ends: ClassVar[tuple[str, ...]] = ("to_board", "from_board")

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        self.activity = activity
        self.fault = activity.fault
        self.rate = rate
        self.count = -1
        """Number of the current byte, counted from 0 at the start of the run."""
        self._line, self._ns_at = line, ns_at

    def take(self, arriving: list[Timed]) -> list[Timed]:
        """Apply the fault to bytes; return the resulting bytes."""
        out: list[Timed] = []
        for ticks, value in arriving:
            self.count += 1
            self.one(ticks, value, out)
        return out

    @abstractmethod
    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        """Append the bytes that replace the byte ``value`` to ``out``.

        ``ticks`` is the time of the byte in ticks of the link. The method must call ``struck`` once
        for each byte or frame, and ``tell`` if the fault acts.
        """

    def struck(self, ticks: int) -> bool:
        """Return True if the fault acts on a byte or frame."""
        struck = self.activity.strikes(self._ns_at(ticks))
        if self.activity.ended and not self.activity.begins:
            self._line.ended(self.activity)
        return struck

    def tell(self, ticks: int, text: str, **values: float) -> None:
        """Record an event if an activation begins."""
        if self.activity.begins:
            values = {"byte": float(self.count), **values}
            self._line.began(self.activity, self._ns_at(ticks), text, values)
            if self.activity.ended:
                self._line.ended(self.activity)


class BitFlip(LineFault):
    """Fault that inverts the bit ``bit`` of a byte, by default a random bit."""

    name = "bit_flip"
    does = "has a bit flipped"
    parameters = (Parameter("bit", "bit", needed=False),)

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            drawn = self.fault.parameters.get("bit")
            bit = int(self.activity.stream.integers(8)) if drawn is None else int(drawn)
            was, value = value, value ^ 1 << bit
            text = f"byte {self.count} {was:#04x} is {value:#04x} on the line"
            self.tell(ticks, text, was=was, now=value, bit=bit)
        out.append((ticks, value))


class Silence(LineFault):
    """Fault that stops all bytes on the line."""

    name = "silence"
    does = "carries nothing"

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            self.tell(ticks, f"the line is silent from byte {self.count} on")
        else:
            out.append((ticks, value))


class SlowLine(LineFault):
    """Fault that sends the bytes at ``baud`` bit/s, with ten bits for each byte."""

    name = "slow_line"
    does = "is slow"
    parameters = (Parameter("baud", "natural"),)

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        super().__init__(activity, line, ns_at, rate)
        self._byte = -(-_BITS_PER_BYTE * rate // int(self.fault.parameters["baud"]))
        self._free = 0

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            self._free = max(ticks, self._free) + self._byte
            self.tell(ticks, f"the line is slow from byte {self.count} on", baud=self._baud)
        out.append((max(ticks, self._free), value))

    @property
    def _baud(self) -> float:
        return self.fault.parameters["baud"]


class OfFrames(LineFault):
    """Base class of faults that act on whole frames.

    The fault decides at the first byte of a frame whether to act.
    """

    def __init__(
        self, activity: Activity, line: LineFaults, ns_at: Callable[[int], int], rate: int
    ) -> None:
        super().__init__(activity, line, ns_at, rate)
        self.place = 0
        """Index of the current byte within its frame."""
        self.hit = False
        """True if the fault acts on the current frame."""

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.place == 0:
            if value == 0:  # a zero byte between two frames is not a frame
                out.append((ticks, value))
                return
            self.hit = self.struck(ticks)
        self.within(ticks, value, out)
        self.place = self.place + 1 if value else 0

    @abstractmethod
    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        """Append the bytes that replace a byte of a frame to ``out``.

        With ``hit``, the fault acts on the frame.
        """


class Truncation(OfFrames):
    """Fault that ends a frame after ``keep`` bytes, without its final zero."""

    name = "truncation"
    does = "is cut"
    parameters = (Parameter("keep", "whole", needed=False),)

    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        keep = int(self.fault.parameters.get("keep", 0))
        if self.hit and self.place == 0:
            text = f"the frame from byte {self.count} on is cut after {keep} bytes"
            self.tell(ticks, text, kept=keep)
        if not self.hit or self.place < keep:
            out.append((ticks, value))


class LineNoise(OfFrames):
    """Fault that inserts ``length`` random bytes before a frame."""

    name = "garbage"
    does = "comes behind garbage"
    parameters = (Parameter("length", "natural"),)

    def within(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.hit and self.place == 0:
            length = int(self.fault.parameters["length"])
            drawn = self.activity.stream.integers(256, size=length)
            out.extend((ticks, int(v)) for v in drawn)
            self.tell(ticks, f"{length} bytes of garbage before byte {self.count}", length=length)
        out.append((ticks, value))


class BoardReset(BoardFault):
    """Fault that presses the board's reset button."""

    name = "board_reset"
    does = "is reset"
    needs = "reset"

    @classmethod
    def strike(cls, link: Any) -> None:
        link.reset()


class Kill(BoardFault):
    """Fault that ends a program like the signal SIGKILL."""

    name = "kill"
    does = "is killed"
    example = "controller.program"
    ends = ("program",)
    needs = "kill"

    @classmethod
    def strike(cls, link: Any) -> None:
        link.kill()


class Stop(Kill):
    """Fault that suspends a program like the signal SIGSTOP."""

    name = "stop"
    does = "is stopped"
    needs = "stop"

    @classmethod
    def strike(cls, link: Any) -> None:
        link.stop()


LINE_KINDS = (BitFlip, Truncation, LineNoise, Silence, SlowLine, BoardReset, Kill, Stop)


def faults_at(
    end: str, line: LineFaults, ns_at: Callable[[int], int], rate: int
) -> list[LineFault]:
    out = []
    for activity in line.at(end):
        kind = activity.fault.kind
        assert issubclass(kind, LineFault), f"{kind.name} is not at {end}: check_where refused it"
        out.append(kind(activity, line, ns_at, rate))
    return out


# Faults at the bytes of a controller's line.


@runtime_checkable
class HasLine(Protocol):
    """A controller with a line.  Faults can corrupt what the line carries.

    A controller without a board has an attribute ``ends`` with the places of its faults.
    """

    def spoil(self, line: LineFaults) -> None:
        """Apply faults to everything that the line carries from now on."""
        ...


class LineFaults:
    """The faults of one line, in the order of their application."""

    def __init__(self, activities: Sequence[Activity], present: Present) -> None:
        self._activities = tuple(activities)
        self._present = present

    def at(self, end: str) -> tuple[Activity, ...]:
        return tuple(a for a in self._activities if a.fault.signal == end)

    def transport(self, end: str) -> FaultyTransport:
        """Return the faults of messages at ``end``."""
        faults = []
        for activity in self.at(end):
            kind = activity.fault.kind
            assert issubclass(kind, MessageFault)
            faults.append(kind(activity))
        return FaultyTransport(ZERO, faults, self._present)

    @property
    def now_ns(self) -> int:
        """Present simulated time, ns."""
        return self._present.ns

    def began(self, activity: Activity, ns: int, text: str, values: Mapping[str, float]) -> None:
        """Record the start of an activation at the time ``ns``."""
        self._present.began(activity.fault, min(ns, self.now_ns), text, values)

    def ended(self, activity: Activity) -> None:
        ns = min(activity.ended_ns, self.now_ns)
        self._present.ended(activity.fault, ns, activity.ended)

    def save(self) -> list[dict[str, Any]]:
        return [a.save() for a in self._activities]

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for activity, state in zip(self._activities, saved, strict=True):
            activity.restore(state)
