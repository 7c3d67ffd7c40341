"""Nystrom's fourth-order method for q'' = f(t, q, q').

The states must come in pairs: each position q has a velocity v declared with
``derivative_of="q"``.  Source: Kreyszig, Advanced Engineering Mathematics, section 21.3
(9th edition), which writes the method with half-step increments.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.evaluation import first_not_finite
from rtsim.equations.model import BoundModel, Model
from rtsim.solve.base import NystromTableau, Stepper, lower_triangle, weights
from rtsim.solve.resident import STEP_LAYOUT, Method, stepper

_NONE, _HALF, _ONE, _SIXTH, _THIRD = (Fraction(*f) for f in ((0,), (1, 2), (1,), (1, 6), (1, 3)))

RKN4_TABLEAU = NystromTableau(
    name="rkn4",
    order=4,
    abar=((), (Fraction(1, 8),), (Fraction(1, 8), _NONE), (_NONE, _NONE, _HALF)),
    a=((), (_HALF,), (_NONE, _HALF), (_NONE, _NONE, _ONE)),
    bbar=(_SIXTH, _SIXTH, _SIXTH, _NONE),
    b=(_SIXTH, _THIRD, _THIRD, _SIXTH),
    c=(_NONE, _HALF, _HALF, _ONE),
    source="Nystrom, Acta Soc. Sci. Fenn. 50 no. 13, 1925; Kreyszig, section 21.3",
)
"""Nystrom's method, of order 4."""


LAYOUT = STEP_LAYOUT.extended(
    "a Runge-Kutta-Nystrom step",
    pairs=("states",),
    abar=("stages", "stages"),
    a=("stages", "stages"),
    bbar=("stages",),
    b=("stages",),
    c=("stages",),
    k=("stages", "states"),
    y=("states",),
)
"""The arrays of a Nystrom step.

``pairs``: see :func:`paired_states`; ``abar`` to ``c``: the tableau; ``k``: derivatives at the
stages; ``y``: state at a stage.
"""
AT = LAYOUT.at


@in_both
def nystrom_step(words: Any, t: float, h: float) -> int:
    """Compute ``out`` from ``x`` over one step of length ``h`` s.

    ``words`` is an argument table of :data:`LAYOUT`.

    Returns :data:`GOOD`, or the index of the first element of ``out`` that is not finite.
    """
    f, project = words[AT.f], words[AT.project]
    x, out, y = vector_at(words, AT.x), vector_at(words, AT.out), vector_at(words, AT.y)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    abar, a, k = matrix_at(words, AT.abar), matrix_at(words, AT.a), matrix_at(words, AT.k)
    bbar, b, c = vector_at(words, AT.bbar), vector_at(words, AT.b), vector_at(words, AT.c)
    pairs = vector_at(words, AT.pairs)
    half = pairs.size // 2
    stages = b.size
    for i in range(stages):
        for j in range(half):
            q, v = int(pairs[j]), int(pairs[half + j])
            near, far = 0.0, 0.0
            for m in range(i):
                near += a[i, m] * k[m, v]
                far += abar[i, m] * k[m, v]
            y[q] = x[q] + c[i] * h * x[v] + h * h * far
            y[v] = x[v] + h * near
        call_equation(f, t + c[i] * h, y, z, u, p, k[i])
    for j in range(half):
        q, v = int(pairs[j]), int(pairs[half + j])
        near, far = 0.0, 0.0
        for m in range(stages):
            near += b[m] * k[m, v]
            far += bbar[m] * k[m, v]
        out[q] = x[q] + h * x[v] + h * h * far
        out[v] = x[v] + h * near
    if project != 0:
        call_project(project, out)
    return first_not_finite(out)


@dataclass(frozen=True)
class Nystrom:
    """A fixed-step solver for any :class:`NystromTableau`, for states in pairs."""

    tableau: NystromTableau

    @property
    def name(self) -> str:
        return self.tableau.name

    @property
    def order(self) -> int:
        return self.tableau.order

    def stepper(self, bound: BoundModel) -> Stepper:
        n, table = bound.model.states.size, self.tableau
        own = {
            "pairs": paired_states(bound.model, self.name),
            "abar": lower_triangle(table.abar),
            "a": lower_triangle(table.a),
            "bbar": weights(table.bbar),
            "b": weights(table.b),
            "c": weights(table.c),
            "k": np.zeros((len(table.b), n)),
            "y": np.zeros(n),
        }
        return stepper(Method(nystrom_step, LAYOUT, own), bound)


def paired_states(model: Model, solver: str) -> Vector:
    """Return the indices of all positions, then of their velocities in the same order: (n,).

    ``solver`` is the name that the error message uses.  Raises :class:`ScenarioError` for a state
    that belongs to no pair.
    """
    q: list[int] = []
    v: list[int] = []
    for signal in model.states:
        if signal.derivative_of:
            where, rate = model.states.slice(signal.derivative_of), model.states.slice(signal.name)
            q.extend(range(where.start, where.stop))
            v.extend(range(rate.start, rate.stop))
    if sorted(q + v) != list(range(model.states.size)):
        alone = [c for i, c in enumerate(model.states.columns) if i not in {*q, *v}]
        raise ScenarioError(
            f"{solver} needs each position paired with its velocity, but model {model.name} does "
            "not pair "
            f"{', '.join(alone) or 'its states one to one'}; "
            'declare Signal("v", derivative_of="q"), or use rk4'
        )
    return np.array([*q, *v], dtype=np.float64)


RKN4 = Nystrom(RKN4_TABLEAU)
"""Nystrom's method, of order 4, for states in pairs of a position and its velocity."""
