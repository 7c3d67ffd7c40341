"""The language of requirements: signal temporal logic over the signals of a run.

``parse("always[5, 20] abs(cart.x - wanted.x) < 0.1 m")`` returns a tree of :class:`Node`. The
grammar is a text for Lark; ``docs/requirements.md`` explains each operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S

if TYPE_CHECKING:
    import lark

_GRAMMAR = r"""
?formula: implication
    | formula ("iff" | "<->") implication       -> iff
    | formula "xor" implication                 -> xor
?implication: disjunction
    | disjunction ("implies" | "->") implication -> implies
?disjunction: conjunction
    | disjunction ("or" | "||" | "|") conjunction -> or_
?conjunction: binary
    | conjunction ("and" | "&&" | "&") binary    -> and_
?binary: unary
    | unary "until" window? unary                -> until
    | unary "since" window? unary                -> since
?unary: comparison
    | ("not" | "!") unary                        -> not_
    | ("always" | "G") window? unary             -> always
    | ("eventually" | "F") window? unary         -> eventually
    | ("historically" | "H") window? unary       -> historically
    | ("once" | "O") window? unary               -> once
?comparison: sum
    | sum (COMPARE sum)+                         -> compare
?sum: product
    | sum "+" product                            -> add
    | sum "-" product                            -> subtract
?product: factor
    | product "*" factor                         -> multiply
    | product "/" factor                         -> divide
?factor: power
    | "-" factor                                 -> negative
    | "+" factor
?power: atom
    | atom ("**" | "^") factor                   -> power
?atom: QUANTITY                                  -> quantity
    | "true"                                     -> true
    | "false"                                    -> false
    | NAME "(" [argument ("," argument)*] ")"    -> call
    | NAME                                       -> signal
    | "(" formula ")"
?argument: formula
    | KEY "=" formula                            -> keyword
window: "[" TIME ("," | ":") TIME "]"

COMPARE: "<=" | ">=" | "==" | "!=" | "<" | ">"
QUANTITY.3: /(?P<n>(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)(\s*\[[^\]]*\]|\s*(?!WORDS)UNITS)?/
TIME: /\s*((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*(ns|us|ms|s|min|h)?|end)(?=\s*[,:\]])/
KEY.2: /[A-Za-z_]\w*(?=\s*=[^=])/
NAME: /[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\[\d+\])*/
%ignore /\s+/
"""
_WORDS = r"(?:and|or|until|since|implies|iff|xor)\b"
_FACTOR = r"(?:[^\W\d_]+|%|°)(?:\^-?\d+)?"
_QUANTITY = re.compile(r"(?P<number>[\d.]+(?:[eE][+-]?\d+)?)\s*\[?(?P<unit>[^\]]*)\]?\Z")
_SECONDS = {"ns": Fraction(1, NS_PER_S), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000),
            "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)}  # fmt: skip


class FormulaError(ScenarioError):
    """A formula is not valid. The message shows the formula and the place."""

    def __init__(self, text: str, at: int, problem: str) -> None:
        super().__init__(f"{problem}\n    {text}\n    {' ' * at}^")
        self.problem = problem


@dataclass(frozen=True)
class Node:
    """A part of a formula.

    ``kind`` is the operator, such as ``"always"``, ``"and"``, ``"<="``, ``"+"``, ``"signal"``,
    ``"number"`` or ``"call"``. ``at`` is the first column of the part in the text.
    """

    kind: str
    children: tuple[Node, ...] = ()
    at: int = 0
    end: int = 0
    name: str = ""
    """Name of a signal or function, or the unit of a number.

    The name of the element ``x[0]`` of an array is ``x_0``, as in a recording.
    """
    value: float = 0.0
    """The value of a number."""
    window: tuple[int, int | None] | None = None
    """First and last time of a temporal operator, relative to its own time [ns].

    A last time of None is the end of the run.
    """
    keywords: tuple[tuple[str, Node], ...] = ()

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes below it."""
        yield self
        for child in (*self.children, *(node for _, node in self.keywords)):
            yield from child.walk()


COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGIC = ("not", "and", "or", "implies", "iff", "xor")
TEMPORAL = ("always", "eventually", "until", "once", "historically", "since")
ARITHMETIC = ("add", "subtract", "multiply", "divide", "power", "negative")
_KINDS = {"or_": "or", "and_": "and", "not_": "not"}


def parse(text: str) -> Node:
    """Return the tree of a formula; raise :class:`FormulaError` if it is not valid."""
    if not text.strip():
        raise ScenarioError("the formula is empty; write, for example, 'always cart.x < 0.1'")
    import lark  # only a run with requirements needs it

    try:
        tree = _parser().parse(text)
    except lark.UnexpectedEOF as error:
        raise FormulaError(text, len(text), _expected("the formula ends", error.expected)) from None
    except lark.UnexpectedToken as error:
        if error.token.type == "$END":
            problem = _expected("the formula ends", error.accepts or error.expected)
            raise FormulaError(text, len(text), problem) from None
        at = error.token.start_pos or 0
        problem = _expected(
            f"{str(error.token)!r} is not possible", error.accepts or error.expected
        )
        raise FormulaError(text, at, problem) from None
    except lark.UnexpectedCharacters as error:
        problem = _expected(f"{error.char!r} is not possible", error.allowed or ())
        raise FormulaError(text, error.pos_in_stream or 0, problem) from None
    return _node(text, tree)


