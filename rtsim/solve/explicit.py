"""Fixed-step explicit Runge-Kutta: one loop over any tableau."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import first_not_finite, in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.base import Stepper, Tableau, lower_triangle, weights
from rtsim.solve.resident import OWN, Method, head, stepper


@in_both
def explicit_step(
    f: Any,
    project: Any,
    x: Any,
    z: Any,
    u: Any,
    p: Any,
    out: Any,
    memory: Any,  # noqa: ARG001
    after: Any,  # noqa: ARG001
    a: Any,
    b: Any,
    c: Any,
    k: Any,
    y: Any,
    t: float,
    h: float,
) -> int:
    """One step of length ``h`` s: ``x`` (n,) to ``out`` (n,); ``k`` (s, n) and ``y`` (n,) are work.

    Returns -1, or the index of the first element of ``out`` that is not finite.
    """
    n = x.size
    stages = b.size
    call_equation(f, t, x, z, u, p, k[0])
    for i in range(1, stages):
        for j in range(n):
            total = 0.0
            for m in range(i):
                total += a[i, m] * k[m, j]
            y[j] = x[j] + h * total
        call_equation(f, t + c[i] * h, y, z, u, p, k[i])
    for j in range(n):
        total = 0.0
        for m in range(stages):
            total += b[m] * k[m, j]
        out[j] = x[j] + h * total
    if project != 0:
        call_project(project, out)
    return first_not_finite(out)


def resident_explicit(words: Any, t: float, h: float) -> int:
    """:func:`explicit_step` on a block; its own: a, b, c, k, y."""
    f, project, x, z, u, p, out, memory, after = head(words)
    b = vector_at(words, OWN + 2)
    return explicit_step(
        f, project, x, z, u, p, out, memory, after,
        matrix_at(words, OWN, b.size), b, vector_at(words, OWN + 4),
        matrix_at(words, OWN + 6, x.size), vector_at(words, OWN + 8), t, h,
    )  # fmt: skip


@dataclass(frozen=True)
class ExplicitRungeKutta:
    """A fixed-step solver from a :class:`Tableau`."""

    tableau: Tableau

    @property
    def name(self) -> str:
        return self.tableau.name

    @property
    def order(self) -> int:
        return self.tableau.order

    def stepper(self, bound: BoundModel) -> Stepper:
        n, tableau = bound.model.states.size, self.tableau
        coefficients = (lower_triangle(tableau.a), weights(tableau.b), weights(tableau.c))
        work = (np.zeros((len(tableau.b), n)), np.zeros(n))
        return stepper(Method(resident_explicit, (*coefficients, *work)), bound)
