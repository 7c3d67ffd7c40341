"""Translate methods that use fields into functions of vectors.

A scalar field, such as ``self.speed``, becomes an element of a vector.  A vector field, such as
``self.attitude``, becomes a slice of a vector. Helper methods, properties and functions that
receive ``self`` are translated too. The results are ordinary model functions (docs/decisions/200).
"""

from __future__ import annotations

import ast
import inspect
import types
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from rtsim.core.errors import ModelError, UnknownName
from rtsim.equations.compiling import like_its_caller
from rtsim.equations.field_names import FieldNames, Place, article, part
from rtsim.equations.reading_functions import (
    CHANGING,
    KEEPING,
    KEPT,
    changes_argument,
    check_repeatable,
    unrepeatable,
)
from rtsim.equations.rewriting import (
    Outside,
    argument_names,
    at,
    definition_of,
    generated_name,
    read_helper,
    rebuilt,
    value_of,
    where,
)
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
"""Argument of a lowered function that holds the fields of each role."""
SELF = "self"


@dataclass(frozen=True)
class Form:
    """The arguments of a translated method, and the fields that it may assign.

    The second argument of a method stands for derivatives or residuals. ``second`` contains the
    name of this vector and the role of its fields, such as ``"state"``.
    """

    arguments: tuple[str, ...]
    writes: frozenset[str] = frozenset()
    second: tuple[str, str] | None = None
    name: str = "a method"


def places(cls: Any) -> dict[str, Place]:
    """Return the positions of the fields of ``cls`` in the vectors."""
    layouts = {role: cls.signals(role) for role in VECTORS}
    out = {}
    for name, one in cls.fields.items():
        at = layouts[one.role].slice(one.signal.name).start
        at += layouts[INPUT].size if one.role == DELAYED else 0
        out[name] = Place(one.role, at, one.signal.shape, one.modes)
    return out


@dataclass(frozen=True)
class _Helper:
    name: str
    function: Any
    arguments: tuple[str, ...]
    writes: frozenset[str]

    def fits(self, form: Form) -> bool:
        return form.writes >= self.writes and set(form.arguments) >= set(self.arguments)


class Lowered:
    """Translated helper functions of a class, and the outside names that they read."""

    def __init__(self, cls: type[NamedSignals]) -> None:
        self.places = places(cls)
        self.helpers: dict[tuple[Any, tuple[tuple[int, str], ...]], list[_Helper]] = {}
        self.count = 0
        self.read: list[tuple[Any, ast.expr, Any]] = []
        """Functions, dotted names in them, and the values that the names had."""
        self.constants: list[tuple[Any, Any]] = []
        """Mutable constants of the class, and copies of them."""
        self.repeatable: set[Any] = set()
        """Functions whose results depend only on their arguments, according to the check."""

    def current(self) -> bool:
        """Return whether the outside names and constants are unchanged."""
        for function, node, value in self.read:
            try:
                if value_of(node, Outside(function)) is not value:
                    return False
            except (AttributeError, KeyError):
                if value is not None:
                    return False
        return all(value == before for value, before in self.constants)


T = TypeVar("T")


def made_once(cls: Any, make: Callable[[Any, Lowered], T]) -> T:
    """Return the result of ``make``, or its earlier result if the class is unchanged."""
    known = vars(cls).get("_made")
    if known is not None and _unchanged(cls, known[0]) and known[1].current():
        out: T = known[2]
        return out
    helpers = Lowered(cls)
    out = make(cls, helpers)
    cls._made = ([(base, dict(vars(base))) for base in cls.__mro__], helpers, out)
    return out


def _unchanged(cls: type, known: list[tuple[type, dict[str, Any]]]) -> bool:
    return len(known) == len(cls.__mro__) and all(
        base is there
        and (own := vars(base)).keys() == before.keys()
        and all(own[name] is value for name, value in before.items() if name != "_made")
        for base, (there, before) in zip(cls.__mro__, known, strict=True)
    )


