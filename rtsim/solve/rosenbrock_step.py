"""The internal steps of a Rosenbrock method between two tags.

A Rosenbrock method solves one linear system for each stage; it needs no iteration.  All stages of a
step share one matrix.  Its factors are computed once for each step, its Jacobian once for each
state from which a step begins.

The rule for the step length is that of :mod:`rtsim.solve.adaptive_step`; a step also becomes
shorter if the errors of the last two steps rise.  Sources: Hairer, Wanner, Solving Ordinary
Differential Equations II, sections IV.7 and IV.8; Gustafsson, ACM Trans. Math. Software 20, 1994,
p. 496.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import call_equation, call_project, call_step, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.evaluation import first_not_finite
from rtsim.solve.adaptive_step import (
    CLOSE,
    EVALUATIONS,
    EXPONENT,
    FIRST,
    LEAST,
    MOST,
    MOST_STEPS,
    REJECTED,
    RTOL,
    SAFETY,
    STEP,
    STEPS,
    failed,
    first_step,
)
from rtsim.solve.band import factor, substitute
from rtsim.solve.base import GOOD, PAUSED, TOO_MANY, TOO_SMALL, WRONG_JACOBIAN
from rtsim.solve.legs import covered, pauses
from rtsim.solve.look import BEGAN, LAST, PHASE, SPENT, TAKEN, TRIED
from rtsim.solve.quotients import ABOVE, BELOW, NATURAL, jacobian, note_factors, note_sizes
from rtsim.solve.quotients import LAYOUT as WITH_JACOBIAN
from rtsim.solve.vectors import add, assign, error_norm

JACOBIANS, FACTORS, BEFORE, ERROR = 4, 5, 6, 7
"""Elements of the memory after those of an adaptive step, which this solver uses up to
``REJECTED``:

- ``JACOBIANS``, ``FACTORS``: the number of Jacobians and of factorisations of the whole run.
- ``BEFORE``, ``ERROR``: length (s) and error of the last step that no tag shortened, or 0.
"""
KEPT = BEFORE
"""The number of elements that ``Stepper.forget`` does not clear."""
GAMMA = MOST_STEPS + 1
"""Element of the array ``settings`` after those of an adaptive step."""

LAYOUT = WITH_JACOBIAN.extended(
    "a Rosenbrock step",
    memory=(ERROR + 1,),
    after=(ERROR + 1,),
    settings=(GAMMA + 1,),
    e=("stages", "stages"),
    b=("stages",),
    d=("stages",),
    drift=("states",),
    right=("states",),
)
"""The arrays of a Rosenbrock step.

