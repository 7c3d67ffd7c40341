"""Derivatives of a vector function by the complex-step method or by central differences.

Central differences are computed with several step sizes and Richardson's extrapolation. For each
element, the step size with the smallest estimated error is used. The complex-step result is used
only if it agrees with the central differences.

For the complex step, functions are copied. For example, ``math.sin`` rejects complex numbers, and
``abs`` loses a small imaginary part. The copies call replacements instead, which compute ``f(x +
ih) = f(x) + i h f'(x)`` for a small ``h``.

Sources: L. F. Richardson, Phil. Trans. R. Soc. A 210 (1911); W. Squire, G. Trapp, "Using Complex
Variables to Estimate Derivatives of Real Functions", SIAM Review 40 (1998).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.raised import from_outside
from rtsim.core.signals import Vector
from rtsim.equations.other_math import Names, Replacements
from rtsim.linear.state_space import Matrix

Function = Callable[[Vector], Vector]
_STEPS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Steps of the differences, relative to the size of the element, or to 1 if that is larger."""
_COMPLEX_STEP = 1e-30
_EPS = float(np.finfo(float).eps)
_KINK = 1e-4
"""An element has a kink if its left and right slopes differ by more than this fraction."""


@dataclass(frozen=True)
class Jacobian:
    """Derivatives (k, n) of k functions by n variables, with estimates of the absolute errors."""

    matrix: Matrix
    errors: Matrix
    exact: frozenset[int]
    """Indices of the variables whose derivatives were computed by complex step."""
    kinks: tuple[tuple[int, int, float], ...]
    """Row, column and difference of the left and right slopes, for each element with a kink."""


def jacobian(
    function: Function, at: Vector, rows: int, complex_function: Callable[[Any], Any] | None = None
) -> Jacobian:
    """Return the derivatives of a vector function at the point ``at`` (n,).

    The result of ``function`` has the shape (rows,). ``complex_function`` computes the same result
    for complex arguments, or raises any exception. Raises :class:`ModelError`, with the index of
    the variable, if a value near ``at`` is not finite.
    """
    n = at.size
    matrix, errors = np.zeros((rows, n)), np.zeros((rows, n))
    if not rows or not n:
        return Jacobian(matrix, errors, frozenset(), ())
    exact: set[int] = set()
    kinks: list[tuple[int, int, float]] = []
    middle = function(at).copy()
    looks = [_looks(function, at, i, middle) for i in range(n)]
    size = _size_of_terms(looks, at, middle)
    for i in range(n):
        column, error, jump = _differences(looks[i], size, middle, max(1.0, abs(float(at[i]))))
        kinked = np.flatnonzero(jump)
        kinks += [(int(row), i, float(jump[row])) for row in kinked]
        if complex_function is not None and not kinked.size:
            found = _by_complex_step(complex_function, at, i, middle)
            if found is None:
                complex_function = None
            elif (np.abs(found - column) <= 20.0 * error + 1e-6 * np.abs(column)).all():
                column, error = found, 4.0 * _EPS * np.abs(found)
                exact.add(i)
        matrix[:, i], errors[:, i] = column, error
    return Jacobian(matrix, errors, frozenset(exact), tuple(kinks))


@dataclass(frozen=True)
class _Look:
    value: Vector
    near: Vector
    bend: Vector
    width: float


def _looks(function: Function, at: Vector, i: int, middle: Vector) -> list[_Look]:
    scale = max(1.0, abs(float(at[i])))
    out = []
    for step in _STEPS:
        sides = [_sides(function, at, i, step * scale * part) for part in (1.0, 0.5)]
        if not all(np.isfinite(values).all() for high, low, _ in sides for values in (high, low)):
            continue
        (high, low, width), (near_high, near_low, near_width) = sides
        wide, near = (high - low) / width, (near_high - near_low) / near_width
        bend = 2.0 * (near_high - 2.0 * middle + near_low) / near_width
        out.append(_Look(near + (near - wide) / 3.0, near, bend, near_width))
    if not out:
        raise ModelError(f"variable {i} cannot be varied around {at[i]:g}: a value is not finite")
    return out