def lowered(
    cls: type[NamedSignals], method: Callable[..., Any], form: Form, made: Lowered
) -> Callable[..., Any]:
    """Translate a method into a function of vectors with the arguments in ``form``.

    ``made`` stores translated helper functions, which all methods of a class share.

    Raises:
        ModelError: The method uses a name that is not a field, writes a value that it may only
            read, or uses ``self`` in an unsupported way.  The message contains file and line.
    """
    bound = _bindings(method, form)
    function: Callable[..., Any] = _Lowering(cls, method, form, bound, made).function
    check_repeatable(function, method.__qualname__, made.repeatable)
    return function


def _bindings(method: Callable[..., Any], form: Form) -> tuple[tuple[int, str], ...]:
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


class _Lowering(FieldNames):
    def __init__(
        self,
        cls: type[NamedSignals],
        method: Any,
        form: Form,
        bound: tuple[tuple[int, str], ...],
        made: Lowered,
        whole: bool = True,
        callers: tuple[Any, ...] = (),
    ) -> None:
        original = getattr(method, "py_func", method)
        if hasattr(original, "__wrapped__"):
            raise ModelError(
                f"{where(original.__wrapped__)}: {original.__qualname__} has a decorator, which "
                "rtsim cannot run in an equation; remove the decorator, or call a function instead"
            )
        super().__init__(original, original.__qualname__)
        self.cls, self.form, self.made, self.callers = cls, form, made, callers
        self.used: set[str] = set()
        self.writes: set[str] = set()
        self.inside = 0
        """Number of nested functions around the present statement."""
        self.places = made.places
        definition = definition_of(original)
        names = argument_names(definition)
        self.meanings = {names[i]: what for i, what in bound if i < len(names)}
        taken = {i for i, _ in bound}
        given = [*definition.args.posonlyargs, *definition.args.args]
        kept = [self.visit(a) for i, a in enumerate(given) if i not in taken]
        if len(original.__defaults__ or ()) > len(kept):
            self.refuse(definition, f"{names[0]} has a default; remove it")
        definition.body = [self.visit(node) for node in definition.body]
        self.arguments = tuple(a for a in form.arguments if whole or a in self.used)
        definition.args.posonlyargs = []
        definition.args.args = [*map(ast.arg, self.arguments), *kept]
        self.function = rebuilt(original, definition, self.own, original.__defaults__)

    def stands(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self.meanings

    def place(self, node: ast.Attribute) -> Place | None:
        return self.places.get(node.attr)

    # -- names of fields ---------------------------------------------------------------------------

    def named(self, node: ast.Attribute, ctx: ast.expr_context) -> ast.expr:
        assert isinstance(node.value, ast.Name)
        what, name = self.meanings[node.value.id], node.attr
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
        return at(part(vector, place, node.ctx), node)

    def _refuse_write(self, node: ast.Attribute, place: Place) -> NoReturn:
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
        return next((n for n, what in self.meanings.items() if what != SELF), "d")

    def _time(self, node: ast.Attribute, stored: bool) -> ast.expr:
        if stored:
            self.refuse(node, "self.t is the time and cannot be assigned")
        if TIME not in self.form.arguments:
            self.refuse(node, f"{self.form.name} has no time")
        self.used.add(TIME)
        return at(ast.Name(TIME, ast.Load()), node)

    def _other(self, node: ast.Attribute, stored: bool) -> ast.expr:
        assert isinstance(node.value, ast.Name)
        name = node.attr
        if self.meanings[node.value.id] != SELF:
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
            return at(_call(helper, [], []), node)
        if callable(found) or isinstance(found, (staticmethod, classmethod)):
            self.refuse(node, f"self.{name} is a method; call it: self.{name}()")
        return at(self._constant(node, name, found), node)

    def _constant(self, node: ast.AST, name: str, value: Any) -> ast.expr:
        if isinstance(value, (bool, np.bool_)):
            return ast.Constant(bool(value))
        if isinstance(value, (int, np.integer)):
            return ast.Constant(int(value))
        if isinstance(value, (float, np.floating)):
            return ast.Constant(float(value))
        own = generated_name(f"{self.cls.__name__}.{name}")
        if unrepeatable(value):
            self.refuse(node, f"self.{name} differs from run to run; {unrepeatable(value)}")
        if isinstance(value, (deque, bytearray)) or hasattr(value, "__next__"):
            kind = type(value).__name__
            self.refuse(
                node,
                f"self.{name} is a {kind}, which keeps its values for the next run; keep them in a "
                "field: rtsim.memory()",
            )
        if isinstance(value, (list, set, dict)):
            self.made.constants.append((value, deepcopy(value)))
        if isinstance(value, dict):
            value = types.MappingProxyType(value)
        elif isinstance(value, set):
            value = frozenset(value)
        elif isinstance(value, (list, np.ndarray)):
            value = np.array(value) if isinstance(value, list) else value.view()
            value.flags.writeable = False
        self.own[own] = value
        return ast.Name(own, ast.Load())

    def _check_constant(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Attribute):
            return
        owner = node.value
        if not self._is_self(owner.value) or owner.attr in self.places:
            return
        value = inspect.getattr_static(self.cls, owner.attr, None)
        method = getattr(type(value), node.attr, None)
        changes = isinstance(value, KEPT) and node.attr in KEEPING
        if changes or (isinstance(value, np.ndarray) and node.attr in CHANGING):
            changes = True
        elif isinstance(method, types.FunctionType):
            changes = changes_argument(method, 0)
        if changes:
            self.refuse(
                node,
                f"{ast.unparse(node)} changes a constant of the class, which the next run would "
                "find changed; keep the values in a field: rtsim.memory()",
            )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) and node.id in self.meanings:
            self.refuse(node, f"{node.id} is assigned; give the variable another name")
        self._check_free(node, node.id)
        if node.id in self.meanings:
            self.refuse(
                node,
                f"{node.id} alone has no value here; read {node.id}.NAME, or pass {node.id} to a "
                "function",
            )
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self._check_free(node, node.arg)
        return node

    def _check_free(self, node: ast.AST, name: str) -> None:
        if name in self.form.arguments:
            self.refuse(node, f"the name {name} is used by rtsim; give it another name")

    # -- statements and calls ----------------------------------------------------------------------

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if self._mode(node.target) is not None:
            self.refuse(node, f"{ast.unparse(node.target)} is a mode; assign one of its names")
        return super().visit_AugAssign(node)

    def assigned(self, target: ast.expr, value: ast.expr) -> ast.expr:
        several = (ast.Tuple, ast.List)
        if isinstance(target, several) and isinstance(value, several):
            if len(target.elts) == len(value.elts):
                pairs = zip(target.elts, value.elts, strict=True)
                value.elts = [self.assigned(*pair) for pair in pairs]
            return value
        mode = self._mode(target)
        return value if mode is None else self._number(value, *mode)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        self.inside += 1
        self.generic_visit(node)
        self.inside -= 1
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is not None and self.form.second is not None and not self.inside:
            self.refuse(
                node,
                f"{self.form.name} returns a value, which nothing reads; assign "
                f"{self._second_name()}.NAME for each {self.form.second[1]} instead",
            )
        return super().visit_Return(node)

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
                [self._number(at(ast.Constant(text), node), *mode)],
            )
            for text in texts
        ]
        found: ast.expr = ast.BoolOp(ast.Or(), equal) if len(equal) > 1 else equal[0]
        if isinstance(node.ops[0], ast.NotIn):
            found = ast.UnaryOp(ast.Not(), found)
        return at(found, node)

    def _text_of(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Attribute) and self._is_self(node.value):
            return inspect.getattr_static(self.cls, node.attr, None)
        if isinstance(node, ast.Name) and node.id in self.original.__code__.co_varnames:
            return None
        found = self.read(node)
        self.made.read.append((self.original, node, found))
        return found

    def _mode(self, node: ast.expr) -> tuple[str, Place] | None:
        place = self.field(node)
        if place is None or not place.modes:
            return None
        assert isinstance(node, ast.Attribute)
        return node.attr, place

    def _number(self, node: ast.expr, name: str, place: Place) -> ast.expr:
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
            return at(part(VECTORS[MEMORY], other[1], ast.Load()), node)
        text = self._text_of(node)
        if not isinstance(text, str):
            self.refuse(
                node,
                f"self.{name} is a mode: write one of {', '.join(map(repr, place.modes))}, not "
                f"{ast.unparse(node)}",
            )
        if text not in place.modes:
            self.refuse(node, str(UnknownName("mode", text, place.modes, f"self.{name}")))
        return at(ast.Constant(float(place.modes.index(text))), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function, bound = node.func, []
        stands = [
            (i, self.meanings[a.id])
            for i, a in enumerate(node.args)
            if isinstance(a, ast.Name) and a.id in self.meanings
        ]
        for keyword in node.keywords:
            if isinstance(keyword.value, ast.Name) and keyword.value.id in self.meanings:
                self.refuse(node, f"pass {keyword.value.id} by position, not as {keyword.arg}=")
        self._check_constant(function)
        found, is_method = self._callee(function)
        self.check_changes(node, found, int(is_method))
        if is_method:
            bound = [(0, SELF), *((i + 1, what) for i, what in stands)]
        else:
            bound = stands
        if not bound:
            read_helper(found)
            if isinstance(function, ast.Attribute) and self._is_self(function.value):
                static = self._constant(node, function.attr, like_its_caller(found))
                node.func = at(static, node)
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
        return at(_call(helper, rest, node.keywords), node)

    def _callee(self, node: ast.expr) -> tuple[Any, bool]:
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
        return self.called(node), False

    def _is_self(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.meanings.get(node.id) == SELF

    def _methods(self) -> list[str]:
        return [
            name
            for base in self.cls.__mro__
            for name, value in vars(base).items()
            if isinstance(value, types.FunctionType) and not name.startswith("_")
        ]

    def _above(self, node: ast.Attribute) -> Any:
        order = self.cls.__mro__
        own = next((i for i, c in enumerate(order) if _has(c, self.original)), 0)
        for base in order[own + 1 :]:
            if node.attr in vars(base):
                return vars(base)[node.attr]
        return self.refuse(node, f"no base class of {self.cls.__name__} has {node.attr}")

    def _helper(self, node: ast.AST, function: Any, bound: tuple[tuple[int, str], ...]) -> _Helper:
        plain = getattr(function, "py_func", function)
        plain = getattr(plain, "__func__", plain)
        if not isinstance(plain, types.FunctionType):
            self.refuse(node, f"{getattr(plain, '__name__', plain)} is not a Python function")
        known = self.made.helpers.setdefault((plain, bound), [])
        helper = next((h for h in known if h.fits(self.form)), None)
        if helper is None:
            helper = self._lower(node, plain, bound, function)
            known.append(helper)
        self.own[helper.name] = helper.function
        self.used.update(helper.arguments)
        self.writes.update(helper.writes)
        return helper

    def _lower(
        self,
        node: ast.AST,
        plain: types.FunctionType,
        bound: tuple[tuple[int, str], ...],
        given: Any,
    ) -> _Helper:
        if plain in self.callers:
            self.refuse(node, f"{plain.__name__} calls itself, which compiled code cannot do here")
        name = generated_name(f"{plain.__qualname__} {self.made.count}")
        self.made.count += 1
        inner = _Lowering(
            self.cls, plain, self._inner_form(bound), bound, self.made, whole=False,
            callers=(*self.callers, plain),
        )  # fmt: skip
        inner.function.__name__ = plain.__name__
        function = like_its_caller(inner.function, given)
        return _Helper(name, function, inner.arguments, frozenset(inner.writes))

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


def element_of_call(function: Any) -> tuple[Any, str, int] | None:
    """Return the parts of a translated expression ``self.METHOD()[index]``.

    The result is ``None`` if the function returns anything else.
    """
    body = function.definition.body[ast.get_docstring(function.definition) is not None :]
    match body:
        case [
            ast.Return(ast.Subscript(ast.Call(ast.Name(name), given, []), ast.Constant(int(index))))
        ] if name in function.__code__.co_freevars and all(isinstance(a, ast.Name) for a in given):
            cell = function.__code__.co_freevars.index(name)
            return (
                function.__closure__[cell].cell_contents,
                ", ".join(map(ast.unparse, given)),
                index,
            )
    return None
