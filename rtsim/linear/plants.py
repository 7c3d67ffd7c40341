"""The linear model of a plant, with or without algebraic constraints, at a point.

The linear model of a plant with algebraic constraints.

The residuals determine the algebraic variables y near the point, so y is eliminated by the implicit
function theorem: from ``0 = G(x, y, z, u)``, ``dy = -(dG/dy)^-1 (dG/dx dx + dG/dz dz + dG/du du)``.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.equations.constraints import singular_matrix, trouble
from rtsim.equations.model import BoundModel, Model
from rtsim.linear.derivatives import Function, Jacobian, complex_form, jacobian
from rtsim.linear.points import Point, check_undelayed
from rtsim.linear.state_space import Matrix

# The linear model of a plant with algebraic constraints.


def solved(bound: BoundModel, at: Point) -> Point:
    """Return ``at`` with algebraic values that solve the residuals; ``at`` itself without any.

    The search begins at the algebraic values of ``at``.  Raises :class:`ModelError` if it finds no
    solution.
    """
    model = bound.model
    if model.origin is None or not model.origin.algebraic.size:
        return at
    z, out = at.z.copy(), np.zeros(model.outputs.size)
    said = trouble(model.origin, at.t, at.x, z, at.u, at.p)
    if said:
        raise ModelError(f"the algebraic equations of model {model.name} have no solution: {said}")
    bound.output.call(at.t, at.x, z, at.u, at.p, out)
    return Point(at.t, at.x, z, at.u, at.p)


class Equations:
    """The equations of a model with constraints, on the vector (x, z, y, u).

    The result has the derivatives, the outputs and the residuals.
    """

    def __init__(self, origin: Model, at: Point) -> None:
        self._origin, self._at = origin, at
        self._sizes = at.x.size, origin.outputs.size, origin.algebraic.size

    @property
    def complex(self) -> Callable[[Any], Any]:
        """The same equations for complex arguments."""
        forms = {name: complex_form(function) for name, function in self._functions().items()}
        return lambda vector: self._evaluate(vector, forms, complex)

    def __call__(self, vector: Vector) -> Vector:
        out: Vector = self._evaluate(vector, self._functions(), float)
        return out

    def _functions(self) -> dict[str, Any]:
        given = {k: getattr(self._origin, k) for k in ("derivative", "residual", "output", "mass")}
        return {k: getattr(f, "py_func", f) for k, f in given.items() if callable(f)}

    def _evaluate(self, vector: Any, functions: dict[str, Any], kind: type) -> Any:
        at, origin, (n, r, q) = self._at, self._origin, self._sizes
        d = origin.discrete.size
        parts = np.split(vector, (n, n + d, n + d + q))
        x, z, y, u = (part.copy() for part in parts)
        out: Any = np.zeros(n + r + q, dtype=kind)
        with plainly():
            if "derivative" in functions:
                functions["derivative"](at.t, x, y, z, u, at.p, out[:n])
            if "output" in functions:
                functions["output"](at.t, x, y, z, u, at.p, out[n : n + r])
            functions["residual"](at.t, x, y, z, u, at.p, out[n + r :])
            if origin.mass is not None:
                m: Any = np.zeros((n, n), dtype=kind)
                if "mass" in functions:
                    functions["mass"](at.t, x, y, z, u, at.p, m)
                else:
                    m[:] = origin.mass
                out[:n] = np.linalg.solve(m, out[:n])
        return out


def eliminated(found: Jacobian, model: Model, n: int, d: int) -> tuple[Matrix, Matrix]:
    """Return the derivatives of rates and outputs by (x, z, u), and estimates of their errors.

    ``found`` has those of :class:`Equations` by (x, z, y, u), where z are the first ``d`` discrete
    signals; the columns of y become 0, because the algebraic values are solved for.  Raises
    :class:`ModelError` with the names of residuals and variables if the Jacobian is singular.
    """
    assert model.origin is not None
    names = model.origin.algebraic.columns
    q = len(names)
    kept = found.matrix.shape[0] - q
    y = slice(n + d, n + d + q)
    by_y = found.matrix[kept:, y]
    said = singular_matrix(by_y, names, "residual[{0}]")
    if said:
        raise ModelError(
            f"the Jacobian of the algebraic equations of model {model.name} is singular at this "
            f"point: {said}; choose another operating point, or correct the residuals"
        )
    inverse = np.linalg.inv(by_y)
    follows = -inverse @ found.matrix[kept:]
    matrix = found.matrix[:kept] + found.matrix[:kept, y] @ follows
    through = found.errors[kept:] + found.errors[kept:, y] @ np.abs(follows)
    errors = found.errors[:kept] + found.errors[:kept, y] @ np.abs(follows)
    errors = errors + np.abs(found.matrix[:kept, y] @ inverse) @ through
    matrix[:, y] = errors[:, y] = 0.0
    return matrix, errors


DISCRETE_HELD = "discrete values are held constant"


@dataclass(frozen=True)
class PlantSlopes:
    """Derivatives by the vector (x, z, u) of n + d + m elements.

    ``rate`` (n, n + d + m) is that of the derivative, ``output`` (r, n + d + m) that of the
    outputs.  ``errors`` (n + r, n + d + m) are estimates of the errors, ``exact`` the numbers of
    the variables that were found by complex step, and ``notes`` name kinks in states and inputs.
    Discrete values have no notes, because they are often flags.
    """

    rate: Matrix
    output: Matrix
    errors: Matrix
    exact: frozenset[int]
    notes: tuple[str, ...]


def plant_slopes(bound: BoundModel, at: Point) -> PlantSlopes:
    """Return the derivatives of a plant at a point.

    The number of the mode of a modal model is not varied.  Raises :class:`ModelError` if a value
    near the point is not finite.
    """
    model = bound.model
    check_undelayed(model)
    n, r = model.states.size, model.outputs.size
    rows = n + r
    varied = columns_of(bound)

    def evaluate(vector: Vector) -> Vector:
        x, z, u = split(vector, at)
        out = np.zeros(rows)
        for native, where in ((bound.derivative, slice(0, n)), (bound.output, slice(n, rows))):
            native.call(at.t, x, z, u, at.p, out[where])
        return out

    def slopes(function: Function, rows: int, complex_function: Function) -> Jacobian:
        try:
            return jacobian(function, np.concatenate((at.x, at.z, at.u)), rows, complex_function)
        except ModelError as error:
            raise _named(error, varied, bound) from None

    by_row = (*(f"d({c})/dt" for c in model.states.columns), *model.outputs.columns)
    origin = model.origin
    if origin is None or not origin.algebraic.size:
        found = slopes(evaluate, rows, _complex(bound, at))
        matrix, errors, exact = found.matrix.copy(), found.errors, found.exact
    else:
        at = solved(bound, at)
        equations, unknowns = Equations(origin, at), origin.algebraic.columns
        found = slopes(equations, rows + len(unknowns), equations.complex)
        matrix, errors = eliminated(found, model, n, origin.discrete.size)
        by_row = (*by_row, *(f"residual[{i}]" for i in range(len(unknowns))))
        first = n + origin.discrete.size
        all_exact = found.exact.issuperset(range(first, first + len(unknowns)))
        exact = found.exact if all_exact else frozenset()
    if model.modes:
        matrix[:, n + at.z.size - 1] = 0.0
    discrete = range(n, n + at.z.size)
    notes = kink_notes(found, by_row, varied, model.name, discrete)
    return PlantSlopes(matrix[:n], matrix[n:], errors, exact, notes)


def columns_of(bound: BoundModel) -> tuple[str, ...]:
    """Return the names of the elements of (x, z, u)."""
    model = bound.model
    return (*model.states.columns, *model.discrete.columns, *model.inputs.columns)


def split(vector: Any, at: Point) -> tuple[Any, Any, Any]:
    """Return x, z and u as contiguous arrays from the vector (x, z, u)."""
    n, d = at.x.size, at.z.size
    x, z, u = vector[:n], vector[n : n + d], vector[n + d :]
    return x.copy(), z.copy(), u.copy()


def _complex(bound: BoundModel, at: Point) -> Callable[[Any], Any]:
    """Return the function of :func:`plant_slopes` for complex arguments."""
    n, r = bound.model.states.size, bound.model.outputs.size
    derivative = complex_form(bound.derivative.py_func)
    output = complex_form(bound.output.py_func)

    def evaluate(vector: Any) -> Any:
        x, z, u = split(vector, at)
        out = np.zeros(n + r, dtype=complex)
        with plainly():
            derivative(at.t, x, z, u, at.p, out[:n])
            output(at.t, x, z, u, at.p, out[n:])
        return out

    return evaluate


def kink_notes(
    found: Jacobian,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    owner: str,
    without: Container[int] = (),
) -> tuple[str, ...]:
    """Return a sentence for each variable, except ``without``, at which elements have a kink."""
    by_column: dict[int, list[tuple[int, float]]] = {}
    for row, column, jump in found.kinks:
        by_column.setdefault(column, []).append((row, jump))
    out = []
    for column, rows_of in by_column.items():
        if column in without:
            continue
        row, jump = max(rows_of, key=lambda pair: abs(pair[1]))
        more = f" and {len(rows_of) - 1} more" if len(rows_of) > 1 else ""
        out.append(
            f"{rows[row]}{more} of {owner} has a kink in {columns[column]} at this point: the "
            f"slopes on both sides differ by {abs(jump):.3g}, and their mean is used"
        )
    return tuple(out)


def _named(error: ModelError, names: tuple[str, ...], bound: BoundModel) -> ModelError:
    _, number, rest = str(error).split(" ", 2)
    return ModelError(
        f"model {bound.model.name}: {names[int(number)]} {rest}; choose another operating point"
    )
