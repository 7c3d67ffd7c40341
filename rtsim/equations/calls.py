"""Compiled forms of :mod:`rtsim.equations.addresses`: calls and arrays by address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from rtsim.equations.addresses import (
    EQUATION,
    IN_PLACE,
    INLINED,
    TICK,
    UPDATE,
    call_clock,
    call_drive,
    call_equation,
    call_peek,
    call_project,
    call_read,
    call_sleep,
    call_step,
    call_tick,
    call_update,
    matrix_at,
    record_at,
    records_of,
    table_at,
    vector_at,
    vector_of,
    words_at,
    words_of,
)

PLACES = types.CPointer(types.int64)
"""An array with the address and the length of each vector."""


def _emit(context: Any, builder: Any, kinds: tuple[Any, ...], values: Any) -> Any:
    """Generate machine code that calls a function by its address and passes on its errors.

    numba passes an array as seven words.  A call with five arrays takes 60 ns; a call with their
    addresses and lengths takes 8 ns.
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
def _update_at(_: Any, handle: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> Any:
    kinds = (handle, t, x, z, u, p)
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


def _through_five(tick: Any) -> Callable[..., None]:
    def entry(t: Any, places: Any) -> None:
        x, z, u = vector_at(places, 2), vector_at(places, 4), vector_at(places, 6)
        tick(vector_at(places, 0), t, x, z, u, vector_at(places, 8))

    return entry


def _through_four(update: Any) -> Callable[..., None]:
    def entry(t: Any, places: Any) -> None:
        x, z, u = vector_at(places, 0), vector_at(places, 2), vector_at(places, 4)
        update(t, x, z, u, vector_at(places, 6))

    return entry


def _through_place(project: Any) -> Callable[..., None]:
    def entry(places: Any) -> None:
        project(vector_at(places, 0))

    return entry


ENTERED = {
    EQUATION: (_through_places, (types.float64, PLACES)),
    TICK: (_through_five, (types.float64, PLACES)),
    UPDATE: (_through_four, (types.float64, PLACES)),
    IN_PLACE: (_through_place, (PLACES,)),
}
"""For each signature that compiled code calls by an extra function: a maker of that function, and
the types of its arguments.
"""


def _whole(handle: Any, *kinds: Any) -> Any:
    """Return a numba intrinsic that calls a function by address and returns its integer."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(types.int64, kinds)
        target = builder.inttoptr(values[0], ir.PointerType(kind))
        status, result = convention.call_function(builder, target, types.int64, kinds, values[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return types.int64(handle, *kinds), generate


@intrinsic
def _step_at(_: Any, handle: Any, words: Any, t: Any, h: Any) -> Any:
    return _whole(handle, words, t, h)


@intrinsic
def _drive_at(
    _: Any, handle: Any, leg: Any, retake: Any, between: Any, words: Any, look: Any, begin: Any,
    end: Any,
) -> Any:  # fmt: skip
    return _whole(handle, leg, retake, between, words, look, begin, end)


@overload(call_drive, strict=False, jit_options=INLINED)
def _(
    handle: Any, leg: Any, retake: Any, between: Any, words: Any, look: Any, begin: Any,  # noqa: ARG001
    end: Any,  # noqa: ARG001
) -> Any:  # fmt: skip
    return lambda handle, leg, retake, between, words, look, begin, end: _drive_at(
        handle, leg, retake, between, words, look, begin, end
    )


@overload(call_equation, strict=False, jit_options=INLINED)
def _(handle: Any, t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> Any:  # noqa: ARG001
    return lambda handle, t, x, z, u, p, out: _equation_at(handle, t, x, z, u, p, out)


@overload(call_tick, strict=False, jit_options=INLINED)
def _(handle: Any, due: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> Any:  # noqa: ARG001
    return lambda handle, due, t, x, z, u, p: _equation_at(handle, t, due, x, z, u, p)


@overload(call_update, strict=False, jit_options=INLINED)
def _(handle: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> Any:  # noqa: ARG001
    return lambda handle, t, x, z, u, p: _update_at(handle, t, x, z, u, p)


@overload(call_project, strict=False, jit_options=INLINED)
def _(handle: Any, x: Any) -> Any:  # noqa: ARG001
    return lambda handle, x: _project_at(handle, x)


@overload(call_step, strict=False, jit_options=INLINED)
def _(handle: Any, words: Any, t: Any, h: Any) -> Any:  # noqa: ARG001
    return lambda handle, words, t, h: _step_at(handle, words, t, h)


@intrinsic
def _double_pointer(_: Any, address: Any) -> Any:
    kind = types.CPointer(types.float64)

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(address), generate


@overload(vector_at, strict=False, jit_options=INLINED)
def _(words: Any, place: Any) -> Any:  # noqa: ARG001
    return lambda words, place: numba.carray(_double_pointer(words[place]), (words[place + 1],))


@intrinsic
def _word_pointer(_: Any, address: Any) -> Any:
    kind = types.CPointer(types.int64)

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(address), generate


@overload(table_at, strict=False, jit_options=INLINED)
def _(number: Any) -> Any:  # noqa: ARG001
    return lambda number: _word_pointer(int(number))


@overload(words_at, strict=False, jit_options=INLINED)
def _(words: Any, i: Any) -> Any:  # noqa: ARG001
    return lambda words, i: numba.carray(_word_pointer(words[i]), (words[i + 1],))


@overload(matrix_at, strict=False, jit_options=INLINED)
def _(words: Any, place: Any) -> Any:  # noqa: ARG001
    return lambda words, place: numba.carray(
        _double_pointer(words[place]), (words[place + 1], words[place + 2])
    )


# Records: a place is a record with an address and a length.


@intrinsic
def _record_pointer(_: Any, address: Any, kind: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind.dtype))

    return kind.dtype(address, kind), generate


@intrinsic
def _pointer(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), generate


@overload(record_at, strict=False, jit_options=INLINED)
def _(address: Any, kind: Any) -> Any:  # noqa: ARG001
    return lambda address, kind: _record_pointer(address, kind)


@overload(records_of, strict=False, jit_options=INLINED)
def _(place: Any, kind: Any) -> Any:  # noqa: ARG001
    return lambda place, kind: numba.carray(_pointer(place.address), (place.length,), kind)


@overload(vector_of, strict=False, jit_options=INLINED)
def _(place: Any) -> Any:  # noqa: ARG001
    return lambda place: numba.carray(_double_pointer(place.address), (place.length,))


@overload(words_of, strict=False, jit_options=INLINED)
def _(place: Any) -> Any:  # noqa: ARG001
    return lambda place: numba.carray(_word_pointer(place.address), (place.length,))


def _of_c(handle: Any, kinds: tuple[Any, ...], result: Any) -> Any:
    """A call of a C function by its address; all arguments are given as 64-bit numbers."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        given = [
            builder.trunc(v, ir.IntType(32)) if kind == types.int32 else v
            for kind, v in zip(kinds, values[1:], strict=True)
        ]
        shapes = [context.get_value_type(kind) for kind in kinds]
        shape = ir.FunctionType(context.get_value_type(result), shapes)
        answer = builder.call(builder.inttoptr(values[0], ir.PointerType(shape)), given)
        return builder.sext(answer, ir.IntType(64)) if result == types.int32 else answer

    return types.int64(handle, *(types.int64 for _ in kinds)), generate


