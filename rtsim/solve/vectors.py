"""Sums over vectors in two forms: loops in compiled code, numpy in plain Python.

The two forms add in the same order, so their results are equal bit for bit.  In plain Python, loops
over elements would take longer than the equations of the model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rtsim.equations.addresses import INLINED
from rtsim.equations.compiling import when_compiling


def assign(into: Any, of: Any) -> None:
    """Copy the vector ``of`` (n,) to ``into`` (n,)."""
    into[:] = of


def weighted(out: Any, h: float, row: Any, k: Any, count: int) -> None:
    """Write to ``out`` (n,) ``h`` times the sum of ``row[m] * k[m]`` over ``m < count``."""
    _sum_of_rows(row, k, count, out)
    out *= h


def moved(out: Any, now: Any, h: float, row: Any, k: Any, count: int) -> None:
    """Write to ``out`` (n,) the sum of ``now`` (n,) and the result of :func:`weighted`."""
    _sum_of_rows(row, k, count, out)
    out *= h
    out += now


def _sum_of_rows(row: Any, k: Any, count: int, out: Any) -> None:
    """Write to ``out`` (n,) the sum of ``row[m] * k[m]``, one row after the other."""
    out[:] = 0.0
    for m in range(count):
        out += row[m] * k[m]


def add_part(into: Any, start: int, factor: float, of: Any, begin: int, count: int) -> None:
    """Add ``factor`` times ``count`` elements of ``of`` to elements of ``into``.

    They begin at ``begin`` in ``of``, and at ``start`` in ``into``.
    """
    into[start : start + count] += factor * of[begin : begin + count]


def add(into: Any, factor: float, of: Any) -> None:
    """Add ``factor`` times the vector ``of`` (n,) to ``into`` (n,)."""
    into += factor * of


def error_norm(difference: Any, before: Any, behind: Any, atol: Any, rtol: float) -> float:
    """Return the root mean square of ``difference`` (n,), each element divided by its tolerance.

    The tolerance of an element is ``atol`` plus ``rtol`` times the larger of ``|before|`` and
    ``|behind|``: its values at the beginning and at the end of the step.  Without elements the
    error is 0.
    """
    if not len(difference):
        return 0.0
    scale = np.maximum(np.abs(before), np.abs(behind))
    scale *= rtol
    scale += atol
    off = difference / scale
    return math.sqrt(float(np.add.accumulate(off * off)[-1]) / len(off))  # in order, unlike a dot


@when_compiling
def _loops() -> None:
    """Register the compiled forms of this module's functions with numba."""
    from numba.extending import overload

    @overload(assign, jit_options=INLINED)
    def _(into: Any, of: Any) -> Any:  # noqa: ARG001
        def loop(into: Any, of: Any) -> None:
            for j in range(into.size):
                into[j] = of[j]

        return loop

    @overload(weighted, jit_options=INLINED)
    def _(out: Any, h: Any, row: Any, k: Any, count: Any) -> Any:  # noqa: ARG001
        def loop(out: Any, h: Any, row: Any, k: Any, count: Any) -> None:
            for j in range(out.size):
                total = 0.0
                for m in range(count):
                    total += row[m] * k[m, j]
                out[j] = h * total

        return loop

    @overload(moved, jit_options=INLINED)
    def _(out: Any, now: Any, h: Any, row: Any, k: Any, count: Any) -> Any:  # noqa: ARG001
        def loop(out: Any, now: Any, h: Any, row: Any, k: Any, count: Any) -> None:
            for j in range(out.size):
                total = 0.0
                for m in range(count):
                    total += row[m] * k[m, j]
                out[j] = now[j] + h * total

        return loop

    @overload(add_part, jit_options=INLINED)
    def _(into: Any, start: Any, factor: Any, of: Any, begin: Any, count: Any) -> Any:  # noqa: ARG001
        def loop(into: Any, start: Any, factor: Any, of: Any, begin: Any, count: Any) -> None:
            # unsigned, because a negative index would count from the end, which costs half the time
            here, there = np.uint64(start), np.uint64(begin)
            for i in range(np.uint64(count)):
                into[here + i] += factor * of[there + i]

        return loop

    @overload(add, jit_options=INLINED)
    def _(into: Any, factor: Any, of: Any) -> Any:  # noqa: ARG001
        def loop(into: Any, factor: Any, of: Any) -> None:
            for j in range(into.size):
                into[j] += factor * of[j]

        return loop

    @overload(error_norm, jit_options=INLINED)
    def _(difference: Any, before: Any, behind: Any, atol: Any, rtol: Any) -> Any:  # noqa: ARG001
        def loop(difference: Any, before: Any, behind: Any, atol: Any, rtol: Any) -> float:
            total = 0.0
            if difference.size == 0:
                return 0.0
            for j in range(difference.size):
                scale = atol[j] + rtol * max(abs(before[j]), abs(behind[j]))
                total += (difference[j] / scale) ** 2
            return math.sqrt(total / difference.size)

        return loop
