"""Nystrom's fourth-order method for q'' = f(t, q, q').

The states must come in pairs: for each q one v declared ``derivative_of="q"``.  Source: Kreyszig,
Advanced Engineering Mathematics, section 21.3 (9th edition), there with half-step increments.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import first_not_finite, in_both
from rtsim.equations.model import BoundModel, Model
from rtsim.solve.base import NystromTableau, Stepper, lower_triangle, weights
from rtsim.solve.resident import OWN, Method, head, stepper

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


@in_both
def nystrom_step(
    f: Any,
    project: Any,
    x: Any,
    z: Any,
    u: Any,
    p: Any,
    out: Any,
    memory: Any,  # noqa: ARG001
    after: Any,  # noqa: ARG001
    pairs: Any,
    abar: Any,
    a: Any,
    bbar: Any,
    b: Any,
    c: Any,
    k: Any,
    y: Any,
    t: float,
    h: float,
) -> int:
    """One step of length ``h`` s; ``pairs`` (2 m,): indices into ``x`` of all q, then of all v.

    Returns -1, or the index of the first element of ``out`` that is not finite.
    """
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


def resident_nystrom(words: Any, t: float, h: float) -> int:
    """:func:`nystrom_step` on a block; its own: pairs, abar, a, bbar, b, c, k, y."""
    f, project, x, z, u, p, out, memory, after = head(words)
    b = vector_at(words, OWN + 8)
    return nystrom_step(
        f, project, x, z, u, p, out, memory, after, vector_at(words, OWN),
        matrix_at(words, OWN + 2, b.size), matrix_at(words, OWN + 4, b.size),
        vector_at(words, OWN + 6), b, vector_at(words, OWN + 10),
        matrix_at(words, OWN + 12, x.size), vector_at(words, OWN + 14), t, h,
    )  # fmt: skip


@dataclass(frozen=True)
class Nystrom:
    """A fixed-step solver from a :class:`NystromTableau`."""

    tableau: NystromTableau

    @property
    def name(self) -> str:
        return self.tableau.name

    @property
    def order(self) -> int:
        return self.tableau.order

    def stepper(self, bound: BoundModel) -> Stepper:
        n, table = bound.model.states.size, self.tableau
        squares = (lower_triangle(table.abar), lower_triangle(table.a))
        rows = (weights(table.bbar), weights(table.b), weights(table.c))
        work = (np.zeros((len(table.b), n)), np.zeros(n))
        pairs = paired_states(bound.model, self.name)
        own = (pairs, *squares, *rows, *work)
        return stepper(Method(resident_nystrom, own), bound)


def paired_states(model: Model, solver: str) -> Vector:
    """Indices of the positions, then of their velocities, element by element: (2 m,)."""
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
