"""Replace signal names in functions: ``x.speed`` becomes an element of a vector.

:class:`FieldNames` rewrites the syntax tree of one function. Two derived classes define the meaning
of names: :mod:`rtsim.equations.named_arguments` for functions of vectors, and
:mod:`rtsim.named.lowering` for the methods of classes.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signals
from rtsim.equations.reading_functions import CHANGING, changes_argument
from rtsim.equations.rewriting import LEAVES, Outside, at, value_of, where

_VIEWS = frozenset(
    (
        *("T", "diagonal", "flat", "ravel", "real", "reshape", "squeeze", "swapaxes", "transpose"),
        "view",
    )
)
"""Attributes and methods of an array that return another array with the same elements."""
_VIEWED = frozenset(
    (
        *("asarray", "ascontiguousarray", "atleast_1d", "atleast_2d", "diagonal", "expand_dims"),
        *("flip", "fliplr", "flipud", "moveaxis", "ravel", "real", "reshape", "rot90", "split"),
        *("squeeze", "swapaxes", "transpose"),
    )
)
"""NumPy functions that return an array with the elements of their first argument."""
_GOING_THROUGH = frozenset(("enumerate", "iter", "list", "reversed", "sorted", "tuple", "zip"))
"""Python functions that return the elements of their arguments."""


@dataclass(frozen=True)
class Place:
    """The position of a field: its vector, its first element and its shape."""

    role: str
    first: int
    shape: tuple[int, ...]
    modes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


def places_of(signals: Signals, role: str) -> dict[str, Place]:
    return {s.name: Place(role, signals.slice(s.name).start, s.shape) for s in signals}


def article(role: str) -> str:
    """Return ``role`` with "a" or "an" in front, such as "an input"."""
    return f"{'an' if role[0] in 'aio' else 'a'} {role}"


class FieldNames(ast.NodeTransformer):
    """Syntax-tree transformer that replaces field names in a function by vector elements.

    ``what`` names the function in messages.
    """

    def __init__(self, original: Any, what: str) -> None:
        self.original, self._what = original, what
        self.outside = Outside(original)
        self.own: dict[str, Any] = {}
        """Helpers and constants that become variables in the enclosing scope of the function."""

    def refuse(self, node: ast.AST, problem: str) -> NoReturn:
        raise ModelError(f"{where(self.original, node)}: {self._what}: {problem}")

    # -- to be defined by a derived class
    # ------------------------------------------------------------

    def stands(self, node: ast.AST) -> bool:
        """Return whether ``node`` is the name of an object with fields."""
        raise NotImplementedError

    def place(self, node: ast.Attribute) -> Place | None:
        """Return the position of ``NAME.field``, or ``None`` for any other attribute."""
        raise NotImplementedError

    def named(self, node: ast.Attribute, ctx: ast.expr_context) -> ast.expr:
        """Return the expression that replaces ``NAME.field``."""
        raise NotImplementedError

    def assigned(self, target: ast.expr, value: ast.expr) -> ast.expr:  # noqa: ARG002
        """Return the new right-hand side of an assignment."""
        return value

    # -- names of fields ---------------------------------------------------------------------------

    def field(self, node: ast.AST) -> Place | None:
        if isinstance(node, ast.Attribute) and self.stands(node.value):
            return self.place(node)
        return None

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, LEAVES) else super().visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not self.stands(node.value):
            self.generic_visit(node)
            return node
        return self.named(node, node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value = node.value
        if not (isinstance(value, ast.Attribute) and self.stands(value.value)):
            if not isinstance(node.ctx, ast.Load):
                self._changed(value)
            self.generic_visit(node)
            return node
        place = self.field(value)
        whole = self.named(value, node.ctx)
        if whole is value:
            self.generic_visit(node)
            return node
        index = _constant_index(node.slice)
        if place is not None and not place.shape:
            self.refuse(node, f"{value.attr} is one number, so it has no elements")
        if place is not None and index is not None and len(index) == len(place.shape):
            for i, n in zip(index, place.shape, strict=True):
                if not -n <= i < n:
                    self.refuse(
                        node, f"{ast.unparse(node)}: {value.attr} has the shape {place.shape}"
                    )
            inside = [i % n for i, n in zip(index, place.shape, strict=True)]
            element = place.first + int(np.ravel_multi_index(inside, place.shape))
            vector = whole
            while not isinstance(vector, ast.Name):
                vector = _inner(vector)
            new: ast.expr = ast.Subscript(vector, ast.Constant(element), node.ctx)
            return at(new, node)
        if isinstance(whole, ast.Subscript):
            whole.ctx = ast.Load()
        node.value, node.slice = whole, self.visit(node.slice)
        return node

    # -- changes in place --------------------------------------------------------------------------

    def _changed(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and self.stands(node.value):
            place = self.place(node)
            if place is not None and place.shape:
                self.named(node, ast.Store())
        elif isinstance(node, (ast.Tuple, ast.List)):
            for one in node.elts:
                self._changed(one)
        elif isinstance(node, ast.IfExp):
            self._changed(node.body)
            self._changed(node.orelse)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
                self._changed(node.func.value)
            if self._gives_a_view(node.func):
                self._changed(node.args[0] if node.args else node.func)
        elif isinstance(node, (ast.Subscript, ast.Attribute, ast.Starred)):
            self._changed(node.value)

    def _gives_a_view(self, function: ast.expr) -> bool:
        found = self.called(function)
        return getattr(found, "__module__", "") == "numpy" and found.__name__ in _VIEWED

    def check_changes(self, node: ast.Call, found: Any, bound: int = 0) -> None:
        """Reject a call that changes a read-only field in place.

        ``bound`` is the number of leading parameters, such as ``self``, that the call does not
        pass.
        """
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in CHANGING:
            self._changed(function.value)
        for keyword in node.keywords:
            if keyword.arg == "out":
                self._changed(keyword.value)
        if isinstance(found, np.ufunc):
            for one in node.args[found.nin :]:
                self._changed(one)
            return
        for i, one in enumerate(node.args):
            if isinstance(one, ast.Starred):
                return
            if found is not None and changes_argument(found, i + bound):
                self._changed(one)

    # -- statements --------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> ast.stmt:
        node.iter = self._gone_through(node.iter)
        self.generic_visit(node)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        node.iter = self._gone_through(node.iter)
        self.generic_visit(node)
        return node

    def _gone_through(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in _GOING_THROUGH:
                node.args = [self._gone_through(one) for one in node.args]
            return node
        place = self.field(node)
        if place is not None and len(place.shape) < 2:
            return node  # its elements are numbers
        return self.owned(node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        for target in node.targets:
            node.value = self.assigned(target, node.value)
        if any(not self._whole(target) for target in node.targets):
            node.value = self.owned(node.value)
        if len(node.targets) == 1 and isinstance(node.value, (ast.Tuple, ast.List)):
            node.targets = [self._elements(node.targets[0], node.value)]
        self.generic_visit(node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        target = node.target
        if not isinstance(target, ast.Subscript):
            return node
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        if not any(isinstance(part, ast.Slice) for part in parts):
            return node
        read = deepcopy(target)
        read.ctx = ast.Load()
        return at(ast.Assign([target], ast.BinOp(read, node.op, node.value)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return at(ast.Pass(), node)
        return self.visit_Assign(at(ast.Assign([node.target], node.value), node))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        node.value = self.owned(node.value)
        self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is not None:
            node.value = self.owned(node.value)
        self.generic_visit(node)
        return node

    def _whole(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Subscript):
            node = node.value
        return isinstance(node, ast.Attribute) and self.stands(node.value)

    def owned(self, node: ast.expr) -> ast.expr:
        """Return ``node`` with copies of the arrays that are fields.

        Without a copy, a variable would be a view of the field and change with it.
        """
        if isinstance(node, (ast.Tuple, ast.List)):
            node.elts = [self.owned(e) for e in node.elts]
            return node
        if isinstance(node, ast.IfExp):
            node.body, node.orelse = self.owned(node.body), self.owned(node.orelse)
            return node
        if isinstance(node, ast.Starred) or (
            isinstance(node, ast.Attribute) and node.attr in _VIEWS and not self.stands(node.value)
        ):
            node.value = self.owned(node.value)
            return node
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
                node.func.value = self.owned(node.func.value)
            if node.args and self._gives_a_view(node.func):
                node.args[0] = self.owned(node.args[0])
            return node
        if not self._whole(node):
            return node
        part: ast.expr = node
        indices = 0
        while isinstance(part, ast.Subscript):
            parts = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            indices += sum(not isinstance(one, ast.Slice) for one in parts)
            part = part.value
        place = self.field(part)
        if place is None or indices >= len(place.shape):
            return node
        copied = ast.Call(ast.Attribute(node, "copy", ast.Load()), [], [])
        for one in (copied, copied.func):
            at(one, node)
        return copied

    def _elements(self, target: ast.expr, value: ast.Tuple | ast.List) -> ast.expr:
        place = self.field(target)
        if place is None:
            return target
        assert isinstance(target, ast.Attribute)
        assert isinstance(target.value, ast.Name)
        if len(value.elts) != place.size or len(place.shape) != 1:
            self.refuse(
                target,
                f"{target.attr} has the shape {place.shape or 'of one number'}, but "
                f"{len(value.elts)} values are assigned",
            )
        parts: list[ast.expr] = [
            ast.Subscript(
                ast.Attribute(ast.Name(target.value.id, ast.Load()), target.attr, ast.Load()),
                ast.Constant(i),
                ast.Store(),
            )
            for i in range(place.size)
        ]
        made = ast.Tuple(parts, ast.Store())
        for part in ast.walk(made):
            at(part, target)
        return made

    # -- functions that are called -----------------------------------------------------------------

    def called(self, node: ast.expr) -> Any:
        name: ast.expr = node
        while isinstance(name, ast.Attribute):
            name = name.value
        if isinstance(name, ast.Name) and name.id in self.original.__code__.co_varnames:
            return None  # a local variable
        return self.read(node)

    def read(self, node: ast.expr) -> Any:
        """Return the value of a global or enclosing name, or ``None`` if undefined."""
        try:
            return value_of(node, self.outside)
        except (AttributeError, KeyError):
            return None


def _constant_index(node: ast.expr) -> tuple[int, ...] | None:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    out = []
    for part in parts:
        negative = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub)
        number = part.operand if negative else part  # type: ignore[attr-defined]
        if not (isinstance(number, ast.Constant) and type(number.value) is int):
            return None
        out.append(-number.value if negative else number.value)
    return tuple(out)


def _inner(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Call):
        node = node.func
    assert isinstance(node, (ast.Attribute, ast.Subscript))
    return node.value


def part(vector: str, place: Place, ctx: ast.expr_context) -> ast.expr:
    """Return the expression for a whole field: an element, a slice, or a matrix."""
    name = ast.Name(vector, ast.Load())
    if not place.shape:
        return ast.Subscript(name, ast.Constant(place.first), ctx)
    bounds = ast.Slice(ast.Constant(place.first), ast.Constant(place.first + place.size))
    if len(place.shape) == 1:
        return ast.Subscript(name, bounds, ctx)
    flat = ast.Subscript(name, bounds, ast.Load())
    shape = ast.Tuple([ast.Constant(n) for n in place.shape], ast.Load())
    matrix = ast.Call(ast.Attribute(flat, "reshape", ast.Load()), [shape], [])
    if isinstance(ctx, ast.Load):
        return matrix
    return ast.Subscript(matrix, ast.Slice(), ctx)
