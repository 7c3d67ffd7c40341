"""The result of a run, and the error of a run whose recording is incomplete."""

from __future__ import annotations

from dataclasses import dataclass

from rtsim.core.errors import RecordingError
from rtsim.core.tag import START, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.system import System
from rtsim.timing.certificate import Certificate


@dataclass(frozen=True)
class RunResult:
    """The result of one run, or of one segment of a run."""

    reason: str
    """``end`` or ``terminal`` (a guard ended the run), ``quit`` or ``restored`` (a command), or
    ``interrupted``."""
    ended: Tag
    wall_ns: int
    certificate: Certificate
    late: int
    missed: int
    system: System
    began: Tag = START
    restored: Checkpoint | None = None
    """The checkpoint to which a command went back; continue with the same inbox:
    ``simulate(..., start=restored)``."""
    rate: float | None = None
    """Simulated seconds per second at the end; ``None``: as fast as possible."""

    @property
    def overruns(self) -> int:
        return sum(self.certificate.overruns.values())

    @property
    def speed(self) -> float:
        """Simulated time divided by wall-clock time."""
        flown = self.ended.ns - self.began.ns
        return flown / self.wall_ns if self.wall_ns else float("inf")


RECORDER_DEATH = ("continue", "end")
"""What a run can do if its recording fails: continue, or end."""


class RecordingLost(RecordingError):
    """The run reached its result ``outcome``, but its recording failed before."""

    def __init__(self, error: RecordingError, outcome: RunResult) -> None:
        super().__init__(str(error))
        self.outcome = outcome
        for note in getattr(error, "__notes__", ()):
            self.add_note(note)
