"""Which changes of a module are tried: kinds that say something, outside of annotations, a sample.

Knows no cosmic-ray: a change is what it is, where it stands and which one of several there.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Place = tuple[int, int]
"""Line, from 1 on, and column."""

_ONE_EACH = {  # of all that an operator could become, what is nearest to it
    "Add": ("Sub",), "Sub": ("Add",), "Mul": ("Div",), "Div": ("Mul",), "FloorDiv": ("Mul",),
    "Mod": ("FloorDiv",), "Pow": ("Mul",), "RShift": ("LShift",), "LShift": ("RShift",),
    "BitOr": ("BitAnd",), "BitAnd": ("BitOr",), "BitXor": ("BitAnd",),
    "Eq": ("NotEq",), "NotEq": ("Eq",), "Is": ("IsNot",), "IsNot": ("Is",),
    "Lt": ("LtE", "GtE"), "LtE": ("Lt", "Gt"), "Gt": ("GtE", "LtE"), "GtE": ("Gt", "Lt"),
}  # fmt: skip
_OTHERS = {
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr",
    "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "ExceptionReplacer", "NumberReplacer", "ZeroIterationForLoop",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub",
}  # fmt: skip
_REPLACED = re.compile(r"Replace(?:Binary|Comparison)Operator_(\w+?)_(\w+)\Z")


class Change(NamedTuple):
    """One that could be made."""

    job: str
    """Of cosmic-ray's session."""
    operator: str
    within: str
    """The function or class that it stands in."""
    place: Place
    occurrence: int


def wanted(operator: str) -> bool:
    """Whether it is one of the kinds that are tried: ``core/ReplaceBinaryOperator_Add_Sub``."""
    name = operator.rpartition("/")[2]
    if name in _OTHERS:
        return True
    replaced = _REPLACED.match(name)
    return replaced is not None and replaced[2] in _ONE_EACH.get(replaced[1], ())


def silent(source: str) -> list[tuple[Place, Place]]:
    """Where a change changes nothing: annotations, which nobody evaluates, and what types need."""
    assert "from __future__ import annotations" in source
    return sorted(
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in _silent(ast.parse(source))
    )


def _silent(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node


def chosen(changes: Iterable[Change], source: str, every: int, seed: int) -> list[Change]:
    """Of ``changes`` those that count, one of ``every``, in the order of the source.

    Drawn by what a change is and what its line says: another line elsewhere moves none, and what is
    one of 20 is one of 10 too.
    """
    lines, quiet = source.splitlines(), silent(source)
    seen: Counter[str] = Counter()
    out = []
    for change in sorted(changes, key=lambda c: (c.place, c.operator, c.occurrence)):
        line, column = change.place
        mark = lines[line - 1][column : column + 2] in ("*,", "/,")  # of a list of parameters
        if not wanted(change.operator) or mark or any(a <= change.place < b for a, b in quiet):
            continue
        what = f"{change.within}/{change.operator}/{lines[line - 1].strip()}"
        key = f"{seed}/{what}/{seen[what]}"
        seen[what] += 1
        if int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % every == 0:
            out.append(change)
    return out
