"""Find functions that give exactly the same results in plain Python and in machine code.

A run may begin in plain Python and continue in machine code if all its functions do so.
:func:`same_bits` reads the source of a function. The result is False if Python and the compiler can
compute an operation differently, and the operation has no replacement in
:mod:`rtsim.equations.plain_operations`. The allowed operations are:

- the four basic operations, comparisons and choices, on values that are floats in both languages,
  and on vectors element by element;
- powers whose exponent is a number in the source, ``%`` and ``//``;
- whole numbers that stay small, as constants, loop counters and indices;
- the functions of :mod:`rtsim.equations.plain_operations`;
- helpers that are marked with ``@rtsim.compiled`` and follow the same rules.

Matrix products and ``np.linalg`` are excluded, because machine code uses other libraries than
NumPy. NumPy functions without an equivalent in ``rtsim.equations.plain_operations`` are also
excluded.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.equations import plain_operations as operations
from rtsim.equations.addresses import EQUATION, INTEGER, NUMBER, Signature, is_array
from rtsim.equations.compiling import Compiled, Native, kept
from rtsim.equations.machine_code import vectors_have_their_own_functions
from rtsim.equations.other_math import (
    WITHOUT_ERRORS,
    Names,
    Replacements,
    as_number,
    like_compiled_code,
)
from rtsim.equations.rewriting import code_of, definition_of

_LARGEST = 2.0**52
"""Whole numbers up to this limit are exact as floats and far from an overflow."""


class _Unsure(Exception): ...


@dataclass(frozen=True)
class _Kind:
    name: str
    bound: float = 0.0
    known: bool = False

    def joined(self, other: _Kind) -> _Kind:
        names = {self.name, other.name}
        if len(names) == 1:
            return _Kind(self.name, max(self.bound, other.bound), self.known or other.known)
        if names == {"float", "constant"}:
            return _CONSTANT
        if names == {"long", "whole"}:
            return _LONG
        if names <= _NUMBERS:
            return _MIXED
        raise _Unsure


_FLOAT, _MIXED = _Kind("float"), _Kind("mixed")
_CONSTANT = _Kind("constant", known=True)
_TRUTH, _VECTOR, _NOTHING = _Kind("truth"), _Kind("vector"), _Kind("nothing")
_LONG = _Kind("long")
_SIMPLE = {"float", "constant", "whole", "mixed"}
_NUMBERS = {*_SIMPLE, "long"}
_RESULTS = {operations.NUMBER: _FLOAT, operations.WHOLE: _LONG, operations.TRUTH: _TRUTH}


def _whole(bound: float) -> _Kind:
    if not bound <= _LARGEST:
        raise _Unsure
    return _Kind("whole", bound, known=True)


def same_bits(function: Callable[..., Any], signature: Signature) -> bool:
    """Return whether ``function`` gives equal bits in plain Python and in machine code.

    The result is False if the source is not readable.
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
    return {NUMBER: _Kind("constant"), INTEGER: _whole(2.0**31)}[kind]


def plain_at_first(functions: Mapping[str, tuple[Any, Signature, bool]]) -> dict[str, Native]:
    """Return functions in plain Python with the same results as compiled functions.

    ``functions`` contains each function with its signature, and whether its machine code checks
    indices. Global numbers and arrays count as constants, as in compiled code. The result is empty
    if the machine code is in the cache, or if results can differ in a bit.
    """
    plain = {name: (getattr(f, "py_func", f), *rest) for name, (f, *rest) in functions.items()}
    if vectors_have_their_own_functions():
        return {}
    if all(kept(*one) for one in plain.values()):
        return {}
    if not all(same_bits(function, kinds) for function, kinds, _ in plain.values()):
        return {}
    found = {}
    copies, without_errors = _copies()
    for name, (function, signature, _) in plain.items():
        alike = like_compiled_code(
            copies.copy_of(function), signature != EQUATION, without_errors.copy_of(function)
        )
        found[name] = replace(Native.plain(alike, signature), py_func=function)
    return found


_definitions: WeakKeyDictionary[Any, ast.FunctionDef] = WeakKeyDictionary()
"""Sources of functions that are not methods. Each source was compared with the function's code."""


def _definition(function: Any) -> ast.FunctionDef:
    if not isinstance(function, FunctionType):
        raise _Unsure
    found = getattr(function, "definition", None) or _definitions.get(function)
    if found is None:
        try:
            found = _definitions[function] = definition_of(function)
        except ModelError as error:
            raise _Unsure from error
    return found


