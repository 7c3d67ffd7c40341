"""Model functions as machine code: compiled once before time starts, cached by content.

A solver is compiled once for all models; it calls each model function by its address
(:mod:`rtsim.equations.addresses`), so neither is compiled again when the other changes.
``docs/decisions/001`` says why.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, update_wrapper
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from threading import RLock
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtsim.core.cache import cache_folder, not_kept, prune
from rtsim.core.errors import ModelError
from rtsim.equations.addresses import (
    ARRAYS,
    INLINED,
    NUMBER,
    WORDS,
    AddressBlock,
    Signature,
    call_equation,
    vector_at,
)
from rtsim.equations.machine_code import EntryPoint, MachineCode, link, processor, where
from rtsim.equations.source_hash import source_hash

F = TypeVar("F", bound=Callable[..., Any])


CHECKED: Literal["checked"] = "checked"
Compilation = bool | Literal["checked"]
"""How a run's functions are made ready: as machine code, as machine code that checks each index of
an array (:data:`CHECKED`), or, where it is False, as plain Python."""

_plain: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def plainly() -> Iterator[None]:
    """Within this, helpers that Python calls run as plain Python."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


class Compiled:
    """A helper that equations call: machine code inside of theirs, and in a call from Python too.

    numba takes it for the function that it compiles this to; until then numba is not imported.
    A call from Python checks the helper's own indices.
    """

    targetoptions = MappingProxyType({"error_model": "numpy"})

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        update_wrapper(self, function)

    @cached_property
    def _inside(self) -> dict[object, Any]:
        """For code that checks its indices, and for code that does not."""
        return {}

    @property
    def _numba_type_(self) -> Any:
        import numba

        checked = numba.config.BOUNDSCHECK  # of the code that is being compiled
        if checked not in self._inside:
            options = {**self.targetoptions, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            self._inside[checked] = numba.njit(**options)(self.py_func)
        return numba.types.Dispatcher(self._inside[checked])

    @cached_property
    def _from_python(self) -> Any:
        _load_compiler()
        import numba

        return numba.njit(boundscheck=True, **self.targetoptions)(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        if _plain.get():
            return self.py_func(*arguments)
        return self._from_python(*arguments)


def compiled(function: F) -> F:
    """A helper that model functions call: compiled with whichever function calls it.

    As everywhere here, a division by zero gives inf or nan, which the step reports with the state's
    name, and not an exception: the checks cost 8 % of the F-16's step.
    """
    return Compiled(getattr(function, "py_func", function))  # type: ignore[return-value]


_forms: SimpleQueue[Callable[[], object]] = SimpleQueue()
"""What is to be done once numba is loaded."""


def when_compiling(form: Callable[[], object]) -> Callable[[], object]:
    """Call ``form``, which may import numba, before anything is compiled."""
    _forms.put(form)
    return form


def _load_compiler() -> None:
    import rtsim.equations.lowering  # noqa: F401

    while not _forms.empty():
        _forms.get()()


def in_both(function: F) -> F:
    """A part of a solver: compiled where compiled code calls it, plain where Python does."""

    def form() -> None:
        from numba.extending import register_jitable

        register_jitable(**INLINED)(function)

    when_compiling(form)
    return function


@dataclass(frozen=True)
class Native:
    """One function ready to run: as Python calls it, and as a solver does."""

    call: Callable[..., Any]
    handle: Any
    """Machine address, or the plain function itself; 0 where a model has none."""
    on: Callable[..., Callable[..., Any]]
    """``on(*arrays)``: a function of its numbers alone, on arrays that stay where they are."""
    py_func: Callable[..., Any]
    """The Python function, which is what a hash of sources sees of it."""
    signature: Signature = ()
    unchecked: bool = False
    """It reads and writes whatever an index says, be it outside of the array."""

    def arguments(self, numbers: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """Both in the order of its signature."""
        left, given = iter(numbers), iter(arrays)
        return [next(given if kind in ARRAYS else left) for kind in self.signature]

    @classmethod
    def plain(cls, function: Callable[..., Any], signature: Signature) -> Native:
        """``function`` as it is, uncompiled."""

        def on(*arrays: Any) -> Callable[..., Any]:
            if signature[0] == NUMBER and ARRAYS.issuperset(signature[1:]):
                return lambda t: function(t, *arrays)

            def call(*numbers: Any) -> Any:
                return function(*native.arguments(numbers, arrays))

            return call

        native = cls(function, function, on, function, signature)
        return native


def _nothing(*_: Any) -> None:
    """Where a model has no such function."""


ABSENT = Native(_nothing, 0, lambda *_: _nothing, _nothing)

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
    function: Callable[..., Any],
    arguments: str,
    what: str,
    does: str = "fills the last one in place",
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
            f"{what} takes {signature}, but is called with ({arguments}); it {does}"
        ) from error


def prepared(
    function: Callable[..., Any], signature: Signature, what: str, compile: Compilation
) -> Native:
    """``function`` as a run wants it: see :data:`Compilation`."""
    if not compile:
        return Native.plain(getattr(function, "py_func", function), signature)
    return compile_function(function, signature, what, checked=compile == CHECKED)


def compile_function(
    function: Callable[..., Any], signature: Signature, what: str, checked: bool = False
) -> Native:
    """Compile ``function`` for ``signature``; a :class:`ModelError` names ``what`` otherwise.

    ``checked``: an index outside of its array raises IndexError, at each access.
    """
    plain = getattr(function, "py_func", function)
    try:
        place = _place(plain, signature, checked)
        return _ready(_Wanted(place, plain, signature, what, checked))
    except Exception as error:  # the compiler's own errors are not all of one kind
        raise ModelError(
            f"{what} does not compile:\n{error}\n"
            "use only scalar arithmetic, math functions and array elements, and mark the "
            "functions that it calls with @rtsim.compiled; or run it uncompiled, with "
            "compile=False or rtsim run --plain"
        ) from error


@dataclass(frozen=True)
class _Wanted:
    """One function to compile; ``place`` alone says whether two of them are the same."""

    place: Path
    plain: Callable[..., Any] = field(compare=False)
    signature: Signature = field(compare=False)
    what: str = field(compare=False)
    checked: bool = field(default=False, compare=False)


@lru_cache(maxsize=256)
def _ready(wanted: _Wanted) -> Native:
    """What this process has already; else from its file; else compiled, and kept in one."""
    code = MachineCode.read(wanted.place)
    if code is not None and code.raises_in in ("", where(wanted.plain)):
        with suppress(RuntimeError):  # written under a system that has what this one lacks
            return _native(wanted, code)
    return _native(wanted, _compile(wanted))


def _native(wanted: _Wanted, code: MachineCode) -> Native:
    linked = link(code)
    entry = EntryPoint(linked, wanted.signature)
    return Native(
        entry, np.intp(linked.handle), entry.on, wanted.plain, wanted.signature, not wanted.checked
    )


_compiling = RLock()
"""numba's setting of a folder is that of the whole process."""


def _compile(wanted: _Wanted) -> MachineCode:
    announce, kept = _announce.get(), wanted.place.with_suffix(".numba")
    if announce is not None and not os.path.isdir(kept):
        announce(wanted.what)
    with _compiling:
        _load_compiler()
        _tidy(wanted.place.parent)
        from rtsim.equations.lowering import lower

        code = lower(wanted.plain, wanted.signature, kept, wanted.checked)
    if not code.elsewhere:
        try:
            code.write(wanted.place)
        except OSError as error:
            not_kept(wanted.place.parent, error)
    return code


@cache
def _tidy(folder: Path) -> None:
    """Once in a process that compiles; one that reads what is kept is not held up."""
    prune(folder)
    prune(folder.with_name("diagrams"))


_KEPT = 4
"""Raised whenever what is kept under a key is compiled in another way."""


def _place(function: Callable[..., Any], signature: Signature, checked: bool = False) -> Path:
    """The file of its machine code, under a key that covers all that the code depends on.

    Every helper and table that the function reaches, the module it lies in (what it raises is
    looked up there), the compiler, and the processor.
    """
    text = f"{source_hash(function)} {function.__module__} {signature} {checked} {_made_by()}"
    return cache_folder() / "compiled" / (f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.code")


_FORMS = (
    "equations/addresses.py",
    "equations/lowering.py",
    "equations/machine_code.py",
    "solve/vectors.py",
    "blocks/scratch.py",
)
"""Compiled forms, which a hash of sources does not follow."""


@cache
def _made_by() -> str:
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_"))
    versions = [version(name) for name in ("numba", "llvmlite")]
    here = Path(__file__).parents[1]
    own = hashlib.sha256(b"".join((here / name).read_bytes() for name in _FORMS)).hexdigest()
    return " ".join((str(_KEPT), own, sys.version, *versions, processor(), *settings))


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


def first_not_finite(vector: Any) -> int:
    """Index of the first element that is nan or infinite; -1 where all are finite."""
    finite = np.isfinite(vector)
    return -1 if finite.all() else int(finite.argmin())


@when_compiling
def _first_not_finite_compiled() -> None:
    from numba.extending import overload

    @overload(first_not_finite, jit_options=INLINED)
    def _(vector: Any) -> Any:  # noqa: ARG001
        def loop(vector: Any) -> int:
            for i in range(vector.size):
                if not np.isfinite(vector[i]):
                    return i
            return -1

        return loop


@cache
def _evaluation() -> Native:
    return compile_function(evaluate, (WORDS, NUMBER), "evaluation")


def resident(equation: Native, *vectors: NDArray[np.float64]) -> Callable[[float], int]:
    """``equation`` as a function of t alone, on x, z, u, p and out that stay where they are.

    It returns -1, or the index of the first element of out that is not finite.
    """
    if isinstance(equation.handle, np.intp):
        return _evaluation().on(AddressBlock.of((equation.handle,), vectors, equation))

    def evaluate_plain(t: float) -> int:
        equation.call(t, *vectors)
        return first_not_finite(vectors[-1])

    return evaluate_plain
