"""Call the functions of a model repeatedly on the same arrays, and check the first call.

Machine code does not check indices: ``y[40]`` of an array with one element overwrites other memory.
Before the first call, the Python function therefore runs on copies of the arguments, where Python
checks each index. Later calls are not checked. A later call may take another branch of the
function; ``rtsim run --checked`` checks every call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.raised import from_outside
from rtsim.equations.addresses import (
    INLINED,
    NUMBER,
    WORDS,
    AddressBlock,
    Layout,
    call_equation,
    vector_at,
)
from rtsim.equations.compiling import Native, compile_function, in_both, plainly, when_compiling

EVALUATION_LAYOUT = Layout(
    "an evaluation",
    ("equation",),
    {"x": ("x",), "z": ("z",), "u": ("u",), "p": ("p",), "out": ("out",)},
)
AT = EVALUATION_LAYOUT.at


def evaluate(words: Any, t: float) -> int:
    """Evaluate an equation at time ``t`` (s).

    ``words`` is an argument table of :data:`EVALUATION_LAYOUT`. Returns the result that
    :func:`resident` describes.
    """
    out = vector_at(words, AT.out)
    x, z, u = vector_at(words, AT.x), vector_at(words, AT.z), vector_at(words, AT.u)
    call_equation(words[AT.equation], t, x, z, u, vector_at(words, AT.p), out)
    return first_not_finite(out)


@in_both
def call_at(words: Any, equation: Any, t: float, x: Any, out: Any) -> None:
    """Call an equation at time ``t`` (s) with the states ``x`` and other vectors in ``words``.

    ``equation`` is the address of a compiled function, or a Python function.
    """
    call_equation(equation, t, x, words.z, words.u, words.p, out)


def evaluation_block(equation: Any, *vectors: NDArray[np.float64]) -> AddressBlock:
    arrays = dict(zip(EVALUATION_LAYOUT.arrays, vectors, strict=True))
    return EVALUATION_LAYOUT.block((equation.handle,), arrays, {}, equation)


def first_not_finite(vector: Any) -> int:
    """Return the index of the first element that is not finite, or -1."""
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
    """Return a function of t (s) that evaluates ``equation`` on the arrays x, z, u, p and out.

    The function returns the index of the first element of out that is not finite, or -1.
    """
    if isinstance(equation.handle, np.intp):
        return _evaluation().on(evaluation_block(equation, *vectors))

    def evaluate_plain(t: float) -> int:
        equation.call(t, *vectors)
        return first_not_finite(vectors[-1])

    return evaluate_plain


def first_checked(
    native: Native, arrays: tuple[Any, ...], keep: Callable[[Callable[..., Any]], object]
) -> Callable[..., Any]:
    """Return a function whose first call checks the array indices.

    The first call raises :class:`IndexError` if an index is outside its array. After a successful
    check, the unchecked function is passed to ``keep``, for later calls.
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
    """Raise ``IndexError`` if the call uses an index outside an array.

    The arguments are not changed.
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
