"""The request of a run: scenario, settings and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypedDict

from rtsim.components.controller import ControllerProtocol
from rtsim.components.external_inputs import ExternalInput
from rtsim.core.clock import Clock, VirtualClock, WallClock
from rtsim.core.errors import CheckpointError, ScenarioError
from rtsim.core.tag import Duration, Tag, declared_ns
from rtsim.core.version import __version__
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import Inbox, PendingCommand
from rtsim.engine.compiled.eligibility import AUTO, ENGINES
from rtsim.engine.executive import StatePublisher
from rtsim.equations.compiling import CHECKED, Compilation
from rtsim.equations.source_hash import source_hash
from rtsim.record.events import Event
from rtsim.record.fingerprint import fingerprint
from rtsim.record.recorders import Recorder
from rtsim.scenario.scenario import Scenario
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp, Policy
from rtsim.timing.scheduling import SchedulingRequest

MAX = "max"
"""Pace of a run that never waits for the wall clock."""


@dataclass(frozen=True)
class Pace:
    """The relation of simulated time to the wall clock.

    ``rate`` is in simulated seconds per wall-clock second; ``None`` means as fast as possible.
    """

    rate: float | Fraction | None = None
    policy: Policy = CatchUp()
    scheduling: SchedulingRequest = SchedulingRequest()

    @classmethod
    def of(cls, pace: Pace | str | float | Fraction, **rest: Any) -> Pace:
        """Return the pace for ``"max"``, a rate such as ``"1.0"`` or ``"1/3"``, or a :class:`Pace`.

        A fraction is exact.  Other texts raise :class:`ScenarioError`.
        """
        if isinstance(pace, Pace):
            return pace
        if pace == MAX:
            return cls(None, **rest)
        try:
            fraction = isinstance(pace, Fraction) or (isinstance(pace, str) and "/" in pace)
            rate = Fraction(pace) if fraction else float(pace)
        except (ValueError, ZeroDivisionError):
            raise ScenarioError(
                f"pace is {pace!r}; give 'max' or a rate such as 1.0, 0.25, 1/3 or 3600"
            ) from None
        return cls(rate, **rest)

    def clock(self, rate_can_change: bool = False) -> Clock:
        """Return a clock for a run; ``rate_can_change`` allows changes of the rate."""
        return VirtualClock() if self.rate is None and not rate_can_change else WallClock(self.rate)

    def __str__(self) -> str:
        if isinstance(self.rate, Fraction):
            return str(self.rate)
        return MAX if self.rate is None else f"{self.rate:g}"


RECORDER_DEATH = ("continue", "end")
"""Possible reactions of a run to the failure of its recording."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run, for an observer."""

    ns: int
    until_ns: int
    pacer: Pacer


@dataclass(frozen=True)
class FedInputs:
    """Recorded inputs that a replay reads."""

    external_inputs: Mapping[str, ExternalInput] = field(default_factory=dict)
    controllers: Mapping[str, ControllerProtocol] = field(default_factory=dict)
    inserted: Sequence[int] = ()
    """Tags that event inputs inserted, ns."""
    events: Sequence[Event] | None = None
    """Recorded events.

    A replay takes faults on lines to boards from these events, because it uses no boards.
    """
    commands: Sequence[PendingCommand] = ()
    """Commands of the run, in the order of their tags."""

    def after(self, ns: int) -> FedInputs:
        """Return a copy without events, commands and tags at or before ``ns``."""
        return replace(
            self,
            inserted=[at for at in self.inserted if at > ns],
            events=None if self.events is None else [e for e in self.events if e.tag.ns > ns],
            commands=[one for one in self.commands if one.ns > ns],
        )


class ConnectionKeywords(TypedDict, total=False):
    """Types of the connection arguments of ``simulate``, for type checkers."""

    publisher: StatePublisher | None
    observe: Callable[[Progress], None] | None
    inbox: Inbox | None
    clock: Clock | None
    tell: Callable[[str], object] | None


@dataclass(frozen=True)
class Connections:
    """Connections of a run to other programs: observers, commands and clock."""

    publisher: StatePublisher | None = None
    """Receiver of the state at both ends of each step, for example to draw it."""
    observe: Callable[[Progress], None] | None = None
    """Function that receives the progress of the run in the slack of each frame."""
    inbox: Inbox | None = None
    """Source of the commands of the run."""
    clock: Clock | None = None
    """Clock that replaces the clock of the pace."""
    tell: Callable[[str], object] | None = None
    """Function that receives a text at once if the recording fails."""


