"""Steps as long as a tolerance allows: an embedded pair estimates the error of each.

Between two tags it takes as many steps as it needs, the last one cut to end at the tag.  The rule
for the next step is that of Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I,
section II.4: the estimate of the first step, a safety factor, bounds on growing and shrinking, no
growth after a step that was rejected.

With a ``budget`` a frame, one step of the plant on its own grid, has so many evaluations, however
often it is cut by tags and events.  Where they do not suffice the declared fallback takes over;
each use of it is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel
from rtsim.solve import legs
from rtsim.solve.adaptive_step import (
    BUDGET,
    EVALUATIONS,
    EXPONENT,
    FIRST,
    KNOWN,
    LEAST,
    MOST,
    REJECTED,
    RTOL,
    SAFETY,
    SLOPE,
    STEP,
    STEPS,
    STOPS,
    UNBOUNDED,
    new_frame,
    resident_adaptive,
    resident_leg,
    resident_retake,
)
from rtsim.solve.base import EmbeddedTableau, Stepper, lower_triangle, weights
from rtsim.solve.embedded import BS32_TABLEAU, DP54_TABLEAU
from rtsim.solve.resident import Inner, Method, stepper

__all__ = [
    "BS32",
    "DP54",
    "EVALUATIONS",
    "REJECTED",
    "STEP",
    "STEPS",
    "UNBOUNDED",
    "Adaptive",
    "StepTolerance",
]


@dataclass(frozen=True)
class StepTolerance:
    """The tolerated error of a step: ``rtol`` times the size of a state, plus ``atol``.

    ``atol`` is in the state's unit: one value for all states, or a value for each state by name.
    """

    rtol: float = 1e-6
    atol: float | Mapping[str, float] = 1e-9

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), *self._absolute().items()):
            if not (math.isfinite(value) and value > 0):
                raise ScenarioError(f"{name} = {value}; a tolerance must be a finite number > 0")

    def _absolute(self) -> dict[str, float]:
        given = self.atol
        return dict(given) if isinstance(given, Mapping) else {"atol": given}

    def of_states(self, bound: BoundModel) -> Vector:
        """``atol`` of each element (n,); states that are not named have 1e-9."""
        states = bound.model.states
        if not isinstance(self.atol, Mapping):
            return np.full(states.size, float(self.atol))
        out = np.full(states.size, 1e-9)
        for name, value in self.atol.items():
            if name not in states:
                raise UnknownName("state", name, states.names, f"model {bound.model.name}")
            out[states.slice(name)] = value
        return out


FALLBACKS = ("step", "stop")


@dataclass(frozen=True)
class Adaptive(StepTolerance):
    """An adaptive solver from an :class:`EmbeddedTableau`; lengths of steps in s.

    ``first``: the first step, else estimated.  ``least``: where it is too long for the tolerance
    the run ends; only what is left before a tag is shorter.  ``most``: none is longer.  ``budget``:
    evaluations that a frame has; ``fallback``: what follows where they are used up, ``"step"``, one
    step to each next tag, or ``"stop"``, an error.
    """

    tableau: EmbeddedTableau = DP54_TABLEAU
    first: float = 0.0
    least: float = 0.0
    most: float = math.inf
    safety: float = 0.9
    budget: int | None = None
    fallback: str = "step"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.least < self.most:
            raise ScenarioError(
                f"least = {self.least}, most = {self.most}; give 0 <= least < most (s)"
            )
        if not (math.isfinite(self.first) and self.first >= 0):
            raise ScenarioError(
                f"first = {self.first}; give a first step > 0 s, or 0 to estimate it"
            )
        if not 0 < self.safety < 1:
            raise ScenarioError(f"safety = {self.safety}; give a factor between 0 and 1")
        needed = 2 * len(self.tableau.b) + 1
        if self.budget is not None and self.budget < needed:
            raise ScenarioError(
                f"budget = {self.budget} evaluations per frame; {self.tableau.name} needs at "
                f"least {needed}"
            )
        if self.fallback not in FALLBACKS:
            raise ScenarioError(f"fallback = {self.fallback!r}; give one of {', '.join(FALLBACKS)}")

    @property
    def name(self) -> str:
        said = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.name != "tableau" and getattr(self, f.name) != f.default
        ]
        return self.tableau.name + (f"({', '.join(said)})" if said else "")

    @property
    def order(self) -> int:
        return self.tableau.order

    def stepper(self, bound: BoundModel) -> Stepper:
        n, table = bound.model.states.size, self.tableau
        settings = np.zeros(FIRST + 1)
        settings[RTOL], settings[SAFETY] = self.rtol, self.safety
        settings[LEAST], settings[MOST], settings[FIRST] = self.least, self.most, self.first
        settings[EXPONENT], settings[STOPS] = 1 / (table.lower + 1), self.fallback == "stop"
        settings[BUDGET] = math.inf if self.budget is None else self.budget
        off = weights(tuple(b - hat for b, hat in zip(table.b, table.hat, strict=True)))
        coefficients = (lower_triangle(table.a), weights(table.c), off)
        k, now, notes = np.zeros((len(table.b), n)), np.zeros(n), np.zeros(legs.NOTES)
        dense = np.array([[float(w) for w in row] for row in table.dense])
        own = (*coefficients, self.of_states(bound), settings, k, now, np.zeros(n), notes, dense)
        inner = Inner(resident_leg, resident_retake, now, notes, k, dense)
        return stepper(
            Method(
                resident_adaptive,
                own,
                memory=SLOPE + n,
                kept=KNOWN,
                unbounded=None if self.budget is None else UNBOUNDED,
                inner=inner,
                new_frame=new_frame,
            ),
            bound,
        )


DP54 = Adaptive(tableau=DP54_TABLEAU)
BS32 = Adaptive(tableau=BS32_TABLEAU)
