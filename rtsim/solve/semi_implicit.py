"""Semi-implicit Euler for q' = v: the new velocity moves the position.

First order, and symplectic where the acceleration depends on positions alone: the energy of an
orbit wavers and does not drift.  The states must come in pairs, as for Nystrom's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.equations.addresses import call_equation, call_project, vector_at
from rtsim.equations.compiling import first_not_finite, in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.base import Stepper
from rtsim.solve.resident import OWN, Method, head, stepper
from rtsim.solve.rkn4 import paired_states


@in_both
def semi_implicit_step(
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
    k: Any,
    t: float,
    h: float,
) -> int:
    """One step of length ``h`` s; ``pairs`` (2 m,): indices into ``x`` of all q, then of all v."""
    half = pairs.size // 2
    call_equation(f, t, x, z, u, p, k)
    for j in range(half):
        q, v = int(pairs[j]), int(pairs[half + j])
        out[v] = x[v] + h * k[v]
        out[q] = x[q] + h * out[v]
    if project != 0:
        call_project(project, out)
    return first_not_finite(out)


def resident_semi_implicit(words: Any, t: float, h: float) -> int:
    """:func:`semi_implicit_step` on a block; its own: pairs, k."""
    f, project, x, z, u, p, out, memory, after = head(words)
    return semi_implicit_step(
        f, project, x, z, u, p, out, memory, after,
        vector_at(words, OWN), vector_at(words, OWN + 2), t, h,
    )  # fmt: skip


@dataclass(frozen=True)
class SemiImplicitEuler:
    """A fixed-step solver for paired states."""

    name: str = "semi_implicit_euler"
    order: int = 1

    def stepper(self, bound: BoundModel) -> Stepper:
        own = (paired_states(bound.model, self.name), np.zeros(bound.model.states.size))
        return stepper(Method(resident_semi_implicit, own), bound)


SEMI_IMPLICIT_EULER = SemiImplicitEuler()
