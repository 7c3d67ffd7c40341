"""One way to a tag in steps as long as a tolerance allows, on a block's vectors.

A step is a leg (:mod:`rtsim.solve.legs`): the estimate of the first step, a safety factor, bounds
on growing and shrinking, no growth after a step that was rejected.

A budget counts from where its frame began, however often the way is cut.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import call_equation, call_project, matrix_at, vector_at
from rtsim.equations.compiling import first_not_finite, in_both
from rtsim.solve.base import GOOD, OUT_OF_BUDGET, TOO_SMALL
from rtsim.solve.legs import LAST, PHASE, TAKEN, within
from rtsim.solve.resident import AFTER, MEMORY, OUT, OWN, PROJECT, F, P, U, X, Z
from rtsim.solve.vectors import assign, error_norm, moved, weighted

STEP, EVALUATIONS, STEPS, REJECTED, UNBOUNDED, BEGAN, KNOWN, SLOPE = range(8)
"""In the memory: the next step (s), counts of the whole run, evaluations before the frame began,
whether the derivative is known."""
RTOL, SAFETY, LEAST, MOST, EXPONENT, BUDGET, STOPS, FIRST = range(8)
"""In the settings."""
A, C, ERROR, ATOL, SETTINGS, STAGES, NOW, WORK, NOTES, DENSE = (OWN + 2 * i for i in range(10))
"""Places of its own in the block."""
_SHRINK, _GROW = 0.2, 10.0
_CLOSE = 1.01
"""A step that all but reaches the tag reaches it."""


@in_both
def first_step(
    f: Any, t: float, x: Any, z: Any, u: Any, p: Any, k: Any, y: Any, e: Any, atol: Any,
    rtol: float, exponent: float,
) -> float:  # fmt: skip
    """An estimate of the first step (s); ``k[0]`` is the derivative at ``x``, ``k[1]`` is work."""
    size = error_norm(x, x, x, atol, rtol)
    slope = error_norm(k[0], x, x, atol, rtol)
    h = 1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope
    for j in range(x.size):
        y[j] = x[j] + h * k[0, j]
    call_equation(f, t + h, y, z, u, p, k[1])
    for j in range(x.size):
        e[j] = (k[1, j] - k[0, j]) / h
    bend = max(slope, error_norm(e, x, x, atol, rtol))
    other = max(1e-6, 1e-3 * h) if bend <= 1e-15 else (0.01 / bend) ** exponent
    return min(100.0 * h, other)


@in_both
def embedded_step(
    f: Any, t: float, h: float, now: Any, z: Any, u: Any, p: Any, a: Any, c: Any, k: Any, out: Any
) -> None:  # fmt: skip
    """All stages but the first, which ``k[0]`` is: the last row of ``a`` makes ``out``."""
    for i in range(1, c.size):
        moved(out, now, h, a[i], k, i)
        call_equation(f, t + c[i] * h, out, z, u, p, k[i])


@in_both
def begin(words: Any, t: float) -> None:
    """The way's first leg starts at x, with what is remembered."""
    f, now, k = words[F], vector_at(words, NOW), _stages(words)
    memory, after = vector_at(words, MEMORY), vector_at(words, AFTER)
    z, u, p = vector_at(words, Z), vector_at(words, U), vector_at(words, P)
    settings = vector_at(words, SETTINGS)
    assign(now, vector_at(words, X))
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
            work, out = vector_at(words, WORK), vector_at(words, OUT)
            atol, rtol = vector_at(words, ATOL), settings[RTOL]
            after[STEP] = first_step(
                f, t, now, z, u, p, k, work, out, atol, rtol, settings[EXPONENT]
            )
            after[EVALUATIONS] += 1


@in_both
def go_on(words: Any, t: float) -> None:
    """The next leg starts where the last one ended."""
    k, now = _stages(words), vector_at(words, NOW)
    assign(now, vector_at(words, OUT))
    assign(k[0], k[k.shape[0] - 1])
    if words[PROJECT] != 0:
        z, u, p = vector_at(words, Z), vector_at(words, U), vector_at(words, P)
        call_equation(words[F], t, now, z, u, p, k[0])
        vector_at(words, AFTER)[EVALUATIONS] += 1


@in_both
def _stages(words: Any) -> Any:
    return matrix_at(words, STAGES, vector_at(words, X).size)


