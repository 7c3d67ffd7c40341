"""The language of requirements, which is signal temporal logic over the signals of a run.

``parse("always[5, 20] abs(cart.x - wanted.x) < 0.1 m")`` returns a tree of :class:`Node`. The
grammar is for the parser generator Lark; ``docs/requirements.md`` explains each operator.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
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
QUANTITY.3: /(?P<n>(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?)(\s*\[[^\]]*\]|\s*(?!WORDS)UNITS)?/
TIME: /\s*((\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*(ns|us|ms|s|min|h)?|end)(?=\s*[,:\]])/
KEY.2: /[A-Za-z_]\w*(?=\s*=[^=])/
NAME: /[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\[\d+\])*/
%ignore /\s+/
"""
_WORDS = r"(?:and|or|until|since|implies|iff|xor)\b"
_FACTOR = r"(?:[^\W\d_]+|%|°)(?:\s*(?:\^|\*\*)\s*-?\d+)?"
_QUANTITY = re.compile(r"(?P<number>[\d.]+(?:[eE][+-]?\d+)?)\s*\[?(?P<unit>[^\]]*)\]?\Z")
_SECONDS = {"ns": Fraction(1, NS_PER_S), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000),
            "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)}  # fmt: skip


class FormulaError(ScenarioError):
    """A formula is not valid. The message shows the place of the mistake in the formula."""

    def __init__(self, text: str, at: int, problem: str) -> None:
        super().__init__(f"{problem}\n    {text}\n    {' ' * at}^")
        self.problem = problem


