"""A kind of component: it counts how often its input was above a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rtsim import Signals
from rtsim.components.bus import Topic
from rtsim.components.ports import SignalPort, Source, Wiring
from rtsim.components.tasks import Environment, Ticking
from rtsim.core.signals import Vector
from rtsim.core.tag import Period, Tag
from rtsim.scenario import Built, Component, Settable
from rtsim.scenario.component import Others, changeable

INPUTS, LIMITS, OUTPUTS = Signals("u [1]"), Signals("limit [1]"), Signals("count [1]")


class CountTask(Ticking):
    """Looks at the input every period."""

    def __init__(self, name: str, period: Period, wiring: Wiring, limits: Vector) -> None:
        super().__init__(name, period, 0, 0)
        self._wiring, self._limits, self._count = wiring, limits, 0.0

    def react(self, tag: Tag, environment: Environment) -> None:
        self._wiring.gather()
        self._count += self._wiring.into[0] > self._limits[0]
        environment.send(self.name, tag, tag, np.array([self._count]))

    def save(self) -> dict[str, Any]:
        return {**super().save(), "count": self._count}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self._count = saved["count"]


@dataclass
class Counter(Component):
    """What a scenario declares of a counter."""

    inputs: dict[str, Source]
    period_s: float
    limits: dict[str, Any] = field(default_factory=dict)

    kind = "counter"

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return OUTPUTS

    def settable(self) -> list[Settable]:
        return [Settable(self.limits, LIMITS, live=True), Settable(self.inputs, INPUTS)]

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "period_s": self.period_s}

    def build(self, name: str, site: Any) -> Built:
        wiring = site.wiring(INPUTS.initial(), INPUTS, self.inputs, name)
        limits = LIMITS.initial(self.limits)
        return Built(
            port=SignalPort(name, OUTPUTS, OUTPUTS.initial()),
            topic=Topic(name, name, OUTPUTS),
            tasks=[CountTask(name, Period.of(self.period_s), wiring, limits)],
            wiring=wiring,
            changeable=changeable(name, LIMITS, limits),
        )
