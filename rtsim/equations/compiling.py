"""Compile model functions to machine code before a run, with a cache.

A compiled solver works for all models, because it calls model functions by their addresses.
``docs/decisions/001`` gives the reasons.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, update_wrapper
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from threading import RLock
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from rtsim.core.cache import cache_folder, not_kept, prune
from rtsim.core.errors import ModelError
from rtsim.core.raised import Interrupted, interrupted
from rtsim.equations.addresses import (
    INLINED,
    NUMBER,
    Signature,
    is_array,
)
from rtsim.equations.compilable import advice
from rtsim.equations.machine_code import (
    EntryPoint,
    MachineCode,
    link,
    processor,
    where,
    write_at_once,
)
from rtsim.equations.source_hash import source_hash

F = TypeVar("F", bound=Callable[..., Any])


CHECKED: Literal["checked"] = "checked"
LATER: Literal["later"] = "later"
Compilation = bool | Literal["checked", "later"]
"""How the functions of a run are prepared:

- ``True``: as machine code.
- :data:`CHECKED`: as machine code that checks each array index.
- ``False``: as plain Python.
- :data:`LATER`: first as plain Python with the same bits as machine code, if possible, and as
  machine code once the run has taken long enough for compilation to pay
  (:mod:`rtsim.equations.same_bits`).
"""

_plain: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def plainly() -> Iterator[None]:
    """Context manager that runs functions marked with ``compiled`` as plain Python."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


