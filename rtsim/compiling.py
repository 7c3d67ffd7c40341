"""Model functions as machine code: compiled once before time starts, cached by content.

A solver is compiled once for all models; it receives each model function as an address and calls it
through :func:`invoke`, so neither is compiled again when the other changes.  The same source runs
uncompiled when the address is the plain Python function itself.  ``docs/decisions/001`` says why.
"""

from __future__ import annotations

import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable
from numpy.typing import NDArray
from platformdirs import user_cache_dir

from rtsim.errors import ModelError
from rtsim.source_hash import source_hash

F = TypeVar("F", bound=Callable[..., Any])

VECTOR = types.Array(types.float64, 1, "C")
EQUATION = (types.float64, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of derivative, output and guards: t, x, z, u, p and the vector to fill."""
UPDATE = (types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
IN_PLACE = (VECTOR,)
RESET = (types.int64, types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of reset and stop: the guard's index, t, x, z, u, p."""
TICK = (VECTOR, types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of tick: which timers are due, t, x, z, u, p."""


def compiled(function: F) -> F:
    """A helper that model functions call: compiled with whichever function calls it.

    As everywhere here, a division by zero gives inf or nan, which the step reports with the state's
    name, and not an exception: the checks cost 8 % of the F-16's step.
    """
    return numba.njit(error_model="numpy")(function)  # type: ignore[no-any-return]


def in_both(function: F) -> F:
    """A part of a solver: compiled where compiled code calls it, plain where Python does."""
    return register_jitable(error_model="numpy")(function)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Native:
    """One function ready to run: as Python calls it, and as a solver does."""

    call: Callable[..., Any]
    handle: Any
    """Machine address, or the plain function itself; 0 where a model has none."""


ABSENT = Native(lambda *_: None, 0)

_announce: ContextVar[Callable[[str], None] | None] = ContextVar("announce", default=None)


@contextmanager
def announced(announce: Callable[[str], None]) -> Iterator[None]:
    """Within this, whatever is not in the cache is announced before it is compiled."""
    token = _announce.set(announce)
    try:
        yield
    finally:
        _announce.reset(token)


def check_arguments(function: Callable[..., Any], arguments: str, what: str) -> None:
    """Raise :class:`ModelError` unless ``function`` can be called with so many arguments."""
    try:
        signature = inspect.signature(getattr(function, "py_func", function))
    except (TypeError, ValueError):
        return  # a builtin that does not say what it takes
    try:
        signature.bind(*arguments.split(", "))
    except TypeError as error:
        raise ModelError(
            f"{what} takes {signature}; it is called with ({arguments}) and fills the last in place"
        ) from error


def compile_function(function: Callable[..., Any], signature: Any, what: str) -> Native:
    """Compile ``function`` for ``signature``; a :class:`ModelError` names ``what`` otherwise."""
    plain = getattr(function, "py_func", function)
    with _cache_for(plain) as folder:
        announce = _announce.get()
        if announce is not None and not folder.is_dir():
            announce(what)
        cached = _has_source_file(plain)
        jitted = numba.njit(cache=cached, error_model="numpy")(plain)
        if cached and plain.__closure__:
            # The folder says what the function is.  numba's own key would pickle a closure, and a
            # compiled function in it pickles otherwise in each process.
            jitted._cache._index_key = lambda signature, codegen: (signature, codegen.magic_tuple())
        try:
            jitted.compile(signature)
        except Exception as error:  # the compiler's own errors are not all of one kind
            raise ModelError(
                f"{what} does not compile:\n{error}\n"
                "use scalar arithmetic, math functions and array elements in it, and mark its "
                "helpers @rtsim.compiled; or run it uncompiled: compile=False, rtsim run --plain"
            ) from error
    result = jitted.overloads[signature]
    address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return Native(jitted, np.intp(address))


def _has_source_file(function: Callable[..., Any]) -> bool:
    return os.path.isfile(function.__code__.co_filename)


_NOT_THE_USERS = (
    *(
        os.path.join(folder, "")
        for folder in (
            os.path.dirname(__file__),
            *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        )
    ),
    "<",
)


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an exception that lie in the user's own files, outermost first."""
    return [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THE_USERS)
    ]


def in_words(error: BaseException) -> str:
    """What a user's function raised, and where: ``ZeroDivisionError: … (mine.py:12 in law)``."""
    frames = own_frames(error)
    where = f" ({frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


@contextmanager
def _cache_for(function: Callable[..., Any]) -> Iterator[Path]:
    """Keep machine code under a key that covers every helper and table the function reaches.

    numba's own key covers the one function only, so that a change in a helper would go unseen.
    """
    root = os.environ.get("RTSIM_CACHE_DIR") or user_cache_dir("rtsim")
    before = numba.config.CACHE_DIR
    # The module's name is part of the key: cached code looks its module up when it is loaded.
    key = f"{source_hash(function)[:16]}-{function.__module__}"
    folder = Path(root, "compiled", key)
    numba.config.CACHE_DIR = str(folder)
    try:
        yield folder
    finally:
        numba.config.CACHE_DIR = before


def call_equation(handle: Any, t: float, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    """Call a derivative, an output or guards from a solver, compiled or plain."""
    handle(t, x, z, u, p, out)


def call_project(handle: Any, x: Any) -> None:
    """Call a projection from a solver, compiled or plain."""
    handle(x)


def _emit(context: Any, builder: Any, kinds: tuple[Any, ...], values: Any) -> Any:
    """Call an address by numba's own convention, passing its errors on."""
    convention = context.call_conv
    kind = convention.get_function_type(types.none, kinds[1:])
    target = builder.inttoptr(values[0], ir.PointerType(kind))
    status, _ = convention.call_function(builder, target, types.none, kinds[1:], values[1:])
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


@overload(call_equation, strict=False)
def _(handle: Any, t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> Any:  # noqa: ARG001
    return lambda handle, t, x, z, u, p, out: _equation_at(handle, t, x, z, u, p, out)


@overload(call_project, strict=False)
def _(handle: Any, x: Any) -> Any:  # noqa: ARG001
    return lambda handle, x: _project_at(handle, x)


@overload(call_step, strict=False)
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


@overload(vector_at, strict=False)
def _(words: Any, i: Any) -> Any:  # noqa: ARG001
    return lambda words, i: numba.carray(_double_pointer(words[i]), (words[i + 1],))


def matrix_at(words: Any, i: int, columns: int) -> Any:
    """The same as a matrix of so many ``columns``."""
    found = words[i]
    return found if found.ndim == 2 else found.reshape(-1, max(columns, 1))


@overload(matrix_at, strict=False)
def _(words: Any, i: Any, columns: Any) -> Any:  # noqa: ARG001
    return lambda words, i, columns: numba.carray(
        _double_pointer(words[i]), (words[i + 1] // max(columns, 1), columns)
    )


def evaluate(words: Any, t: float) -> int:
    """An equation on a block of its handle, x, z, u, p and out; as :func:`resident` answers."""
    out = vector_at(words, 9)
    call_equation(
        words[0],
        t,
        vector_at(words, 1),
        vector_at(words, 3),
        vector_at(words, 5),
        vector_at(words, 7),
        out,
    )
    return first_not_finite(out)


@compiled
def first_not_finite(vector: Any) -> int:
    """Index of the first element that is nan or infinite; -1 where all are finite."""
    for i in range(vector.size):
        if not np.isfinite(vector[i]):
            return i
    return -1


def resident(equation: Native, *vectors: NDArray[np.float64]) -> Callable[[float], int]:
    """``equation`` as a function of t alone, on x, z, u, p and out that stay where they are.

    It returns -1, or the index of the first element of out that is not finite.
    """
    if isinstance(equation.handle, np.intp):
        call = compile_function(evaluate, (WORDS, types.float64), "evaluation").call
        block = Block.of((equation.handle,), vectors)
        return lambda t: call(block.words, t)

    def evaluate_plain(t: float) -> int:
        equation.call(t, *vectors)
        return first_not_finite(vectors[-1])

    return evaluate_plain
