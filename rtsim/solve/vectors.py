"""Sums over vectors in two forms with one result: loops in compiled code, numpy in plain.

Element by element in the same order, so that both are the same to the last bit.  Plain loops over
numpy's elements would cost more than a plain model's equations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload


def assign(into: Any, of: Any) -> None:
    """``into`` (n,) becomes ``of``."""
    into[:] = of


def add(into: Any, of: Any) -> None:
    """``into`` (n,) grows by ``of``."""
    into += of


def weighted(out: Any, h: float, row: Any, k: Any, count: int) -> None:
    """``out`` (n,) becomes ``h`` times the sum of ``row[m] k[m]`` over the first ``count``."""
    np.add.reduce(row[:count, None] * k[:count], axis=0, out=out)
    out *= h


def error_norm(difference: Any, before: Any, behind: Any, atol: Any, rtol: float) -> float:
    """Root mean square of what each element is off, in units of what it may be off."""
    total = 0.0
    with np.errstate(all="ignore"):
        off = difference / (atol + rtol * np.maximum(np.abs(before), np.abs(behind)))
        for square in (off * off).tolist():
            total += square
    return math.sqrt(total / len(off))


@overload(assign)
def _(into: Any, of: Any) -> Any:  # noqa: ARG001
    def loop(into: Any, of: Any) -> None:
        for j in range(into.size):
            into[j] = of[j]

    return loop


@overload(add)
def _(into: Any, of: Any) -> Any:  # noqa: ARG001
    def loop(into: Any, of: Any) -> None:
        for j in range(into.size):
            into[j] += of[j]

    return loop


@overload(weighted)
def _(out: Any, h: Any, row: Any, k: Any, count: Any) -> Any:  # noqa: ARG001
    def loop(out: Any, h: Any, row: Any, k: Any, count: Any) -> None:
        for j in range(out.size):
            total = 0.0
            for m in range(count):
                total += row[m] * k[m, j]
            out[j] = h * total

    return loop


@overload(error_norm)
def _(difference: Any, before: Any, behind: Any, atol: Any, rtol: Any) -> Any:  # noqa: ARG001
    def loop(difference: Any, before: Any, behind: Any, atol: Any, rtol: Any) -> float:
        total = 0.0
        for j in range(difference.size):
            scale = atol[j] + rtol * max(abs(before[j]), abs(behind[j]))
            total += (difference[j] / scale) ** 2
        return math.sqrt(total / difference.size)

    return loop
