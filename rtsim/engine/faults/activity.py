"""Determine when a fault is active.

:meth:`Activity.strikes` is called once for each item, in order of time.  With ``probability``, the
method draws one number from the fault's own random stream for each item that could begin an
activation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rtsim.engine.faults.kind import Fault

FAR_NS = 2**63 - 1
_NEVER = -1


class Activity:
    """The present state of one fault, active or inactive."""

    def __init__(
        self,
        fault: Fault,
        stream: np.random.Generator,
        holds: Callable[[], bool] | None = None,
    ) -> None:
        self.fault = fault
        self.stream = stream
        self.began = _NEVER
        """Start of the present activation, ns; -1 if the fault is not active."""
        self.since = 0
        self.items = 0
        """Number of items on which the latest activation acted."""
        self.activations = 0
        self.begins = False
        """True if the latest item is the first of an activation."""
        self.ended = 0
        """Number of items of an activation that ended at the latest item; 0 if none ended."""
        self.ended_ns = 0
        """End of that activation, ns: the time of the latest item, or earlier."""
        self._holds = holds
        self._held = False
        self._taken = _NEVER
        """Latest trigger time that has begun an activation, ns."""
        self._asked = _NEVER
        """Start of a commanded activation without items so far, ns; -1 if there is none."""
        self.by_hand = False
        """True if a command began the activation; only a command, a count or a duration then
        ends it."""
        self.cleared = False
        """True if a command cleared the fault and no later command started it again."""

    def strikes(self, ns: int) -> bool:
        self.begins, self.ended = False, 0
        holds = self._now_holds(ns)
        if self.began != _NEVER and self._over(ns, holds):
            self._end(ns)
        if self.began == _NEVER:
            self.began = self._triggered(ns, holds)
            if self.began == _NEVER:
                return False
            self.since, self.begins, self.items = self.began, True, 0
            self.activations += 1
        self.items += 1
        if self.items == self.fault.count:
            self._end(ns)
        return True

    def _end(self, ns: int) -> None:
        fault = self.fault
        over = ns if fault.duration_ns is None else self.began + fault.duration_ns
        self.ended_ns = min(ns, over, ns if fault.until_ns is None else fault.until_ns)
        self.began, self.ended, self.by_hand = _NEVER, self.items, False

    def start(self, ns: int) -> None:
        """Activate the fault at ``ns`` by a command."""
        self.cleared = False
        if self.began == _NEVER:
            self._asked = ns

    def clear(self) -> None:
        """End the activation at the next item.

        A later command can activate the fault again.
        """
        self.cleared, self._asked = True, _NEVER

    def _now_holds(self, ns: int) -> bool:
        if self._holds is None or ns < (self.fault.at_ns or 0):
            return False
        return self._holds()

    def _over(self, ns: int, holds: bool) -> bool:
        fault = self.fault
        if self.cleared:
            return True
        if fault.until_ns is not None and ns >= fault.until_ns and not self.by_hand:
            return True
        if fault.duration_ns is not None:
            return ns >= self.began + fault.duration_ns
        if self.by_hand:
            return False
        return fault.when is not None and fault.count is None and not holds

    def _triggered(self, ns: int, holds: bool) -> int:
        fault = self.fault
        rising, self._held = holds and not self._held, holds
        if self._asked != _NEVER:
            began, self._asked, self.by_hand = self._asked, _NEVER, True
            return began
        if self.cleared:
            return _NEVER
        if ns < (fault.at_ns or 0) or (fault.until_ns is not None and ns >= fault.until_ns):
            return _NEVER
        if fault.probability is not None:
            return ns if self.stream.random() < fault.probability else _NEVER
        if fault.when is not None:
            return ns if rising else _NEVER
        began = self._last_time(ns)
        if began <= self._taken:
            return _NEVER
        self._taken = began
        over = fault.duration_ns is not None and ns >= began + fault.duration_ns
        return _NEVER if over else began

    def _last_time(self, ns: int) -> int:
        fault = self.fault
        if fault.every is None:
            return fault.at_ns or 0
        first = fault.every.tick(1) if fault.at_ns is None else fault.at_ns
        k = fault.every.index_after(ns, first) - 1
        return _NEVER if k < 0 else fault.every.tick(k, first)

    def next_edge(self, ns: int) -> int:
        """Return the next scheduled start or end after ``ns``, or FAR_NS."""
        fault = self.fault
        edges = [fault.at_ns or 0, FAR_NS if fault.until_ns is None else fault.until_ns]
        if fault.every is not None:
            first = fault.every.tick(1) if fault.at_ns is None else fault.at_ns
            edges = [fault.every.tick(fault.every.index_after(ns, first), first), edges[1]]
        if self.began != _NEVER and fault.duration_ns is not None:
            edges.append(self.began + fault.duration_ns)
        return min((edge for edge in edges if edge > ns), default=FAR_NS)

    def save(self) -> dict[str, Any]:
        return {
            "began": self.began,
            "since": self.since,
            "items": self.items,
            "activations": self.activations,
            "held": self._held,
            "taken": self._taken,
            "by_hand": [self._asked, self.by_hand, self.cleared],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self.began, self.since, self.items = saved["began"], saved["since"], saved["items"]
        self.activations = saved["activations"]
        self._held, self._taken = saved["held"], saved["taken"]
        self._asked, self.by_hand, self.cleared = saved["by_hand"]
