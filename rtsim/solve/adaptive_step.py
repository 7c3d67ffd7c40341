"""The internal steps of an adaptive solver between two tags.

Each accepted step is an internal step (:mod:`rtsim.solve.legs`).  The length of the next step
follows from the error of the step before it, with a safety factor, bounds on growth and shrinkage,
and no growth after a rejected step.

A budget counts the evaluations from the beginning of a solver frame.  Tags and events that divide
the frame do not add to its budget.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.evaluation import first_not_finite
from rtsim.solve.base import GOOD, OUT_OF_BUDGET, PAUSED, TOO_MANY, TOO_SMALL
from rtsim.solve.legs import covered, pauses, within
from rtsim.solve.look import BEGAN as LEG_BEGAN
from rtsim.solve.look import LAST, PHASE, SPENT, TAKEN, TRIED
from rtsim.solve.method import STEP_LAYOUT
from rtsim.solve.vectors import assign, error_norm, moved, weighted

STEP, EVALUATIONS, STEPS, REJECTED, UNBOUNDED, BEGAN, KNOWN, SLOPE = range(8)
"""Elements of the solver memory:

- ``STEP``: length of the next step (s), or 0 if it is not known.
- ``EVALUATIONS``, ``STEPS``, ``REJECTED``, ``UNBOUNDED``: counts of the whole run; ``UNBOUNDED``
  counts the steps that ignored the tolerance because the budget was used up.
- ``BEGAN``: the number of evaluations before the present frame.
- ``KNOWN``: 1 if the derivative at the end of the last step is known; ``SLOPE`` is its first
  element.
"""
RTOL, SAFETY, LEAST, MOST, EXPONENT, BUDGET, STOPS, FIRST, MOST_STEPS = range(9)
"""Elements of the array ``settings``; see :class:`rtsim.solve.adaptive.Adaptive`.

