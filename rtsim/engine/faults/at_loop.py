"""Faults of timing: what makes the loop late, and ticks that are lost.

An item is a tag of the loop, the run of a job at a tag, a wait that ended, or, for what is lost, a
tick.  Only a lost tick changes what is computed; it is computed again in a replay.  The others take
the clock's own time, and a replay, which has none, says again that they happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rtsim.core.clock import Clock, Wake
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.present import Present, seconds
from rtsim.timing.pacing import NEXT, Pacer
from rtsim.timing.policy import Policy

ALL_TICKS = ""
UNPACED = "as fast as possible nothing is late; give --pace 1"


class LoopFaults:
    """The faults of one loop, by where in a frame they act, each in the order of their names."""

    def __init__(
        self, activities: Sequence[Activity], present: Present, tasks: Sequence[str]
    ) -> None:
        self._activities = tuple(activities)
        self._tasks = frozenset(tasks)
        self._present = present
        self.frames: list[Activity] = []
        self.wakes: list[Activity] = []
        self.jobs: defaultdict[str, list[Activity]] = defaultdict(list)
        self._lost: defaultdict[str, list[Activity]] = defaultdict(list)
        for activity in activities:
            fault = activity.fault
            if fault.kind.name == "late_wake":
                self.wakes.append(activity)
            elif fault.kind.name == "slow_job":
                self.jobs[fault.signal].append(activity)
            elif fault.kind.name == "lost_tick":
                self._lost[fault.signal].append(activity)
            else:
                self.frames.append(activity)
        self.loses = bool(self._lost)
        self.told_again = False
        """A replay: nobody waits, and what made the loop late is in the recording."""

    @property
    def late(self) -> list[Activity]:
        """Those that take time."""
        return [a for a in self._activities if a.fault.kind.name != "lost_tick"]

    def takes(self, activity: Activity, ns: int) -> int:
        """Own ns that it takes of the item at ``ns``."""
        struck = activity.strikes(ns)
        fault = activity.fault
        amount = 0
        if struck:
            amount = int(fault.parameters["amount"])
            if fault.kind.name == "load":
                amount = int(activity.stream.integers(0, amount, endpoint=True))
            if activity.begins:
                text = f"{fault.kind.does} {seconds(amount) * 1e3:g} ms"
                self._present.began(fault, ns, text, {"amount": seconds(amount)})
        if activity.ended:
            self._present.ended(fault, activity.ended_ns, activity.ended)
        return amount

    def lose(self, task: str, ns: int) -> bool:
        """Whether the tick of ``task`` at ``ns`` is lost."""
        lost = False
        if task not in self._tasks:
            return lost  # a fault's own
        for activity in (*self._lost.get(ALL_TICKS, ()), *self._lost.get(task, ())):
            struck = activity.strikes(ns)
            if struck and activity.begins:
                self._present.began(activity.fault, ns, f"{task} does not tick", {})
            if activity.ended:
                self._present.ended(activity.fault, activity.ended_ns, activity.ended)
            lost = lost or struck
        return lost

    def save(self) -> list[dict[str, Any]]:
        return [a.save() for a in self._activities]

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for activity, state in zip(self._activities, saved, strict=True):
            activity.restore(state)


class DisturbedPacer(Pacer):
    """A pacer whose loop is made late on purpose: its clock is kept busy."""

    def __init__(
        self, clock: Clock, policy: Policy | None, faults: LoopFaults, *, frame_ns: int = 0
    ) -> None:
        self._faults = faults
        self._disturbed_ns = -1
        super().__init__(clock, policy, frame_ns=frame_ns)
        self._until = self._wait_and_oversleep

    @property
    def _disturbs(self) -> bool:
        return self.clock.paced and not self._faults.told_again

    def lap(self, name: str) -> None:
        for activity in self._faults.jobs.get(name, ()) if self._disturbs else ():
            self._take(activity, self._tag_ns, name)
        super().lap(name)

    def wait(self, ns: int, wake: Wake | None = None) -> bool:
        begun = not (self.frozen or self._closed)  # a freeze stands between two frames
        if self._disturbs and begun and self._disturbed_ns != self._tag_ns:
            self._disturbed_ns = self._tag_ns  # once a frame, however often it looks again
            for activity in self._faults.jobs.get(NEXT, ()):
                self._take(activity, self._tag_ns, NEXT)
            for activity in self._faults.frames:
                self._take(activity, self._tag_ns, f"fault.{activity.fault.name}")
        return super().wait(ns, wake)

    def _take(self, activity: Activity, ns: int, job: str) -> None:
        began = self.read()
        amount = self._faults.takes(activity, ns)
        if amount:
            self._spend(activity, amount)
            ended = self.read()
            self.job(job, began, ended)
            self._lap_at += ended - began

    def _spend(self, activity: Activity, ns: int) -> None:
        self.clock.spend(ns)
        name = activity.fault.name
        self.injected[name] = self.injected.get(name, 0) + ns

    def _wait_and_oversleep(self, ns: int, wake: Wake | None) -> bool:
        if not self.clock.wait_until(ns, wake):
            return False
        for activity in self._faults.wakes if self._disturbs else ():
            amount = self._faults.takes(activity, ns)
            if amount:
                self._spend(activity, amount)
        return True
