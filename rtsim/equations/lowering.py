"""Compile functions to machine code with numba.

numba is imported only for a compilation. A run whose machine code is in the cache starts without a
compiler.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import ArrayModel
from numba.core.imputils import lower_getattr_generic
from numba.core.typing import signature
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_builtin, overload, register_model, type_callable
from numba.np.arrayobj import populate_array

from rtsim.core.cache import not_kept
from rtsim.core.errors import ModelError
from rtsim.equations.addresses import (
    EQUATION,
    IN_PLACE,
    INLINED,
    INTEGER,
    MATRIX,
    NUMBER,
    RESET,
    TICK,
    UPDATE,
    VECTOR,
    WORDS,
    Signature,
    call_clock,
    call_drive,
    call_equation,
    call_fmi2_step,
    call_fmi2_values,
    call_fmi3_step,
    call_fmi3_values,
    call_fmi_state,
    call_lanes,
    call_peek,
    call_project,
    call_read,
    call_reset,
    call_sleep,
    call_step,
    call_tick,
    call_update,
    matrix_at,
    record_at,
    records_of,
    scratch,
    vector_at,
    vector_of,
    words_at,
    words_of,
)
from rtsim.equations.machine_code import FAILED, NEVER_CALLED, MachineCode, target_machine, where
from rtsim.equations.numba_private import (
    code_before_optimisation,
    name_files_by_signature,
    object_code,
    optimise,
    optimised_as_a_whole,
    optimised_code,
    save_files,
    value_of,
)

TYPES = {
    NUMBER: types.float64,
    INTEGER: types.int64,
    VECTOR: types.Array(types.float64, 1, "C"),
    WORDS: types.Array(types.int64, 1, "C"),
    MATRIX: types.Array(types.float64, 2, "C"),
}


class Table(types.Array):  # type: ignore[misc]
    """numba's type of an argument table: words, with functions and arrays as attributes."""

    def __init__(self, kind: str) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        """Index and number of axes of each name; the number of axes is 0 for a function."""
        self.length = 0
        for word in kind[kind.index("[") + 1 : -1].split():
            name, _, axes = word.partition(":")
            self.places[name] = self.length, int(axes or 0)
            self.length += 1 + int(axes or 0)
        super().__init__(types.int64, 1, "C", name=kind)

    @property
    def key(self) -> str:
        return str(self.name)

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        return f"table{zlib.crc32(self.name.encode())}", ()


register_model(Table)(ArrayModel)


@infer_getattr
class _TableAttributes(AttributeTemplate):  # type: ignore[misc]
    key = Table

    def generic_resolve(self, table: Table, name: str) -> Any:
        if name not in table.places:
            return None
        axes = table.places[name][1]
        return types.Array(types.float64, axes, "C") if axes else types.int64


@lower_getattr_generic(Table)
def _attribute(context: Any, builder: Any, table: Table, value: Any, name: str) -> Any:
    words = context.make_array(table)(context, builder, value).data
    place, axes = table.places[name]
    if not axes:
        return builder.load(builder.gep(words, [ir.Constant(ir.IntType(64), place)]))
    return _array(context, builder, types.Array(types.float64, axes, "C"), words, place)


@cache
def _type(kind: str) -> Any:
    return TYPES.get(kind) or Table(kind)


MOST = 4096
"""Greatest number of elements of a vector on the stack (32 kB). Longer vectors are on the heap."""
_EQUATION, _IN_PLACE = (tuple(TYPES[kind] for kind in s) for s in (EQUATION, IN_PLACE))