def _size_of_terms(looks: Sequence[Sequence[_Look]], at: Vector, middle: Vector) -> Vector:
    size: Vector = np.abs(middle)
    for i, of_variable in enumerate(looks):
        look = of_variable[len(of_variable) // 2]
        size = np.maximum(size, np.abs(look.near * at[i]))
    return size


def _differences(
    looks: Sequence[_Look], size: Vector, middle: Vector, scale: float
) -> tuple[Vector, Vector, Vector]:
    best = np.full(middle.size, np.nan)
    least = np.full(middle.size, np.inf)
    rounding = np.zeros(middle.size)
    for look in looks:
        rounding = 2.0 * _EPS * size / look.width
        error = np.abs(look.value - look.near) + rounding
        better = error < least
        best[better], least[better] = look.value[better], error[better]
    noise = 40.0 * rounding + 1e-7 * np.maximum(1.0, np.abs(middle)) / scale
    return best, least, _jumps([look.bend for look in looks], best, noise)


def _jumps(bends: Sequence[Vector], slope: Vector, noise: Vector) -> Vector:
    if len(bends) < 3:
        return np.zeros_like(slope)
    early, late = bends[-3], bends[-2]  # The last step is too small for a second difference.
    stays = np.abs(late) > 0.5 * np.abs(early)
    enough = np.abs(late) > np.maximum(_KINK * np.abs(slope), noise)
    return np.where(stays & enough, late, 0.0)


def _sides(function: Function, at: Vector, i: int, delta: float) -> tuple[Vector, Vector, float]:
    high, low = at.copy(), at.copy()
    high[i] += delta
    low[i] -= delta
    return function(high).copy(), function(low).copy(), float(high[i] - low[i])


def _by_complex_step(
    function: Callable[[Any], Any], at: Vector, i: int, middle: Vector
) -> Vector | None:
    moved = at.astype(complex)
    step = _COMPLEX_STEP * max(1.0, abs(float(at[i])))
    moved[i] += 1j * step
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            out = np.asarray(function(moved))
    except BaseException as error:
        if from_outside(error):
            raise
        return None
    slope: Vector = out.imag / step
    close = np.abs(out.real - middle) <= 1e-9 * np.maximum(1.0, np.abs(middle))
    return slope if close.all() and np.isfinite(slope).all() else None


_AnyFunction = Callable[..., Any]


def _absolute(x: Any) -> Any:
    return -x if np.real(x) < 0.0 else x


def _atan2(y: Any, x: Any) -> Any:
    a, b = float(np.real(y)), float(np.real(x))
    size = a * a + b * b
    slope = (b * np.imag(y) - a * np.imag(x)) / size if size else math.nan
    return np.complex128(complex(math.atan2(a, b), float(slope)))


def _hypot(*sides: Any) -> Any:
    return np.sqrt(sum(np.complex128(s) * s for s in sides))


def _power(x: Any, y: Any) -> Any:
    return np.complex128(x) ** y


def _copysign(x: Any, y: Any) -> Any:
    return _absolute(x) * math.copysign(1.0, float(np.real(y)))


def _log(x: Any, base: Any = math.e) -> Any:
    return np.log(np.complex128(x)) / np.log(np.complex128(base))


def _real(function: _AnyFunction) -> _AnyFunction:
    return lambda x: function(float(np.real(x)))


def _degrees(x: Any) -> Any:
    return x * (180.0 / math.pi)


def _radians(x: Any) -> Any:
    return x * (math.pi / 180.0)


def _fmod(x: Any, y: Any) -> Any:
    return x - y * math.trunc(float(np.real(x)) / float(np.real(y)))


def _complex(function: _AnyFunction) -> _AnyFunction:
    return lambda *arguments: function(*(np.asarray(x, dtype=complex) for x in arguments))[()]


def _float(x: Any = 0.0) -> Any:
    return x if isinstance(x, complex) else float(x)


def _int(x: Any = 0) -> int:
    return int(x.real) if isinstance(x, complex) else int(x)


_MATH: dict[str, Any] = {
    name: _complex(getattr(np, known))
    for name, known in {
        "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
        "atan": "arctan", "atanh": "arctanh", "cos": "cos", "cosh": "cosh", "exp": "exp",
        "expm1": "expm1", "log1p": "log1p", "log2": "log2", "log10": "log10", "sin": "sin",
        "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
    }.items()
}  # fmt: skip
_MATH |= {
    "atan2": _atan2,
    "ceil": _real(math.ceil),
    "copysign": _copysign,
    "degrees": _degrees,
    "fabs": _absolute,
    "floor": _real(math.floor),
    "fmod": _fmod,
    "hypot": _hypot,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "log": _log,
    "pow": _power,
    "radians": _radians,
    "trunc": _real(math.trunc),
    **{name: getattr(math, name) for name in ("e", "inf", "nan", "pi", "tau")},
}
_NUMPY = {
    "abs": _absolute, "absolute": _absolute, "arctan2": _atan2, "fabs": _absolute,
    "hypot": _hypot, "floor": _real(math.floor), "ceil": _real(math.ceil),
    "sign": lambda x: np.sign(np.real(x)),
}  # fmt: skip
_BUILTIN = {
    "abs": _absolute,
    "float": _float,
    "int": _int,
}


REPLACEMENTS = Replacements(
    {math: Names(_MATH, "math.{} has no complex form"), np: Names(_NUMPY)},
    _BUILTIN,
)


def complex_form(function: _AnyFunction) -> _AnyFunction:
    """Return a copy of ``function`` that accepts complex numbers.

    The copy also uses copies of the user's helper functions. The copy raises an exception if it
    calls a function that rejects complex numbers.
    """
    return REPLACEMENTS.copy_of(function)
