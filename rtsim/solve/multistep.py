"""Adams-Bashforth-Moulton, fourth order, predict - evaluate - correct - evaluate.

Two evaluations a step where RK4 takes four.  It needs the derivatives at three points of the past,
equally far apart: RK4 makes them at the start, after every discontinuity, and after a step that was
cut short.  Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section
III.1, (1.5) and (1.9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import first_not_finite, in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.base import Stepper, lower_triangle, weights
from rtsim.solve.explicit import explicit_step
from rtsim.solve.resident import OWN, Method, head, stepper
from rtsim.solve.rk4 import RK4

KNOWN, LENGTH, HISTORY = 0, 1, 2
"""In the memory: how many derivatives of the past, how far apart (s), the latest first."""
PAST = 3
SAME_S = 1.5e-9
"""Steps of a period that is no whole number of ns differ by so much, and count as equal."""


@in_both
def adams_step(
    f: Any,
    project: Any,
    x: Any,
    z: Any,
    u: Any,
    p: Any,
    out: Any,
    memory: Any,
    after: Any,
    a: Any,
    b: Any,
    c: Any,
    k: Any,
    y: Any,
    now: Any,
    t: float,
    h: float,
) -> int:
    """One step of length ``h`` s; ``memory`` (2 + 3 n,) is of before it, ``after`` of its end."""
    n = x.size
    known = int(memory[KNOWN])
    if abs(h - memory[LENGTH]) > SAME_S:
        known = 0
    if known < PAST:
        bad = explicit_step(f, project, x, z, u, p, out, memory, after, a, b, c, k, y, t, h)
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


def resident_adams(words: Any, t: float, h: float) -> int:
    """:func:`adams_step` on a block; its own: RK4's a, b, c, then k, y, now."""
    f, project, x, z, u, p, out, memory, after = head(words)
    b = vector_at(words, OWN + 2)
    return adams_step(
        f, project, x, z, u, p, out, memory, after,
        matrix_at(words, OWN, b.size), b, vector_at(words, OWN + 4),
        matrix_at(words, OWN + 6, x.size), vector_at(words, OWN + 8), vector_at(words, OWN + 10),
        t, h,
    )  # fmt: skip


@dataclass(frozen=True)
class AdamsBashforthMoulton:
    """A fixed-step multistep solver."""

    name: str = "abm4"
    order: int = 4

    def stepper(self, bound: BoundModel) -> Stepper:
        n, table = bound.model.states.size, RK4.tableau
        coefficients = (lower_triangle(table.a), weights(table.b), weights(table.c))
        own = (*coefficients, np.zeros((len(table.b), n)), np.zeros(n), np.zeros(n))
        memory = HISTORY + PAST * n
        return stepper(Method(resident_adams, own, memory), bound)


ABM4 = AdamsBashforthMoulton()
