"""Options of a comparison, and what all its runs have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.execution import OnTarget, on_board
from hitl.comparison.flight import LATE, EnvironmentFailure, first_late
from hitl.comparison.open_loop import Observer, fresh
from hitl.comparison.tolerances import Tolerances
from hitl.controllers.c_controller import failed_around
from hitl.stimuli.file import Stimuli
from rtsim.components.allowed_latency import Allowed, Latencies, allowing, latency_of
from rtsim.components.controller import ControllerProtocol
from rtsim.components.latency import Fixed, LatencyModel
from rtsim.core.errors import OverrunError, RecordingError, RtsimError, ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.core.tag import Duration, to_ns
from rtsim.engine.trace import INSERTED, request_topic
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording, TrackData
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import fed_external_inputs
from rtsim.runs.request import MAX, Connections, FedInputs, Output, Pace, Progress, RunRequest
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import run
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent, taking_over


@dataclass(frozen=True)
class ProgressWatch:
    """Functions that report the progress of a comparison.

    ``phase`` is called with the name of each phase. ``flight`` is called with the progress of a
    run, and ``steps`` with the numbers of completed and of all open-loop steps.
    """

    phase: Callable[[str], None] = lambda _: None
    flight: Callable[[Progress], None] | None = None
    steps: Observer | None = None
    met: Callable[[str, ControllerProtocol], None] = lambda *_: None
    """Function that is called with the name and the controller at each start of a controller."""
    checked: Callable[[], object] = lambda: None
    """Function that is called before the first run, after the check of the arguments."""


class LoopRun(NamedTuple):
    """The result of one run in a comparison."""

    recording: Recording
    started: dict[str, ControllerProtocol]
    """The controllers that replaced the reference models in this run, by name."""
    error: str = ""
    held_up: bool = False
    """True if the run ended because this host fell behind the wall clock."""
    environment: bool = False
    """True if the environment of a controller caused the error, and not the controller."""
    paced: bool = False
    """True if the run was paced by the wall clock."""

    def count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.recording.events)


class Stage(NamedTuple):
    """A stage of a comparison: its name in reports, and its controllers."""

    name: str
    controllers: Mapping[str, ControllerProtocol]
    in_loop: Mapping[str, ControllerProtocol] | None = None
    """The controllers for the closed loop, if they differ from ``controllers``."""


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """Options of a comparison. The defaults are those of the scenario and its controllers."""

    pace: Pace | str | float = MAX
    """Pace of the closed loop with the last stage. All other runs are as fast as possible."""
    latency: Latencies = None
    """Compute latency of all stages, as seconds or as a measured latency, for all controllers or by
    controller name.
    """
    late: str | None = None
    """Policy for late answers in all runs."""
    failure: str | None = None
    """Policy for failed controllers in all runs."""
    until: Duration | None = None
    """End time, s."""
    seed: int = 0
    tolerances: Tolerances | None = None
    """(absolute, relative) by signal pattern (:mod:`hitl.comparison.tolerances`)."""
    recording: Recording | str | Path | None = None
    """Recording with the inputs of the open loop, instead of the run with the reference model."""
    stimuli: Mapping[str, Stimuli] = field(default_factory=dict)
    """Further input sequences for the open loop, by controller name."""
    closed: bool = True
    """Whether to run the closed loop. This run is always compared with a new run of the reference
    model, so that both have the same options, seed and latency.
    """
    reach: bool = False
    """Whether to measure which branches of the C code the open loop reaches. For a controller with
    stimuli, the branches are always measured.
    """
    recorder: FileRecorder | None = None
    """Recorder of the closed loop with the last stage."""
    watch: ProgressWatch = field(default_factory=ProgressWatch)


@dataclass
class Conditions:
    """The scenario, and what all runs of a comparison have in common.

    ``components`` contains the names of the controllers to replace.
    """

    scenario: Scenario
    components: tuple[str, ...]
    request: ComparisonRequest = field(default_factory=ComparisonRequest)
    until_ns: int = field(init=False)

    def __post_init__(self) -> None:
        if not self.components:
            raise ScenarioError(
                "no controller is given to compare with its reference model; give the name of "
                "a controller"
            )
        for name in self.components:
            allowing(self.latency(name) or 0)
        self._refuse_changes()
        self._refuse_unknown_lines()
        until = self.request.until
        self.until_ns = self.scenario.until_ns if until is None else to_ns(until, "until")

    @property
    def watch(self) -> ProgressWatch:
        return self.request.watch

    def latency(self, name: str) -> Allowed | None:
        return latency_of(name, self.request.latency)

    def _refuse_changes(self) -> None:
        for change in self.scenario.describe()["changes"]:
            name, _, parameter = change["target"].partition(".")
            if name in self.components:
                raise ScenarioError(
                    f"parameter {change['target']} changes at {change['ns'] / 1e9:g} s, but the C "
                    f"code of {name} gets its parameters only once, before its first step; make "
                    f"{parameter} an input of {name} and wire it to a source"
                )

    def _refuse_unknown_lines(self) -> None:
        known = self.scenario.of(ControllerComponent)
        for fault in self.scenario.declared_faults:
            if fault.kind.level == "line" and fault.part not in known:
                raise fault.error(UnknownName("controller", fault.part, sorted(known)))

    def component(self, name: str) -> ControllerComponent:
        """Return the component of a controller; raise an error if it is no controller."""
        return self.scenario.controller_component(
            name, f"{name} is not a controller, so C cannot replace it"
        )

    def compute(self, name: str) -> LatencyModel:
        given = self.latency(name)
        return self.component(name).compute if given is None else allowing(given)

    def designs(self) -> dict[str, ControllerProtocol]:
        """Return the reference models by component name."""
        return {name: self.component(name).controller for name in self.components}

    def taking_over(
        self, controllers: Mapping[str, ControllerProtocol]
    ) -> dict[str, ControllerProtocol]:
        """Return ``controllers`` with the parameters of the reference controllers.

        Each start of a controller calls ``watch.met``.
        """
        taken = {n: taking_over(n, self.component(n).controller, c) for n, c in controllers.items()}
        return {name: self._announcing(name, controller) for name, controller in taken.items()}

    def _announcing(self, name: str, controller: ControllerProtocol) -> ControllerProtocol:
        def announced() -> ControllerProtocol:
            made = fresh(name, controller)
            self.watch.met(name, made)
            return made

        return _started_by(controller, announced)

    def refuse_no_time(self, pace: Pace, controllers: Mapping[str, ControllerProtocol]) -> None:
        """Raise an error for a controller outside this process with latency 0, in real time."""
        for name, controller in controllers.items():
            compute = self.component(name).compute
            none = isinstance(compute, Fixed) and compute.constant == (0,)
            if pace.rate is not None and controller.outside and none and not self.latency(name):
                board, period = on_board(controller), self.component(name).period
                where = "on a board" if board else "in a process of its own"
                enough = period.seconds / 2 if board and period is not None else 0.005
                raise ScenarioError(
                    f"{name} runs {where}, so it needs a compute latency > 0 s in real time; "
                    f"give --latency {enough:g} (latency={enough:g}), or run with --pace max"
                )

    def run_reference(self) -> Recording:
        """Run the scenario with its reference controllers, and return the recording.

        Errors of a reference controller are raised.
        """
        self.watch.phase("run with the reference model")
        scenario = self.scenario.copy()
        for name in self.components:
            latency = self.latency(name)
            if latency is not None:
                scenario.allow(name, latency)
        result = run(self._request(scenario, MemoryRecorder())).checked()
        _not_interrupted(result)
        return result.recording()

    def run_with(
        self,
        controllers: Mapping[str, ControllerProtocol],
        baseline: Recording,
        pace: Pace | str | float = MAX,
        recorder: FileRecorder | MemoryRecorder | None = None,
    ) -> LoopRun:
        """Run the scenario with ``controllers`` and the recorded external inputs of ``baseline``.

        A ``ScenarioError`` is raised; any other error is part of the result.
        """
        recorder = recorder or MemoryRecorder()
        scenario, started = self.scenario.copy(), dict[str, ControllerProtocol]()
        scenario.checks_requirements = False  # units of C code can differ; the reference is checked
        for name, controller in controllers.items():
            scenario.replace_controller(
                name,
                _remembered(name, controller, started),
                latency=self.latency(name),
                late=self.request.late,
                failure=self.request.failure,
            )
        inserted = [e.tag.ns for e in baseline.events if e.kind == INSERTED]
        fed = FedInputs(fed_external_inputs(scenario, baseline), inserted=inserted)
        request = replace(self._request(scenario, recorder), pace=Pace.of(pace), fed=fed)
        error, held_up, environment = "", False, False
        try:
            _not_interrupted(run(request).checked())
        except ScenarioError:
            raise
        except OverrunError as problem:
            held_up = True
            what = str(problem).partition("; ")[0]
            error = f"{what}; end other programs on this host, or run with --pace max"
        except RtsimError as problem:
            error = "\n".join([str(problem), *getattr(problem, "__notes__", ())])
            environment = getattr(problem, "environment", False)
        paced = request.pace.rate is not None
        return LoopRun(_recorded(recorder), started, error, held_up, environment, paced)

    def _request(self, scenario: Scenario, recorder: FileRecorder | MemoryRecorder) -> RunRequest:
        live = Connections(observe=self.watch.flight)
        asked = self.request
        output = Output(recorder)
        return RunRequest(scenario, asked.seed, until=asked.until, output=output, live=live)


def _recorded(recorder: FileRecorder | MemoryRecorder) -> Recording:
    if isinstance(recorder, FileRecorder):
        return Recording.open(recorder.path) if recorder.started else MemoryRecorder().recording()
    return recorder.recording()


def _remembered(
    name: str, controller: ControllerProtocol, started: dict[str, ControllerProtocol]
) -> ControllerProtocol:
    def kept() -> ControllerProtocol:
        started[name] = fresh(name, controller)
        return started[name]

    return _started_by(controller, kept)


def _started_by(
    controller: ControllerProtocol, make: Callable[[], ControllerProtocol]
) -> ControllerProtocol:
    if not hasattr(controller, "fresh"):
        return controller
    out = copy(controller)
    out.fresh = make
    return out


def _not_interrupted(result: RunResult) -> None:
    if result.reason == "interrupted":
        raise KeyboardInterrupt(f"the run was interrupted at {result.ended}")


# Inputs and signals of a recording.


def inputs_of(
    recording: Recording, name: str, layout: Signals, until_ns: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the recorded inputs of a controller up to ``until_ns``, with their tags.

    The inputs have the shape (k, m) for k steps. The tags have the shape (k, 2): ns and microstep
    of each step. Raises ``RecordingError`` if the inputs of the controller were not recorded.
    """
    topic = f"messages/{request_topic(name)}"
    track = recording.tracks.get(topic)
    if track is None:
        known = [
            t.removeprefix("messages/").removesuffix(".inputs")
            for t in recording.tracks
            if t.startswith("messages/") and t.endswith(".inputs")
        ]
        raise RecordingError(
            f"{recording.source} contains no inputs of a controller {name}, but only of: "
            f"{', '.join(known) or 'none'}"
        )
    for column in layout.columns:
        if column not in track.signals.columns:
            raise RecordingError(
                f"{recording.source} does not contain the input {column} of controller {name}, but "
                f"only the inputs {', '.join(track.signals.columns)}; record the run again"
            )
    order = [track.signals.columns.index(c) for c in layout.columns]
    tags = np.stack([track.integer("initiated"), track.integer("initiated_step")], axis=1)
    inside = np.ones(len(tags), np.bool_) if until_ns is None else tags[:, 0] <= until_ns
    if not inside.any():
        raise RecordingError(
            f"{recording.source} contains no inputs of {name} before the end time of the comparison"
        )
    return track.rows.floats[inside][:, order], tags[inside]


