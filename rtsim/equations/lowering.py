"""Compilation to machine code.

Only this module, :mod:`rtsim.equations.calls` and the functions passed to
:func:`rtsim.equations.compiling.when_compiling` import numba.  A program whose machine code is in
the cache starts without a compiler.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import populate_array

from rtsim.core.cache import not_kept
from rtsim.equations.addresses import (
    EQUATION,
    IN_PLACE,
    INTEGER,
    MATRIX,
    NUMBER,
    VECTOR,
    WORDS,
    Signature,
)
from rtsim.equations.calls import ENTERED, PLACES
from rtsim.equations.machine_code import FAILED, NEVER_CALLED, MachineCode, target_machine, where
from rtsim.equations.numba_private import (
    name_files_by_signature,
    object_code,
    optimise,
    optimised_as_a_whole,
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
_EQUATION, _IN_PLACE = (tuple(TYPES[kind] for kind in s) for s in (EQUATION, IN_PLACE))


def lower(
    plain: Callable[..., Any], signature: Signature, kept: Path, checked: bool = False
) -> MachineCode:
    """Compile ``plain`` for ``signature``; ``checked`` adds a check of each index.

    Code that needs numba's runtime (it allocates or prints, for example) stays in numba, which
    saves its own files in the folder ``kept``.  The result then only has the address of that code,
    in ``elsewhere``.
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
        optimise(result.library)
        alone = not known and _stands_alone(result.library)
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
        return MachineCode(objects, handle, ENTRY, where(plain) if raises else "")
    address = result.library.get_pointer_to_function(handle)
    return MachineCode((entry,), handle, ENTRY, elsewhere={handle: address}, alive=tuple(made))


def _made(plain: Callable[..., Any], signature: Signature, known: bool) -> list[tuple[Any, Any]]:
    """Return the compiled function and, if its signature needs one, its extra entry function.

    Both are read from numba's files if ``known``.
    """
    made = [_compile(plain, tuple(TYPES[kind] for kind in signature), known)]
    if (entered := ENTERED.get(signature)) is not None:
        through, arguments = entered
        made.append(_compile(through(made[0][0]), arguments, known))
    return made


_PACKED = ".const.pickledata"
"""Symbol by which numba's code refers to exceptions; these contain the file and the line."""


def _compile(plain: Callable[..., Any], kinds: tuple[Any, ...], cached: bool) -> tuple[Any, Any]:
    """Return numba's function and its compiled code, from numba's files if ``cached``."""
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
    """In this context, set numba's options; they hold for the whole process, so for helpers too."""
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
"""Functions of the C library, which every process has."""


def _stands_alone(library: Any) -> bool:
    """Return whether the object code needs neither numba nor addresses of this process."""
    if library.has_dynamic_globals:
        return False
    names = _DECLARED.findall(library.get_llvm_str())
    return all(n.startswith("llvm.") or n in _ANYWHERE or n == NEVER_CALLED for n in names)


ENTRY = "rtsim_entry"


def _entry(result: Any) -> bytes:
    """Generate the entry function for Python; see :mod:`rtsim.equations.machine_code`."""
    context, callee, word = result.target_context, result.fndesc, ir.IntType(64)
    numbers = [kind for kind in callee.argtypes if kind in (types.float64, types.int64)]
    module = ir.Module(ENTRY)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(target_machine().target_data)
    given = [word.as_pointer(), *map(context.get_value_type, numbers)]
    function = ir.Function(module, ir.FunctionType(word, given), ENTRY)
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
    text = llvm.parse_assembly(cgutils.normalize_ir_text(str(module)))
    code: bytes = target_machine().emit_object(text)
    return code


def _array(context: Any, builder: Any, kind: Any, block: Any, at: int) -> Any:
    word = ir.IntType(64)
    words = [
        builder.load(builder.gep(block, [ir.Constant(word, at + i)])) for i in range(1 + kind.ndim)
    ]
    item, strides = ir.Constant(word, 8), [ir.Constant(word, 8)]
    for size in reversed(words[2:]):
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(words[0], array.data.type)
    populate_array(
        array, data=data, shape=words[1:], strides=strides, itemsize=item, meminfo=None
    )  # fmt: skip
    return value_of(array)
