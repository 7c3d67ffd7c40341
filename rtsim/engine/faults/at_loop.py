"""Timing faults, which delay the loop or make a task miss a tick.

A timing fault acts at a tag, at a job, at the end of a wait, or at a tick of a task. A replay
repeats a lost tick, because it changes the results. A replay only repeats the events of all other
timing faults.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rtsim.core.clock import Clock, Wake
from rtsim.core.errors import ScenarioError, UnknownName
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
from rtsim.timing.frames import NEXT, RECORDING
from rtsim.timing.pacing import CommandsInWait, Pacer
from rtsim.timing.policy import Policy

if TYPE_CHECKING:
    from rtsim.engine.faults.kind import Fault

LOOP = "loop"
ALL_TICKS = ""
UNPACED = "as fast as possible nothing is late; give --pace 1"


Moment = Literal["frame", "wake", "job", "tick"]
"""Moment at which a fault acts: before the wait, after the wait, in a job, or at a tick."""
_WITH_JOB: dict[Moment, tuple[bool, ...]] = {
    "frame": (False,), "wake": (False,), "job": (True,), "tick": (False, True),
}  # fmt: skip
"""For each moment: whether ``where`` may or must name a job or task after ``loop.``."""


_AMOUNT = Parameter("amount", "seconds")


class LoopFault(FaultKind):
    """Base class of timing faults. A subclass defines ``moment`` and can override ``takes``."""

    level: ClassVar[Level] = "loop"
    example: ClassVar[str] = LOOP
    moment: ClassVar[Moment]
    """Moment in a frame at which the fault acts.

    A fault at a ``tick`` drops the tick.  A fault at another moment takes wall-clock time.
    """

    def __init__(self, activity: Activity) -> None:
        self.fault = activity.fault
        self.activity = activity

    @classmethod
    def check_where(cls, where: str) -> None:
        """Raise :class:`FaultError` unless ``where`` is ``loop`` or ``loop.JOB``."""
        loop, dot, job = where.partition(".")
        wanted = _WITH_JOB[cls.moment]
        if loop != LOOP or (bool(dot) not in wanted) or bool(dot) != bool(job):
            examples = " or ".join("where = 'loop.JOB'" if j else "where = 'loop'" for j in wanted)
            text = f"where = {where!r}; {cls.name} acts on the loop: {examples}"
            raise FaultError.of("where", text)

    @classmethod
    def check_job(cls, fault: Fault, tasks: Sequence[str]) -> None:
        """Raise ``UnknownName`` for an unknown job or task."""
        others = (NEXT, RECORDING) if cls.takes_time() else ()
        if fault.signal and fault.signal not in (*tasks, *others):
            raise UnknownName("job", fault.signal, sorted((*tasks, *others)))

    @classmethod
    def put(cls, fault: Fault, places: Places) -> None:
        places.in_loop(fault, cls)

    @classmethod
    def check_kind(cls) -> None:
        super().check_kind()
        if getattr(cls, "moment", None) not in _WITH_JOB:
            raise ScenarioError(
                f"fault kind {cls.name!r}: the class {cls.__name__} needs an attribute moment, "
                f"one of {', '.join(_WITH_JOB)}"
            )
        if cls.takes is LoopFault.takes and cls.takes_time() and _AMOUNT not in cls.parameters:
            raise ScenarioError(
                f"fault kind {cls.name!r} takes wall-clock time, but the class {cls.__name__} does "
                "not say how much; define a method takes() in the class, or add "
                "Parameter('amount', 'seconds') to its parameters"
            )

    @classmethod
    def takes_time(cls) -> bool:
        """Return True if faults of this kind cause delays without changing the results."""
        return cls.moment != "tick"

    def takes(self) -> int:
        """Return the delay (ns) in a frame, wait or job."""
        return int(self.fault.parameters["amount"])

    def save(self) -> dict[str, Any]:
        return self.activity.save()

    def restore(self, saved: dict[str, Any]) -> None:
        self.activity.restore(saved)


class Stall(LoopFault):
    """Fault that makes the computation in a frame ``amount`` s longer."""

    name = "stall"
    does = "the loop stands still for"
    parameters = (_AMOUNT,)
    moment = "frame"
    brief = True


class LateWake(LoopFault):
    """Fault that ends a wait of the loop ``amount`` s late."""

    name = "late_wake"
    does = "the loop is woken late by"
    parameters = (_AMOUNT,)
    moment = "wake"
    brief = True


class LostTick(LoopFault):
    """Fault that makes a task skip its tick."""

    name = "lost_tick"
    does = "does not tick"
    moment = "tick"
    brief = True


class SlowJob(LoopFault):
    """Fault that makes each execution of a job ``amount`` s longer."""

    name = "slow_job"
    does = "it takes longer by"
    parameters = (_AMOUNT,)
    moment = "job"


class Load(LoopFault):
    """Fault that makes ``length`` frames longer, each by a random time up to ``amount`` s."""

    name = "load"
    does = "another has the CPU, at first for"
    parameters = (_AMOUNT, Parameter("length", "natural"))
    moment = "frame"
    has_length = True

    def takes(self) -> int:
        return int(self.activity.stream.integers(0, super().takes(), endpoint=True))


LOOP_KINDS = (Stall, LateWake, LostTick, SlowJob, Load)


class LoopFaults:
    """The timing faults of a loop."""

    def __init__(self, faults: Sequence[LoopFault], present: Present, tasks: Sequence[str]) -> None:
        self._faults = tuple(faults)
        self._tasks = frozenset(tasks)
        self._present = present
        self.frames = [f for f in faults if f.moment == "frame"]
        self.wakes = [f for f in faults if f.moment == "wake"]
        self.jobs: defaultdict[str, list[LoopFault]] = defaultdict(list)
        self._lost: defaultdict[str, list[LoopFault]] = defaultdict(list)
        for fault in faults:
            if fault.moment == "job":
                self.jobs[fault.fault.signal].append(fault)
            elif fault.moment == "tick":
                self._lost[fault.fault.signal].append(fault)
        self.loses = bool(self._lost)
        self.told_again = False
        """True in a replay, which only repeats the events of faults that take time."""

    @property
    def late(self) -> list[Fault]:
        return [f.fault for f in self._faults if f.takes_time()]

    def takes(self, at_work: LoopFault, ns: int) -> int:
        """Return the delay (ns) that a fault causes at ``ns``, or 0."""
        activity, fault = at_work.activity, at_work.fault
        struck = activity.strikes(ns)
        amount = 0
        if struck:
            amount = at_work.takes()
            if activity.begins:
                text = f"{at_work.does} {seconds(amount) * 1e3:g} ms"
                self._present.began(fault, ns, text, {"amount": seconds(amount)})
        if activity.ended:
            self._present.ended(fault, activity.ended_ns, activity.ended)
        return amount

    def lose(self, task: str, ns: int) -> bool:
        lost = False
        if task not in self._tasks:
            return lost  # the task of a fault has no faults itself
        for fault in (*self._lost.get(ALL_TICKS, ()), *self._lost.get(task, ())):
            activity = fault.activity
            struck = activity.strikes(ns)
            if struck and activity.begins:
                self._present.began(activity.fault, ns, f"{task} {fault.does}", {})
            if activity.ended:
                self._present.ended(activity.fault, activity.ended_ns, activity.ended)
            lost = lost or struck
        return lost

    def save(self) -> list[dict[str, Any]]:
        return [fault.save() for fault in self._faults]

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for fault, state in zip(self._faults, saved, strict=True):
            fault.restore(state)


class DisturbedPacer(Pacer):
    """A pacer that delays the loop according to declared faults."""

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
        for fault in self._faults.jobs.get(name, ()) if self._disturbs else ():
            self._take(fault, self.frame.tag_ns, name)
        super().lap(name)

    def begin(self, ns: int) -> bool:
        due = self.clock.wall(ns)
        # Without a wait the first tag is due at once, and a late wake delays it all the same: the
        # recorded run of a reproduced overrun may have waited (``until_quiet``).
        if self._disturbs and not self.frozen and self.read() >= due and self._oversleep(ns):
            self.overrun = None
            return self._woken(ns, due)
        return super().begin(ns)

    def wait(self, ns: int, wake: Wake | None = None, commands: CommandsInWait = None) -> bool:
        begun = not (self.frozen or self.frame.closed)  # a freeze lies between two frames
        if self._disturbs and begun and self._disturbed_ns != self.frame.tag_ns:
            self._disturbed_ns = self.frame.tag_ns  # once per frame, even if the wait is repeated
            for fault in self._faults.jobs.get(NEXT, ()):
                self._take(fault, self.frame.tag_ns, NEXT)
            for fault in self._faults.frames:
                self._take(fault, self.frame.tag_ns, f"fault.{fault.fault.name}")
        return super().wait(ns, wake, commands)

    def _take(self, fault: LoopFault, ns: int, job: str) -> None:
        began = self.read()
        amount = self._faults.takes(fault, ns)
        if amount:
            self._spend(fault, amount)
            ended = self.read()
            self.job(job, began, ended)
            self.frame.lap_at += ended - began

    def _spend(self, fault: LoopFault, ns: int) -> None:
        self.clock.spend(ns)
        name = fault.fault.name
        self.injected[name] = self.injected.get(name, 0) + ns

    def _wait_and_oversleep(self, ns: int, wake: Wake | None) -> bool:
        if not self.clock.wait_until(ns, wake):
            return False
        self._oversleep(ns)
        return True

    def _oversleep(self, ns: int) -> bool:
        """Delay the tag at ``ns`` after the wait; return False without an active fault."""
        acted = False
        for fault in self._faults.wakes if self._disturbs else ():
            amount = self._faults.takes(fault, ns)
            if amount:
                self._spend(fault, amount)
                acted = True
        return acted
