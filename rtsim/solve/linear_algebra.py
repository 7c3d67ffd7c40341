"""Sums over vectors, and LU factors of band matrices, in machine code and in plain Python.

Compiled code sums in loops. Machine code and plain Python add in the same order, so that their
results are exactly equal.

A band matrix (n, n) has ``below`` diagonals below and ``above`` diagonals above the main diagonal.
Row k of ``lu`` (n, height) contains column k of the matrix, from the matrix row ``first_row`` on. A
full matrix is a band with n - 1 diagonals on either side.

Rows are exchanged only if the diagonal element is less than a tenth of the largest element in its
column. Without exchanges, the factors have no more diagonals than the matrix. The factorisation of
a narrow band then takes half the time. Source: Duff, Erisman, Reid, Direct Methods for Sparse
Matrices, 2017, section 5.2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rtsim.equations.addresses import INLINED
from rtsim.equations.compiling import in_both, when_compiling

_FEW = 8
"""For at most this number of states, separate sums are faster than vectorised sums."""


def assign(into: Any, of: Any) -> None:
    into[:] = of


def weighted(out: Any, h: float, row: Any, k: Any, count: int) -> None:
    """Set ``out`` to ``h`` times the sum of ``row[m] * k[m]`` over ``m < count``."""
    _sum_of_rows(row, k, count, out)
    out *= h


def moved(out: Any, now: Any, h: float, row: Any, k: Any, count: int) -> None:
    """Set ``out`` to ``now`` plus ``h`` times the sum of ``row[m] * k[m]`` over ``m < count``."""
    _sum_of_rows(row, k, count, out)
    out *= h
    out += now


def _sum_of_rows(row: Any, k: Any, count: int, out: Any) -> None:
    out[:] = 0.0
    for m in range(count):
        out += row[m] * k[m]


def add_part(into: Any, start: int, factor: float, of: Any, begin: int, count: int) -> None:
    into[start : start + count] += factor * of[begin : begin + count]


def add(into: Any, factor: float, of: Any) -> None:
    """Add ``factor`` times the vector ``of`` to ``into``, both of shape (n,)."""
    into += factor * of


def error_norm(difference: Any, before: Any, behind: Any, atol: Any, rtol: float) -> float:
    """Return the root mean square of the elements of ``difference``, each divided by its tolerance.

    All vectors have shape (n,). The tolerance of an element is ``atol`` plus ``rtol`` times the
    larger of ``|before|`` and ``|behind|``, its values at the two ends of the step.  For n = 0 the
    result is 0.
    """
    if not len(difference):
        return 0.0
    scale = np.maximum(np.abs(before), np.abs(behind))
    scale *= rtol
    scale += atol
    off = difference / scale
    # A dot product would add in another order.
    return math.sqrt(float(np.add.accumulate(off * off)[-1]) / len(off))


@when_compiling
def _loops() -> None:
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
            few = out.size <= _FEW
            for j in range(out.size):
                total = 0.0
                for m in range(count if few else 0):
                    total += row[m] * k[m, j]
                out[j] = now[j] + h * total if few else 0.0
            if few:
                return
            # The states are the inner loop, so that the compiler can vectorise it.
            for m in range(count):
                weight, slopes = row[m], k[m]
                for j in range(out.size):
                    out[j] += weight * slopes[j]
            for j in range(out.size):
                out[j] = now[j] + h * out[j]

        return loop

    @overload(add_part, jit_options=INLINED)
    def _(into: Any, start: Any, factor: Any, of: Any, begin: Any, count: Any) -> Any:  # noqa: ARG001
        def loop(into: Any, start: Any, factor: Any, of: Any, begin: Any, count: Any) -> None:
            # Unsigned, because the check for negative indices would double the time.
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


_THRESHOLD = 0.1
"""The diagonal element is used as pivot if it is at least this fraction of the column's largest."""


def height(n: int, below: int, above: int) -> int:
    """Return the number of stored elements per column."""
    return min(n, 2 * below + above + 1)


