"""Rosenbrock methods: compiled solvers for stiff equations with error control and dense output.

The Jacobian is that of :mod:`rtsim.solve.quotients`, and its factors those of
:mod:`rtsim.solve.band`: a band in the order of states in which it is narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.equations.model import BoundModel
from rtsim.solve.adaptive import StepTolerance
from rtsim.solve.adaptive_step import EXPONENT, FIRST, LEAST, MOST, MOST_STEPS, RTOL, SAFETY
from rtsim.solve.base import Stepper
from rtsim.solve.quotients import matrix_arrays
from rtsim.solve.resident import Inner, Method, stepper
from rtsim.solve.rosenbrock_step import (
    GAMMA,
    KEPT,
    LAYOUT,
    resident_rosenbrock,
    rosenbrock_leg,
    rosenbrock_step,
)
from rtsim.solve.rosenbrock_tableaus import RODAS5P_TABLEAU, RosenbrockTableau, triangle


@dataclass(frozen=True)
class Rosenbrock(StepTolerance):
    """An adaptive solver for stiff equations, for any :class:`RosenbrockTableau`.

    - ``first``: length of the first step (s); 0: the solver estimates it.
    - ``least``: shortest step (s).  If the tolerance needs a shorter step, the run ends with an
      error.  Only a step that ends at a tag may be shorter.
    - ``most``: longest step (s).
    - ``safety``: factor between 0 and 1 on the length of the next step.

    Raises :class:`ScenarioError` for a value outside its range; its steppers raise it for a model
    with delays, and for a Jacobian whose factors need too much memory.
    """

    tableau: RosenbrockTableau = RODAS5P_TABLEAU
    first: float = 0.0
    least: float = 0.0
    most: float = math.inf
    safety: float = 0.9
    most_steps: int = field(default=100_000, kw_only=True)

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

    @property
    def implicit(self) -> bool:
        return True

    def stepper(self, bound: BoundModel) -> Stepper:
        model, table = bound.model, self.tableau
        if bound.history is not None:
            raise ScenarioError(
                f"solver {self.name} cannot integrate model {model.name}, which has delays; use "
                "dp54, bs32, or a solver with a fixed step such as rk4"
            )
        n, stages = model.states.size, len(table.b)
        atol = self.of_states(bound)
        settings = np.zeros(GAMMA + 1)
        settings[RTOL], settings[SAFETY] = self.rtol, self.safety
        settings[LEAST], settings[MOST], settings[FIRST] = self.least, self.most, self.first
        settings[EXPONENT], settings[GAMMA] = 1 / (table.lower + 1), table.gamma
        settings[MOST_STEPS] = self.most_steps
        k, now, dense = np.zeros((stages, n)), np.zeros(n), table.dense_weights
        own = {
            "a": triangle(table.a),
            "b": np.array(table.b),
            "c": np.array(table.c),
            "d": np.array(table.d),
            "e": triangle(table.e),
            "error": table.error_weights,
            "dense": dense,
            "atol": atol,
            "settings": settings,
            "k": k,
            "now": now,
            **{name: np.zeros(n) for name in ("work", "drift", "right")},
            **matrix_arrays(bound, atol / self.rtol),
        }
        inner = Inner(rosenbrock_leg, rosenbrock_step, now, k, dense)
        return stepper(
            Method(resident_rosenbrock, LAYOUT, own, kept=KEPT, inner=inner, by_address=True),
            bound,
        )


RODAS5P = Rosenbrock(tableau=RODAS5P_TABLEAU)
"""The Rosenbrock method Rodas5P of order 5 with an estimate of order 4: ``rodas5p``."""
