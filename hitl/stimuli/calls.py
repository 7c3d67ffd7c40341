"""Count the branches of a helper function separately for each chain of calls.

A helper such as ``limited(x, low, high)`` is called at many places. One call may reach both limits,
and another call none. A branch of a function therefore counts once for each chain of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hitl.stimuli.decisions import brief, functions, literal, name_of, text_of, walk

if TYPE_CHECKING:
    from hitl.stimuli.decisions import Node

Key = tuple[Path, int, str]
"""File, line and name of a function."""
Places = Callable[["Node"], tuple[Path, int]]
"""A function that returns file and line of a node."""
MOST_CHAINS = 32
"""Greatest number of chains for which the branches of a function are counted separately."""


@dataclass(frozen=True)
class Chain:
    """A chain of calls that leads to a function."""

    words: str = ""
    """Text such as ``limited(x, 0, 9) at motor.c:30``; "" if chains count together."""
    fixed: frozenset[int] = frozenset()
    """Positions of the operands of the last call that are literals."""


ANY: tuple[Chain, ...] = (Chain(),)
"""The chains of a function whose calls are counted together."""


@dataclass(frozen=True)
class _Call:
    number: int
    name: str
    words: str
    fixed: frozenset[int]
    known: Key | None
    """The called function, if it is defined in the same file."""


@dataclass
class _Function:
    """A function in the user's text."""

    simple: bool
    """False if its calls cannot be counted separately, as for a method or a template."""
    static: bool
    calls: list[_Call] = field(default_factory=list)


class Calls:
    """All function calls in the sources of a controller."""

    def __init__(self) -> None:
        self._functions: dict[Key, _Function] = {}
        self._elsewhere: set[str] = set()
        """Names that are used without a call, or called by code without probes."""
        self._chains: dict[Key, tuple[Chain, ...]] = {}
        self._offsets: dict[tuple[Key, int], int] = {}
        self.merged: set[str] = set()
        """Functions with more chains than :data:`MOST_CHAINS`, whose calls are counted together."""
        self._declared: set[str] = set()
        """Names of functions that the user's files declare."""

    def read(self, root: Node, files: Collection[Path], place: Places, text: bytes) -> None:
        mine: dict[str, Key] = {}
        every = [(one, (*place(one), name_of(one))) for one in functions(root)]
        for _, key in every:
            if key[0] in files:
                mine[key[2]] = key
        for node, key in every:
            if key[0] not in files:
                self._elsewhere.update(text_of(call) for _, call in _called(node))
            elif key not in self._functions:
                self._functions[key] = self._function(node, mine, place, text)
        for node in root.children:
            if node.type == "declaration":
                self._elsewhere.update(_named(node))
                if place(node)[0] in files:
                    self._declared.update(_declared(node))

    def _function(self, node: Node, mine: dict[str, Key], place: Places, text: bytes) -> _Function:
        kinds = [text_of(c) for c in node.children if c.type == "storage_class_specifier"]
        out = _Function(_simple(node), "static" in kinds)
        direct, local = set(), _local(node)
        for number, name in _called(node):
            direct.add(name.id)
            if text_of(name) in local:
                continue
            call = name.parent
            assert call is not None
            operands = operands_of_call(call)
            if operands is None:
                self._elsewhere.add(text_of(name))
                continue
            file, line = place(call)
            words = f"{brief(text, call)} at {file.name}:{line}"
            fixed = frozenset(k for k, operand in enumerate(operands) if literal(operand))
            known = mine.get(text_of(name))
            out.calls.append(_Call(number, text_of(name), words, fixed, known))
        for one in walk(node):
            if one.type == "identifier" and one.id not in direct:
                self._elsewhere.update({text_of(one)} - local)
        return out

    def _called_at(self, key: Key) -> Iterator[tuple[Key, _Call]]:
        static = self._functions[key].static
        for caller, function in sorted(self._functions.items(), key=lambda item: item[0]):
            for call in function.calls:
                if call.known == key or (call.known is None and call.name == key[2] and not static):
                    yield caller, call

    def chains(self, key: Key) -> tuple[Chain, ...]:
        """Return the chains of calls to a function, or ``ANY`` if all calls count together."""
        if key in self._chains:
            return self._chains[key]
        function = self._functions.get(key)
        if function is None or not function.simple or self._recursive(key):
            return self._chains.setdefault(key, ANY)
        out = [Chain()] if key[2] in self._elsewhere else []
        offsets = {}
        for caller, call in self._called_at(key):
            offsets[caller, call.number] = len(out)
            for above in self.chains(caller):
                words = f"{call.words} in {above.words}" if above.words else call.words
                out.append(Chain(words, call.fixed))
        if len(out) > MOST_CHAINS:
            self.merged.add(f"{key[2]} at {key[0].name}:{key[1]}")
        if not 1 < len(out) <= MOST_CHAINS:
            out, offsets = list(ANY), {}
        self._offsets |= offsets
        self._chains[key] = tuple(out)
        return self._chains[key]

    def _recursive(self, key: Key) -> bool:
        seen: set[Key] = set()
        left = [key]
        while left:
            for caller, _ in self._called_at(left.pop()):
                if caller == key:
                    return True
                if caller not in seen:
                    seen.add(caller)
                    left.append(caller)
        return False

    @property
    def undefined(self) -> list[str]:
        """Calls of functions that are declared but not defined by the user."""
        defined = {name for _, _, name in self._functions}
        return [
            call.words
            for _, function in sorted(self._functions.items(), key=lambda item: item[0])
            for call in function.calls
            if call.name in self._declared - defined
        ]

    def offset(self, caller: Key, number: int) -> int | None:
        """Return the index of the first chain that ends with this call."""
        for key in self._functions:
            self.chains(key)
        return self._offsets.get((caller, number))


