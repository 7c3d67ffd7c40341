"""What tests of commands share: a run that is told things at tags, without another thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from rtsim.core.clock import Wake
from rtsim.core.errors import RtsimError
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import Command, Inbox, read_command
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import Pace, Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.timing.certificate import Certificate
from rtsim.timing.policy import CatchUp, Policy
from rtsim.timing.scheduling import SchedulingRequest

Told = Mapping[str, object]


class Script(Wake):
    """Gives the commands of ``standing`` one by one while simulated time stands, then a resume.

    ``lasts_ns`` of the fake clock pass before each.
    """

    def __init__(self, standing: Iterable[Told], clock: FakeClock, lasts_ns: int = 0) -> None:
        super().__init__()
        self.left, self._clock, self._lasts = list(standing), clock, lasts_ns
        self.give: Callable[[Told], object] = print

    def wait(self, seconds: float) -> bool:  # noqa: ARG002
        self._clock.advance(self._lasts)
        self.give(self.left.pop(0) if self.left else {"kind": "resume"})
        return True


class Flown:
    """A run that was told ``at`` (ns of the tag before: commands) and what became of it."""

    make_inbox: type[Inbox] = Inbox

    def __init__(
        self,
        scenario: Scenario,
        at: Mapping[int, Iterable[Told]],
        standing: Iterable[Told] = (),
        rate: float = 1.0,
        lasts_ns: int = 0,
        seed: int = 0,
        checkpoints: CheckpointSchedule | None = None,
        before: Flown | None = None,
        until: float | None = None,
        policy: Policy | None = None,
    ) -> None:
        """``before`` is the leg that ended with a restore: this one goes on from there."""
        self.clock: FakeClock = FakeClock(rate) if before is None else before.clock
        self.answers: list[tuple[Command, str, int]] = []
        self.answered_ns: list[int] = []
        """When each was, by the clock."""
        self.inbox: Inbox = self.make_inbox() if before is None else before.inbox
        self.start = None if before is None else before.restored
        self.restored: Checkpoint | None = None
        wake = Script(standing, self.clock, lasts_ns)
        self.inbox.wake, wake.give = wake, self.give
        self._standing = wake.left
        self._left = {ns: list(told) for ns, told in sorted(at.items())}
        recorder = MemoryRecorder()
        self.error: RtsimError | None = None
        try:
            outcome = simulate(
                scenario, seed=seed, clock=self.clock, recorder=recorder, inbox=self.inbox,
                observe=self._tell, checkpoints=checkpoints, start=self.start, until=until,
                pace=Pace(policy=policy or CatchUp(), scheduling=SchedulingRequest.nothing()),
            )  # fmt: skip
            self.restored = outcome.restored
            self.reason, self.certificate = outcome.reason, outcome.certificate
        except RtsimError as error:
            self.error = error
            self.reason = "error"
        self.recording: Recording = recorder.recording()

    def _tell(self, progress: Progress) -> None:
        for ns in [n for n in self._left if n <= progress.ns]:
            for told in self._left.pop(ns):
                self.give(told)

    def give(self, told: Told) -> None:
        command = read_command(told)

        def answer(wrong: str, ns: int) -> None:
            self.answers.append((command, wrong, ns))
            self.answered_ns.append(self.clock.now())

        self.inbox.give(command, answer)

    @property
    def events(self) -> list[tuple[int, str]]:
        """(ns, kind) of the commands that were followed."""
        return [(e.tag.ns, e.source) for e in self.recording.events if e.kind == "Command"]

    def recording_of(self, kind: str) -> list[tuple[int, Told]]:
        """(ns, what was told) of the commands of ``kind`` that were followed."""
        found = [e for e in self.recording.events if e.kind == "Command" and e.source == kind]
        return [(e.tag.ns, json.loads(e.text)) for e in found]


__all__ = ["Certificate", "Flown", "Script", "Told"]
