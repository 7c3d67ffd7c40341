"""Solvers with one fixed step from each tag to the next.

- Explicit Runge-Kutta methods: ``euler``, ``midpoint``, ``rk4``, or any other tableau.
- ``abm4`` is the multistep method of Adams, Bashforth and Moulton.
- Nystrom's method ``rkn4`` for q'' = f(t, q, q'), and the semi-implicit Euler method. Two methods
  need pairs of states: the velocity of a position ``q`` is declared with ``derivative_of="q"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.equations.calls import call_at
from rtsim.equations.compiling import in_both
from rtsim.equations.model import BoundModel, Model
from rtsim.solve.base import NystromTableau, Stepper, Tableau, lower_triangle, weights
from rtsim.solve.internal_steps import STEP_LAYOUT, Method, projected
from rtsim.solve.linear_algebra import moved
from rtsim.solve.resident import stepper

EXPLICIT_LAYOUT = STEP_LAYOUT.extended(
    "an explicit Runge-Kutta step",
    a=("stages", "stages"),
    b=("stages",),
    c=("stages",),
    k=("stages", "states"),
    y=("states",),
)
"""The arrays of an explicit step.

``a``, ``b`` and ``c`` are the tableau.  ``k`` contains the derivatives at the stages; ``y`` is the
state at one stage.
"""


@in_both
def explicit_step(words: Any, t: float, h: float) -> int:
    """Compute one step of an explicit Runge-Kutta method from ``x`` to ``out``, of length ``h`` s.

    The table ``words`` has the layout ``EXPLICIT_LAYOUT``. Returns :data:`GOOD`, or the index of
    the first element of ``out`` that is not finite.
    """
    f, x, out, y, a, b, c = words.f, words.x, words.out, words.y, words.a, words.b, words.c
    k = words.k
    call_at(words, f, t, x, k[0])
    for i in range(1, b.size):
        moved(y, x, h, a[i], k, i)
        call_at(words, f, t + c[i] * h, y, k[i])
    moved(out, x, h, b, k, b.size)
    return projected(words, out)


@dataclass(frozen=True)
class _OfTableau:
    tableau: Any
    plain_bits: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return str(self.tableau.name)

    @property
    def order(self) -> int:
        return int(self.tableau.order)


@dataclass(frozen=True)
class ExplicitRungeKutta(_OfTableau):
    """A fixed-step solver for any explicit :class:`Tableau`."""

    tableau: Tableau

    def stepper(self, bound: BoundModel) -> Stepper:
        own = explicit_arrays(self.tableau)
        return stepper(Method(explicit_step, EXPLICIT_LAYOUT, own), bound)


def explicit_arrays(tableau: Tableau | NystromTableau) -> dict[str, Any]:
    a, b, c = tableau.a, tableau.b, tableau.c
    return {"a": lower_triangle(a), "b": weights(b), "c": weights(c)}


_ZERO, _ONE = Fraction(0), Fraction(1)
_HALF, _THIRD, _SIXTH, _EIGHTH = (Fraction(1, n) for n in (2, 3, 6, 8))

EULER = ExplicitRungeKutta(
    Tableau(
        name="euler",
        order=1,
        a=((),),
        b=(_ONE,),
        c=(_ZERO,),
        source="Euler, Institutionum calculi integralis, 1768, section 650",
    )
)
"""Euler's method, of order 1, with one evaluation per step."""


MIDPOINT = ExplicitRungeKutta(
    Tableau(
        name="midpoint",
        order=2,
        a=((), (_HALF,)),
        b=(_ZERO, _ONE),
        c=(_ZERO, _HALF),
        source="Runge, Mathematische Annalen 46, 1895, p. 167",
    )
)
"""The explicit midpoint method, of order 2, with two evaluations per step."""


