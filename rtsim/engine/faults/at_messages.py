"""Faults at messages: a decorator of a link's latency model, as Loss and Duplicate are.

Those draw from the link's own stream, each message alike.  A fault has a time and a stream of its
own: what the link draws for a message does not depend on what a fault makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rtsim.components.latency import LatencyModel
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.present import Present, seconds


class FaultyTransport:
    """``inner`` with faults; an item is a message, when it is sent."""

    def __init__(
        self, inner: LatencyModel, activities: Sequence[Activity], present: Present
    ) -> None:
        self._inner = inner
        self._activities = tuple(activities)
        self._present = present
        self._sequence = 0
        self._held_back = False

    @property
    def ordered(self) -> bool:
        """A message that is held back gives up its place; the others keep theirs."""
        return self._inner.ordered and not self._held_back

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:
        delays = self._inner.delays(stream, size_bytes)
        self._held_back = False
        ns = self._present.ns
        for activity in self._activities:
            struck = activity.strikes(ns)
            if struck:
                before, delays = delays, self._spoiled(activity, delays)
                if activity.begins:
                    self._tell(activity, ns, before, delays)
            if activity.ended:
                self._present.ended(activity.fault, activity.ended_ns, activity.ended)
        self._sequence += 1
        return delays

    def _spoiled(self, activity: Activity, delays: tuple[int, ...]) -> tuple[int, ...]:
        kind, parameters = activity.fault.kind.name, activity.fault.parameters
        if kind in ("drop", "burst"):
            return ()
        if kind == "duplicate":
            gap = int(parameters.get("gap", 0))
            return delays + tuple(d + gap for d in delays)
        self._held_back = self._held_back or kind == "reorder"
        more = int(parameters["delay" if kind == "delay" else "extra"])
        return tuple(d + more for d in delays)

    def _tell(
        self, activity: Activity, ns: int, before: tuple[int, ...], after: tuple[int, ...]
    ) -> None:
        values = {"sequence": float(self._sequence), "copies": float(len(after))}
        if after:
            values["delay"] = seconds(after[-1])
        if before:
            values["delay without it"] = seconds(before[-1])
        text = f"message {self._sequence} {activity.fault.kind.does}"
        self._present.began(activity.fault, ns, text, values)

    def save(self) -> dict[str, Any]:
        return {"sequence": self._sequence, "faults": [a.save() for a in self._activities]}

    def restore(self, saved: dict[str, Any]) -> None:
        self._sequence = saved["sequence"]
        for activity, state in zip(self._activities, saved["faults"], strict=True):
            activity.restore(state)
