"""Models with algebraic constraints and mass matrices, made into models without them.

A model with constraints (an index-1 DAE) is

    M(t, x, y) x' = derivative(t, x, y, z, u, p),    0 = residual(t, x, y, z, u, p)

:func:`explicit` returns an ordinary model of it.  Its derivative, guards and output solve the
residuals for ``y`` by Newton's method (:mod:`rtsim.equations.newton`), in each stage of a solver.
The algebraic values are the last discrete signals of the ordinary model.  They are solved for at
each tag, and they are the values at which the search begins in the next step.  The derivative is
therefore a pure function, with every solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import check_arguments, in_both, when_compiling
from rtsim.equations.newton import GOOD, Solve, factor, solver, substitute
from rtsim.equations.scratch import scratch
from rtsim.equations.structure import singular_matrix

Model = Any
"""A model, whose module imports this one."""

ARGUMENTS = "t, x, y, z, u, p"
"""The arguments of the functions of a model with constraints: ``y`` follows ``x``, because both
change continuously; ``z``, ``u`` and ``p`` change at tags only."""


def explicit(model: Model) -> Model:
    """Return ``model`` without constraints and mass matrix; an ordinary model is returned itself.

    The result has ``model`` as its ``origin``.
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
    """Return the magnitude of each algebraic variable: that of its initial value, or 1 for 0."""
    values = np.abs(model.algebraic.initial())
    out: Vector = np.where(values > 0.0, values, 1.0)
    return out


def check_declared(model: Model) -> None:
    """Raise :class:`ModelError` if functions, signals and mass matrix do not fit together."""
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
    arguments = ARGUMENTS if model.algebraic.size else "t, x, z, u, p"
    for what, first, last in (
        ("derivative", "", ", dx"),
        ("residual", "", ", r"),
        ("output", "", ", out"),
        ("update", "", ""),
        ("guard", "", ", g"),
        ("reset", "i, ", ""),
        ("stop", "i, ", ""),
        ("tick", "due, ", ""),
        ("mass", "", ", m"),
    ):
        function = getattr(model, what)
        if what == "residual" and not (function is None or callable(function)):
            raise ModelError(
                f"residual of model {name} is {function!r}; give a function of ({arguments}, r)"
            )
        if function is not None and callable(function):
            check_arguments(function, first + arguments + last, f"{what} of model {name}")
    if model.mass is not None and not callable(model.mass):
        _matrix(model)


def _matrix(model: Model) -> Vector:
    """Return the constant mass matrix (n, n)."""
    n = model.states.size
    try:
        out = np.array(model.mass, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.zeros(0)
    if out.shape != (n, n) or not np.isfinite(out).all():
        raise ModelError(
            f"the mass matrix of model {model.name} is {model.mass!r}; give a function of "
            f"({ARGUMENTS}, m), or {n} x {n} finite numbers, one row for each state"
        )
    said = singular_matrix(out, model.states.columns)
    if said:
        raise ModelError(
            f"the mass matrix of model {model.name} is singular: {said}; declare a state whose "
            "derivative does not occur in algebraic=, and its equation in residual="
        )
    return out


def _tolerant(function: Any) -> Any:
    """Return ``function``, which fills its last argument, with an error as nan in plain Python.

    Newton's method can leave the range of a function for one iteration.  Compiled code then gives
    inf or nan, where ``math.exp`` and ``math.log`` of Python raise an error.
    """

    def tolerant(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:
        try:
            function(t, x, y, z, u, p, r)
        except (ArithmeticError, ValueError):
            r[:] = math.nan

    inner = ready(function)

    def form() -> None:
        from numba.extending import overload

        @overload(tolerant, strict=False, jit_options={"error_model": "numpy"})
        def _(t: Any, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> Any:  # noqa: ARG001
            return lambda t, x, y, z, u, p, r: inner(t, x, y, z, u, p, r)

    when_compiling(form)
    return tolerant


def ready(function: Any) -> Any:
    """Return ``function`` as a helper of compiled and of plain functions."""
    return function if hasattr(function, "py_func") else in_both(function, inlined=False)


class _Functions:
    """Makes the functions of the ordinary model, each of which calls one of the given functions."""

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
        divided = self._divided(ready(self._model.derivative))
        return divided if self._solve is None else self._filling(divided)

    def reading(self, function: Any) -> Any:
        """Return a function that fills a vector, with the values solved for first."""
        if function is None or self._solve is None:
            return function
        return self._filling(ready(function))

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
        """Return a function that also keeps the solution as the algebraic values of the tag.

        Without an output function, the last argument receives the algebraic values.
        """
        solve, first, size = self._solve, self._first, self._size
        given = self._model.output
        if solve is None:
            return given
        function = ready(given or _copy)

        def output(t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
            y = z[first : first + size]
            if solve(t, x, y, z[:first], u, p, True) == GOOD:
                function(t, x, y, z[:first], u, p, out)
            else:
                for i in range(out.size):
                    out[i] = math.nan

        return output

    def writing(self, function: Any) -> Any:
        """Return ``update`` with the algebraic values solved for first."""
        solve, first, size = self._solve, self._first, self._size
        if function is None or solve is None:
            return function
        inner = ready(function)

        def writing(t: float, x: Any, z: Any, u: Any, p: Any) -> None:
            y = z[first : first + size]
            solve(t, x, y, z[:first], u, p, True)
            inner(t, x, y, z[:first], u, p)

        return writing

    def writing_first(self, function: Any) -> Any:
        """Return ``reset``, ``stop`` or ``tick``, with the algebraic values solved for first."""
        solve, first, size = self._solve, self._first, self._size
        if function is None or solve is None:
            return function
        inner = ready(function)

        def writing_first(i: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
            y = z[first : first + size]
            solve(t, x, y, z[:first], u, p, True)
            inner(i, t, x, y, z[:first], u, p)

        return writing_first

    def _divided(self, function: Any) -> Any:
        """Return the derivative, divided by the mass matrix."""
        mass = self._model.mass
        if mass is None:
            return function
        if not callable(mass):
            return _constant(function, _matrix(self._model), self._solve is not None)
        return _varying(function, ready(mass), self._model.states.size, self._solve is not None)


@in_both
def _copy(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    for i in range(out.size):
        out[i] = y[i]


def _constant(function: Any, matrix: Vector, constrained: bool) -> Any:
    """Return ``function``, followed by a division by the constant ``matrix`` (n, n)."""
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
    """Return ``function``, followed by a division by the matrix that ``mass`` fills."""
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
    """The derivative of a model without one: all states are constant between events."""
    for i in range(dx.size):
        dx[i] = 0.0


def coupled(origin: Model) -> Callable[..., None]:
    """Return the equations of ``origin`` on one vector of x and y, for a solver of DAEs.

    ``coupled(t, xy, z, u, p, out)`` fills ``out`` with the derivative of x and the residuals.
    """
    states, first = origin.states.size, origin.discrete.size
    divided = _Functions(origin)._divided(ready(origin.derivative or _standing))
    residual = _tolerant(origin.residual)

    def coupled(t: float, xy: Any, z: Any, u: Any, p: Any, out: Any) -> None:
        x, y = xy[:states], xy[states:]
        divided(t, x, y, z[:first], u, p, out[:states])
        residual(t, x, y, z[:first], u, p, out[states:])

    return coupled
