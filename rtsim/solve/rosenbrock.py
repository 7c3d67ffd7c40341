"""Rosenbrock methods: adaptive solvers for stiff equations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.equations.addresses import call_step
from rtsim.equations.calls import call_at, first_not_finite
from rtsim.equations.compiling import in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.adaptive import (
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
    StepControl,
    failed,
    first_step,
)
from rtsim.solve.base import (
    GOOD,
    TOO_MANY,
    TOO_SMALL,
    WRONG_JACOBIAN,
    Stepper,
    lower_triangle,
    weights,
)
from rtsim.solve.internal_steps import (
    BEGAN,
    LAST,
    PHASE,
    SPENT,
    TAKEN,
    TRIED,
    Inner,
    Method,
    all_steps,
    projected,
)
from rtsim.solve.jacobians import (
    ABOVE,
    BELOW,
    NATURAL,
    jacobian,
    matrix_arrays,
    note_factors,
    note_sizes,
)
from rtsim.solve.jacobians import JACOBIAN_LAYOUT as WITH_JACOBIAN
from rtsim.solve.linear_algebra import add, assign, error_norm, factor, substitute
from rtsim.solve.resident import stepper

_NEAR = 1e-11
"""Tolerance for the conditions on the published coefficients, which are rounded."""


@dataclass(frozen=True)
class RosenbrockTableau:
    """The coefficients of a Rosenbrock method with s stages, error estimate and dense output.

    The coefficients are those of the form without products with the Jacobian. ``a`` and ``e`` are
    strictly lower triangles, whose row i has i entries. ``b``, ``c``, ``d`` and ``error`` have s
    entries.

    The rows of ``dense``, with s entries each, are the coefficients h_j of the dense output. At the
    fraction r of a step from x to x1, the state is ``(1 - r) x + r (x1 + (1 - r) (h_1 + r h_2 + r^2
    h_3 ...))``.

    Raises ``ScenarioError`` for inconsistent coefficients.
    """

    name: str
    order: int
    lower: int
    """The order of the embedded method in the error estimate."""
    gamma: float
    a: tuple[tuple[float, ...], ...]
    e: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    d: tuple[float, ...]
    error: tuple[float, ...]
    dense: tuple[tuple[float, ...], ...]
    source: str

    def __post_init__(self) -> None:
        s = len(self.b)
        if any(len(row) != i for rows in (self.a, self.e) for i, row in enumerate(rows)):
            raise ScenarioError(
                f"tableau {self.name}: row i of the matrices a and e must have i entries (i from 0)"
            )
        sizes = {len(row) for row in (self.a, self.e, self.c, self.d, self.error, *self.dense)}
        if sizes != {s}:
            raise ScenarioError(f"tableau {self.name}: all coefficients must have {s} entries")
        # the stages of x' = 1, whose Jacobian is 0, and of x' = t
        ones = np.linalg.solve(np.eye(s) / self.gamma - lower_triangle(self.e), np.ones(s))
        nodes = lower_triangle(self.a) @ ones
        for name, given, wanted in (("c", self.c, nodes), ("d", self.d, ones)):
            off = np.abs(np.array(given) - wanted)
            if np.any(off > _NEAR):
                raise ScenarioError(
                    f"tableau {self.name}: {name}[{int(np.argmax(off))}] differs by "
                    f"{off.max():.2g} from the value that follows from the other coefficients"
                )
        if not abs(np.dot(self.b, ones) - 1.0) < _NEAR:
            raise ScenarioError(
                f"tableau {self.name}: the weights b are wrong: for x' = 1, a step of 1 s does not "
                "change x by 1"
            )

    @property
    def first_same_as_last(self) -> bool:
        """Return False, because no stage is the derivative at the end of the step."""
        return False

    @property
    def error_weights(self) -> Vector:
        return np.array(self.error)

    @property
    def dense_weights(self) -> NDArray[np.float64]:
        """Return the weights w of the dense output, shape (s, degree).

        The state at the fraction r of a step of h s is ``x + h sum_ij w[i, j] r^(j + 1) k_i``.
        """
        rows = np.array(self.dense)
        out = np.zeros((len(self.b), len(rows) + 1))
        out[:, 0] = self.b
        out[:, :-1] += rows.T
        out[:, 1:] -= rows.T
        return out


_LAST = (
    -7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
    0.030198172008377946,
)  # fmt: skip

RODAS5P_TABLEAU = RosenbrockTableau(
    name="rodas5p",
    order=5,
    lower=4,
    gamma=0.21193756319429014,
    a=(
        (),
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        _LAST,
        (*_LAST, 1.0),
        (*_LAST, 1.0, 1.0),
    ),
    e=(
        (),
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125,
         -0.6610691825249471),
        (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783,
         -19.097331116725623, -28.087943162872662),
        (37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047,
         -40.06618937091002, -54.66780262877968, -9.48861652309627),
    ),
    b=(*_LAST, 1.0, 1.0, 1.0),
    c=(0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0,
       1.0, 1.0),
    d=(0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734,
       2.325825639765069, 0.0, 0.0, 0.0),
    error=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    dense=(
        (25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204,
         0.524948541321073, 1.1241088310450404, 0.4272876194431874, -0.17202221070155493),
        (-9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796,
         20.176138334709044, 15.98066361424651, -6.789040303419874, -6.710236069923372),
        (11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643,
         -52.072871366152654, -59.78993625266729, -0.15582684282751913, 4.883087185713722),
    ),
    source="Steinebach, BIT Numerical Mathematics 63, 2023, article 27",
)  # fmt: skip
"""Rodas5P: order 5 with an estimate of order 4, stiffly accurate, dense output of order 4."""


# The first elements of the memory, up to REJECTED, are the same as for an adaptive step.
JACOBIANS = 4
"""Element of the solver memory: the number of Jacobians in the whole run."""
FACTORS = 5
"""Element of the solver memory: the number of factorisations in the whole run."""
BEFORE, ERROR = 6, 7
"""Indices in the solver memory: the length (s) and the error of the last step of full length. Both
are 0 before the first such step. A step that a tag shortened is not stored.
"""
KEPT = BEFORE
"""Number of leading elements of the memory that ``Stepper.forget`` does not clear."""
GAMMA = MOST_STEPS + 1

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

:class:`RosenbrockTableau` explains ``a``, ``e``, ``b``, ``c``, ``d`` and ``error``.  ``drift`` is
the partial derivative of the model's derivative with respect to t. ``right`` is the right-hand side
of a stage, in the order of the matrix.
"""
_SHRINK, _GROW = 0.2, 6.0
_EPSILON = 2.3e-16
_SHORTEST = 1e-15
"""Time (s) from which the shortest step is computed at earlier times."""
_LEAST_ERROR = 1e-2
"""Smallest error of a step that is used to predict the next error."""


