"""Functions of Python, ``math`` and NumPy that can be compiled, and substitutes for others.

docs/compiling.md shows these lists, and a test compiles each listed function.
"""

from __future__ import annotations

import builtins
import os
import re
import types
from collections.abc import Callable
from typing import Any


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


MATH = _names(
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp exp2 expm1 "
    "fabs floor frexp gamma gcd hypot isfinite isinf isnan ldexp lgamma log log10 log1p log2 "
    "nextafter pow radians sin sinh sqrt tan tanh trunc"
)
"""Functions of the module ``math``, each for numbers."""
BUILTIN = _names("abs bool divmod float int len max min pow range round sum")
"""Functions of Python."""
NUMBERS = _names(
    "abs arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil copysign cos cosh deg2rad "
    "degrees exp exp2 expm1 fabs floor fmax fmin fmod hypot isfinite isinf isnan log log10 log1p "
    "log2 logaddexp maximum minimum mod nextafter power rad2deg radians rint sign signbit sin sinc "
    "sinh spacing sqrt square tan tanh trunc"
)
"""NumPy functions for numbers; most also take arrays, element by element."""
ARRAYS = _names("all any argmax argmin cross dot interp max mean min prod searchsorted sum")
"""NumPy functions for arrays."""
MAKING = _names("empty full zeros zeros_like")
"""NumPy functions that create arrays. An array that is created in each call takes time."""
LINEAR = _names("det inv norm solve")
"""Functions of ``numpy.linalg``, for arrays of two dimensions; ``norm`` and ``solve`` take vectors.
"""

_LOOP = "write a loop over the elements"
SUBSTITUTES = {
    "all": _LOOP,
    "any": _LOOP,
    "math.cbrt": "np.cbrt(x)",
    "math.comb": "math.gamma(n + 1.0) / (math.gamma(k + 1.0) * math.gamma(n - k + 1.0))",
    "math.dist": "math.hypot(b[0] - a[0], b[1] - a[1])",
    "math.factorial": "math.gamma(n + 1.0)",
    "math.fma": "x * y + z",
    "math.fmod": "np.fmod(x, y), or x % y, which has the sign of y",
    "math.fsum": "sum(values)",
    "math.hypot": "math.sqrt(x * x + y * y + z * z) for more than two arguments",
    "math.isclose": "abs(a - b) <= tolerance",
    "math.isqrt": "int(math.sqrt(n))",
    "math.lcm": "a * b // math.gcd(a, b)",
    "math.modf": "math.trunc(x) and x - math.trunc(x)",
    "math.perm": "math.gamma(n + 1.0) / math.gamma(n - k + 1.0)",
    "math.prod": f"np.prod(values), or {_LOOP}",
    "math.remainder": "x - y * round(x / y)",
    "math.sumprod": f"np.dot(a, b), or {_LOOP}",
    "math.ulp": "np.spacing(abs(x))",
    "numpy.clip": "min(max(x, low), high)",
    "numpy.einsum": _LOOP,
    "numpy.frexp": "math.frexp(x)",
    "numpy.gradient": f"{_LOOP} that divides differences",
    "numpy.heaviside": "0.0 if x < 0.0 else 1.0",
    "numpy.ldexp": "math.ldexp(x, n)",
    "numpy.linalg.cross": "np.cross(a, b)",
    "numpy.matmul": "a @ b",
    "numpy.modf": "math.trunc(x) and x - math.trunc(x)",
    "numpy.polyval": "Horner's rule, such as (c[0] * x + c[1]) * x + c[2]",
    "numpy.roll": "x[(i - 1) % x.size] in a loop over i",
}
_LINEAR = "required for linear algebra"
"""Part of the compiler's message for a matrix product that needs SciPy's BLAS."""
_WITH_SCIPY = f"type pip install 'rtsim[scipy]', or {_LOOP}"
"""Remedy if SciPy is not installed."""

