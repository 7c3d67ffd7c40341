"""What all that is compared flies under: scenario, seed, latency, policies, inputs from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from hitl.comparison.both import Observer
from hitl.comparison.driving import fresh
from hitl.comparison.execution import on_board
from rtsim.components.controller import Controller
from rtsim.components.latency import Fixed, Latencies, LatencyModel, allowing, latency_of
from rtsim.core.errors import OverrunError, RtsimError, ScenarioError, UnknownName
from rtsim.core.tag import Duration, to_ns
from rtsim.engine.trace import INSERTED
from rtsim.record.file import FileRecorder
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.reading import Recording
from rtsim.runs.replay import fed_inlets
from rtsim.runs.simulation import MAX, FedInputs, Pace, Progress, RunResult, simulate
from rtsim.scenario.parts import ControllerPart, taking_over
from rtsim.scenario.scenario import Scenario


@dataclass(frozen=True)
class ProgressWatch:
    """Who is told what happens: the stage, its flights, its steps, who was met."""

    stage: Callable[[str], None] = lambda _: None
    flight: Callable[[Progress], None] | None = None
    steps: Observer | None = None
    met: Callable[[str, Controller], None] = lambda *_: None
    """A controller of this name was started."""
    checked: Callable[[], None] = lambda: None
    """What was asked for is possible, as far as can be told before anything flies."""


class LoopRun(NamedTuple):
    """What came of a flight."""

    recording: Recording
    started: dict[str, Controller]
    """The controllers that flew in the place of the design's."""
    outcome: RunResult | None
    """``None`` where an error ended it."""
    error: str = ""
    held_up: bool = False
    """This host ended it, which fell behind the clock."""
    environment: bool = False
    """What ended it was around a controller, and not the controller itself."""
    paced: bool = False
    """It flew by the wall clock."""

    def count(self, kind: str) -> int:
        """Events of a kind, however it ended."""
        return sum(event.kind == kind for event in self.recording.events)


