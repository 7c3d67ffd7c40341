"""Convert models with algebraic constraints or a mass matrix into ordinary models.

A model with constraints (an index-1 DAE) is

    M(t, x, y) x' = derivative(t, x, y, z, u, p),    0 = residual(t, x, y, z, u, p)

:func:`explicit` returns the ordinary model, without constraints. Its derivative, guards and output
solve the residuals for ``y`` by Newton's method, in each stage of a solver. The ordinary model
stores the algebraic variables as additional discrete signals. At each tag, Newton's method solves
the constraints for the algebraic variables. In the next step, Newton's method begins at the
solution of the tag. The derivative is therefore a pure function.

The method is damped: a step is accepted if the next correction is shorter than the step. Iterations
that converge fast reuse the Jacobian of the first iteration. Source: Deuflhard, Newton Methods for
Nonlinear Problems, 2004, sections 2.1.2 and 3.3. The solution depends only on the arguments and the
first guess. A repeated step therefore gives exactly the same result.

When Newton's method fails, ``trouble`` searches for the reason in plain Python. The structural rank
is the greatest rank of all matrices with the same non-zero elements. If the structural rank is less
than the number of equations, some unknowns are undetermined. A maximal matching of equations and
unknowns shows which unknowns are undetermined. Source: Dulmage, Mendelsohn, Canadian Journal of
Mathematics 10, 1958, p. 517.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError
from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.equations.addresses import scratch
from rtsim.equations.compiling import in_both, plainly, when_compiling

Model = Any
"""A :class:`rtsim.equations.model.Model`, which cannot be imported here."""

"""The arguments of the functions of a model with constraints: ``y`` follows ``x``, because both
change continuously; ``z``, ``u`` and ``p`` change at tags only."""


GOOD, NOT_FINITE, SINGULAR, NO_CONVERGENCE = -1, 1, 2, 3
"""Results of a search: a solution was found; the residual is not finite at the first values; the
Jacobian is singular; the greatest number of iterations was not enough.
"""
TOLERANCE = 1e-10
"""The search ends when no unknown changes by more than this fraction of its value."""
SMALL = 1e-3
"""The fraction of an unknown's typical value below which the tolerance does not decrease further.
"""
_ITERATIONS = 50
_LEAST_DAMPING = 1.0 / 4096.0
_ROUNDING = 1e3
"""A correction of at most this many tolerances that no longer decreases is attributed to rounding.
"""
_FAST = 0.25
"""The Jacobian is reused while each correction is at most this fraction of the previous correction.
"""
_APART = 1.5e-8
"""Relative step of a difference quotient: the square root of the rounding error."""

Solve = Callable[[float, Vector, Vector, Vector, Vector, Vector, bool], int]
"""``solve(t, x, y, z, u, p, keep)`` replaces the values in ``y`` by the nearby solution."""


@in_both
def factor(a: Any, order: Any, n: int) -> int:
    """Replace the matrix ``a`` by its LU factors, with row exchanges.

    ``a`` contains the matrix row by row. ``order`` (n,) receives the row exchanges. Returns -1, or
    the first column without a pivot.
    """
    for k in range(n):
        best, size = k, abs(a[k * n + k])
        for i in range(k + 1, n):
            if abs(a[i * n + k]) > size:
                best, size = i, abs(a[i * n + k])
        order[k] = best
        if not size > 0.0 or not math.isfinite(size):
            return k
        if best != k:
            for j in range(n):
                a[k * n + j], a[best * n + j] = a[best * n + j], a[k * n + j]
        for i in range(k + 1, n):
            a[i * n + k] /= a[k * n + k]
            share = a[i * n + k]
            if share != 0.0:
                for j in range(k + 1, n):
                    a[i * n + j] -= share * a[k * n + j]
    return -1


@in_both
def substitute(a: Any, order: Any, b: Any, n: int) -> None:
    """Replace the right side ``b`` (n,) by the solution, with the factors from ``factor``."""
    for k in range(n):
        other = int(order[k])
        b[k], b[other] = b[other], b[k]
        for i in range(k + 1, n):
            b[i] -= a[i * n + k] * b[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            b[k] -= a[k * n + j] * b[j]
        b[k] /= a[k * n + k]


@in_both
def length(d: Any, y: Any, typical: Any) -> float:
    """Return the greatest ratio of ``abs(d[i])`` to its tolerance at ``y[i]``; ``d`` is (n,)."""
    out = 0.0
    for i in range(y.size):
        part = abs(d[i]) / (TOLERANCE * max(abs(y[i]), SMALL * typical[i]))
        if not part <= out:  # also true for NaN
            out = part
    return out


@in_both
def finite(vector: Any) -> bool:
    total = 0.0
    for i in range(vector.size):
        total += vector[i] - vector[i]  # 0, or nan
    return total == 0.0


def solver(residual: Any, typical: Vector) -> Solve:
    """Return a function that solves ``residual(t, x, y, z, u, p, r)`` for ``y``.

    ``typical`` (n,) contains the typical magnitudes of the unknowns. The returned function returns
    :data:`GOOD`, or the reason for a failure; after a failure, ``y`` is unchanged. With ``keep``,
    values that already solve the equations within the tolerance are not changed either.
    """
    n = typical.size
    elements = n * n

    def jacobian(
        t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any, a: Any, beside: Any
    ) -> None:
        for j in range(n):
            value = y[j]
            y[j] = value + _APART * max(abs(value), typical[j])
            apart = y[j] - value
            residual(t, x, y, z, u, p, beside)
            y[j] = value
            for i in range(n):
                a[i * n + j] = (beside[i] - r[i]) / apart

    jacobian = in_both(jacobian, inlined=False)

    def solve(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, keep: bool) -> int:
        now, trial, r, d = scratch(n), scratch(n), scratch(n), scratch(n)
        order, a = scratch(n), scratch(elements)
        for i in range(n):
            now[i] = y[i]
        residual(t, x, now, z, u, p, r)
        if not finite(r):
            return NOT_FINITE
        for iteration in range(_ITERATIONS):
            jacobian(t, x, now, z, u, p, r, a, d)
            if factor(a, order, n) >= 0:
                return SINGULAR
            for i in range(n):
                d[i] = -r[i]
            substitute(a, order, d, n)
            size = length(d, now, typical)
            if not math.isfinite(size):
                return SINGULAR
            if keep and iteration == 0 and size <= 1.0:
                return GOOD
            damping, after = 1.0, math.inf
            while True:
                for i in range(n):
                    trial[i] = now[i] + damping * d[i]
                residual(t, x, trial, z, u, p, r)
                if finite(r):
                    for i in range(n):
                        r[i] = -r[i]
                    substitute(a, order, r, n)
                    after = length(r, now, typical)
                    if after <= 1.0 or after <= (1.0 - 0.25 * damping) * size:
                        break
                if size <= _ROUNDING:
                    after = 0.0
                    for i in range(n):
                        r[i] = 0.0
                    break
                damping *= 0.5
                if damping < _LEAST_DAMPING:
                    return NO_CONVERGENCE
            for i in range(n):
                now[i] = trial[i]
            while damping == 1.0 and 1.0 < after <= _FAST * size:  # the same Jacobian again
                size = after
                for i in range(n):
                    now[i] += r[i]
                residual(t, x, now, z, u, p, r)
                for i in range(n):
                    r[i] = -r[i]
                substitute(a, order, r, n)
                after = length(r, now, typical)
            if after <= 1.0:
                for i in range(n):
                    y[i] = now[i] + r[i]
                return GOOD
            residual(t, x, now, z, u, p, r)
            if not finite(r):
                return NO_CONVERGENCE
        return NO_CONVERGENCE

    return in_both(solve, inlined=False)


def explicit(model: Model) -> Model:
    """Return ``model`` as an ordinary model without constraints and mass matrix.

    The result has ``model`` as its ``origin``. An ordinary model is returned unchanged.
    """
    if not constrained(model):
        return model
    made = _Functions(model)
    return replace(
        model,
        discrete=model.discrete + model.algebraic,
        derivative=made.derivative(),
        output=made.output(),
        update=made.writing(model.update),
        guard=made.reading(model.guard),
        reset=made.writing_first(model.reset),
        stop=made.writing_first(model.stop),
        tick=made.writing_first(model.tick),
        algebraic=type(model.algebraic)(),
        residual=None,
        mass=None,
        origin=model,
    )


def constrained(model: Model) -> bool:
    """Return whether ``model`` declares constraints or a mass matrix."""
    return bool(model.algebraic.size) or model.residual is not None or model.mass is not None


def typical(model: Model) -> Vector:
    """Return the magnitude of each algebraic variable.

    The magnitude is the absolute initial value, or 1 if the initial value is 0.
    """
    values = np.abs(model.algebraic.initial())
    out: Vector = np.where(values > 0.0, values, 1.0)
    return out


def check_declared(model: Model) -> None:
    """Raise ``ModelError`` if functions, signals and mass matrix do not match."""
    if not constrained(model):
        return
    name = model.name
    if bool(model.algebraic.size) != (model.residual is not None):
        raise ModelError(
            f"model {name} needs both algebraic variables and the function residual, or neither"
        )
    for what in ("delays", "jacobian", "sparsity"):
        if getattr(model, what) is not None and getattr(model, what) != ():
            raise ModelError(
                f"model {name} declares {what}, which a model with constraints or a mass matrix "
                f"cannot have; leave {what} out, or solve for the algebraic variables by hand"
            )
    if model.mass is not None and not callable(model.mass):
        _matrix(model)


def _matrix(model: Model) -> Vector:
    n = model.states.size
    try:
        out = np.array(model.mass, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.zeros(0)
    if out.shape != (n, n) or not np.isfinite(out).all():
        raise ModelError(
            f"the mass matrix of model {model.name} is {model.mass!r}; give a function of "
            f"(t, x, y, z, u, p, m), or {n} x {n} finite numbers, one row for each state"
        )
    said = singular_matrix(out, model.states.columns)
    if said:
        raise ModelError(
            f"the mass matrix of model {model.name} is singular: {said}; if no equation contains "
            "the derivative of a state, declare this state in algebraic=, and write its equation "
            "in residual="
        )
    return out


def _tolerant(function: Any) -> Any:
    def tolerant(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:
        try:
            function(t, x, y, z, u, p, r)
        except (ArithmeticError, ValueError):
            r[:] = math.nan

    inner = in_both(function, inlined=False)

    def form() -> None:
        from numba.extending import overload

        @overload(tolerant, strict=False, jit_options={"error_model": "numpy"})
        def _(t: Any, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> Any:  # noqa: ARG001
            return lambda t, x, y, z, u, p, r: inner(t, x, y, z, u, p, r)

    when_compiling(form)
    return tolerant


class _Functions:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._first = model.discrete.size
        """The index of the first algebraic value among the discrete signals."""
        self._size = model.algebraic.size
        self._solve: Solve | None = None
        if model.residual is not None:
            self._solve = solver(_tolerant(model.residual), typical(model))

    def derivative(self) -> Callable[..., None] | None:
        if self._model.derivative is None:
            return None
        divided = self._divided(in_both(self._model.derivative, inlined=False))
        return divided if self._solve is None else self._filling(divided)

    def reading(self, function: Any) -> Any:
        if function is None or self._solve is None:
            return function
        return self._filling(in_both(function, inlined=False))

    def _filling(self, function: Any) -> Callable[..., None]:
        solve, first, size = self._solve, self._first, self._size
        assert solve is not None

        def filling(t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
            y = scratch(size)
            for i in range(size):
                y[i] = z[first + i]
            if solve(t, x, y, z[:first], u, p, False) == GOOD:
                function(t, x, y, z[:first], u, p, out)
            else:
                for i in range(out.size):
                    out[i] = math.nan

        return filling

    def output(self) -> Any:
        solve, first, size = self._solve, self._first, self._size
        given = self._model.output
        if solve is None:
            return given
        function = in_both(given or _copy, inlined=False)

        def output(t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
            y = z[first : first + size]
            if solve(t, x, y, z[:first], u, p, True) == GOOD:
                function(t, x, y, z[:first], u, p, out)
            else:
                for i in range(out.size):
                    out[i] = math.nan

        return output

    def writing(self, function: Any) -> Any:
        solve, first, size = self._solve, self._first, self._size
        if function is None or solve is None:
            return function
        inner = in_both(function, inlined=False)

        def writing(t: float, x: Any, z: Any, u: Any, p: Any) -> None:
            y = z[first : first + size]
            solve(t, x, y, z[:first], u, p, True)
            inner(t, x, y, z[:first], u, p)

        return writing

    def writing_first(self, function: Any) -> Any:
        solve, first, size = self._solve, self._first, self._size
        if function is None or solve is None:
            return function
        inner = in_both(function, inlined=False)

        def writing_first(i: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
            y = z[first : first + size]
            solve(t, x, y, z[:first], u, p, True)
            inner(i, t, x, y, z[:first], u, p)

        return writing_first

    def _divided(self, function: Any) -> Any:
        mass = self._model.mass
        if mass is None:
            return function
        if not callable(mass):
            return _constant(function, _matrix(self._model), self._solve is not None)
        return _varying(
            function, in_both(mass, inlined=False), self._model.states.size, self._solve is not None
        )


@in_both
def _copy(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    for i in range(out.size):
        out[i] = y[i]


def _constant(function: Any, matrix: Vector, constrained: bool) -> Any:
    n = len(matrix)
    factors, order = matrix.reshape(-1).copy(), np.zeros(n)
    factor(factors, order, n)

    def with_y(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
        function(t, x, y, z, u, p, dx)
        substitute(factors, order, dx, n)

    def without_y(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
        function(t, x, z, u, p, dx)
        substitute(factors, order, dx, n)

    return in_both(with_y, inlined=False) if constrained else without_y


def _varying(function: Any, mass: Any, n: int, constrained: bool) -> Any:
    elements = n * n

    def divide(m: Any, dx: Any) -> None:
        order = scratch(n)
        if factor(m, order, n) < 0:
            substitute(m, order, dx, n)
        else:
            for i in range(n):
                dx[i] = math.nan

    divide = in_both(divide, inlined=False)

    def with_y(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
        m = scratch(elements)
        mass(t, x, y, z, u, p, m.reshape((n, n)))
        function(t, x, y, z, u, p, dx)
        divide(m, dx)

    def without_y(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
        m = scratch(elements)
        mass(t, x, z, u, p, m.reshape((n, n)))
        function(t, x, z, u, p, dx)
        divide(m, dx)

    return in_both(with_y, inlined=False) if constrained else without_y


def _standing(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    for i in range(dx.size):
        dx[i] = 0.0


def coupled(origin: Model) -> Callable[..., None]:
    """Return the equations of a model as one function for a DAE solver.

    The vector ``xy`` contains the states, then the algebraic variables. ``coupled(t, xy, z, u, p,
    out)`` computes the derivative of x and the residuals.
    """
    states, first = origin.states.size, origin.discrete.size
    divided = _Functions(origin)._divided(in_both(origin.derivative or _standing, inlined=False))
    residual = _tolerant(origin.residual)

    def coupled(t: float, xy: Any, z: Any, u: Any, p: Any, out: Any) -> None:
        x, y = xy[:states], xy[states:]
        divided(t, x, y, z[:first], u, p, out[:states])
        residual(t, x, y, z[:first], u, p, out[states:])

    return coupled


_SMALL = 1e-12
"""A singular value below this fraction of the greatest singular value counts as zero."""


def singular_matrix(matrix: Vector, unknowns: Sequence[str], equation: str = "row {0}") -> str:
    """Return which equations and unknowns make a matrix (n, n) singular, or "".

    ``equation`` is a format string for the names of the equations.
    """
    sizes = np.abs(matrix).max(axis=1, initial=0.0)
    scaled = matrix / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis]
    said = by_structure(scaled != 0.0, unknowns, equation)
    return said or _by_values(scaled, unknowns, equation)


def by_structure(pattern: NDArray[np.bool_], unknowns: Sequence[str], equation: str) -> str:
    """Return which equations and unknowns reduce the structural rank, or "".

    ``pattern`` (n, n) is True where the unknown of the column occurs in the equation of the row.
    """
    with needs("scipy", "a model with constraints"):
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

    n = len(unknowns)
    column_of = maximum_bipartite_matching(csr_array(pattern.astype(np.int8)), perm_type="column")
    free = [i for i in range(n) if column_of[i] < 0]
    if not free:
        return ""
    row_of = {int(column): row for row, column in enumerate(column_of) if column >= 0}
    rows, columns = set(free), set[int]()
    waiting = list(free)
    while waiting:
        for column in map(int, np.flatnonzero(pattern[waiting.pop()])):
            if column not in columns:
                columns.add(column)
                if row_of[column] not in rows:
                    rows.add(row_of[column])
                    waiting.append(row_of[column])
    missing = [unknowns[j] for j in range(n) if j not in row_of]
    named = _listed(equation.format(i) for i in sorted(rows))
    many = "depend" if len(rows) > 1 else "depends"
    on = _listed(unknowns[j] for j in sorted(columns))
    return (
        f"{named} {many} on {f'{on} only' if on else 'no unknown'}, and nothing determines "
        f"{_listed(missing)} (structural rank {n - len(free)} of {n})"
    )


def _by_values(matrix: Vector, unknowns: Sequence[str], equation: str) -> str:
    if not np.isfinite(matrix).all():
        rows = [i for i in range(len(matrix)) if not np.isfinite(matrix[i]).all()]
        return f"{_listed(equation.format(i) for i in rows)} has values that are not finite"
    left, sizes, right = np.linalg.svd(matrix)
    if sizes[-1] > _SMALL * sizes[0]:
        return ""
    rows = np.flatnonzero(np.abs(left[:, -1]) > 1e-3).tolist()
    columns = np.flatnonzero(np.abs(right[-1]) > 1e-3).tolist()
    return (
        f"{_listed(equation.format(i) for i in rows)} "
        f"{'depend' if len(rows) > 1 else 'depends'} linearly on each other at these values, so "
        f"{_listed(unknowns[j] for j in columns)} "
        f"{'are' if len(columns) > 1 else 'is'} not determined"
    )


def _listed(names: object) -> str:
    *first, last = [*names] or [""]  # type: ignore[misc]
    return f"{', '.join(first)} and {last}" if first else str(last)


_SHIFTS = (0.0, 0.37, -0.61)
"""Shifts of the unknowns, as fractions of their typical values, for the search for elements of the
Jacobian that are zero everywhere.
"""
_PARTS = 16
"""The number of points within a failed step at which the equations are examined."""
_NEARLY = 1e-6
"""A Jacobian counts as singular at a solution if its rows have shrunk to this fraction of their
size at the first values. At such a solution, the unknowns have only half of the usual digits.
"""
_AT_START = (
    "declare these values as initial values",
    "declare other initial values, or correct the residuals",
)
_IN_STEP = (
    "give the plant a shorter step: the search begins at the values of the last tag",
    "end the run before it with a terminal guard, give the plant a shorter step, or correct the "
    "residuals",
)
"""Remedies if a solution exists that the search did not find, and remedies if no solution exists.
"""


def trouble(
    origin: Model, t: float, x: Vector, z: Vector, u: Vector, p: Vector, *, started: bool = False
) -> str:
    """Return why the algebraic equations have no solution, or "".

    ``z`` (d,) contains the discrete signals of the ordinary model, and at its end the first guess.
    With ``started``, the text contains the time, and does not suggest other initial values.
    """
    if origin.residual is None:
        return ""
    with plainly(), np.errstate(all="ignore"):
        said = _Search(origin, t, x, z, u, p, _IN_STEP if started else _AT_START).reason()
    return f"at {t:.9g} s {said}" if said and started else said


def trouble_in_step(
    model: Model, times: tuple[float, float], x: Vector, z: Vector, u: Vector, p: Vector
) -> str:
    """Return why the algebraic equations cannot be solved during a step from the states ``x``.

    ``times`` contains the times (s) of the beginning and the end of the step.
    """
    origin, (t, end) = model.origin, times
    if origin is None:
        return ""
    slope = np.zeros_like(x)
    if model.derivative is not None:
        with plainly(), np.errstate(all="ignore"):
            getattr(model.derivative, "py_func", model.derivative)(t, x, z, u, p, slope)
    if not np.isfinite(slope).all():
        slope[:] = 0.0
    for k in range(_PARTS + 1):
        ahead = (end - t) * k / _PARTS
        here = t + ahead, x + ahead * slope, z, u, p
        said = trouble(origin, *here, started=True) or _singular_mass(origin, *here)
        if said:
            return said
    return ""


def _singular_mass(origin: Model, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> str:
    if not callable(origin.mass):
        return ""
    n, d = x.size, origin.discrete.size
    m = np.zeros((n, n))
    vectors = (x, z[d:], z[:d]) if origin.algebraic.size else (x, z)
    with plainly(), np.errstate(all="ignore"):
        getattr(origin.mass, "py_func", origin.mass)(t, *vectors, u, p, m)
    said = singular_matrix(m, origin.states.columns)
    return f"the mass matrix is singular: {said}" if said else ""


class _Search:
    def __init__(
        self,
        origin: Model,
        t: float,
        x: Vector,
        z: Vector,
        u: Vector,
        p: Vector,
        remedies: tuple[str, str],
    ) -> None:
        self._origin, self._t, self._remedies = origin, t, remedies
        d = origin.discrete.size
        self._x, self._z, self._u, self._p = x, z[:d].copy(), u, p
        begin = z[d:]  # after a failed search at a tag, these values may not be finite
        self._begin: Vector = np.where(np.isfinite(begin), begin, origin.algebraic.initial())
        self._names = origin.algebraic.columns
        self._scale = typical(origin)

    def residual(self, y: Vector) -> Vector:
        out = np.full(y.size, np.nan)
        residual: Any = self._origin.residual
        try:
            getattr(residual, "py_func", residual)(
                self._t, self._x, y.copy(), self._z, self._u, self._p, out
            )
        except (ArithmeticError, ValueError):
            out[:] = np.nan
        return out

    def reason(self) -> str:
        begin = self._begin

        def at(
            t: float, x: Vector, y: Vector, z: Vector, u: Vector, p: Vector, r: Vector  # noqa: ARG001
        ) -> None:  # fmt: skip
            r[:] = self.residual(y)

        solve = solver(at, self._scale)
        y = begin.copy()
        if solve(self._t, self._x, y, self._z, self._u, self._p, False) == GOOD:
            return ""
        first = self.residual(begin)
        bad = [i for i in range(first.size) if not np.isfinite(first[i])]
        if bad:
            named = ", ".join(f"residual[{i}] is {first[i]}" for i in bad)
            return f"{named} at {self._said(begin)}; {self._remedies[1]}"
        places = [begin + shift * np.maximum(np.abs(begin), self._scale) for shift in _SHIFTS]
        jacobians = [j for j in map(self._jacobian, places) if np.isfinite(j).all()]
        pattern = np.any([j != 0.0 for j in jacobians], axis=0)
        said = by_structure(pattern, self._names, "residual[{0}]") if jacobians else ""
        if said:
            return f"{said}; correct the residuals"
        near = self._nearest()
        left = self.residual(near)
        singular = self._singular(near)
        where = f", where {singular}" if singular else ""
        if np.abs(left).max() <= 1e-9 * max(1.0, float(np.abs(first).max())):
            return (
                f"Newton's method found no solution from {self._said(begin)}; a solution is "
                f"{self._said(near)}{where}; {self._remedies[1 if singular else 0]}"
            )
        worst = int(np.abs(left).argmax())
        dependent = [singular_matrix(j, self._names, "residual[{0}]") for j in jacobians]
        where = f", where {dependent[0]}" if all(dependent) and dependent else ""
        return (
            f"residual[{worst}] stays at {left[worst]:g}; the nearest values found are "
            f"{self._said(near)}{where}. The search began at {self._said(begin)}; "
            f"{self._remedies[1]}"
        )

    def _singular(self, near: Vector) -> str:
        there = self._jacobian(near)
        said = singular_matrix(there, self._names, "residual[{0}]")
        if said:
            return said
        sizes = np.abs(self._jacobian(self._begin)).max(axis=1)
        small = np.abs(there).max(axis=1) <= _NEARLY * np.where(np.isfinite(sizes), sizes, 0.0)
        rows = " and ".join(f"residual[{i}]" for i in np.flatnonzero(small))
        return f"{rows} no longer depends on the unknowns" if rows else ""

    def _jacobian(self, y: Vector) -> Vector:
        out = np.zeros((y.size, y.size))
        for j in range(y.size):
            above, below = y.copy(), y.copy()
            above[j] += 1e-7 * max(abs(y[j]), self._scale[j])
            below[j] -= above[j] - y[j]
            change = self.residual(above) - self.residual(below)
            out[:, j] = change / (above[j] - below[j])
        return out

    def _nearest(self) -> Vector:
        with needs("scipy", "a model with constraints"):
            from scipy.optimize import least_squares

        try:
            found = least_squares(
                self.residual, self._begin, x_scale=self._scale, method="lm", xtol=1e-15, ftol=1e-15
            )
        except ValueError:  # a residual that is not finite
            return self._begin
        out: Vector = found.x
        return out

    def _said(self, y: Vector) -> str:
        return ", ".join(f"{n} = {v:g}" for n, v in zip(self._names, y, strict=True))
