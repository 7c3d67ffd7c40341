"""Nystrom's fourth-order method for q'' = f(t, q, q').

The states must come in pairs: for each q one v declared ``derivative_of="q"``.  Source: Kreyszig,
Advanced Engineering Mathematics, section 21.3 (9th edition), there with half-step increments.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from rtsim.compiling import (
    VECTOR,
    Native,
    call_equation,
    call_project,
    compile_function,
    first_not_finite,
)
from rtsim.errors import ScenarioError
from rtsim.model import BoundModel, Model
from rtsim.signals import Vector
from rtsim.solve.base import MemorylessStepper, NystromTableau, Stepper, lower_triangle, weights
from rtsim.solve.explicit import MATRIX, step_signature
from rtsim.tag import NS_PER_S

INDICES = types.Array(types.int64, 1, "C")
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


def nystrom_step(
    f: Any,
    project: Any,
    q: Any,
    v: Any,
    abar: Any,
    a: Any,
    bbar: Any,
    b: Any,
    c: Any,
    t: float,
    h: float,
    x: Any,
    z: Any,
    u: Any,
    p: Any,
    k: Any,
    y: Any,
    out: Any,
) -> int:
    """One step of length ``h`` s; ``q`` and ``v`` are the paired indices into ``x``.

    Returns -1, or the index of the first element of ``out`` that is not finite.
    """
    stages = b.size
    for i in range(stages):
        for j in range(q.size):
            near, far = 0.0, 0.0
            for m in range(i):
                near += a[i, m] * k[m, v[j]]
                far += abar[i, m] * k[m, v[j]]
            y[q[j]] = x[q[j]] + c[i] * h * x[v[j]] + h * h * far
            y[v[j]] = x[v[j]] + h * near
        call_equation(f, t + c[i] * h, y, z, u, p, k[i])
    for j in range(q.size):
        near, far = 0.0, 0.0
        for m in range(stages):
            near += b[m] * k[m, v[j]]
            far += bbar[m] * k[m, v[j]]
        out[q[j]] = x[q[j]] + h * x[v[j]] + h * h * far
        out[v[j]] = x[v[j]] + h * near
    if project != 0:
        call_project(project, out)
    return first_not_finite(out)


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

    @cached_property
    def _compiled(self) -> Native:
        signature = step_signature(INDICES, INDICES, MATRIX, MATRIX, VECTOR, VECTOR, VECTOR)
        return compile_function(nystrom_step, signature, f"solver {self.name}")

    def stepper(self, bound: BoundModel) -> Stepper:
        step = self._compiled.call if bound.compiled else nystrom_step
        return _NystromStepper(self.tableau, bound, step)


class _NystromStepper(MemorylessStepper):
    def __init__(self, tableau: NystromTableau, bound: BoundModel, step: Any) -> None:
        q, v = paired_states(bound.model)
        n = bound.model.states.size
        self._step = step
        self._fixed = (
            bound.derivative.handle,
            bound.project.handle,
            q,
            v,
            lower_triangle(tableau.abar),
            lower_triangle(tableau.a),
            weights(tableau.bbar),
            weights(tableau.b),
            weights(tableau.c),
        )
        self._work = (np.zeros((len(tableau.b), n)), np.zeros(n))

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        t, h = from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S
        return self._step(*self._fixed, t, h, x, z, u, p, *self._work, out)  # type: ignore[no-any-return]


def paired_states(model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the positions and of their velocities, element by element."""
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
            f"rkn4 needs pairs of q and v, but model {model.name} does not pair "
            f"{', '.join(alone) or 'its states one to one'}; "
            'declare Signal("v", derivative_of="q"), or use rk4'
        )
    return np.array(q, dtype=np.int64), np.array(v, dtype=np.int64)


RKN4 = Nystrom(RKN4_TABLEAU)
