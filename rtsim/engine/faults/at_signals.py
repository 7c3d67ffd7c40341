"""Faults of signals, which change the values that readers receive.

At each *item*, such as a sample, a fault decides whether to act until the next item. I For a
controller or a sensor, each sample is an item. A fault at an input of a plant has a period, and
each tick is an item.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rtsim.components.ports import Source, Wiring
from rtsim.core.signals import Signals, Vector
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.kind import (
    FaultKind,
    Level,
    Parameter,
    Places,
    Present,
    check_part_signal,
    seconds,
)

if TYPE_CHECKING:
    from rtsim.engine.faults.kind import Fault

MOST_TOLD = 8
"""Maximum number of vector elements in the text of an event."""


class SignalFault(FaultKind):
    """Base class of faults at a signal of n elements. A subclass defines :meth:`apply`."""

    level: ClassVar[Level] = "signal"
    example: ClassVar[str] = "f16.alpha"
    entries: ClassVar[tuple[str, ...]] = ("period",)
    changes_alone: ClassVar[bool] = False
    """True if the result changes at each item even when the signal does not."""

    @classmethod
    def check_where(cls, where: str) -> None:
        check_part_signal(cls, where, "signal")

    @classmethod
    def put(cls, fault: Fault, places: Places) -> None:
        places.at_signal(fault, cls)

    def __init__(self, activity: Activity, present: Present, columns: tuple[str, ...]) -> None:
        self.fault = activity.fault
        self.activity = activity
        self.present = present
        self.columns = columns
        self.drawn = np.zeros(len(columns))
        """A captured value, or an amount to add, which applies until the next item."""
        self.active = False
        self._ns = -1
        self._parameters = activity.fault.parameters

    def item(self, ns: int, value: Vector) -> None:
        """Decide whether and how the fault changes the value (n,).

        Further calls at the same time have no effect.
        """
        if ns == self._ns:
            return
        self._ns = ns
        activity = self.activity
        self.active = activity.strikes(ns)
        if activity.ended and not self.active:
            self.present.ended(self.fault, activity.ended_ns, activity.ended)
        if not self.active:
            return
        if activity.begins:
            self.capture(value)
        self.draw(ns - activity.since)
        if activity.begins:
            self._tell(ns, value)
        if activity.ended:
            self.present.ended(self.fault, activity.ended_ns, activity.ended)

    def _tell(self, ns: int, value: Vector) -> None:
        after = value.copy()
        self.spoil(after)
        values: dict[str, float] = {}
        for name, was, now in list(zip(self.columns, value, after, strict=True))[:MOST_TOLD]:
            values |= {name: float(was), f"{name}, as read": float(now)}
        text = f"{self.columns[0]} {float(value[0]):g} is read as {float(after[0]):g}"
        more = f", and {len(self.columns) - 1} more" if len(self.columns) > 1 else ""
        self.present.began(self.fault, ns, text + more, values)

    def spoil(self, value: Vector) -> None:
        """Change the value (n,) in place if the fault is active."""
        if self.active:
            self.apply(value)

    def capture(self, value: Vector) -> None:
        """Prepare for an activation with the present value (n,)."""

    def draw(self, elapsed_ns: int) -> None:
        """Draw random numbers for an item, ``elapsed_ns`` after the start of the activation."""

    @abstractmethod
    def apply(self, value: Vector) -> None:
        """Change ``value``, shape (n,), in place.

        The method is called at each reading while the fault is active.
        """

    def save(self) -> dict[str, Any]:
        return {
            "activity": self.activity.save(),
            "drawn": self.drawn.tolist(),
            "active": self.active,
            "ns": self._ns,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self.activity.restore(saved["activity"])
        self.drawn[:] = saved["drawn"]
        self.active, self._ns = saved["active"], saved["ns"]


class Stuck(SignalFault):
    """Fault that holds a signal at ``value``, by default at the present value."""

    name = "stuck"
    does = "stays"
    parameters = (Parameter("value", "number", needed=False),)

    def capture(self, value: Vector) -> None:
        self.drawn[:] = self._parameters.get("value", value)

    def apply(self, value: Vector) -> None:
        value[:] = self.drawn


class OffsetFault(SignalFault):
    """Fault that adds ``amount`` to the signal."""

    name = "offset"
    does = "is off by an amount"
    parameters = (Parameter("amount", "number"),)

    def apply(self, value: Vector) -> None:
        value += self._parameters["amount"]


class Scale(SignalFault):
    """Fault that multiplies the signal by ``factor``."""

    name = "scale"
    does = "is scaled by a factor"
    parameters = (Parameter("factor", "number"),)

    def apply(self, value: Vector) -> None:
        value *= self._parameters["factor"]


class Drift(SignalFault):
    """Fault that adds ``rate`` times the time (s) since the start of the activation."""

    name = "drift"
    does = "drifts at a rate"
    parameters = (Parameter("rate", "number"),)
    changes_alone = True

    def draw(self, elapsed_ns: int) -> None:
        self.drawn[:] = self._parameters["rate"] * seconds(elapsed_ns)

    def apply(self, value: Vector) -> None:
        value += self.drawn


class NoiseFault(SignalFault):
    """Fault that adds normally distributed noise to each element.

    ``deviation`` is the standard deviation.  New noise is drawn for each item.
    """

    name = "noise"
    does = "is noisy"
    parameters = (Parameter("deviation", "not negative"),)
    changes_alone = True

    def draw(self, elapsed_ns: int) -> None:  # noqa: ARG002
        self.activity.stream.standard_normal(out=self.drawn)
        self.drawn *= self._parameters["deviation"]

    def apply(self, value: Vector) -> None:
        value += self.drawn


class Quantised(SignalFault):
    """Fault that rounds a signal to a multiple of ``step`` (half to even)."""

    name = "quantised"
    does = "moves in steps"
    parameters = (Parameter("step", "positive"),)

    def apply(self, value: Vector) -> None:
        value /= self._parameters["step"]
        np.rint(value, out=value)
        value *= self._parameters["step"]


class NotANumber(SignalFault):
    """Fault that replaces the signal by NaN."""

    name = "nan"
    does = "is not a number"

    def apply(self, value: Vector) -> None:
        value[:] = np.nan


SIGNAL_KINDS = (Stuck, OffsetFault, Scale, Drift, NoiseFault, Quantised, NotANumber)


class FaultyWiring(Wiring):
    """A wiring in which faults change the values that a component reads.

    With ``items``, each reading of a signal is an item of its faults. Inputs of a plant need
    ``items=False``, because a solver reads them at irregular times.
    """

    def __init__(
        self,
        into: Vector,
        signals: Signals,
        sources: Mapping[str, Source],
        owner: str,
        present: Present,
        items: bool,
        initial: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(into, signals, sources, owner, initial)
        self.signals = signals
        self._constants = into.copy()
        self._faults: list[tuple[SignalFault, Vector]] = []
        self._present = present
        self._items = items

    def spoil(self, fault: SignalFault, where: slice) -> None:
        """Add ``fault`` to the elements ``where``.

        Faults act in the order in which they were added.
        """
        self._faults.append((fault, self.into[where]))

    def gather(self) -> None:
        self.into[:] = self._constants
        super().gather()
        for fault, value in self._faults:
            if self._items:
                fault.item(self._present.ns, value)
            fault.spoil(value)

    def look(self, which: SignalFault) -> None:
        """Decide whether a fault acts now, without a reading."""
        self.into[:] = self._constants
        super().gather()
        for fault, value in self._faults:
            if fault is which:
                fault.item(self._present.ns, value)
                return
            fault.spoil(value)
