"""Model functions as machine code: compiled once before time starts, cached by content.

A solver is compiled once for all models; it calls each model function by its address
(:mod:`rtsim.addresses`), so neither is compiled again when the other changes.
``docs/decisions/001`` says why.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.extending import register_jitable
from numpy.typing import NDArray
from platformdirs import user_cache_dir

from rtsim.addresses import ENTERED, INLINED, WORDS, Block, call_equation, vector_at
from rtsim.errors import ModelError
from rtsim.source_hash import source_hash

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """A helper that model functions call: compiled with whichever function calls it.

    As everywhere here, a division by zero gives inf or nan, which the step reports with the state's
    name, and not an exception: the checks cost 8 % of the F-16's step.
    """
    return numba.njit(error_model="numpy")(function)  # type: ignore[no-any-return]


def in_both(function: F) -> F:
    """A part of a solver: compiled where compiled code calls it, plain where Python does."""
    return register_jitable(**INLINED)(function)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Native:
    """One function ready to run: as Python calls it, and as a solver does."""

    call: Callable[..., Any]
    handle: Any
    """Machine address, or the plain function itself; 0 where a model has none."""
    entry: Any = None
    """What has to live as long as that address is called."""


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


def check_arguments(
    function: Callable[..., Any], arguments: str, what: str, does: str = "fills the last in place"
) -> None:
    """Raise :class:`ModelError` unless ``function`` can be called with so many arguments."""
    try:
        signature = inspect.signature(getattr(function, "py_func", function))
    except (TypeError, ValueError):
        return  # a builtin that does not say what it takes
    try:
        signature.bind(*arguments.split(", "))
    except TypeError as error:
        raise ModelError(
            f"{what} takes {signature}; it is called with ({arguments}) and {does}"
        ) from error


def check_value(function: Callable[..., Any], what: str) -> None:
    """Raise :class:`ModelError` where a way through ``function`` ends without a value."""
    code, before = getattr(function, "py_func", function).__code__, None
    for at in dis.get_instructions(code):
        if (at.opname == "RETURN_VALUE" and before == ("LOAD_CONST", None)) or (
            at.opname == "RETURN_CONST" and at.argval is None
        ):
            raise ModelError(f"{what} ends without a value; return a number on every way through")
        before = at.opname, at.argval


def check_names(function: Callable[..., Any], what: str) -> None:
    """Raise :class:`ModelError` where ``function`` reads a name that is nowhere."""
    plain = getattr(function, "py_func", function)
    for at in dis.get_instructions(plain.__code__):
        known = at.argval in plain.__globals__ or hasattr(builtins, str(at.argval))
        if at.opname == "LOAD_GLOBAL" and not known:
            raise ModelError(f"{what} reads {at.argval}, which is not defined; define or import it")


def compile_function(function: Callable[..., Any], signature: Any, what: str) -> Native:
    """Compile ``function`` for ``signature``; a :class:`ModelError` names ``what`` otherwise."""
    plain = getattr(function, "py_func", function)
    with _cache_for(plain) as folder:
        if (known := _loaded.pop((folder, signature), None)) is None:
            announce = _announce.get()
            if announce is not None and not folder.is_dir():
                announce(what)
            try:
                known = _compile(plain, signature)
            except Exception as error:  # the compiler's own errors are not all of one kind
                raise ModelError(
                    f"{what} does not compile:\n{error}\n"
                    "use scalar arithmetic, math functions and array elements in it, and mark its "
                    "helpers @rtsim.compiled; or run it uncompiled: compile=False, rtsim run "
                    "--plain"
                ) from error
        if _has_source_file(plain):
            _loaded[folder, signature] = known  # the latest is last
            while len(_loaded) > _MOST_LOADED:
                _loaded.pop(next(iter(_loaded)))
    return known


_loaded: dict[tuple[Path, Any], Native] = {}
"""What this process has compiled or read from its cache: reading a function takes some 10 ms."""
_MOST_LOADED = 256


def _compile(plain: Callable[..., Any], signature: Any) -> Native:
    cached, entered = _has_source_file(plain), ENTERED.get(signature)
    jitted = _jitted(plain, cached, inlined=entered is not None)
    jitted.compile(signature)
    if entered is None:
        return Native(jitted, _address(jitted, signature))
    through, arguments = entered
    entry = _jitted(through(jitted), cached, inlined=False)
    entry.compile(arguments)
    return Native(jitted, _address(entry, arguments), entry)


def _jitted(plain: Callable[..., Any], cached: bool, inlined: bool) -> Any:
    jitted = numba.njit(cache=cached, error_model="numpy", forceinline=inlined)(plain)
    if cached and plain.__closure__:
        # The folder says what the function is.  numba's own key would pickle a closure, and a
        # compiled function in it pickles otherwise in each process.
        jitted._cache._index_key = lambda signature, codegen: (signature, codegen.magic_tuple())
    return jitted


def _address(jitted: Any, signature: Any) -> np.intp:
    result = jitted.overloads[signature]
    return np.intp(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


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


_KEPT = 2
"""Raised whenever what is kept under a key is compiled in another way."""


@contextmanager
def _cache_for(function: Callable[..., Any]) -> Iterator[Path]:
    """Keep machine code under a key that covers every helper and table the function reaches.

    numba's own key covers the one function only, so that a change in a helper would go unseen.
    """
    root = os.environ.get("RTSIM_CACHE_DIR") or user_cache_dir("rtsim")
    before = numba.config.CACHE_DIR
    # The module's name is part of the key: cached code looks its module up when it is loaded.
    key = f"{source_hash(function)[:16]}-{function.__module__}-{_KEPT}"
    folder = Path(root, "compiled", key)
    numba.config.CACHE_DIR = str(folder)
    try:
        yield folder
    finally:
        numba.config.CACHE_DIR = before


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


@cache
def _evaluation() -> Native:
    return compile_function(evaluate, (WORDS, types.float64), "evaluation")


def resident(equation: Native, *vectors: NDArray[np.float64]) -> Callable[[float], int]:
    """``equation`` as a function of t alone, on x, z, u, p and out that stay where they are.

    It returns -1, or the index of the first element of out that is not finite.
    """
    if isinstance(equation.handle, np.intp):
        call = _evaluation().call
        block = Block.of((equation.handle,), vectors)
        return lambda t: call(block.words, t)

    def evaluate_plain(t: float) -> int:
        equation.call(t, *vectors)
        return first_not_finite(vectors[-1])

    return evaluate_plain
