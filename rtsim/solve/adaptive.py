"""Steps as long as a tolerance allows: an embedded pair estimates the error of each.

Between two tags it takes as many steps as it needs, the last one cut to end at the tag.  The rule
for the next step is that of Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I,
section II.4: the estimate of the first step, a safety factor, bounds on growing and shrinking, no
growth after a step that was rejected.

With a ``budget`` a frame takes so many evaluations at most: where they do not suffice, the rest of
the way is one step whose error nobody has bounded, and that is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rtsim.compiling import (
    call_equation,
    call_project,
    first_not_finite,
    in_both,
    matrix_at,
    vector_at,
)
from rtsim.errors import ScenarioError, UnknownName
from rtsim.model import BoundModel
from rtsim.signals import Vector
from rtsim.solve.base import TOO_SMALL, EmbeddedTableau, Stepper, lower_triangle, weights
from rtsim.solve.embedded import BS32_TABLEAU, DP54_TABLEAU
from rtsim.solve.resident import AFTER, MEMORY, OUT, OWN, PROJECT, F, Method, P, U, X, Z, stepper

STEP, EVALUATIONS, STEPS, REJECTED, UNBOUNDED, KNOWN, SLOPE = range(7)
"""In the memory: the next step (s), counts of the whole run, whether the derivative is known."""
RTOL, SAFETY, LEAST, MOST, EXPONENT, BUDGET, FIRST = range(7)
"""In the settings."""
_SHRINK, _GROW = 0.2, 10.0
_CLOSE = 1.01
"""A step that all but reaches the tag reaches it."""


@in_both
def error_norm(n: int, difference: Any, before: Any, behind: Any, atol: Any, rtol: float) -> float:
    """Root mean square of what each element is off, in units of what it may be off."""
    total = 0.0
    for j in range(n):
        scale = atol[j] + rtol * max(abs(before[j]), abs(behind[j]))
        total += (difference[j] / scale) ** 2
    return math.sqrt(total / n)


@in_both
def first_step(
    f: Any, t: float, x: Any, z: Any, u: Any, p: Any, k: Any, y: Any, e: Any, atol: Any,
    rtol: float, exponent: float,
) -> float:  # fmt: skip
    """An estimate of the first step (s); ``k[0]`` is the derivative at ``x``, ``k[1]`` is work."""
    n = x.size
    for j in range(n):
        e[j] = x[j]
    size = error_norm(n, e, x, x, atol, rtol)
    for j in range(n):
        e[j] = k[0, j]
    slope = error_norm(n, e, x, x, atol, rtol)
    h = 1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope
    for j in range(n):
        y[j] = x[j] + h * k[0, j]
    call_equation(f, t + h, y, z, u, p, k[1])
    for j in range(n):
        e[j] = (k[1, j] - k[0, j]) / h
    bend = max(slope, error_norm(n, e, x, x, atol, rtol))
    other = max(1e-6, 1e-3 * h) if bend <= 1e-15 else (0.01 / bend) ** exponent
    return min(100.0 * h, other)


@in_both
def embedded_step(
    f: Any, t: float, h: float, now: Any, z: Any, u: Any, p: Any, a: Any, c: Any, k: Any, out: Any
) -> None:  # fmt: skip
    """All stages but the first, which ``k[0]`` is: the last row of ``a`` makes ``out``."""
    n = now.size
    for i in range(1, c.size):
        for j in range(n):
            total = 0.0
            for m in range(i):
                total += a[i, m] * k[m, j]
            out[j] = now[j] + h * total
        call_equation(f, t + c[i] * h, out, z, u, p, k[i])


@in_both
def adaptive_step(
    f: Any, project: Any, x: Any, z: Any, u: Any, p: Any, out: Any, memory: Any, after: Any,
    a: Any, c: Any, e: Any, atol: Any, settings: Any, k: Any, now: Any, y: Any, t: float, h: float,
) -> int:  # fmt: skip
    """``x`` (n,) at ``t`` s to ``out`` (n,) ``h`` s later, within the tolerance."""
    n, stages = x.size, c.size
    rtol, exponent, budget = settings[RTOL], settings[EXPONENT], settings[BUDGET]
    smallest = max(settings[LEAST], 16 * 2.3e-16 * (abs(t) + h))
    for j in range(n):
        now[j] = x[j]
    for j in range(KNOWN):
        after[j] = memory[j]
    evaluations = 0
    if memory[KNOWN] != 0.0:
        for j in range(n):
            k[0, j] = memory[SLOPE + j]
    else:
        call_equation(f, t, now, z, u, p, k[0])
        evaluations += 1
    step, done, rejected = memory[STEP], 0.0, False
    if step == 0.0:
        step = settings[FIRST]
        if step == 0.0:
            step = first_step(f, t, x, z, u, p, k, y, out, atol, rtol, exponent)
            evaluations += 1
    cost = stages - 1 if project == 0 else stages
    while True:
        taken = min(settings[MOST], step)
        spent = 0.0 < budget < evaluations + 2 * cost  # this one, and none to take it again with
        last = spent or _CLOSE * taken >= h - done
        if last:
            taken = h - done
        embedded_step(f, t + done, taken, now, z, u, p, a, c, k, out)
        evaluations += stages - 1
        for j in range(n):
            total = 0.0
            for m in range(stages):
                total += e[m] * k[m, j]
            y[j] = taken * total
        error = error_norm(n, y, now, out, atol, rtol)
        if not np.isfinite(error):
            error = 1e30
        growth = _GROW if error == 0.0 else settings[SAFETY] * error ** (-exponent)
        growth = min(1.0 if rejected else _GROW, max(_SHRINK, growth))
        rejected = error > 1.0
        if rejected and not spent:
            after[REJECTED] += 1
            step = taken * growth
            if not step >= smallest:  # nor is NaN
                bad = first_not_finite(out)
                return bad if bad >= 0 else TOO_SMALL
            continue
        # a step that was cut to end at the tag says little of how long it might have been
        step = max(taken * growth, step) if last and not rejected else taken * growth
        after[STEPS] += 1
        if rejected:
            after[UNBOUNDED] += 1
        if project != 0:
            call_project(project, out)
        if last:
            break
        done += taken
        for j in range(n):
            now[j] = out[j]
            k[0, j] = k[stages - 1, j]
        if project != 0:
            call_equation(f, t + done, now, z, u, p, k[0])
            evaluations += 1
    after[STEP] = step
    after[EVALUATIONS] += evaluations
    after[KNOWN] = 0.0 if project != 0 else 1.0
    for j in range(n):
        after[SLOPE + j] = k[stages - 1, j]
    return first_not_finite(out)


def resident_adaptive(words: Any, t: float, h: float) -> int:
    """:func:`adaptive_step` on a block; its own: a, c, e, atol, settings, k, now, y."""
    x, c = vector_at(words, X), vector_at(words, OWN + 2)
    return adaptive_step(
        words[F],
        words[PROJECT],
        x,
        vector_at(words, Z),
        vector_at(words, U),
        vector_at(words, P),
        vector_at(words, OUT),
        vector_at(words, MEMORY),
        vector_at(words, AFTER),
        matrix_at(words, OWN, c.size),
        c,
        vector_at(words, OWN + 4),
        vector_at(words, OWN + 6),
        vector_at(words, OWN + 8),
        matrix_at(words, OWN + 10, x.size),
        vector_at(words, OWN + 12),
        vector_at(words, OWN + 14),
        t,
        h,
    )


@dataclass(frozen=True)
class Tolerance:
    """What an error may be: ``rtol`` times the size of a state, or ``atol`` where that is larger.

    ``atol`` in the state's unit: one for all, or by the name of the state.
    """

    rtol: float = 1e-6
    atol: float | Mapping[str, float] = 1e-9

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), *self._absolute().items()):
            if not (math.isfinite(value) and value > 0):
                raise ScenarioError(f"{name} = {value}; a tolerance is a number above 0")

    def _absolute(self) -> dict[str, float]:
        given = self.atol
        return dict(given) if isinstance(given, Mapping) else {"atol": given}

    def of_states(self, bound: BoundModel) -> Vector:
        """``atol`` of each element (n,); states that are not named have 1e-9."""
        states = bound.model.states
        if not isinstance(self.atol, Mapping):
            return np.full(states.size, float(self.atol))
        out = np.full(states.size, 1e-9)
        for name, value in self.atol.items():
            if name not in states:
                raise UnknownName("state", name, states.names, f"model {bound.model.name}")
            out[states.slice(name)] = value
        return out


@dataclass(frozen=True)
class Adaptive(Tolerance):
    """An adaptive solver from an :class:`EmbeddedTableau`; lengths of steps in s.

    ``first``: the first step, else estimated.  ``least``: shorter ones are an error.  ``most``:
    none is longer.  ``budget``: evaluations a frame takes at most.
    """

    tableau: EmbeddedTableau = DP54_TABLEAU
    first: float = 0.0
    least: float = 0.0
    most: float = math.inf
    safety: float = 0.9
    budget: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.least < self.most:
            raise ScenarioError(
                f"least = {self.least}, most = {self.most}; give 0 <= least < most (s)"
            )
        if not (math.isfinite(self.first) and self.first >= 0):
            raise ScenarioError(
                f"first = {self.first}; give a step in s, or 0 to have it estimated"
            )
        if not 0 < self.safety < 1:
            raise ScenarioError(f"safety = {self.safety}; give a factor between 0 and 1")
        needed = 2 * len(self.tableau.b) + 1
        if self.budget is not None and self.budget < needed:
            raise ScenarioError(
                f"a budget of {self.budget} evaluations a frame; {self.tableau.name} needs at "
                f"least {needed}"
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

    def stepper(self, bound: BoundModel) -> Stepper:
        n, table = bound.model.states.size, self.tableau
        settings = np.zeros(FIRST + 1)
        settings[RTOL], settings[SAFETY] = self.rtol, self.safety
        settings[LEAST], settings[MOST], settings[FIRST] = self.least, self.most, self.first
        settings[EXPONENT], settings[BUDGET] = 1 / (table.lower + 1), self.budget or 0
        off = weights(tuple(b - hat for b, hat in zip(table.b, table.hat, strict=True)))
        coefficients = (lower_triangle(table.a), weights(table.c), off)
        work = (np.zeros((len(table.b), n)), np.zeros(n), np.zeros(n))
        own = (*coefficients, self.of_states(bound), settings, *work)
        counted = None if self.budget is None else UNBOUNDED
        method = Method(adaptive_step, resident_adaptive, own, SLOPE + n, KNOWN, counted)
        return stepper(method, bound)


DP54 = Adaptive(tableau=DP54_TABLEAU)
BS32 = Adaptive(tableau=BS32_TABLEAU)
