"""Back to back: does the C do what its design does, step by step, and with the plant in the loop?

The design flies first; what it was given goes through design and translation in open loop; then
the same scenario flies with the C in the loop, under the same latency and the same outside inputs,
and its recording is held against the design's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hitl.comparison.driving import drive
from hitl.comparison.execution import Execution
from hitl.comparison.flights import compare_flights
from hitl.comparison.mismatches import mismatches
from hitl.comparison.open_loop import First, Observer, OpenLoop, defaults, open_loop
from hitl.comparison.recorded_inputs import in_terms_of, inputs_of, signals_of
from hitl.comparison.tolerances import (
    Tolerances,
    checked,
    declared,
    fitting,
    for_tracks,
    in_the_loop,
    names_of,
    refuse_unknown,
)
from hitl.comparison.verdict import BackToBack, Flight
from rtsim.controller import Controller
from rtsim.errors import RtsimError, ScenarioError
from rtsim.latency import Fixed
from rtsim.parts import ControllerPart, taking_over
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.tape import MemoryRecorder
from rtsim.record.verdict import Tolerance
from rtsim.replay import fed_inlets
from rtsim.scenario import Scenario
from rtsim.simulation import MAX, Fed, Outcome, Pace, Progress, simulate
from rtsim.tag import Duration, to_ns
from rtsim.trace import INSERTED

__all__ = ["BackToBack", "First", "OpenLoop", "back_to_back", "open_loop"]


@dataclass(frozen=True)
class Watch:
    """Who is told what happens: the stage, its flights, its steps."""

    stage: Callable[[str], None] = lambda _: None
    flight: Callable[[Progress], None] | None = None
    steps: Observer | None = None


def back_to_back(
    scenario: Scenario,
    controllers: Mapping[str, Controller],
    *,
    pace: Pace | str | float = MAX,
    latency: Duration | None = None,
    until: Duration | None = None,
    seed: int = 0,
    tolerances: Tolerances | None = None,
    recording: Recording | str | Path | None = None,
    closed: bool = True,
    recorder: FileRecorder | None = None,
    watch: Watch | None = None,
) -> BackToBack:
    """Hold ``controllers``, by the name of the part whose place each takes, against their designs.

    ``latency`` (s) is what both are allowed to answer in; ``None`` leaves what the scenario says.
    ``recording`` gives the inputs of the open loop; in the loop the C is held against a flight of
    the design all the same, so that both have the same settings, seed and latency.  ``pace`` and
    ``recorder`` are those of the flight with the C.  ``closed=False`` leaves that out.

    Raises what makes a comparison impossible (:class:`RtsimError`); a C that crashes, hangs or
    lies is a result.
    """
    both = _Both(scenario, controllers, latency, until, seed, checked(tolerances), watch or Watch())
    both.refuse_no_time(Pace.of(pace) if not isinstance(pace, Pace) else pace, closed)
    baseline = both.fly_design() if closed or recording is None else None
    given = Recording.open(recording) if isinstance(recording, str | Path) else recording
    source = baseline if given is None else given
    assert source is not None
    both.refuse_unknown(baseline if closed else None)
    loops = {name: both.drive(name, source) for name in controllers}
    flight = None
    if closed:
        assert baseline is not None
        flight = both.fly(baseline, pace, recorder or MemoryRecorder())
    return BackToBack(
        scenario=scenario.name,
        open=loops,
        flight=flight,
        notes=both.notes(given),
        settings={
            "seed": seed,
            "until_s": both.until_ns / 1e9,
            "pace": str(pace),
            "latency_s": None if latency is None else float(latency),
            "inputs": "flight of the design" if given is None else given.source,
        },
    )


@dataclass
class _Both:
    """The design and what takes its place, under the same conditions."""

    scenario: Scenario
    controllers: Mapping[str, Controller]
    latency: Duration | None
    until: Duration | None
    seed: int
    rules: dict[str, Tolerance]
    watch: Watch
    until_ns: int = field(init=False)
    translations: dict[str, Controller] = field(init=False)
    """With the parameters of the design."""

    def __post_init__(self) -> None:
        if not self.controllers:
            raise ScenarioError("nothing to hold against a design: give a controller by name")
        if self.latency is not None:
            to_ns(self.latency, "latency")
        self._refuse_changes()
        declared = self.scenario.until_ns
        self.until_ns = declared if self.until is None else to_ns(self.until, "until")
        self.translations = {
            name: taking_over(name, self.part(name).controller, controller)
            for name, controller in self.controllers.items()
        }

    def _refuse_changes(self) -> None:
        """Parameters are set before the first step, of the C and in open loop of both."""
        for change in self.scenario.describe()["changes"]:
            name, _, parameter = change["target"].partition(".")
            if name in self.controllers:
                raise ScenarioError(
                    f"{change['target']} changes at {change['ns'] / 1e9:g} s, but what takes the "
                    f"place of {name} has its parameters set once, before its first step; make "
                    f"{parameter} an input of {name} and wire it to a source"
                )

    def part(self, name: str) -> ControllerPart:
        part = self.scenario.part(name)
        if not isinstance(part, ControllerPart):
            raise ScenarioError(f"{name} is not a controller; nothing can take its place")
        return part

    def refuse_no_time(self, pace: Pace, closed: bool) -> None:
        """Before anything flies: in real time what is outside needs time to answer."""
        for name, controller in self.controllers.items():
            compute = self.part(name).compute
            none = isinstance(compute, Fixed) and compute.constant == (0,)
            paced = closed and pace.rate is not None
            if paced and controller.outside and none and not self.latency:
                raise ScenarioError(
                    f"{name} runs in a process of its own and is allowed no time to answer; "
                    "type --latency 0.005 (latency=0.005), or fly with --pace max"
                )

    def refuse_unknown(self, baseline: Recording | None) -> None:
        """A tolerance that fits neither an output nor a recorded signal."""
        outputs = [n for name, t in self.translations.items() for n in _outputs_of(name, t)]
        refuse_unknown(self.rules, [*outputs, *(signals_of(baseline) if baseline else ())])

    def design(self, name: str) -> Controller:
        return self.part(name).controller

    def fly_design(self) -> Recording:
        self.watch.stage("the design flies")
        scenario = self.scenario.copy()
        if self.latency is not None:
            for name in self.controllers:
                part = scenario.part(name)
                assert isinstance(part, ControllerPart)
                part.compute = Fixed(self.latency)
        recorder = MemoryRecorder()
        outcome = simulate(
            scenario, seed=self.seed, until=self.until, recorder=recorder, observe=self.watch.flight
        )
        _not_interrupted(outcome)
        return recorder.recording()

    def drive(self, name: str, source: Recording) -> OpenLoop:
        """Open loop of one controller, on what a recording says that it was given."""
        self.watch.stage(f"{name}: step by step")
        translation = self.translations[name]
        mine = _outputs_of(name, translation)
        inputs, tags = inputs_of(source, name, self.design(name).inputs, self.until_ns)
        return drive(
            name,
            self.design(name),
            translation,
            inputs,
            tags,
            period=self.part(name).period,
            tolerances=fitting(self.rules, mine),
            observe=self.watch.steps,
        )

    def fly(
        self, baseline: Recording, pace: Pace | str | float, recorder: FileRecorder | MemoryRecorder
    ) -> Flight:
        """The scenario with the C in the loop, and how it compares."""
        self.watch.stage("the C flies")
        scenario = self.scenario.copy()
        for name, controller in self.controllers.items():
            scenario.replace_controller(name, controller, latency=self.latency)
        inserted = [e.tag.ns for e in baseline.events if e.kind == INSERTED]
        fed = Fed(fed_inlets(scenario, baseline), inserted=inserted)
        error, outcome = "", None
        try:
            outcome = simulate(
                scenario, seed=self.seed, pace=pace, until=self.until, recorder=recorder, fed=fed,
                observe=self.watch.flight,
            )  # fmt: skip
        except ScenarioError:
            raise
        except RtsimError as problem:
            error = "\n".join([str(problem), *getattr(problem, "__notes__", ())])
        if outcome is not None:
            _not_interrupted(outcome)
        flown = (
            recorder.recording()
            if isinstance(recorder, MemoryRecorder)
            else Recording.open(recorder.path)
        )
        designs = {name: self.design(name) for name in self.controllers}
        outputs = {name: design.outputs.columns for name, design in designs.items()}
        translations = self.translations.values()
        loosest = in_the_loop(t for c in translations for t in defaults(c, floating=True).values())
        stated = {**declared(translations), **self.rules}
        rules = {"*": loosest, **for_tracks(stated, outputs, signals_of(baseline))}
        compared = compare_flights(baseline, in_terms_of(designs, flown), rules, designs)
        return Flight(
            comparison=compared.comparison,
            baseline=baseline,
            flown=flown,
            paired=(compared.baseline, compared.flown),
            error=error,
            late=outcome.late if outcome else 0,
            missed=outcome.missed if outcome else 0,
            execution=self.execution(flown),
        )

    def execution(self, flown: Recording) -> dict[str, Execution]:
        """Of each controller in the loop, where its build is timed."""
        out = {}
        for name, controller in self.controllers.items():
            track = flown.tracks.get(f"measured/{name}")
            if track is None or getattr(controller, "build", None) is None:
                continue
            if controller.build.kind != "plain":  # type: ignore[attr-defined]
                continue
            took = track.integer("ended") - track.integer("begun")
            measured = Execution.of(took, self.part(name).period)
            if measured is not None:
                out[name] = measured
        return out

    def notes(self, given: Recording | None) -> tuple[str, ...]:
        """What a reader should know beside the figures."""
        out: list[str] = []
        for name, translation in self.translations.items():
            out += mismatches(name, self.design(name), translation, self.part(name).period)
        if given is not None and given.truncated:
            out.append(f"the recording was cut off: {given.truncated}")
        return tuple(out)


def _outputs_of(controller: str, translation: Controller) -> list[str]:
    return [n for c in translation.outputs.columns for n in names_of(controller, c)]


def _not_interrupted(outcome: Outcome) -> None:
    if outcome.reason == "interrupted":
        raise KeyboardInterrupt(f"interrupted at {outcome.ended}")
