"""One run from start to end: build the system, pace it, record it, certify its timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from rtsim.components.controller import Controller
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.latency import Fixed
from rtsim.components.protocols import own_time
from rtsim.core.clock import Clock, VirtualClock, WallClock, stopwatch
from rtsim.core.errors import CheckpointError, RecordingError, ScenarioError
from rtsim.core.raised import blame, from_outside, interrupt, on_ctrl_c, on_signals
from rtsim.core.tag import NS_PER_S, START, Duration, Tag, to_ns
from rtsim.core.version import __version__
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.taking import Taking, check_savable
from rtsim.engine.commands.inbox import Inbox, PendingCommand
from rtsim.engine.executive import Executive, StatePublisher
from rtsim.engine.faults.at_loop import DisturbedPacer
from rtsim.engine.system import System
from rtsim.equations.compiling import CHECKED, Compilation
from rtsim.equations.source_hash import source_hash
from rtsim.record.event import Event
from rtsim.record.fingerprint import fingerprint
from rtsim.record.memory_recorder import NullRecorder, Recorder
from rtsim.runs.outcome import RECORDER_DEATH, RecordingLost, RunResult
from rtsim.scenario.scenario import Scenario
from rtsim.timing.certificate import Certificate, certify
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp, Policy
from rtsim.timing.scheduling import SchedulingRequest, request

MAX = "max"
"""The pace of a run that never waits for the wall clock."""


@dataclass(frozen=True)
class Pace:
    """How simulated time follows the wall clock; ``rate`` ``None``: as fast as possible."""

    rate: float | None = None
    policy: Policy = CatchUp()
    scheduling: SchedulingRequest = SchedulingRequest()

    @classmethod
    def of(cls, text: str | float, **rest: Any) -> Pace:
        """Return the pace for ``"max"`` or ``"1.0"``; raises :class:`ScenarioError` for others."""
        if text == MAX:
            return cls(None, **rest)
        try:
            return cls(float(text), **rest)
        except ValueError:
            raise ScenarioError(f"pace is {text!r}; give 'max' or a rate such as 1.0") from None

    def clock(self, told: bool = False) -> Clock:
        """Return the clock of a run; ``told``: commands may change the rate during the run."""
        return VirtualClock() if self.rate is None and not told else WallClock(self.rate)

    def __str__(self) -> str:
        return MAX if self.rate is None else f"{self.rate:g}"


@dataclass(frozen=True)
class Progress:
    """The progress of a run, which an observer gets in the slack of a frame."""

    ns: int
    until_ns: int
    pacer: Pacer


@dataclass(frozen=True)
class FedInputs:
    """What a replay takes from a recording instead of from external sources."""

    external_inputs: Mapping[str, ExternalInput] = field(default_factory=dict)
    controllers: Mapping[str, Controller] = field(default_factory=dict)
    inserted: Sequence[int] = ()
    """Tags (ns) that event inputs inserted."""
    events: Sequence[Event] | None = None
    """Recorded events, for faults of lines to boards that a replay does not use."""
    commands: Sequence[PendingCommand] = ()
    """Commands of the run, in the order of their tags."""

    def after(self, ns: int) -> FedInputs:
        """Return a copy without everything up to and including ``ns``."""
        return replace(
            self,
            inserted=[at for at in self.inserted if at > ns],
            events=None if self.events is None else [e for e in self.events if e.tag.ns > ns],
            commands=[told for told in self.commands if told.ns > ns],
        )


def simulate(
    scenario: Scenario,
    *,
    seed: int = 0,
    pace: Pace | str | float = MAX,
    until: Duration | None = None,
    recorder: Recorder | None = None,
    compile: Compilation = True,
    fed: FedInputs | None = None,
    publisher: StatePublisher | None = None,
    observe: Callable[[Progress], None] | None = None,
    clock: Clock | None = None,
    stop_ns: int | None = None,
    inbox: Inbox | None = None,
    start: Checkpoint | None = None,
    checkpoints: Taking | None = None,
    on_recorder_death: str = "continue",
    tell: Callable[[str], object] | None = None,
) -> RunResult:
    """Run ``scenario`` once, record it, and return the result.

    ``pace``: ``"max"``, a rate in simulated seconds per second, or a :class:`Pace`.  ``until``: end
    of the run, s (default: the scenario's own).  ``stop_ns``: stop earlier, at the first tag at or
    after this time.  ``fed``: recorded inputs instead of live ones.  ``publisher`` gets the states,
    ``observe`` the progress, ``inbox`` gives commands.  ``clock`` replaces the wall clock.
    ``start``: the checkpoint to continue from; ``checkpoints``: those to save.  If the recording
    fails, ``tell`` is called at once, and the run continues, or ends with
    ``on_recorder_death="end"``.

    The recording is completed however the run ends; Ctrl-C is a normal end.  Raises
    :class:`ScenarioError` for invalid arguments, the errors of the components
    (:class:`RtsimError`), and :class:`RecordingLost`, with the result, if the recording failed.

        result = simulate(scenario, until=2.0, recorder=MemoryRecorder())
    """
    if on_recorder_death not in RECORDER_DEATH:
        raise ScenarioError(
            f"on_recorder_death is {on_recorder_death!r}; give one of {', '.join(RECORDER_DEATH)}"
        )
    pace = pace if isinstance(pace, Pace) else Pace.of(pace)
    until_ns = scenario.until_ns if until is None else to_ns(until, "until")
    if until_ns <= 0:
        raise ScenarioError(f"until is {until!r} s, but a run must last longer than 0 s")
    recorder = recorder or NullRecorder()
    with ExitStack() as undo:
        undo.callback(getattr(recorder, "close", _nothing))
        fed = fed or FedInputs() if start is None else (fed or FedInputs()).after(start.ns)
        system = _build(scenario, seed, compile, fed)
        undo.callback(system.close)
        if start is not None or (checkpoints is not None and checkpoints.wanted):
            check_savable(system)
        elif checkpoints is not None:
            checkpoints.if_savable(system)
        if start is not None:
            _go_on_from(start, system, until_ns)
        clock = clock or pace.clock(told=inbox is not None)
        if clock.paced:
            check_outside(system)
        pacer = _pacer(system, clock, pace.policy, may_change=inbox is not None)
        watch = None if observe is None else _observer(observe, pacer, until_ns)
        if fed.commands and inbox is None:
            inbox = Inbox(fed.commands)
        before = None if start is None else (start.rows, start.events)
        executive = Executive(
            system, pacer, recorder, until_ns, publisher, watch, inbox, stop_ns, before, checkpoints
        )
        about = header(scenario, seed, pace, until_ns, compile)
        if start is not None:
            about["continues"] = start.reference()
        if checkpoints is not None:
            checkpoints.begin(executive, about, system.ns, until_ns, pacer.read)
        recorder.start(about)
        if hasattr(recorder, "on_failure"):
            recorder.on_failure = _lost(executive, on_recorder_death == "end", tell or _nothing)
        flown = _fly(executive, pacer, recorder, pace)
        undo.pop_all()
    figures = {} if inbox is None else inbox.figures()
    outcome = _conclude(system, recorder, flown, checkpoints, figures)
    rate = float(getattr(clock, "rate", 1.0)) if clock.paced else None
    began = START if start is None else start.tag
    return replace(outcome, began=began, restored=flown.restored, rate=rate)


def _pacer(system: System, clock: Clock, policy: Policy, may_change: bool) -> Pacer:
    """``may_change``: commands may later pace a run that is as fast as possible."""
    faults, frame_ns = system.faults, shortest_period(system)
    if faults is None or faults.loop is None:
        return Pacer(clock, policy, frame_ns=frame_ns)
    if not (clock.paced or may_change):
        faults.unpaced()
    return DisturbedPacer(clock, policy, faults.loop, frame_ns=frame_ns)


def _nothing(*_: object) -> None:
    """Do nothing."""


def _lost(
    executive: Executive, end: bool, tell: Callable[[str], object]
) -> Callable[[str], object]:
    """Return the function that a recorder calls if it fails during the run."""

    def lost(cause: str) -> None:
        since = executive.lose_recording(cause, end)
        then = "the run ends" if end else "the run continues without it"
        tell(f"the recording failed: it is lost {since}; {then}")

    return lost


def _build(scenario: Scenario, seed: int, compile: Compilation, fed: FedInputs) -> System:
    system = scenario.build(
        seed, compile=compile, external_inputs=fed.external_inputs, controllers=fed.controllers,
        inserted=fed.inserted,
    )  # fmt: skip
    if system.faults is not None and fed.events is not None:
        system.faults.feed(fed.events)
    return system


@dataclass(frozen=True)
class _Flown:
    """How the loop ended."""

    reason: str
    error: Exception | None
    wall_ns: int
    certificate: Certificate
    restored: Checkpoint | None = None


def _fly(executive: Executive, pacer: Pacer, recorder: Recorder, pace: Pace) -> _Flown:
    """Run the loop under the requested scheduling; the error that ends it is returned."""
    clock = pacer.clock
    reason, error, desk = "end", None, executive.desk
    asked = pace.scheduling if clock.paced else SchedulingRequest.nothing()

    def ended(*_: object) -> None:
        executive.interrupt()

    with request(asked, getattr(recorder, "beside", ())) as granted, on_signals(ended):
        if isinstance(clock, WallClock):
            clock.calibrate(pacer.frame_ns)
        began = stopwatch()
        try:
            executive.run()
            if executive.ended_by:
                reason = "terminal"
            elif executive.stopping:
                reason = executive.stopping
            elif desk is not None and desk.quitting:
                reason = "quit" if desk.restored is None else "restored"
        except KeyboardInterrupt:
            reason = "interrupted"
        except BaseException as problem:
            at = Tag(executive.system.ns)
            reason, error = "error", _as_error(problem, at)
            recorder.event(at, "Error", type(error).__name__, str(error))
        wall_ns = stopwatch() - max(began, getattr(clock, "begun_ns", 0))
        if executive.system.faults is not None:
            executive.system.faults.over(executive.system.ns)
        pacer.stop()
        if desk is not None and reason != "restored":
            desk.inbox.close(f"the run ended at {Tag(executive.system.ns)} ({reason})")
    restored = desk.restored if desk is not None and reason == "restored" else None
    certificate = replace(certify(pacer, granted), unrecorded=executive.unrecorded)
    return _Flown(reason, error, wall_ns, certificate, restored)


def _as_error(problem: BaseException, at: Tag) -> Exception:
    """Return the exception that ended the loop in a form that can be raised to the caller."""
    if isinstance(problem, Exception):
        return problem
    try:
        blame("a component of the run", at, problem)
    except Exception as error:
        return error


def _go_on_from(start: Checkpoint, system: System, until_ns: int) -> None:
    if start.ns >= until_ns:
        raise CheckpointError(
            f"the checkpoint {start.source} is at {start.tag}, but the run ends at "
            f"{Tag(until_ns)}: nothing is left to run; give a later --until"
        )
    start.restore(system, inserted=system.inserted)


def _conclude(
    system: System,
    recorder: Recorder,
    flown: _Flown,
    checkpoints: Taking | None,
    figures: Mapping[str, Any],
) -> RunResult:
    """Close everything; raise the run's error, with errors of closing as notes, if there is one."""
    late = sum(c.lates for c in system.controllers)
    missed = sum(c.missed for c in system.controllers)
    footer = {
        "reason": flown.reason,
        "error": "" if flown.error is None else f"{type(flown.error).__name__}: {flown.error}",
        "ended": system.ns,
        "wall_ns": flown.wall_ns,
        "late": late,
        "missed": missed,
        "certificate": flown.certificate.to_json(),
        **({} if flown.restored is None else {"restored": flown.restored.ns}),
        **figures,
    }
    error = flown.error
    closers: list[Callable[[], None]] = [system.close, lambda: recorder.finish(footer)]
    with on_ctrl_c(interrupt):
        for close in closers if checkpoints is None else [*closers, checkpoints.finish]:
            try:
                close()
            except BaseException as raised:
                if from_outside(raised):
                    raise
                problem = _as_error(raised, Tag(system.ns))
                if error is None:
                    error = problem
                else:
                    said = (str(problem), *getattr(problem, "__notes__", ()))
                    error.add_note("; ".join(said))
    outcome = RunResult(
        flown.reason, Tag(system.ns), flown.wall_ns, flown.certificate, late, missed, system
    )
    if flown.error is None and isinstance(error, RecordingError):
        raise RecordingLost(error, outcome) from error
    if error is not None:
        raise error
    return outcome


def _observer(
    observe: Callable[[Progress], None], pacer: Pacer, until_ns: int
) -> Callable[[int], None]:
    shown = Progress(0, until_ns, pacer)
    return lambda ns: observe(replace(shown, ns=ns))


def shortest_period(system: System) -> int:
    """Return the frame of the loop in ns: the shortest step or period of any component."""
    steps = [int(p.step.ns) for p in system.plants]
    periods = [int(t.period.ns) for t in system.tasks if t.period is not None]
    return min([*steps, *periods], default=0)


def check_outside(system: System) -> None:
    """Raise :class:`ScenarioError` for an external controller that has no time to answer."""
    for task in system.controllers:
        if (
            task.controller.outside
            and own_time(task.controller) is None
            and isinstance(task.compute, Fixed)
            and task.compute.constant == (0,)
        ):
            raise ScenarioError(
                f"the controller {task.name} runs outside this process, but its compute latency "
                "is 0 s; give it compute=Fixed(0.005), or run with --pace max"
            )


def header(
    scenario: Scenario, seed: int, pace: Pace, until_ns: int, compile: Compilation
) -> dict[str, Any]:
    """Return the header of a recording: scenario, seed, pace and everything else known before."""
    return {
        "rtsim": __version__,
        "scenario": scenario.describe(),
        "seed": seed,
        "pace": str(pace),
        "policy": str(pace.policy),
        "until": until_ns,
        "compile": bool(compile),
        **({"checked": True} if compile == CHECKED else {}),
        "source_hash": source_hash(*scenario.functions()),
        "fingerprint": fingerprint(),
        **({"cues": [cue.to_plain() for cue in scenario.cues]} if scenario.cues else {}),
        **({"shown": shown} if (shown := scenario.presentation.window()) else {}),
    }


def compilation_of(header: Mapping[str, Any]) -> Compilation:
    """Return how the functions of a recorded run were compiled, from its header."""
    return CHECKED if header.get("checked") else bool(header["compile"])


__all__ = [
    "MAX",
    "NS_PER_S",
    "Pace",
    "Progress",
    "RecordingLost",
    "RunResult",
    "compilation_of",
    "simulate",
]