RK4 = ExplicitRungeKutta(
    Tableau(
        name="rk4",
        order=4,
        a=((), (_HALF,), (_ZERO, _HALF), (_ZERO, _ZERO, _ONE)),
        b=(_SIXTH, _THIRD, _THIRD, _SIXTH),
        c=(_ZERO, _HALF, _HALF, _ONE),
        source="Kutta, Zeitschrift fuer Mathematik und Physik 46, 1901, p. 443",
    )
)
"""The classical Runge-Kutta method, of order 4, with four evaluations per step."""


_KNOWN, _LENGTH, _HISTORY = 0, 1, 2
"""Indices in the solver memory: the number of stored derivatives, the time between two of them (s),
and the first of the derivatives, which are sorted from new to old.
"""
_PAST = 3
_SAME_S = 1.5e-9
"""Two steps are treated as equally long if their lengths differ by at most this time (s).

The lengths differ by up to 1 ns if the sample period is not a whole number of ns.
"""

ADAMS_LAYOUT = EXPLICIT_LAYOUT.extended(
    "an Adams-Bashforth-Moulton step",
    memory=(f"{_HISTORY} + {_PAST} * states",),
    after=(f"{_HISTORY} + {_PAST} * states",),
    now=("states",),
)
"""The arrays of an Adams-Bashforth-Moulton step.

``a`` to ``y`` are the arrays of an RK4 step, which starts the method.  ``now`` is the derivative at
the beginning of the step.
"""


@in_both
def adams_step(words: Any, t: float, h: float) -> int:
    """Compute one Adams-Bashforth-Moulton step of length ``h`` s from ``x`` to ``out``.

    The table ``words`` has the layout ``ADAMS_LAYOUT``. The first three steps are computed with
    RK4. Returns :data:`GOOD`, or the index of the first element of ``out`` that is not finite.
    """
    f, x, out, y, memory, after = words.f, words.x, words.out, words.y, words.memory, words.after
    k, now = words.k, words.now
    n = x.size
    known = int(memory[_KNOWN])
    if abs(h - memory[_LENGTH]) > _SAME_S:
        known = 0
    if known < _PAST:
        bad = explicit_step(words, t, h)
        for j in range(n):
            now[j] = k[0, j]
    else:
        call_at(words, f, t, x, now)
        first, second, third = _HISTORY, _HISTORY + n, _HISTORY + 2 * n
        for j in range(n):
            past = -59.0 * memory[first + j] + 37.0 * memory[second + j] - 9.0 * memory[third + j]
            y[j] = x[j] + h / 24.0 * (55.0 * now[j] + past)
        call_at(words, f, t + h, y, k[0])
        for j in range(n):
            past = 19.0 * now[j] - 5.0 * memory[first + j] + memory[second + j]
            out[j] = x[j] + h / 24.0 * (9.0 * k[0, j] + past)
        bad = projected(words, out)
    after[_KNOWN] = min(known + 1, _PAST)
    after[_LENGTH] = h
    for j in range(n):
        after[_HISTORY + j] = now[j]
        for i in range(1, _PAST):
            after[_HISTORY + i * n + j] = memory[_HISTORY + (i - 1) * n + j]
    return bad


@dataclass(frozen=True)
class AdamsBashforthMoulton:
    name: str = "abm4"
    order: int = 4
    plain_bits: ClassVar[bool] = True

    def stepper(self, bound: BoundModel) -> Stepper:
        own = explicit_arrays(RK4.tableau)
        return stepper(Method(adams_step, ADAMS_LAYOUT, own), bound)


ABM4 = AdamsBashforthMoulton()
"""The Adams-Bashforth-Moulton method, of order 4, with two evaluations per step."""


RKN4_TABLEAU = NystromTableau(
    name="rkn4",
    order=4,
    abar=((), (_EIGHTH,), (_EIGHTH, _ZERO), (_ZERO, _ZERO, _HALF)),
    a=((), (_HALF,), (_ZERO, _HALF), (_ZERO, _ZERO, _ONE)),
    bbar=(_SIXTH, _SIXTH, _SIXTH, _ZERO),
    b=(_SIXTH, _THIRD, _THIRD, _SIXTH),
    c=(_ZERO, _HALF, _HALF, _ONE),
    source="Nystrom, Acta Soc. Sci. Fenn. 50 no. 13, 1925; Kreyszig, section 21.3",
)


