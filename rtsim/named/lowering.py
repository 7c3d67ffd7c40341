"""Methods of classes with fields, as the functions of vectors that rtsim compiles and runs.

``self.speed`` becomes an element of a vector, and ``self.attitude`` a part of one.  A method, a
property or a function that is given ``self`` becomes a function of the vectors too.  The result is
an ordinary Python function, so compiled code, plain Python, the cache and linearisation treat it
like every other model function (docs/decisions/200).
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np

from rtsim.core.errors import ModelError, UnknownName
from rtsim.equations.compiling import compiled
from rtsim.named.fields import (
    ALGEBRAIC,
    DELAYED,
    INPUT,
    LINE,
    MEMORY,
    OUTPUT,
    PARAMETER,
    STATE,
    NamedSignals,
    article,
)
from rtsim.named.source import (
    Outside,
    argument_names,
    code_of,
    definition_of,
    read_helper,
    value_of,
    where,
)

TIME = "_t"
VECTORS = {
    STATE: "_x",
    ALGEBRAIC: "_a",
    MEMORY: "_z",
    INPUT: "_u",
    DELAYED: "_u",
    PARAMETER: "_p",
    OUTPUT: "_y",
    LINE: "_v",
}
"""The argument of a lowered function that holds the fields of each role."""
SELF = "self"


@dataclass(frozen=True)
class Form:
    """What a method may use: the arguments of its function, and the roles that it may write.

    ``second`` is the vector behind the method's second argument, with the role of its fields: the
    derivative of each state, or the residual of each algebraic variable.
    """

    arguments: tuple[str, ...]
    writes: frozenset[str] = frozenset()
    second: tuple[str, str] | None = None
    name: str = "a method"


@dataclass(frozen=True)
class _Place:
    """Where a field lies: its vector, its first element and its shape."""

    role: str
    first: int
    shape: tuple[int, ...]
    modes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


def places(cls: Any) -> dict[str, _Place]:
    """Return the place of each field of ``cls``; delayed signals follow the inputs."""
    layouts = {role: cls.signals(role) for role in VECTORS}
    out = {}
    for name, one in cls.fields.items():
        at = layouts[one.role].slice(one.signal.name).start
        at += layouts[INPUT].size if one.role == DELAYED else 0
        out[name] = _Place(one.role, at, one.signal.shape, one.modes)
    return out


@dataclass(frozen=True)
class _Helper:
    """A method or function that was lowered: its arguments, and the roles that it writes."""

    name: str
    function: Any
    arguments: tuple[str, ...]
    writes: frozenset[str]

    def fits(self, form: Form) -> bool:
        """Return whether a method of this form may call the helper."""
        return form.writes >= self.writes and set(form.arguments) >= set(self.arguments)


class Lowered:
    """The helpers that the methods of one class share, and the names outside that were read."""

    def __init__(self, cls: type[NamedSignals]) -> None:
        self.places = places(cls)
        self.helpers: dict[tuple[Any, tuple[tuple[int, str], ...]], list[_Helper]] = {}
        self.count = 0
        self.read: list[tuple[Any, ast.expr, Any]] = []
        """Functions, dotted names in them, and the values that the names had."""

    def current(self) -> bool:
        """Return whether all names that were read still have the same values."""
        for function, node, value in self.read:
            try:
                if value_of(node, Outside(function)) is not value:
                    return False
            except (AttributeError, KeyError):
                if value is not None:
                    return False
        return True


T = TypeVar("T")


def made_once(cls: Any, make: Callable[[Any, Lowered], T]) -> T:
    """Return ``make(cls, ...)``, made again only if the class or what its methods read changed."""
    known = vars(cls).get("_made")
    if known is not None and _unchanged(cls, known[0]) and known[1].current():
        out: T = known[2]
        return out
    helpers = Lowered(cls)
    out = make(cls, helpers)
    cls._made = ([(base, dict(vars(base))) for base in cls.__mro__], helpers, out)
    return out


def _unchanged(cls: type, known: list[tuple[type, dict[str, Any]]]) -> bool:
    """Return whether ``cls`` and its bases still have the attributes ``known``."""
    return len(known) == len(cls.__mro__) and all(
        base is there
        and (own := vars(base)).keys() == before.keys()
        and all(own[name] is value for name, value in before.items() if name != "_made")
        for base, (there, before) in zip(cls.__mro__, known, strict=True)
    )


def lowered(
    cls: type[NamedSignals], method: Callable[..., Any], form: Form, made: Lowered
) -> Callable[..., Any]:
    """Return ``method`` of ``cls`` as a function of ``form.arguments``.

    Methods with the same ``made`` share their helpers.

    Raises :class:`ModelError`, with file and line, for a name that is not a field of the class, for
    a write to what the method only reads, and for a use of ``self`` that has no meaning here.
    """
    bound = _bindings(method, form)
    function: Callable[..., Any] = _Lowering(cls, method, form, bound, made).function
    return function


def _bindings(method: Callable[..., Any], form: Form) -> tuple[tuple[int, str], ...]:
    """Return which positional arguments of a method are ``self`` and the second vector."""
    code = method.__code__
    names = code.co_varnames[: code.co_argcount]
    wanted = 1 + (form.second is not None)
    if len(names) != wanted:
        takes = "(self)" if wanted == 1 else "(self, d)"
        raise ModelError(
            f"{where(method)}: {method.__qualname__} takes ({', '.join(names)}); write {takes}"
        )
    bound = [(0, SELF)]
    if form.second is not None:
        bound.append((1, form.second[0]))
    return tuple(bound)


@dataclass
class _Lowering(ast.NodeTransformer):
    """One function with the names of ``cls`` replaced; :attr:`function` is the result.

    ``bound`` gives the positions of arguments that stand for vectors.  ``made`` has the helpers
    that were lowered before for the same class.
    """

    cls: type[NamedSignals]
    original: Any
    form: Form
    bound: tuple[tuple[int, str], ...]
    made: Lowered
    whole: bool = True
    """Whether the result has all arguments of the form, or only those that it uses."""
    used: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    callers: tuple[Any, ...] = ()
    own: dict[str, Any] = field(default_factory=dict)
    """Helpers and constants of the class, which become variables around the function."""

    def __post_init__(self) -> None:
        original = getattr(self.original, "py_func", self.original)
        if hasattr(original, "__wrapped__"):
            raise ModelError(
                f"{where(original.__wrapped__)}: {original.__qualname__} has a decorator, which "
                "rtsim cannot run in an equation; remove the decorator, or call a function instead"
            )
        self.original = original
        self.outside = Outside(original)
        self.places = self.made.places
        definition = definition_of(original)
        names = argument_names(definition)
        self.stands = {names[i]: what for i, what in self.bound if i < len(names)}
        taken = {i for i, _ in self.bound}
        given = [*definition.args.posonlyargs, *definition.args.args]
        kept = [a for i, a in enumerate(given) if i not in taken]
        if len(original.__defaults__ or ()) > len(kept):
            self.refuse(definition, f"{names[0]} has a default; remove it")
        definition.body = [self.visit(node) for node in definition.body]
        self.arguments = tuple(a for a in self.form.arguments if self.whole or a in self.used)
        definition.args.posonlyargs = []
        definition.args.args = [*map(ast.arg, self.arguments), *kept]
        _at(definition.args, definition)
        cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
        code = code_of(definition, dict.fromkeys((*cells, *self.own)), original)
        function: Any = types.FunctionType(
            code,
            original.__globals__,
            original.__name__,
            original.__defaults__,
            tuple(
                types.CellType(self.own[n]) if n in self.own else cells[n] for n in code.co_freevars
            ),
        )
        function.__kwdefaults__ = original.__kwdefaults__
        function.__module__, function.__doc__ = original.__module__, original.__doc__
        function.__qualname__ = original.__qualname__
        function.definition = definition
        self.function = function

    def refuse(self, node: ast.AST, problem: str) -> NoReturn:
        method = self.original.__qualname__
        raise ModelError(f"{where(self.original, node)}: {method}: {problem}")

    # -- names of fields ---------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, _LEAVES) else super().visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.stands:
            self.generic_visit(node)
            return node
        return self._named(node, node.ctx)

    def _named(self, node: ast.Attribute, ctx: ast.expr_context) -> ast.expr:
        """Return the place of ``self.NAME`` or ``d.NAME``; ``ctx`` is what is done with it."""
        assert isinstance(node.value, ast.Name)
        what, name = self.stands[node.value.id], node.attr
        stored = not isinstance(ctx, ast.Load)
        if what == SELF and name == "t":
            return self._time(node, stored)
        place = self.places.get(name)
        if place is None:
            return self._other(node, stored)
        if place.modes and not stored:
            self.refuse(
                node,
                f"self.{name} is a mode; compare it with ==, != or in, and with one of "
                + ", ".join(map(repr, place.modes)),
            )
        if what == SELF:
            vector = VECTORS[place.role]
            if stored and place.role not in self.form.writes:
                self._refuse_write(node, place)
            if stored:
                self.writes.add(place.role)
            if vector not in self.form.arguments:
                self.refuse(
                    node,
                    f"self.{name} is {article(place.role)}, which {self.form.name} cannot read",
                )
        else:
            assert self.form.second is not None
            vector, role = self.form.second
            if place.role != role:
                means = "derivative" if role == STATE else "residual"
                self.refuse(
                    node,
                    f"{node.value.id}.{name} has no meaning: {name} is {article(place.role)}, and "
                    f"only {article(role)} has a {means}",
                )
        self.used.add(vector)
        return _at(_part(vector, place, node.ctx), node)

    def _refuse_write(self, node: ast.Attribute, place: _Place) -> NoReturn:
        allowed = [n for n, p in self.places.items() if p.role in self.form.writes]
        remedy = f"it may assign {', '.join(allowed)}" if allowed else "it assigns no field"
        if place.role == STATE and self.form.second is not None:
            remedy = f"assign its derivative: {self._second_name()}.{node.attr} = ..."
        self.refuse(
            node,
            f"self.{node.attr} is assigned, but {self.form.name} only reads "
            f"{article(place.role)}; {remedy}",
        )

    def _second_name(self) -> str:
        return next((n for n, what in self.stands.items() if what != SELF), "d")

    def _time(self, node: ast.Attribute, stored: bool) -> ast.expr:
        if stored:
            self.refuse(node, "self.t is the time and cannot be assigned")
        if TIME not in self.form.arguments:
            self.refuse(node, f"{self.form.name} has no time")
        self.used.add(TIME)
        return _at(ast.Name(TIME, ast.Load()), node)

    def _other(self, node: ast.Attribute, stored: bool) -> ast.expr:
        """Return a property or a constant of the class; refuse every other name."""
        assert isinstance(node.value, ast.Name)
        name = node.attr
        if self.stands[node.value.id] != SELF:
            role = STATE if self.form.second is None else self.form.second[1]
            known = [n for n, p in self.places.items() if p.role == role]
            self.refuse(node, str(UnknownName(role, name, known, self.cls.__name__)))
        found = inspect.getattr_static(self.cls, name, None)
        if stored or found is None or name.startswith("__") or hasattr(NamedSignals, name):
            problem = str(UnknownName("field", name, self.places, self.cls.__name__))
            if stored:
                problem += "; declare what a method keeps as a field, such as rtsim.memory()"
            self.refuse(node, problem)
        if isinstance(found, property):
            helper = self._helper(node, found.fget, ((0, SELF),))
            return _at(_call(helper, [], []), node)
        if callable(found) or isinstance(found, (staticmethod, classmethod)):
            self.refuse(node, f"self.{name} is a method; call it: self.{name}()")
        return _at(self._constant(name, found), node)

    def _constant(self, name: str, value: Any) -> ast.expr:
        if isinstance(value, (bool, np.bool_)):
            return ast.Constant(bool(value))
        if isinstance(value, (int, np.integer)):
            return ast.Constant(int(value))
        if isinstance(value, (float, np.floating)):
            return ast.Constant(float(value))
        own = f"_{self.cls.__name__}_{name}"
        self.own[own] = np.asarray(value) if isinstance(value, list) else value
        return ast.Name(own, ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            if node.id in self.stands:
                self.refuse(node, f"{node.id} is assigned; give the variable another name")
            if node.id in self.form.arguments:
                self.refuse(node, f"the name {node.id} is used by rtsim; give it another name")
        if node.id in self.stands:
            self.refuse(
                node,
                f"{node.id} alone has no value here; read {node.id}.NAME, or pass {node.id} to a "
                "function",
            )
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Turn ``self.velocity[0]`` into one element, if the index is a number."""
        value = node.value
        if not (
            isinstance(value, ast.Attribute)
            and isinstance(value.value, ast.Name)
            and value.value.id in self.stands
        ):
            self.generic_visit(node)
            return node
        whole = self._named(value, node.ctx)
        place = self.places.get(value.attr)
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
            at = place.first + int(np.ravel_multi_index(inside, place.shape))
            vector = whole
            while not isinstance(vector, ast.Name):
                vector = _inner(vector)
            new: ast.expr = ast.Subscript(vector, ast.Constant(at), node.ctx)
            return _at(new, node)
        if isinstance(whole, ast.Subscript):
            whole.ctx = ast.Load()
        node.value, node.slice = whole, self.visit(node.slice)
        return node

    # -- statements and calls ----------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        for target in node.targets:
            node.value = self._numbered(target, node.value)
        if any(not self._whole(target) for target in node.targets):
            node.value = self._owned(node.value)
        if len(node.targets) == 1 and isinstance(node.value, (ast.Tuple, ast.List)):
            node.targets = [self._elements(node.targets[0], node.value)]
        self.generic_visit(node)
        return node

    def _whole(self, node: ast.expr) -> bool:
        """Return whether ``node`` is a field, or a part of one, to which values are copied."""
        while isinstance(node, ast.Subscript):
            node = node.value
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in self.stands
        )

    def _owned(self, node: ast.expr) -> ast.expr:
        """Return ``node`` with a copy of each vector field that would get a second name.

        A part of a vector is a view: without a copy, a later change of the field would change the
        other name too.
        """
        if isinstance(node, (ast.Tuple, ast.List)):
            node.elts = [self._owned(e) for e in node.elts]
            return node
        if isinstance(node, ast.IfExp):
            node.body, node.orelse = self._owned(node.body), self._owned(node.orelse)
            return node
        if not self._whole(node):
            return node
        part: ast.expr = node
        indices = 0
        while isinstance(part, ast.Subscript):
            parts = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            indices += sum(not isinstance(one, ast.Slice) for one in parts)
            part = part.value
        assert isinstance(part, ast.Attribute)
        place = self.places.get(part.attr)
        if place is None or indices >= len(place.shape):
            return node
        copied = ast.Call(ast.Attribute(node, "copy", ast.Load()), [], [])
        for one in (copied, copied.func):
            _at(one, node)
        return copied

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        node.value = self._owned(node.value)
        self.generic_visit(node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if self._mode(node.target) is not None:
            self.refuse(node, f"{ast.unparse(node.target)} is a mode; assign one of its names")
        self.generic_visit(node)
        return node

    def _numbered(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """Return ``value`` with the numbers of the modes that are assigned to ``target``."""
        several = (ast.Tuple, ast.List)
        if isinstance(target, several) and isinstance(value, several):
            if len(target.elts) == len(value.elts):
                pairs = zip(target.elts, value.elts, strict=True)
                value.elts = [self._numbered(*pair) for pair in pairs]
            return value
        mode = self._mode(target)
        return value if mode is None else self._number(value, *mode)

    def _elements(self, target: ast.expr, value: ast.Tuple | ast.List) -> ast.expr:
        """Return ``self.velocity`` as its elements, to which a tuple is assigned one by one."""
        if not (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id in self.stands
            and (place := self.places.get(target.attr)) is not None
        ):
            return target
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
            _at(part, target)
        return made

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return _at(ast.Pass(), node)
        return self.visit_Assign(_at(ast.Assign([node.target], node.value), node))

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is not None and self.form.second is not None:
            self.refuse(
                node,
                f"{self.form.name} returns a value, which nothing reads; assign "
                f"{self._second_name()}.NAME for each {self.form.second[1]} instead",
            )
        if node.value is not None:
            node.value = self._owned(node.value)
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = [node.left, *node.comparators]
        mode = next((m for side in sides if (m := self._mode(side))), None)
        if mode is None:
            self.generic_visit(node)
            return node
        if len(sides) != 2 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
            self.refuse(node, f"a mode is compared with ==, != or in: {ast.unparse(node)}")
        if isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            node.left, *node.comparators = [self._number(side, *mode) for side in sides]
            return node
        names = sides[1]
        texts = self._text_of(names)
        if isinstance(names, (ast.Tuple, ast.List, ast.Set)):
            texts = tuple(self._text_of(one) for one in names.elts)
        if not isinstance(texts, (tuple, list, set, frozenset)) or self._mode(sides[0]) is None:
            self.refuse(node, f"write the names of the modes here: {ast.unparse(node)}")
        equal: list[ast.expr] = [
            ast.Compare(
                self._number(deepcopy(sides[0]), *mode),
                [ast.Eq()],
                [self._number(_at(ast.Constant(text), node), *mode)],
            )
            for text in texts
        ]
        found: ast.expr = ast.BoolOp(ast.Or(), equal) if len(equal) > 1 else equal[0]
        if isinstance(node.ops[0], ast.NotIn):
            found = ast.UnaryOp(ast.Not(), found)
        return _at(found, node)

    def _text_of(self, node: ast.expr) -> Any:
        """Return the value of a constant, or of a name outside the method; None for others."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Attribute) and self._is_self(node.value):
            return inspect.getattr_static(self.cls, node.attr, None)
        if isinstance(node, ast.Name) and node.id in self.original.__code__.co_varnames:
            return None
        found = self._read(node)
        self.made.read.append((self.original, node, found))
        return found

    def _read(self, node: ast.expr) -> Any:
        """Return the value of a dotted name outside the method; None if it has none."""
        try:
            return value_of(node, self.outside)
        except (AttributeError, KeyError):
            return None

    def _mode(self, node: ast.expr) -> tuple[str, _Place] | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            place = self.places.get(node.attr)
            if node.value.id in self.stands and place is not None and place.modes:
                return node.attr, place
        return None

    def _number(self, node: ast.expr, name: str, place: _Place) -> ast.expr:
        """Return the number of a mode that is written as text."""
        if isinstance(node, ast.IfExp):
            node.body = self._number(node.body, name, place)
            node.orelse = self._number(node.orelse, name, place)
            node.test = self.visit(node.test)
            return node
        other = self._mode(node)
        if other is not None:
            if other[1].modes != place.modes:
                self.refuse(node, f"{other[0]} and {name} are modes with different names")
            assert isinstance(node, ast.Attribute)
            self.used.add(VECTORS[MEMORY])
            return _at(_part(VECTORS[MEMORY], other[1], ast.Load()), node)
        text = self._text_of(node)
        if not isinstance(text, str):
            self.refuse(
                node,
                f"self.{name} is a mode: write one of {', '.join(map(repr, place.modes))}, not "
                f"{ast.unparse(node)}",
            )
        if text not in place.modes:
            self.refuse(node, str(UnknownName("mode", text, place.modes, f"self.{name}")))
        return _at(ast.Constant(float(place.modes.index(text))), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function, bound = node.func, []
        stands = [
            (i, self.stands[a.id])
            for i, a in enumerate(node.args)
            if isinstance(a, ast.Name) and a.id in self.stands
        ]
        for keyword in node.keywords:
            if isinstance(keyword.value, ast.Name) and keyword.value.id in self.stands:
                self.refuse(node, f"pass {keyword.value.id} by position, not as {keyword.arg}=")
        found, is_method = self._callee(function)
        if is_method:
            bound = [(0, SELF), *((i + 1, what) for i, what in stands)]
        else:
            bound = stands
        if not bound:
            read_helper(found)
            if isinstance(function, ast.Attribute) and self._is_self(function.value):
                helper = self._constant(function.attr, compiled(found))  # a static method
                node.func = _at(helper, node)
            self.generic_visit(node)
            return node
        if found is None:
            self.refuse(node, f"{ast.unparse(function)} cannot be found, so it cannot take self")
        if not is_method:
            self.made.read.append((self.original, function, found))
        helper = self._helper(node, found, tuple(bound))
        taken = {i for i, _ in stands}
        rest = [self.visit(a) for i, a in enumerate(node.args) if i not in taken]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return _at(_call(helper, rest, node.keywords), node)

    def _callee(self, node: ast.expr) -> tuple[Any, bool]:
        """Return the function that ``node`` names, and whether it is a method of the class."""
        if isinstance(node, ast.Attribute):
            if self._is_self(node.value):
                found = inspect.getattr_static(self.cls, node.attr, None)
                if found is None or node.attr in self.places:
                    self.refuse(
                        node,
                        str(UnknownName("method", node.attr, self._methods(), self.cls.__name__)),
                    )
                if isinstance(found, staticmethod):
                    return found.__func__, False
                return found, True
            if isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()":
                return self._above(node), True
        name: ast.expr = node
        while isinstance(name, ast.Attribute):
            name = name.value
        if isinstance(name, ast.Name) and name.id in self.original.__code__.co_varnames:
            return None, False  # a local variable
        return self._read(node), False

    def _is_self(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.stands.get(node.id) == SELF

    def _methods(self) -> list[str]:
        return [
            name
            for base in self.cls.__mro__
            for name, value in vars(base).items()
            if isinstance(value, types.FunctionType) and not name.startswith("_")
        ]

    def _above(self, node: ast.Attribute) -> Any:
        """Return the method of the next class after the one that has this method."""
        order = self.cls.__mro__
        own = next((i for i, c in enumerate(order) if _has(c, self.original)), 0)
        for base in order[own + 1 :]:
            if node.attr in vars(base):
                return vars(base)[node.attr]
        return self.refuse(node, f"no base class of {self.cls.__name__} has {node.attr}")

    def _helper(self, node: ast.AST, function: Any, bound: tuple[tuple[int, str], ...]) -> _Helper:
        """Return ``function`` as a function of the vectors that it uses."""
        plain = getattr(function, "py_func", function)
        plain = getattr(plain, "__func__", plain)
        if not isinstance(plain, types.FunctionType):
            self.refuse(node, f"{getattr(plain, '__name__', plain)} is not a Python function")
        known = self.made.helpers.setdefault((plain, bound), [])
        helper = next((h for h in known if h.fits(self.form)), None)
        if helper is None:
            helper = self._lower(node, plain, bound)
            known.append(helper)
        self.own[helper.name] = helper.function
        self.used.update(helper.arguments)
        self.writes.update(helper.writes)
        return helper

    def _lower(
        self, node: ast.AST, plain: types.FunctionType, bound: tuple[tuple[int, str], ...]
    ) -> _Helper:
        if plain in self.callers:
            self.refuse(node, f"{plain.__name__} calls itself, which compiled code cannot do here")
        name = plain.__qualname__.replace(".", "_").replace("<locals>", "")
        name = f"_{name}_{self.made.count}"
        self.made.count += 1
        inner = _Lowering(
            self.cls, plain, self._inner_form(bound), bound, self.made, whole=False,
            callers=(*self.callers, plain),
        )  # fmt: skip
        inner.function.__name__ = plain.__name__
        return _Helper(name, compiled(inner.function), inner.arguments, frozenset(inner.writes))

    def _inner_form(self, bound: tuple[tuple[int, str], ...]) -> Form:
        if any(what != SELF for _, what in bound) or self.form.second is None:
            return self.form
        return Form(self.form.arguments, self.form.writes, None, self.form.name)


def _has(cls: type, function: Any) -> bool:
    return any(
        getattr(getattr(value, "level", value), "__code__", None) is function.__code__
        or function in getattr(value, "functions", ())
        for value in vars(cls).values()
    )


def _call(helper: _Helper, more: list[ast.expr], keywords: list[ast.keyword]) -> ast.Call:
    vectors: list[ast.expr] = [ast.Name(name, ast.Load()) for name in helper.arguments]
    return ast.Call(ast.Name(helper.name, ast.Load()), [*vectors, *more], keywords)


def _constant_index(node: ast.expr) -> tuple[int, ...] | None:
    """Return an index, or several, that are written as numbers."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    out = []
    for part in parts:
        negative = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub)
        number = part.operand if negative else part  # type: ignore[attr-defined]
        if not (isinstance(number, ast.Constant) and type(number.value) is int):
            return None
        out.append(-number.value if negative else number.value)
    return tuple(out)


N = TypeVar("N", bound=ast.AST)
_LEAVES = (ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
"""Nodes that name nothing."""


def _at(new: N, old: Any) -> N:
    """Return ``new``, in which nodes without a place have that of ``old``."""
    waiting: list[ast.AST] = [new]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _LEAVES[1:]) or hasattr(node, "lineno"):
            continue
        if "lineno" in node._attributes:
            node.lineno, node.col_offset = old.lineno, old.col_offset  # type: ignore[attr-defined]
            node.end_lineno = old.end_lineno  # type: ignore[attr-defined]
            node.end_col_offset = old.end_col_offset  # type: ignore[attr-defined]
        waiting.extend(ast.iter_child_nodes(node))
    return new


def _inner(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Call):
        node = node.func
    assert isinstance(node, (ast.Attribute, ast.Subscript))
    return node.value


def _part(vector: str, place: _Place, ctx: ast.expr_context) -> ast.expr:
    """Return the expression for a whole field: one element, a slice, or a slice as a matrix."""
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


def element_of_call(function: Any) -> tuple[Any, str, int] | None:
    """Return helper, arguments and index of a lowered ``return self.METHOD()[index]``, or None."""
    body = function.definition.body[ast.get_docstring(function.definition) is not None :]
    match body:
        case [
            ast.Return(ast.Subscript(ast.Call(ast.Name(name), given, []), ast.Constant(int(index))))
        ] if name in function.__code__.co_freevars and all(isinstance(a, ast.Name) for a in given):
            at = function.__code__.co_freevars.index(name)
            return function.__closure__[at].cell_contents, ", ".join(a.id for a in given), index
    return None


def calling(arguments: str, lines: Sequence[str], functions: Sequence[Any]) -> Any:
    """Return a function of ``arguments`` whose ``lines`` call ``functions`` as _f0, _f1, ..."""
    space: dict[str, Any] = {
        f"_f{k}": one if hasattr(one, "py_func") else compiled(one)
        for k, one in enumerate(functions)
    }
    space["__name__"] = functions[0].__module__
    text = f"def events{arguments}:\n" + "\n".join(lines)
    exec(text, space)  # text of rtsim only
    made: Any = space["events"]
    made.definition = ast.parse(text).body[0]
    return made
