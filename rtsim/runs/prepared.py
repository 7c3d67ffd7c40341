"""Prepared runs: a scenario that is built once and run many times, with other values and seeds.

A run in the same process needs no compilation, no import, no file, and no new build of what can be
put back into its first state.  Every result equals that of ``simulate``, bit for bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from rtsim.components.latency_state import not_saved
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Duration
from rtsim.engine.compiled.stretch import AUTO, ENGINES
from rtsim.equations.compiling import Compilation
from rtsim.record.recorders import Begin, PooledRecorder, TrackPool
from rtsim.runs.request import Output
from rtsim.runs.reset_runs import Order, ResetRuns, Values, finished
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import run
from rtsim.scenario.component import Component
from rtsim.scenario.scenario import Scenario

Recorded = bool | Collection[str]


def prepare(scenario: Scenario, *, compile: Compilation = True, engine: str = AUTO) -> Prepared:
    """Return ``scenario`` ready for many runs in this process."""
    return Prepared(scenario, compile=compile, engine=engine)


class Prepared:
    """A scenario that is ready to run many times; see :meth:`run`.  Use it in one thread only.

    :attr:`rebuilt` names the components that cannot be put back into their first state, such as
    controllers in other processes, external inputs, SimPy processes, faults, and kinds of
    components that are not :meth:`~rtsim.scenario.Component.resettable`.  If there are any, each
    run builds the scenario anew: slower, but with the same results.

        prepared = prepare(scenario)
        for seed in range(1000):
            result = prepared.run(seed=seed, set={"plant.gain": 2.0}, record=False)
            print(result.final("plant.x"))
    """

    def __init__(
        self, scenario: Scenario, *, compile: Compilation = True, engine: str = AUTO
    ) -> None:
        """Build and compile ``scenario``; the arguments have the meaning that they have in
        ``simulate``.  ``engine="auto"`` compiles the engine if that is possible.
        """
        if engine not in ENGINES:
            raise ScenarioError(f"engine is {engine!r}; give one of {', '.join(ENGINES)}")
        self._scenario = scenario.copy()
        self._compile, self._engine = compile, engine
        self.rebuilt: tuple[str, ...] = _rebuilt(scenario)
        self._resets: ResetRuns | None = None
        if not self.rebuilt:
            self._resets = ResetRuns(self._scenario, compile, engine)

    def run(
        self,
        *,
        seed: int = 0,
        set: Values | None = None,
        until: Duration | None = None,
        record: Recorded = True,
    ) -> RunResult:
        """Run once and return the result, as ``simulate`` does with a :class:`MemoryRecorder`.

        ``set``: values for this run alone, by ``"component.name"``, as :meth:`Scenario.set` takes
        them.  ``until``: end of the run, s (default: the scenario's own).  ``record``: keep all
        rows, none (``False``), or those of the tracks with these names; ``result.final`` works in
        each case.  ``result.system`` is shared by all runs, and belongs to the latest one.

        Raises what ``simulate`` and :meth:`Scenario.set` raise; the next run is not affected.
        Ctrl-C raises :class:`KeyboardInterrupt`.
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
    ) -> RunResult:
        """Run once into a recorder of the caller; the other arguments are those of :meth:`run`.

        ``begin`` is called for each attempt to run; ``result.recorder`` is the
        recorder that it returned for the last one.  An error that ended the run is in the result,
        and is not raised, as an interrupt is not; wrong values raise what :meth:`run` raises.
        """
        order = Order(self._scenario, seed, until, dict(set or {}), self._compile, self._engine)
        result = None
        if self._resets is not None and self._resets.takes(order):
            result = self._resets.run(order, begin)
        return self._anew(order, begin) if result is None else result

    def _anew(self, order: Order, begin: Begin) -> RunResult:
        """Build the scenario with these values, and run it."""
        recorder = begin(TrackPool())
        result = run(replace(order.request(), output=Output(recorder)))
        recorder.release()
        recorder.check()
        return result


def _rebuilt(scenario: Scenario) -> tuple[str, ...]:
    """Return what has no reset: the names of components, and of faults."""
    components = sorted(scenario.components.items())
    found = (name for name, one in components if not one.resettable() or any(_unsaved(one)))
    return (*found, *(fault.name for fault in scenario.declared_faults))


def _unsaved(component: Component) -> Iterator[str]:
    """Yield the attributes of the component's latency models that cannot be put back."""
    for value in getattr(component, "__dict__", {}).values():
        if hasattr(value, "delays"):
            yield from not_saved(value)