def lower(
    plain: Callable[..., Any], signature: Signature, kept: Path, checked: bool = False
) -> tuple[MachineCode, str]:
    """Compile a Python function for ``signature``; with ``checked``, with a check of each index.

    Return the machine code, and LLVM code without vectors: after the optimisation or, if that has
    made vectors, before it. numba itself links code that needs numba's runtime, for example to
    allocate or to print. For such code, the machine code contains only the address, in the
    attribute ``elsewhere``, and the LLVM code is empty.
    """
    known = os.path.isdir(kept)  # the function was compiled before and needs numba
    with _numba_is_set(CACHE_DIR=str(kept), BOUNDSCHECK=1 if checked else None):
        try:
            made = _made(plain, signature, known)
        except Exception:  # damaged files raise errors of many classes
            if not known:
                raise
            shutil.rmtree(kept, ignore_errors=True)
            known, made = False, _made(plain, signature, False)
        result = made[-1][1]
        text = "" if known else code_before_optimisation(result.library)
        optimise(result.library)
        alone = not known and _stands_alone(result.library)
        if alone and not _VECTORS.search(found := optimised_code(result.library)):
            text = found
        if not alone and not known:
            try:
                kept.mkdir(parents=True, exist_ok=True)
                for jitted, one in made:
                    _keep(jitted, one)
            except Exception as error:  # a file error, or numba cannot save it
                shutil.rmtree(kept, ignore_errors=True)
                not_kept(kept.parent, error)
    entry, handle = _entry(result), result.fndesc.llvm_func_name
    if alone:
        raises = _PACKED in result.library.get_llvm_str()
        objects = (object_code(result.library), entry)
        return MachineCode(objects, handle, ENTRY, where(plain) if raises else ""), text
    address = result.library.get_pointer_to_function(handle)
    code = MachineCode((entry,), handle, ENTRY, elsewhere={handle: address}, alive=tuple(made))
    return code, ""


def _made(plain: Callable[..., Any], signature: Signature, known: bool) -> list[tuple[Any, Any]]:
    made = [_compile(plain, tuple(map(_type, signature)), known)]
    if (entered := ENTERED.get(signature)) is not None:
        through, arguments = entered
        made.append(_compile(through(made[0][0]), arguments, known))
    return made


_VECTORS = re.compile(r"<\d+ x ")
_PACKED = ".const.pickledata"
"""Symbol with which numba's code refers to exceptions, which contain file and line."""


def _compile(plain: Callable[..., Any], kinds: tuple[Any, ...], cached: bool) -> tuple[Any, Any]:
    jitted = numba.njit(
        error_model="numpy",
        forceinline=kinds in (_EQUATION, _IN_PLACE),
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )(plain)
    if cached:
        _enable(jitted)
    with contextlib.nullcontext() if cached else optimised_as_a_whole():
        jitted.compile(kinds)
    return jitted, jitted.overloads[kinds]


def _enable(jitted: Any) -> None:
    with contextlib.suppress(RuntimeError):  # no source file, or the folder is not writable
        jitted.enable_caching()
        if jitted.py_func.__closure__:
            name_files_by_signature(jitted)  # the folder identifies the function


def _keep(jitted: Any, result: Any) -> None:
    _enable(jitted)
    save_files(jitted, result)


@contextmanager
def _numba_is_set(**settings: object) -> Iterator[None]:
    before = {name: getattr(numba.config, name) for name in settings}
    vars(numba.config).update(settings)
    try:
        yield
    finally:
        vars(numba.config).update(before)


_DECLARED = re.compile(r'^declare [^@]*@"?([^"(]+)', re.M)
_ANYWHERE = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign"),
    *("cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmod"),
    *("hypot", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "nearbyint", "pow"),
    *("remainder", "rint", "round", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
    *("memcpy", "memmove", "memset"),
}
"""Functions of the C library, which exist in every process."""


def _stands_alone(library: Any) -> bool:
    if library.has_dynamic_globals:
        return False
    names = _DECLARED.findall(library.get_llvm_str())
    return all(n.startswith("llvm.") or n in _ANYWHERE or n == NEVER_CALLED for n in names)


ENTRY = "rtsim_entry"


def _entry(result: Any) -> bytes:
    code: bytes = target_machine().emit_object(llvm.parse_assembly(_entry_text(result, ENTRY)))
    return code


