"""The times at which checkpoints of a run are taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rtsim.components.latency import not_saved
from rtsim.components.protocols import free_running
from rtsim.core.errors import CheckpointError, ScenarioError
from rtsim.core.tag import NEVER, NS_PER_S, Duration, to_ns
from rtsim.engine.checkpoint.file import Checkpoint, CheckpointHistory
from rtsim.engine.system import System

_TRUST = 64
"""Each postponement reduces the assumed cost of a checkpoint by 1/64."""


class Keeper(Protocol):
    """Stores checkpoints.

    The loop calls this object between two tags, so the methods must be fast.
    """

    @property
    def most(self) -> int | None:
        """Largest number of checkpoints in a run, or ``None``."""
        ...

    def keep(self, checkpoint: Checkpoint) -> None: ...

    def finish(self) -> None:
        """Do slow work, such as writing files, while the run need not be fast."""
        ...


class CheckpointSource(Protocol):
    """Interface through which a checkpoint reads the state of a run."""

    def save(self) -> Mapping[str, Any]: ...

    def position(self) -> tuple[Mapping[str, int], int]:
        """Return the numbers of recorded rows and events."""
        ...

    def in_hand(self) -> int | None:
        """Return the slack (ns) of the last frame, or ``None`` without real time."""
        ...


class CheckpointSchedule:
    """Take checkpoints every ``every`` s and at the times ``at`` (s), each at the next tag.

    In real time, a regular checkpoint waits for a frame with enough slack. A checkpoint at one of
    the times ``at`` does not wait. ``keeper`` stores the checkpoints. The history ``past`` receives
    every checkpoint. Additional checkpoints are taken for the history in memory.
    """

    def __init__(
        self,
        keeper: Keeper | None,
        *,
        every: Duration | None = None,
        at: Sequence[Duration] = (),
        past: CheckpointHistory | None = None,
    ) -> None:
        self.keeper = keeper
        self.past = past
        self.taken = 0
        self._ring_every = None if past is None else past.every_ns
        ring = past is not None and past.every_ns is not None and not past.if_savable
        self.wanted = every is not None or bool(at) or ring
        """True if checkpoints are requested before the run starts. Commands can request more."""
        self.postponed = 0
        """Number of tags at which a regular checkpoint was postponed."""
        self.next_ns = NEVER.ns
        """Time of the next checkpoint, ns."""
        self._every = None if every is None else to_ns(every, "interval of checkpoints")
        if self._every is not None and self._every <= 0:
            raise ScenarioError(f"checkpoint interval {every} s must be > 0")
        self._at = deque(sorted(to_ns(time, "time of a checkpoint") for time in at))
        if self._at and self._at[0] <= 0:
            raise ScenarioError(
                f"checkpoint time {self._at[0] / NS_PER_S:g} s must be > 0; the start of a run "
                "needs no checkpoint"
            )
        self._regular_ns = self._ring_ns = NEVER.ns
        self._cost_ns = 0
        self._source: CheckpointSource | None = None
        self._header: Mapping[str, Any] = {}

    def begin(
        self,
        source: CheckpointSource,
        header: Mapping[str, Any],
        ns: int,
        until_ns: int,
        clock: Callable[[], int],
    ) -> None:
        """Prepare for a run from ``ns`` to ``until_ns``.

        ``clock`` returns a time (ns), with which the duration of a checkpoint is measured.
        """
        most = None if self.keeper is None else self.keeper.most
        every = self._every
        if every is not None and most is not None and (until_ns - ns) // every > most:
            raise ScenarioError(
                f"a checkpoint interval of {every / NS_PER_S:g} s would make more than {most} "
                "checkpoints; give a longer interval"
            )
        if self._at and self._at[-1] > until_ns:
            raise ScenarioError(
                f"checkpoint time {self._at[-1] / NS_PER_S:g} s is after the end of the run at "
                f"{until_ns / NS_PER_S:g} s; give an earlier time"
            )
        self._source, self._header, self._clock = source, header, clock
        if self.past is not None:
            self.past.begin(ns)
        self._next_regular(ns)
        if self.past is not None and self._ring_every is not None and self.past.lacks_first:
            self._ring_ns = ns
        while self._at and self._at[0] <= ns:
            self._at.popleft()
        self._look_ahead()

    def if_savable(self, system: System) -> None:
        """Take no checkpoints in memory if the state of a component cannot be saved."""
        try:
            check_savable(system)
        except CheckpointError:
            self._ring_every = None

    def _next_regular(self, ns: int) -> None:
        if self._every is not None:
            self._regular_ns = (ns // self._every + 1) * self._every
        if self._ring_every is not None:
            self._ring_ns = (ns // self._ring_every + 1) * self._ring_every

    def observe(self, ns: int) -> None:
        """Take a checkpoint if one is due."""
        if ns < self.next_ns:
            return
        assert self._source is not None
        asked = bool(self._at) and self._at[0] <= ns
        in_hand = self._source.in_hand()
        if not asked and in_hand is not None and in_hand < 2 * self._cost_ns:
            self.postponed += 1
            self._cost_ns -= (
                self._cost_ns // _TRUST
            )  # the measured cost can include a time in which the loop was interrupted
            return
        began = self._clock()
        rows, events = self._source.position()
        checkpoint = Checkpoint(ns, self._header, self._source.save(), rows, events)
        if self.keeper is not None and (asked or self._regular_ns <= ns):
            self.keeper.keep(checkpoint)
            self.taken += 1
            if in_hand is None:
                self.keeper.finish()
        if self.past is not None:
            self.past.keep(checkpoint)
        while self._at and self._at[0] <= ns:
            self._at.popleft()
        self._next_regular(ns)
        self._look_ahead()
        self._cost_ns = self._clock() - began

    def ask(self, ns: int) -> None:
        """Request a checkpoint at ``ns``, after all events at this time."""
        if self.keeper is None:
            raise CheckpointError(
                "checkpoints are stored next to a recording, and this run writes no recording"
            )
        most = self.keeper.most
        if most is not None and self.taken >= most:
            raise CheckpointError(
                f"this run has already written {most} checkpoints; a run can write no more"
            )
        self._at.appendleft(ns)
        self._look_ahead()

    def write(self) -> None:
        """Write checkpoint files while the run is paused."""
        self.finish()

    def finish(self) -> None:
        if self.keeper is not None:
            self.keeper.finish()

    def _look_ahead(self) -> None:
        asked = self._at[0] if self._at else NEVER.ns
        self.next_ns = min(self._regular_ns, self._ring_ns, asked)


def check_savable(system: System) -> None:
    """Raise ``CheckpointError`` if a part of the run cannot be saved."""
    models = [topic.transport for topic in system.bus.topics.values()]
    models += [task.compute for task in system.controllers]
    for attribute in (name for model in models for name in not_saved(model)):
        raise CheckpointError(
            f"the attribute {attribute} of a latency model is not a number, a text or a list, so "
            "no run can resume from a checkpoint that contains it; run without checkpoints and "
            "--rewind, or give the class of the model save() and restore()"
        )
    for plant in system.plants:
        if plant.unsaved:
            raise CheckpointError(
                f"plant {plant.name}: {plant.unsaved}, so no run can resume from a checkpoint; "
                "run without checkpoints and --rewind"
            )
    for task in system.controllers:
        if free_running(task.controller):
            raise CheckpointError(
                f"{task.name} runs on its own clock and cannot be paused, so no run can resume "
                f"from a checkpoint that contains {task.name}; if the controller can be "
                "paused, write hold = true in its rig file"
            )
        if task.forgets:
            kind = type(task.controller).__name__
            raise CheckpointError(
                f"{task.name} ({kind}) can neither save its memory nor receive its past inputs "
                f"again, so no run can resume from a checkpoint that contains {task.name}; run "
                "without checkpoints and --rewind, or give your controller class save() and "
                "restore()"
            )
