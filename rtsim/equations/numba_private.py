"""All uses of numba's private names: a new version of numba needs changes in this module only.

pyproject.toml limits the version of numba.  ``tests/unit/test_private_names.py`` tests each
function of this module, and says what to do if a new version lacks a name. numba is imported only
when a function is called: a run whose functions are in the cache does not need it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def object_code(library: Any) -> bytes:
    """Return the machine code of a compiled function's library, before it is linked."""
    code: bytes = library._get_compiled_object()
    return code


def value_of(struct: Any) -> Any:
    """Return the LLVM value of an array or another structure that is being built."""
    return struct._getvalue()


def name_files_by_signature(jitted: Any) -> None:
    """Make numba identify the files of a function by its signature alone.

    numba's own key contains the pickled closure, and a compiled function in a closure is pickled
    differently in each process.  The folder of the files must therefore identify the function.
    """
    jitted._cache._index_key = lambda kinds, codegen: (kinds, codegen.magic_tuple())


def save_files(jitted: Any, result: Any) -> None:
    """Write a compiled function to numba's files; call ``enable_caching`` first."""
    jitted._cache.save_overload(result.signature.args, result)


class _Raised(ctypes.Structure):
    """numba's ``excinfo``: how compiled code reports an exception."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("values", ctypes.c_void_p),  # the exception has arguments that are known only at run time
        ("unpack", ctypes.c_void_p),
        ("dynamic", ctypes.c_int32),
    )


def exception_at(address: int) -> BaseException:
    """Return the exception that compiled code raised, with a traceback to the line that raised it.

    ``address`` is the address of an ``excinfo``.  This function unpacks the ``excinfo`` as numba
    does after its own calls.
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
    """In this context, yield a function that returns how often compiled code allocated memory."""
    from numba.core.runtime import _nrt_python, rtsys

    was_on = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        yield lambda: int(rtsys.get_allocation_stats().alloc)
    finally:
        if not was_on:
            _nrt_python.memsys_disable_stats()
