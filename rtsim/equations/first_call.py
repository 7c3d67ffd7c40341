"""The first call of a compiled function is checked: machine code believes every index.

``y[40]`` of one element writes into somebody else's memory, and the run goes on.  Before such a
function is called for the first time, its Python function runs on copies of the same arguments,
and Python checks each index.  It costs nothing afterwards.  Later calls may go another way through
the function: ``--checked`` checks these too.
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
    """``native.on(*arrays)``, whose first call is checked and raises :class:`IndexError`.

    ``keep`` is given the function for all other calls, to put it in the place of this one.
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
    """Raise :class:`IndexError` where ``native`` would use an element that does not exist.

    What else it raises, and what it writes, is left to the call itself.
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
        # Python has left where compiled code goes on: a division by zero, a logarithm of 0.
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
