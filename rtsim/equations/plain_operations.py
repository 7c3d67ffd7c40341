"""Operations in plain Python with exactly the same results as in machine code.

Python, NumPy and machine code compute some operations differently. For example, Python calls the C
function ``pow`` for ``x**2``, but machine code multiplies. Each function of this module uses the
same operations in the same order as machine code. :data:`MATH`, :data:`NUMPY` and :data:`BUILTIN`
list the replaced functions, and :func:`in_operations_of_machine_code` replaces operators.

Only the sign of NaN can differ, because no standard defines this sign.
"""

from __future__ import annotations

import ast
import ctypes
import math
import operator
import platform
from collections.abc import Callable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import numpy as np

Function = Callable[..., Any]
MOST_EXPONENT = 0x10000
"""The largest whole exponent for which machine code multiplies."""
_WORD = 2**63
_NO_WORD = -_WORD
"""Result of an x86 processor when it converts a float that is no 64-bit integer."""
WHOLE_NUMBERS = platform.machine().lower() in ("x86_64", "amd64")
"""Whether this processor converts floats that are no 64-bit integers to :data:`_NO_WORD`."""


def whole_power(x: float, n: int) -> float:
    """Return ``x`` to the integer power ``n`` >= 0, by multiplications."""
    result, factor = 1.0, float(x)
    while n:
        if n & 1:
            result *= factor
        n >>= 1
        factor *= factor
    return result


def power(x: float, y: float) -> float:
    """Return ``x`` to the power ``y``, where ``y`` is a float constant in the source."""
    x = float(x)
    if y == 2.0:
        return x * x
    if y == 0.5:
        return math.inf if x == -math.inf else abs(square_root(x))
    if y == -1.0:
        return quotient(1.0, x)
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):  # inf or nan, which are exact
        with np.errstate(all="ignore"):
            return float(np.power(x, y))


def square_root(x: float) -> float:
    return math.sqrt(x) if x >= 0.0 else math.nan


def quotient(x: float, y: float) -> float:
    """Return ``x / y``, with inf or nan for a division by zero."""
    if y != 0.0:
        return x / y
    if x != x or x == 0.0:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def remainder(x: float, y: float) -> float:
    if type(x) is int and type(y) is int:
        return x % y
    x, y = float(x), float(y)
    if y == 0.0 or math.isinf(x):
        return math.nan
    return x % y


def whole_quotient(x: float, y: float) -> float:
    if type(x) is int and type(y) is int:
        return x // y
    x, y = float(x), float(y)
    return quotient(x, y) if y == 0.0 else x // y


def square(x: float) -> float:
    return x * x


def sign(x: float) -> float:
    return 1.0 if x > 0.0 else -1.0 if x < 0.0 else x


def largest(x: float, y: float) -> float:
    x, y = float(x), float(y)
    return x if x != x or x >= y else y


def smallest(x: float, y: float) -> float:
    x, y = float(x), float(y)
    return x if x != x or x <= y else y


def float_remainder(x: float, y: float) -> float:
    x, y = float(x), float(y)
    return math.nan if y == 0.0 or math.isinf(x) else math.fmod(x, y)


def total(values: Any) -> float:
    """Return the sum of a vector, added from the first element to the last."""
    result = 0.0
    for value in values.tolist():
        result += value
    return result


def _word(x: float, whole: Callable[[float], int]) -> int:
    number = whole(x) if math.isfinite(x) else _NO_WORD
    return number if -_WORD <= number < _WORD else _NO_WORD


def ceiling(x: float) -> int:
    return _word(x, math.ceil)


def floor(x: float) -> int:
    return _word(x, math.floor)


def truncated(x: float) -> int:
    return _word(x, math.trunc)


def rounded(x: float) -> int:
    return _word(x, round)


def _of_c(name: str, arguments: int) -> Function | None:
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    found.restype, found.argtypes = ctypes.c_double, (ctypes.c_double,) * arguments
    return found  # type: ignore[no-any-return]


NUMBER, WHOLE, TRUTH = "float", "long", "truth"
"""Kinds of results: a float; a 64-bit integer; True or False."""


def _known(
    replaced: Mapping[str, tuple[Function | None, int, str]],
) -> Mapping[str, tuple[Function, int, str]]:
    return MappingProxyType(
        {
            name: (function, arguments, result)
            for name, (function, arguments, result) in replaced.items()
            if function is not None and (WHOLE_NUMBERS or result != WHOLE)
        }
    )