@dataclass(frozen=True)
class Node:
    """A part of a formula.

    ``kind`` is the operator, such as ``"always"``, ``"and"``, ``"<="``, ``"+"``, ``"signal"``,
    ``"number"`` or ``"call"``. The part begins at the column ``at`` of the text.
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
        yield self
        for child in (*self.children, *(node for _, node in self.keywords)):
            yield from child.walk()


def horizon(node: Node) -> int | None:
    """Return how far into the future a formula reads values [ns], or ``None`` without a limit."""
    inner = [horizon(child) for child in node.children]
    if any(one is None for one in inner):
        return None
    furthest = max((one for one in inner if one is not None), default=0)
    if node.window is None or node.kind in ("once", "historically", "since"):
        return furthest
    last = node.window[1]
    if last is None:
        return None if furthest else node.window[0]
    return last + furthest


MOST = 4000
"""Maximum number of characters of a formula."""
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
TEMPORAL = ("always", "eventually", "until", "once", "historically", "since")
ARITHMETIC = ("add", "subtract", "multiply", "divide", "power", "negative")
_KINDS = {"or_": "or", "and_": "and", "not_": "not"}


@lru_cache(256)
def parse(text: str) -> Node:
    """Return the syntax tree of a formula; raise ``FormulaError`` if invalid."""
    if len(text) > MOST:
        raise ScenarioError(f"the formula has {len(text)} characters; write at most {MOST}")
    if not text.strip():
        raise ScenarioError("the formula is empty; write, for example, 'always cart.x < 0.1'")
    import lark  # only a run with requirements needs it

    try:
        tree = _parser().parse(text)
    except lark.UnexpectedToken as error:
        ended = error.token.type == "$END"
        at = len(text) if ended else error.token.start_pos or 0
        raise _wrong(text, at, error.accepts or error.expected) from None
    except lark.UnexpectedCharacters as error:
        raise _wrong(text, error.pos_in_stream or 0, error.allowed or ()) from None
    return _node(text, tree)


_KEYWORDS = (
    "always", "eventually", "until", "once", "historically", "since", "not", "and", "or", "implies",
    "iff", "xor", "true", "false",
)  # fmt: skip
_TYPING = (
    (r"=>", "write >= for a comparison, or implies"),
    (r"(?<![<>=!])=(?!=)", "write == to compare"),
    (r"\|[^|&]+\|", "write abs(...) for an absolute value"),
    (
        r"\b(?:always|eventually|once|historically)\s*\(\s*[\d.]+\s*,",
        "write a window in brackets, as in always[0, 5]",
    ),
    (r"\[\s*[\d.]+\s*\w*\s*\]", "a window has two times, as in always[0, 5]"),
    (r"\d,\d", "write a decimal point"),
    (r"[A-Za-z]+\d+(?=[\s/*]|$)", "write a power as m^3"),
)
"""Patterns of typing mistakes, and what to write instead."""


def _wrong(text: str, at: int, expected: Iterable[str]) -> FormulaError:
    for word in re.finditer(r"(?<![\w.])[A-Za-z_]\w*(?![\w.]|\s*\()", text[: at + 30]):
        near = difflib.get_close_matches(word[0].lower(), _KEYWORDS, n=1, cutoff=0.7)
        if near and word[0] not in (*_KEYWORDS, "G", "F", "H", "O") and word.start() <= at:
            return FormulaError(
                text, word.start(), f"unknown word {word[0]!r}; did you mean {near[0]}?"
            )
    if text.rfind("[", 0, at + 1) > text.rfind("]", 0, at):
        bracket = text.rfind("[", 0, at + 1)
        return FormulaError(text, bracket, "a window has two times in brackets, as in [0, 5]")
    for pattern, remedy in _TYPING:
        for found in re.finditer(pattern, text):
            if found.start() <= at <= found.end() + 1:
                return FormulaError(
                    text, found.start(), f"{found[0]!r} is not possible here; {remedy}"
                )
    if at == len(text.rstrip()) or at == len(text):
        opened = [i for i, sign in enumerate(text) if sign == "("]
        if len(opened) > text.count(")"):
            return FormulaError(text, _unclosed(text), "the ( here has no )")
        return FormulaError(text, len(text), _expected("the formula ends", expected))
    wrong = re.compile(r"[\w.]+|\S|$").match(text, at)
    return FormulaError(
        text, at, _expected(f"{(wrong[0] if wrong else text)!r} is not possible", expected)
    )


def _unclosed(text: str) -> int:
    opened: list[int] = []
    for at, sign in enumerate(text):
        if sign == "(":
            opened.append(at)
        elif sign == ")" and opened:
            opened.pop()
    return opened[-1]


@cache
def _parser() -> lark.Lark:
    unit = rf"{_FACTOR}(?:(?:\/|\*){_FACTOR})*"
    grammar = _GRAMMAR.replace("WORDS", _WORDS).replace("UNITS", unit)
    import lark

    return lark.Lark(grammar, start="formula", parser="lalr", propagate_positions=True)


_SHOWN = {
    "QUANTITY": "a number", "NAME": "a signal", "COMPARE": "a comparison such as <", "LPAR": "(",
    "RPAR": ")", "COMMA": ",", "TIME": "a time such as 5 or 20ms", "$END": "the end", "AND": "and",
    "OR": "or", "IMPLIES": "implies",
}  # fmt: skip
"""Texts for the tokens that an error names. All others can stand there as well."""


def _expected(problem: str, names: Iterable[str]) -> str:
    found = set(names)
    if not found or {"NAME", "QUANTITY"} <= found:
        return f"{problem} here; expected a signal or a number"
    shown = [text for name, text in _SHOWN.items() if name in found]
    return f"{problem} here; expected one of: {', '.join(shown)}" if shown else f"{problem} here"


def _node(text: str, tree: Any) -> Node:
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
        unit = re.sub(r"\s*(?:\^|\*\*)\s*", "^", found["unit"].strip()) or "1"
        value = float(found["number"])
        if not math.isfinite(value):
            raise FormulaError(text, where["at"], f"{found['number']} is too large")
        return Node("number", name=unit, value=value, **where)
    if kind in ("true", "false"):
        return Node(kind, **where)
    if kind == "signal":
        return Node(kind, name=re.sub(r"\[(\d+)\]", r"_\1", str(parts[0])), **where)
    if kind == "call":
        return _call(text, parts, where)
    if kind == "compare":
        return _chain(text, parts, where)
    children = tuple(_node(text, one) for one in parts)
    return Node(kind, children, window=window, **where)


def _call(text: str, parts: Sequence[Any], where: Any) -> Node:
    named = [one for one in parts[1:] if one is not None and one.data == "keyword"]
    plain = [one for one in parts[1:] if one is not None and one.data != "keyword"]
    keywords = tuple((str(one.children[0]), _node(text, one.children[1])) for one in named)
    children = tuple(_node(text, one) for one in plain)
    return Node("call", children, name=str(parts[0]), keywords=keywords, **where)


def _chain(text: str, parts: Sequence[Any], where: Any) -> Node:
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
        raise FormulaError(
            text, at, "the first time of a window must be a number of seconds, as in always[0, 5]"
        )
    if last is not None and last < first:
        raise FormulaError(
            text, at, "the last time of the window is before its first time; exchange both times"
        )
    return first, last


def _time(text: str, token: Any, unit: str) -> int | None:
    found = re.fullmatch(r"\s*([\d.]+(?:[eE][+-]?\d+)?)?\s*(\w+)?\s*", str(token))
    assert found is not None
    if found[1] is None:
        return None
    ns = Fraction(found[1]) * _SECONDS[found[2] or unit] * NS_PER_S
    if ns.denominator != 1 or ns >= 2**62:
        at = token.start_pos + len(token) - len(token.lstrip())
        raise FormulaError(text, at, "a time must be a whole number of ns below 146 years")
    return int(ns)
