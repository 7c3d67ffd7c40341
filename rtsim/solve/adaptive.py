"""Adaptive solvers, which choose the length of each step by an estimate of its error.

An embedded pair of Runge-Kutta methods estimates the error.  Between two tags an adaptive solver
takes as many steps as its tolerance needs; the last step ends at the tag.  The rule for the step
length is that of Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.4:
an estimate of the first step, a safety factor, bounds on growth and shrinkage, and no growth after
a rejected step.

A ``budget`` limits the evaluations of the derivative in a solver frame, which is one step of the
plant on its own grid.  Tags and events that divide a frame do not add to its budget.  If the budget
is used up, the solver uses the declared fallback and counts each use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel
from rtsim.solve.adaptive_step import (
    BUDGET,
    EVALUATIONS,
    EXPONENT,
    FIRST,
    KNOWN,
    LAYOUT,
    LEAST,
    MOST,
    MOST_STEPS,
    REJECTED,
    RTOL,
    SAFETY,
    STEP,
    STEPS,
    STOPS,
    UNBOUNDED,
    adaptive_leg,
    new_frame,
    resident_adaptive,
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
    """The error that each step may have: ``rtol`` times the size of a state, plus ``atol``.

    ``atol`` is in the unit of the state: one value for all states, or a mapping from names of
    states to values.  ``most_steps`` is the number of steps, also rejected ones, that the solver
    may take from one tag to the next; with more, the run ends with an error.  Raises
    :class:`ScenarioError` unless each tolerance is finite and > 0, and ``most_steps`` >= 1.
    """

    rtol: float = 1e-6
    atol: float | Mapping[str, float] = 1e-9
    most_steps: int = field(default=100_000, kw_only=True)

    @property
    def implicit(self) -> bool:
        """True if stiffness does not limit the steps of the solver."""
        return False

    def __post_init__(self) -> None:
        if not self.most_steps >= 1:
            raise ScenarioError(
                f"most_steps = {self.most_steps} is not valid; give a number of steps >= 1, or "
                "math.inf for no limit"
            )
        for name, value in (("rtol", self.rtol), *self._absolute().items()):
            if not (math.isfinite(value) and value > 0):
                raise ScenarioError(
                    f"{name} = {value} is not a valid tolerance; give a finite number > 0"
                )

    def _absolute(self) -> dict[str, float]:
        given = self.atol
        return dict(given) if isinstance(given, Mapping) else {"atol": given}

    def of_states(self, bound: BoundModel) -> Vector:
        """Return ``atol`` of each element of the state (n,); 1e-9 if no value is given for a state.

        Raises :class:`UnknownName` for a name that is not a state of the model.
        """
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
"""The actions of an adaptive solver whose budget is used up."""


@dataclass(frozen=True)
class Adaptive(StepTolerance):
    """An adaptive solver for any :class:`EmbeddedTableau`.

    - ``first``: length of the first step (s); 0: the solver estimates it.
    - ``least``: shortest step (s).  If the tolerance needs a shorter step, the run ends with an
      error.  Only a step that ends at a tag may be shorter.
    - ``most``: longest step (s).
    - ``safety``: factor between 0 and 1 on the length of the next step.
    - ``budget``: evaluations of the derivative per frame; ``None``: no limit.
    - ``fallback``: what happens if the budget is used up: ``"step"`` takes a single step to each
      next tag, ``"stop"`` ends the run with an error.

    Raises :class:`ScenarioError` for a value outside its range.
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
                f"least = {self.least} and most = {self.most} are not valid steps; give 0 <= "
                "least < most, in s"
            )
        if not (math.isfinite(self.first) and self.first >= 0):
            raise ScenarioError(
                f"first = {self.first} is not valid; give a first step > 0 s, or 0 to let the "
                "solver estimate the first step"
            )
        if not 0 < self.safety < 1:
            raise ScenarioError(
                f"safety = {self.safety} is not valid; give a factor between 0 and 1"
            )
        needed = 2 * len(self.tableau.b) + 1
        if self.budget is not None and self.budget < needed:
            raise ScenarioError(
                f"budget = {self.budget} evaluations per solver frame is too small: "
                f"{self.tableau.name} needs at least {needed}"
            )
        if self.fallback not in FALLBACKS:
            raise ScenarioError(
                f"fallback = {self.fallback!r} is unknown; give one of {', '.join(FALLBACKS)}"
            )

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
        settings = np.zeros(MOST_STEPS + 1)
        settings[RTOL], settings[SAFETY] = self.rtol, self.safety
        settings[LEAST], settings[MOST], settings[FIRST] = self.least, self.most, self.first
        settings[EXPONENT], settings[STOPS] = 1 / (table.lower + 1), self.fallback == "stop"
        settings[BUDGET] = math.inf if self.budget is None else self.budget
        settings[MOST_STEPS] = self.most_steps
        k, now = np.zeros((len(table.b), n)), np.zeros(n)
        dense = np.array([[float(w) for w in row] for row in table.dense])
        own = {
            "a": lower_triangle(table.a),
            "c": weights(table.c),
            "error": table.error_weights,
            "atol": self.of_states(bound),
            "settings": settings,
            "k": k,
            "now": now,
            "work": np.zeros(n),
            "dense": dense,
        }
        inner = Inner(adaptive_leg, resident_retake, now, k, dense)
        return stepper(
            Method(
                resident_adaptive,
                LAYOUT,
                own,
                kept=KNOWN,
                unbounded=None if self.budget is None else UNBOUNDED,
                inner=inner,
                new_frame=new_frame,
            ),
            bound,
        )


DP54 = Adaptive(tableau=DP54_TABLEAU)
"""The pair of Dormand and Prince, of order 5 with an estimate of order 4: ``dp54``."""
BS32 = Adaptive(tableau=BS32_TABLEAU)
"""The pair of Bogacki and Shampine, of order 3 with an estimate of order 2: ``bs32``."""
