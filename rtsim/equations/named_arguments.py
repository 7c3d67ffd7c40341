"""Convert functions with named arguments and signals into functions of vectors.

A function such as ``def derivative(x, u, dx)`` declares only the arguments that it needs, in any
order. ``x.speed`` becomes an element of ``x``, or a slice if the signal is an array. ``x[1]`` is
left unchanged.

A function with all arguments in the documented order is used unchanged if it reads signals by
index. Any other function is rebuilt from its source. A function without readable source is called
through a wrapper.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError, UnknownName
from rtsim.core.signals import Signals
from rtsim.equations.compiling import like_its_caller
from rtsim.equations.field_names import FieldNames, Place, article, part, places_of
from rtsim.equations.rewriting import (
    at,
    calling,
    definition_of,
    generated_name,
    read_helper,
    rebuilt,
)

OUT = "out"
"""Alternative name of the vector that a function fills."""


@dataclass(frozen=True)
class Arguments:
    """The arguments that rtsim passes to a function of the user.

    - ``text``: the names in the documented order, such as ``"t, x, z, u, p, dx"``.
    - ``fills`` is the name of the vector that the function must fill. The function can also name it
      :data:`OUT`.
    - ``changes`` contains the names of the vectors that the function may change. The default is
      ``fills``.
    - ``does`` describes the purpose of the function in messages.
    """

    text: str
    fills: str = ""
    changes: str = ""
    does: str = ""

    @property
    def names(self) -> list[str]:
        return self.text.split(", ")

    @property
    def assigned(self) -> list[str]:
        return (self.changes or self.fills).split(", ")

    @property
    def task(self) -> str:
        return self.does or f"fills {self.fills} in place"

    def meaning(self, name: str) -> str:
        if name == OUT and self.fills:
            return self.fills
        return name if name in self.names else ""


@dataclass(frozen=True)
class NamedVector:
    """The signals of a vector, and the kind of these signals in messages, such as "state"."""

    signals: Signals
    role: str


Vectors = Mapping[str, NamedVector]


def named(
    function: Callable[..., Any],
    arguments: Arguments,
    what: str,
    vectors: Vectors,
) -> Callable[..., Any]:
    """Return a function that takes all ``arguments`` in order.

    ``what`` names the function in messages, and ``vectors`` contains the signals of the arguments.
    Variable arguments (``*arguments``) of the function receive the remaining values.

    Raises ``ModelError`` for an unknown argument or signal, or a vector that is not filled or must
    not be changed.
    """
    wanted = _wanted(function, arguments, what, vectors)
    if wanted is None or wanted.starred:
        return function
    if made := wanted.by_source():
        return made
    return function if wanted.in_order and not wanted.constants else wanted.by_call()


def check_arguments(function: Callable[..., Any], arguments: Arguments, what: str) -> None:
    _wanted(function, arguments, what, {})


def _wanted(
    function: Callable[..., Any], arguments: Arguments, what: str, vectors: Vectors
) -> _Wanted | None:
    plain = getattr(function, "py_func", function)
    if hasattr(plain, "rewritten"):
        return None
    try:
        parameters = list(inspect.signature(plain).parameters.values())
    except (TypeError, ValueError):
        return None  # a builtin function without a signature
    wanted = _Wanted(plain, parameters, arguments, what, vectors)
    wanted.check()
    return wanted


_KEYWORD, _REST = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD


@dataclass
class _Wanted:
    plain: Any
    parameters: Sequence[inspect.Parameter]
    arguments: Arguments
    what: str
    vectors: Vectors
    starred: bool = field(init=False)

    def __post_init__(self) -> None:
        self.starred = any(p.kind is p.VAR_POSITIONAL for p in self.parameters)
        self._by_position = [
            p.name
            for p in self.parameters
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]

    # -- the names of the arguments ----------------------------------------------------------------

    def check(self) -> None:
        meaning, names = self.arguments.meaning, self.arguments.names
        if self.starred:
            first = names[: len(self._by_position)]
            if [meaning(name) for name in self._by_position] != first:
                self._refuse(f"the arguments before *arguments must be ({', '.join(first)}).")
            return
        for p in self.parameters:
            if not meaning(p.name) and p.default is p.empty and p.kind is not _REST:
                near = self._nearest(p.name)
                hint = f"; did you mean {near}?" if near else "."
                self._refuse(f"{p.name} is not a possible argument{hint}")
        taken = [meaning(p.name) for p in self.parameters if meaning(p.name)]
        fills = self.arguments.fills
        if len(set(taken)) < len(taken):
            self._refuse(f"{fills} and {OUT} are the same vector; take one of them.")
        vector = self.vectors.get(fills)
        if fills and fills not in taken and (vector is None or vector.signals.size):
            self._refuse(f"{fills} is missing.")

    def _refuse(self, problem: str) -> None:
        code = getattr(getattr(self.plain, "__func__", self.plain), "__code__", None)
        place = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
        takes = ", ".join(str(p.replace(annotation=p.empty)) for p in self.parameters)
        raise ModelError(
            f"{place}{self.what} takes ({takes}), but {problem} The possible arguments are "
            f"({self.arguments.text}), in any order. The function {self.arguments.task}"
        )

    def _nearest(self, name: str) -> str:
        names = self.arguments.names
        words = {n: n for n in names}
        for letter, vector in self.vectors.items():
            if letter in names and letter not in ("dx", "r"):
                words |= {vector.role: letter, f"{vector.role}s": letter}
        words |= {"time": "t"} if "t" in names else {}
        taken = {p.name for p in self.parameters}
        free = {word: letter for word, letter in words.items() if letter not in taken}
        if near := difflib.get_close_matches(name.strip("_").lower(), free, 1, 0.6):
            return free[near[0]]
        at = self._by_position.index(name) if name in self._by_position else len(names)
        alike = len(self._by_position) == len(names) and names[at] not in taken
        return names[at] if alike else ""

    @property
    def in_order(self) -> bool:
        names = self.arguments.names
        return [self.arguments.meaning(n) for n in self._by_position[: len(names)]] == names

    @property
    def constants(self) -> dict[str, Any]:
        return {
            p.name: p.default
            for p in self.parameters
            if not self.arguments.meaning(p.name) and p.default is not p.empty
        }

    # -- the function of all arguments -------------------------------------------------------------

    def by_source(self) -> Callable[..., Any] | None:
        method = isinstance(self.plain, types.MethodType)
        plain = self.plain.__func__ if method else self.plain
        fields = frozenset(n for v in self.vectors.values() for n in v.signals.names)
        read = _attributes(plain, fields, set())
        constants = self.constants
        if self.in_order and not read and not constants:
            return None
        if not isinstance(plain, types.FunctionType) or hasattr(plain, "__wrapped__"):
            return None
        try:
            source = definition_of(plain)
        except ModelError:
            if read & fields and not self.in_order:
                raise
            return None
        letters = {
            p.name: letter
            for p in self.parameters
            if (letter := self.arguments.meaning(p.name)) in self.vectors
        }
        scope = _Scope(self.arguments, self.what, self.vectors)
        rewriting = _SignalNames(plain, source, scope, tuple(letters.items()), {}, ())
        if self.in_order and not rewriting.changed and not constants:
            return None
        definition = rewriting.definition
        if not self.in_order or constants:
            self._reorder(definition, method)
        made = rebuilt(plain, definition, {**constants, **rewriting.own})
        return types.MethodType(made, self.plain.__self__) if method else made

    def _reorder(self, definition: ast.FunctionDef, method: bool) -> None:
        given = definition.args
        several = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        own = {self.arguments.meaning(a.arg): a for a in several[method:]}
        used = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name)}
        used |= {a.arg for a in several}
        first = several[:1] if method else []
        for name in self.arguments.names:
            unused = f"_{name}"
            while unused in used:
                unused = f"_{unused}"
            first.append(own.get(name) or ast.arg(unused))
        given.posonlyargs, given.args = [], first
        given.defaults, given.kwonlyargs, given.kw_defaults = [], [], []

    def by_call(self) -> Callable[..., Any]:
        taken = [p for p in self.parameters if self.arguments.meaning(p.name)]
        call = ", ".join(
            f"{p.name}={letter}" if p.kind is _KEYWORD else letter
            for p in taken
            if (letter := self.arguments.meaning(p.name))
        )
        inner = self.plain
        if isinstance(inner, types.FunctionType):
            inner = like_its_caller(inner)
        made: Any = calling(self.arguments.names, [f"return _f0({call})"], [inner], self.plain)
        made.__name__ = made.__qualname__ = getattr(self.plain, "__name__", made.__name__)
        return made  # type: ignore[no-any-return]


# -- names of signals ------------------------------------------------------------------------------

_ARRAY = frozenset(dir(np.ndarray))
_LOOKED_AT = frozenset(("size", "shape", "ndim", "dtype"))
"""Attributes that functions read from a vector. A signal with such a name can be read only by
index.
"""
_LIBRARIES = frozenset(("math", "numba", "numpy", "scipy"))


def _attributes(function: Any, fields: frozenset[str], seen: set[Any]) -> set[str]:
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, types.FunctionType) or plain in seen:
        return set()
    seen.add(plain)
    if str(plain.__module__).partition(".")[0] in _LIBRARIES:
        return set()
    names = set(_names_in(plain.__code__))
    space = plain.__globals__
    known = {n: space[n] for n in names if n in space}
    known |= {n: getattr(builtins, n) for n in names - set(known) if hasattr(builtins, n)}
    for cell in plain.__closure__ or ():
        try:
            known[f".{id(cell)}"] = cell.cell_contents
        except ValueError:
            continue
    reached = list(known.values())
    for value in reached:
        if isinstance(value, types.ModuleType):
            inside = {n: vars(value)[n] for n in names if n in vars(value)}
            reached += [v for n, v in inside.items() if n not in known]
            known = inside | known
    found = {n for n in names if n in fields or not (n in known or n in _ARRAY)}
    return found.union(*(_attributes(value, fields, seen) for value in reached))


def _names_in(code: types.CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


@dataclass(frozen=True)
class _Scope:
    arguments: Arguments
    what: str
    vectors: Vectors


class _SignalNames(FieldNames):
    """Syntax-tree transformer that replaces signal names by elements of vectors.

    ``letters`` maps argument names to vector names, such as ``x``. An argument that the function
    assigns again no longer counts as a vector. ``made`` contains the rewritten helpers, and
    ``callers`` the helpers in progress.
    """

    def __init__(
        self,
        original: Any,
        source: ast.FunctionDef,
        scope: _Scope,
        letters: tuple[tuple[str, str], ...],
        made: dict[Any, Any],
        callers: tuple[Any, ...],
    ) -> None:
        super().__init__(original, scope.what)
        self._scope, self._made, self._callers = scope, made, callers
        assigned = {
            node.id if isinstance(node, ast.Name) else node.arg
            for part in source.body
            for node in ast.walk(part)
            if isinstance(node, ast.arg)
            or (isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
        }
        self._letters = {name: letter for name, letter in letters if name not in assigned}
        self.changed = False
        self.definition = source
        source.body = [self.visit(node) for node in source.body]

    def stands(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self._letters

    def place(self, node: ast.Attribute) -> Place | None:
        assert isinstance(node.value, ast.Name)
        vector = self._scope.vectors[self._letters[node.value.id]]
        return places_of(vector.signals, vector.role).get(node.attr)

    def named(self, node: ast.Attribute, ctx: ast.expr_context) -> ast.expr:
        assert isinstance(node.value, ast.Name)
        letter, place = self._letters[node.value.id], self.place(node)
        stored = not isinstance(ctx, ast.Load)
        if place is None:
            if node.attr not in _ARRAY:
                self._refuse_unknown(node, letter, stored)
            return node
        if node.attr in _LOOKED_AT:
            self.refuse(
                node,
                f"{ast.unparse(node)} can be the signal or an attribute of the vector; write "
                f"{node.value.id}[{place.first}] for the signal, or give it another name",
            )
        if stored and letter not in self._scope.arguments.assigned:
            self._refuse_write(node, letter)
        self.changed = True
        return at(part(node.value.id, place, node.ctx), node)

    def _refuse_unknown(self, node: ast.Attribute, letter: str, stored: bool) -> None:
        vector, name = self._scope.vectors[letter], node.attr
        for other, its in self._scope.vectors.items():
            if name in its.signals and other != letter:
                means = f"{name} is {article(its.role)}"
                told = "" if stored else f", so write {other}.{name}"
                known = ", ".join(vector.signals.names) or "no signals"
                self.refuse(node, f"{ast.unparse(node)}: {means}{told}; {letter} has {known}")
        where_from = ast.unparse(node.value)
        self.refuse(node, str(UnknownName(vector.role, name, vector.signals.names, where_from)))

    def _refuse_write(self, node: ast.Attribute, letter: str) -> None:
        arguments, vectors = self._scope.arguments, self._scope.vectors
        assigned = [name for name in arguments.assigned if name]
        can = [n for n in assigned if n in vectors and node.attr in vectors[n].signals]
        remedy = (
            f"assign {can[0]}.{node.attr}"
            if can
            else f"it assigns {' and '.join(assigned) or 'nothing'}"
        )
        self.refuse(
            node,
            f"{ast.unparse(node)} is assigned, but the function only reads {letter}; {remedy}",
        )

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = node.func
        self.check_changes(node, self.called(function))
        whole = [a for a in (*node.args, *(k.value for k in node.keywords)) if self.stands(a)]
        if isinstance(function, ast.Attribute) and self.stands(function.value):
            if function.attr in _ARRAY:  # a method of the array, such as x.copy()
                node.args = [self.visit(a) for a in node.args]
                node.keywords = [self.visit(k) for k in node.keywords]
                return node
        elif whole and (name := self._helper(node)):
            node.func = at(ast.Name(name, ast.Load()), function)
        else:
            read_helper(self.called(function))
        self.generic_visit(node)
        return node

    def _helper(self, node: ast.Call) -> str:
        found = self.called(node.func)
        plain = getattr(found, "py_func", found)
        fields = frozenset(n for v in self._scope.vectors.values() for n in v.signals.names)
        if not _attributes(plain, fields, set()):
            return ""
        code = plain.__code__
        names = code.co_varnames[: code.co_argcount]
        letters = {}
        for name, given in zip(names, node.args, strict=False):
            if isinstance(given, ast.Starred):
                break
            if self.stands(given):
                letters[name] = self._letters[given.id]  # type: ignore[attr-defined]
        for keyword in node.keywords:
            if keyword.arg and self.stands(keyword.value):
                letters[keyword.arg] = self._letters[keyword.value.id]  # type: ignore[attr-defined]
        key = (plain, tuple(sorted(letters.items())))
        if key in self._callers:
            self.refuse(node, f"{plain.__name__} calls itself with {ast.unparse(node)}")
        if key not in self._made:
            self._made[key] = self._rewritten(found, *key)
        if self._made[key] is None:
            return ""
        name = generated_name(f"{plain.__name__} {list(self._made).index(key)}")
        self.own[name], self.changed = self._made[key], True
        return name

    def _rewritten(self, found: Any, plain: Any, letters: tuple[tuple[str, str], ...]) -> Any:
        try:
            source = definition_of(plain)
        except ModelError:
            return None
        callers = (*self._callers, (plain, letters))
        inner = _SignalNames(plain, source, self._scope, letters, self._made, callers)
        if not inner.changed:
            return None
        made = rebuilt(plain, inner.definition, inner.own, plain.__defaults__)
        return like_its_caller(made, found)
