"""Machine code called by its address, and vectors handed over by theirs.

A solver is compiled once for all models: it receives each function as an address and calls it by
:func:`call_equation`.  The same source runs uncompiled, where the address is the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

VECTOR = types.Array(types.float64, 1, "C")
EQUATION = (types.float64, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of derivative, output and guards: t, x, z, u, p and the vector to fill."""
UPDATE = (types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
IN_PLACE = (VECTOR,)
RESET = (types.int64, types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of reset and stop: the guard's index, t, x, z, u, p."""
PLACES = types.CPointer(types.int64)
"""Of vectors: an address and a length of each, one after the other."""
TICK = (VECTOR, types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of tick: which timers are due, t, x, z, u, p."""


INLINED = {"forceinline": True, "error_model": "numpy"}


def call_equation(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    """Call a derivative, an output or guards from a solver, compiled or plain."""
    handle(t, x, z, u, p, out)


def call_project(handle: Any, x: Any) -> None:
    """Call a projection from a solver, compiled or plain."""
    handle(x)


def _emit(context: Any, builder: Any, kinds: tuple[Any, ...], values: Any) -> Any:
    """Call an entry by its address, and pass its errors on.

    An array is seven words to numba; a call with five of them takes 60 ns, one with where they lie
    and how long they are 8 ns.
    """
    convention, word = context.call_conv, ir.IntType(64)
    numbers = [(k, v) for k, v in zip(kinds[1:], values[1:], strict=True) if k == types.float64]
    arrays = [(k, v) for k, v in zip(kinds[1:], values[1:], strict=True) if k != types.float64]
    with builder.goto_entry_block():
        places = builder.alloca(ir.ArrayType(word, 2 * len(arrays)))
    for i, (kind, value) in enumerate(arrays):
        array = cgutils.create_struct_proxy(kind)(context, builder, value)
        address = builder.ptrtoint(array.data, word)
        builder.store(address, cgutils.gep_inbounds(builder, places, 0, 2 * i))
        builder.store(array.nitems, cgutils.gep_inbounds(builder, places, 0, 2 * i + 1))
    arguments = (*(kind for kind, _ in numbers), PLACES)
    given = (*(v for _, v in numbers), builder.bitcast(places, context.get_value_type(PLACES)))
    kind = convention.get_function_type(types.none, arguments)
    target = builder.inttoptr(values[0], ir.PointerType(kind))
    status, _ = convention.call_function(builder, target, types.none, arguments, given)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return context.get_dummy_value()


@intrinsic
def _equation_at(_: Any, handle: Any, t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> Any:
    kinds = (handle, t, x, z, u, p, out)
    return types.void(*kinds), lambda c, b, _signature, values: _emit(c, b, kinds, values)


@intrinsic
def _project_at(_: Any, handle: Any, x: Any) -> Any:
    kinds = (handle, x)
    return types.void(*kinds), lambda c, b, _signature, values: _emit(c, b, kinds, values)


def _through_places(equation: Any) -> Callable[..., None]:
    def entry(t: Any, places: Any) -> None:
        x, z, u = vector_at(places, 0), vector_at(places, 2), vector_at(places, 4)
        equation(t, x, z, u, vector_at(places, 6), vector_at(places, 8))

    return entry


def _through_place(project: Any) -> Callable[..., None]:
    def entry(places: Any) -> None:
        project(vector_at(places, 0))

    return entry


ENTERED = {
    EQUATION: (_through_places, (types.float64, PLACES)),
    IN_PLACE: (_through_place, (PLACES,)),
}
"""What compiled code calls by an entry of its own: how that is made, and its arguments."""


def call_step(handle: Any, words: Any, t: float, h: float) -> int:
    """Call a solver's step on a block; in compiled code by its address."""
    return int(handle(words, t, h))


@intrinsic
def _step_at(_: Any, handle: Any, words: Any, t: Any, h: Any) -> Any:
    kinds = (handle, words, t, h)

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(types.int64, kinds[1:])
        target = builder.inttoptr(values[0], ir.PointerType(kind))
        status, result = convention.call_function(
            builder, target, types.int64, kinds[1:], values[1:]
        )
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return types.int64(*kinds), generate


@overload(call_equation, strict=False, jit_options=INLINED)
def _(handle: Any, t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> Any:  # noqa: ARG001
    return lambda handle, t, x, z, u, p, out: _equation_at(handle, t, x, z, u, p, out)


@overload(call_project, strict=False, jit_options=INLINED)
def _(handle: Any, x: Any) -> Any:  # noqa: ARG001
    return lambda handle, x: _project_at(handle, x)


@overload(call_step, strict=False, jit_options=INLINED)
def _(handle: Any, words: Any, t: Any, h: Any) -> Any:  # noqa: ARG001
    return lambda handle, words, t, h: _step_at(handle, words, t, h)


# -- vectors that stay where they are --------------------------------------------------------------
#
# Taking ten arrays apart costs a step 0.6 us, half of what it computes, and a plant's vectors are
# the same at every step: their addresses and lengths in one block are handed over at once.


@dataclass(frozen=True)
class Block:
    """Machine addresses, then (address, length) of each vector; holding these keeps them there."""

    words: NDArray[np.int64]
    vectors: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, handles: tuple[Any, ...], vectors: tuple[NDArray[np.float64], ...]) -> Block:
        """Vectors must be contiguous; of an array with more dimensions all elements are meant."""
        places = [word for v in vectors for word in (v.ctypes.data, v.size)]
        return cls(np.array([*map(int, handles), *places], dtype=np.int64), vectors)


WORDS = types.Array(types.int64, 1, "C")


@intrinsic
def _double_pointer(_: Any, address: Any) -> Any:
    kind = types.CPointer(types.float64)

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(address), generate


def plain_block(functions: tuple[Any, ...], vectors: tuple[NDArray[np.float64], ...]) -> list[Any]:
    """What a :class:`Block` is to compiled code, for the same source run plain."""
    return [*functions, *(word for v in vectors for word in (v, v.size))]


def vector_at(words: Any, i: int) -> Any:
    """The vector at ``words[i]``: in compiled code its address, and its length follows."""
    return words[i]


@overload(vector_at, strict=False, jit_options=INLINED)
def _(words: Any, i: Any) -> Any:  # noqa: ARG001
    return lambda words, i: numba.carray(_double_pointer(words[i]), (words[i + 1],))


def matrix_at(words: Any, i: int, columns: int) -> Any:
    """The same as a matrix of so many ``columns``."""
    found = words[i]
    return found if found.ndim == 2 else found.reshape(-1, max(columns, 1))


@overload(matrix_at, strict=False, jit_options=INLINED)
def _(words: Any, i: Any, columns: Any) -> Any:  # noqa: ARG001
    return lambda words, i, columns: numba.carray(
        _double_pointer(words[i]), (words[i + 1] // max(columns, 1), columns)
    )
