"""Prove from the source of a function that its array indices are within bounds.

Machine code does not check indices: an index out of bounds reads or changes other memory.
``Indices`` determines the shapes of arrays and the ranges of integers in a function and its
helpers. There are three cases:

- A function whose indices are proven to be within bounds is compiled without checks.
- A function with an index that is proven to be out of bounds is rejected.
- Any other function is compiled with checks, which cost a few percent of its time.

Provable indices are numbers, counters of a ``range`` over an array's size, and values limited by
``max(0, min(i, n))``.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rtsim.core.cache import cache_folder
from rtsim.core.errors import ModelError
from rtsim.equations import reading_functions, rewriting
from rtsim.equations.compiling import hash_of
from rtsim.equations.reading_functions import source_of
from rtsim.equations.rewriting import LEAVES, Outside, as_written, value_of, where

_FAR = math.inf


@dataclass(frozen=True)
class _Array:
    """An array of known shape.

    ``safe`` is True for tuples and lists, whose indices compiled code always checks.
    """

    shape: tuple[int, ...]
    safe: bool = False


@dataclass(frozen=True)
class _Whole:
    """A whole number from ``low`` to ``high``. The range is empty if ``low`` > ``high``."""

    low: float
    high: float


@dataclass(frozen=True)
class _Several:
    """A tuple of values."""

    values: tuple[_Value, ...]


_Value = _Array | _Whole | _Several | None
"""Known properties of a value, or ``None``."""
_ANY_WHOLE = _Whole(-_FAR, _FAR)
_NEVER = object()


@dataclass
class Indices:
    """Analysis of the array indices in a model's functions and their helpers."""

    outside: str = ""
    """An index that is proven to be out of bounds, with its location."""
    read: list[tuple[Outside, ast.expr, Any]] = field(default_factory=list)
    """Names outside the functions, with their values at the time of the check."""
    _known: dict[Any, tuple[_Value, bool]] = field(default_factory=dict)

    def of_call(self, function: Any, given: tuple[_Value, ...], depth: int) -> tuple[_Value, bool]:
        """Return the properties of a call's result, and whether all indices are within bounds."""
        key = (function, given)
        if key not in self._known:
            self._known[key] = None, False  # for a recursive function
            reader = _Reader(self, function, given, depth)
            self._known[key] = reader.result(), reader.sure
        return self._known[key]

    def check(self, function: Callable[..., Any], sizes: Sequence[int | None], what: str) -> bool:
        """Return whether all indices of ``function`` are proven to be within bounds.

        ``sizes`` contains, for each argument, the length of a vector, or ``None`` for a number.
        Raises :class:`ModelError` for an index that is proven to be out of bounds.
        """
        plain = getattr(function, "py_func", function)
        key, judged = tuple(sizes), _JUDGED.get(plain, {})
        if key in judged and judged[key][1].current():
            return judged[key][0]
        place = _place(plain, key)
        if (sure := _read(place)) is not None:
            return sure
        given = tuple(None if size is None else _Array((size,)) for size in sizes)
        try:
            _, sure = self.of_call(plain, given, 0)
        except RecursionError:
            return False
        if self.outside:
            raise ModelError(f"{what} uses an element that does not exist: {self.outside}")
        if len(_JUDGED) >= _MOST:
            _JUDGED.clear()
        _JUDGED.setdefault(plain, {})[key] = sure, self
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_TEXTS[sure], "ascii")
        return sure

    def current(self) -> bool:
        """Return whether all global names that the functions use still have the same values."""
        return all(_outside(node, space) is value for space, node, value in self.read)


_JUDGED: WeakKeyDictionary[Any, dict[tuple[int | None, ...], tuple[bool, Indices]]]
_JUDGED = WeakKeyDictionary()  # a weak cache is no part of a source hash
"""Earlier results, because each run of a study creates its models again."""
_MOST = 512
_TEXTS = {True: "within bounds\n", False: "not proven\n"}


