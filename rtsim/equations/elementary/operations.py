"""Provide the exact operations of which elementary functions consist.

Each operation has a form for plain Python and a form for compiled code, with equal results. Plain
Python raises no arithmetic errors here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from rtsim.equations.compiling import in_both, when_compiling

ROUND = 6755399441055744.0
"""A float whose unit in the last place is 1: ``x + ROUND - ROUND`` is the integer nearest ``x``."""
ROUND_BITS = 0x4338000000000000
SIGN = -0x8000000000000000
_WORD = struct.Struct("<q")
_NUMBER = struct.Struct("<d")
_ALL = 2**64 - 1


def chosen(condition: bool, x: float, y: float) -> float:
    """Return ``x`` if ``condition`` is true, else ``y``, without a branch."""
    return x if condition else y


def bits(x: float) -> int:
    """Return the bits of a float as an integer with sign."""
    found: int = _WORD.unpack(_NUMBER.pack(x))[0]
    return found


def number(word: int) -> float:
    """Return the float with the lowest 64 bits of ``word``."""
    found: float = _NUMBER.unpack((word & _ALL).to_bytes(8, "little"))[0]
    return found


def ratio(x: float, y: float) -> float:
    """Return ``x / y``, which is inf or nan if ``y`` is 0."""
    if y != 0.0:
        return x / y
    if x != x or x == 0.0:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def root(x: float) -> float:
    """Return the square root of ``x``, or nan if ``x`` is negative."""
    return math.sqrt(x) if x >= 0.0 else x if x == 0.0 else math.nan


def floored(x: float) -> float:
    """Return the largest integer that is not greater than ``x``, as a float."""
    return float(math.floor(x)) if abs(x) < 2.0**52 else x


@when_compiling
def _compiled_forms() -> None:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, overload

    double, word = ir.DoubleType(), ir.IntType(64)
    f, i = types.float64, types.int64

    def one(name: str) -> Callable[[Any, Any], Any]:
        def generate(builder: Any, values: Any) -> Any:
            kind = ir.FunctionType(double, [double])
            called = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.f64")
            return builder.call(called, values)

        return generate

    def select(builder: Any, values: Any) -> Any:
        return builder.select(cgutils.as_bool_bit(builder, values[0]), values[1], values[2])

    @intrinsic  # type: ignore[untyped-decorator]
    def _chosen(_: Any, condition: Any, x: Any, y: Any) -> Any:  # noqa: ARG001
        return f(types.boolean, f, f), lambda _c, b, _s, values: select(b, values)

    @intrinsic  # type: ignore[untyped-decorator]
    def _bits(_: Any, x: Any) -> Any:  # noqa: ARG001
        return i(f), lambda _c, b, _s, values: b.bitcast(values[0], word)

    @intrinsic  # type: ignore[untyped-decorator]
    def _number(_: Any, w: Any) -> Any:  # noqa: ARG001
        return f(i), lambda _c, b, _s, values: b.bitcast(values[0], double)

    @intrinsic  # type: ignore[untyped-decorator]
    def _root(_: Any, x: Any) -> Any:  # noqa: ARG001
        return f(f), lambda _c, b, _s, values: one("sqrt")(b, values)

    @intrinsic  # type: ignore[untyped-decorator]
    def _floored(_: Any, x: Any) -> Any:  # noqa: ARG001
        return f(f), lambda _c, b, _s, values: one("floor")(b, values)

    @intrinsic  # type: ignore[untyped-decorator]
    def _ratio(_: Any, x: Any, y: Any) -> Any:  # noqa: ARG001
        return f(f, f), lambda _c, b, _s, values: b.fdiv(*values)

    inline = {"forceinline": True}
    overload(chosen, jit_options=inline)(
        lambda condition, x, y: lambda condition, x, y: _chosen(condition, x, y)  # noqa: ARG005
    )
    overload(bits, jit_options=inline)(lambda x: lambda x: _bits(x))  # noqa: ARG005
    overload(number, jit_options=inline)(lambda word: lambda word: _number(word))  # noqa: ARG005
    overload(root, jit_options=inline)(lambda x: lambda x: _root(x))  # noqa: ARG005
    overload(floored, jit_options=inline)(lambda x: lambda x: _floored(x))  # noqa: ARG005
    overload(ratio, jit_options=inline)(lambda x, y: lambda x, y: _ratio(x, y))  # noqa: ARG005


@in_both
def upper(x: float) -> float:
    """Return ``x`` without its last 27 bits, so that products of two such numbers are exact."""
    return number(bits(x) & -0x8000000)


@in_both
def signed(x: float, like: float) -> float:
    """Return ``x``, which is not negative, with the sign of ``like``."""
    return number(bits(x) | (bits(like) & SIGN))


@in_both
def quotient(x: float, x_low: float, y: float, y_low: float) -> tuple[float, float]:
    """Return ``(x + x_low) / (y + y_low)`` as a number of 26 bits and a rest.

    The relative error of their sum is less than 2**-76 if nothing underflows. ``x_low`` and
    ``y_low`` must be less than the last bit of ``x`` and ``y``.
    """
    inverse = ratio(1.0, y)
    high = upper(x * inverse)
    y_high = upper(y)
    rest = ((x - high * y_high) - high * ((y - y_high) + y_low)) + x_low
    return high, rest * inverse


@in_both
def lost_in_square(x: float, square: float) -> float:
    """Return the difference of the exact square of ``x`` and ``square``, its rounded square."""
    head = upper(x)
    return (head * head - square) + (x - head) * (x + head)


@in_both
def power_of_two(word: int) -> float:
    """Return 2 to the power ``word``, from -1022 to 1023."""
    return number((word + 1023) << 52)


@in_both
def as_float(word: int) -> float:
    """Return an integer as a float; its magnitude must be less than 2**51."""
    return number(word + ROUND_BITS) - ROUND


@in_both
def scaled(x: float, word: int) -> float:
    """Return ``x`` times 2 to the power ``word``, from -2044 to 2046, rounded once.

    Only the second factor can make the result subnormal, if ``x`` is near 1.
    """
    half = word >> 1
    return x * power_of_two(half) * power_of_two(word - half)
