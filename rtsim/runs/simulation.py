"""Execute a run: build the system, keep the pace, and record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from rtsim.components.latency import Fixed
from rtsim.components.protocols import Keeping, needs_pace, own_time, prompt
from rtsim.core.clock import Clock, WallClock, stopwatch
from rtsim.core.errors import ControllerError, RecordingError, ScenarioError
from rtsim.core.raised import attribute_to, from_outside, interrupt, on_ctrl_c, on_signals
from rtsim.core.tag import NEVER, NS_PER_S, START, Duration, Period, Tag
from rtsim.discrete import Processes
from rtsim.engine.checkpoint.file import Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule, check_savable
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled.eligibility import AUTO
from rtsim.engine.executive import Executive
from rtsim.engine.faults.at_loop import DisturbedPacer
from rtsim.engine.plain_start import begins_plain
from rtsim.engine.system import System
from rtsim.equations.compiling import LATER, Compilation
from rtsim.named.controller import Controller
from rtsim.named.plant import Plant
from rtsim.record.events import ERROR, PLANT_ENDED, TERMINAL, RunEnding
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder, NullRecorder, Recorder
from rtsim.runs.progress import progress_shown
from rtsim.runs.request import (
    MAX,
    ConnectionKeywords,
    Connections,
    FedInputs,
    Output,
    Pace,
    Progress,
    RunRequest,
)
from rtsim.runs.result import RecordingLost, RunResult
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import PlantComponent
from rtsim.solve import Solver
from rtsim.timing.certificate import certify
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Policy
from rtsim.timing.scheduling import Granted, Machine, SchedulingRequest, examine_machine
from rtsim.timing.scheduling import request as scheduled


def simulate(
    scenario: Scenario | Plant | Controller | Processes,
    *parts: Plant | Controller | Processes,
    step: Duration | Period | None = None,
    solver: str | Solver | None = None,
    seed: int = 0,
    pace: Pace | str | float = MAX,
    until: Duration | None = None,
    recorder: Recorder | None = None,
    record: bool = True,
    compile: Compilation = True,
    start: Checkpoint | None = None,
    stop_ns: int | None = None,
    fed: FedInputs | None = None,
    checkpoints: CheckpointSchedule | None = None,
    on_recorder_death: str = "continue",
    engine: str = AUTO,
    progress: bool | None = None,
    **live: Unpack[ConnectionKeywords],
) -> RunResult:
    """Run a scenario once, record the run, and return the result.

    You can also give plants, controllers and processes: ``simulate(Cart(), until=10)``.
    :meth:`Scenario.from_components` then makes the scenario, with ``until``, ``step`` and
    ``solver``. The recording is complete even after an error; Ctrl-C ends the run normally.

    Args:
        scenario: The scenario, or the first component.
        parts: Further components, if ``scenario`` is a component.
        step: Step of each plant of the components, s.
        solver: Solver of each plant of the components.
        seed: Seed of all random streams.
        pace: ``"max"``, a rate in simulated seconds per second, or a :class:`Pace`.
        until: End of the run, s. The default is the end of the scenario.
        recorder: Recorder of the run. The default keeps all rows in memory.
        record: If False and ``recorder`` is not given, no rows are kept.
        compile: True compiles models to machine code; False runs them as plain Python.
        start: Checkpoint from which the run continues.
        stop_ns: Earlier end: the run stops at the first tag at or after this time, ns.
        fed: Recorded inputs that replace live inputs.
        checkpoints: Schedule of the checkpoints to save.
        on_recorder_death: ``"continue"`` or ``"end"``, if the recording fails.
        engine: ``"auto"``, ``"compiled"`` or ``"interpreted"``, with equal results
            (docs/performance.md).
        progress: True shows the progress always, False never. By default, a run of more than 1 s
            shows its progress in a notebook or on a terminal.
        live: Fields of ``Connections``: ``publisher``, ``observe``, ``inbox``, ``clock``, ``tell``.

    Raises:
        ScenarioError: An argument is invalid.
        RtsimError: A component failed.
        RecordingLost: The recording failed; the error contains the result.

    Example:
        result = simulate(scenario, until=2.0)
        print(result.time, result["plant.x"])
    """
    if not isinstance(scenario, Scenario):
        if until is None:
            raise ScenarioError(
                f"simulate() was called with a {type(scenario).__name__}; give a Scenario, or "
                "components with the end of the run, in s: simulate(Cart(), until=10)"
            )
        scenario = Scenario.from_components(scenario, *parts, until=until, step=step, solver=solver)
    elif parts or step is not None or solver is not None:
        raise ScenarioError(
            f"scenario {scenario.name} already has its components, steps and solvers; call "
            "simulate() with the scenario alone, or with components, step= and solver="
        )
    if recorder is None and record:
        recorder = MemoryRecorder()
    request = RunRequest(
        scenario, seed, Pace.of(pace), until, compile, start, stop_ns, fed or FedInputs(),
        Output(recorder, checkpoints, on_recorder_death), Connections(**live), engine,
    )  # fmt: skip
    with progress_shown(progress, request.live.observe) as observe:
        shown = replace(request, live=replace(request.live, observe=observe))
        return run(shown).checked()


def run(request: RunRequest) -> RunResult:
    """Run once as requested. An error during the run is part of the result.

    Errors in the preparation of the run are raised.
    """
    fed, inbox = request.inputs, request.live.inbox
    if fed.commands and inbox is None:
        inbox = Inbox(fed.commands)
    begun = OpenRun(request, inbox)
    begun.advance()
    return begun.finish()


class OpenRun:
    """A run in progress, which can be advanced in several parts."""

    def __init__(
        self,
        request: RunRequest,
        inbox: Inbox | None,
        header: Mapping[str, Any] | None = None,
    ) -> None:
        """Build the system and begin the recording.

        ``inbox`` supplies the commands of the run. ``header`` replaces the header of the recording.
        """
        scenario, start = request.scenario, request.start
        checkpoints, live, fed = request.output.checkpoints, request.live, request.inputs
        recorder = request.output.recorder or NullRecorder()
        with ExitStack() as undo:
            undo.callback(getattr(recorder, "close", _nothing))
            system = scenario.build(
                request.seed, compile=_compilation(request, inbox),
                external_inputs=fed.external_inputs, controllers=fed.controllers,
                inserted=fed.inserted,
            )  # fmt: skip
            undo.callback(system.close)
            if system.faults is not None and fed.events is not None:
                system.faults.feed(fed.events)
            if start is not None or (checkpoints is not None and checkpoints.wanted):
                check_savable(system)
            elif checkpoints is not None:
                checkpoints.if_savable(system)
            if start is not None:
                start.restore(system, inserted=system.inserted)
            pacer = pacer_of(request, system)
            self.executive = Executive(
                system, pacer, recorder, request.until_ns, live.publisher,
                _observer(live.observe, pacer, request.until_ns), inbox, request.stop_ns,
                None if start is None else (start.rows, start.events), checkpoints,
                request.engine,
            )  # fmt: skip
            self.header = dict(request.header() if header is None else header)
            if start is not None and header is None:
                self.header["continues"]["values"] = system.values()
            if checkpoints is not None:
                checkpoints.begin(
                    self.executive, self.header, system.ns, request.until_ns, pacer.read
                )
            machine = examine_machine()
            if hasattr(recorder, "on_unwatched"):
                recorder.on_unwatched = _receiver_of_unevaluated_requirements(request)
            recorder.start(self.header)
            if isinstance(recorder, FileRecorder) and not fed.controllers:
                _keep_beside(recorder.path, system)
            if hasattr(recorder, "on_failure"):
                recorder.on_failure = _lost(self.executive, recorder, request)
            if hasattr(recorder, "on_watched"):
                recorder.on_watched = _receiver_of_evaluated_requirements(self.executive, request)
            self._loop = Loop(request, self.executive, pacer, recorder, machine)
            self._checkpoints, self._inbox = checkpoints, inbox
            self._undo = undo.pop_all()

    def advance(self, before_ns: int = NEVER.ns) -> None:
        """Process all tags before ``before_ns``."""
        with self._undo:
            self._loop.advance(before_ns)
            self._undo = self._undo.pop_all()

    @property
    def over(self) -> bool:
        return self._loop.over

    @property
    def error(self) -> Exception | None:
        return self._loop.error

    @property
    def interrupted(self) -> bool:
        return self._loop.reason == "interrupted"

    def finish(self, reason: str = "") -> RunResult:
        """End the run, close its components and its recording, and return the result.

        ``reason`` says why the run ends early.
        """
        with self._undo:
            result = self._loop.result(reason)
            self._undo.pop_all()
        figures = {} if self._inbox is None else self._inbox.figures()
        return _closed(result, self._checkpoints, figures)


def _compilation(request: RunRequest, inbox: Inbox | None) -> Compilation:
    live = request.live
    told = (inbox is not None and not inbox.announced) or live.publisher is not None
    paced = live.clock is not None or request.pace.rate is not None
    if request.compile is not True or request.engine != AUTO or request.stop_ns is not None:
        return request.compile
    plants = request.scenario.of(PlantComponent).values()
    steps = sum(float(request.until_ns / plant.step.ns) for plant in plants)
    guards = any(plant.model.guards for plant in plants)
    return True if told or paced or not begins_plain(steps, guards) else LATER


def pacer_of(request: RunRequest, system: System) -> Pacer:
    told = request.live.inbox is not None
    clock = request.live.clock or request.pace.clock(told)
    if clock.paced:
        check_outside(system)
    else:
        check_unpaced(system)
    pacer = _pacer(system, clock, request.pace.policy, may_change=told)
    if clock.paced:
        offered = (t.warm_up() for t in system.controllers)
        pacer.warm_ups += [warm_up for warm_up in offered if warm_up is not None]
    return pacer


def _pacer(system: System, clock: Clock, policy: Policy, may_change: bool) -> Pacer:
    faults, frame_ns = system.faults, shortest_period(system)
    if faults is None or faults.loop is None:
        return Pacer(clock, policy, frame_ns=frame_ns)
    if not (clock.paced or may_change):
        faults.unpaced()
    return DisturbedPacer(clock, policy, faults.loop, frame_ns=frame_ns)


def _keep_beside(path: Path, system: System) -> None:
    for task in system.controllers:
        if isinstance(task.controller, Keeping):
            task.controller.keep_in(path.with_name(f"{path.name}.files") / task.name)


def _nothing(*_: object) -> None: ...


def _lost(executive: Executive, recorder: Recorder, request: RunRequest) -> Callable[[str], object]:
    end, tell = request.output.on_recorder_death == "end", request.live.tell or _nothing

    def lost(cause: str) -> None:
        since = executive.lose_recording(cause, getattr(recorder, "kept_ns", None), end)
        then = "the run ends" if end else "the run continues without it"
        tell(f"the recording failed: it is lost {since}; {then}")

    return lost


def _receiver_of_evaluated_requirements(
    executive: Executive, request: RunRequest
) -> Callable[[Sequence[Mapping[str, Any]]], object]:
    end, tell = request.output.stop_on_violation, request.live.tell or _nothing

    def watched(found: Sequence[Mapping[str, Any]]) -> None:
        if texts := executive.watched(found, end):
            tell("\n".join(texts))

    return watched


def _receiver_of_unevaluated_requirements(
    request: RunRequest,
) -> Callable[[Mapping[str, str]], object]:
    tell = request.live.tell or _nothing
    more = ""
    if request.output.stop_on_violation:
        more = "; --stop-on-violation does not end the run when it is violated"

    def unwatched(found: Mapping[str, str]) -> None:
        for name, why in found.items():
            which = f"requirement {name} is" if name else "the requirements are"
            tell(f"{which} not evaluated during the run, but at its end: {why}{more}")

    return unwatched


def loop(
    request: RunRequest, executive: Executive, pacer: Pacer, recorder: Recorder,
    machine: Machine | None = None,
) -> RunResult:  # fmt: skip
    """Run the loop to its end with the requested scheduling.

    ``machine`` describes this computer, if known.
    """
    made = Loop(request, executive, pacer, recorder, machine)
    made.advance()
    return made.result()


class Loop:
    def __init__(
        self, request: RunRequest, executive: Executive, pacer: Pacer, recorder: Recorder,
        machine: Machine | None,
    ) -> None:  # fmt: skip
        self.reason = ""
        """The reason why the run has ended; empty while it is in progress."""
        self.error: Exception | None = None
        """The error that ended the run."""
        self._request, self._executive, self._pacer = request, executive, pacer
        self._recorder, self._machine = recorder, machine
        self._granted: Granted | None = None
        self._wall_ns = 0
        self._ending: RunEnding | None = None

    @property
    def over(self) -> bool:
        return bool(self.reason) or self._executive.over

    def advance(self, before_ns: int = NEVER.ns) -> None:
        executive, clock, system = self._executive, self._pacer.clock, self._executive.system
        compiled = all(plant.bound.compiled for plant in system.plants)
        # Compiled code never warns, so it needs no suppression of warnings.
        quiet = nullcontext() if compiled else np.errstate(all="ignore")
        with (
            self._scheduled() as self._granted,
            on_signals(lambda *_: executive.interrupt()),
            quiet,
        ):
            if isinstance(clock, WallClock):
                clock.calibrate(self._pacer.frame_ns)
            began = stopwatch()
            try:
                executive.run(before_ns)
            except KeyboardInterrupt:
                self.reason = "interrupted"
            except BaseException as problem:
                at = Tag(system.ns)
                self.reason, self.error = ERROR, _as_error(problem, at)
                self._recorder.event(at, "Error", _kind(self.error), str(self.error))
            self._wall_ns += stopwatch() - max(began, getattr(clock, "begun_ns", 0))
            if self.over or before_ns == NEVER.ns:
                self._end()

    def _scheduled(self) -> AbstractContextManager[Granted]:
        if self._pacer.clock.paced:
            beside = getattr(self._recorder, "beside", ())
            return scheduled(self._request.pace.scheduling, beside)
        if self._granted is None:
            return scheduled(SchedulingRequest.nothing())
        return nullcontext(self._granted)

    def _end(self, reason: str = "") -> RunEnding:
        executive, error = self._executive, self.error
        system, handler = executive.system, executive.handler
        if self._ending is not None:
            return self._ending
        self.reason = self.reason or ("" if executive.over else reason) or _reason(executive)
        if system.faults is not None:
            system.faults.over(system.ns)
        self._pacer.stop()
        text = executive.failure if error is None else f"{_kind(error)}: {error}"
        self._ending = RunEnding(system.ns, self._request.until_ns, self.reason, text)
        if handler is not None and self.reason != "restored":
            handler.inbox.close(f"the run {self._ending}")
        return self._ending

    def result(self, reason: str = "") -> RunResult:
        """End the run and return its result; ``reason`` says why the run ends early."""
        ending = self._end(reason)
        pacer, executive = self._pacer, self._executive
        system, handler, clock = executive.system, executive.handler, pacer.clock
        restored = handler.restored if handler is not None and self.reason == "restored" else None
        return RunResult(
            ending,
            self._wall_ns,
            replace(
                certify(pacer, self._granted, self._machine),
                unrecorded=executive.unrecorded,
                engine=executive.engine,
            ),
            late=sum(task.lates for task in system.controllers),
            missed=sum(task.missed for task in system.controllers),
            system=system,
            recorder=self._recorder,
            began=START if self._request.start is None else self._request.start.tag,
            restored=restored,
            rate=float(getattr(clock, "rate", 1.0)) if clock.paced else None,
            error=self.error,
            reported=executive.reported,
            required=self._request.scenario.requirements,
            waiting=system.bus.waiting(system.ns),
            lost_messages=system.bus.lost_on_media(),
        )


def _reason(executive: Executive) -> str:
    handler = executive.handler
    if executive.ended_by:
        return PLANT_ENDED if executive.plant_ended else TERMINAL
    if executive.stopping:
        return executive.stopping
    if handler is not None and handler.quitting:
        return "quit" if handler.restored is None else "restored"
    return "end"


def _as_error(problem: BaseException, at: Tag) -> Exception:
    if isinstance(problem, Exception):
        return problem
    try:
        attribute_to("a component of the run", at, problem)
    except Exception as error:
        return error


def _kind(error: Exception) -> str:
    return ControllerError.__name__ if isinstance(error, ControllerError) else type(error).__name__


def _closed(
    result: RunResult, checkpoints: CheckpointSchedule | None, figures: Mapping[str, Any]
) -> RunResult:
    system, error, footer = result.system, result.error, footer_of(result, figures)
    closers: list[Callable[[], None]] = [system.close, lambda: result.recorder.finish(footer)]
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
    lost = error if result.error is None and isinstance(error, RecordingError) else None
    saved = _saved(checkpoints)
    return replace(result, error=None if lost else error, lost=lost, checkpoints=saved)


def footer_of(result: RunResult, figures: Mapping[str, Any]) -> dict[str, Any]:
    ending, restored = result.ending, result.restored
    return {
        "reason": ending.reason,
        "error": ending.error,
        "ended": ending.reached_ns,
        "wall_ns": result.wall_ns,
        "late": result.late,
        "missed": result.missed,
        "certificate": result.certificate.to_json(),
        **({} if restored is None else {"restored": restored.ns}),
        **figures,
    }


def _saved(checkpoints: CheckpointSchedule | None) -> tuple[Path, ...]:
    kept = None if checkpoints is None else checkpoints.keeper
    return tuple(kept.paths) if isinstance(kept, Files) else ()


def _observer(
    observe: Callable[[Progress], None] | None, pacer: Pacer, until_ns: int
) -> Callable[[int], None] | None:
    if observe is None:
        return None
    return lambda ns: observe(Progress(ns, until_ns, pacer))


def shortest_period(system: System) -> int:
    """Return the shortest step or period (ns) of all components, or 0."""
    steps = [int(p.step.ns) for p in system.plants]
    periods = [int(t.period.ns) for t in system.tasks if t.period is not None]
    return min([*steps, *periods], default=0)


def check_outside(system: System) -> None:
    """Raise ``ScenarioError`` for an external controller with a compute latency of 0 s."""
    for task in system.controllers:
        if (
            task.controller.outside
            and own_time(task.controller) is None
            and not prompt(task.controller)
            and isinstance(task.compute, Fixed)
            and task.compute.constant == (0,)
        ):
            raise ScenarioError(
                f"the controller {task.name} runs outside this process and its compute latency "
                "is 0 s, which is not possible in real time; give the controller a latency, "
                "such as compute=Fixed(0.005), or run with --pace max"
            )


def check_unpaced(system: System) -> None:
    """Raise ``ScenarioError`` for a controller in real time in a run as fast as possible."""
    for task in system.controllers:
        if needs_pace(task.controller):
            raise ScenarioError(
                f"the controller {task.name} runs on the wall clock, but the run is as fast as "
                "possible; run in real time: --pace 1"
            )


__all__ = [
    "MAX",
    "NS_PER_S",
    "FedInputs",
    "Pace",
    "Progress",
    "RecordingLost",
    "RunRequest",
    "RunResult",
    "check_outside",
    "run",
    "shortest_period",
    "simulate",
]