@dataclass(frozen=True)
class Output:
    """The recording and the checkpoints that a run writes."""

    recorder: Recorder | None = None
    checkpoints: CheckpointSchedule | None = None
    on_recorder_death: str = "continue"
    """One of :data:`RECORDER_DEATH`."""
    stop_on_violation: bool = False
    """True to end the run as soon as the recorder reports a violated requirement."""

    def __post_init__(self) -> None:
        if self.on_recorder_death not in RECORDER_DEATH:
            raise ScenarioError(
                f"on_recorder_death is {self.on_recorder_death!r}; "
                f"give one of {', '.join(RECORDER_DEATH)}"
            )


@dataclass(frozen=True)
class RunRequest:
    """The request of a run; wrong values raise an error at once.

    ``replace(request, seed=2, output=Output(recorder))`` returns a request for another run. A
    recorder, checkpoints and an inbox belong to one run only. Contradictory values raise
    :class:`ScenarioError` or :class:`CheckpointError`.
    """

    scenario: Scenario
    seed: int = 0
    pace: Pace = Pace()
    until: Duration | None = None
    """End of the run, s; ``None`` selects the scenario's end."""
    compile: Compilation = True
    start: Checkpoint | None = None
    """Checkpoint from which the run continues."""
    stop_ns: int | None = None
    """Earlier end: the run stops at the first tag at or after this time, ns."""
    fed: FedInputs = FedInputs()
    """Recorded inputs that replace live inputs."""
    output: Output = Output()
    live: Connections = Connections()
    engine: str = AUTO
    """One of :data:`~rtsim.engine.compiled.eligibility.ENGINES`; all engines give equal rows."""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ScenarioError(f"seed is {self.seed}; give a whole number >= 0")
        if self.engine not in ENGINES:
            raise ScenarioError(f"engine is {self.engine!r}; give one of {', '.join(ENGINES)}")
        if self.until_ns <= 0:
            raise ScenarioError(f"until is {self.until!r} s, but a run must last longer than 0 s")
        if self.start is not None and self.start.ns >= self.until_ns:
            raise CheckpointError(
                f"the checkpoint {self.start.source} is at {self.start.tag}, but the run ends "
                f"at {Tag(self.until_ns)}: there is nothing left to run; give a later --until"
            )

    @property
    def until_ns(self) -> int:
        """Return the end of the run, ns."""
        return self.scenario.until_ns if self.until is None else declared_ns(self.until, "until")

    @property
    def inputs(self) -> FedInputs:
        """Return the recorded inputs after the checkpoint ``start``, or all."""
        return self.fed if self.start is None else self.fed.after(self.start.ns)

    def into(
        self, recorder: Recorder | None, checkpoints: CheckpointSchedule | None = None
    ) -> RunRequest:
        """Return a copy with another recorder and other checkpoints."""
        output = replace(self.output, recorder=recorder, checkpoints=checkpoints)
        return replace(self, output=output)

    def header(self) -> dict[str, Any]:
        """Return the header of the recording."""
        scenario, pace, views = self.scenario, self.pace, self.scenario.presentation.views
        required = scenario.requirements
        return {
            "rtsim": __version__,
            "scenario": scenario.describe(),
            "changeable": scenario.changeable(),
            **({"memory": memory} if (memory := scenario.controller_memory()) else {}),
            "seed": self.seed,
            "pace": str(pace),
            "policy": str(pace.policy),
            "until": self.until_ns,
            "compile": bool(self.compile),
            **({"checked": True} if self.compile == CHECKED else {}),
            "source_hash": source_hash(*scenario.functions()),
            "fingerprint": fingerprint(),
            **({"requirements": [r.to_plain() for r in required]} if required else {}),
            **({"chains": [c.to_plain() for c in scenario.chains]} if scenario.chains else {}),
            **({"cues": [cue.to_plain() for cue in scenario.cues]} if scenario.cues else {}),
            **scenario.presentation.recorded(),
            **({"views": [v.to_dict() for v in views]} if views else {}),
            **({} if self.start is None else {"continues": self.start.reference()}),
        }


def compilation_of(header: Mapping[str, Any]) -> Compilation:
    return CHECKED if header.get("checked") else bool(header["compile"])
