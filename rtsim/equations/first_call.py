"""Check the first call of a compiled function for indices outside its arrays.

Machine code does not check indices: ``y[40]`` of an array with one element overwrites other memory,
and the run continues.  Before the first call, the Python function therefore runs on copies of the
same arguments, and Python checks each index.  Later calls are not checked and cost no extra time.
A later call may take another branch of the function; ``rtsim run --checked`` checks every call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from rtsim.core.raised import from_outside
from rtsim.equations.compiling import Native, compile_function, plainly


def first_checked(
    native: Native, arrays: tuple[Any, ...], keep: Callable[[Callable[..., Any]], object]
) -> Callable[..., Any]:
    """Return ``native.on(*arrays)``, extended by a check of its first call.

    The first call raises :class:`IndexError` if an index is outside its array.  Otherwise the first
    call gives ``keep`` the unchecked function, for later calls.
    """
    fast = native.on(*arrays)
    if not native.unchecked:
        return fast

    def first(*numbers: Any) -> Any:
        check(native, *native.arguments(numbers, arrays))
        keep(fast)
        return fast(*numbers)

    return first


def check(native: Native, *arguments: Any) -> None:
    """Raise :class:`IndexError` if this call would use an element that does not exist.

    Other exceptions are ignored: the call itself raises them.  The arguments are not changed.
    """
    if not native.unchecked:
        return
    try:
        with plainly(), np.errstate(all="ignore"), redirect_stdout(None):
            native.py_func(*_copies(arguments))
    except IndexError:
        raise
    except BaseException as error:
        if from_outside(error):
            raise
        # Python raises an error at a division by zero or a logarithm of 0; compiled code does not.
        _check_compiled(native, arguments)


def _check_compiled(native: Native, arguments: tuple[Any, ...]) -> None:
    twin = compile_function(native.py_func, native.signature, "its check", checked=True)
    try:
        twin.call(*_copies(arguments))
    except IndexError:
        raise
    except BaseException as error:
        if from_outside(error):
            raise


def _copies(arguments: tuple[Any, ...]) -> list[Any]:
    return [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
