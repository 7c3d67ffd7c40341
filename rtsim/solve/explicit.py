"""Fixed-step explicit Runge-Kutta methods: one loop for every tableau."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.evaluation import first_not_finite
from rtsim.equations.model import BoundModel
from rtsim.solve.base import Stepper, Tableau, lower_triangle, weights
from rtsim.solve.resident import STEP_LAYOUT, Method, stepper

LAYOUT = STEP_LAYOUT.extended(
    "an explicit Runge-Kutta step",
    a=("stages", "stages"),
    b=("stages",),
    c=("stages",),
    k=("stages", "states"),
    y=("states",),
)
"""The arrays of an explicit step.

``a``, ``b``, ``c``: the tableau; ``k``: derivatives at the stages; ``y``: state at a stage.
"""
AT = LAYOUT.at


@in_both
def add_slopes(out: Any, x: Any, h: float, weights: Any, k: Any, count: int) -> None:
    """Write to ``out`` (n,) ``x`` plus ``h`` times the weighted sum of the first rows of ``k``.

    ``count`` is the number of rows; ``out`` is none of the other arrays.  The states are the inner
    loop, which the compiler vectorises.
    """
    for j in range(x.size):
        out[j] = 0.0
    for m in range(count):
        weight, slopes = weights[m], k[m]
        for j in range(x.size):
            out[j] += weight * slopes[j]
    for j in range(x.size):
        out[j] = x[j] + h * out[j]


@in_both
def explicit_step(words: Any, t: float, h: float) -> int:
    """Compute ``out`` from ``x`` over one step of length ``h`` s.

    ``words`` is an argument table of :data:`LAYOUT`.

    Returns :data:`GOOD`, or the index of the first element of ``out`` that is not finite.
    """
    f, project = words[AT.f], words[AT.project]
    x, out, y = vector_at(words, AT.x), vector_at(words, AT.out), vector_at(words, AT.y)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    a, b, c = matrix_at(words, AT.a), vector_at(words, AT.b), vector_at(words, AT.c)
    k = matrix_at(words, AT.k)
    call_equation(f, t, x, z, u, p, k[0])
    for i in range(1, b.size):
        add_slopes(y, x, h, a[i], k, i)
        call_equation(f, t + c[i] * h, y, z, u, p, k[i])
    add_slopes(out, x, h, b, k, b.size)
    if project != 0:
        call_project(project, out)
    return first_not_finite(out)


@dataclass(frozen=True)
class ExplicitRungeKutta:
    """A fixed-step solver for any explicit :class:`Tableau`."""

    tableau: Tableau

    @property
    def name(self) -> str:
        return self.tableau.name

    @property
    def order(self) -> int:
        return self.tableau.order

    def stepper(self, bound: BoundModel) -> Stepper:
        return stepper(
            Method(explicit_step, LAYOUT, explicit_arrays(self.tableau, bound.model.states.size)),
            bound,
        )


def explicit_arrays(tableau: Tableau, n: int) -> dict[str, Any]:
    """Return the arrays that :data:`LAYOUT` adds to those of every solver, for ``n`` states."""
    return {
        "a": lower_triangle(tableau.a),
        "b": weights(tableau.b),
        "c": weights(tableau.c),
        "k": np.zeros((len(tableau.b), n)),
        "y": np.zeros(n),
    }
