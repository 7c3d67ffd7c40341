"""Checks of a user's function by its source and bytecode; the function is not called."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from rtsim.core.errors import ModelError

_LOOKED_AT = {"size", "shape", "ndim", "dtype"}
"""Attributes and methods of a vector that do not change its elements."""


def check_value(function: Callable[..., Any], what: str) -> None:
    """Raise :class:`ModelError` if a path through ``function`` ends without a return value."""
    code, before = getattr(function, "py_func", function).__code__, None
    for at in dis.get_instructions(code):
        if (at.opname == "RETURN_VALUE" and before == ("LOAD_CONST", None)) or (
            at.opname == "RETURN_CONST" and at.argval is None
        ):
            raise ModelError(f"{what} can end without a value; return a number on every path")
        before = at.opname, at.argval


def check_names(function: Callable[..., Any], what: str) -> None:
    """Raise :class:`ModelError` if ``function`` reads a global name that is not defined."""
    plain = getattr(function, "py_func", function)
    for at in dis.get_instructions(plain.__code__):
        known = at.argval in plain.__globals__ or hasattr(builtins, str(at.argval))
        if at.opname == "LOAD_GLOBAL" and not known:
            raise ModelError(f"{what} reads {at.argval}, which is not defined; define or import it")


@lru_cache(maxsize=256)
def never_written(function: Callable[..., Any], position: int, size: int) -> list[int]:
    """Return the elements of a vector argument that no path through ``function`` writes.

    ``position`` is the position of the argument and ``size`` the length of the vector.  The list is
    empty if the source does not show which elements are written: if the function computes an index,
    takes a slice, or passes the vector to a function without source.
    """
    try:
        written = _written(function, position, ())
    except _Unknown:
        return []
    inside = {i % size for i in written if -size <= i < size}
    return [i for i in range(size) if i not in inside]


class _Unknown(Exception):
    """The source does not show which elements of a vector the function writes."""


def _written(function: Any, position: int, callers: tuple[Any, ...]) -> set[int]:
    plain = getattr(function, "py_func", function)
    if plain in callers or not inspect.isfunction(plain):
        raise _Unknown
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    except (OSError, TypeError, SyntaxError) as error:
        raise _Unknown from error
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise _Unknown
    arguments = [*definition.args.posonlyargs, *definition.args.args]
    if position >= len(arguments):
        raise _Unknown
    reader = _Reader(plain, arguments[position].arg, (*callers, plain))
    for statement in definition.body:
        reader.visit(statement)
    return reader.found


class _Reader(ast.NodeVisitor):
    """Collects the constant indices at which ``vector`` is assigned; raises ``_Unknown``."""

    def __init__(self, function: Any, vector: str, callers: tuple[Any, ...]) -> None:
        self.found: set[int] = set()
        self._function, self._vector, self._callers = function, vector, callers

    def _is_vector(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._vector

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self._is_vector(node.value):
            self.generic_visit(node)
            return
        if not isinstance(node.ctx, ast.Load):
            self.found.add(self._index(node.slice))
        self.visit(node.slice)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not (self._is_vector(node.value) and node.attr in _LOOKED_AT):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if self._is_vector(node):
            raise _Unknown

    def visit_Call(self, node: ast.Call) -> None:
        given = [i for i, one in enumerate(node.args) if self._is_vector(one)]
        if given:
            helper = self._value(node.func)
            for i in given if helper is not len else ():
                self.found |= _written(helper, i, self._callers)
        self._visit_all([node.func, *(a for a in node.args if not self._is_vector(a))])
        self._visit_all(node.keywords)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _index(self, node: ast.expr) -> int:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._index(node.operand)
        value = node.value if isinstance(node, ast.Constant) else self._value(node)
        if type(value) is not int:
            raise _Unknown
        return value

    def _value(self, node: ast.expr) -> Any:
        """Return the value of a name that is defined outside the function."""
        plain = self._function
        if not isinstance(node, ast.Name) or node.id in plain.__code__.co_varnames:
            raise _Unknown
        known = inspect.getclosurevars(plain)
        for names in (known.nonlocals, known.globals, known.builtins):
            if node.id in names:
                return names[node.id]
        raise _Unknown
