"""Back-to-back test: compare C code with its reference controller.

1. The scenario runs with the reference model.
2. In the open loop, both receive the recorded inputs step by step.
3. In the closed loop, the scenario runs with the C code, with the same latency and the same
   external inputs. The recording of this run is compared with that of the reference controller.
4. Generated stimuli are further input sequences; the controllers start again before each sequence.

A second translation, such as the same C code on a board, is compared with the first one. In this
package, ``design`` is the reference controller, and ``translation`` is the C code or the board.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.conditions import (
    ComparisonRequest,
    Conditions,
    LoopRun,
    Stage,
    environment_failure_of,
    in_terms_of,
    inputs_of,
    signals_of,
)
from hitl.comparison.design_branches import DesignReach, reach_of
from hitl.comparison.execution import Execution, OnTarget, clock_of, timed
from hitl.comparison.exercise import Effects, FlightCoverage
from hitl.comparison.flight import LATE, MISSED, LoopComparison, compare_flights
from hitl.comparison.open_loop import OpenLoop, Table, defaults, drive
from hitl.comparison.outputs import DESIGN, Sides, displayed
from hitl.comparison.required import RequiredOfRuns
from hitl.comparison.tolerances import (
    checked,
    declared,
    fitting,
    for_tracks,
    in_the_loop,
    names_of,
    of_signals,
    one_after_the_other,
    refuse_unknown,
)
from hitl.comparison.verdict import (
    BackToBack,
    ComparisonChain,
    Stimulated,
    mismatches,
    refuse_misfit,
    too_slow,
)
from hitl.controllers.c_controller import interface_of, took_ns_of
from hitl.controllers.sil import SilController
from hitl.stimuli.file import Stimuli
from hitl.stimuli.generating import Reach
from rtsim.components.allowed_latency import latency_in_words
from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import UnknownName
from rtsim.core.tag import Period
from rtsim.record import events
from rtsim.record.events import Acted, RunEnding
from rtsim.record.reading import Recording
from rtsim.record.verdict import Tolerance
from rtsim.runs.request import MAX, Pace
from rtsim.scenario.scenario import Scenario


def back_to_back(
    scenario: Scenario, controllers: Mapping[str, ControllerProtocol], **options: Any
) -> BackToBack:
    """Compare controllers with the reference controllers that they replace in a scenario.

    ``controllers`` is a mapping from component names to controllers, and ``options`` are fields of
    :class:`ComparisonRequest`. If the C code crashes, hangs or answers wrongly, the verdict is
    failed, without an error. Raises ``RtsimError`` if the comparison is impossible.
    """
    stage = Stage(Sides().translation, controllers)
    (pair,) = compare_chain(scenario, [stage], ComparisonRequest(**options)).pairs
    return pair


def compare_chain(
    scenario: Scenario, stages: list[Stage], request: ComparisonRequest
) -> ComparisonChain:
    """Compare the reference controller with the first stage, then each stage with the next one."""
    last = stages[-1]
    conditions = Conditions(scenario, tuple(last.controllers), request)
    pace = Pace.of(request.pace)
    if request.closed:
        conditions.refuse_no_time(pace, last.in_loop or last.controllers)
    rules = checked(request.tolerances)
    given = request.recording
    given = Recording.open(given) if isinstance(given, str | Path) else given
    design = _Side(DESIGN, conditions.designs(), {})
    sides = [design, *(_Side.of(stage, conditions) for stage in stages)]
    request.watch.checked()
    if request.closed or given is None:
        design.result = LoopRun(conditions.run_reference(), {})
    recorded = design.recording if design.result else given
    _refuse_unknown(rules, sides[1:], recorded if request.closed else None)
    _refuse_unknown_in_files(sides[1:], recorded)
    for name in request.stimuli:
        if name not in design.controllers:
            raise UnknownName("controller", name, list(design.controllers), "the stimuli")
    settings = {
        "seed": request.seed,
        "until_s": conditions.until_ns / 1e9,
        "pace": MAX,
        "latency": latency_in_words(request.latency),
        "inputs": "run with the reference model" if given is None else given.source,
    }
    pairs = []
    for below, above in pairwise(sides):
        uppermost = above is sides[-1]
        stepping = _Stepping(conditions, below, above, rules)
        source = given or design.recording
        loops = {name: stepping.drive(name, source) for name in above.controllers}
        stimulated = {n: stepping.stimulate(n, some) for n, some in request.stimuli.items()}
        loops |= {name: one.beside(loops[name]) for name, one in stimulated.items()}
        reached = {
            name: stepping.reach(name, loop, stimulated.get(name))
            for name, loop in loops.items()
            if request.reach or name in stimulated
        }
        designs = {
            name: stepping.reach_of_design(name, loops[name], stimulated.get(name))
            for name, one in reached.items()
            if one is not None
        }
        flight, slow = None, list(_latencies_above_period(conditions))
        if request.closed:
            request.watch.phase(f"run with the {above.name}")
            how = (pace, request.recorder) if uppermost else (Pace.of(MAX), None)
            above.result = conditions.run_with(above.in_loop, design.recording, *how)
            flight = _flight(conditions, below, above, rules)
        required = _required(conditions, [design, above] if below is design else [above], flight)
        pairs.append(
            BackToBack(
                scenario=scenario.name,
                open=loops,
                flight=flight,
                notes=(
                    *_notes(below, above, slow, given),
                    *_notes_on_outdated_stimuli(above, request.stimuli),
                ),
                settings={**settings, "pace": str(request.pace)} if uppermost else settings,
                sides=stepping.sides,
                faults=_faults(scenario, above.result or design.result),
                stimulated=stimulated,
                too_slow=tuple(slow) if request.closed else (),
                reached={name: one for name, one in reached.items() if one is not None},
                reached_in_design={n: one for n, one in designs.items() if one is not None},
                required=required,
            )
        )
    return ComparisonChain(tuple(pairs))


@dataclass
class _Side:
    name: str
    controllers: Mapping[str, ControllerProtocol]
    in_loop: Mapping[str, ControllerProtocol]
    result: LoopRun | None = None

    @classmethod
    def of(cls, stage: Stage, conditions: Conditions) -> _Side:
        stepped = conditions.taking_over(stage.controllers)
        in_loop = stepped if stage.in_loop is None else conditions.taking_over(stage.in_loop)
        return cls(stage.name, stepped, in_loop)

    @property
    def recording(self) -> Recording:
        assert self.result is not None
        return self.result.recording


# The open loop of two sides, on recorded inputs and on stimuli.


@dataclass
class _Stepping:
    conditions: Conditions
    below: _Side
    above: _Side
    rules: dict[str, Tolerance]

    @property
    def sides(self) -> Sides:
        return Sides(self.below.name, self.above.name)

    def drive(self, name: str, source: Recording) -> OpenLoop:
        conditions = self.conditions
        conditions.watch.phase(f"{name}: {self.above.name} step by step")
        layout = self.below.controllers[name].inputs
        return self._driven(name, *inputs_of(source, name, layout, conditions.until_ns))

    def stimulate(self, name: str, stimuli: Stimuli) -> Stimulated:
        self.conditions.watch.phase(f"{name}: {self.above.name} on generated stimuli")
        period, layout = self.conditions.component(name).period, self.below.controllers[name].inputs
        return Stimulated.of(name, stimuli, layout, period, partial(self._driven, name))

    def _driven(self, name: str, inputs: Table, tags: NDArray[np.int64]) -> OpenLoop:
        above, component = self.above.controllers[name], self.conditions.component(name)
        loop = drive(
            name,
            self.below.controllers[name],
            above,
            inputs,
            tags,
            period=component.period,
            tolerances=fitting(self.rules, _outputs_of(name, above)),
            observe=self.conditions.watch.steps,
            sides=self.sides,
            labels=component.controller.outputs,
        )
        refuse_misfit(loop, above)
        return loop

    def reach_of_design(
        self, name: str, loop: OpenLoop, stimulated: Stimulated | None
    ) -> DesignReach | None:
        loops = [loop, *(() if stimulated is None else stimulated.loops)]
        if self.below.name != DESIGN or any(one.error for one in loops):
            return None
        self.conditions.watch.phase(f"{name}: branches of the {displayed(self.below.name)}")
        steps = [(one.inputs, [one.tag(k) for k in range(len(one.inputs))]) for one in loops]
        return reach_of(self.below.controllers[name], steps)

    def reach(self, name: str, loop: OpenLoop, stimulated: Stimulated | None) -> Reach | None:
        controller = self.above.controllers[name]
        loops = [loop, *(() if stimulated is None else stimulated.loops)]
        if not isinstance(controller, SilController) or any(one.error for one in loops):
            return None
        self.conditions.watch.phase(f"{name}: branches of the {self.above.name}")
        order = [loop.input_names.index(column) for column in controller.inputs.columns]
        tables = [one.inputs[:, order] for one in loops]
        return Reach.of(controller.build, controller.values, tables)


# The closed loop of two sides.


def _flight(
    conditions: Conditions, below: _Side, above: _Side, rules: dict[str, Tolerance]
) -> LoopComparison:
    designs, sides = conditions.designs(), Sides(below.name, above.name)
    result = above.result
    assert result is not None
    baseline = in_terms_of(designs, below.recording)
    tolerances = _in_loop(designs, above.controllers.values(), baseline, rules)
    recording = in_terms_of(designs, result.recording)
    compared = compare_flights(baseline, recording, tolerances, designs, sides)
    flights = {below.name: below.recording, above.name: result.recording}
    periods = {name: conditions.component(name).period for name in result.started}
    targets = {n: OnTarget.of(c, periods[n]) for n, c in result.started.items()}
    known = {name: target for name, target in targets.items() if target is not None}
    return LoopComparison(
        comparison=compared.comparison,
        baseline=below.recording,
        candidate=result.recording,
        paired=(compared.baseline, compared.candidate),
        error=result.error,
        held_up=result.held_up,
        late=result.count(LATE),
        missed=result.count(MISSED),
        execution=_execution(result.started, periods),
        sides=sides,
        targets=known,
        environment=environment_failure_of(result, known),
        effects={
            name: Effects.of(name, design, baseline, result.recording)
            for name, design in designs.items()
        },
        covered=FlightCoverage.of(compared.comparison.results, compared.baseline, flights),
    )


def _required(
    conditions: Conditions, sides: Collection[_Side], flight: LoopComparison | None
) -> RequiredOfRuns:
    designs = conditions.designs()
    recordings = {
        side.name: in_terms_of(designs, side.recording) if side.result else None for side in sides
    }
    failures = {} if flight is None else {flight.sides.translation: flight.environment}
    return RequiredOfRuns.of(conditions.scenario.requirements, recordings, failures)


def _in_loop(
    designs: Mapping[str, ControllerProtocol],
    translations: Collection[ControllerProtocol],
    baseline: Recording,
    rules: dict[str, Tolerance],
) -> dict[str, Tolerance]:
    outputs = {name: design.outputs.columns for name, design in designs.items()}
    shares = in_the_loop(t for c in translations for t in defaults(c, floating=True).values())
    known = signals_of(baseline)
    theirs = for_tracks(declared(translations), outputs, known)
    stated = for_tracks(one_after_the_other(declared(translations), rules), outputs, known)
    return one_after_the_other(of_signals(shares, baseline, theirs), stated)


def _execution(
    started: Mapping[str, ControllerProtocol], periods: Mapping[str, Period | None]
) -> dict[str, Execution]:
    out = {}
    for name, controller in started.items():
        took = took_ns_of(controller) or ()
        measured = Execution.of(took, periods[name], clock=clock_of(controller))
        if measured is not None and timed(controller):
            out[name] = measured
    return out


# Notes, faults and the names in tolerances.


def _faults(scenario: Scenario, result: LoopRun | None) -> tuple[Acted, ...]:
    if result is not None:
        described = events.described(result.recording.header)
        return tuple(events.rows(result.recording.events, described))
    return tuple(events.rows((), [fault.describe() for fault in scenario.declared_faults]))


def _notes_on_outdated_stimuli(above: _Side, sequences: Mapping[str, Stimuli]) -> Iterator[str]:
    for name, stimuli in sequences.items():
        interface = interface_of(above.controllers[name])
        if interface is not None and (text := stimuli.outdated(interface)):
            yield text


def _latencies_above_period(conditions: Conditions) -> Iterator[str]:
    for name in conditions.components:
        yield from too_slow(name, conditions.compute(name), conditions.component(name).period)


def _notes(below: _Side, above: _Side, slow: list[str], given: Recording | None) -> Iterator[str]:
    for name, controller in above.controllers.items():
        yield from mismatches(name, below.controllers[name], controller)
    yield from slow
    if given is not None and given.truncated:
        yield f"the recording that gives the inputs was cut off: {given.truncated}"
    elif given is not None and not (ending := RunEnding.of(given)).complete:
        yield f"the recording that gives the inputs {ending.in_brief}"


def _refuse_unknown(
    rules: dict[str, Tolerance], translations: list[_Side], recording: Recording | None
) -> None:
    outputs = [
        n for side in translations for name, c in side.controllers.items()
        for n in _outputs_of(name, c)
    ]  # fmt: skip
    refuse_unknown(rules, [*outputs, *(signals_of(recording) if recording else ())])


def _refuse_unknown_in_files(translations: list[_Side], recording: Recording | None) -> None:
    recorded = signals_of(recording) if recording else []
    for side in translations:
        for name, controller in side.controllers.items():
            interface = interface_of(controller)
            known = [*_outputs_of(name, controller), *recorded]
            if interface is None:
                continue
            for pattern in interface.tolerances:
                refuse_unknown([pattern], known, f"{interface.place('tolerance', pattern)}: ")


def _outputs_of(controller: str, translation: ControllerProtocol) -> list[str]:
    return [n for c in translation.outputs.columns for n in names_of(controller, c)]