class Compiled:
    """A helper function that is compiled together with the equations that call it.

    A call from Python runs machine code that checks the array indices in this helper only.
    """

    targetoptions = MappingProxyType({"error_model": "numpy"})

    def __init__(self, function: Callable[..., Any], with_caller: bool = False) -> None:
        self.py_func = function
        self._with_caller = with_caller
        update_wrapper(self, function)

    @cached_property
    def _inside(self) -> dict[object, Any]:
        return {}

    @property
    def _numba_type_(self) -> Any:
        import numba

        checked = numba.config.BOUNDSCHECK  # the option of the code that is being compiled
        if checked not in self._inside:
            options = {**self.targetoptions, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            self._inside[checked] = numba.njit(**options)(self.py_func)
        return numba.types.Dispatcher(self._inside[checked])

    @cached_property
    def _from_python(self) -> Any:
        _load_compiler()
        import numba

        return numba.njit(boundscheck=True, **self.targetoptions)(self.py_func)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self._with_caller or _plain.get():
            return self.py_func(*arguments, **named)
        return self._from_python(*arguments, **named)


def compiled(function: F) -> F:
    """Mark ``function`` as a helper that is compiled into the model functions that call it.

    In compiled code, a division by zero gives inf or nan, and the solver then reports the name of
    the state that is not finite. A check of each division would cost 8 % of the time of a step of
    the F-16.

    Example:
        @compiled
        def drag(v):
            return 0.6 * v * abs(v)
    """
    return Compiled(getattr(function, "py_func", function))  # type: ignore[return-value]


def like_its_caller(function: Any, original: Any = None) -> Any:
    """Mark a generated function, which is compiled if its caller is compiled.

    A mark by :func:`compiled` is kept.
    """
    marked = hasattr(function if original is None else original, "py_func")
    return compiled(function) if marked else Compiled(function, with_caller=True)


_forms: SimpleQueue[Callable[[], object]] = SimpleQueue()
"""Functions passed to :func:`when_compiling` that have not been called yet."""


def when_compiling(form: Callable[[], object]) -> Callable[[], object]:
    """Register a function to call before the first compilation."""
    _forms.put(form)
    return form


def _load_compiler() -> None:
    import rtsim.equations.lowering  # noqa: F401

    while not _forms.empty():
        _forms.get()()


def in_both(function: F, inlined: bool = True) -> F:
    """Allow compiled code to call a function that also runs as plain Python.

    With ``inlined=False``, a function with several callers is compiled only once. A function that
    is marked with :func:`compiled` is returned unchanged.
    """
    if hasattr(function, "py_func"):
        return function
    options = INLINED if inlined else {"error_model": INLINED["error_model"]}

    def form() -> None:
        from numba.extending import register_jitable

        register_jitable(**options)(function)

    when_compiling(form)
    return function


@dataclass(frozen=True)
class Native:
    """A function that both Python and a solver can call."""

    call: Callable[..., Any]
    handle: Any
    """The machine address, or the plain Python function; 0 if the model has no such function."""
    on: Callable[..., Callable[..., Any]]
    """``on(*arrays)`` binds the arrays and returns a function that takes only the numbers."""
    py_func: Callable[..., Any]
    """The original Python function, from which the source hash is computed."""
    signature: Signature = ()
    unchecked: bool = False
    """True if the machine code does not check indices, so that a bad index accesses other memory.
    """

    def arguments(self, numbers: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        left, given = iter(numbers), iter(arrays)
        return [next(given if is_array(kind) else left) for kind in self.signature]

    @classmethod
    def plain(cls, function: Callable[..., Any], signature: Signature) -> Native:
        def on(*arrays: Any, concurrent: bool = False) -> Callable[..., Any]:  # noqa: ARG001
            if signature[0] == NUMBER and all(map(is_array, signature[1:])):
                return lambda t: function(t, *arrays)

            def call(*numbers: Any) -> Any:
                return function(*native.arguments(numbers, arrays))

            return call

        native = cls(function, function, on, function, signature)
        return native


def _nothing(*_: Any) -> None: ...


ABSENT = Native(_nothing, 0, lambda *_: _nothing, _nothing)

_announce: ContextVar[Callable[[str], None] | None] = ContextVar("announce", default=None)


@contextmanager
def announced(announce: Callable[[str], None]) -> Iterator[None]:
    """Context manager that calls ``announce`` with the name of each compiled function."""
    token = _announce.set(announce)
    try:
        yield
    finally:
        _announce.reset(token)


def prepared(
    function: Callable[..., Any],
    signature: Signature,
    what: str,
    compile: Compilation,
    checked: bool = False,
) -> Native:
    """Return ``function`` in the form that ``compile`` requests.

    With ``checked``, the machine code checks array indices. The machine code then checks each
    index.
    """
    if not compile:
        return Native.plain(getattr(function, "py_func", function), signature)
    found = compile_function(function, signature, what, checked=checked or compile == CHECKED)
    return replace(found, unchecked=True) if checked and compile != CHECKED else found


@dataclass
class _Shared:
    native: dict[tuple[Any, ...], Native] = field(default_factory=dict)
    hashes: dict[Any, str] = field(default_factory=dict)


_shared: ContextVar[_Shared | None] = ContextVar("shared", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """Context manager in which the machine code of each function is looked up only once.

    The hash takes milliseconds to compute. The functions and the objects that they use must not
    change during the context. Nested contexts share all results.
    """
    token = _shared.set(_shared.get() or _Shared())
    try:
        yield
    finally:
        _shared.reset(token)


def hash_of(function: Callable[..., Any]) -> str:
    known = _shared.get()
    if known is None:
        return source_hash(function)
    if function not in known.hashes:
        known.hashes[function] = source_hash(function)
    return known.hashes[function]


def compile_function(
    function: Callable[..., Any], signature: Signature, what: str, checked: bool = False
) -> Native:
    """Compile ``function`` for ``signature``.

    ``what`` names the function in messages. With ``checked``, an index outside its array raises
    :class:`IndexError`. Raises :class:`ModelError` if the function does not compile.
    """
    plain = getattr(function, "py_func", function)
    known, key = _shared.get(), (plain, signature, checked)
    if known is not None and key in known.native:
        return known.native[key]
    native = _found(plain, signature, what, checked)
    if known is not None:
        known.native[key] = native
    return native


def _found(plain: Callable[..., Any], signature: Signature, what: str, checked: bool) -> Native:
    try:
        place = _place(plain, signature, checked)
        return _ready(_Wanted(place, plain, signature, what, checked))
    except Exception as error:  # the compiler raises errors of many classes
        if interrupted(error):
            raise Interrupted from None
        raise ModelError(
            f"{what} does not compile: {advice(plain, str(error))}. To run without compilation, "
            "write compile=False or type rtsim run --plain. docs/compiling.md lists the functions "
            f"that compile.\nThe compiler printed:\n{error}"
        ) from None  # the trace through the compiler would come before the message


def kept(function: Callable[..., Any], signature: Signature, checked: bool = False) -> bool:
    """Return whether the machine code of ``function`` is in the cache."""
    plain = getattr(function, "py_func", function)
    place = _place(plain, signature, checked)
    return place.exists() or _here(place, plain).exists()


@dataclass(frozen=True)
class _Wanted:
    """A request to compile a function; requests for the same file are equal."""

    place: Path
    plain: Callable[..., Any] = field(compare=False)
    signature: Signature = field(compare=False)
    what: str = field(compare=False)
    checked: bool = field(default=False, compare=False)


@lru_cache(maxsize=256)
def _ready(wanted: _Wanted) -> Native:
    for place in (wanted.place, _here(wanted.place, wanted.plain)):
        code = MachineCode.read(place)
        if code is not None and code.raises_in in ("", where(wanted.plain)):
            with suppress(RuntimeError):  # the file needs a symbol that this process lacks
                return _native(wanted, code)
    return _native(wanted, _compile(wanted))


class Source(NamedTuple):
    plain: Callable[..., Any]
    signature: Signature
    checked: bool


@cache
def _sources() -> WeakValueDictionary[int, EntryPoint]:
    return WeakValueDictionary()


def source_at(address: int) -> Source | None:
    """Return the function whose machine code is at ``address``, or ``None``."""
    entry = _sources().get(address)
    return None if entry is None else entry.source


def portable_code(source: Source) -> tuple[str, str, str]:
    """Return the LLVM code of a function for any processor, and two function names.

    The first name is for calls from compiled code. The second name is for calls from C
    (``rtsim.equations.machine_code``). The code is kept in the cache. Raises :class:`ModelError` if
    the code needs numba's runtime.
    """
    plain, signature, checked = source
    place = _place(plain, signature, checked)
    if checked:
        place = _here(place, plain)
    file, names = place.with_suffix(".ll"), (f"f_{place.stem}", f"e_{place.stem}")
    names = names[0].replace("-", "_"), names[1].replace("-", "_")
    with suppress(OSError, UnicodeDecodeError):
        return file.read_text(), *names
    with _compiling:
        _load_compiler()
        from rtsim.equations.lowering import portable

        text = portable(plain, signature, checked, *names)
    try:
        write_at_once(file, text.encode())
    except OSError as error:
        not_kept(file.parent, error)
    return text, *names


def _native(wanted: _Wanted, code: MachineCode) -> Native:
    linked = link(code)
    entry = EntryPoint(linked, wanted.signature)
    entry.source = Source(wanted.plain, wanted.signature, wanted.checked)
    _sources()[linked.handle] = entry
    return Native(
        entry, np.intp(linked.handle), entry.on, wanted.plain, wanted.signature, not wanted.checked
    )


_compiling = RLock()
"""Lock for compilation, because numba has only one cache folder per process."""


def _compile(wanted: _Wanted) -> MachineCode:
    announce, kept = _announce.get(), wanted.place.with_suffix(".numba")
    if announce is not None and not os.path.isdir(kept):
        announce(wanted.what)
    with _compiling:
        _load_compiler()
        _tidy(wanted.place.parent)
        from rtsim.equations.lowering import lower

        code, text = lower(wanted.plain, wanted.signature, kept, wanted.checked)
    if not code.elsewhere:
        try:
            code.write(_here(wanted.place, wanted.plain) if code.raises_in else wanted.place)
            _keep_text(wanted, code.handle, text)
        except OSError as error:
            not_kept(wanted.place.parent, error)
    return code


def _keep_text(wanted: _Wanted, name: str, text: str) -> None:
    if text:
        place = lanes_folder() / f"{wanted.place.stem}{_TEXT}"
        write_at_once(place, zlib.compress(f"; {name}\n{text}".encode(), 1))


def lanes_folder() -> Path:
    """Return the folder with LLVM code, and with the functions that were made from it."""
    return cache_folder() / "lanes"


_TEXT = ".ll.zlib"


def code_of_llvm(source: Source) -> tuple[str, str, str]:
    """Return the LLVM code of a function without vectors, its name there, and a key.

    The machine code of the same function has been made from the same code. Raises
    :class:`ModelError` if the function needs numba's runtime.
    """
    place = _place(*source)
    file = lanes_folder() / f"{place.stem}{_TEXT}"
    with suppress(OSError, zlib.error, UnicodeDecodeError):
        name, _, text = zlib.decompress(file.read_bytes()).decode().partition("\n")
        return text, name.removeprefix("; "), place.stem
    with _compiling:
        _load_compiler()
        from rtsim.equations.lowering import lower

        plain, signature, checked = source
        code, text = lower(plain, signature, place.with_suffix(".numba"), checked)
    if code.elsewhere or not text:
        raise ModelError("it needs numba's runtime, for example to allocate an array")
    return text, code.handle, place.stem


@cache
def _tidy(folder: Path) -> None:
    for name in ("compiled", "diagrams", "indices", "lanes"):
        prune(folder.with_name(name))


_KEPT = 5
"""Version of the saved code. Increase the version when functions are compiled differently."""


def _place(function: Callable[..., Any], signature: Signature, checked: bool = False) -> Path:
    text = f"{hash_of(function)} {function.__module__} {signature} {checked} {_made_by()}"
    return cache_folder() / "compiled" / (f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.code")


def _here(place: Path, plain: Callable[..., Any]) -> Path:
    located = hashlib.sha256(where(plain).encode()).hexdigest()[:8]
    return place.with_name(f"{place.stem}-{located}{place.suffix}")


_FORMS = (
    "equations/addresses.py",
    "equations/calls.py",
    "equations/history.py",
    "equations/lowering.py",
    "equations/machine_code.py",
    "solve/linear_algebra.py",
)
"""Modules with compiled code that the source hash does not cover. A change of one of these modules
invalidates the cache.
"""


@cache
def _made_by() -> str:
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_"))
    versions = [version(name) for name in ("numba", "llvmlite")]
    here = Path(__file__).parents[1]
    own = hashlib.sha256(b"".join((here / name).read_bytes() for name in _FORMS)).hexdigest()
    return " ".join((str(_KEPT), own, sys.version, *versions, processor(), *settings))
