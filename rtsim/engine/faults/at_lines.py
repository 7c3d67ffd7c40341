"""Faults at the bytes of a controller's line: what whoever carries them is given.

The bytes are known above rtsim (:mod:`hitl.boards.faulty`).  A controller that has a line says so
by a method ``spoil(line)``, called once before its first request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.present import Present


@runtime_checkable
class HasLine(Protocol):
    """A controller whose bytes can be spoiled."""

    def spoil(self, line: LineFaults) -> None:
        """From now on its bytes go through these faults."""
        ...


class LineFaults:
    """The faults of one line, in the order in which they act."""

    def __init__(self, activities: Sequence[Activity], present: Present) -> None:
        self._activities = tuple(activities)
        self._present = present

    def at(self, end: str) -> tuple[Activity, ...]:
        """Those at ``to_board``, ``from_board`` or ``board``."""
        return tuple(a for a in self._activities if a.fault.signal == end)

    @property
    def now_ns(self) -> int:
        """The instant that the run computes; -1 before it has begun: nothing is spoiled yet."""
        return self._present.ns

    def began(self, activity: Activity, ns: int, text: str, values: Mapping[str, float]) -> None:
        """An activation has had its first effect, at ``ns`` of the line's own time."""
        self._present.began(activity.fault, min(ns, self.now_ns), text, values)

    def ended(self, activity: Activity) -> None:
        """The activation that :class:`Activity` has just ended is over."""
        ns = min(activity.ended_ns, self.now_ns)
        self._present.ended(activity.fault, ns, activity.ended)

    def save(self) -> list[dict[str, Any]]:
        return [a.save() for a in self._activities]

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for activity, state in zip(self._activities, saved, strict=True):
            activity.restore(state)
