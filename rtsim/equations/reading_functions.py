"""Check a user's function by its source and bytecode, without calling it."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.equations.rewriting import Outside, definition_of, value_of, where
from rtsim.equations.source_hash import lies_in_packages

_LOOKED_AT = {"size", "shape", "ndim", "dtype"}
"""Attributes of a vector that do not change its elements."""


CHANGING = frozenset(
    ("byteswap", "fill", "itemset", "partition", "put", "resize", "setfield", "setflags", "sort")
)
"""Methods of an array that change it in place."""
KEEPING = frozenset(
    (
        *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert"),
        *("pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault", "sort"),
        "update",
    )
)
"""Methods of lists, dictionaries and similar objects that change them."""
KEPT = (list, dict, set, bytearray, deque)
_CHANGES_FIRST = frozenset(("copyto", "fill_diagonal", "place", "put", "putmask", "put_along_axis"))
"""NumPy functions that change their first argument."""


def changes_argument(function: Any, position: int) -> bool:
    """Return whether ``function`` assigns elements of an array argument.

    The result is False if the source is not readable.
    """
    if getattr(function, "__module__", "") == "numpy":
        return position == 0 and getattr(function, "__name__", "") in _CHANGES_FIRST
    if getattr(function, "__self__", None) is not None and hasattr(function.__self__, "shuffle"):
        return position == 0 and function.__name__ == "shuffle"
    return position in _changed_arguments(function)


@lru_cache(maxsize=256)
def _changed_arguments(function: Any) -> frozenset[int]:
    if not _can_assign(function):
        return frozenset()
    try:
        _, definition, arguments = _source(getattr(function, "__func__", function), ())
    except _Unknown:
        return frozenset()
    nodes = list(ast.walk(definition))
    parts = [
        one
        for node in nodes
        for one in (
            [node.target]
            if isinstance(node, ast.AugAssign)
            else [node]
            if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)
            else [node.func.value]
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CHANGING | KEEPING
            else []
        )
    ]
    if not parts:
        return frozenset()
    in_place = {id(one.target) for one in nodes if isinstance(one, ast.AugAssign)}
    anew = {
        one.id
        for one in nodes
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and id(one) not in in_place
    }
    return frozenset(
        position
        for position, name in enumerate(arguments)
        if name not in anew and any(_is_part(one, name) for one in parts)
    )


_STORES = frozenset(
    dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR") if name in dis.opmap
)
_IN_PLACE = 13
"""The first argument of ``BINARY_OP`` that is an operation in place, such as ``+=``."""


def _can_assign(function: Any) -> bool:
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None or any(isinstance(one, CodeType) for one in code.co_consts):
        return True
    if (CHANGING | KEEPING).intersection(code.co_names):
        return True
    return any(
        op in _STORES or (op == dis.opmap["BINARY_OP"] and argument >= _IN_PLACE)
        for op, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True)
    )


def _is_part(node: ast.expr, name: str) -> bool:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return isinstance(node, ast.Name) and node.id == name


def check_repeatable(function: Callable[..., Any], what: str, seen: set[Any]) -> None:
    """Raise ``ModelError`` if the results of ``function`` can differ from run to run.

    Results differ if a function uses random numbers, the wall clock or a global variable that
    changes. ``seen`` contains the functions that have already been checked.
    """
    top = str(getattr(function, "__module__", None) or "").partition(".")[0]
    if top == "rtsim" or lies_in_packages(top):
        return
    try:
        plain, definition, _ = _source(function, tuple(seen))
    except _Unknown:
        return
    seen.add(plain)
    outside = Outside(plain)
    own = {*plain.__code__.co_varnames, *plain.__code__.co_cellvars}
    imported = {
        one.asname or one.name: sys.modules.get(one.name)
        for node in ast.walk(definition)
        if isinstance(node, ast.Import)
        for one in node.names
    }

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute):
            return getattr(value(node.value), node.attr, None)
        if not isinstance(node, ast.Name):
            return None
        if node.id in own:
            return imported.get(node.id)
        with suppress(KeyError, AttributeError):
            return value_of(node, outside)
        return None

    def refuse(node: ast.AST, problem: str) -> None:
        raise ModelError(f"{where(plain, node)}: {what} {problem}")

    keeps = "the next run begins with it, and a replay differs; use a field: rtsim.memory()"
    for node in ast.walk(definition):
        if isinstance(node, ast.Global):
            refuse(node, f"assigns the global variable {node.names[0]}; {keeps}")
        if isinstance(node, ast.Nonlocal) and set(node.names) & set(plain.__code__.co_freevars):
            refuse(node, f"assigns {node.names[0]} of the function around it; {keeps}")
        if (
            isinstance(node, ast.Subscript)
            and not isinstance(node.ctx, ast.Load)
            and isinstance(value(node.value), (*KEPT, np.ndarray))
        ):
            refuse(node, f"changes {ast.unparse(node.value)}; {keeps}")
        if not isinstance(node, ast.Call):
            continue
        method, found = node.func, value(node.func)
        if (
            isinstance(method, ast.Attribute)
            and method.attr in KEEPING
            and isinstance(value(method.value), KEPT)
        ):
            refuse(node, f"changes {ast.unparse(method.value)}; {keeps}")
        remedy = unrepeatable(found)
        if remedy:
            refuse(node, f"calls {ast.unparse(method)}, so that a replay differs; {remedy}")
        if found is not None:
            check_repeatable(found, what, seen)


_BY_CHANCE = (random.Random, np.random.Generator, np.random.RandomState)
_DRAWN = (
    "random numbers that a replay repeats come from scenario.noise(...), or from draws= of "
    "@rtsim.every"
)


def unrepeatable(found: Any) -> str:
    """Return advice on an object whose values differ from run to run."""
    owner, name = getattr(found, "__self__", None), getattr(found, "__name__", "")
    module = getattr(found, "__module__", "")
    if isinstance(found, _BY_CHANCE) or isinstance(owner, _BY_CHANCE):
        return _DRAWN
    if module in ("secrets", "uuid") or name in ("urandom", "getrandom"):
        return _DRAWN
    dates = isinstance(owner, type) and owner.__module__ == "datetime"
    if (module == "time" and name != "sleep") or (dates and name in ("now", "today", "utcnow")):
        return "self.t is the simulated time (s)"
    return ""


def check_value(function: Callable[..., Any], what: str) -> None:
    """Raise ``ModelError`` if a function can end without a return value."""
    code, before = getattr(function, "py_func", function).__code__, None
    for at in dis.get_instructions(code):
        if (at.opname == "RETURN_VALUE" and before == ("LOAD_CONST", None)) or (
            at.opname == "RETURN_CONST" and at.argval is None
        ):
            raise ModelError(f"{what} can end without a value; return a number on every path")
        before = at.opname, at.argval


def check_names(function: Callable[..., Any], what: str) -> None:
    """Raise ``ModelError`` if ``function`` uses an undefined global name."""
    plain = getattr(function, "py_func", function)
    for at in dis.get_instructions(plain.__code__):
        known = at.argval in plain.__globals__ or hasattr(builtins, str(at.argval))
        if at.opname == "LOAD_GLOBAL" and not known:
            raise ModelError(f"{what} reads {at.argval}, which is not defined; define or import it")


@lru_cache(maxsize=256)
def never_written(function: Callable[..., Any], position: int, size: int) -> list[int]:
    """Return the elements of a vector argument that ``function`` never writes.

    ``position`` is the position of the argument, and ``size`` the length of the vector. The list is
    empty if the source does not show which elements are written, as with computed indices.
    """
    try:
        written = _written(function, position, ())
    except _Unknown:
        return []
    inside = {i % size for i in written if -size <= i < size}
    return [i for i in range(size) if i not in inside]


class _Unknown(Exception): ...


def _source(function: Any, callers: tuple[Any, ...]) -> tuple[Any, ast.FunctionDef, list[str]]:
    plain = getattr(function, "py_func", function)
    if plain in callers or not inspect.isfunction(plain):
        raise _Unknown
    definition: Any = getattr(plain, "definition", None)  # of a method that was lowered
    if definition is None:
        try:
            definition = definition_of(plain)
        except (ModelError, OSError, TypeError, SyntaxError) as error:
            raise _Unknown from error
    if not isinstance(definition, ast.FunctionDef):
        raise _Unknown
    return plain, definition, [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)]


def source_of(function: Any) -> ast.FunctionDef | None:
    try:
        return _source(function, ())[1]
    except _Unknown:
        return None


def _written(function: Any, position: int, callers: tuple[Any, ...]) -> set[int]:
    plain, definition, arguments = _source(function, callers)
    if position >= len(arguments):
        raise _Unknown
    reader = _Reader(plain, arguments[position], (*callers, plain))
    for statement in definition.body:
        reader.visit(statement)
    return reader.found


class _Reader(ast.NodeVisitor):
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
        elif isinstance(node.slice, ast.Slice):
            raise _Unknown  # a view of the vector, through which its elements can be written
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
        return _index(self._function, node)

    def _value(self, node: ast.expr) -> Any:
        return _value(self._function, node)


def _index(function: Any, node: ast.expr) -> int:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_index(function, node.operand)
    value = node.value if isinstance(node, ast.Constant) else _value(function, node)
    if type(value) is not int:
        raise _Unknown
    return value


def _value(function: Any, node: ast.expr) -> Any:
    if not isinstance(node, ast.Name) or node.id in function.__code__.co_varnames:
        raise _Unknown
    known = inspect.getclosurevars(function)
    for names in (known.nonlocals, known.globals, known.builtins):
        if node.id in names:
            return names[node.id]
    raise _Unknown


def check_locals(function: Callable[..., Any], what: str) -> None:
    """Raise ``ModelError`` if ``function`` reads a variable that only an ``if`` assigns.

    If the condition is false, Python raises an error, but machine code continues with an arbitrary
    value. Reads inside an ``if`` are not checked, because their condition can be the same.
    """
    try:
        plain, definition, _ = _source(function, ())
        found = _Locals(plain)
        found.block(definition.body, frozenset(), outside=True)
    except _Unknown:
        return
    for name, line in found.unset.items():
        raise ModelError(
            f"{what} reads {name} ({plain.__code__.co_filename}:{line}), but assigns it only under "
            f"a condition; give {name} a value before the if, or in its else"
        )


class _Locals:
    def __init__(self, function: Any) -> None:
        code = function.__code__
        self.unset: dict[str, int] = {}
        """The line of the first read without a value, by variable."""
        collected = bool(code.co_flags & inspect.CO_VARARGS) + bool(
            code.co_flags & inspect.CO_VARKEYWORDS
        )
        arguments = code.co_argcount + code.co_kwonlyargcount + collected
        self._names = frozenset((*code.co_varnames[arguments:], *code.co_cellvars))

    def block(
        self, body: Iterable[ast.stmt], known: frozenset[str], outside: bool
    ) -> frozenset[str] | None:
        for node in body:
            after = self._statement(node, known, outside)
            if after is None:
                return None
            known = after
        return known

    def _statement(
        self, node: ast.stmt, known: frozenset[str], outside: bool
    ) -> frozenset[str] | None:
        if isinstance(node, ast.If):
            known = self._read([node.test], known, outside)
            ways = [self.block(node.body, known, outside=False)]
            ways.append(self.block(node.orelse, known, outside=False))
            reached = [way for way in ways if way is not None]
            if not reached:
                return None
            chain = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
            return frozenset().union(*reached) if chain else frozenset.intersection(*reached)
        if isinstance(node, ast.For | ast.While):
            loop = [node.iter, node.target] if isinstance(node, ast.For) else [node.test]
            known = self._read(loop, known, outside)
            inside = self.block(node.body, known, outside)
            return self.block(node.orelse, known if inside is None else inside, outside)
        simple = (
            ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Assert, ast.Return,
            ast.Raise, ast.Break, ast.Continue,
        )  # fmt: skip
        if not isinstance(node, simple):
            raise _Unknown
        known = self._read([node], known, outside)
        ends = isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue)
        return None if ends else known

    def _read(
        self, nodes: Iterable[ast.AST], known: frozenset[str], outside: bool
    ) -> frozenset[str]:
        every = [one for node in nodes for one in ast.walk(node)]
        if any(isinstance(one, ast.Lambda | ast.comprehension | ast.NamedExpr) for one in every):
            raise _Unknown  # with variables of their own, or in an order of their own
        names = [one for one in every if isinstance(one, ast.Name) and one.id in self._names]
        changed = {id(one.target) for one in every if isinstance(one, ast.AugAssign)}
        for one in names if outside else ():
            if (isinstance(one.ctx, ast.Load) or id(one) in changed) and one.id not in known:
                self.unset.setdefault(one.id, one.lineno)
        return known | {one.id for one in names if not isinstance(one.ctx, ast.Load)}


def sometimes_unwritten(function: Callable[..., Any], position: int, size: int) -> dict[int, int]:
    """Return the elements of a vector argument that a path through ``function`` leaves unwritten.

    The result maps each element to the line of the ``if`` or ``return`` that causes the path. See
    :func:`never_written` for the arguments. A chain with ``elif`` counts as complete. No ``if`` is
    responsible for an element that several statements write, because the source does not show
    whether the statements cover all cases. A loop counts as executed.
    """
    try:
        plain, definition, arguments = _source(function, ())
        if position >= len(arguments):
            raise _Unknown
        paths = _Paths(plain, arguments[position], size)
        rest = paths.block(definition.body, frozenset())
    except _Unknown:
        return {}
    found = {i: line for written, line in paths.ends for i in range(size) if i not in written}
    for i, line in paths.branches.items():
        if rest is not None and i not in rest and line is not None:
            found[i] = line
    return found


class _Paths:
    def __init__(self, function: Any, vector: str, size: int) -> None:
        self.ends: list[tuple[frozenset[int], int]] = []
        """The written elements and the line of each ``return``."""
        self.branches: dict[int, int | None] = {}
        """The line of the only ``if`` around an element's assignment, or ``None`` for several."""
        self._function, self._vector, self._size = function, vector, size
        self._line: int | None = None

    def block(self, body: Iterable[ast.stmt], written: frozenset[int]) -> frozenset[int] | None:
        for node in body:
            if isinstance(node, ast.Return):
                called = ast.copy_location(ast.Expr(node.value or ast.Constant(None)), node)
                self.ends.append((written | self._new(called), node.lineno))
                return None
            if isinstance(node, ast.Raise | ast.Break | ast.Continue):
                return None
            after = self._statement(node, written)
            if after is None:
                return None
            written = after
        return written

    def _statement(self, node: ast.stmt, written: frozenset[int]) -> frozenset[int] | None:
        if isinstance(node, ast.If):
            return self._branches(node, written)
        if isinstance(node, ast.For | ast.While):
            inside = self.block(node.body, written)
            return self.block(node.orelse, written if inside is None else inside)
        simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Assert)
        if not isinstance(node, simple):
            raise _Unknown
        new = self._new(node)
        for i in new:
            self.branches[i] = None if i in self.branches else self._line
        return written | new

    def _new(self, node: ast.AST) -> frozenset[int]:
        found = _Reader(self._function, self._vector, (self._function,))
        found.visit(node)
        return frozenset(i % self._size for i in found.found if -self._size <= i < self._size)

    def _branches(self, node: ast.If, written: frozenset[int]) -> frozenset[int] | None:
        chain = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        asked = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
        if self._vector in asked:
            raise _Unknown  # a condition on its size: all calls take the same branch
        before, self._line = self._line, node.lineno
        ways = [self.block(node.body, written)]
        if node.orelse:
            ways.append(self.block(node.orelse, written))
        self._line = before
        if not node.orelse:
            ways.append(written)
        reached = [way for way in ways if way is not None]
        if not reached:
            return None
        if chain:
            return frozenset().union(*reached)
        return frozenset.intersection(*reached)