def _place(function: Any, sizes: tuple[int | None, ...]) -> Path:
    text = f"{hash_of(function)} {sizes} {_made_by()}"
    return cache_folder() / "indices" / hashlib.sha256(text.encode()).hexdigest()[:32]


def _read(place: Path) -> bool | None:
    with suppress(OSError, UnicodeDecodeError):
        text = place.read_text("ascii")
        return next((sure for sure, kept in _TEXTS.items() if kept == text), None)
    return None


@cache
def _made_by() -> str:
    modules = (sys.modules[__name__], reading_functions, rewriting)
    own = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
    return f"{hashlib.sha256(own).hexdigest()} {sys.version}"


def _outside(node: ast.expr, space: Outside) -> Any:
    with suppress(KeyError, AttributeError):
        return value_of(node, space)
    return getattr(builtins, node.id, None) if isinstance(node, ast.Name) else None


_DEPTH = 12
_SIZES = frozenset(("ndim", "shape", "size"))
_SAME_SHAPE = frozenset(
    (
        *("abs", "absolute", "arccos", "arcsin", "arctan", "ceil", "copy", "cos", "cosh", "exp"),
        *("fabs", "floor", "log", "negative", "ones_like", "sign", "sin", "sinh", "sqrt", "square"),
        *("tan", "tanh", "zeros_like"),
    )
)
_MADE = frozenset(("empty", "full", "ones", "zeros"))


