"""A loop that is made late on purpose, on a fake clock: only what is asked for takes time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from command_parts import Script
from fault_parts import ramp

from rtsim.core.errors import OverrunError
from rtsim.engine.commands.commands import Inbox, read_command
from rtsim.record.events import Event
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.timing.certificate import Certificate
from rtsim.timing.policy import CatchUp, Policy
from rtsim.timing.scheduling import SchedulingRequest

MS = 1_000_000
STEP_MS = 10


def late(**entries: Any) -> dict[str, Any]:
    """A fault of the loop that takes 30 ms, three frames, by default at 0.2 s and once."""
    return {"name": "f", "where": "loop", "at": 0.2, "amount": 0.03, **entries}


def scenario(*faults: Any) -> Scenario:
    """Frames of 10 ms for 1 s; ``controller`` ticks each 100 ms, grid tags lie between."""
    out = ramp(step=STEP_MS / 1000)
    out.faults(*faults)
    return out


class Paced:
    """What came of a run on a fake clock: its recording, and what ended it."""

    def __init__(
        self,
        flown: Scenario,
        policy: Policy | None = None,
        rate: float = 1.0,
        resumed: bool = False,
        *,
        clock: FakeClock | None = None,
        **more: Any,
    ) -> None:
        """``resumed``: a freeze is ended 50 ms later."""
        self.clock = FakeClock(rate) if clock is None else clock
        recorder = MemoryRecorder()
        pace = Pace(rate, CatchUp() if policy is None else policy, SchedulingRequest.nothing())
        inbox = self._inbox() if resumed else None
        self.error = ""
        self.certificate: Certificate | None = None
        try:
            outcome = simulate(
                flown, pace=pace, clock=self.clock, recorder=recorder, inbox=inbox, **more
            )
            self.certificate = outcome.certificate
        except OverrunError as error:
            self.error = str(error)
        self.recording: Recording = recorder.recording()

    def _inbox(self) -> Inbox:
        inbox = Inbox()
        wake = Script((), self.clock, 50 * MS)
        inbox.wake, wake.give = wake, lambda told: inbox.give(read_command(told))
        return inbox

    @property
    def overruns(self) -> list[tuple[int, str, int, str]]:
        """(ms of the tag, cause or job, ns late, action) of each."""
        return [
            (e.tag.ns // MS, e.source, round(float(e.values["amount"])), str(e.values["action"]))
            for e in self.events("Overrun")
        ]

    @property
    def frames(self) -> dict[int, tuple[int, int, int]]:
        """By the ms of its tag: ns that it was woken late, computed, and had in hand."""
        track = self.recording.track("timing")
        columns = (track.integer(name).tolist() for name in ("wake_lateness", "compute", "margin"))
        keys = [ns // MS for ns in track.rows.ns.tolist()]
        return dict(zip(keys, zip(*columns, strict=True), strict=True))

    def events(self, *kinds: str) -> list[Event]:
        return [e for e in self.recording.events if e.kind in kinds]


def marks(recording: Recording) -> list[tuple[int, str, str, str]]:
    """Of the faults: ms, kind of event, fault, text."""
    kinds = ("Fault", "FaultEnded", "FaultIdle")
    return [(e.tag.ns // MS, e.kind, e.source, e.text) for e in recording.events if e.kind in kinds]


def computed(flown: Paced, at: Iterable[int]) -> list[int]:
    """ns of computing in the frames of these ms."""
    return [flown.frames[ms][1] for ms in at]