def _entry_text(result: Any, name: str) -> str:
    context, callee, word = result.target_context, result.fndesc, ir.IntType(64)
    numbers = [kind for kind in callee.argtypes if kind in (types.float64, types.int64)]
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(target_machine().target_data)
    given = [word.as_pointer(), *map(context.get_value_type, numbers)]
    function = ir.Function(module, ir.FunctionType(word, given), name)
    builder = ir.IRBuilder(function.append_basic_block())
    block, *left = function.args
    native = ir.Function(
        module,
        context.call_conv.get_function_type(callee.restype, callee.argtypes),
        callee.llvm_func_name,
    )
    arguments, at = [], 1
    for kind in callee.argtypes:
        if kind == PLACES:
            arguments.append(builder.gep(block, [ir.Constant(word, 1)]))
        elif isinstance(kind, types.Array):
            arguments.append(_array(context, builder, kind, block, at))
            at += 1 + kind.ndim
        else:
            arguments.append(left.pop(0))
    status, answer = context.call_conv.call_function(
        builder, native, callee.restype, callee.argtypes, arguments
    )
    with cgutils.if_unlikely(builder, status.is_error):
        raised = builder.ptrtoint(status.excinfoptr, word)
        builder.store(builder.select(status.is_user_exc, raised, ir.Constant(word, 0)), block)
        builder.ret(ir.Constant(word, FAILED))
    whole = callee.restype == types.int64
    builder.ret(answer if whole else ir.Constant(word, 0))
    return str(cgutils.normalize_ir_text(str(module)))


_REFERENCES = re.compile(r"^define [^\n]*@NRT_(incref|decref)\(.*?^}\n", re.M | re.S)
_OWN = re.compile(r"^(define|@\S+ =) (?:linkonce_odr|weak_odr|common)", re.M)
"""Definitions that several functions contain."""
_PROCESSOR = re.compile(r'"(?:target-cpu|target-features)"="[^"]*"')


def portable(
    plain: Callable[..., Any], signature: Signature, checked: bool, handle: str, entry: str
) -> str:
    """Return the optimised LLVM code of a function for any processor of an architecture.

    ``handle`` and ``entry`` become the names of the function and of its entry function. The code
    contains no reference counts of arrays, because arrays are passed by address. Raises
    :class:`ModelError` if the code needs numba's runtime.
    """
    with _numba_is_set(BOUNDSCHECK=1 if checked else None):
        result = _made(plain, signature, False)[-1][1]
        optimise(result.library)
    text = result.library.get_llvm_str()
    if not _stands_alone(result.library):
        needed = {n for n in _DECLARED.findall(text) if not n.startswith("llvm.")} - _ANYWHERE
        raise ModelError(
            f"{plain.__qualname__} ({where(plain)}) cannot be exported: its machine code needs "
            f"numba's runtime ({', '.join(sorted(needed)) or 'an object of this process'}); do not "
            "allocate arrays, print or call into Python there (docs/compiling.md)"
        )
    text = _REFERENCES.sub(r"declare void @NRT_\1(ptr)\n", text)
    whole = llvm.parse_assembly(_PROCESSOR.sub("", _OWN.sub(r"\1 internal", text)))
    whole.link_in(llvm.parse_assembly(_entry_text(result, entry)))
    whole.get_function(result.fndesc.llvm_func_name).name = handle
    return str(whole)


def _array(context: Any, builder: Any, kind: Any, block: Any, at: int) -> Any:
    word = ir.IntType(64)
    words = [
        builder.load(builder.gep(block, [ir.Constant(word, at + i)])) for i in range(1 + kind.ndim)
    ]
    return _populated(context, builder, kind, words[0], words[1:])


def _populated(context: Any, builder: Any, kind: Any, address: Any, shape: list[Any]) -> Any:
    item, array = ir.Constant(ir.IntType(64), 8), context.make_array(kind)(context, builder)
    strides = [item]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    data = builder.inttoptr(address, array.data.type)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=item, meminfo=None)
    return value_of(array)


# Compiled forms: code that is generated in the calling function in place of a call.

Generate = Callable[[Any, Any, tuple[Any, ...], Any], Any]
"""Function that generates code from numba's context and builder, argument types and values."""
Kinds = Callable[[tuple[Any, ...]], tuple[Any, ...]]
"""Function that returns the types to which arguments of the given types are converted."""


def _generated(
    function: Callable[..., Any],
    result: Any,
    generate: Generate,
    kinds: Kinds = lambda given: given,
) -> None:
    @type_callable(function)
    def _typed(_: Any) -> Any:
        def typer(*given: Any) -> Any:
            return signature(result, *kinds(tuple(map(types.unliteral, given))))

        vars(typer)["__signature__"] = inspect.signature(function)
        return typer

    @lower_builtin(function, types.VarArg(types.Any))
    def _lowered(context: Any, builder: Any, found: Any, values: Any) -> Any:
        return generate(context, builder, found.args, values)


