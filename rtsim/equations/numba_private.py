"""The private names of numba that rtsim uses, in one module.

pyproject.toml limits the version of numba. ``tests/project/test_house.py`` tests each function of
this module, and explains what to do if a new version lacks a name. numba is imported only when a
function is called, because a run whose functions are in the cache does not need it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


def object_code(library: Any) -> bytes:
    """Return the machine code of a compiled function before linking."""
    code: bytes = library._get_compiled_object()
    return code


def code_before_optimisation(library: Any) -> str:
    """Return the LLVM code of a function that was compiled in :func:`optimised_as_a_whole`."""
    library._ensure_finalized()
    return str(library._final_module)


def optimised_code(library: Any) -> str:
    """Optimise a function, and return its LLVM code before that becomes machine code.

    LLVM changes the code further when it makes machine code.
    """
    optimise(library)
    code: str = library.optimised
    return code


def value_of(struct: Any) -> Any:
    """Return the LLVM value of an array or structure."""
    return struct._getvalue()


def name_files_by_signature(jitted: Any) -> None:
    """Make numba choose the cache file of a function by its signature alone.

    numba's own key contains the pickled closure, which differs between processes if it contains a
    compiled function. A cache folder must therefore belong to one function only.
    """
    jitted._cache._index_key = lambda kinds, codegen: (kinds, codegen.magic_tuple())


def save_files(jitted: Any, result: Any) -> None:
    """Write a compiled function to numba's cache files; call ``enable_caching`` first."""
    jitted._cache.save_overload(result.signature.args, result)


class _Raised(ctypes.Structure):
    """numba's ``excinfo``, with which compiled code reports an exception."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("values", ctypes.c_void_p),  # the exception has arguments that are known only at run time
        ("unpack", ctypes.c_void_p),
        ("dynamic", ctypes.c_int32),
    )


def exception_at(address: int) -> BaseException:
    """Return the exception of compiled code, with the line that raised it.

    ``address`` is the address of an ``excinfo``.
    """
    from numba import _helperlib as helpers
    from numba.core import serialize

    found = _Raised.from_address(address)
    said = ctypes.string_at(found.data, found.size)
    if found.dynamic:
        unpack = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(found.unpack)
        packed = serialize.runtime_build_excinfo_struct(said, unpack(found.values))
    else:
        packed = serialize._numba_unpickle(found.data, said, ctypes.string_at(found.values, 20))
    held = ctypes.py_object(packed)
    ctypes.pythonapi.Py_IncRef(held)  # numba's function takes a reference
    address_of: dict[str, int] = vars(helpers)["c_helpers"]
    throw = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(address_of["do_raise"])
    try:
        throw(held)
    except BaseException as error:
        return error
    return SystemError("compiled code failed, and numba raised nothing")


@contextmanager
def counting_allocations() -> Iterator[Callable[[], int]]:
    """Context manager that yields a function, which counts memory allocations of compiled code."""
    from numba.core.runtime import _nrt_python, rtsys

    was_on = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        yield lambda: int(rtsys.get_allocation_stats().alloc)
    finally:
        if not was_on:
            _nrt_python.memsys_disable_stats()


@contextmanager
def optimised_as_a_whole() -> Iterator[None]:
    """Context manager in which numba optimises each function only once.

    By default, numba optimises a helper function again for each of its callers. The repetition
    takes a third of the time to compile the simulation kernel.
    """
    from numba.core.registry import cpu_target

    codegen = cpu_target.target_context.codegen()
    before = codegen._library_class
    codegen._library_class = _late_library(codegen)
    try:
        yield
    finally:
        codegen._library_class = before


def optimise(library: Any) -> None:
    if hasattr(library, "emit"):
        library.emit()


@cache
def _late_library(codegen: Any) -> type:
    from numba.core.codegen import JITCodeLibrary

    engine, set_env, waiting = codegen._engine, codegen.set_env, dict[str, Any]()

    def set_env_late(name: str, env: object) -> None:
        if engine.is_symbol_defined(name):
            set_env(name, env)
        else:
            waiting[name] = env

    codegen.set_env = set_env_late

    class LateLibrary(JITCodeLibrary):  # type: ignore[misc]
        _emitted = False
        optimised = ""

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            if self._disable_inspection:  # it comes from a file, as machine code
                self._emitted = True
                super()._finalize_final_module()
            else:
                self._finalize_dynamic_globals()
                self._finalized = True

        def emit(self) -> None:
            self._ensure_finalized()
            if self._emitted:
                return
            self._emitted = True
            super()._optimize_final_module()
            self._final_module.verify()
            self.optimised = str(self._final_module)
            super()._finalize_final_module()
            for name in [name for name in waiting if engine.is_symbol_defined(name)]:
                set_env(name, waiting.pop(name))

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            if not self._emitted and name in {f.name for f in self.get_defined_functions()}:
                self.emit()
            return super().get_pointer_to_function(name) if self._emitted else 0

        def _get_compiled_object(self) -> Any:
            self.emit()
            return super()._get_compiled_object()

    return LateLibrary