def _same(names: str) -> dict[str, tuple[Function | None, int, str]]:
    return {name: (getattr(math, name), 1, NUMBER) for name in names.split()}


_HYPOT, _ERF, _ERFC = _of_c("hypot", 2), _of_c("erf", 1), _of_c("erfc", 1)
_TRUTHS = {name: (getattr(math, name), 1, TRUTH) for name in ("isfinite", "isinf", "isnan")}
MATH = _known(
    {
        **_same(
            "acos acosh asin asinh atan atanh cos cosh degrees exp exp2 expm1 fabs log log10 log1p "
            "log2 radians sin sinh sqrt tan tanh"
        ),
        "atan2": (math.atan2, 2, NUMBER),
        "ceil": (ceiling, 1, WHOLE),
        "copysign": (math.copysign, 2, NUMBER),
        "erf": (_ERF, 1, NUMBER),
        "erfc": (_ERFC, 1, NUMBER),
        "floor": (floor, 1, WHOLE),
        "hypot": (_HYPOT, 2, NUMBER),
        "trunc": (truncated, 1, WHOLE),
        **_TRUTHS,
    }
)
"""Replacements for functions of ``math``: the function that computes like machine code, the number
of arguments, and the kind of result.
"""
_C_NAMES = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctanh": "atanh", "cos": "cos", "cosh": "cosh", "deg2rad": "radians", "degrees": "degrees",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log10": "log10",
    "log1p": "log1p", "log2": "log2", "rad2deg": "degrees", "radians": "radians", "sin": "sin",
    "sinh": "sinh", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
EXACT = ("abs", "ceil", "fabs", "floor", "rint", "sqrt", "trunc")
"""NumPy functions with correctly rounded results, which are equal everywhere."""
NUMPY = _known(
    {
        **{name: (getattr(math, known), 1, NUMBER) for name, known in _C_NAMES.items()},
        **{name: (getattr(np, name), 1, NUMBER) for name in EXACT},
        "arctan2": (math.atan2, 2, NUMBER),
        "copysign": (math.copysign, 2, NUMBER),
        "fmod": (float_remainder, 2, NUMBER),
        "hypot": (_HYPOT, 2, NUMBER),
        "maximum": (largest, 2, NUMBER),
        "minimum": (smallest, 2, NUMBER),
        "sign": (sign, 1, NUMBER),
        "square": (square, 1, NUMBER),
        **_TRUTHS,
    }
)
"""Replacements for NumPy functions of numbers, in the form of :data:`MATH`."""
VECTORS = MappingProxyType({"sum": total})
"""Replacements for NumPy functions that take a vector and return a number."""
BUILTIN = _known({"int": (truncated, 1, WHOLE), "round": (rounded, 1, WHOLE)})
"""Replacements for built-in functions, in the form of :data:`MATH`."""


class _Operators(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        name = {ast.Mod: "remainder", ast.FloorDiv: "whole_quotient"}.get(type(node.op), "")
        if isinstance(node.op, ast.Pow):
            whole = isinstance(exponent(node.right), int)
            name = "whole_power" if whole else "power"
        if not name:
            return node
        called = ast.Name(_PREFIX + name, ast.Load())
        new = ast.Call(called, [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(new, node))


_PREFIX = "_machine_code_"
OPERATORS: Mapping[str, Function] = MappingProxyType(
    {
        f"{_PREFIX}{function.__name__}": function
        for function in (power, remainder, whole_power, whole_quotient)
    }
)
"""The names by which rewritten functions call the functions of this module."""


def in_operations_of_machine_code(definition: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return ``definition`` with //, % and ** replaced by calls of ``OPERATORS``, or None."""
    replaced = (ast.FloorDiv, ast.Mod, ast.Pow)
    if not any(isinstance(node, replaced) for node in ast.walk(definition)):
        return None
    changed: ast.FunctionDef = _Operators().visit(deepcopy(definition))
    return changed


def exponent(node: ast.expr) -> float | int | None:
    """Return the number at ``node``, possibly with a sign, or ``None``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = exponent(node.operand)
        return None if found is None else operator.neg(found)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    return None