@in_both
def first_row(k: int, n: int, kept: int, below: int, above: int) -> int:
    """Return the matrix row of the first stored element in column ``k``."""
    return min(max(0, k - above - below), n - kept)


def factor(lu: Any, pivots: Any, below: int, above: int) -> int:
    """Replace the matrix in ``lu`` (n, height) by its LU factors.

    The reciprocals of the pivots replace the main diagonal. ``pivots``, shape (n + 1,), receives
    the row exchanges. The last element of ``pivots`` is the number of diagonals above the main
    diagonal of the factors. Returns -1, or the index of the first column without a pivot.
    """
    n, kept = lu.shape
    last, wide = 0, above
    for k in range(n):
        column = lu[k]
        at = k - first_row(k, n, kept, below, above)
        rest = min(below, n - 1 - k)
        best, most = 0, abs(column[at])
        for i in range(1, rest + 1):
            if abs(column[at + i]) > most:
                best, most = i, abs(column[at + i])
        if not (most > 0.0 and math.isfinite(most)):
            return k
        if abs(column[at]) >= _THRESHOLD * most:
            best = 0
        pivots[k] = k + best
        last = max(last, min(n - 1, k + best + above))
        if best != 0:
            wide = above + below
            for j in range(k, last + 1):
                here = k - first_row(j, n, kept, below, above)
                lu[j, here], lu[j, here + best] = lu[j, here + best], lu[j, here]
        inverse = 1.0 / column[at]
        column[at] = inverse
        for i in range(1, rest + 1):
            column[at + i] *= inverse
        if rest > 0:
            for j in range(k + 1, last + 1):
                here = k - first_row(j, n, kept, below, above)
                other = lu[j]
                share = other[here]
                if share != 0.0:
                    add_part(other, here + 1, -share, column, at + 1, rest)
    pivots[n] = wide
    return -1


factor = in_both(factor, inlined=False)


@in_both
def forward_by_one(lu: Any, pivots: Any, b: Any, above: int) -> None:
    """Substitute forward in a matrix with one diagonal below the main diagonal."""
    n, kept = lu.shape
    share = b[0]
    for k in range(n - 1):
        after = b[k + 1]
        if pivots[k] != k:
            share, after = after, share
        b[k] = share
        share = after - share * lu[k, k - first_row(k, n, kept, 1, above) + 1]
    b[n - 1] = share


@in_both
def back_by_one(lu: Any, b: Any, below: int, above: int) -> None:
    """Substitute backward in a matrix with one diagonal above the main diagonal."""
    n, kept = lu.shape
    first = first_row(n - 1, n, kept, below, above)
    share = b[n - 1] * lu[n - 1, n - 1 - first]
    b[n - 1] = share
    for k in range(n - 2, -1, -1):
        beside = lu[k + 1, k - first]
        first = first_row(k, n, kept, below, above)
        share = (b[k] - share * beside) * lu[k, k - first]
        b[k] = share


def substitute(lu: Any, pivots: Any, b: Any, below: int, above: int) -> None:
    """Replace the right-hand side ``b`` (n,) by the solution of the linear system.

    :func:`factor` must have computed the factors in ``lu`` before.
    """
    n, kept = lu.shape
    if below == 1 and n > 0:
        forward_by_one(lu, pivots, b, above)
    for k in range(n if below != 1 else 0):
        other = int(pivots[k])
        share = b[other]
        b[other] = b[k]
        b[k] = share
        rest = min(below, n - 1 - k)
        if share != 0.0 and rest > 0:
            at = k - first_row(k, n, kept, below, above)
            add_part(b, k + 1, -share, lu[k], at + 1, rest)
    wide = int(pivots[n])
    if wide == 1 and n > 0:
        back_by_one(lu, b, below, above)
    for k in range(n - 1 if wide != 1 else -1, -1, -1):
        first = first_row(k, n, kept, below, above)
        share = b[k] * lu[k, k - first]
        b[k] = share
        begin = max(0, k - wide)
        if share != 0.0 and begin < k:
            add_part(b, begin, -share, lu[k], begin - first, k - begin)


substitute = in_both(substitute, inlined=False)
