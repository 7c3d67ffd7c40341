"""The semi-implicit Euler method for q' = v, which advances the position with the new velocity.

The method has order 1.  It is symplectic if the acceleration depends on positions alone: the energy
of an orbit then oscillates but does not drift.  The states must come in pairs of a position and its
velocity, as for Nystrom's method (:mod:`rtsim.solve.rkn4`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.equations.addresses import call_equation, call_project, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.evaluation import first_not_finite
from rtsim.equations.model import BoundModel
from rtsim.solve.base import Stepper
from rtsim.solve.resident import STEP_LAYOUT, Method, stepper
from rtsim.solve.rkn4 import paired_states

LAYOUT = STEP_LAYOUT.extended("a semi-implicit Euler step", pairs=("states",), k=("states",))
"""The arrays of a step.

``pairs``: see :func:`rtsim.solve.rkn4.paired_states`; ``k``: the derivative at ``x``.
"""
AT = LAYOUT.at


@in_both
def semi_implicit_step(words: Any, t: float, h: float) -> int:
    """Advance the state by one semi-implicit Euler step of ``h`` s.

    ``words`` is an argument table of :data:`LAYOUT`: ``x`` is the state, and the new state
    goes to its array ``out``.
    """
    project = words[AT.project]
    x, out, pairs = vector_at(words, AT.x), vector_at(words, AT.out), vector_at(words, AT.pairs)
    z, u, p, k = (vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p),
                  vector_at(words, AT.k))  # fmt: skip
    half = pairs.size // 2
    call_equation(words[AT.f], t, x, z, u, p, k)
    for j in range(half):
        q, v = int(pairs[j]), int(pairs[half + j])
        out[v] = x[v] + h * k[v]
        out[q] = x[q] + h * out[v]
    if project != 0:
        call_project(project, out)
    return first_not_finite(out)


@dataclass(frozen=True)
class SemiImplicitEuler:
    """The fixed-step solver ``semi_implicit_euler``, for states in pairs."""

    name: str = "semi_implicit_euler"
    order: int = 1

    def stepper(self, bound: BoundModel) -> Stepper:
        pairs = paired_states(bound.model, self.name)
        own = {"pairs": pairs, "k": np.zeros(bound.model.states.size)}
        return stepper(Method(semi_implicit_step, LAYOUT, own), bound)


SEMI_IMPLICIT_EULER = SemiImplicitEuler()
"""The semi-implicit Euler method, of order 1, for states in pairs of a position and its velocity.

Source: Hairer, Lubich, Wanner, Geometric Numerical Integration, chapter I.
"""