def signals_of(recording: Recording) -> list[str]:
    return [
        f"{t.name}.{s.name}"
        for t in recording.tracks.values()
        if t.spec.deterministic
        for s in t.signals
    ]


def in_terms_of(designs: Mapping[str, ControllerProtocol], recording: Recording) -> Recording:
    """Return ``recording`` with the units of the reference controllers."""
    tracks = dict(recording.tracks)
    for name, design in designs.items():
        for topic, layout in ((name, design.outputs), (request_topic(name), design.inputs)):
            track = tracks.get(f"messages/{topic}")
            if track is not None:
                tracks[track.name] = _relabelled(track, layout)
    return replace(recording, tracks=tracks)


def _relabelled(track: TrackData, layout: Signals) -> TrackData:
    signals = [
        replace(s, unit=layout[s.name].unit, kind=layout[s.name].kind) if s.name in layout else s
        for s in track.signals
    ]
    return replace(track, spec=replace(track.spec, signals=Signals(*signals)))


# Failures of the environment that affected a run, such as a slow host or a killed process.

_FAILED = "Failed"
"""Kind of the event for a controller that failed while the run continued."""


def environment_failure_of(
    run: LoopRun, targets: Mapping[str, OnTarget] | None = None
) -> EnvironmentFailure | None:
    """Return the failure of the environment that ended a run, or ``None``.

    ``targets`` contains measurements of each board, by controller.

    In real time, a controller on a slow host is late, which says nothing about the target. A late
    answer of a real board is a failure of the board. A late answer of an emulated board does not
    count if this host was too slow.
    """
    found = [*_failures(run), *_lateness(run, targets or {})]
    if not found:
        return None
    return min(found)._replace(ended=any(one.ended for one in found))