PLACES = types.CPointer(types.int64)
"""An array with the address and the length of each vector."""


def _call(context: Any, builder: Any, kinds: tuple[Any, ...], values: Any) -> Any:
    convention, word = context.call_conv, ir.IntType(64)
    given = list(zip(kinds[1:], values[1:], strict=True))
    numbers = [(k, v) for k, v in given if not isinstance(k, types.Array)]
    arrays = [(k, v) for k, v in given if isinstance(k, types.Array)]
    with builder.goto_entry_block():
        places = builder.alloca(ir.ArrayType(word, 2 * len(arrays)))
    for i, (kind, value) in enumerate(arrays):
        array = cgutils.create_struct_proxy(kind)(context, builder, value)
        address = builder.ptrtoint(array.data, word)
        builder.store(address, cgutils.gep_inbounds(builder, places, 0, 2 * i))
        builder.store(array.nitems, cgutils.gep_inbounds(builder, places, 0, 2 * i + 1))
    arguments = (*(kind for kind, _ in numbers), PLACES)
    passed = (*(v for _, v in numbers), builder.bitcast(places, context.get_value_type(PLACES)))
    kind = convention.get_function_type(types.none, arguments)
    target = builder.inttoptr(values[0], ir.PointerType(kind))
    status, _ = convention.call_function(builder, target, types.none, arguments, passed)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return context.get_dummy_value()


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


def _through_guard(reset: Any) -> Callable[..., None]:
    def entry(i: Any, t: Any, places: Any) -> None:
        x, z, u = vector_at(places, 0), vector_at(places, 2), vector_at(places, 4)
        reset(i, t, x, z, u, vector_at(places, 6))

    return entry


def _through_place(project: Any) -> Callable[..., None]:
    def entry(places: Any) -> None:
        project(vector_at(places, 0))

    return entry


ENTERED = {
    EQUATION: (_through_places, (types.float64, PLACES)),
    TICK: (_through_five, (types.float64, PLACES)),
    UPDATE: (_through_four, (types.float64, PLACES)),
    RESET: (_through_guard, (types.int64, types.float64, PLACES)),
    IN_PLACE: (_through_place, (PLACES,)),
}
"""For each signature that compiled code calls through an extra function: a maker of that function,
and the types of its arguments.
"""


def _whole(context: Any, builder: Any, kinds: tuple[Any, ...], values: Any) -> Any:
    convention, given = context.call_conv, kinds[1:]
    kind = convention.get_function_type(types.int64, given)
    target = builder.inttoptr(values[0], ir.PointerType(kind))
    status, result = convention.call_function(builder, target, types.int64, given, values[1:])
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return result


def _of_c(
    function: Callable[..., Any], kinds: tuple[Any, ...], result: Any, *constant: tuple[int, int]
) -> None:
    """Make ``function`` call a C function by its address; all its arguments are 64-bit numbers.

    ``kinds`` and ``result`` are the types of the arguments and of the result of the C function.
    Each pair in ``constant`` is the position and the value of a further argument of the C function.
    """

    def generate(context: Any, builder: Any, _: tuple[Any, ...], values: Any) -> Any:
        word, (handle, *given) = ir.IntType(64), values
        for position, number in constant:
            given.insert(position, ir.Constant(word, number))
        for i, kind in enumerate(kinds):
            if kind == types.int32:
                given[i] = builder.trunc(given[i], ir.IntType(32))
        shapes = [context.get_value_type(kind) for kind in kinds]
        shape = ir.FunctionType(context.get_value_type(result), shapes)
        answer = builder.call(builder.inttoptr(handle, ir.PointerType(shape)), given)
        return builder.sext(answer, word) if result == types.int32 else answer

    converted = [types.float64 if k == types.float64 else types.int64 for k in kinds]
    wanted = (types.int64, *converted)
    _generated(function, types.int64, generate, lambda given: wanted[: len(given)])


