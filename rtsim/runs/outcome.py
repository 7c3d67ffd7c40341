"""What a run came to, also where its recording did not."""

from __future__ import annotations

from dataclasses import dataclass

from rtsim.core.errors import RecordingError
from rtsim.core.tag import START, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.system import System
from rtsim.timing.certificate import Certificate


@dataclass(frozen=True)
class RunResult:
    """What a run came to."""

    reason: str
    """``end``, ``quit`` or ``restored`` (by a command), or ``interrupted``."""
    ended: Tag
    wall_ns: int
    certificate: Certificate
    late: int
    missed: int
    system: System
    began: Tag = START
    restored: Checkpoint | None = None
    """Where another run is to go on, with the same inbox: ``simulate(..., start=restored)``."""
    rate: float | None = None
    """Simulated seconds a second at the end; ``None`` is as fast as possible."""

    @property
    def overruns(self) -> int:
        return sum(self.certificate.overruns.values())

    @property
    def speed(self) -> float:
        """Simulated over wall time."""
        flown = self.ended.ns - self.began.ns
        return flown / self.wall_ns if self.wall_ns else float("inf")


RECORDER_DEATH = ("continue", "end")
"""What a run does whose recording is lost on the way."""


class RecordingLost(RecordingError):
    """The run came to its ``outcome``, and its recording did not get there."""

    def __init__(self, error: RecordingError, outcome: RunResult) -> None:
        super().__init__(str(error))
        self.outcome = outcome
        for note in getattr(error, "__notes__", ()):
            self.add_note(note)
