"""The linear model of a plant: derivatives of all its functions at an operating point."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.equations.model import BoundModel
from rtsim.linear.complex_math import complex_form
from rtsim.linear.constrained import Equations, eliminated, solved
from rtsim.linear.derivatives import Function, Jacobian, jacobian
from rtsim.linear.points import Point, check_undelayed
from rtsim.linear.state_space import Matrix

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