@in_both
def partial_by_time(words: Any, t: float, h: float) -> None:
    """Compute the partial derivative by time, and store it in ``drift``."""
    now, slope, drift = words.now, words.slope, words.drift
    later = t + min(h, math.sqrt(_EPSILON * h * max(abs(t), h)))
    apart = later - t
    if not apart > 0.0:
        for j in range(now.size):
            drift[j] = 0.0
        return
    call_at(words, words.f, later, now, drift)
    for j in range(now.size):
        drift[j] = (drift[j] - slope[j]) / apart


@in_both
def factored(words: Any, h: float) -> bool:
    """Factorise the matrix 1/gamma - h J in ``lu``; return False if it is singular."""
    lu, pivots, elements, places = words.lu, words.pivots, words.elements, words.places
    diagonal, matrix = words.diagonal, words.matrix
    flat, inverse = lu.reshape(lu.size), 1.0 / words.settings[GAMMA]
    for i in range(flat.size):
        flat[i] = 0.0
    for i in range(diagonal.size):
        flat[int(diagonal[i])] = inverse
    for i in range(places.size):
        flat[int(places[i])] -= h * elements[i]
    words.after[FACTORS] += 1
    done: int = factor(lu, pivots, int(matrix[BELOW]), int(matrix[ABOVE]))
    return done < 0


