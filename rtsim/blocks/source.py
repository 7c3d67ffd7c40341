"""Source text of generated functions.

A long function takes disproportionately long to compile, so generated functions are split into
short ones.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rtsim.core.cache import cache_folder
from rtsim.core.errors import ModelError
from rtsim.equations.addresses import scratch
from rtsim.equations.compiling import compiled
from rtsim.equations.source_hash import source_hash

LINES = 60
_SET = re.compile(r"\s*([A-Za-z_]\w*) = ")
_NAME = re.compile(r"[A-Za-z_]\w*")


def function(name: str, arguments: str, doc: str, items: Sequence[Sequence[str]]) -> str:
    """Return the source text of the function ``name``, whose body is the lines in ``items``.

    A long function is split into several functions, which pass numbers to each other in the vector
    ``w``. All lines of one entry of ``items`` stay in one function.
    """
    pieces = _pieces(items)
    if len(pieces) == 1:
        return _def(name, arguments, doc, pieces[0] or ["pass"])
    defined, used = [_defined(piece) for piece in pieces], [_used(piece) for piece in pieces]
    places = Counter(name for names in used for name in names)
    several = {n for n in set().union(*defined) if places[n] > 1}
    shared = {name: i for i, name in enumerate(sorted(several))}
    out, calls = [], [f"w = scratch({len(shared)})"]
    ready: set[str] = set()
    for i, piece in enumerate(pieces):
        first = [f"{n} = w[{shared[n]}]" for n in sorted(used[i] & ready) if n in shared]
        last = [f"w[{shared[n]}] = {n}" for n in sorted(defined[i]) if n in shared]
        ready |= defined[i]
        piece_name, passed = f"{name}_{i}", f"{arguments}, w"
        out.append("@compiled\n" + _def(piece_name, passed, f"{doc} ({i})", first + piece + last))
        calls.append(f"{piece_name}({passed})")
    return "\n\n".join((*out, _def(name, arguments, doc, calls)))


@dataclass(frozen=True)
class FunctionBody:
    name: str
    out: str
    doc: str
    needed: Sequence[int]
    rest: Sequence[Sequence[str]]


def functions(
    arguments: str, doc: str, signals: Sequence[Sequence[str]], bodies: Sequence[FunctionBody]
) -> list[str]:
    wholes = [[*(signals[i] for i in body.needed), *body.rest] for body in bodies]
    if all(sum(map(len, whole)) <= LINES for whole in wholes):
        return [
            function(body.name, f"{arguments}, {body.out}", body.doc, whole)
            for body, whole in zip(bodies, wholes, strict=True)
        ]
    shared = _Shared(signals, sorted(set().union(*(body.needed for body in bodies))), bodies)
    passed = f"{arguments}, w"
    out = [
        "@compiled\n" + _def(f"signals_{k}", passed, f"{doc} ({k})", shared.lines(k))
        for k in range(len(shared.pieces))
    ]
    for body in bodies:
        calls = [f"w = scratch({len(shared.slots)})"]
        calls += [f"signals_{k}({passed})" for k in shared.called_by(body)]
        for i, piece in enumerate(_pieces(body.rest)):
            given = f"{arguments}, {body.out}, w"
            lines = [*shared.loads(_used(piece)), *piece] or ["pass"]
            out.append("@compiled\n" + _def(f"{body.name}_{i}", given, f"{body.doc} ({i})", lines))
            calls.append(f"{body.name}_{i}({given})")
        out.append(_def(body.name, f"{arguments}, {body.out}", body.doc, calls))
    return out


class _Shared:
    def __init__(
        self,
        signals: Sequence[Sequence[str]],
        needed: Sequence[int],
        bodies: Sequence[FunctionBody],
    ) -> None:
        self.pieces: list[list[str]] = [[]]
        self._piece_of: dict[int, int] = {}
        for i in needed:
            if self.pieces[-1] and len(self.pieces[-1]) + len(signals[i]) > LINES:
                self.pieces.append([])
            self.pieces[-1] += signals[i]
            self._piece_of[i] = len(self.pieces) - 1
        self._sets = [_defined(piece) for piece in self.pieces]
        self._uses = [_used(piece) for piece in self.pieces]
        maker = {name: k for k, names in enumerate(self._sets) for name in names}
        wanted = [_used(piece) for body in bodies for piece in _pieces(body.rest)]
        wanted += [uses - sets for uses, sets in zip(self._uses, self._sets, strict=True)]
        crossing = set().union(*wanted) & maker.keys()
        self.slots = {name: i for i, name in enumerate(sorted(crossing))}
        self._needs = [
            {maker[n] for n in uses if n in maker} - {k} for k, uses in enumerate(self._uses)
        ]

    def loads(self, names: set[str]) -> list[str]:
        return [f"{n} = w[{self.slots[n]}]" for n in sorted(names & self.slots.keys())]

    def lines(self, k: int) -> list[str]:
        stores = [f"w[{self.slots[n]}] = {n}" for n in sorted(self._sets[k] & self.slots.keys())]
        return [*self.loads(self._uses[k] - self._sets[k]), *self.pieces[k], *stores]

    def called_by(self, body: FunctionBody) -> list[int]:
        found = {self._piece_of[i] for i in body.needed}
        waiting = list(found)
        while waiting:
            for k in self._needs[waiting.pop()] - found:
                found.add(k)
                waiting.append(k)
        return sorted(found)


def _defined(lines: Sequence[str]) -> set[str]:
    return {m[1] for line in lines if (m := _SET.match(line))}


def _used(lines: Sequence[str]) -> set[str]:
    return {name for line in lines for name in _NAME.findall(line)}


def _pieces(items: Sequence[Sequence[str]]) -> list[list[str]]:
    out: list[list[str]] = [[]]
    for item in items:
        if out[-1] and len(out[-1]) + len(item) > LINES:
            out.append([])
        out[-1] += item
    return out


def _def(name: str, arguments: str, doc: str, lines: Sequence[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f'def {name}({arguments}):\n    """{doc}"""\n{body}\n'


def indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for text in lines for line in text.splitlines()]


def module(text: str, names: Mapping[str, Any]) -> ModuleType:
    """Return a module that executes the source ``text``, with the global variables ``names``.

    The text is also stored in the cache folder, where numba and debuggers find it. The file is
    never executed.
    """
    key = hashlib.sha256(text.encode())
    key.update(source_hash(*(part for item in sorted(names.items()) for part in item)).encode())
    name = f"rtsim_diagram_{key.hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    path = cache_folder() / "diagrams" / f"{name}.py"
    _write(path, text)
    made = ModuleType(name)
    made.__file__ = str(path)
    made.__dict__.update(names)
    made.__dict__.update(math=sys.modules["math"], np=np, compiled=compiled, scratch=scratch)
    exec(compile(text, str(path), "exec"), made.__dict__)
    sys.modules[name] = made
    return made


def _write(path: Path, text: str) -> None:
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


# The statements of a block's equations: the names that they read and set, and renaming.

Element = Callable[[str, ast.expr | None], ast.expr | None]
"""Maps ``(name, index)`` to its replacement; ``None`` leaves the name unchanged."""


@dataclass(frozen=True)
class Statement:
    tree: ast.stmt
    sets: frozenset[str]
    """The names that the statement sets, including the arguments of a call without a result."""
    reads: frozenset[str]
    targets: frozenset[str]
    """The names to which the statement assigns."""


@lru_cache(maxsize=4096)
def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of ``text``; raise :class:`ModelError` for invalid Python."""
    try:
        trees = ast.parse(text).body
    except SyntaxError as error:
        raise ModelError(f"cannot read the equation {error.text!r}: {error.msg}") from error
    return tuple(_examined(tree) for tree in trees)


