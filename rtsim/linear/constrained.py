"""The linear model of a plant with algebraic constraints.

The residuals determine the algebraic variables y near the point, so y is eliminated by the implicit
function theorem: from ``0 = G(x, y, z, u)``, ``dy = -(dG/dy)^-1 (dG/dx dx + dG/dz dz + dG/du du)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.equations.consistency import trouble
from rtsim.equations.model import BoundModel, Model
from rtsim.equations.structure import singular_matrix
from rtsim.linear.complex_math import complex_form
from rtsim.linear.derivatives import Jacobian
from rtsim.linear.points import Point
from rtsim.linear.state_space import Matrix


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
