"""The Adams-Bashforth-Moulton method, of order 4: predict, evaluate, correct, evaluate.

A step takes two evaluations where RK4 takes four.  The method needs the derivatives at three
earlier points at equal intervals.  RK4 takes the steps to these points: at the start, after each
discontinuity, and after a step of another length.  Source: Hairer, Norsett, Wanner, Solving
Ordinary Differential Equations I, section III.1, (1.5) and (1.9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.evaluation import first_not_finite
from rtsim.equations.model import BoundModel
from rtsim.solve.base import Stepper
from rtsim.solve.explicit import LAYOUT as EXPLICIT_LAYOUT
from rtsim.solve.explicit import explicit_arrays, explicit_step
from rtsim.solve.resident import Method, stepper
from rtsim.solve.rk4 import RK4

KNOWN, LENGTH, HISTORY = 0, 1, 2
"""Elements of the solver memory: the number of earlier derivatives, the time between them (s), and
the first element of the derivatives themselves, of which the latest comes first.
"""
PAST = 3
"""The number of earlier derivatives that the method needs."""
SAME_S = 1.5e-9
"""Steps whose lengths differ by no more than this (s) count as equal.

If a sample period is not a whole number of ns, the lengths of steps differ by up to 1 ns."""

LAYOUT = EXPLICIT_LAYOUT.extended(
    "an Adams-Bashforth-Moulton step",
    memory=(f"{HISTORY} + {PAST} * states",),
    after=(f"{HISTORY} + {PAST} * states",),
    now=("states",),
)
"""The arrays of a step.

``a`` to ``y``: the arrays of RK4; ``now``: the derivative at the beginning of the step.
"""
AT = LAYOUT.at


@in_both
def adams_step(words: Any, t: float, h: float) -> int:
    """Compute ``out`` from ``x`` over one step of length ``h`` s.

    ``words`` is an argument table of :data:`LAYOUT`.

    Returns :data:`GOOD`, or the index of the first element of ``out`` that is not finite.
    """
    f, project = words[AT.f], words[AT.project]
    x, out, y = vector_at(words, AT.x), vector_at(words, AT.out), vector_at(words, AT.y)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    memory, after = vector_at(words, AT.memory), vector_at(words, AT.after)
    k, now = matrix_at(words, AT.k), vector_at(words, AT.now)
    n = x.size
    known = int(memory[KNOWN])
    if abs(h - memory[LENGTH]) > SAME_S:
        known = 0
    if known < PAST:
        bad = explicit_step(words, t, h)
        for j in range(n):
            now[j] = k[0, j]
    else:
        call_equation(f, t, x, z, u, p, now)
        first, second, third = HISTORY, HISTORY + n, HISTORY + 2 * n
        for j in range(n):
            past = -59.0 * memory[first + j] + 37.0 * memory[second + j] - 9.0 * memory[third + j]
            y[j] = x[j] + h / 24.0 * (55.0 * now[j] + past)
        call_equation(f, t + h, y, z, u, p, k[0])
        for j in range(n):
            past = 19.0 * now[j] - 5.0 * memory[first + j] + memory[second + j]
            out[j] = x[j] + h / 24.0 * (9.0 * k[0, j] + past)
        if project != 0:
            call_project(project, out)
        bad = first_not_finite(out)
    after[KNOWN] = min(known + 1, PAST)
    after[LENGTH] = h
    for j in range(n):
        after[HISTORY + j] = now[j]
        for i in range(1, PAST):
            after[HISTORY + i * n + j] = memory[HISTORY + (i - 1) * n + j]
    return bad


@dataclass(frozen=True)
class AdamsBashforthMoulton:
    """The fixed-step multistep solver ``abm4``."""

    name: str = "abm4"
    order: int = 4

    def stepper(self, bound: BoundModel) -> Stepper:
        n = bound.model.states.size
        own = {**explicit_arrays(RK4.tableau, n), "now": np.zeros(n)}
        return stepper(Method(adams_step, LAYOUT, own), bound)


ABM4 = AdamsBashforthMoulton()
"""The Adams-Bashforth-Moulton method, of order 4, with two evaluations per step."""
