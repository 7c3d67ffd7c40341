"""Evaluate an equation repeatedly on the same arrays, and check that its result is finite.

This applies to the derivative, the guards and the outputs of a plant.  The addresses of these
arrays are collected once, in an argument table with the layout :data:`EVALUATION_LAYOUT`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.equations.addresses import (
    INLINED,
    NUMBER,
    WORDS,
    AddressBlock,
    call_equation,
    vector_at,
)
from rtsim.equations.compiling import Native, compile_function, when_compiling
from rtsim.equations.layout import Layout

EVALUATION_LAYOUT = Layout(
    "an evaluation",
    ("equation",),
    {"x": ("x",), "z": ("z",), "u": ("u",), "p": ("p",), "out": ("out",)},
)
AT = EVALUATION_LAYOUT.at


def evaluate(words: Any, t: float) -> int:
    """Evaluate an equation at ``t`` s; ``words`` is an argument table of :data:`EVALUATION_LAYOUT`.

    See :func:`resident` for the result.
    """
    out = vector_at(words, AT.out)
    x, z, u = vector_at(words, AT.x), vector_at(words, AT.z), vector_at(words, AT.u)
    call_equation(words[AT.equation], t, x, z, u, vector_at(words, AT.p), out)
    return first_not_finite(out)


def evaluation_block(equation: Any, *vectors: NDArray[np.float64]) -> AddressBlock:
    """Return the argument table of ``equation``, a :class:`Native`, with x, z, u, p and out."""
    arrays = dict(zip(EVALUATION_LAYOUT.arrays, vectors, strict=True))
    return EVALUATION_LAYOUT.block((equation.handle,), arrays, {}, equation)


def first_not_finite(vector: Any) -> int:
    """Return the index of the first element that is nan or infinite, or -1 if all are finite."""
    finite = np.isfinite(vector)
    return -1 if finite.all() else int(finite.argmin())


@when_compiling
def _first_not_finite_compiled() -> None:
    from numba.extending import overload

    @overload(first_not_finite, jit_options=INLINED)
    def _(vector: Any) -> Any:  # noqa: ARG001
        def loop(vector: Any) -> int:
            for i in range(vector.size):
                if not np.isfinite(vector[i]):
                    return i
            return -1

        return loop


@cache
def _evaluation() -> Native:
    return compile_function(evaluate, (WORDS, NUMBER), "evaluation")


def resident(equation: Native, *vectors: NDArray[np.float64]) -> Callable[[float], int]:
    """Return ``equation`` as a function of t (s) alone, bound to x, z, u, p and out.

    The function returns -1, or the index of the first element of out that is not finite.
    """
    if isinstance(equation.handle, np.intp):
        return _evaluation().on(evaluation_block(equation, *vectors))

    def evaluate_plain(t: float) -> int:
        equation.call(t, *vectors)
        return first_not_finite(vectors[-1])

    return evaluate_plain