@dataclass
class Conditions:
    """The scenario, and what holds for whoever flies it in the place of ``parts``."""

    scenario: Scenario
    parts: tuple[str, ...]
    latency: Latencies = None
    until: Duration | None = None
    seed: int = 0
    late: str | None = None
    failure: str | None = None
    watch: ProgressWatch = field(default_factory=ProgressWatch)
    until_ns: int = field(init=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise ScenarioError("nothing to hold against a design: give a controller by name")
        for name in self.parts:
            allowing(latency_of(name, self.latency) or 0)
        self._refuse_changes()
        self._refuse_unknown_lines()
        declared = self.scenario.until_ns
        self.until_ns = declared if self.until is None else to_ns(self.until, "until")

    def _refuse_changes(self) -> None:
        """Parameters are set before the first step, of the C and in open loop of both."""
        for change in self.scenario.describe()["changes"]:
            name, _, parameter = change["target"].partition(".")
            if name in self.parts:
                raise ScenarioError(
                    f"{change['target']} changes at {change['ns'] / 1e9:g} s, but what takes the "
                    f"place of {name} has its parameters set once, before its first step; make "
                    f"{parameter} an input of {name} and wire it to a source"
                )

    def _refuse_unknown_lines(self) -> None:
        """Before a board is met: what flies first would tell it too."""
        known = [n for n, part in self.scenario.parts.items() if isinstance(part, ControllerPart)]
        for fault in self.scenario.declared_faults:
            if fault.kind.level == "line" and fault.part not in known:
                raise fault.error(UnknownName("controller", fault.part, sorted(known)))

    def part(self, name: str) -> ControllerPart:
        part = self.scenario.part(name)
        if not isinstance(part, ControllerPart):
            raise ScenarioError(f"{name} is not a controller; nothing can take its place")
        return part

    def compute(self, name: str) -> LatencyModel:
        """What ``name`` is allowed to answer in."""
        given = latency_of(name, self.latency)
        return self.part(name).compute if given is None else allowing(given)

    def designs(self) -> dict[str, Controller]:
        return {name: self.part(name).controller for name in self.parts}

    def taking_over(self, controllers: Mapping[str, Controller]) -> dict[str, Controller]:
        """With the parameters of the design; they say whom they have met when they are started."""
        taken = {n: taking_over(n, self.part(n).controller, c) for n, c in controllers.items()}
        return {name: self._announcing(name, controller) for name, controller in taken.items()}

    def _announcing(self, name: str, controller: Controller) -> Controller:
        def announced() -> Controller:
            made = fresh(name, controller)
            self.watch.met(name, made)
            return made

        return _started_by(controller, announced)

    def refuse_no_time(self, pace: Pace, controllers: Mapping[str, Controller]) -> None:
        """Before anything flies: in real time what is outside needs time to answer."""
        for name, controller in controllers.items():
            compute = self.part(name).compute
            none = isinstance(compute, Fixed) and compute.constant == (0,)
            if (
                pace.rate is not None
                and controller.outside
                and none
                and not latency_of(name, self.latency)
            ):
                board, period = on_board(controller), self.part(name).period
                where = "on a board" if board else "in a process of its own"
                enough = period.seconds / 2 if board and period is not None else 0.005
                raise ScenarioError(
                    f"{name} runs {where} and is allowed no time to answer; "
                    f"type --latency {enough:g} (latency={enough:g}), or fly with --pace max"
                )

    def fly_design(self) -> Recording:
        """The scenario as it is, under the latency; an error of the design is no result."""
        self.watch.stage("the design flies")
        scenario = self.scenario.copy()
        for name in self.parts:
            latency = latency_of(name, self.latency)
            if latency is not None:
                scenario.allow(name, latency)
        recorder = MemoryRecorder()
        outcome = simulate(
            scenario, seed=self.seed, until=self.until, recorder=recorder, observe=self.watch.flight
        )
        _not_interrupted(outcome)
        return recorder.recording()

    def fly(
        self,
        controllers: Mapping[str, Controller],
        baseline: Recording,
        pace: Pace | str | float = MAX,
        recorder: FileRecorder | MemoryRecorder | None = None,
    ) -> LoopRun:
        """The scenario with ``controllers``, and with the outside inputs of ``baseline``.

        A mistake of the scenario's raises; what else goes wrong is in the result.
        """
        recorder = recorder or MemoryRecorder()
        scenario, started = self.scenario.copy(), dict[str, Controller]()
        for name, controller in controllers.items():
            scenario.replace_controller(
                name,
                _remembered(name, controller, started),
                latency=latency_of(name, self.latency),
                late=self.late,
                failure=self.failure,
            )
        inserted = [e.tag.ns for e in baseline.events if e.kind == INSERTED]
        fed = FedInputs(fed_inlets(scenario, baseline), inserted=inserted)
        paced = (pace if isinstance(pace, Pace) else Pace.of(pace)).rate is not None
        error, outcome, held_up, environment = "", None, False, False
        try:
            outcome = simulate(
                scenario, seed=self.seed, pace=pace, until=self.until, recorder=recorder, fed=fed,
                observe=self.watch.flight,
            )  # fmt: skip
        except ScenarioError:
            raise
        except OverrunError as problem:
            held_up = True
            what = str(problem).partition("; ")[0]
            error = f"{what}; leave this host more of its processors, or fly with --pace max"
        except RtsimError as problem:
            error = "\n".join([str(problem), *getattr(problem, "__notes__", ())])
            environment = getattr(problem, "environment", False)
        if outcome is not None:
            _not_interrupted(outcome)
        return LoopRun(_recorded(recorder), started, outcome, error, held_up, environment, paced)


def _recorded(recorder: FileRecorder | MemoryRecorder) -> Recording:
    """What was flown; empty where it ended before its first tag."""
    if isinstance(recorder, FileRecorder):
        return Recording.open(recorder.path) if recorder.started else MemoryRecorder().recording()
    return recorder.recording()


def _remembered(name: str, controller: Controller, started: dict[str, Controller]) -> Controller:
    """One that puts into ``started`` what is started of it: it is needed where the flight fails."""

    def kept() -> Controller:
        started[name] = fresh(name, controller)
        return started[name]

    return _started_by(controller, kept)


def _started_by(controller: Controller, make: Callable[[], Controller]) -> Controller:
    """Like ``controller``, and ``make`` is its ``fresh``."""
    if not hasattr(controller, "fresh"):
        return controller
    out = copy(controller)
    out.fresh = make
    return out


def _not_interrupted(outcome: RunResult) -> None:
    if outcome.reason == "interrupted":
        raise KeyboardInterrupt(f"interrupted at {outcome.ended}")
