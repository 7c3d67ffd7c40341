"""Copy functions, with replacements for functions of ``math`` and other modules.

:func:`like_compiled_code` evaluates an equation like compiled code where plain Python raises an
error: a division by zero, a root of a negative number, and an overflow give inf or nan.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Names:
    """Replacements for functions of a module, by name.

    If ``refusal`` is set, any other name of the module raises ``TypeError`` with this text.
    """

    replaced: Mapping[str, Any]
    refusal: str = ""


class _Module:
    def __init__(self, module: ModuleType, names: Names) -> None:
        self._module, self._names = module, names

    def __getattr__(self, name: str) -> Any:
        if name in self._names.replaced:
            return self._names.replaced[name]
        if self._names.refusal and hasattr(self._module, name):
            raise TypeError(self._names.refusal.format(name))
        return getattr(self._module, name)


class Replacements:
    """Copy functions, and replace functions of modules and built-in functions in the copies."""

    def __init__(
        self,
        modules: Mapping[ModuleType, Names],
        builtin: Mapping[str, Any],
        copy_arrays: bool = False,
        operators: Mapping[str, Any] | None = None,
        code: Callable[[Any], CodeType] = lambda function: function.__code__,
    ) -> None:
        """Prepare copies of functions.

        With ``copy_arrays``, the copied functions use copies of arrays. ``code`` returns the
        bytecode of a copy.
        """
        self._copy_arrays, self._operators, self._code = copy_arrays, operators or {}, code
        self._modules = {id(module): _Module(module, names) for module, names in modules.items()}
        self._builtin = builtin
        self._functions = {
            id(getattr(module, name)): new
            for module, names in modules.items()
            for name, new in names.replaced.items()
            if isinstance(getattr(module, name, None), BuiltinFunctionType | np.ufunc)
        }
        self._functions |= {id(getattr(builtins, name)): new for name, new in builtin.items()}

    def copy_of(self, function: Function) -> Function:
        """Return a copy of ``function`` whose helpers are copied too."""
        copied: Function = self._copy(getattr(function, "py_func", function), {})
        return copied

    def _copy(self, function: Any, made: dict[int, Any]) -> Any:
        if not isinstance(function, FunctionType):
            return function
        if id(function) in made:
            return made[id(function)]
        names: dict[str, Any] = {**function.__globals__, **self._operators}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copied = FunctionType(
            self._code(function), names, function.__name__, function.__defaults__, cells or None
        )
        copied.__kwdefaults__ = function.__kwdefaults__
        made[id(function)] = copied
        for cell, own in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self._replacement(own.cell_contents, made)
        for name in _names(function.__code__):
            if name in names:
                names[name] = self._replacement(names[name], made)
            elif name in self._builtin:
                names[name] = self._builtin[name]
        return copied

    def _replacement(self, value: Any, made: dict[int, Any]) -> Any:
        for known in (self._modules, self._functions):
            if id(value) in known:
                return known[id(value)]
        if self._copy_arrays and isinstance(value, np.ndarray):
            return value.copy()
        plain = getattr(value, "py_func", value)
        return self._copy(plain, made) if isinstance(plain, FunctionType) else value


def _names(code: CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*(_names(c) for c in inner))


# -- compiled code ---------------------------------------------------------------------------------

_NO_INTEGER = -(2**63)
"""Result of a processor when it converts a float that has no integer value."""


def as_number(function: Function) -> Function:
    """Return a version of ``function`` whose result is a NumPy number, so that 1 / 0 is inf.

    If ``function`` raises an arithmetic error or ``ValueError``, the result is nan.
    """

    def computed(*arguments: Any) -> Any:
        try:
            return np.float64(function(*arguments))
        except (ArithmeticError, ValueError):
            return np.float64(math.nan)

    return computed


def _whole(function: Function) -> Function:
    def computed(x: Any = 0, *rest: Any) -> Any:
        return function(x, *rest) if isinstance(x, str) or np.isfinite(x) else _NO_INTEGER

    return computed


def _first(name: str, otherwise: Function) -> Function:
    own: Function = getattr(math, name)

    def computed(*arguments: Any) -> Any:
        try:
            return own(*arguments)
        except (ArithmeticError, ValueError):
            return otherwise(*arguments)

    return computed


def _log(x: Any, base: Any = None) -> Any:
    return np.log(x) if base is None else np.log(x) / np.log(base)


_SAME = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atanh": "arctanh",
    "cos": "cos", "cosh": "cosh", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "fmod": "fmod",
    "log1p": "log1p", "log2": "log2", "log10": "log10", "pow": "power", "sin": "sin",
    "sinh": "sinh", "sqrt": "sqrt", "tan": "tan",
}  # fmt: skip
"""NumPy functions that give inf or nan where those of ``math`` raise an error."""
_WHOLE = {name: _whole(getattr(math, name)) for name in ("ceil", "floor", "trunc")}
WITHOUT_ERRORS = {
    name: as_number(function)
    for name, function in vars(math).items()
    if isinstance(function, BuiltinFunctionType) and not name.startswith(("is", "_"))
}
WITHOUT_ERRORS |= {
    name: as_number(_first(name, getattr(np, known))) for name, known in _SAME.items()
}
WITHOUT_ERRORS |= {"log": as_number(_first("log", _log)), **_WHOLE}
"""Substitutes for functions of ``math``, by name, that give inf or nan instead of an error."""
_COMPILED = Replacements(
    {math: Names(WITHOUT_ERRORS)},
    {"float": as_number(float), "int": _whole(int), "round": _whole(round)},
)


def like_compiled_code(
    function: Function, in_place: bool = False, without_errors: Function | None = None
) -> Function:
    """Return a version of ``function`` with inf or nan in place of arithmetic errors.

    A call first executes ``function`` itself, so that a debugger can stop in the user's code. After
    an arithmetic error, a copy of ``function`` that computes inf or nan is called. If the copy
    fails too, the error of ``function`` is raised. With ``in_place``, the vectors are restored
    before the copy is called. ``without_errors`` is an existing copy.
    """
    copied = cache(lambda: without_errors or _COMPILED.copy_of(function))

    @wraps(function)
    def evaluated(*arguments: Any) -> Any:
        before = [vector.copy() for vector in _vectors(arguments)] if in_place else ()
        try:
            return function(*arguments)
        except (ArithmeticError, ValueError):
            for vector, old in zip(_vectors(arguments), before, strict=False):
                vector[:] = old
            given = [np.float64(a) if type(a) is float else a for a in arguments]
            try:
                with np.errstate(all="ignore"):
                    return copied()(*given)
            except Exception:
                pass
            raise

    return evaluated


def _vectors(arguments: tuple[Any, ...]) -> list[Any]:
    return [one for one in arguments if isinstance(one, np.ndarray)]