def _code(function: Any) -> CodeType:
    try:
        changed = operations.in_operations_of_machine_code(_definition(function))
    except _Unsure:  # a function that the equations do not call
        changed = None
    if changed is None:
        return function.__code__  # type: ignore[no-any-return]
    return code_of(changed, function.__code__.co_freevars, function)


@cache
def _copies() -> tuple[Replacements, Replacements]:
    def safe(function: Any, result: str) -> Any:
        name = getattr(function, "__name__", "")
        if function is getattr(math, name, None):
            function = WITHOUT_ERRORS.get(name, function)
        elif result == operations.NUMBER and not isinstance(function, np.ufunc):
            return as_number(function)
        return function

    made = []
    for change in (lambda function, _: function, safe):
        names = [
            {name: change(function, result) for name, (function, _, result) in table.items()}
            for table in (operations.MATH, operations.NUMPY, operations.BUILTIN)
        ]
        names[1] |= {n: change(f, operations.NUMBER) for n, f in operations.VECTORS.items()}
        if change is safe:
            names[0], names[2]["float"] = {**WITHOUT_ERRORS, **names[0]}, as_number(float)
        own = {n: change(f, operations.NUMBER) for n, f in operations.OPERATORS.items()}
        modules = {math: Names(names[0]), np: Names(names[1])}
        made.append(Replacements(modules, names[2], True, own, _code))
    return made[0], made[1]