``EXPONENT`` is 1 divided by the order of the error; ``STOPS`` is 1 for ``fallback="stop"``."""

LAYOUT = STEP_LAYOUT.extended(
    "an adaptive step",
    memory=(f"{SLOPE} + states",),
    after=(f"{SLOPE} + states",),
    a=("stages", "stages"),
    c=("stages",),
    error=("stages",),
    atol=("states",),
    settings=(MOST_STEPS + 1,),
    k=("stages", "states"),
    now=("states",),
    work=("states",),
    dense=("stages", "degree"),
)
"""The arrays of an adaptive step.  ``a``, ``c``, ``dense``: the tableau; ``error``: weights of the
error estimate; ``atol``: the absolute tolerance of each state; ``k``: derivatives at the stages;
``now``: state at the beginning of the internal step.
"""
AT = LAYOUT.at
_SHRINK, _GROW = 0.2, 10.0
"""Least and greatest ratio of the length of a step to the length of the step before it."""
CLOSE = 1.01
"""A step ends at the tag if the rest of the interval is at most this multiple of its length."""


@in_both
def first_step(words: Any, t: float) -> float:
    """Return an estimate of the first step (s); ``k[0]`` is the derivative at ``now``.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.4.
    """
    x, k, y = vector_at(words, AT.now), matrix_at(words, AT.k), vector_at(words, AT.work)
    e, atol = vector_at(words, AT.out), vector_at(words, AT.atol)
    rtol = vector_at(words, AT.settings)[RTOL]
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    size = error_norm(x, x, x, atol, rtol)
    slope = error_norm(k[0], x, x, atol, rtol)
    h = 1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope
    for j in range(x.size):
        y[j] = x[j] + h * k[0, j]
    call_equation(words[AT.f], t + h, y, z, u, p, k[1])
    for j in range(x.size):
        e[j] = (k[1, j] - k[0, j]) / h
    bend = max(slope, error_norm(e, x, x, atol, rtol))
    exponent = vector_at(words, AT.settings)[EXPONENT]
    other = max(1e-6, 1e-3 * h) if bend <= 1e-15 else (0.01 / bend) ** exponent
    return min(100.0 * h, other)


@in_both
def embedded_step(words: Any, t: float, h: float) -> None:
    """Compute ``out`` from ``now`` over ``h`` s, and all stages except the first.

    ``k[0]`` is the derivative at ``now``.  The last row of ``a`` gives ``out``, because the method
    is first-same-as-last.
    """
    now, out, c = vector_at(words, AT.now), vector_at(words, AT.out), vector_at(words, AT.c)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    a, k, f = matrix_at(words, AT.a), matrix_at(words, AT.k), words[AT.f]
    for i in range(1, c.size):
        moved(out, now, h, a[i], k, i)
        call_equation(f, t + c[i] * h, out, z, u, p, k[i])


@in_both
def begin(words: Any, t: float) -> None:
    """Prepare the first internal step after a tag: it begins at ``x`` with the solver memory."""
    f, now, k = words[AT.f], vector_at(words, AT.now), matrix_at(words, AT.k)
    memory, after = vector_at(words, AT.memory), vector_at(words, AT.after)
    z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
    settings = vector_at(words, AT.settings)
    assign(now, vector_at(words, AT.x))
    for j in range(KNOWN):
        after[j] = memory[j]
    if memory[KNOWN] != 0.0:
        assign(k[0], memory[SLOPE:])
    else:
        call_equation(f, t, now, z, u, p, k[0])
        after[EVALUATIONS] += 1
    if after[STEP] == 0.0:
        after[STEP] = settings[FIRST]
        if after[STEP] == 0.0:
            after[STEP] = first_step(words, t)
            after[EVALUATIONS] += 1


@in_both
def go_on(words: Any, t: float) -> None:
    """Prepare the next internal step; it begins at the end of the last internal step."""
    k, now = matrix_at(words, AT.k), vector_at(words, AT.now)
    assign(now, vector_at(words, AT.out))
    assign(k[0], k[k.shape[0] - 1])
    if words[AT.project] != 0:
        z, u, p = vector_at(words, AT.z), vector_at(words, AT.u), vector_at(words, AT.p)
        call_equation(words[AT.f], t, now, z, u, p, k[0])
        vector_at(words, AT.after)[EVALUATIONS] += 1


@in_both
def adaptive_leg(words: Any, t: float, rest: float) -> int:
    """Take one step within the tolerance; it begins at ``t`` s and is at most ``rest`` s long.

    Returns :data:`GOOD`, an error code, or the index of an element that is not finite.
    """
    notes = vector_at(words, AT.notes)
    if notes[PHASE] == 0.0:
        notes[PHASE] = 1.0
        begin(words, t)
    else:
        go_on(words, t)
    out, after, now = vector_at(words, AT.out), vector_at(words, AT.after), vector_at(words, AT.now)
    settings, atol = vector_at(words, AT.settings), vector_at(words, AT.atol)
    weights, work = vector_at(words, AT.error), vector_at(words, AT.work)
    k = matrix_at(words, AT.k)
    stages, rtol = weights.size, settings[RTOL]
    smallest = max(settings[LEAST], 16 * 2.3e-16 * (abs(t) + rest))
    cost = stages - 1 if words[AT.project] == 0 else stages
    enough = after[BEGAN] + settings[BUDGET]
    step, rejected = after[STEP], False
    notes[LEG_BEGAN] = t
    while True:
        taken = min(settings[MOST], max(step, smallest))
        # enough for this step, but not for a repetition if this step is rejected
        spent = after[EVALUATIONS] + 2 * cost > enough
        if spent and settings[STOPS] != 0.0 and after[EVALUATIONS] + stages - 1 > enough:
            return failed(out, OUT_OF_BUDGET) if rejected else OUT_OF_BUDGET
        last = spent or CLOSE * taken >= rest
        if last:
            taken = rest
        notes[TAKEN] = taken
        if notes[TRIED] >= settings[MOST_STEPS]:
            return TOO_MANY
        notes[TRIED] += 1.0
        embedded_step(words, t, taken)
        after[EVALUATIONS] += stages - 1
        notes[SPENT] += stages - 1
        weighted(work, taken, weights, k, stages)
        error = error_norm(work, now, out, atol, rtol)
        if not math.isfinite(error):
            error = 1e30
        growth = _GROW if error == 0.0 else settings[SAFETY] * error ** (-settings[EXPONENT])
        growth = min(1.0 if rejected else _GROW, max(_SHRINK, growth))
        rejected = error > 1.0
        if not rejected or spent:
            break
        after[REJECTED] += 1
        step = taken * growth
        if not step >= smallest:  # false for NaN too
            return failed(out, TOO_SMALL)
    # if the tag shortened the step, its error does not show how long it could be
    after[STEP] = max(taken * growth, step) if last and not rejected else taken * growth
    after[STEPS] += 1
    if rejected or after[EVALUATIONS] > enough:
        if settings[STOPS] != 0.0:
            return failed(out, OUT_OF_BUDGET)
        after[UNBOUNDED] += 1
    notes[LAST] = 1.0 if last else 0.0
    return finish(words)


@in_both
def failed(out: Any, why: int) -> int:
    """Return the index of an element of ``out`` that is not finite, else the result ``why``."""
    bad: int = first_not_finite(out)
    return bad if bad >= 0 else why


@in_both
def finish(words: Any) -> int:
    """Project the state at the end of an internal step, and save the derivative at that state."""
    out, after, k = vector_at(words, AT.out), vector_at(words, AT.after), matrix_at(words, AT.k)
    if words[AT.project] != 0:
        call_project(words[AT.project], out)
    after[KNOWN] = 0.0 if words[AT.project] != 0 else 1.0
    assign(after[SLOPE:], k[k.shape[0] - 1])
    return first_not_finite(out)


def resident_retake(words: Any, t: float, h: float) -> int:
    """Repeat the last internal step from ``t`` s with the shorter length ``h`` s.

    The error of the shorter step is no larger.  With a budget, the state is taken from the dense
    output, which needs no evaluations, because the search for an event can repeat a step many
    times.
    """
    k, after = matrix_at(words, AT.k), vector_at(words, AT.after)
    now, out = vector_at(words, AT.now), vector_at(words, AT.out)
    if vector_at(words, AT.settings)[BUDGET] == math.inf:
        embedded_step(words, t, h)
        after[EVALUATIONS] += k.shape[0] - 1
        return finish(words)
    taken = vector_at(words, AT.notes)[TAKEN]
    within(out, now, k, matrix_at(words, AT.dense), h / taken, taken)
    answer = finish(words)
    if h != taken:  # the last stage is the derivative at the end of the longer step
        after[KNOWN] = 0.0
    return answer


def resident_adaptive(words: Any, t: float, h: float) -> int:
    """Take all internal steps from ``t`` s to ``h`` s later; the advance can pause between them."""
    notes = vector_at(words, AT.notes)
    done = covered(notes)
    while True:
        answer = adaptive_leg(words, t + done, h - done)
        if answer != GOOD or notes[LAST] != 0.0:
            return answer
        done += notes[TAKEN]
        if pauses(notes, done):
            return PAUSED


def new_frame(memory: Any) -> None:
    """Begin a solver frame: make its whole budget available."""
    memory[BEGAN] = memory[EVALUATIONS]
