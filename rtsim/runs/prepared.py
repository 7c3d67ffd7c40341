"""A scenario that is built once and run many times with different values and seeds.

Further runs need no compilation, no import and no file. Each result equals the result of
``simulate`` exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from rtsim.components.latency import not_saved
from rtsim.components.plant import RunningPlant
from rtsim.core.clock import VirtualClock
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.raised import Interrupted
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration, Tag
from rtsim.engine.compiled.eligibility import AUTO, COMPILED, ENGINES, EXACT_NS, INTERPRETED
from rtsim.engine.compiled.engine import CompiledEngine, Sink, WholeRun
from rtsim.engine.compiled.lane_pass import LanePass
from rtsim.engine.executive import Executive
from rtsim.engine.system import InitialValue, System
from rtsim.engine.trace import Trace, values_of
from rtsim.equations.compiling import Compilation
from rtsim.equations.lanes import WIDTHS, native_width
from rtsim.record.events import CHANGE, RunEnding
from rtsim.record.recorders import Begin, PooledRecorder, TrackPool
from rtsim.runs.request import Output, RunRequest
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import footer_of, loop, pacer_of, run
from rtsim.scenario.component import Component
from rtsim.scenario.scenario import Scenario
from rtsim.timing.certificate import Certificate, certify
from rtsim.timing.pacing import Pacer


class FirstValues:
    """Evaluate the equations of plants at the initial values of a run."""

    def __init__(self, plants: Sequence[RunningPlant]) -> None:
        self._copies = []
        self._calls = []
        sizes = [
            (m.states.size, m.outputs.size, len(m.guards)) for m in (p.bound.model for p in plants)
        ]
        self._found = np.full(sum(map(sum, sizes)), np.nan)
        at = 0
        for plant, lengths in zip(plants, sizes, strict=True):
            bound, start = plant.bound, plant.bound.model.discrete.initial()
            x, z, u, p = (vector.copy() for vector in (plant.x, start, plant.u, plant.p))
            own = ((x, plant.x), (z, start), (u, plant.u), (p, plant.p))
            self._copies += [pair for pair in own if pair[0].size]
            equations = (bound.derivative, bound.output, bound.guard)
            for equation, size in zip(equations, lengths, strict=True):
                if size:
                    self._calls.append(equation.on(x, z, u, p, self._found[at : at + size]))
                at += size

    def usable(self) -> bool:
        """Return whether each equation writes finite values to all its elements."""
        for copy, vector in self._copies:
            copy[...] = vector
        self._found.fill(np.nan)
        try:
            for call in self._calls:
                call(0.0)
        except Exception:
            return False
        return bool(np.isfinite(self._found).all())


_TRIES = 3
"""Number of successive failures after which runs no longer use compiled code alone."""
Values = Mapping[str, object]
Changes = Mapping[str, Sequence[tuple[int, float]]]
"""Scheduled changes of a run: times (ns) and values, by ``"component.name"``."""


@dataclass(frozen=True)
class Order:
    """The seed, the end, the values and the scheduled changes of a run."""

    scenario: Scenario
    seed: int
    until: Duration | None
    values: Values
    compile: Compilation
    engine: str
    changes: Changes = field(default_factory=dict)

    def request(self) -> RunRequest:
        """Return the request of this run; raise an error for wrong values."""
        scenario = self.scenario.copy()
        for target, value in self.values.items():
            scenario.set(target, value)
        for target, changes in self.changes.items():
            scenario.drive(target, changes)
        return RunRequest(
            scenario, self.seed, until=self.until, compile=self.compile, engine=self.engine
        )


class _Place:
    def __init__(self, initial: InitialValue) -> None:
        signal, where = initial.signals[initial.name], initial.signals.slice(initial.name)
        self._initial, self._vectors, self._at = initial, initial.vectors, where.start
        self._scalar = where.stop - where.start == 1
        self._low, self._high = signal.low, signal.high

    def write(self, value: object) -> None:
        if self._scalar and isinstance(value, float | int) and self._low <= value <= self._high:
            for vector in self._vectors:
                vector[self._at] = value
        else:
            self._initial.write(value)


class Started(NamedTuple):
    """A run that one stretch of compiled code will execute."""

    whole: WholeRun
    order: Order
    recorder: PooledRecorder
    until_ns: int
    sinks: list[Sink | None]


class ResetRuns:
    """Runs of a system that is reset before each run."""

    def __init__(self, scenario: Scenario, compile: Compilation, engine: str) -> None:
        self._scenario = scenario
        self._pool = TrackPool()
        self._system: System = scenario.build(compile=compile)
        for plant in self._system.plants:
            plant.unsolve()
        self._first = self._system.save()
        self._scheduled = self._system.changes
        self._first_values = FirstValues(self._system.plants)
        self._places = {name: _Place(one) for name, one in self._system.initials.items()}
        self._engine = engine
        self._compiled: CompiledEngine | None = None
        self._whole: WholeRun | None = None
        self._names: list[str] = []
        self._failed = 0
        """Number of successive failures to execute a run in compiled code alone."""
        self._until: tuple[Duration | None, int] = (None, scenario.until_ns)
        """The latest end of a run, as given and in ns."""
        self._certificates: dict[int, Certificate] = {}
        trace = Trace(self._system, PooledRecorder(self._pool, None), paced=False)
        if engine != INTERPRETED:
            self._load(trace)

    def _load(self, trace: Trace) -> None:
        engine = CompiledEngine(
            self._system, trace, Pacer(VirtualClock()), COMPILED, self._scenario.until_ns
        )
        if not engine.usable:
            return
        try:
            _ = engine.kernel
        except ModelError:
            if self._engine != AUTO:
                raise
            self._engine = INTERPRETED

    def takes(self, order: Order) -> bool:
        """Return whether the system can run ``order``; raise an error for an unknown name."""
        if order.until is not None and self._until_ns(order) >= EXACT_NS:
            return False
        for target, value in order.values.items():
            if target not in self._places or isinstance(value, str):
                self._scenario.settable_of(target)
                return False
        return order.changes.keys() <= self._system.changeable.keys()

    def _until_ns(self, order: Order) -> int:
        if order.until != self._until[0] or order.seed < 0:
            self._until = order.until, order.request().until_ns
        return self._until[1]

    def run(self, order: Order, begin: Begin) -> RunResult | None:
        """Execute the run in ``order``; ``begin`` returns a recorder.

        Returns ``None`` if the equations are not finite at the initial values.
        """
        started = self.start(order, begin)
        if started is not None:
            started.whole.run(started.until_ns, started.sinks)
            result = self.ended(started)
            if result is not None:
                return result
        return self.by_executive(order, begin)

    def _schedule(self, order: Order) -> None:
        if not order.changes:
            self._system.changes = self._scheduled
            return
        known = self._system.changeable
        kept = [one for one in self._scheduled if one.name not in order.changes]
        own = [
            known[target].change(ns, value)
            for target, changes in order.changes.items()
            for ns, value in changes
            if ns
        ]
        self._system.changes = sorted((*kept, *own), key=lambda one: (one.ns, one.name))

    def _write(self, order: Order) -> bool:
        for target, value in order.values.items():
            self._places[target].write(value)
        for target, changes in order.changes.items():
            if changes and not changes[0][0]:
                self._places[target].write(changes[0][1])
        return self._first_values.usable()

    # -- in one stretch

    def start(self, order: Order, begin: Begin) -> Started | None:
        """Prepare a run in one stretch; return ``None`` if impossible."""
        self._schedule(order)
        whole = self._one_stretch()
        if whole is None:
            return None
        until_ns = self._until_ns(order)
        recorder = begin(self._pool)
        recorder.check()
        self._system.streams.restart(order.seed)
        whole.reset()
        if not self._write(order):
            return None
        sinks: list[Sink | None] = [recorder.sink(name) for name in self._names]
        return Started(whole, order, recorder, until_ns, sinks)

    def ended(self, started: Started) -> RunResult | None:
        """Return the result of a run in one stretch, or ``None`` if the interpreter must run it."""
        whole, order, recorder, until_ns, _ = started
        tags = whole.tags
        system = self._system
        if tags is None:
            self._failed += 1
            if self._failed == _TRIES:
                self._whole = None
            return None
        self._failed = 0
        system.ns = whole.now_ns
        for change in system.changes:
            if change.ns <= system.ns:
                recorder.event(Tag(change.ns, 0), CHANGE, change.name, "", values_of(change))
        certificate = self._certificates.get(tags)
        if certificate is None:
            certificate = self._certified(tags)
        result = RunResult(
            RunEnding(system.ns, until_ns, "end", ""), whole.wall_ns, certificate,
            late=0, missed=0, system=system, recorder=recorder, ends=_ends(system),
            required=self._scenario.requirements,
        )  # fmt: skip
        recorder.about = lambda: (order.request().header(), footer_of(result, {}))
        return result

    def _certified(self, tags: int) -> Certificate:
        pacer = pacer_of(Order(self._scenario, 0, None, {}, True, AUTO).request(), self._system)
        found = replace(certify(pacer), engine=f"compiled: {tags} tags")
        if len(self._certificates) < 64:
            self._certificates[tags] = found
        return found

    # -- tag by tag

    def by_executive(self, order: Order, begin: Begin) -> RunResult | None:
        """Execute a run tag by tag; return ``None`` as :meth:`run` does."""
        recorder = begin(self._pool)
        recorder.check()
        self._schedule(order)
        request = replace(order.request(), engine=self._compiled_engine())
        system = self._system
        if self._whole is not None:
            self._whole.disturbed()
        system.restore(self._first)
        system.streams.restart(order.seed)
        if not self._write(order):
            return None
        for plant in system.plants:
            plant.sample()
        pacer = pacer_of(request, system)
        executive = Executive(
            system, pacer, recorder, request.until_ns, engine=self._compiled or request.engine,
        )  # fmt: skip
        recorder.start({})
        try:
            result = loop(request, executive, pacer, recorder)
        finally:
            recorder.release()
            self._compiled = executive.compiled_engine
        recorder.about = lambda: (order.request().header(), footer_of(result, {}))
        return result

    def _compiled_engine(self) -> str:
        return COMPILED if self._engine == AUTO else self._engine

    def _one_stretch(self) -> WholeRun | None:
        if self._whole is not None and self._whole.valid:
            return self._whole
        self._whole = None
        if self._failed >= _TRIES or self._compiled is None:
            return None
        table = self._compiled.whole()
        if table is not None:
            self._system.restore(self._first)
            self._whole = WholeRun(self._compiled, table)
            self._names = self._whole.names
        return self._whole


class LaneRuns:
    """Runs of equal systems, each in one lane of a pass."""

    def __init__(self, resets: Sequence[ResetRuns]) -> None:
        self._resets = resets
        self._pass: LanePass | None = None
        self.alone: dict[str, str] = {}
        self.together = 0
        """Number of runs that shared a pass with other runs."""

    def run(self, orders: Sequence[tuple[Order, Begin]]) -> list[RunResult | None]:
        """Execute at most one run for each lane.

        A result is ``None`` if the run needs another attempt.
        """
        started = [
            resets.start(order, begin)
            for resets, (order, begin) in zip(self._resets, orders, strict=False)
        ]
        ready = [one for one in started if one is not None]
        if len(ready) < len(started) or (len(ready) < len(self._resets) and self._pass is None):
            # The first run of each system is executed tag by tag.
            return [
                resets.run(order, begin)
                for resets, (order, begin) in zip(self._resets, orders, strict=False)
            ]
        wholes = [one.whole for one in ready]
        if self._pass is None or self._pass.runs[: len(wholes)] != wholes:
            if len(wholes) < len(self._resets):
                return [None] * len(orders)
            self._pass = LanePass(wholes)
            self.alone = self._pass.alone
        for one in ready:
            one.whole.begin(one.until_ns, one.sinks)
        self._pass.run()
        self.together += len(ready)
        return [resets.ended(one) for resets, one in zip(self._resets, ready, strict=False)]


def number_of_lanes(lanes: int | str) -> int:
    """Return the number of lanes; raise ``ScenarioError`` for an impossible one."""
    if lanes == "auto":
        return native_width()
    if lanes not in (1, *WIDTHS):
        choices = ", ".join(map(str, (1, *WIDTHS)))
        raise ScenarioError(f"lanes is {lanes!r}; give {choices} or 'auto'")
    return int(lanes)


class ManyRun(NamedTuple):
    """One run of :meth:`Prepared.run_many`; :meth:`Prepared.run_into` explains the fields."""

    begin: Begin
    seed: int = 0
    set: Values | None = None
    until: Duration | None = None
    changes: Changes | None = None


def finished(result: RunResult) -> RunResult:
    """Return ``result``, or raise its error."""
    if result.reason == "interrupted":
        raise Interrupted
    if result.ends is None:
        result = replace(result, ends=_ends(result.system))
    return result.checked()


def _ends(system: System) -> dict[str, Vector]:
    return {name: port.value.copy() for name, port in system.ports.items()}


Recorded = bool | Collection[str]


def prepare(
    scenario: Scenario,
    *,
    compile: Compilation = True,
    engine: str = AUTO,
    lanes: int | Literal["auto"] = 1,
) -> Prepared:
    """Prepare ``scenario`` for many runs in this process; :class:`Prepared` has the arguments."""
    return Prepared(scenario, compile=compile, engine=engine, lanes=lanes)


class Prepared:
    """A scenario for many runs; use the object in one thread only.

    :attr:`rebuilt` names the components that cannot be reset: controllers in other processes,
    external inputs, SimPy processes, faults, and components that are not
    :meth:`~rtsim.scenario.Component.resettable`.  If there are any, each run builds the scenario
    again, which is slower but gives the same results.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        compile: Compilation = True,
        engine: str = AUTO,
        lanes: int | Literal["auto"] = 1,
    ) -> None:
        """Build and compile ``scenario``; the arguments are those of ``simulate``.

        With ``engine="auto"``, the runs use the compiled engine if possible. ``lanes`` is the
        number of runs that :meth:`run_many` executes at once: 1, 2, 4 or 8. With ``"auto"``, it is
        the number of doubles in a vector register of this processor.
        """
        if engine not in ENGINES:
            raise ScenarioError(f"engine is {engine!r}; give one of {', '.join(ENGINES)}")
        self._scenario = scenario.copy()
        self._compile, self._engine = compile, engine
        self.rebuilt: tuple[str, ...] = _rebuilt(scenario)
        self._resets: ResetRuns | None = None
        if not self.rebuilt:
            self._resets = ResetRuns(self._scenario, compile, engine)
        self._lanes: LaneRuns | None = None
        self.lanes = 1 if self._resets is None else number_of_lanes(lanes)
        """Number of runs that :meth:`run_many` executes at once."""

    def run_many(self, runs: Iterable[ManyRun]) -> Iterator[RunResult]:
        """Run the scenario for each element of ``runs``, and yield the results in the same order.

        Each result equals that of a single run exactly. A result must be used before the next one
        is requested, because later runs use the same recorders and systems.
        """
        waiting = iter(runs)
        while pack := list(islice(waiting, self.lanes)):
            orders = [(self._order(one.seed, one.set, one.until, one.changes), one.begin)
                      for one in pack]  # fmt: skip
            found = self._many(orders) if len(pack) > 1 else [None] * len(pack)
            for (order, begin), result in zip(orders, found, strict=True):
                yield self._one(order, begin) if result is None else result

    def _many(self, orders: Sequence[tuple[Order, Begin]]) -> Sequence[RunResult | None]:
        if self._resets is None or not all(self._resets.takes(order) for order, _ in orders):
            return [None] * len(orders)
        if self._lanes is None:
            first = self._resets
            others = (
                ResetRuns(self._scenario, self._compile, self._engine) for _ in range(1, self.lanes)
            )
            self._lanes = LaneRuns([first, *others])
        return self._lanes.run(orders)

    @property
    def alone(self) -> dict[str, str]:
        """Parts that :meth:`run_many` has computed run by run, with the reasons."""
        return {} if self._lanes is None else dict(self._lanes.alone)

    @property
    def together(self) -> int:
        """Number of runs that :meth:`run_many` has executed at once with others."""
        return 0 if self._lanes is None else self._lanes.together

    def run(
        self,
        *,
        seed: int = 0,
        set: Values | None = None,
        until: Duration | None = None,
        record: Recorded = True,
    ) -> RunResult:
        """Run the scenario once, and return the result.

        Ctrl-C raises :class:`KeyboardInterrupt`.  Other errors are those of ``simulate`` and
        :meth:`Scenario.set`; an error does not affect the next run.  Unless the scenario is
        built again, all results share one object ``system`` with the state of the latest run.

        Args:
            seed: Seed of all random streams.
            set: Values for this run only, by ``"component.name"``, as for :meth:`Scenario.set`.
            until: End of the run, s. The default is the end of the scenario.
            record: True keeps all rows, False keeps none, and a list of track names keeps these
                tracks. ``result.final`` works in each case.
        """
        only = None if record is True else () if record is False else tuple(record)
        found = self.run_into(
            lambda pool: PooledRecorder(pool, only), seed=seed, set=set, until=until
        )
        return finished(found)

    def run_into(
        self,
        begin: Begin,
        *,
        seed: int = 0,
        set: Values | None = None,
        until: Duration | None = None,
        changes: Changes | None = None,
    ) -> RunResult:
        """Run the scenario once with another recorder; ``run`` describes the other arguments.

        ``changes`` contains scheduled changes for this run, in the form of ``Scenario.drive``.

        ``begin`` is called for each attempt and returns a recorder; ``result.recorder`` is the last
        one. Wrong values raise the errors of :meth:`run`. The result also contains an error or an
        interrupt that ended the run.
        """
        return self._one(self._order(seed, set, until, changes), begin)

    def _order(
        self, seed: int, set: Values | None, until: Duration | None, changes: Changes | None
    ) -> Order:
        return Order(
            self._scenario, seed, until, dict(set or {}), self._compile, self._engine,
            dict(changes or {}),
        )  # fmt: skip

    def _one(self, order: Order, begin: Begin) -> RunResult:
        result = None
        if self._resets is not None and self._resets.takes(order):
            result = self._resets.run(order, begin)
        return self._anew(order, begin) if result is None else result

    def _anew(self, order: Order, begin: Begin) -> RunResult:
        recorder = begin(TrackPool())
        result = run(replace(order.request(), output=Output(recorder)))
        recorder.release()
        recorder.check()
        return result


def _rebuilt(scenario: Scenario) -> tuple[str, ...]:
    components = sorted(scenario.components.items())
    found = (name for name, one in components if not one.resettable() or any(_unsaved(one)))
    return (*found, *(fault.name for fault in scenario.declared_faults))


def _unsaved(component: Component) -> Iterator[str]:
    for value in getattr(component, "__dict__", {}).values():
        if hasattr(value, "delays"):
            yield from not_saved(value)