Inputs = frozenset[int]
_READ, _WRITTEN = 3, 5
"""Positions of the inputs and of the outputs in ``output(t, x, z, u, p, y)``."""


def direct_inputs(
    function: Callable[..., Any], inputs: int, outputs: int, position: int = _READ
) -> list[Inputs] | None:
    """Return, for each output, the inputs on which it can depend without delay.

    ``function`` has the arguments of a model's output function. With ``position`` 1 or 2, the
    result contains states or discrete signals instead of inputs. The result may contain too many
    inputs, but never too few. The result is ``None`` if the source does not show the dependences.
    """
    try:
        return _Dependences.of(function, (position, inputs), (_WRITTEN, outputs), ())
    except _Unknown:
        return None


_UNREAD = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.With, ast.Match,
    ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Delete, ast.Starred,
)  # fmt: skip
_ENDS = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Assert)


class _Dependences:
    """The inputs on which each variable and each output depends.

    The order of statements is ignored.
    """

    def __init__(
        self, function: Any, read: str, written: str, sizes: tuple[int, int], callers: Any
    ) -> None:
        self._function, self._read, self._written = function, read, written
        self._inputs, self._callers = sizes[0], callers
        self._all = frozenset(range(sizes[0]))
        self.outputs = [Inputs() for _ in range(sizes[1])]
        self._variables: dict[str, Inputs] = {}
        self._same: dict[str, str] = {}
        """Maps a variable to another variable that can refer to the same vector."""
        self._early = Inputs()
        """The inputs on which the end of the function or of a loop depends."""

    @classmethod
    def of(
        cls, function: Any, read: tuple[int, int], written: tuple[int, int], callers: Any
    ) -> list[Inputs]:
        plain, definition, arguments = _source(function, callers)
        if max(read[0], written[0]) >= len(arguments):
            raise _Unknown
        sizes = read[1], written[1]
        names = arguments[read[0]], arguments[written[0]]
        found = cls(plain, *names, sizes, (*callers, plain))
        body = definition.body
        for node in (node for one in body for node in ast.walk(one)):
            changed = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            if isinstance(node, _UNREAD) or (changed and node.id in arguments):  # type: ignore[attr-defined]
                raise _Unknown
        before = None
        while before != (now := found._known()):
            before = now
            found._block(body, Inputs())
        return found.outputs

    def _known(self) -> tuple[Any, ...]:
        return self.outputs[:], dict(self._variables), dict(self._same), self._early

    def _block(self, body: Iterable[ast.stmt], around: Inputs) -> None:
        for statement in body:
            self._statement(statement, around)

    def _statement(self, node: ast.stmt, around: Inputs) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, around)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            if node.value is not None:
                self._assign(node.target, node.value, around)
        elif isinstance(node, (ast.If, ast.While)):
            self._under(node.test, node, around)
        elif isinstance(node, ast.For):
            self._assign(node.target, node.iter, around)
            self._under(node.iter, node, around)
        elif isinstance(node, _ENDS):
            self._early |= around.union(*map(self._inputs_of, ast.iter_child_nodes(node)))
        elif isinstance(node, ast.Expr):
            self._inputs_of(node.value, around)
        elif not isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom)):
            raise _Unknown

    def _under(
        self, condition: ast.expr, node: ast.If | ast.While | ast.For, around: Inputs
    ) -> None:
        inside = around | self._inputs_of(condition, around)
        self._block(node.body, inside)
        self._block(node.orelse, inside)

    def _everywhere(self, inputs: Inputs) -> None:
        self.outputs = [known | inputs for known in self.outputs]

    def _assign(self, target: ast.expr, value: ast.expr, around: Inputs) -> None:
        several = (ast.Tuple, ast.List)
        if isinstance(target, several):
            alike = isinstance(value, several) and len(value.elts) == len(target.elts)
            for i, one in enumerate(target.elts):
                self._assign(one, value.elts[i] if alike else value, around)  # type: ignore[attr-defined]
            return
        inputs = around | self._early | self._inputs_of(value, around)
        if isinstance(target, ast.Name):
            for name in self._vectors(value):
                if self._first(name) != self._first(target.id):
                    self._same[self._first(name)] = self._first(target.id)
        if isinstance(target, ast.Subscript) and self._is(target.value, self._written):
            inputs |= self._inputs_of(target.slice, around)
            try:
                self.outputs[_index(self._function, target.slice)] |= inputs
            except (_Unknown, IndexError):
                self._everywhere(inputs)
        else:
            self._change(target, inputs | self._inputs_of_index(target, around))

    def _inputs_of_index(self, target: ast.expr, around: Inputs) -> Inputs:
        found = Inputs()
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            if isinstance(target, ast.Subscript):
                found |= self._inputs_of(target.slice, around)
            target = target.value
        return found

    def _change(self, place: ast.expr, inputs: Inputs) -> None:
        while isinstance(place, (ast.Subscript, ast.Attribute)):
            place = place.value
        if not isinstance(place, ast.Name) or self._is(place, self._read):
            raise _Unknown
        if self._is(place, self._written):
            self._everywhere(inputs)
        else:
            name = self._first(place.id)
            self._variables[name] = self._reached(place.id) | inputs

    def _first(self, name: str) -> str:
        while name in self._same:
            name = self._same[name]
        return name

    def _reached(self, name: str) -> Inputs:
        alike = {n for n in self._variables if self._first(n) == self._first(name)}
        return Inputs().union(*(self._variables[n] for n in alike))

    def _vectors(self, value: ast.expr) -> set[str]:
        if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant)):
            return set()
        code = self._function.__code__
        own = {*code.co_varnames[code.co_argcount :], *code.co_cellvars}
        return {n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in own}

    @staticmethod
    def _is(node: ast.AST, name: str) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    def _inputs_of(self, node: ast.AST, around: Inputs = frozenset()) -> Inputs:
        if isinstance(node, ast.Subscript) and self._is(node.value, self._read):
            try:
                return frozenset({range(self._inputs)[_index(self._function, node.slice)]})
            except (_Unknown, IndexError):
                return self._all
        if isinstance(node, ast.Subscript) and self._is(node.value, self._written):
            if isinstance(node.slice, (ast.Slice, ast.Tuple)):
                raise _Unknown  # another vector through which the outputs could be written
            try:
                return self.outputs[_index(self._function, node.slice)]
            except (_Unknown, IndexError):
                return Inputs().union(*self.outputs, self._inputs_of(node.slice, around))
        if (
            isinstance(node, ast.Attribute)
            and node.attr in _LOOKED_AT
            and isinstance(node.value, ast.Name)
            and node.value.id in (self._read, self._written)
        ):
            return Inputs()
        if isinstance(node, ast.NamedExpr):
            self._assign(node.target, node.value, around)
            return self._inputs_of(node.value, around)
        if isinstance(node, ast.comprehension):
            self._assign(node.target, node.iter, around)
        if isinstance(node, ast.Call):
            return self._called(node, around)
        if self._is(node, self._read):
            return self._all
        if self._is(node, self._written):
            raise _Unknown  # another name of the outputs, through which they could be written
        if isinstance(node, ast.Name):
            return self._reached(node.id)
        return Inputs().union(*(self._inputs_of(one, around) for one in ast.iter_child_nodes(node)))

    def _called(self, node: ast.Call, around: Inputs) -> Inputs:
        given = [*node.args, *(k.value for k in node.keywords)]
        names = [i for i, one in enumerate(given) if self._is(one, self._written)]
        others = [one for one in given if not self._is(one, self._written)]
        inputs = around.union(*(self._inputs_of(one, around) for one in (node.func, *others)))
        if names:
            reads = [i for i, one in enumerate(given) if self._is(one, self._read)]
            if len(names) == len(reads) == 1 and not node.keywords:
                rest = [one for one in others if not self._is(one, self._read)]
                inputs = around.union(*(self._inputs_of(one, around) for one in (node.func, *rest)))
                helper = _value(self._function, node.func)
                sizes = (reads[0], self._inputs), (names[0], len(self.outputs))
                inner = self.of(helper, *sizes, self._callers)
                self.outputs = [known | new for known, new in zip(self.outputs, inner, strict=True)]
            self._everywhere(inputs | self._early)
        for one in (*others, *([node.func.value] if isinstance(node.func, ast.Attribute) else ())):
            for name in self._vectors(one):
                self._change(ast.Name(name), inputs | self._early)
        return inputs