def _failures(run: LoopRun) -> Iterator[EnvironmentFailure]:
    pending = min(_pending(run), default=run.recording.end_ns)
    if run.environment or run.held_up:
        yield EnvironmentFailure(pending, run.error, slow=run.held_up)
    for e in run.recording.events:
        if e.kind == _FAILED and failed_around(run.started.get(e.source)):
            yield EnvironmentFailure(min(pending, e.tag.ns), e.text, ended=not run.error)


def _pending(run: LoopRun) -> Iterator[int]:
    tracks, events = run.recording.tracks, run.recording.events
    for name, controller in run.started.items():
        asked, answered = (tracks.get(f"messages/{n}") for n in (request_topic(name), name))
        failed = any(e.kind == _FAILED and e.source == name for e in events)
        if asked is None or (failed and not failed_around(controller)):
            continue
        last = -1 if answered is None else int(answered.ns.max(initial=-1))
        late = [
            e.tag.ns - int(e.values["allowed"])
            for e in events
            if e.kind == LATE and e.source == name
        ]
        yield from (ns for ns in asked.ns[asked.ns > last].tolist() if ns not in late)


def _lateness(run: LoopRun, targets: Mapping[str, OnTarget]) -> Iterator[EnvironmentFailure]:
    late = [
        e
        for e in run.recording.events
        if e.kind == LATE
        and (
            not on_board(run.started.get(e.source))
            or _delayed(targets.get(e.source), int(e.values["allowed"]))
        )
    ]
    if not run.paced or not late:
        return
    count = "1 answer was" if len(late) == 1 else f"{len(late)} answers were"
    why = (
        f"{count} late by the clock of this host, which also runs other programs: allow more "
        "time (--latency), or run with --pace max"
    )
    first = first_late(run.recording)
    ended = not run.error or any(e.text in run.error for e in late)
    yield EnvironmentFailure(
        run.recording.end_ns if first is None else first, why, slow=True, ended=ended
    )


def _delayed(board: OnTarget | None, allowed_ns: int) -> bool:
    if board is None:
        return False
    if board.pacing is None:  # an emulator that hung or was ended cannot report its delay
        return board.url.startswith("board:")
    if board.exchange is None:
        return False
    rest = allowed_ns - board.exchange.max
    return 0 <= rest < max(board.pacing.late_ns, board.pacing.behind_ns)
