"""Model functions as machine code: compiled once before time starts, cached by content.

A solver is compiled once for all models; it receives each model function as an address and calls it
through :func:`invoke`, so neither is compiled again when the other changes.  The same source runs
uncompiled when the address is the plain Python function itself.  ``docs/decisions/001`` says why.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from platformdirs import user_cache_dir

from rtsim.errors import ModelError
from rtsim.source_hash import source_hash

F = TypeVar("F", bound=Callable[..., Any])

VECTOR = types.Array(types.float64, 1, "C")
EQUATION = (types.float64, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)
"""Arguments of derivative, output and guards: t, x, z, u, p and the vector to fill."""
UPDATE = (types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
IN_PLACE = (VECTOR,)


def compiled(function: F) -> F:
    """A helper that model functions call: compiled with whichever function calls it.

    As everywhere here, a division by zero gives inf or nan, which the step reports with the state's
    name, and not an exception: the checks would cost a tenth of the F-16's step.
    """
    return numba.njit(error_model="numpy")(function)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Native:
    """One function ready to run: as Python calls it, and as a solver does."""

    call: Callable[..., Any]
    handle: Any
    """Machine address, or the plain function itself; 0 where a model has none."""


ABSENT = Native(lambda *_: None, 0)


def compile_function(function: Callable[..., Any], signature: Any, what: str) -> Native:
    """Compile ``function`` for ``signature``; a :class:`ModelError` names ``what`` otherwise."""
    plain = getattr(function, "py_func", function)
    with _cache_for(plain):
        jitted = numba.njit(cache=_has_source_file(plain), error_model="numpy")(plain)
        try:
            jitted.compile(signature)
        except numba.core.errors.NumbaError as error:
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


@contextmanager
def _cache_for(function: Callable[..., Any]) -> Any:
    """Keep machine code under a key that covers every helper and table the function reaches.

    numba's own key covers the one function only, so that a change in a helper would go unseen.
    """
    root = os.environ.get("RTSIM_CACHE_DIR") or user_cache_dir("rtsim")
    before = numba.config.CACHE_DIR
    # The module's name is part of the key: cached code looks its module up when it is loaded.
    key = f"{source_hash(function)[:16]}-{function.__module__}"
    numba.config.CACHE_DIR = str(Path(root, "compiled", key))
    try:
        yield
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


@overload(call_equation, strict=False)
def _(handle: Any, t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> Any:  # noqa: ARG001
    return lambda handle, t, x, z, u, p, out: _equation_at(handle, t, x, z, u, p, out)


@overload(call_project, strict=False)
def _(handle: Any, x: Any) -> Any:  # noqa: ARG001
    return lambda handle, x: _project_at(handle, x)