_ATTRIBUTE = re.compile(r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'")
_METHOD = re.compile(r"Unknown attribute '(\w+)' of type array")
_NUMPY = re.compile(r"Use of unsupported NumPy function '([\w.]+)'")
_NAME = re.compile(r"Untyped global name '(\w+)'")
_CALL = re.compile(r">>> ([\w.]+\(.*\))")
_CALLED = re.compile(r"Function\(<(?:built-in function|ufunc|function) '?(\w+)")
_UNKNOWN = re.compile(r"NameError: name '(\w+)' is not defined")
_STATEMENT = re.compile(r"The '([a-z ]+)\b.*' construct is not supported")
_PLACE = re.compile(
    r"^During: (?:typing of .*?|resolving .*?) at (\S.*?) \((\d+)\)|^File \"(.*?)\", line (\d+)",
    re.MULTILINE,
)
"""The location in the user's function; locations within NumPy's functions are indented."""


def advice(function: Callable[..., Any], error: str) -> str:
    """Return which part of ``function`` cannot be compiled, with a substitute.

    ``error`` is the message of the compiler.
    """
    name, text = _failed(function, error)
    place = _PLACE.search(error)
    file, line = (place[1] or place[3], place[2] or place[4]) if place else ("", "")
    where = f" ({os.path.basename(file)}:{line})" if place else ""
    return text if not name else f"{name}{where} does not compile; {text}"


def _failed(function: Callable[..., Any], error: str) -> tuple[str, str]:
    if _LINEAR in error:
        return "a product of matrices, or a function of numpy.linalg,", _WITH_SCIPY
    if found := _ATTRIBUTE.search(error):
        return _known(f"{found[2]}.{found[1]}")
    if found := _NUMPY.search(error):
        return _known(found[1])
    if found := _METHOD.search(error):
        return f"the method {found[1]} of an array", _LOOP
    if found := _NAME.search(error):
        return _named(found[1], _value(function, found[1]))
    if found := _CALL.search(error):
        called = _CALLED.search(error)
        alike = [k for k in SUBSTITUTES if called and k.rpartition(".")[2] == called[1]]
        remedy = f"use {SUBSTITUTES[alike[0]]}" if alike else "give arguments of other types"
        return found[1], remedy
    if found := _UNKNOWN.search(error):
        return f"the name {found[1]}, which is not defined,", "define or import it"
    if found := _STATEMENT.search(error):
        return f"the statement {found[1].strip()}", "write it with statements that compile"
    return "", (
        "use only arithmetic, math functions and array elements, and mark the functions that it "
        "calls with @rtsim.compiled"
    )


def _known(name: str) -> tuple[str, str]:
    if name.startswith("scipy."):
        return (
            name,
            "SciPy's functions do not compile: write its formula, or a table of values",
        )
    substitute = SUBSTITUTES.get(name, "")
    remedy = f"use {substitute}" if substitute else "write it with functions that compile"
    return name, remedy.replace("use write", "write")


def _named(name: str, value: object) -> tuple[str, str]:
    if isinstance(value, types.FunctionType):
        return f"the function {name}", f"mark {name} with @rtsim.compiled"
    module = getattr(value, "__module__", "") or ""
    if module == "builtins" and callable(value):
        return _known(name)
    if callable(value) and module:
        return _known(f"{module}.{getattr(value, '__name__', name)}")
    if type(value).__module__ == "numpy" and callable(value):  # a function of NumPy or SciPy
        return name, "write its formula, or use a function that compiles"
    kind = type(value).__name__
    return f"the name {name} ({kind})", "give it as a number, an array or a parameter"


def _value(function: Callable[..., Any], name: str) -> object:
    code, cells = function.__code__, function.__closure__ or ()
    free = dict(zip(code.co_freevars, cells, strict=True))
    if name in free:
        return free[name].cell_contents
    return function.__globals__.get(name, getattr(builtins, name, None))