NYSTROM_LAYOUT = EXPLICIT_LAYOUT.extended(
    "a Runge-Kutta-Nystrom step",
    pairs=("states",),
    abar=("stages", "stages"),
    bbar=("stages",),
)
"""The arrays of a Nystrom step.

:func:`paired_states` returns ``pairs``.  ``abar`` and ``bbar`` are the coefficients of the
positions.
"""


@in_both
def nystrom_step(words: Any, t: float, h: float) -> int:
    """Compute one Runge-Kutta-Nystrom step of length ``h`` s from ``x`` to ``out``.

    The table ``words`` has the layout ``NYSTROM_LAYOUT``. Returns :data:`GOOD`, or the index of the
    first element of ``out`` that is not finite.
    """
    f, x, out, y, abar, a, k = words.f, words.x, words.out, words.y, words.abar, words.a, words.k
    bbar, b, c, pairs = words.bbar, words.b, words.c, words.pairs
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
        call_at(words, f, t + c[i] * h, y, k[i])
    for j in range(half):
        q, v = int(pairs[j]), int(pairs[half + j])
        near, far = 0.0, 0.0
        for m in range(stages):
            near += b[m] * k[m, v]
            far += bbar[m] * k[m, v]
        out[q] = x[q] + h * x[v] + h * h * far
        out[v] = x[v] + h * near
    return projected(words, out)


@dataclass(frozen=True)
class Nystrom(_OfTableau):
    """A fixed-step solver with any ``NystromTableau``; the states must be pairs q and dq/dt."""

    tableau: NystromTableau

    def stepper(self, bound: BoundModel) -> Stepper:
        own = {
            **explicit_arrays(self.tableau),
            "pairs": paired_states(bound.model, self.name),
            "abar": lower_triangle(self.tableau.abar),
            "bbar": weights(self.tableau.bbar),
        }
        return stepper(Method(nystrom_step, NYSTROM_LAYOUT, own), bound)


def paired_states(model: Model, solver: str) -> Vector:
    """Return the indices of all positions, then the indices of their velocities, shape (n,).

    Positions and velocities have the same order. Error messages contain the name of the solver,
    ``solver``. Raises ``ScenarioError`` for a state without a partner.
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
"""Nystrom's method, of order 4, for positions that are paired with their velocities."""


PAIRED_LAYOUT = STEP_LAYOUT.extended("a semi-implicit Euler step", pairs=("states",), k=("states",))
"""The arrays of a semi-implicit Euler step.

:func:`paired_states` returns ``pairs``.  ``k`` is the derivative at ``x``.
"""


@in_both
def semi_implicit_step(words: Any, t: float, h: float) -> int:
    """Compute one semi-implicit Euler step from ``x`` to ``out``, of length ``h`` s.

    The table ``words`` has the layout ``PAIRED_LAYOUT``. Returns :data:`GOOD`, or the index of the
    first element of ``out`` that is not finite.
    """
    x, out, pairs, k = words.x, words.out, words.pairs, words.k
    half = pairs.size // 2
    call_at(words, words.f, t, x, k)
    for j in range(half):
        q, v = int(pairs[j]), int(pairs[half + j])
        out[v] = x[v] + h * k[v]
        out[q] = x[q] + h * out[v]
    return projected(words, out)


@dataclass(frozen=True)
class SemiImplicitEuler:
    name: str = "semi_implicit_euler"
    order: int = 1
    plain_bits: ClassVar[bool] = True

    def stepper(self, bound: BoundModel) -> Stepper:
        own = {"pairs": paired_states(bound.model, self.name)}
        return stepper(Method(semi_implicit_step, PAIRED_LAYOUT, own), bound)


SEMI_IMPLICIT_EULER = SemiImplicitEuler()
"""The semi-implicit Euler method, of order 1, for positions that are paired with their velocities.

Source: Hairer, Lubich, Wanner, Geometric Numerical Integration, chapter I.
"""
