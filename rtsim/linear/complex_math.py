"""Copies of functions that compute with complex numbers, for derivatives by complex step.

``math.sin`` and ``abs`` do not accept, or do not keep, a small imaginary part.  A copy uses
replacements that do: for a small ``h``, each computes ``f(x + ih) = f(x) + i h f'(x)``.

Source: W. Squire, G. Trapp, "Using Complex Variables to Estimate Derivatives of Real Functions",
SIAM Review 40 (1998).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rtsim.equations.other_math import Names, Replacements

Function = Callable[..., Any]


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


def _real(function: Function) -> Function:
    """Return a form of a function that is constant between jumps, such as ``floor``."""
    return lambda x: function(float(np.real(x)))


def _degrees(x: Any) -> Any:
    return x * (180.0 / math.pi)


def _radians(x: Any) -> Any:
    return x * (math.pi / 180.0)


def _fmod(x: Any, y: Any) -> Any:
    return x - y * math.trunc(float(np.real(x)) / float(np.real(y)))


def _complex(function: Function) -> Function:
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


def complex_form(function: Function) -> Function:
    """Return a copy of ``function`` that accepts complex numbers.

    All functions of the user that ``function`` calls are copied too.  A call of the copy raises an
    exception of any kind if it uses a function without a complex form.
    """
    return REPLACEMENTS.copy_of(function)