def _examined(tree: ast.stmt) -> Statement:
    sets: set[str] = set()
    reads: set[str] = set()
    stored: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Store):
            continue
        if isinstance(node.value, ast.Name):  # check_form rejects other targets
            sets.add(node.value.id)
            stored.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in stored:
            (sets if isinstance(node.ctx, ast.Store) else reads).add(node.id)
    targets = frozenset(sets)
    # A call without a result can set its arguments.
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Call):
        for given in tree.value.args:
            place = given.value if isinstance(given, ast.Subscript) else given
            if isinstance(place, ast.Name) and (place.id[0] == "_" or place.id == "rates"):
                sets.add(place.id)
    return Statement(tree, frozenset(sets), frozenset(reads), targets)


_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Assert, ast.Raise)
_BRANCHES = (ast.If, ast.For, ast.While, ast.Break, ast.Continue)


def check_form(statement: Statement, branches: bool) -> None:
    """Raise ``ModelError`` for a Python statement that equations cannot contain.

    Equations consist of assignments and calls, and with ``branches=True`` also of ``if``, ``for``
    and ``while``.
    """
    for node in ast.walk(statement.tree):
        problem = ""
        if isinstance(node, ast.stmt) and not isinstance(node, (*_SIMPLE, *_BRANCHES)):
            problem = "only assignments, calls, if, for and while are allowed"
        elif isinstance(node, _BRANCHES) and not branches:
            problem = "a branch is not allowed here; write NAME = A if CONDITION else B"
        elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call):
            problem = "the statement has no effect; an assignment is NAME = VALUE, with one ="
        elif isinstance(node, ast.Lambda):
            problem = "lambda is not allowed; give the function as functions={...}"
        elif _is_foreign_target(node):
            problem = "the target is no signal; write NAME = VALUE or NAME[0] = VALUE"
        if problem:
            line = ast.unparse(node).partition("\n")[0]
            raise ModelError(f"cannot use {line!r}: {problem}")