class _Reader:
    def __init__(
        self, indices: Indices, function: Any, given: tuple[_Value, ...], depth: int
    ) -> None:
        self._indices, self._function, self._depth = indices, function, depth
        self.sure = True
        self._variables: dict[str, list[Any]] = {}
        self._values: dict[str, Any] = {}
        self._nodes: dict[ast.expr | None, _Value] = {}
        self._conditional = False
        """True below a condition that may be the same in all calls, so the code may never run."""
        definition = source_of(function)
        self._parts: list[ast.AST] = []
        if definition is None or depth > _DEPTH:
            self.sure = False
            return
        self._outside = Outside(function)
        self._parts = _parts(definition.body)
        names = [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)]
        for name, value in zip(names, given, strict=False):
            self._variables[name] = [lambda value=value: value]
        for name in names[len(given) :]:
            self._variables[name] = [lambda: None]
        self._collect()

    def result(self) -> _Value:
        branches = [n for n in self._parts if isinstance(n, ast.If | ast.IfExp | ast.While)]
        fixed = {id(n) for one in branches if self._is_fixed(one.test) for n in _parts([one])}
        returned: list[_Value] = []
        for node in self._parts:
            self._conditional = id(node) in fixed
            if isinstance(node, ast.Subscript):
                self._judge_index(node)
            elif isinstance(node, ast.Call):
                self._value(node)
            elif isinstance(node, ast.Return) and node.value is not None:
                returned.append(self._value(node.value))
        return _joined(returned)

    # -- variables ---------------------------------------------------------------------------------

    def _collect(self) -> None:
        for node in self._parts:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value)
            elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
                self._bind(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                self._counted(node.target, node.iter)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                changed = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
                self._bind(node.target, changed)
            elif isinstance(node, ast.FunctionDef | ast.Lambda | ast.Import | ast.With | ast.Match):
                self.sure = False  # with variables of its own

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._variables.setdefault(target.id, []).append(lambda: self._value(value))
        elif isinstance(target, ast.Tuple | ast.List):
            for i, one in enumerate(target.elts):
                if isinstance(one, ast.Name):
                    part = lambda i=i: _item(self._value(value), i)  # noqa: E731
                    self._variables.setdefault(one.id, []).append(part)
                else:
                    self._bind(one, ast.Constant(None))

    def _counted(self, target: ast.expr, over: ast.expr) -> None:
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        for name in names:
            plain = isinstance(target, ast.Name)
            self._variables.setdefault(name, []).append(
                (lambda: self._range(over)) if plain else (lambda: None)
            )

    def _range(self, over: ast.expr) -> _Value:
        if not (isinstance(over, ast.Call) and self._called(over.func) is range):
            return None
        bounds = [self._value(one) for one in over.args]
        if not all(isinstance(one, _Whole) for one in bounds):
            return None
        first, last = (_Whole(0, 0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        assert isinstance(first, _Whole)
        assert isinstance(last, _Whole)
        if len(bounds) == 3:
            step = bounds[2]
            if not isinstance(step, _Whole) or step.low < 1:
                return _ANY_WHOLE
        return _Whole(first.low, last.high - 1)

    def _variable(self, name: str) -> _Value:
        if name not in self._values:
            self._values[name] = _NEVER
            found = [one() for one in self._variables[name]]
            self._values[name] = _joined(found)
        elif self._values[name] is _NEVER:
            return None  # a variable that depends on itself
        known: _Value = self._values[name]
        return known

    # -- values ------------------------------------------------------------------------------------

    def _value(self, node: ast.expr | None) -> _Value:
        if node not in self._nodes:
            self._nodes[node] = self._found(node)
        return self._nodes[node]

    def _found(self, node: ast.expr | None) -> _Value:
        if isinstance(node, ast.Constant):
            return _of_object(node.value)
        if isinstance(node, ast.Name):
            if node.id in self._variables:
                return self._variable(node.id)
            return _of_object(self._called(node))
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._element(node)
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand)
            if isinstance(node.op, ast.USub) and isinstance(value, _Whole):
                return _Whole(-value.high, -value.low)
            return value if isinstance(value, _Array) and not isinstance(node.op, ast.Not) else None
        if isinstance(node, ast.BinOp):
            return _operated(node.op, self._value(node.left), self._value(node.right))
        if isinstance(node, ast.IfExp):
            return _joined([self._value(node.body), self._value(node.orelse)])
        if isinstance(node, ast.NamedExpr):
            return self._value(node.value)
        if isinstance(node, ast.Tuple | ast.List):
            return _Several(tuple(self._value(one) for one in node.elts))
        if isinstance(node, ast.Call):
            return self._result(node)
        return None

    def _attribute(self, node: ast.Attribute) -> _Value:
        array = self._value(node.value)
        if isinstance(array, _Array):
            if node.attr == "size":
                return _Whole(math.prod(array.shape), math.prod(array.shape))
            if node.attr == "shape":
                return _Several(tuple(_Whole(n, n) for n in array.shape))
            return _Array(array.shape[::-1]) if node.attr == "T" else None
        return _of_object(self._called(node))

    def _called(self, node: ast.expr) -> Any:
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self._variables:
            return None
        found = _outside(node, self._outside)
        self._indices.read.append((self._outside, node, found))
        return found

    def _result(self, node: ast.Call) -> _Value:
        if isinstance(node.func, ast.Attribute):
            array = self._value(node.func.value)
            if isinstance(array, _Array):
                return self._method(node, node.func.attr, array)
        found = self._called(node.func)
        given = [self._value(one) for one in node.args]
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            plain = getattr(found, "py_func", found)
            if inspect.isfunction(plain) and not _known_library(plain):
                self.sure = False
            return None
        if found is len and isinstance(given[0], _Array):
            return _Whole(given[0].shape[0], given[0].shape[0])
        if found is int:
            return given[0] if isinstance(given[0], _Whole) else _ANY_WHOLE
        if found in (min, max) and all(isinstance(one, _Whole) for one in given):
            bounds = [(one.low, one.high) for one in given]  # type: ignore[union-attr]
            choose: Any = found
            return _Whole(*(choose(pair) for pair in zip(*bounds, strict=True)))
        if getattr(found, "__module__", "") == "numpy" or isinstance(found, np.ufunc):
            return _of_numpy(found.__name__, given)
        plain = getattr(found, "py_func", found)
        if inspect.isfunction(plain) and not _known_library(plain):
            value, sure = self._indices.of_call(plain, tuple(given), self._depth + 1)
            self.sure = self.sure and sure
            return value
        return None

    def _method(self, node: ast.Call, name: str, array: _Array) -> _Value:
        if name == "copy":
            return array
        if name == "reshape":
            given = [self._value(one) for one in node.args]
            shape = given[0] if len(given) == 1 else _Several(tuple(given))
            return _made(shape)
        if name in ("ravel", "flatten"):
            return _Array((math.prod(array.shape),))
        return None

    def _element(self, node: ast.Subscript) -> _Value:
        whole = self._value(node.value)
        if isinstance(whole, _Several):
            index = self._value(node.slice)
            if isinstance(index, _Whole) and index.low == index.high:
                return _item(whole, int(index.low))
            return None
        if not isinstance(whole, _Array) or whole.safe:
            return None
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        shape: list[int] = []
        for part, size in zip(parts, whole.shape, strict=False):
            if isinstance(part, ast.Slice):
                length = self._length(part, size)
                if length is None:
                    return None
                shape.append(length)
            elif not isinstance(self._value(part), _Whole):
                return None
        shape += whole.shape[len(parts) :]
        return _Array(tuple(shape)) if shape and len(parts) <= len(whole.shape) else None

    def _length(self, part: ast.Slice, size: int) -> int | None:
        ends: list[int | None] = []
        for one in (part.lower, part.upper, part.step):
            value = None if one is None else self._value(one)
            if one is not None and not (isinstance(value, _Whole) and value.low == value.high):
                return None
            ends.append(int(value.low) if isinstance(value, _Whole) else None)
        return len(range(size)[slice(*ends)])

    # -- indices -----------------------------------------------------------------------------------

    def _is_fixed(self, test: ast.expr) -> bool:
        parts = list(ast.walk(test))
        if any(isinstance(n, ast.Attribute) and n.attr in _SIZES for n in parts):
            return True
        names = [n for n in parts if isinstance(n, ast.Name)]
        outside = (self._called(n) for n in names if n.id not in self._variables)
        if any(value is len or isinstance(value, bool | int | float | str) for value in outside):
            return True
        changing = any(isinstance(n, ast.Subscript | ast.Call) for n in parts)
        return not changing and not any(n.id in self._variables for n in names)

    def _judge_index(self, node: ast.Subscript) -> None:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if all(isinstance(part, ast.Slice) for part in parts):
            return  # the ends of a slice are cut off
        whole = self._value(node.value)
        if isinstance(whole, _Several) or (isinstance(whole, _Array) and whole.safe):
            return  # compiled code checks the indices of a tuple or a list
        if not isinstance(whole, _Array) or len(parts) > len(whole.shape):
            self.sure = False
            return
        for part, size in zip(parts, whole.shape, strict=False):
            if isinstance(part, ast.Slice):
                continue
            index = self._value(part)
            if not isinstance(index, _Whole):
                self.sure = False
            elif index.low > index.high or (-size <= index.low and index.high < size):
                continue
            else:
                self.sure = False
                if (index.low >= size or index.high < -size) and not self._conditional:
                    self._indices.outside = self._indices.outside or (
                        f"{as_written(ast.unparse(node))} ({where(self._function, node)}); "
                        f"its array has the shape {whole.shape}"
                    )


def _parts(nodes: Sequence[ast.AST]) -> list[ast.AST]:
    out: list[ast.AST] = []
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        out.append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                waiting += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, LEAVES):
                waiting.append(value)
    return out


def _known_library(function: Any) -> bool:
    return str(function.__module__).partition(".")[0] in ("math", "numpy", "numba", "scipy")


def _of_object(value: Any) -> _Value:
    if type(value) is int or isinstance(value, np.integer):
        return _Whole(int(value), int(value))
    if isinstance(value, np.ndarray):
        return _Array(value.shape) if value.ndim else None
    if isinstance(value, list | tuple):
        return _Array((len(value),), safe=True)
    return None


def _item(value: _Value, i: int) -> _Value:
    if isinstance(value, _Several) and -len(value.values) <= i < len(value.values):
        return value.values[i]
    return None


def _joined(values: Sequence[_Value]) -> _Value:
    if not values or any(one is None for one in values):
        return None
    if all(isinstance(one, _Whole) for one in values):
        filled = [one for one in values if one.low <= one.high] or values  # type: ignore[union-attr]
        lows, highs = zip(*((one.low, one.high) for one in filled), strict=True)  # type: ignore[union-attr]
        return _Whole(min(lows), max(highs))
    if all(isinstance(one, _Several) for one in values):
        lengths = {len(one.values) for one in values}  # type: ignore[union-attr]
        if len(lengths) == 1:
            columns = zip(*(one.values for one in values), strict=True)  # type: ignore[union-attr]
            return _Several(tuple(_joined(column) for column in columns))
    return values[0] if all(one == values[0] for one in values) else None


def _operated(op: ast.operator, left: _Value, right: _Value) -> _Value:
    if isinstance(left, _Whole) and isinstance(right, _Whole):
        return _counted(op, left, right)
    arrays = [one for one in (left, right) if isinstance(one, _Array)]
    if isinstance(op, ast.MatMult):
        if len(arrays) == 2 and len(arrays[0].shape) == 2:
            return _Array((arrays[0].shape[0], *arrays[1].shape[1:]))
        return None
    if len(arrays) == 2:
        return arrays[0] if arrays[0].shape == arrays[1].shape else None
    return arrays[0] if arrays and not isinstance((left, right), _Several) else None


def _counted(op: ast.operator, left: _Whole, right: _Whole) -> _Value:
    if left.low > left.high or right.low > right.high:
        return left if left.low > left.high else right
    if isinstance(op, ast.Add):
        return _Whole(left.low + right.low, left.high + right.high)
    if isinstance(op, ast.Sub):
        return _Whole(left.low - right.high, left.high - right.low)
    finite = all(map(math.isfinite, (left.low, left.high, right.low, right.high)))
    if isinstance(op, ast.Mult) and finite:
        ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        return _Whole(min(ends), max(ends))
    if isinstance(op, ast.FloorDiv) and right.low >= 1 and finite:
        ends = [a // b for a in (left.low, left.high) for b in (right.low, right.high)]
        return _Whole(min(ends), max(ends))
    if isinstance(op, ast.Mod) and right.low >= 1:
        return _Whole(0, right.high - 1)
    return None


def _made(shape: _Value) -> _Value:
    sizes = shape.values if isinstance(shape, _Several) else (shape,)
    if all(isinstance(one, _Whole) and one.low == one.high and one.low >= 0 for one in sizes):
        return _Array(tuple(int(one.low) for one in sizes))  # type: ignore[union-attr]
    return None


def _of_numpy(name: str, given: Sequence[_Value]) -> _Value:
    first = given[0] if given else None
    if name in _MADE:
        return _made(first)
    if name in ("array", "asarray"):
        return _Array((len(first.values),)) if _is_row(first) else first  # type: ignore[union-attr]
    if name == "cross":
        return _Array((3,))
    if isinstance(first, _Array):
        if name in _SAME_SHAPE:
            return _Array(first.shape)
        if name == "searchsorted":
            return _Whole(0, first.shape[0])
        if name in ("argmax", "argmin"):
            return _Whole(0, math.prod(first.shape) - 1)
    return None


def _is_row(value: _Value) -> bool:
    return isinstance(value, _Several) and not any(
        isinstance(one, _Array | _Several) for one in value.values
    )