@cache
def _parser() -> lark.Lark:
    unit = rf"{_FACTOR}(?:(?:\/|\*){_FACTOR})*"
    grammar = _GRAMMAR.replace("WORDS", _WORDS).replace("UNITS", unit)
    import lark

    return lark.Lark(grammar, start="formula", parser="lalr", propagate_positions=True)


_WORDS_FOR = {
    "QUANTITY": "a number", "NAME": "a signal", "COMPARE": "a comparison such as <", "LPAR": "(",
    "RPAR": ")", "LSQB": "[", "RSQB": "]", "COMMA": ",", "TIME": "a time such as 5 or 20ms",
    "$END": "the end", "PLUS": "+", "MINUS": "-", "STAR": "*", "SLASH": "/",
}  # fmt: skip


def _expected(problem: str, names: Any) -> str:
    """Return the problem with the tokens that the grammar accepts at its place."""
    words = [_WORDS_FOR.get(name, name.lower()) for name in sorted(names or ())]
    shown = [word for word in dict.fromkeys(words) if not word.startswith("__")]
    if {"NAME", "QUANTITY"} <= set(names or ()):
        shown = ["a signal", "a number", "("]
    return f"{problem} here; expected {' or '.join(shown[:6])}" if shown else f"{problem} here"


def _node(text: str, tree: Any) -> Node:
    """Return the node of a tree of Lark."""
    where: Any = {"at": tree.meta.start_pos, "end": tree.meta.end_pos}
    kind = _KINDS.get(tree.data, str(tree.data))
    parts = list(tree.children)
    window = None
    if kind in TEMPORAL:
        windows = [one for one in parts if getattr(one, "data", "") == "window"]
        parts = [one for one in parts if one not in windows and one is not None]
        window = _window(text, windows[0]) if windows else (0, None)
    if kind == "quantity":
        found = _QUANTITY.match(parts[0])
        assert found is not None
        unit = found["unit"].strip() or "1"
        return Node("number", name=unit, value=float(found["number"]), **where)
    if kind in ("true", "false"):
        return Node(kind, **where)
    if kind == "signal":
        return Node(kind, name=re.sub(r"\[(\d+)\]", r"_\1", str(parts[0])), **where)
    if kind == "call":
        return _call(text, parts, where)
    if kind == "compare":
        return _chain(text, parts, where)
    if kind == "keyword":
        raise FormulaError(text, where["at"], "only a function has arguments NAME=VALUE")
    children = tuple(_node(text, one) for one in parts)
    return Node(kind, children, window=window, **where)


def _call(text: str, parts: Sequence[Any], where: Any) -> Node:
    named = [one for one in parts[1:] if one is not None and one.data == "keyword"]
    plain = [one for one in parts[1:] if one is not None and one.data != "keyword"]
    keywords = tuple((str(one.children[0]), _node(text, one.children[1])) for one in named)
    children = tuple(_node(text, one) for one in plain)
    return Node("call", children, name=str(parts[0]), keywords=keywords, **where)


def _chain(text: str, parts: Sequence[Any], where: Any) -> Node:
    """Return ``a < b < c`` as ``a < b and b < c``."""
    sides = [_node(text, one) for one in parts[::2]]
    pairs = [
        Node(str(sign), (left, right), at=left.at, end=right.end)
        for left, sign, right in zip(sides, parts[1::2], sides[1:], strict=False)
    ]
    return pairs[0] if len(pairs) == 1 else Node("and", tuple(pairs), **where)


def _window(text: str, tree: Any) -> tuple[int, int | None]:
    words = [str(one) for one in tree.children]
    unit = re.search(r"[a-z]+\s*$", words[1])
    given = unit[0].strip() if unit and unit[0].strip() != "end" else "s"
    first, last = (_time(text, one, given) for one in tree.children)
    at = tree.meta.start_pos
    if first is None:
        raise FormulaError(text, at, "the first time of a window is a number of seconds")
    if last is not None and last < first:
        raise FormulaError(text, at, "the last time of the window is before its first time")
    return first, last


def _time(text: str, token: Any, unit: str) -> int | None:
    """Return a time in ns; None for ``end``. ``unit`` is the unit of a number without one."""
    found = re.fullmatch(r"\s*([\d.]+(?:[eE][+-]?\d+)?)?\s*(\w+)?\s*", str(token))
    assert found is not None
    if found[1] is None:
        return None
    ns = Fraction(found[1]) * _SECONDS[found[2] or unit] * NS_PER_S
    if ns.denominator != 1 or ns >= 2**62:
        at = token.start_pos + len(token) - len(token.lstrip())
        raise FormulaError(text, at, "a time is a whole number of ns, below 146 years")
    return int(ns)
