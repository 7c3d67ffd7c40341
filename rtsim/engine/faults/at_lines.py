"""Faults at the bytes of a controller's line.

:mod:`hitl.boards.faulty` applies them to the bytes.  A controller with a line has a method
``spoil(line)``, which is called once before its first request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.present import Present


@runtime_checkable
class HasLine(Protocol):
    """A controller with a serial line whose bytes faults can corrupt."""

    def spoil(self, line: LineFaults) -> None:
        """Apply the faults ``line`` to all later bytes."""
        ...


class LineFaults:
    """The faults of one line, in the order in which they are applied."""

    def __init__(self, activities: Sequence[Activity], present: Present) -> None:
        self._activities = tuple(activities)
        self._present = present

    def at(self, end: str) -> tuple[Activity, ...]:
        """Return the faults at ``end``, which is ``to_board``, ``from_board`` or ``board``."""
        return tuple(a for a in self._activities if a.fault.signal == end)

    @property
    def now_ns(self) -> int:
        """Present simulated time, ns; -1 before the run, when no fault is active yet."""
        return self._present.ns

    def began(self, activity: Activity, ns: int, text: str, values: Mapping[str, float]) -> None:
        """Record that an activation began at ``ns`` of the line's own time."""
        self._present.began(activity.fault, min(ns, self.now_ns), text, values)

    def ended(self, activity: Activity) -> None:
        """Record that the latest activation has ended."""
        ns = min(activity.ended_ns, self.now_ns)
        self._present.ended(activity.fault, ns, activity.ended)

    def save(self) -> list[dict[str, Any]]:
        return [a.save() for a in self._activities]

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for activity, state in zip(self._activities, saved, strict=True):
            activity.restore(state)