@in_both
def adaptive_leg(words: Any, t: float, rest: float) -> int:
    """One step within the tolerance, from ``t`` s, ``rest`` s at most."""
    notes = vector_at(words, NOTES)
    if notes[PHASE] == 0.0:
        notes[PHASE] = 1.0
        begin(words, t)
    else:
        go_on(words, t)
    out, after, now = vector_at(words, OUT), vector_at(words, AFTER), vector_at(words, NOW)
    z, u, p = vector_at(words, Z), vector_at(words, U), vector_at(words, P)
    settings, atol, work = (
        vector_at(words, SETTINGS),
        vector_at(words, ATOL),
        vector_at(words, WORK),
    )
    c, weights, k = vector_at(words, C), vector_at(words, ERROR), _stages(words)
    f, project, stages = words[F], words[PROJECT], c.size
    a, rtol = matrix_at(words, A, stages), settings[RTOL]
    smallest = max(settings[LEAST], 16 * 2.3e-16 * (abs(t) + rest))
    cost = stages - 1 if project == 0 else stages
    enough = after[BEGAN] + settings[BUDGET]
    step, rejected = after[STEP], False
    while True:
        taken = min(settings[MOST], max(step, smallest))
        # this one, and none to take it again with
        spent = after[EVALUATIONS] + 2 * cost > enough
        if spent and settings[STOPS] != 0.0 and after[EVALUATIONS] + stages - 1 > enough:
            return failed(out, OUT_OF_BUDGET) if rejected else OUT_OF_BUDGET
        last = spent or _CLOSE * taken >= rest
        if last:
            taken = rest
        embedded_step(f, t, taken, now, z, u, p, a, c, k, out)
        after[EVALUATIONS] += stages - 1
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
        if not step >= smallest:  # nor is NaN
            return failed(out, TOO_SMALL)
    # a step that was cut to end at the tag says little of how long it might have been
    after[STEP] = max(taken * growth, step) if last and not rejected else taken * growth
    after[STEPS] += 1
    if rejected or after[EVALUATIONS] > enough:
        if settings[STOPS] != 0.0:
            return failed(out, OUT_OF_BUDGET)
        after[UNBOUNDED] += 1
    notes[TAKEN], notes[LAST] = taken, 1.0 if last else 0.0
    return finish(words)


@in_both
def failed(out: Any, why: int) -> int:
    """What a step answers that was tried in vain."""
    bad: int = first_not_finite(out)
    return bad if bad >= 0 else why


@in_both
def finish(words: Any) -> int:
    """What is known at the end of a leg."""
    out, after, k = vector_at(words, OUT), vector_at(words, AFTER), _stages(words)
    if words[PROJECT] != 0:
        call_project(words[PROJECT], out)
    after[KNOWN] = 0.0 if words[PROJECT] != 0 else 1.0
    assign(after[SLOPE:], k[k.shape[0] - 1])
    return first_not_finite(out)


def resident_leg(words: Any, t: float, rest: float) -> int:
    """:func:`adaptive_leg`, to be called by its address."""
    return adaptive_leg(words, t, rest)


def resident_retake(words: Any, t: float, h: float) -> int:
    """The last leg from ``t`` s again, ``h`` s long: shorter, so that its error is no larger.

    With a budget its dense output, which costs nothing: nobody knows how often it is asked for.
    """
    z, u, p = vector_at(words, Z), vector_at(words, U), vector_at(words, P)
    c, k, after = vector_at(words, C), _stages(words), vector_at(words, AFTER)
    a, now, out = matrix_at(words, A, c.size), vector_at(words, NOW), vector_at(words, OUT)
    if vector_at(words, SETTINGS)[BUDGET] == math.inf:
        embedded_step(words[F], t, h, now, z, u, p, a, c, k, out)
        after[EVALUATIONS] += c.size - 1
        return finish(words)
    taken = vector_at(words, NOTES)[TAKEN]
    dense = matrix_at(words, DENSE, vector_at(words, DENSE).size // c.size)
    within(out, now, k, dense, h / taken, taken)
    answer = finish(words)
    if h != taken:  # the last stage is where the leg ended
        after[KNOWN] = 0.0
    return answer


def resident_adaptive(words: Any, t: float, h: float) -> int:
    """All legs from ``t`` s to ``h`` s later."""
    notes = vector_at(words, NOTES)
    notes[PHASE], done = 0.0, 0.0
    while True:
        answer = adaptive_leg(words, t + done, h - done)
        if answer != GOOD or notes[LAST] != 0.0:
            return answer
        done += notes[TAKEN]


def new_frame(memory: Any) -> None:
    """A frame begins, with its budget whole."""
    memory[BEGAN] = memory[EVALUATIONS]
