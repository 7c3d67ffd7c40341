"""All that rtsim uses of what numba keeps to itself: a new numba is met here, and nowhere else.

pyproject.toml bounds numba's version.  ``tests/unit/test_private_names.py`` tries each function of
this module, and says what to do when a new numba lacks a name.  numba is imported when a function
is called: a run whose functions were compiled before needs none of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def object_code(library: Any) -> bytes:
    """The machine code of a compiled function's library, before it is linked."""
    code: bytes = library._get_compiled_object()
    return code


def value_of(struct: Any) -> Any:
    """The LLVM value of an array, or another structure, that is being put together."""
    return struct._getvalue()


def name_files_by_signature(jitted: Any) -> None:
    """Let numba find a function's files by its signature alone.

    numba's own key pickles a closure, and a compiled function in it pickles otherwise in each
    process.  The folder of the files has to say what the function is.
    """
    jitted._cache._index_key = lambda kinds, codegen: (kinds, codegen.magic_tuple())


def save_files(jitted: Any, result: Any) -> None:
    """Write what was compiled to numba's files, after ``enable_caching``."""
    jitted._cache.save_overload(result.signature.args, result)


class _Raised(ctypes.Structure):
    """How compiled code says what it raised; numba's ``excinfo``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("values", ctypes.c_void_p),  # of arguments that are known only when it is raised
        ("unpack", ctypes.c_void_p),
        ("dynamic", ctypes.c_int32),
    )


def exception_at(address: int) -> BaseException:
    """What compiled code raised, with the line that raised it as the last of its traceback.

    ``address`` is that of an ``excinfo``.  numba packed it, and numba unpacks it as it does for
    functions that it calls itself.
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
    """A function that says how often compiled code has asked for memory so far."""
    from numba.core.runtime import _nrt_python, rtsys

    was_on = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        yield lambda: int(rtsys.get_allocation_stats().alloc)
    finally:
        if not was_on:
            _nrt_python.memsys_disable_stats()
