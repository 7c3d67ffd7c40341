"""Back-to-back test: compares C code with its reference model, in open and in closed loop.

1. The scenario runs with the reference model.
2. Open loop: the reference model and the C code get the recorded inputs, step by step.
3. Closed loop: the scenario runs with the C code, with the same latency and external inputs.
   Its recording is compared with that of the reference model.
4. Generated stimuli: both get the input sequences of a file, each from a new start.

A second translation, such as the same C code on a board, is compared with the first translation in
the same way.  In this package the reference model is called ``design``, and the C code or the board
``translation``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.conditions import (
    Conditions,
    LoopRun,
    ProgressWatch,
    in_terms_of,
    inputs_of,
    signals_of,
    spoiled_by,
)
from hitl.comparison.execution import Execution, OnTarget, clock_of, timed
from hitl.comparison.exercise import Effects, FlightCoverage
from hitl.comparison.flight import LATE, MISSED, LoopComparison, compare_flights
from hitl.comparison.open_loop import First, OpenLoop, Table, defaults, drive, open_loop
from hitl.comparison.outputs import DESIGN, Sides
from hitl.comparison.tolerances import (
    Tolerances,
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
    Ladder,
    Stimulated,
    mismatches,
    refuse_misfit,
    too_slow,
)
from hitl.controllers.protocols import interface_of, took_ns_of
from hitl.controllers.sil import SilController
from hitl.stimuli.file import Stimuli
from hitl.stimuli.generating import Reach
from rtsim.components.allowed_latency import Latencies, latency_in_words
from rtsim.components.controller import Controller
from rtsim.core.errors import UnknownName
from rtsim.core.tag import Duration
from rtsim.record import events
from rtsim.record.events import Acted, RunEnding
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.verdict import Tolerance
from rtsim.runs.request import MAX, Pace
from rtsim.scenario.scenario import Scenario

__all__ = [
    "BackToBack",
    "First",
    "Ladder",
    "OpenLoop",
    "ProgressWatch",
    "Rung",
    "back_to_back",
    "climb",
    "open_loop",
]  # fmt: skip


class Rung(NamedTuple):
    """One level of a comparison: its name in reports, and its controllers by component name."""

    name: str
    controllers: Mapping[str, Controller]
    in_loop: Mapping[str, Controller] | None = None
    """The controllers for the closed loop, if they differ from ``controllers``."""


def back_to_back(
    scenario: Scenario,
    controllers: Mapping[str, Controller],
    *,
    pace: Pace | str | float = MAX,
    latency: Latencies = None,
    until: Duration | None = None,
    seed: int = 0,
    tolerances: Tolerances | None = None,
    recording: Recording | str | Path | None = None,
    stimuli: Mapping[str, Stimuli] | None = None,
    closed: bool = True,
    reach: bool = False,
    recorder: FileRecorder | None = None,
    watch: ProgressWatch | None = None,
) -> BackToBack:
    """Compare ``controllers`` with the reference models of the scenario that they replace.

    ``controllers`` are given by the name of the component that each replaces.  ``latency`` is the
    compute latency of both sides: a number of s or a measured latency, for all controllers or by
    controller name; ``None`` takes the latencies of the scenario.  ``until`` is the end time, s.
    ``tolerances`` are (absolute, relative) by signal pattern (:mod:`hitl.comparison.tolerances`).
    ``recording`` is the recording from which the open loop takes its inputs.  ``stimuli`` are
    further input sequences for the open loop, by controller name.  The closed loop is
    always compared with a new run of the reference model, so that both runs have the same options,
    seed and latency.  ``pace`` and ``recorder`` apply to the run with the C code.  ``closed=False``
    omits the closed loop.  ``reach`` measures which branches of the C code the open loop reaches;
    for a controller with stimuli they are always measured.

    Returns the verdict.  If the C code crashes, hangs or answers wrongly, no error is raised, and
    the verdict is failed.  Raises an :class:`RtsimError` if the comparison cannot be made.
    """
    (pair,) = climb(
        scenario, [Rung(Sides().translation, controllers)], pace=pace, latency=latency,
        until=until, seed=seed, tolerances=tolerances, recording=recording, stimuli=stimuli,
        closed=closed, reach=reach, recorder=recorder, watch=watch,
    ).pairs  # fmt: skip
    return pair


def climb(
    scenario: Scenario,
    rungs: list[Rung],
    *,
    pace: Pace | str | float = MAX,
    latency: Latencies = None,
    late: str | None = None,
    failure: str | None = None,
    until: Duration | None = None,
    seed: int = 0,
    tolerances: Tolerances | None = None,
    recording: Recording | str | Path | None = None,
    stimuli: Mapping[str, Stimuli] | None = None,
    closed: bool = True,
    reach: bool = False,
    recorder: FileRecorder | None = None,
    watch: ProgressWatch | None = None,
) -> Ladder:
    """Compare the first level with the reference model, each later level with the previous one.

    ``rungs`` are the levels.  ``pace`` and ``recorder`` apply to the run with the last level; all
    other runs are as fast as possible.  ``late`` and ``failure`` are the policies for late answers
    and failures in all runs.  The other arguments are those of :func:`back_to_back`.
    """
    last = rungs[-1]
    conditions = Conditions(
        scenario,
        tuple(last.controllers),
        latency,
        until,
        seed,
        late,
        failure,
        watch or ProgressWatch(),
    )
    own = Pace.of(pace) if not isinstance(pace, Pace) else pace
    if closed:
        conditions.refuse_no_time(own, last.in_loop or last.controllers)
    rules = checked(tolerances)
    given = Recording.open(recording) if isinstance(recording, str | Path) else recording
    design = _Side(DESIGN, conditions.designs(), {})
    sides = [design, *(_Side.of(rung, conditions) for rung in rungs)]
    conditions.watch.checked()
    if closed or given is None:
        design.result = LoopRun(conditions.run_reference(), {})
    recorded = design.recording if design.result else given
    _refuse_unknown(rules, sides[1:], recorded if closed else None)
    _refuse_unknown_in_files(sides[1:], recorded)
    settings = {
        "seed": seed,
        "until_s": conditions.until_ns / 1e9,
        "pace": MAX,
        "latency": latency_in_words(latency),
        "inputs": "run with the reference model" if given is None else given.source,
    }
    source = given or design.recording
    sequences = dict(stimuli or {})
    for name in sequences:
        if name not in design.controllers:
            raise UnknownName("controller", name, list(design.controllers), "the stimuli")
    pairs = []
    for below, above in pairwise(sides):
        uppermost = above is sides[-1]
        pair = _Pair(conditions, below, above, rules)
        loops = {name: pair.drive(name, source) for name in above.controllers}
        for name, loop in loops.items():
            refuse_misfit(loop, above.controllers[name])
        stimulated = {name: pair.stimulate(name, some) for name, some in sequences.items()}
        for name, one in stimulated.items():
            for loop in one.loops:
                refuse_misfit(loop, above.controllers[name])
        loops |= {name: one.beside(loops[name]) for name, one in stimulated.items()}
        reached = {
            name: pair.reach(name, loop, stimulated.get(name))
            for name, loop in loops.items()
            if reach or name in stimulated
        }
        flight = None
        if closed:
            conditions.watch.stage(f"run with the {above.name}")
            above.result = conditions.run_with(
                above.in_loop,
                design.recording,
                own if uppermost else MAX,
                recorder if uppermost else None,
            )
            flight = pair.flight()
        pairs.append(
            BackToBack(
                scenario=scenario.name,
                open=loops,
                flight=flight,
                notes=(*pair.notes(given), *pair.outdated(sequences)),
                settings={**settings, "pace": str(pace)} if uppermost else settings,
                sides=pair.sides,
                faults=pair.faults(design.result),
                stimulated=stimulated,
                too_slow=tuple(pair.slow()) if closed else (),
                reached={name: one for name, one in reached.items() if one is not None},
            )
        )
    return Ladder(tuple(pairs))


@dataclass
class _Side:
    """One side of a comparison, and its run in the closed loop."""

    name: str
    controllers: Mapping[str, Controller]
    in_loop: Mapping[str, Controller]
    result: LoopRun | None = None

    @classmethod
    def of(cls, rung: Rung, conditions: Conditions) -> _Side:
        stepped = conditions.taking_over(rung.controllers)
        in_loop = stepped if rung.in_loop is None else conditions.taking_over(rung.in_loop)
        return cls(rung.name, stepped, in_loop)

    @property
    def recording(self) -> Recording:
        assert self.result is not None
        return self.result.recording


@dataclass
class _Pair:
    """Two sides that are compared under the same conditions; ``below`` is the reference."""

    conditions: Conditions
    below: _Side
    above: _Side
    rules: dict[str, Tolerance]

    @property
    def sides(self) -> Sides:
        return Sides(self.below.name, self.above.name)

    def drive(self, name: str, source: Recording) -> OpenLoop:
        """Run the open loop of controller ``name`` on its inputs in the recording ``source``."""
        conditions = self.conditions
        conditions.watch.stage(f"{name}: {self.above.name} step by step")
        layout = self.below.controllers[name].inputs
        return self._driven(name, *inputs_of(source, name, layout, conditions.until_ns))

    def stimulate(self, name: str, stimuli: Stimuli) -> Stimulated:
        """Run an open loop of controller ``name`` on each of ``stimuli``."""
        self.conditions.watch.stage(f"{name}: {self.above.name} on generated stimuli")
        period, layout = self.conditions.component(name).period, self.below.controllers[name].inputs
        return Stimulated.of(name, stimuli, layout, period, partial(self._driven, name))

    def _driven(self, name: str, inputs: Table, tags: NDArray[np.int64]) -> OpenLoop:
        below, above = self.below.controllers[name], self.above.controllers[name]
        return drive(
            name,
            below,
            above,
            inputs,
            tags,
            period=self.conditions.component(name).period,
            tolerances=fitting(self.rules, _outputs_of(name, above)),
            observe=self.conditions.watch.steps,
            sides=self.sides,
            labels=self.conditions.component(name).controller.outputs,
        )

    def reach(self, name: str, loop: OpenLoop, stimulated: Stimulated | None) -> Reach | None:
        """Measure which branches of ``name`` the open loop and then the stimuli reach.

        Returns ``None`` for code that did not answer each step, and for code that is not in C.
        """
        controller = self.above.controllers[name]
        loops = [loop, *(() if stimulated is None else stimulated.loops)]
        if not isinstance(controller, SilController) or any(one.error for one in loops):
            return None
        self.conditions.watch.stage(f"{name}: branches of the {self.above.name}")
        order = [loop.input_names.index(column) for column in controller.inputs.columns]
        tables = [one.inputs[:, order] for one in loops]
        return Reach.of(controller.build, controller.values, tables)

    def flight(self) -> LoopComparison:
        """Compare the closed-loop run of ``above`` with the closed-loop run of ``below``."""
        designs = self.conditions.designs()
        outputs = {name: design.outputs.columns for name, design in designs.items()}
        above, result = self.above.controllers.values(), self.above.result
        assert result is not None
        baseline = in_terms_of(designs, self.below.recording)
        shares = in_the_loop(t for c in above for t in defaults(c, floating=True).values())
        known = signals_of(baseline)
        theirs = for_tracks(declared(above), outputs, known)
        stated = for_tracks(one_after_the_other(declared(above), self.rules), outputs, known)
        rules = one_after_the_other(of_signals(shares, baseline, theirs), stated)
        recording = in_terms_of(designs, result.recording)
        compared = compare_flights(baseline, recording, rules, designs, self.sides)
        flights = {self.below.name: self.below.recording, self.above.name: result.recording}
        targets = self._targets(result.started)
        return LoopComparison(
            comparison=compared.comparison,
            baseline=self.below.recording,
            candidate=result.recording,
            paired=(compared.baseline, compared.candidate),
            error=result.error,
            held_up=result.held_up,
            late=result.count(LATE),
            missed=result.count(MISSED),
            execution=self._execution(result.started),
            sides=self.sides,
            targets=targets,
            spoiled=spoiled_by(result, targets),
            effects={
                name: Effects.of(name, design, baseline, result.recording)
                for name, design in designs.items()
            },
            covered=FlightCoverage.of(compared.comparison.results, compared.baseline, flights),
        )

    def faults(self, design: LoopRun | None) -> tuple[Acted, ...]:
        """Return how often each fault acted in the run with the translation or the reference."""
        result = self.above.result or design
        if result is not None:
            described = events.described(result.recording.header)
            return tuple(events.rows(result.recording.events, described))
        declared = [fault.describe() for fault in self.conditions.scenario.declared_faults]
        return tuple(events.rows((), declared))

    def _execution(self, started: Mapping[str, Controller]) -> dict[str, Execution]:
        """Return the execution times of each controller that measures its steps, by name."""
        out = {}
        for name, controller in started.items():
            took = took_ns_of(controller) or ()
            period = self.conditions.component(name).period
            measured = Execution.of(took, period, clock=clock_of(controller))
            if measured is not None and timed(controller):
                out[name] = measured
        return out

    def _targets(self, started: Mapping[str, Controller]) -> dict[str, OnTarget]:
        found = {n: OnTarget.of(c, self.conditions.component(n).period) for n, c in started.items()}
        return {name: target for name, target in found.items() if target is not None}

    def outdated(self, sequences: Mapping[str, Stimuli]) -> Iterator[str]:
        """Yield a note for each file of stimuli that was generated for other C code."""
        for name, stimuli in sequences.items():
            interface = interface_of(self.above.controllers[name])
            if interface is not None and (text := stimuli.outdated(interface)):
                yield text

    def slow(self) -> Iterator[str]:
        """Yield a clause for each controller whose latency is longer than its period."""
        for name in self.above.controllers:
            yield from too_slow(
                name, self.conditions.compute(name), self.conditions.component(name).period
            )

    def notes(self, given: Recording | None) -> tuple[str, ...]:
        """Return notes on the comparison: mismatches, long latencies, incomplete recordings."""
        out: list[str] = []
        for name, above in self.above.controllers.items():
            out += mismatches(name, self.below.controllers[name], above)
        out += self.slow()
        if given is not None and given.truncated:
            out.append(f"the recording that gives the inputs was cut off: {given.truncated}")
        elif given is not None and not (ending := RunEnding.of(given)).complete:
            out.append(f"the recording that gives the inputs {ending.in_brief}")
        return tuple(out)


def _refuse_unknown(
    rules: dict[str, Tolerance], translations: list[_Side], recording: Recording | None
) -> None:
    """Raise an error for a tolerance that matches neither an output nor a recorded signal."""
    outputs = [
        n for side in translations for name, c in side.controllers.items()
        for n in _outputs_of(name, c)
    ]  # fmt: skip
    refuse_unknown(rules, [*outputs, *(signals_of(recording) if recording else ())])


def _refuse_unknown_in_files(translations: list[_Side], recording: Recording | None) -> None:
    """Raise an error with file and line if an interface file's tolerance matches no signal."""
    recorded = signals_of(recording) if recording else []
    for side in translations:
        for name, controller in side.controllers.items():
            interface = interface_of(controller)
            known = [*_outputs_of(name, controller), *recorded]
            if interface is None:
                continue
            for pattern in interface.tolerances:
                refuse_unknown([pattern], known, f"{interface.place('tolerance', pattern)}: ")


def _outputs_of(controller: str, translation: Controller) -> list[str]:
    return [n for c in translation.outputs.columns for n in names_of(controller, c)]