def sites(function: Node) -> Iterator[tuple[int, Node]]:
    """Yield each call of a named function with its number."""
    for number, name in _called(function):
        if name.parent is not None:
            yield number, name.parent


def operands_of_call(call: Node) -> list[Node] | None:
    """Return the operands of a call, or ``None`` if their evaluation has side effects."""
    given = call.child_by_field_name("arguments")
    if given is None or given.has_error:
        return None
    out = [one for one in given.named_children if one.type != "comment"]
    strange = ("initializer_list", "compound_statement", "type_descriptor", "lambda_expression")
    return None if any(one.type in strange for one in out) else out


def _called(function: Node) -> Iterator[tuple[int, Node]]:
    number = 0
    for node in walk(function):
        if node.type == "call_expression":
            name = node.child_by_field_name("function")
            if name is not None and name.type == "identifier":
                yield number, name
                number += 1


def _named(declaration: Node) -> Iterator[str]:
    for part in declaration.children:
        if part.type == "init_declarator":
            value = part.child_by_field_name("value")
            if value is not None:
                yield from (text_of(one) for one in walk(value) if one.type == "identifier")


def parameters(function: Node) -> list[str]:
    """Return the names of the parameters, or "" for a parameter that the function assigns."""
    declarator = function.child_by_field_name("declarator")
    given = None if declarator is None else declarator.child_by_field_name("parameters")
    if given is None:
        return []
    changed: set[str] = set()
    for node in walk(function):
        if node.type in ("assignment_expression", "update_expression", "pointer_expression"):
            target = node.child_by_field_name("left") or node.child_by_field_name("argument")
            if target is not None:
                changed.update(text_of(one) for one in walk(target) if one.type == "identifier")
    names = [
        one.child_by_field_name("declarator")
        for one in given.named_children
        if one.type == "parameter_declaration"
    ]
    plain = [text_of(n) if n is not None and n.type == "identifier" else "" for n in names]
    return ["" if name in changed else name for name in plain]


_DECLARING = {
    "init_declarator", "declaration", "parameter_declaration", "pointer_declarator",
    "array_declarator", "reference_declarator",
}  # fmt: skip


def _local(function: Node) -> set[str]:
    out, stack = set(), list(function.children)
    while stack:
        node = stack.pop()
        above = node.parent
        if above is None or above.type not in _DECLARING or node.type != "identifier":
            stack.extend(node.children)
        elif node in above.children_by_field_name("declarator"):
            out.add(text_of(node))
    return out


def _declared(declaration: Node) -> Iterator[str]:
    for part in declaration.children:
        while part.type == "pointer_declarator":
            part = part.child_by_field_name("declarator") or part.children[0]
        name = part.child_by_field_name("declarator")
        if part.type == "function_declarator" and name is not None and name.type == "identifier":
            yield text_of(name)


def _simple(function: Node) -> bool:
    above = function.parent
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type == "pointer_declarator":
        declarator = declarator.child_by_field_name("declarator")
    if above is None or above.type != "translation_unit" or declarator is None:
        return False
    if declarator.type != "function_declarator":
        return False
    inner, given = (declarator.child_by_field_name(n) for n in ("declarator", "parameters"))
    if inner is None or inner.type != "identifier" or given is None:
        return False
    if any(one.type == "variadic_parameter" or one.type == "..." for one in given.children):
        return False
    return not any(one.type == "lambda_expression" for one in walk(function))
