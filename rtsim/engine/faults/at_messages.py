"""Faults of messages.

The latency models Loss and Duplicate draw from the link's random stream for every message. A fault
has its own random stream, so that the random numbers of latency models do not change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rtsim.components.latency import LatencyModel
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.kind import (
    FaultError,
    FaultKind,
    Level,
    Parameter,
    Places,
    Present,
    seconds,
)

if TYPE_CHECKING:
    from rtsim.engine.faults.kind import Fault

PACKETS = ("to_program", "from_program")
"""Ends of a controller whose packets can have faults of messages, as ``NAME.to_program``."""
Delays = tuple[int, ...]
"""Delays in ns, one for each copy of a message; empty for a lost message."""


class MessageFault(FaultKind):
    """Base class of faults that act on the messages of one sender.

    A subclass defines :meth:`spoil`.
    """

    level: ClassVar[Level] = "message"
    example: ClassVar[str] = "controller"
    holds_back: ClassVar[bool] = False
    """True if later messages can overtake a message that the fault delays."""
    needs_medium: ClassVar[bool] = False
    """True if the fault acts only on messages that share a medium, such as a CAN bus."""

    def __init__(self, activity: Activity) -> None:
        self.fault = activity.fault
        self.activity = activity

    @classmethod
    def check_where(cls, where: str) -> None:
        part, dot, end = where.partition(".")
        if not part.isidentifier() or (dot and (end not in PACKETS or cls.needs_medium)):
            packets = "" if cls.needs_medium else f", or on packets: where = '{part}.{PACKETS[0]}'"
            text = (
                f"where = {where!r}; {cls.name} acts on the messages of a component: "
                f"{cls.wanted()}{packets}"
            )
            raise FaultError.of("where", text)

    @classmethod
    def put(cls, fault: Fault, places: Places) -> None:
        if fault.signal:
            places.at_line(fault)
        else:
            places.at_messages(fault, cls)

    @abstractmethod
    def spoil(self, delays: Delays) -> Delays:
        """Change the delays (ns) of a message's copies."""

    @property
    def failures(self) -> int:
        """Number of failed transmissions before a successful one."""
        return 0

    def ns(self, parameter: str) -> int:
        """Return a time parameter in ns, or 0 if it was not given."""
        return int(self.fault.parameters.get(parameter, 0))

    def save(self) -> dict[str, Any]:
        return self.activity.save()

    def restore(self, saved: dict[str, Any]) -> None:
        self.activity.restore(saved)


class Drop(MessageFault):
    """Fault that loses the message."""

    name = "drop"
    does = "is lost"

    def spoil(self, delays: Delays) -> Delays:  # noqa: ARG002
        return ()


class Burst(Drop):
    """Fault that loses a message and the following ``length - 1`` messages."""

    name = "burst"
    does = "is lost with those after it"
    parameters = (Parameter("length", "natural"),)
    has_length = True


class Delay(MessageFault):
    """Fault that delays a message by ``delay`` s; later messages do not overtake it."""

    name = "delay"
    does = "takes longer"
    parameters = (Parameter("delay", "seconds"),)

    def spoil(self, delays: Delays) -> Delays:
        return tuple(d + self.ns("delay") for d in delays)


class DuplicateFault(MessageFault):
    """Fault that delivers each copy of a message again ``gap`` s later."""

    name = "duplicate"
    does = "comes twice"
    parameters = (Parameter("gap", "seconds", needed=False),)

    def spoil(self, delays: Delays) -> Delays:
        return delays + tuple(d + self.ns("gap") for d in delays)


class ReorderFault(MessageFault):
    """Fault that delays a message by ``extra`` s; later messages can overtake it."""

    name = "reorder"
    does = "may be overtaken"
    parameters = (Parameter("extra", "seconds"),)
    holds_back = True

    def spoil(self, delays: Delays) -> Delays:
        return tuple(d + self.ns("extra") for d in delays)


class ErrorFrame(MessageFault):
    """Fault that destroys ``times`` transmissions of a frame at their last bits.

    On a CAN bus and a wireless channel, the sender repeats a destroyed frame. On other media, the
    frame is lost.
    """

    name = "error_frame"
    does = "is destroyed on its medium"
    parameters = (Parameter("times", "natural", needed=False),)
    needs_medium = True

    def spoil(self, delays: Delays) -> Delays:
        return delays

    @property
    def failures(self) -> int:
        return int(self.fault.parameters.get("times", 1))


MESSAGE_KINDS = (Drop, Delay, DuplicateFault, ReorderFault, Burst, ErrorFrame)


class FaultyTransport:
    """Latency model that applies faults to the delays of the model ``inner``."""

    def __init__(
        self, inner: LatencyModel, faults: Sequence[MessageFault], present: Present
    ) -> None:
        self.inner = inner
        self._faults = tuple(faults)
        self._present = present
        self._sequence = 0
        self._latest_ns = 0
        self._held_back = False
        self.failures = 0
        """Number of transmissions of the latest message that will fail on its medium."""

    @property
    def ordered(self) -> bool:
        """False if later messages can overtake the latest message."""
        return self.inner.ordered and not self._held_back

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:
        return self._spoiled(self.inner.delays(stream, size_bytes), self._present.ns)

    def arrivals(self, ns: int) -> tuple[int, ...]:
        """Return the times (ns) at which a packet sent at ``ns`` arrives.

        A packet does not overtake an earlier one, unless a fault permits this.
        """
        arrivals = tuple(max(ns + d, self._latest_ns) for d in self._spoiled((0,), ns))
        if arrivals and not self._held_back:
            self._latest_ns = max(arrivals)
        return arrivals

    def _spoiled(self, delays: Delays, ns: int) -> Delays:
        self._held_back, self.failures = False, 0
        for fault in self._faults:
            activity = fault.activity
            struck = activity.strikes(ns)
            if struck:
                before, delays = delays, fault.spoil(delays)
                self.failures += fault.failures
                self._held_back = self._held_back or fault.holds_back
                if activity.begins:
                    self._tell(activity, ns, before, delays)
            if activity.ended:
                self._present.ended(activity.fault, activity.ended_ns, activity.ended)
        self._sequence += 1
        return delays

    def _tell(self, activity: Activity, ns: int, before: Delays, after: Delays) -> None:
        values = {"sequence": float(self._sequence), "copies": float(len(after))}
        if after:
            values["delay"] = seconds(after[-1])
        if before:
            values["delay without it"] = seconds(before[-1])
        text = f"message {self._sequence} {activity.fault.kind.does}"
        self._present.began(activity.fault, ns, text, values)

    def save(self) -> dict[str, Any]:
        return {"sequence": self._sequence, "faults": [fault.save() for fault in self._faults]}

    def restore(self, saved: dict[str, Any]) -> None:
        self._sequence = saved["sequence"]
        for fault, state in zip(self._faults, saved["faults"], strict=True):
            fault.restore(state)
