"""Sums over vectors in two forms, equal but for rounding: loops in compiled code, numpy in plain.

Plain loops over numpy's elements would cost more than a plain model's equations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rtsim.equations.addresses import INLINED
from rtsim.equations.compiling import when_compiling


def assign(into: Any, of: Any) -> None:
    """``into`` (n,) becomes ``of``."""
    into[:] = of


def weighted(out: Any, h: float, row: Any, k: Any, count: int) -> None:
    """``out`` (n,) becomes ``h`` times the sum of ``row[m] k[m]`` over the first ``count``."""
    np.dot(row[:count], k[:count], out)
    out *= h


def moved(out: Any, now: Any, h: float, row: Any, k: Any, count: int) -> None:
    """``out`` (n,) becomes ``now`` and as much beyond it."""
    np.dot(row[:count], k[:count], out)
    out *= h
    out += now


def error_norm(difference: Any, before: Any, behind: Any, atol: Any, rtol: float) -> float:
    """Root mean square of what each element is off, in units of what it may be off."""
    scale = np.maximum(np.abs(before), np.abs(behind))
    scale *= rtol
    scale += atol
    off = difference / scale
    return math.sqrt(float(np.dot(off, off)) / len(off))


@when_compiling
def _loops() -> None:
    """The compiled forms."""
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

    @overload(error_norm, jit_options=INLINED)
    def _(difference: Any, before: Any, behind: Any, atol: Any, rtol: Any) -> Any:  # noqa: ARG001
        def loop(difference: Any, before: Any, behind: Any, atol: Any, rtol: Any) -> float:
            total = 0.0
            for j in range(difference.size):
                scale = atol[j] + rtol * max(abs(before[j]), abs(behind[j]))
                total += (difference[j] / scale) ** 2
            return math.sqrt(total / difference.size)

        return loop
