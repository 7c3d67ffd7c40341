"""Fixed-step explicit Runge-Kutta: one loop over any tableau."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from rtsim.compiling import (
    VECTOR,
    WORDS,
    Block,
    Native,
    call_equation,
    call_project,
    compile_function,
    compiled,
    evaluate,
    first_not_finite,
    matrix_at,
    vector_at,
)
from rtsim.model import BoundModel
from rtsim.signals import Vector
from rtsim.solve.base import MemorylessStepper, Stepper, Tableau, lower_triangle, weights
from rtsim.tag import NS_PER_S

MATRIX = types.Array(types.float64, 2, "C")


def explicit_step(
    f: Any,
    project: Any,
    a: Any,
    b: Any,
    c: Any,
    t: float,
    h: float,
    x: Any,
    z: Any,
    u: Any,
    p: Any,
    k: Any,
    y: Any,
    out: Any,
) -> int:
    """One step of length ``h`` s: ``x`` (n,) to ``out`` (n,); ``k`` (s, n) and ``y`` (n,) are work.

    Returns -1, or the index of the first element of ``out`` that is not finite.
    """
    n = x.size
    stages = b.size
    call_equation(f, t, x, z, u, p, k[0])
    for i in range(1, stages):
        for j in range(n):
            y[j] = 0.0
        for m in range(i):
            weight = a[i, m]
            if weight != 0.0:
                for j in range(n):
                    y[j] += weight * k[m, j]
        for j in range(n):
            y[j] = x[j] + h * y[j]
        call_equation(f, t + c[i] * h, y, z, u, p, k[i])
    for j in range(n):
        total = 0.0
        for m in range(stages):
            total += b[m] * k[m, j]
        out[j] = x[j] + h * total
    if project != 0:
        call_project(project, out)
    return first_not_finite(out)


_explicit_step = compiled(explicit_step)


def resident_step(words: Any, t: float, h: float) -> int:
    """:func:`explicit_step` on a block: f, project, then a, b, c, x, z, u, p, k, y, out."""
    b, x = vector_at(words, 4), vector_at(words, 8)
    return _explicit_step(
        words[0],
        words[1],
        matrix_at(words, 2, b.size),
        b,
        vector_at(words, 6),
        t,
        h,
        x,
        vector_at(words, 10),
        vector_at(words, 12),
        vector_at(words, 14),
        matrix_at(words, 16, x.size),
        vector_at(words, 18),
        vector_at(words, 20),
    )


_resident_step = compiled(resident_step)
_evaluate = compiled(evaluate)


def resident_run(words: Any, output: Any, times: Any, values: Any, rows: Any) -> int:
    """Steps from each of ``times`` (k + 1,) in ns to the next, as one by one they would be.

    ``output`` is the block of the output function, or empty; x, z, u and y are views of ``values``,
    of which each step leaves a copy in ``rows`` (k, n).  Returns how many steps were good.
    """
    x, out = vector_at(words, 8), vector_at(words, 20)
    for i in range(times.size - 1):
        t, later = times[i] / NS_PER_S, times[i + 1] / NS_PER_S
        if _resident_step(words, t, (times[i + 1] - times[i]) / NS_PER_S) >= 0:
            return i
        for j in range(x.size):
            x[j] = out[j]
        if output.size and _evaluate(output, later) >= 0:
            return i
        for j in range(values.size):
            rows[i, j] = values[j]
    return times.size - 1  # type: ignore[no-any-return]


def step_signature(*coefficients: Any) -> tuple[Any, ...]:
    """Types of a step function: two addresses, coefficients, t, h, five vectors, k, y, out."""
    scalars = (types.float64, types.float64)
    return (
        types.intp,
        types.intp,
        *coefficients,
        *scalars,
        *(VECTOR,) * 4,
        MATRIX,
        VECTOR,
        VECTOR,
    )


@dataclass(frozen=True)
class ExplicitRungeKutta:
    """A fixed-step solver from a :class:`Tableau`."""

    tableau: Tableau

    @property
    def name(self) -> str:
        return self.tableau.name

    @property
    def order(self) -> int:
        return self.tableau.order

    @cached_property
    def _compiled(self) -> Native:
        signature = (WORDS, types.float64, types.float64)
        return compile_function(resident_step, signature, f"solver {self.name}")

    @cached_property
    def _compiled_run(self) -> Native:
        times = types.Array(types.int64, 1, "C")
        signature = (WORDS, WORDS, times, VECTOR, MATRIX)
        return compile_function(resident_run, signature, f"solver {self.name}")

    def stepper(self, bound: BoundModel) -> Stepper:
        if bound.compiled:
            return _ResidentStepper(self.tableau, bound, self._compiled, self._compiled_run)
        return _PlainStepper(self.tableau, bound)


class _PlainStepper(MemorylessStepper):
    def __init__(self, tableau: Tableau, bound: BoundModel) -> None:
        n = bound.model.states.size
        self._functions = (bound.derivative.handle, bound.project.handle)
        self._tableau = (lower_triangle(tableau.a), weights(tableau.b), weights(tableau.c))
        self._work = (np.zeros((len(tableau.b), n)), np.zeros(n))

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        t, h = from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S
        vectors = (x, z, u, p, *self._work, out)
        return explicit_step(*self._functions, *self._tableau, t, h, *vectors)


class _ResidentStepper(_PlainStepper):
    """Hands the vectors over once, and again only where it is given others."""

    def __init__(self, tableau: Tableau, bound: BoundModel, step: Native, run: Native) -> None:
        super().__init__(tableau, bound)
        self._step = step.call
        self._run = run.call
        self._output = bound.output
        self._x = self._z = self._u = self._p = self._out = np.zeros(0)
        self._words = self._output_words = np.zeros(0, dtype=np.int64)
        self._y = np.zeros(0)

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        self._settle(x, z, u, p, out)
        return self._step(  # type: ignore[no-any-return]
            self._words, from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S
        )

    def _settle(self, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> None:
        if not (
            x is self._x and out is self._out and u is self._u and p is self._p and z is self._z
        ):
            self._x, self._z, self._u, self._p, self._out = x, z, u, p, out
            self._y = np.zeros(0)
            vectors = (*self._tableau, x, z, u, p, *self._work, out)
            self._words = Block.of(self._functions, vectors).words

    def run(
        self, times: NDArray[np.int64], vectors: tuple[Vector, ...], y: Vector, values: Vector
    ) -> NDArray[np.float64]:
        """Several steps at once: rows (k, n) of ``values``, one for each good step.

        ``vectors`` are x, z, u, p and the scratch of :meth:`advance`; x and y are left at the end.
        """
        self._settle(*vectors)
        if y is not self._y:
            self._y = y
            if y.size:
                self._output_words = Block.of((self._output.handle,), (*vectors[:4], y)).words
        rows = np.empty((times.size - 1, values.size))
        return rows[: self._run(self._words, self._output_words, times, values, rows)]