def _is_foreign_target(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute | ast.Subscript) or not isinstance(node.ctx, ast.Store):
        return False
    return isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name)


def needed_for(names: Iterable[str], of: Sequence[Statement]) -> tuple[list[Statement], set[str]]:
    """Return the statements that compute ``names``, and all names that they read."""
    wanted, out = set(names), []
    for statement in reversed(of):
        if statement.sets & wanted:
            out.append(statement)
            wanted |= statement.reads
    return out[::-1], set().union(*(s.reads for s in out)) if out else set()


class _Renamer(ast.NodeTransformer):
    def __init__(self, element: Element) -> None:
        self._element = element

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._element(node.id, None) or node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name):
            index = self.visit(node.slice)
            found = self._element(node.value.id, index)
            if found is not None:
                return found
            return ast.Subscript(self.visit(node.value), index, node.ctx)
        self.generic_visit(node)
        return node


def renamed(statement: Statement, element: Element) -> str:
    return ast.unparse(_Renamer(element).visit(_copy(statement.tree)))


def _copy(node: ast.AST) -> ast.AST:
    fields = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            value = _copy(value)
        elif isinstance(value, list):
            value = [_copy(v) if isinstance(v, ast.AST) else v for v in value]
        fields[name] = value
    new = type(node)(**fields)
    if hasattr(node, "lineno"):
        ast.copy_location(new, node)
    return new


@lru_cache(maxsize=65536)
def expression(text: str) -> ast.expr:
    """Parse ``text`` as an expression; callers must not change the returned syntax tree."""
    return ast.parse(text, mode="eval").body


def plain_values(of: Sequence[Statement]) -> Mapping[str, ast.expr] | None:
    """Return ``{target: value}`` if each statement copies a value, else ``None``."""
    out: dict[str, ast.expr] = {}
    for statement in of:
        tree = statement.tree
        if not (isinstance(tree, ast.Assign) and _is_place(tree.value)):
            return None
        out[ast.unparse(tree.targets[0])] = tree.value
    return out


def _is_place(tree: ast.expr) -> bool:
    if isinstance(tree, ast.Subscript):
        return isinstance(tree.value, ast.Name) and isinstance(tree.slice, ast.Constant)
    return isinstance(tree, ast.Name)