@in_both
def solved(words: Any, into: Any) -> None:
    """Solve the linear system with the right-hand side ``work``; the result is ``into`` (n,)."""
    lu, pivots, work, matrix, order = words.lu, words.pivots, words.work, words.matrix, words.order
    right, n = words.right, into.size
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
    """Compute a step of length ``h`` s from ``now`` to ``out``, with all stages.

    ``slope``, ``drift`` and ``elements`` must belong to ``t`` and ``now``. Returns ``GOOD``, the
    index of an element that is not finite, or ``TOO_SMALL`` for a singular matrix.
    """
    if not factored(words, h):
        return failed(words.now, TOO_SMALL)
    now, out, c, a, e, k, f = words.now, words.out, words.c, words.a, words.e, words.k, words.f
    b, d, work, drift = words.b, words.d, words.work, words.drift
    for i in range(c.size):
        if i == 0:
            assign(work, words.slope)
        else:
            combined(out, now, h, a[i], k, i)
            call_at(words, f, t + c[i] * h, out, work)
        for m in range(i):
            add(work, e[i, m], k[m])
        add(work, h * d[i], drift)
        solved(words, k[i])
    combined(out, now, h, b, k, c.size)
    words.after[EVALUATIONS] += c.size - 1
    words.notes[SPENT] += c.size - 1
    note_factors(words)
    return projected(words, out)


@in_both
def combined(out: Any, now: Any, h: float, row: Any, k: Any, count: int) -> None:
    assign(out, now)
    for m in range(count):
        if row[m] != 0.0:
            add(out, h * row[m], k[m])


@in_both
def begin(words: Any, t: float, rest: float) -> int:
    """Compute the derivative and the Jacobian at time ``t`` (s), for a step of at most ``rest`` s.

    Returns :data:`GOOD`, :data:`WRONG_JACOBIAN`, or the index of a state that is not finite.
    """
    now, slope, k, out, after = words.now, words.slope, words.k, words.out, words.after
    settings, notes = words.settings, words.notes
    call_at(words, words.f, t, now, slope)
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


def rosenbrock_internal_step(words: Any, t: float, rest: float) -> int:
    """Take one internal step that meets the tolerance.

    The step starts at time ``t`` (s) and is at most ``rest`` s long. Returns :data:`GOOD`, an error
    code, or the index of a state that is not finite.
    """
    notes, after, out, now = words.notes, words.after, words.out, words.now
    if notes[PHASE] == 0.0:
        notes[PHASE] = 1.0
        assign(after, words.memory)
        assign(now, words.x)
        settled = words.settled
        for j in range(settled.size):
            settled[j] = 0.0
    else:
        assign(now, out)
    answer = begin(words, t, rest)
    if answer != GOOD:
        return answer
    settings, atol, weights, work, k = words.settings, words.atol, words.error, words.work, words.k
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
        if call_step(words.retake, words, t, taken) == GOOD:
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
        if not step >= smallest:  # also true for NaN
            return failed(out, TOO_SMALL)
    if last:  # the tag shortened the step, so its error does not limit the next step
        after[STEP] = max(taken * growth, step)
    else:
        after[STEP] = taken * growth
        after[BEFORE], after[ERROR] = taken, max(error, _LEAST_ERROR)
    after[STEPS] += 1
    notes[LAST] = 1.0 if last else 0.0
    return GOOD


@dataclass(frozen=True)
class Rosenbrock(StepControl):
    """An adaptive solver for stiff equations with any ``RosenbrockTableau``.

    :class:`rtsim.solve.adaptive.StepControl` explains the fields.  Raises :class:`ScenarioError`
    for a value outside its range. ``stepper`` raises ``ScenarioError`` for a model with delays, or
    if the LU factors need too much memory.
    """

    tableau: RosenbrockTableau = RODAS5P_TABLEAU

    @property
    def implicit(self) -> bool:
        return True

    def stepper(self, bound: BoundModel) -> Stepper:
        model, table = bound.model, self.tableau
        if bound.history is not None:
            raise ScenarioError(
                f"solver {self.name} cannot integrate model {model.name}, which has delays; use "
                "dp54, bs32, or a solver with a fixed step such as rk4"
            )
        own = self.arrays(bound, table.gamma)
        own |= {"b": weights(table.b), "d": weights(table.d), "e": lower_triangle(table.e)}
        own |= matrix_arrays(bound, own["atol"] / self.rtol)
        inner = Inner(rosenbrock_internal_step, rosenbrock_step, own["now"], own["k"], own["dense"])
        return stepper(Method(all_steps, LAYOUT, own, kept=KEPT, inner=inner), bound)


RODAS5P = Rosenbrock(tableau=RODAS5P_TABLEAU)
"""The Rosenbrock method ``rodas5p`` (Rodas5P), of order 5 with an error estimate of order 4."""
