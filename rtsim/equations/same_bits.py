"""Functions that give equal bits as plain Python and as machine code.

A run that starts with plain Python and continues with machine code may use only such functions.
:func:`same_bits` reads the source of a function and is cautious: it answers False unless each
operation is one that Python and the compiler compute alike:

- the four basic operations, comparisons and choices, on numbers that are floats in both;
- whole numbers that stay small, as constants, counters of loops and indices;
- the functions of :data:`MATH` and :data:`NUMPY`, which both take from the same library, or round
  correctly;
- helpers that are marked with ``@rtsim.compiled`` and hold to the same rules.

Powers are not among them: machine code multiplies where Python calls ``pow``.  Nor are sums over
vectors, which NumPy adds in another order, and functions of NumPy that have code of their own.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import numpy as np

from rtsim.equations.addresses import EQUATION, INTEGER, NUMBER, Signature, is_array
from rtsim.equations.compiling import Compiled, Native, kept
from rtsim.equations.machine_code import vectors_have_their_own_functions
from rtsim.equations.other_math import constants_kept, like_compiled_code

MATH = {
    **dict.fromkeys(
        ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "fabs",
         "log", "log10", "log1p", "sin", "sinh", "sqrt", "tan", "tanh"), 1
    ),
    **dict.fromkeys(("atan2", "copysign"), 2),
}  # fmt: skip
"""Functions of ``math`` that the machine code calls too, with their numbers of arguments."""
NUMPY = dict.fromkeys(("abs", "ceil", "fabs", "floor", "sqrt", "trunc"), 1)
"""Functions of NumPy whose results are rounded correctly, so that they are equal everywhere."""
_LARGEST = 2.0**52
"""Whole numbers up to this one are floats without rounding, and far from an overflow."""


class _Unsure(Exception):
    """The source does not show that the results are equal."""


@dataclass(frozen=True)
class _Kind:
    """What is known of a value.

    ``name`` is one of: ``float``; ``constant``, a float of Python that no vector went into, by
    which a division can raise an error; ``whole``, a whole number up to ``bound``; ``mixed``, a
    float of machine code that can be a whole number of Python; ``truth``; ``vector``; ``nothing``.
    """

    name: str
    bound: float = 0.0

    def joined(self, other: _Kind) -> _Kind:
        """Return the kind of a value that has one of two kinds."""
        if self.name == other.name:
            return self if self.bound >= other.bound else other
        names = {self.name, other.name}
        if names == {"float", "constant"}:
            return _CONSTANT
        if names <= {"float", "constant", "whole", "mixed"}:
            return _MIXED
        raise _Unsure


_FLOAT, _CONSTANT, _MIXED = _Kind("float"), _Kind("constant"), _Kind("mixed")
_TRUTH, _VECTOR, _NOTHING = _Kind("truth"), _Kind("vector"), _Kind("nothing")
_NUMBERS = {"float", "constant", "whole", "mixed"}


def _whole(bound: float) -> _Kind:
    if not bound <= _LARGEST:
        raise _Unsure
    return _Kind("whole", bound)


def same_bits(function: Callable[..., Any], signature: Signature) -> bool:
    """Return whether ``function`` surely gives equal bits as plain Python and as machine code.

    Only a method of a class with fields can be known, and what it calls: the source of another
    function may have changed since it was read.
    """
    kinds = tuple(map(_argument, signature))
    try:
        _Reader.of(getattr(function, "py_func", function), kinds, ())
    except (_Unsure, RecursionError):
        return False
    return True


def _argument(kind: str) -> _Kind:
    if is_array(kind):
        return _VECTOR
    return {NUMBER: _CONSTANT, INTEGER: _whole(2.0**31)}[kind]


def plain_at_first(functions: Mapping[str, tuple[Any, Signature, bool]]) -> dict[str, Native]:
    """Return functions as plain Python that gives the bits of compiled code.

    ``functions`` are given by name, with their signatures, and whether their machine code checks
    indices.  As in compiled code, their global numbers and arrays are constants.  The result is
    empty if a bit can differ, or if the machine code of all is in the cache, so that nothing is
    gained.
    """
    plain = {name: (getattr(f, "py_func", f), *rest) for name, (f, *rest) in functions.items()}
    if vectors_have_their_own_functions():
        return {}
    if not all(same_bits(function, kinds) for function, kinds, _ in plain.values()):
        return {}
    if all(kept(*one) for one in plain.values()):
        return {}
    found = {}
    for name, (function, signature, _) in plain.items():
        alike = like_compiled_code(constants_kept(function), in_place=signature != EQUATION)
        found[name] = replace(Native.plain(alike, signature), py_func=function)
    return found


class _Reader:
    """Follows the kinds of the variables of one function."""

    def __init__(
        self, function: Any, definition: ast.FunctionDef, kinds: Sequence[_Kind], callers: Any
    ) -> None:
        arguments = definition.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        if len(names) != len(kinds) or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            raise _Unsure
        self._function, self._callers = function, (*callers, function)
        self._kinds: dict[str, _Kind] = dict(zip(names, kinds, strict=True))
        self._given = frozenset(names)
        self._own = {
            node.id
            for node in ast.walk(definition)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        self._stores = [
            node.id
            for node in ast.walk(definition)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        self.result: _Kind | None = None
        self._sure = True

    @classmethod
    def of(cls, function: Any, kinds: Sequence[_Kind], callers: tuple[Any, ...]) -> _Kind:
        """Return the kind of the result; raises ``_Unsure`` if bits can differ."""
        definition = getattr(function, "definition", None)
        if not isinstance(function, FunctionType) or definition is None or function in callers:
            raise _Unsure
        found = cls(function, definition, kinds, callers)
        body = definition.body
        for _ in range(8):  # a loop can use a variable before the line that gives it a value
            before, found._sure = (dict(found._kinds), found.result), True
            found._block(body)
            if before == (found._kinds, found.result):
                break
        else:
            raise _Unsure
        if not found._sure:
            raise _Unsure
        if found.result is None:
            return _NOTHING
        if found.result is not _NOTHING and not isinstance(body[-1], (ast.Return, ast.If)):
            raise _Unsure
        return found.result

    # -- statements --------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AugAssign):
            read = ast.copy_location(_read(node.target), node.target)
            kind = self._operation(node.op, self._kind(read), self._kind(node.value), node.value)
            if kind.name == "whole" or isinstance(node.target, ast.Tuple):
                raise _Unsure  # a counter that nothing bounds
            self._store(node.target, kind)
        elif isinstance(node, (ast.If, ast.While)):
            self._truth(node.test)
            self._block(node.body)
            self._block(node.orelse)
        elif isinstance(node, ast.For):
            self._loop(node)
        elif isinstance(node, ast.Return):
            kind = _NOTHING if node.value is None else self._kind(node.value)
            self.result = kind if self.result is None else self.result.joined(kind)
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):  # a docstring
                self._kind(node.value)
        elif not isinstance(node, (ast.Pass, ast.Break, ast.Continue)):
            raise _Unsure

    def _loop(self, node: ast.For) -> None:
        """Follow ``for i in range(...)``."""
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and self._value(call.func) is range
            and isinstance(node.target, ast.Name)
            and not call.keywords
            and not node.orelse
        ):
            raise _Unsure
        bounds = [self._kind(one) for one in call.args]
        if any(kind.name != "whole" for kind in bounds):
            raise _Unsure
        self._set(node.target.id, _whole(max(kind.bound for kind in bounds)))
        self._block(node.body)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
                raise _Unsure
            for one, of in zip(target.elts, value.elts, strict=True):
                self._assign(one, of)
            return
        kind = self._kind(value)
        if (
            kind.name == "whole"
            and isinstance(target, ast.Name)
            and not isinstance(_unsigned(value), ast.Constant)
            and self._stores.count(target.id) > 1
        ):
            raise _Unsure
        self._store(target, kind)

    def _store(self, target: ast.expr, kind: _Kind) -> None:
        if isinstance(target, ast.Name):
            if kind.name not in {*_NUMBERS, "truth"}:
                raise _Unsure  # a second name of a vector, or nothing
            self._set(target.id, kind)
        elif isinstance(target, ast.Subscript):
            if self._kind(_read(target)) != _FLOAT or kind.name not in {*_NUMBERS, "truth"}:
                raise _Unsure
        else:
            raise _Unsure

    def _set(self, name: str, kind: _Kind) -> None:
        known = self._kinds.get(name)
        self._kinds[name] = kind if known is None else known.joined(kind)

    # -- expressions -------------------------------------------------------------------------------

    def _truth(self, node: ast.expr) -> None:
        if isinstance(node, ast.BoolOp):
            for one in node.values:
                self._truth(one)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._truth(node.operand)
        elif self._kind(node).name not in {*_NUMBERS, "truth"}:
            raise _Unsure

    def _number(self, node: ast.expr) -> _Kind:
        kind = self._kind(node)
        if kind.name not in _NUMBERS:
            raise _Unsure
        return kind

    def _kind(self, node: ast.expr) -> _Kind:
        """Return the kind of an expression; raises ``_Unsure`` if its bits can differ."""
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Attribute):
            if node.attr == "size" and self._kind(node.value) == _VECTOR:
                return _whole(2.0**31)
            return _constant(self._value(node))
        if isinstance(node, ast.Subscript):
            if self._kind(node.value) != _VECTOR:
                raise _Unsure
            if isinstance(node.slice, ast.Slice):  # a field with elements
                return _VECTOR
            if self._kind(node.slice).name != "whole":
                raise _Unsure
            return _FLOAT
        if isinstance(node, ast.BinOp):
            left, right = self._number(node.left), self._number(node.right)
            return self._operation(node.op, left, right, node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            kind = self._number(node.operand)
            if kind == _MIXED:  # -0 is 0 in Python and -0.0 in machine code
                raise _Unsure
            return kind
        if isinstance(node, ast.Compare):
            alike = ast.Eq | ast.NotEq | ast.Lt | ast.LtE | ast.Gt | ast.GtE
            if not all(isinstance(op, alike) for op in node.ops):
                raise _Unsure
            for one in (node.left, *node.comparators):
                self._number(one)
            return _TRUTH
        if isinstance(node, ast.BoolOp) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            parts = node.values if isinstance(node, ast.BoolOp) else [node.operand]
            if any(self._kind(one) != _TRUTH for one in parts):
                raise _Unsure
            return _TRUTH
        if isinstance(node, ast.IfExp):
            self._truth(node.test)
            return self._kind(node.body).joined(self._kind(node.orelse))
        if isinstance(node, ast.Call) and not node.keywords:
            return self._called(node)
        raise _Unsure

    def _named(self, node: ast.Name) -> _Kind:
        if node.id in self._kinds:
            return self._kinds[node.id]
        if node.id in self._own:
            self._sure = False  # known after another pass, or never
            return _FLOAT
        value = self._value(node)
        if isinstance(value, np.ndarray):
            if value.dtype != np.float64 or value.ndim != 1:
                raise _Unsure
            return _VECTOR
        return _constant(value)

    def _operation(self, op: ast.operator, left: _Kind, right: _Kind, by: ast.expr) -> _Kind:
        """Return the kind of the result of a basic operation; ``by`` is the right operand."""
        if not isinstance(op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            raise _Unsure
        if {left.name, right.name} - _NUMBERS:
            raise _Unsure
        names = {left.name, right.name}
        if isinstance(op, ast.Div):
            divisor = _unsigned(by)
            sure = isinstance(divisor, ast.Constant) and divisor.value != 0
            if not sure and "float" not in names:
                raise _Unsure  # Python raises an error at 1.0 / 0.0, machine code does not
            return _FLOAT if "float" in names else _CONSTANT
        if names == {"whole"}:
            product = isinstance(op, ast.Mult)
            return _whole(left.bound * right.bound if product else left.bound + right.bound)
        if names <= {"whole", "mixed"}:  # 0 * -1 is 0 in Python and -0.0 in machine code
            raise _Unsure
        return _FLOAT if "float" in names else _CONSTANT

    def _called(self, node: ast.Call) -> _Kind:
        function = self._value(node.func)
        if isinstance(function, Compiled):
            return self.of(function.py_func, [self._kind(one) for one in node.args], self._callers)
        kinds = [self._number(one) for one in node.args]
        for module, known in ((math, MATH), (np, NUMPY)):
            name = next((n for n in known if getattr(module, n) is function), "")
            if name and len(kinds) == known[name]:
                if module is np and kinds != [_FLOAT]:
                    raise _Unsure
                return _FLOAT
        if function is float and len(kinds) == 1 and kinds[0].name in ("float", "constant"):
            return kinds[0]
        if function is abs and len(kinds) == 1:
            return kinds[0]
        if function in (min, max) and len(kinds) > 1:
            found = kinds[0]
            for kind in kinds[1:]:
                found = found.joined(kind)
            return found
        raise _Unsure

    def _value(self, node: ast.expr) -> Any:
        """Return what a name outside the function stands for."""
        if isinstance(node, ast.Attribute):
            module = self._value(node.value)
            if module is not math and module is not np:
                raise _Unsure
            return getattr(module, node.attr, None)
        if not isinstance(node, ast.Name) or node.id in self._own | self._given:
            raise _Unsure
        code, cells = self._function.__code__, self._function.__closure__ or ()
        around = dict(zip(code.co_freevars, cells, strict=True))
        if node.id in around:
            try:
                return around[node.id].cell_contents
            except ValueError as error:
                raise _Unsure from error
        for names in (self._function.__globals__, vars(builtins)):
            if node.id in names:
                return names[node.id]
        raise _Unsure


def _constant(value: object) -> _Kind:
    if type(value) is bool:
        return _TRUTH
    if type(value) is int:
        return _whole(abs(float(value)))
    if type(value) is float or type(value) is np.float64:
        return _CONSTANT
    raise _Unsure


def _unsigned(node: ast.expr) -> ast.expr:
    """Return ``node`` without a sign."""
    return node.operand if isinstance(node, ast.UnaryOp) else node


def _read(node: ast.expr) -> ast.expr:
    """Return the expression that reads what ``node`` writes."""
    if isinstance(node, ast.Subscript):
        return ast.Subscript(node.value, node.slice, ast.Load())
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    raise _Unsure