def _at(kind: Any) -> Generate:
    def generate(context: Any, builder: Any, kinds: tuple[Any, ...], values: Any) -> Any:
        table, words = kinds[0], values[0]
        if isinstance(table, types.Array):
            words = context.make_array(table)(context, builder, words).data
        return _array(context, builder, kind, builder.gep(words, [values[1]]), 0)

    return generate


@type_callable(scratch)
def _scratch_typed(_: Any) -> Any:
    return lambda size: TYPES[VECTOR] if isinstance(size, types.IntegerLiteral) else None


@lower_builtin(scratch, types.IntegerLiteral)
def _scratch_lowered(context: Any, builder: Any, found: Any, _: Any) -> Any:
    size, word, kind = found.args[0].literal_value, ir.IntType(64), TYPES[VECTOR]
    if size > MOST:
        return context.compile_internal(builder, lambda: np.zeros(size), kind(), ())
    place = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), max(1, size)))
    cgutils.memset(builder, place, ir.Constant(word, 8 * size), 0)
    shape = [ir.Constant(word, size)]
    return _populated(context, builder, kind, builder.ptrtoint(place, word), shape)


def table_from(kind: str) -> Any:
    """Return a function that converts an address to an argument table, for compiled code."""
    table = _type(kind)

    @intrinsic
    def table_at(_: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return _populated(
                context, builder, table, values[0], [ir.Constant(ir.IntType(64), table.length)]
            )

        return table(address), generate

    return table_at


# Records: a place is a record with an address and a length.


@intrinsic
def _record(_: Any, address: Any, kind: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind.dtype))

    return kind.dtype(address, kind), generate


@intrinsic
def _pointer(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), generate


@overload(record_at, strict=False, jit_options=INLINED)
def _record_at(address: Any, kind: Any) -> Any:  # noqa: ARG001
    return lambda address, kind: _record(address, kind)


@overload(records_of, strict=False, jit_options=INLINED)
def _records_of(place: Any, kind: Any) -> Any:  # noqa: ARG001
    return lambda place, kind: numba.carray(_pointer(place.address), (place.length,), kind)


@overload(vector_of, strict=False, jit_options=INLINED)
def _vector_of(place: Any) -> Any:  # noqa: ARG001
    return lambda place: numba.carray(_pointer(place.address), (place.length,), np.float64)


@overload(words_of, strict=False, jit_options=INLINED)
def _words_of(place: Any) -> Any:  # noqa: ARG001
    return lambda place: numba.carray(_pointer(place.address), (place.length,), np.int64)


_functions: tuple[Callable[..., Any], ...] = (
    call_equation,
    call_update,
    call_project,
    call_reset,
    call_tick,
)
for _function in _functions:
    _generated(_function, types.void, _call)
_generated(call_step, types.int64, _whole)
_generated(call_drive, types.int64, _whole)
_generated(vector_at, TYPES[VECTOR], _at(TYPES[VECTOR]))
_generated(words_at, TYPES[WORDS], _at(TYPES[WORDS]))
_generated(matrix_at, TYPES[MATRIX], _at(TYPES[MATRIX]))
_LONG, _INT = types.int64, types.int32
_of_c(call_lanes, (_LONG, _LONG, _LONG), _LONG)
_of_c(call_clock, (_INT, _LONG), _INT)
_of_c(call_sleep, (_INT, _INT, _LONG, _LONG), _INT, (3, 0))
_of_c(call_read, (_INT, _LONG, _LONG, _LONG), _LONG, (3, 0))
_of_c(call_peek, (_INT, _LONG, _LONG, _INT), _LONG, (2, 1))
_NUMBER = types.float64
_of_c(call_fmi2_values, (_LONG, _LONG, _LONG, _LONG), _INT)
_of_c(call_fmi3_values, (_LONG, _LONG, _LONG, _LONG, _LONG), _INT)
_of_c(call_fmi2_step, (_LONG, _NUMBER, _NUMBER, _INT), _INT)
_of_c(call_fmi3_step, (_LONG, _NUMBER, _NUMBER, _INT, _LONG, _LONG, _LONG, _LONG), _INT)
_of_c(call_fmi_state, (_LONG, _LONG), _INT)
