"""Vectors for one call of a function; compiled code puts them on the stack, not on the heap."""

from __future__ import annotations

from typing import Any

import numpy as np

from rtsim.core.signals import Vector
from rtsim.equations.compiling import when_compiling
from rtsim.equations.numba_private import value_of

MOST = 4096
"""Maximum number of elements on the stack (32 kB); longer vectors are allocated on the heap."""


def scratch(size: int) -> Vector:
    """Return a vector of ``size`` zeros; in compiled code, ``size`` must be a literal.

    Compiled code puts the vector in the stack frame of the calling function, where it lives until
    that function returns.  A numba overload would have a stack frame of its own, so the compiler
    replaces the call with code in the calling function.
    """
    return np.zeros(size)


@when_compiling
def _in_the_frame() -> None:
    """Register the compiled form of :func:`scratch` with numba."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import lower_builtin, type_callable
    from numba.np.arrayobj import populate_array

    vector = types.Array(types.float64, 1, "C")

    @type_callable(scratch)
    def _typed(_: Any) -> Any:
        return lambda size: vector if isinstance(size, types.IntegerLiteral) else None

    @lower_builtin(scratch, types.IntegerLiteral)
    def _lowered(context: Any, builder: Any, signature: Any, _: Any) -> Any:
        size, word = signature.args[0].literal_value, context.get_value_type(types.intp)
        if size > MOST:
            return context.compile_internal(builder, lambda: np.zeros(size), vector(), ())
        place = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), max(1, size)))
        cgutils.memset(builder, place, ir.Constant(word, 8 * size), 0)
        array = context.make_array(vector)(context, builder)
        populate_array(
            array,
            data=builder.bitcast(place, ir.PointerType(ir.DoubleType())),
            shape=[ir.Constant(word, size)],
            strides=[ir.Constant(word, 8)],
            itemsize=ir.Constant(word, 8),
            meminfo=None,
        )
        return value_of(array)
