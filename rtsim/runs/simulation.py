"""One run from start to end: build the system, pace it, record it, certify its timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from rtsim.components.latency import Fixed
from rtsim.components.protocols import own_time, prompt
from rtsim.core.clock import Clock, WallClock, stopwatch
from rtsim.core.errors import ControllerError, RecordingError, ScenarioError
from rtsim.core.raised import attribute_to, from_outside, interrupt, on_ctrl_c, on_signals
from rtsim.core.tag import NS_PER_S, START, Duration, Tag
from rtsim.engine.checkpoint.file import Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule, check_savable
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled.eligibility import AUTO
from rtsim.engine.executive import Executive
from rtsim.engine.faults.at_loop import DisturbedPacer
from rtsim.engine.plain_start import begins_plain
from rtsim.engine.system import System
from rtsim.equations.compiling import LATER, Compilation
from rtsim.record.events import ERROR, RunEnding
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
from rtsim.timing.certificate import certify
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Policy
from rtsim.timing.scheduling import Machine, SchedulingRequest, examine_machine
from rtsim.timing.scheduling import request as scheduled


def simulate(
    scenario: Scenario,
    *,
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
    """Run ``scenario`` once, record it, and return the result.

    ``pace``: ``"max"``, a rate in simulated seconds per second, or a :class:`Pace`.  ``until``: end
    of the run, s (default: the scenario's own).  ``stop_ns``: stop earlier, at the first tag at or
    after this time.  Without a ``recorder`` the rows are kept in memory, and the result gives them
    by name; with ``record=False`` they are not kept.  ``fed``: recorded inputs that replace live
    inputs.  ``start``: the checkpoint to continue from.  ``checkpoints``: the checkpoints to save.
    If the recording fails, the run
    continues; with ``on_recorder_death="end"`` the run ends.  ``engine``: ``"auto"``,
    ``"compiled"`` or ``"interpreted"``; the results are equal (docs/performance.md).  A run that
    takes longer than 1 s shows its progress in a notebook and on a terminal; ``progress=False``:
    nowhere; ``progress=True``: always, also with an ``observe`` of your own.  ``live`` are
    the fields of :class:`Connections`: ``publisher``, ``observe``, ``inbox``, ``clock`` and
    ``tell``.

    The recording is completed for every kind of end; Ctrl-C counts as a normal end.  Raises
    :class:`ScenarioError` for invalid arguments, the errors of the components
    (:class:`RtsimError`), and :class:`RecordingLost`, with the result, if the recording failed.

        result = simulate(scenario, until=2.0)
        print(result.time, result["plant.x"])
    """
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
    """Run once as requested; an error that ends the run is returned in the result, not raised.

    Raises errors that occur while the run is prepared: :class:`ScenarioError` and errors of the
    components.
    """
    scenario, start = request.scenario, request.start
    checkpoints, live, fed = request.output.checkpoints, request.live, request.inputs
    recorder = request.output.recorder or NullRecorder()
    with ExitStack() as undo:
        undo.callback(getattr(recorder, "close", _nothing))
        system = scenario.build(
            request.seed, compile=_compilation(request), external_inputs=fed.external_inputs,
            controllers=fed.controllers, inserted=fed.inserted,
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
        inbox = Inbox(fed.commands) if fed.commands and live.inbox is None else live.inbox
        pacer = pacer_of(request, system)
        executive = Executive(
            system, pacer, recorder, request.until_ns, live.publisher,
            _observer(live.observe, pacer, request.until_ns), inbox, request.stop_ns,
            None if start is None else (start.rows, start.events), checkpoints,
            request.engine,
        )  # fmt: skip
        header = request.header()
        if checkpoints is not None:
            checkpoints.begin(executive, header, system.ns, request.until_ns, pacer.read)
        machine = examine_machine()
        recorder.start(header)
        if hasattr(recorder, "on_failure"):
            recorder.on_failure = _lost(executive, recorder, request)
        result = loop(request, executive, pacer, recorder, machine)
        undo.pop_all()
    return _closed(result, checkpoints, {} if inbox is None else inbox.figures())


def _compilation(request: RunRequest) -> Compilation:
    """Return how the functions of this run are prepared.

    A run that is likely to be over before its functions are compiled begins with plain Python.  One
    that is paced, or whose pace a command can change, is compiled before it starts, because its
    frames have no time for that; so is one that is stopped early, because others use its system.
    """
    live = request.live
    told = bool(live.inbox is not None or live.publisher is not None or request.inputs.commands)
    paced = live.clock is not None or request.pace.rate is not None
    if request.compile is not True or request.engine != AUTO or request.stop_ns is not None:
        return request.compile
    plants = request.scenario.of(PlantComponent).values()
    steps = sum(float(request.until_ns / plant.step.ns) for plant in plants)
    return True if told or paced or not begins_plain(steps) else LATER


def pacer_of(request: RunRequest, system: System) -> Pacer:
    told = request.live.inbox is not None
    clock = request.live.clock or request.pace.clock(told)
    if clock.paced:
        check_outside(system)
    pacer = _pacer(system, clock, request.pace.policy, may_change=told)
    if clock.paced:
        offered = (t.warm_up() for t in system.controllers)
        pacer.warm_ups += [warm_up for warm_up in offered if warm_up is not None]
    return pacer


def _pacer(system: System, clock: Clock, policy: Policy, may_change: bool) -> Pacer:
    """Return the pacer; ``may_change``: commands may set a pace in a run without one."""
    faults, frame_ns = system.faults, shortest_period(system)
    if faults is None or faults.loop is None:
        return Pacer(clock, policy, frame_ns=frame_ns)
    if not (clock.paced or may_change):
        faults.unpaced()
    return DisturbedPacer(clock, policy, faults.loop, frame_ns=frame_ns)


def _nothing(*_: object) -> None:
    """Do nothing."""


def _lost(executive: Executive, recorder: Recorder, request: RunRequest) -> Callable[[str], object]:
    """Return the function that a recorder calls if it fails during the run."""
    end, tell = request.output.on_recorder_death == "end", request.live.tell or _nothing

    def lost(cause: str) -> None:
        since = executive.lose_recording(cause, getattr(recorder, "kept_ns", None), end)
        then = "the run ends" if end else "the run continues without it"
        tell(f"the recording failed: it is lost {since}; {then}")

    return lost


def loop(
    request: RunRequest, executive: Executive, pacer: Pacer, recorder: Recorder,
    machine: Machine | None = None,
) -> RunResult:  # fmt: skip
    """Run the loop under the requested scheduling; nothing is closed yet.

    ``machine``: a description of this machine, if it was examined before.
    """
    clock, system, handler = pacer.clock, executive.system, executive.handler
    error: Exception | None = None
    asked = request.pace.scheduling if clock.paced else SchedulingRequest.nothing()

    def ended(*_: object) -> None:
        executive.interrupt()

    compiled = all(plant.bound.compiled for plant in system.plants)
    quiet = nullcontext() if compiled else np.errstate(all="ignore")  # compiled code never warns
    beside = getattr(recorder, "beside", ())
    with scheduled(asked, beside) as granted, on_signals(ended), quiet:
        if isinstance(clock, WallClock):
            clock.calibrate(pacer.frame_ns)
        began = stopwatch()
        try:
            executive.run()
            reason = _reason(executive)
        except KeyboardInterrupt:
            reason = "interrupted"
        except BaseException as problem:
            at = Tag(system.ns)
            reason, error = ERROR, _as_error(problem, at)
            recorder.event(at, "Error", _kind(error), str(error))
        wall_ns = stopwatch() - max(began, getattr(clock, "begun_ns", 0))
        if system.faults is not None:
            system.faults.over(system.ns)
        pacer.stop()
        text = executive.failure if error is None else f"{_kind(error)}: {error}"
        ending = RunEnding(system.ns, request.until_ns, reason, text)
        if handler is not None and reason != "restored":
            handler.inbox.close(f"the run {ending}")
    return RunResult(
        ending,
        wall_ns,
        replace(
            certify(pacer, granted, machine),
            unrecorded=executive.unrecorded,
            engine=executive.engine,
        ),
        late=sum(task.lates for task in system.controllers),
        missed=sum(task.missed for task in system.controllers),
        system=system,
        recorder=recorder,
        began=START if request.start is None else request.start.tag,
        restored=handler.restored if handler is not None and reason == "restored" else None,
        rate=float(getattr(clock, "rate", 1.0)) if clock.paced else None,
        error=error,
        told=executive.told,
        waiting=system.bus.waiting(system.ns),
    )


def _reason(executive: Executive) -> str:
    """Return why the loop ended without an error."""
    handler = executive.handler
    if executive.ended_by:
        return "terminal"
    if executive.stopping:
        return executive.stopping
    if handler is not None and handler.quitting:
        return "quit" if handler.restored is None else "restored"
    return "end"


def _as_error(problem: BaseException, at: Tag) -> Exception:
    """Return ``problem`` as an :class:`Exception` that can be raised to the caller."""
    if isinstance(problem, Exception):
        return problem
    try:
        attribute_to("a component of the run", at, problem)
    except Exception as error:
        return error


def _kind(error: Exception) -> str:
    """Return the type of an error as it is recorded.

    A replay raises :class:`ControllerError` for the failure of an external controller.  Therefore
    every subclass is recorded as :class:`ControllerError`.
    """
    return ControllerError.__name__ if isinstance(error, ControllerError) else type(error).__name__


def _closed(
    result: RunResult, checkpoints: CheckpointSchedule | None, figures: Mapping[str, Any]
) -> RunResult:
    """Close the components, the recording and the checkpoints.

    An error during closing becomes a note on the error that ended the run, or, if there is none,
    the error of the result.
    """
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
    """Return the files of the checkpoints that were saved."""
    kept = None if checkpoints is None else checkpoints.keeper
    return tuple(kept.paths) if isinstance(kept, Files) else ()


def _observer(
    observe: Callable[[Progress], None] | None, pacer: Pacer, until_ns: int
) -> Callable[[int], None] | None:
    if observe is None:
        return None
    return lambda ns: observe(Progress(ns, until_ns, pacer))


def shortest_period(system: System) -> int:
    """Return the frame of the loop in ns: the shortest step or period of any component."""
    steps = [int(p.step.ns) for p in system.plants]
    periods = [int(t.period.ns) for t in system.tasks if t.period is not None]
    return min([*steps, *periods], default=0)


def check_outside(system: System) -> None:
    """Raise :class:`ScenarioError` if an external controller's compute latency is 0 s."""
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