class _Reader:
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
        self._written = {
            _base(node)
            for node in ast.walk(definition)
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        }
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
        self._written |= {_base(argument) for argument in self._written_by_helpers(definition)}
        self.result: _Kind | None = None
        self._sure = True

    def _written_by_helpers(self, definition: ast.FunctionDef) -> Iterator[ast.expr]:
        for node in ast.walk(definition):
            if not isinstance(node, ast.Call):
                continue
            try:
                function = self._value(node.func)
                helper = getattr(function, "py_func", None)
                if not isinstance(function, Compiled) or helper in self._callers:
                    continue
                inside = _definition(helper)
                reader = _Reader(helper, inside, [_VECTOR] * len(node.args), self._callers)
            except _Unsure:
                continue  # rejected at the call itself
            names = [one.arg for one in inside.args.args]
            yield from (a for n, a in zip(names, node.args, strict=False) if n in reader._written)

    @classmethod
    def of(cls, function: Any, kinds: Sequence[_Kind], callers: tuple[Any, ...]) -> _Kind:
        if function in callers:
            raise _Unsure
        definition = _definition(function)
        found = cls(function, definition, kinds, callers)
        body = definition.body
        for _ in range(8):  # a loop can read a variable above the line that assigns it
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
            if isinstance(node.op, (ast.Pow, ast.Mod, ast.FloorDiv)):
                raise _Unsure
            kind = self._operation(node.op, self._kind(read), self._kind(node.value), node.value)
            if kind.name in ("whole", "vector"):
                raise _Unsure  # a counter that nothing bounds, or two names of one vector
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
        if kind.name == "vector" and not _fresh(value) and not _apart(target, value):
            raise _Unsure  # a second name of a vector, or two parts of one vector
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
            if kind.name not in {*_NUMBERS, "truth", "vector"}:
                raise _Unsure
            self._set(target.id, kind)
        elif isinstance(target, ast.Subscript):
            there, allowed = self._kind(_read(target)).name, {*_NUMBERS, "truth"}
            if kind.name not in ({*allowed, "vector"} if there == "vector" else allowed):
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
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Attribute):
            if node.attr == "size" and self._kind(node.value).name == "vector":
                return _whole(2.0**31)
            return _constant(self._value(node))
        if isinstance(node, ast.Subscript):
            vector = self._kind(node.value)
            if vector.name != "vector":
                raise _Unsure
            known = vector.known or _base(node) in self._written
            if isinstance(node.slice, ast.Slice):  # a field with elements
                self._part(node.slice)
                return replace(_VECTOR, known=known)
            if self._kind(node.slice).name != "whole":
                raise _Unsure
            return replace(_FLOAT, known=known)
        if isinstance(node, ast.BinOp):
            left, right = self._kind(node.left), self._kind(node.right)
            return self._operation(node.op, left, right, node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            kind = self._kind(node.operand)
            # -0 is 0 in Python and -0.0 in machine code
            if kind.name not in {*_NUMBERS, "vector"} or kind.name in {"mixed", "long"}:
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
            if any(self._kind(one).name != "truth" for one in parts):
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
            kind = self._kinds[node.id]
            return replace(kind, known=True) if node.id in self._written else kind
        if node.id in self._own:
            self._sure = False  # known after another pass, or never
            return _FLOAT
        value = self._value(node)
        if isinstance(value, np.ndarray):
            if value.dtype != np.float64 or value.ndim != 1:
                raise _Unsure
            return replace(_VECTOR, known=True)
        return _constant(value)

    def _part(self, bounds: ast.Slice) -> None:
        ends = [bounds.lower, bounds.upper]
        if bounds.step is not None or not all(
            end is None or (isinstance(end, ast.Constant) and type(end.value) is int)
            for end in ends
        ):
            raise _Unsure

    def _operation(self, op: ast.operator, left: _Kind, right: _Kind, by: ast.expr) -> _Kind:
        found = self._result(op, left, right, by)
        return replace(found, known=left.known and right.known)

    def _result(self, op: ast.operator, left: _Kind, right: _Kind, by: ast.expr) -> _Kind:
        names = {left.name, right.name}
        basic = isinstance(op, (ast.Add, ast.Sub, ast.Mult, ast.Div))
        if "vector" in names and basic and names <= {*_SIMPLE, "vector"}:
            return _VECTOR
        if names - _NUMBERS:
            raise _Unsure
        divisor = _unsigned(by)
        sure = isinstance(divisor, ast.Constant) and divisor.value != 0
        if isinstance(op, ast.Pow):
            return self._power(left, by)
        if isinstance(op, (ast.Mod, ast.FloorDiv)):
            if names == {"whole"} and sure and isinstance(by, ast.Constant):
                return right if isinstance(op, ast.Mod) else left
            if not names & {"float", "mixed", "constant"} or "long" in names:
                raise _Unsure
            return _FLOAT
        if not basic or ("long" in names and not names & {"float", "constant", "mixed"}):
            raise _Unsure
        if isinstance(op, ast.Div):
            if not sure and "float" not in names:
                raise _Unsure  # Python raises an error at 1.0 / 0.0, machine code does not
            return _FLOAT if "float" in names else _CONSTANT
        if "long" in names:
            return _FLOAT if "float" in names or "mixed" in names else _CONSTANT
        if names == {"whole"}:
            product = isinstance(op, ast.Mult)
            return _whole(left.bound * right.bound if product else left.bound + right.bound)
        if names <= {"whole", "mixed"}:  # 0 * -1 is 0 in Python and -0.0 in machine code
            raise _Unsure
        return _FLOAT if "float" in names else _CONSTANT

    def _power(self, base: _Kind, by: ast.expr) -> _Kind:
        number = operations.exponent(by)
        if base.name not in {"float", "mixed", "constant"} or number is None:
            raise _Unsure
        if type(number) is int:
            if not 0 <= number <= operations.MOST_EXPONENT:  # machine code raises an error at 0**-1
                raise _Unsure
        elif base.known or base.name == "mixed":
            raise _Unsure
        return _FLOAT if base.name == "mixed" else base

    def _called(self, node: ast.Call) -> _Kind:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args:
            kind = self._kind(node.func.value)
            if kind.name == "vector":
                return kind
            raise _Unsure
        function = self._value(node.func)
        if isinstance(function, Compiled):
            return self.of(function.py_func, [self._kind(one) for one in node.args], self._callers)
        kinds = [self._kind(one) for one in node.args]
        names = {kind.name for kind in kinds}
        if names == {"vector"} and len(kinds) == 1:
            if function is np.sum:
                return replace(_FLOAT, known=kinds[0].known)
            if any(getattr(np, name) is function for name in operations.EXACT):
                return kinds[0]
        if not names <= _NUMBERS or not kinds:
            raise _Unsure
        for module, table in _TABLES:
            name = next((n for n in table if getattr(module, n) is function), "")
            if not name or len(kinds) != table[name][1] or "long" in names:
                continue
            if module is not math and not names & {"float", "constant"}:
                raise _Unsure  # machine code has other functions for whole numbers
            result = _RESULTS[table[name][2]]
            return replace(result, known=all(one.known for one in kinds))
        if function is float and names == {"long"}:
            return _FLOAT
        if "long" in names:
            raise _Unsure
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


_TABLES = ((math, operations.MATH), (np, operations.NUMPY), (builtins, operations.BUILTIN))


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _fresh(node: ast.expr) -> bool:
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call))


def _apart(target: ast.expr, value: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and _base(target) != _base(value) != ""


def _constant(value: object) -> _Kind:
    if type(value) is bool:
        return _TRUTH
    if type(value) is int:
        return _whole(abs(float(value)))
    if type(value) is float or type(value) is np.float64:
        return _CONSTANT
    raise _Unsure


def _unsigned(node: ast.expr) -> ast.expr:
    return node.operand if isinstance(node, ast.UnaryOp) else node


def _read(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Subscript):
        return ast.Subscript(node.value, node.slice, ast.Load())
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    raise _Unsure