@intrinsic
def _clock_at(_: Any, handle: Any, clock: Any, into: Any) -> Any:  # noqa: ARG001
    return _of_c(handle, (types.int32, types.int64), types.int32)


@intrinsic
def _sleep_at(_: Any, handle: Any, clock: Any, flags: Any, until: Any, rest: Any) -> Any:  # noqa: ARG001
    return _of_c(handle, (types.int32, types.int32, types.int64, types.int64), types.int32)


@intrinsic
def _read_at(_: Any, handle: Any, file: Any, into: Any, count: Any, offset: Any) -> Any:  # noqa: ARG001
    return _of_c(handle, (types.int32, types.int64, types.int64, types.int64), types.int64)


@overload(call_clock, strict=False, jit_options=INLINED)
def _(handle: Any, clock: Any, into: Any) -> Any:  # noqa: ARG001
    return lambda handle, clock, into: _clock_at(handle, clock, into)


@overload(call_sleep, strict=False, jit_options=INLINED)
def _(handle: Any, clock: Any, flags: Any, until: Any) -> Any:  # noqa: ARG001
    return lambda handle, clock, flags, until: _sleep_at(handle, clock, flags, until, 0)


@overload(call_read, strict=False, jit_options=INLINED)
def _(handle: Any, file: Any, into: Any, count: Any) -> Any:  # noqa: ARG001
    return lambda handle, file, into, count: _read_at(handle, file, into, count, 0)


@intrinsic
def _peek_at(_: Any, handle: Any, socket: Any, into: Any, count: Any, flags: Any) -> Any:  # noqa: ARG001
    return _of_c(handle, (types.int32, types.int64, types.int64, types.int32), types.int64)


@overload(call_peek, strict=False, jit_options=INLINED)
def _(handle: Any, socket: Any, into: Any, flags: Any) -> Any:  # noqa: ARG001
    return lambda handle, socket, into, flags: _peek_at(handle, socket, into, 1, flags)