``a``, ``e``, ``b``, ``c``, ``d``, ``error``: see
:class:`rtsim.solve.rosenbrock_tableaus.RosenbrockTableau`; ``drift``: the partial derivative of the
model's derivative by t; ``right``: right side of a stage in the order of the matrix.
"""
AT = LAYOUT.at
_SHRINK, _GROW = 0.2, 6.0
"""Least and greatest ratio of the length of a step to the length of the step before it."""
_EPSILON = 2.3e-16
_SHORTEST = 1e-15
"""Time (s) at which the shortest step is as short as at earlier times."""
_LEAST_ERROR = 1e-2
"""The least error of a step from which the error of the step after it is predicted."""


@in_both
def partial_by_time(words: Any, t: float, h: float) -> None:
    """Fill ``drift`` at ``t`` s and ``now`` with a difference quotient in a step of ``h`` s."""
    now, slope, drift = (
        vector_at(words, AT.now),
        vector_at(words, AT.slope),
        vector_at(words, AT.drift),
    )
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    later = t + min(h, math.sqrt(_EPSILON * h * max(abs(t), h)))
    apart = later - t
    if not apart > 0.0:
        for j in range(now.size):
            drift[j] = 0.0
        return
    call_equation(words[AT.f], later, now, z, u, p, drift)
    for j in range(now.size):
        drift[j] = (drift[j] - slope[j]) / apart


@in_both
def factored(words: Any, h: float) -> bool:
    """Fill ``lu`` with the factors of 1/gamma - h J; return whether it has any."""
    lu, pivots = matrix_at(words, AT.lu), vector_at(words, AT.pivots)
    elements, places = vector_at(words, AT.elements), vector_at(words, AT.places)
    diagonal, matrix = vector_at(words, AT.diagonal), vector_at(words, AT.matrix)
    flat, inverse = lu.reshape(lu.size), 1.0 / vector_at(words, AT.settings)[GAMMA]
    for i in range(flat.size):
        flat[i] = 0.0
    for i in range(diagonal.size):
        flat[int(diagonal[i])] = inverse
    for i in range(places.size):
        flat[int(places[i])] -= h * elements[i]
    vector_at(words, AT.after)[FACTORS] += 1
    done: int = factor(lu, pivots, int(matrix[BELOW]), int(matrix[ABOVE]))
    return done < 0


@in_both
def solved(words: Any, into: Any) -> None:
    """Write the solution for the right side in ``work`` to ``into`` (n,)."""
    lu, pivots, work = (
        matrix_at(words, AT.lu),
        vector_at(words, AT.pivots),
        vector_at(words, AT.work),
    )
    matrix, order = vector_at(words, AT.matrix), vector_at(words, AT.order)
    right, n = vector_at(words, AT.right), into.size
    below, above = int(matrix[BELOW]), int(matrix[ABOVE])
    if matrix[NATURAL] != 0.0:
        assign(into, work)
        substitute(lu, pivots, into, below, above)
    else:
        for j in range(n):
            right[int(order[j])] = work[j]
        substitute(lu, pivots, right, below, above)
        for j in range(n):
            into[j] = right[int(order[j])]


def rosenbrock_step(words: Any, t: float, h: float) -> int:
    """Compute ``out`` from ``now`` over ``h`` s, and all stages.

    ``slope``, ``drift`` and ``elements`` are those at ``t`` and ``now``.  Returns :data:`GOOD`, the
    index of an element that is not finite, or :data:`TOO_SMALL` if the matrix has no factors.
    """
    if not factored(words, h):
        return failed(vector_at(words, AT.now), TOO_SMALL)
    now, out, c = vector_at(words, AT.now), vector_at(words, AT.out), vector_at(words, AT.c)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    a, e, k, f = (
        matrix_at(words, AT.a), matrix_at(words, AT.e), matrix_at(words, AT.k), words[AT.f],
    )  # fmt: skip
    b, d, work = vector_at(words, AT.b), vector_at(words, AT.d), vector_at(words, AT.work)
    drift = vector_at(words, AT.drift)
    for i in range(c.size):
        if i == 0:
            assign(work, vector_at(words, AT.slope))
        else:
            combined(out, now, h, a[i], k, i)
            call_equation(f, t + c[i] * h, out, z, u, p, work)
        for m in range(i):
            add(work, e[i, m], k[m])
        add(work, h * d[i], drift)
        solved(words, k[i])
    combined(out, now, h, b, k, c.size)
    vector_at(words, AT.after)[EVALUATIONS] += c.size - 1
    vector_at(words, AT.notes)[SPENT] += c.size - 1
    note_factors(words)
    if words[AT.project] != 0:
        call_project(words[AT.project], out)
    return first_not_finite(out)


@in_both
def combined(out: Any, now: Any, h: float, row: Any, k: Any, count: int) -> None:
    """Write to ``out`` (n,) the sum of ``now`` (n,) and ``h * row[m] * k[m]`` over ``m < count``.

    The states are the inner loop, which the compiler vectorises.
    """
    assign(out, now)
    for m in range(count):
        if row[m] != 0.0:
            add(out, h * row[m], k[m])


@in_both
def begin(words: Any, t: float, rest: float) -> int:
    """Prepare an internal step from ``now`` at ``t`` s that is at most ``rest`` s long.

    Returns :data:`GOOD`, :data:`WRONG_JACOBIAN`, or the index of an element that is not finite.
    """
    now, slope, k = vector_at(words, AT.now), vector_at(words, AT.slope), matrix_at(words, AT.k)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    out, after = vector_at(words, AT.out), vector_at(words, AT.after)
    settings, notes = vector_at(words, AT.settings), vector_at(words, AT.notes)
    call_equation(words[AT.f], t, now, z, u, p, slope)
    after[EVALUATIONS] += 1
    notes[BEGAN] = t
    for vector in (now, slope):
        bad = first_not_finite(vector)
        if bad >= 0:
            assign(out, now)
            return bad
    if after[STEP] == 0.0:
        after[STEP] = settings[FIRST]
    if after[STEP] == 0.0:
        assign(k[0], slope)
        after[STEP] = first_step(words, t)
        after[EVALUATIONS] += 1
    length = min(after[STEP], rest)
    note_sizes(words, length)
    spent = jacobian(words, t)
    if spent == WRONG_JACOBIAN:
        assign(out, now)
        return WRONG_JACOBIAN
    after[JACOBIANS] += 1
    after[EVALUATIONS] += spent + 1
    notes[SPENT] += spent + 2
    partial_by_time(words, t, length)
    return GOOD


def rosenbrock_leg(words: Any, t: float, rest: float) -> int:
    """Take one step within the tolerance; it begins at ``t`` s and is at most ``rest`` s long.

    Returns :data:`GOOD`, an error code, or the index of an element that is not finite.
    """
    notes, after = vector_at(words, AT.notes), vector_at(words, AT.after)
    out, now = vector_at(words, AT.out), vector_at(words, AT.now)
    if notes[PHASE] == 0.0:
        notes[PHASE] = 1.0
        assign(after, vector_at(words, AT.memory))
        assign(now, vector_at(words, AT.x))
        settled = vector_at(words, AT.settled)
        for j in range(settled.size):
            settled[j] = 0.0
    else:
        assign(now, out)
    answer = begin(words, t, rest)
    if answer != GOOD:
        return answer
    settings, atol = vector_at(words, AT.settings), vector_at(words, AT.atol)
    weights, work, k = vector_at(words, AT.error), vector_at(words, AT.work), matrix_at(words, AT.k)
    smallest = max(settings[LEAST], 16 * _EPSILON * max(abs(t), _SHORTEST))
    step, rejected = after[STEP], False
    while True:
        taken = min(settings[MOST], max(step, smallest))
        last = CLOSE * taken >= rest
        if last:
            taken = rest
        notes[TAKEN] = taken
        if notes[TRIED] >= settings[MOST_STEPS]:
            return TOO_MANY
        notes[TRIED] += 1.0
        error = math.inf
        if call_step(words[AT.retake], words, t, taken) == GOOD:
            for j in range(work.size):
                work[j] = 0.0
            for i in range(weights.size):
                if weights[i] != 0.0:
                    add(work, taken * weights[i], k[i])
            error = error_norm(work, now, out, atol, settings[RTOL])
        if not math.isfinite(error):
            error = 1e30
        growth = _GROW if error == 0.0 else settings[SAFETY] * error ** (-settings[EXPONENT])
        if 0.0 < error <= 1.0 and after[BEFORE] > 0.0:  # the errors rise: predict the next one
            ratio = taken / after[BEFORE] * (after[ERROR] / error) ** settings[EXPONENT]
            growth = min(growth, growth * ratio)
        growth = min(1.0 if rejected else _GROW, max(_SHRINK, growth))
        rejected = error > 1.0
        if not rejected:
            break
        after[REJECTED] += 1
        step = taken * growth
        if not step >= smallest:  # false for NaN too
            return failed(out, TOO_SMALL)
    if last:  # the tag shortened the step: its error does not show how long it could be
        after[STEP] = max(taken * growth, step)
    else:
        after[STEP] = taken * growth
        after[BEFORE], after[ERROR] = taken, max(error, _LEAST_ERROR)
    after[STEPS] += 1
    notes[LAST] = 1.0 if last else 0.0
    return GOOD


def resident_rosenbrock(words: Any, t: float, h: float) -> int:
    """Take all internal steps from ``t`` s to ``h`` s later; the advance can pause between them."""
    notes = vector_at(words, AT.notes)
    done = covered(notes)
    while True:
        answer = call_step(words[AT.leg], words, t + done, h - done)
        if answer != GOOD or notes[LAST] != 0.0:
            return answer
        done += notes[TAKEN]
        if pauses(notes, done):
            return PAUSED
