"""Upper bound of the data age and the reaction time along a chain, by analysis.

The bound is the sum over all stages of period, worst response and worst transport latency; a
triggered stage adds no period.  Each stage samples the latest value of the stage before it, so that
one sum bounds both the data age and the reaction time.  If an assumption does not hold, the result
is a reason instead of a figure.

Source:
    A. Davare, Q. Zhu, M. Di Natale, C. Pinello, S. Kanajan and A. Sangiovanni-Vincentelli: Period
    optimization for hard real-time distributed automotive systems.  Design Automation Conference,
    2007, pp. 278-283.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rtsim.components.latency import Duplicate, Loss, Reorder, SerialLine
from rtsim.components.medium import SharedTransport
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import FINISH
from rtsim.core.tag import NS_PER_S
from rtsim.record.ages import Ages, Stage
from rtsim.requirements.chains import Chain
from rtsim.scenario.component import Component, readable
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent, SensorComponent
from rtsim.schedules.messages import message_rows
from rtsim.schedules.response_times import Bounds, TaskAnalysis, analyse, latency_bounds


class Term(NamedTuple):
    """What one stage adds to the bound of its chain, ns."""

    stage: str
    period: int
    """Longest time between two samples; 0 for a triggered stage."""
    response: int
    """Longest time from the tick or the trigger to the answer."""
    transport: int
    """Longest time from the answer to its arrival."""

    @property
    def ns(self) -> int:
        return self.period + self.response + self.transport


@dataclass(frozen=True)
class ChainBound:
    """The bound of one chain, or the reason why it is not known."""

    chain: Chain
    terms: tuple[Term, ...]
    reason: str = ""

    @property
    def ns(self) -> int | None:
        """Upper bound of the data age and of the reaction time, ns."""
        return None if self.reason else sum(term.ns for term in self.terms)


@dataclass(frozen=True)
class ChainRow:
    """One chain: its bound, and its ages in a run."""

    bound: ChainBound
    ages: Ages | None
    """None without a run."""

    def to_json(self) -> dict[str, Any]:
        ns, ages = self.bound.ns, self.ages
        return {
            "name": self.bound.chain.name,
            "chain": list(self.bound.chain.elements),
            "bound_s": None if ns is None else ns / NS_PER_S,
            "reason": self.bound.reason,
            "terms": [
                {
                    "stage": one.stage, "period_s": one.period / NS_PER_S,
                    "response_s": one.response / NS_PER_S, "transport_s": one.transport / NS_PER_S,
                }
                for one in self.bound.terms
            ],
            "simulated": None if ages is None else ages.to_json(),
        }  # fmt: skip


class _NoBound(Exception):
    """An assumption of the analysis does not hold; the message is the reason."""


def chain_bound(scenario: Scenario, chain: Chain, processors: Sequence[Processor]) -> ChainBound:
    """Return the bound of ``chain`` in ``scenario``.

    ``processors`` are those of a system that the scenario built. Raises :class:`ScenarioError` if
    an element of the chain does not read the element before it.
    """
    stages = scenario.chain_stages(chain)
    try:
        if scenario.declared_faults:
            raise _NoBound("the faults of the scenario can delay or lose messages")
        return ChainBound(chain, _Terms(scenario, processors).of(stages))
    except _NoBound as why:
        return ChainBound(chain, (), str(why))


class _Terms:
    """The terms of the stages of one chain."""

    def __init__(self, scenario: Scenario, processors: Sequence[Processor]) -> None:
        self._scenario = scenario
        self._components: Mapping[str, Component] = scenario.components
        self._tasks: dict[str, tuple[TaskAnalysis, str]] = {}
        """Analysis of each task, and its reaction to a missed deadline."""
        for processor in processors:
            missed = {task.name: task.missed for task in processor.tasks}
            for one in analyse(processor):
                self._tasks[one.name] = one, missed[one.name]

    def of(self, stages: Sequence[Stage]) -> tuple[Term, ...]:
        terms: list[Term] = []
        shortest = 0
        """Shortest time between two arrivals of the stage before, ns."""
        before = ""
        for stage in stages:
            component = self._components[stage.name]
            if not isinstance(component, SensorComponent | ControllerComponent):
                raise _NoBound(f"{stage.name} has no period")
            response = self._response(stage.name, component)
            transport = self._transport(stage.name, component)
            assert response.longest is not None
            assert transport.longest is not None
            varies = response.longest - response.shortest + transport.longest - transport.shortest
            longest = response.longest
            if component.period is None:
                assert isinstance(component, ControllerComponent)
                _check_trigger(stage.name, component, before, longest, shortest)
                terms.append(Term(stage.name, 0, longest, transport.longest))
                shortest -= varies
            else:
                period = component.period.ns
                if longest > period and stage.name not in self._tasks:
                    raise _NoBound(
                        f"{stage.name} can miss ticks, because it can compute longer than a period"
                    )
                terms.append(Term(stage.name, math.ceil(period), longest, transport.longest))
                shortest = math.floor(period) - varies
            before = stage.name
        return tuple(terms)

    def _response(self, name: str, component: SensorComponent | ControllerComponent) -> Bounds:
        if isinstance(component, SensorComponent):
            return Bounds(0, 0)
        if component.outside:
            raise _NoBound(f"{name} computes outside the simulation, and its answer can be late")
        if component.options is None:
            compute = latency_bounds(component.compute)
            if compute.longest is None:
                raise _NoBound(f"the compute latency of {name} has no limit")
            return compute
        one, missed = self._tasks[name]
        if one.response is None:
            raise _NoBound(f"the response time of {name} is not known: {one.reason}")
        if one.response > one.deadline and missed != FINISH:
            raise _NoBound(f"{name} can miss its deadline, and then leaves out answers")
        return Bounds(0, one.response)

    def _transport(self, name: str, component: SensorComponent | ControllerComponent) -> Bounds:
        model = component.transport
        inner: object = model
        while inner is not None:
            for kind, problem in _PROBLEMS.items():
                if isinstance(inner, kind):
                    raise _NoBound(f"messages of {name} can {problem}")
            inner = getattr(inner, "inner", None)
        if not model.ordered:
            raise _NoBound(f"messages of {name} can overtake each other")
        if isinstance(model, SharedTransport):
            return self._on_medium(name)
        if isinstance(model, SerialLine):
            size = 8 * readable(component, self._components).size
            (ns,) = model.delays(None, size)  # type: ignore[arg-type]
            return Bounds(ns, ns)
        found = latency_bounds(model)
        if found.longest is None:
            raise _NoBound(f"the transport latency of {name} has no limit")
        return found

    def _on_medium(self, name: str) -> Bounds:
        row = next(one for one in message_rows(self._scenario, None) if one.sender == name)
        if row.worst is None:
            raise _NoBound(f"the latency of {name} on {row.medium} is not known: {row.reason}")
        return Bounds(0, row.worst)


_PROBLEMS: dict[type, str] = {
    Loss: "be lost", Reorder: "overtake each other", Duplicate: "arrive twice",
}  # fmt: skip


def _check_trigger(
    name: str, component: ControllerComponent, before: str, longest: int, shortest: int
) -> None:
    """Check that each message of the stage ``before`` triggers a computation."""
    if not before:
        raise _NoBound(f"{name} is triggered, so the time between its samples is not known")
    if before not in component.on:
        raise _NoBound(f"{name} reads {before}, but is triggered by {', '.join(component.on)}")
    if longest and (len(component.on) > 1 or longest > shortest):
        raise _NoBound(f"{name} can miss a trigger, because it can still compute when one comes")
