"""The statements of a block's equations: names that they read and set, and renaming."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rtsim.core.errors import ModelError

Element = Callable[[str, ast.expr | None], ast.expr | None]
"""Maps ``(name, index)`` to its replacement; ``None`` leaves the name unchanged."""


@dataclass(frozen=True)
class Statement:
    """One statement; ``sets`` and ``reads`` are names without their indices."""

    tree: ast.stmt
    sets: frozenset[str]
    """The names that the statement sets; an argument of a call without a result counts as set."""
    reads: frozenset[str]
    targets: frozenset[str]
    """The names that the statement assigns to."""


@lru_cache(maxsize=4096)
def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of ``text``; raises :class:`ModelError` for invalid Python."""
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
        if isinstance(node.value, ast.Name):  # check_form refuses others
            sets.add(node.value.id)
            stored.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in stored:
            (sets if isinstance(node.ctx, ast.Store) else reads).add(node.id)
    targets = frozenset(sets)
    # A call without a result sets those of its arguments that it can change.
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Call):
        for given in tree.value.args:
            place = given.value if isinstance(given, ast.Subscript) else given
            if isinstance(place, ast.Name) and (place.id[0] == "_" or place.id == "rates"):
                sets.add(place.id)
    return Statement(tree, frozenset(sets), frozenset(reads), targets)


_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Assert, ast.Raise)
_BRANCHES = (ast.If, ast.For, ast.While, ast.Break, ast.Continue)


def check_form(statement: Statement, branches: bool) -> None:
    """Raise :class:`ModelError` for a statement that equations cannot contain.

    Equations consist of assignments and calls and, if ``branches`` are allowed, of ``if``, ``for``
    and ``while``.  All other statements bind names, or leave the generated function.
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
    """Return whether ``node`` is assigned to, but is neither a name nor an element of one."""
    if not isinstance(node, ast.Attribute | ast.Subscript) or not isinstance(node.ctx, ast.Store):
        return False
    return isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name)


def needed_for(names: Iterable[str], of: Sequence[Statement]) -> tuple[list[Statement], set[str]]:
    """Return the statements on which ``names`` depend, in order, and the names that they read."""
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
    """Return the text of ``statement`` with names and elements replaced by ``element``."""
    return ast.unparse(_Renamer(element).visit(_copy(statement.tree)))


def _copy(node: ast.AST) -> ast.AST:
    """Return a deep copy of a syntax tree; faster than ``copy.deepcopy``."""
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
    """Return ``text`` as a syntax tree; callers share the tree and must not change it."""
    return ast.parse(text, mode="eval").body


def plain_values(of: Sequence[Statement]) -> Mapping[str, ast.expr] | None:
    """Return ``{target: value}`` if each statement only copies a name or an element, else None."""
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
