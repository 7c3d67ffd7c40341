"""Find the branches of C functions, and write a probe into each.

The text is the preprocessor's output, so macros and ``#if`` are settled, and each line has its
file and number.  A probe reports which way a condition went, and how far it was from the other way:
for ``a < b``, the distance is ``a - b``.  The search for stimuli follows these distances
(docs/decisions/172).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rtsim.core.extras import extra

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


# The conditions, switches and functions in a syntax tree of C or C++ (tree-sitter).

_CONDITIONED = {
    "if_statement", "while_statement", "do_statement", "for_statement", "conditional_expression",
}  # fmt: skip
_UNEVALUATED = {
    "sizeof_expression", "alignof_expression", "offsetof_expression", "generic_expression",
    "struct_specifier", "union_specifier", "enum_specifier", "type_descriptor", "array_declarator",
    "gnu_asm_expression", "attribute_specifier", "function_declarator",
    "class_specifier", "decltype", "requires_clause", "static_assert_declaration", "noexcept",
    "template_argument_list", "lambda_capture_specifier", "using_declaration",
}  # fmt: skip
_CONSTANT_CALLS = {b"_Static_assert", b"static_assert", b"__builtin_constant_p", b"__typeof__"}
_LITERALS = {
    "number_literal", "char_literal", "true", "false", "null", "sizeof_expression",
    "type_descriptor", "alignof_expression", "nullptr",
}  # fmt: skip
SUMS = ("+", "-", "*")
"""Operators whose results can be outside of their type."""
_EFFECTS = {
    "assignment_expression", "update_expression", "call_expression", "compound_statement",
    "co_await_expression", "new_expression", "delete_expression",
}  # fmt: skip
MOST_TEXT = 100
"""Longest text of a condition in a message, characters."""


_DECLARED = {"declaration", "condition_declaration", "init_statement"}
_AT_COMPILE_TIME = {b"constexpr", b"consteval", b"constinit"}


@cache
def _parser(cpp: bool) -> Parser:
    module = "tree_sitter_cpp" if cpp else "tree_sitter_c"
    for needed in ("tree_sitter", module):
        extra(needed, "sil", "rtsim sil generate")
    from tree_sitter import Language, Parser

    if cpp:
        import tree_sitter_cpp

        return Parser(Language(tree_sitter_cpp.language()))
    import tree_sitter_c

    return Parser(Language(tree_sitter_c.language()))


def parsed(text: bytes, cpp: bool = False) -> Node:
    """Return the root of the syntax tree of a file in C, or with ``cpp`` in C++.

    Raises :class:`ScenarioError` if a package of the extra ``sil`` is missing.
    """
    return _parser(cpp).parse(text).root_node


def at_compile_time(node: Node) -> bool:
    """Return True for a function, a declaration or an ``if`` that C++ marks as ``constexpr``."""
    return any(child.text in _AT_COMPILE_TIME for child in node.children)


def functions(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            yield node
        elif node.type != "declaration":
            stack.extend(reversed(node.children))


def outside_of_functions(root: Node) -> Iterator[Node]:
    """Yield the parts of a text that the parser did not understand, except inside of functions."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "ERROR" or node.is_missing:
            yield node
        elif node.has_error and node.type != "function_definition":
            stack.extend(reversed(node.children))


def without_middle(node: Node) -> bool:
    """Return True for ``a ?: b``, whose value is that of its condition: a probe would change it."""
    if node.type != "conditional_expression":
        return False
    return node.child_by_field_name("consequence") is None


def walk(node: Node) -> Iterator[Node]:
    """Yield the nodes whose code runs, in the order of the text."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed([child for child in node.children if _runs(node, child)]))


def _runs(parent: Node, child: Node) -> bool:
    """Return False for parts that the compiler evaluates, or that nothing evaluates."""
    if child.type in _UNEVALUATED:
        return False
    if parent.type == "case_statement" and parent.child_by_field_name("value") == child:
        return False
    if child.type == "call_expression":
        called = child.child_by_field_name("function")
        return called is None or called.text not in _CONSTANT_CALLS
    if child.type == "declaration":
        kinds = [c.text for c in child.children if c.type == "storage_class_specifier"]
        return b"static" not in kinds and not at_compile_time(child)
    return True


def conditions(function: Node) -> list[Node]:
    """Return the conditions of a function, without ``&&``, ``||``, ``!`` and parentheses."""
    out: dict[int, Node] = {}
    for node in walk(function):
        roots = []
        if node.type in _CONDITIONED and not at_compile_time(node):
            roots = [node.child_by_field_name("condition")]
        elif operator_of(node) in ("&&", "||"):
            roots = [node.child_by_field_name("left"), node.child_by_field_name("right")]
        for root in roots:
            for leaf in () if root is None else _leaves(root):
                if not literal(leaf):
                    out[leaf.id] = leaf
    return sorted(out.values(), key=lambda n: (n.start_byte, n.end_byte))


def hazards(function: Node) -> list[Node]:
    """Return the divisions, shifts, subscripts, sums and products whose operands can be wrong."""
    return [node for node in walk(function) if _hazardous(node)]


def _hazardous(node: Node) -> bool:
    operator, left, right = operands_of(node)
    if operator == "[]" and node.parent is not None:
        address = node.parent.child_by_field_name("operator")
        if node.parent.type == "pointer_expression" and address is not None:
            return address.type != "&" and not literal(right)  # &a[n] is one past the end
    if operator in ("/", "%", "<<", ">>", "[]"):
        return not literal(right)
    if node.type == "assignment_expression" and right.type == "initializer_list":
        return False
    return operator in SUMS and not (literal(left) and literal(right))


def operands_of(node: Node) -> tuple[str, Node, Node]:
    """Return the operator of an expression with two operands and both; "" for other nodes.

    The operator of ``a[i]`` is ``[]``, and that of ``a /= b`` is ``/``.  The only operand of
    ``-a``, ``++a`` and ``a--`` counts as both.
    """
    only = node.child_by_field_name("argument")
    if node.type in ("unary_expression", "update_expression") and only is not None:
        operator = node.child_by_field_name("operator")
        kind = "" if operator is None else operator.type
        return (kind[0] if kind in ("-", "++", "--") else ""), only, only
    names = ("argument", "index") if node.type == "subscript_expression" else ("left", "right")
    left, right = (node.child_by_field_name(name) for name in names)
    indices = node.child_by_field_name("indices")  # of C++
    if indices is not None and len(indices.named_children) == 1:
        right = indices.named_children[0]
    if left is None or right is None:
        return "", node, node
    if node.type == "subscript_expression":
        return "[]", left, right
    if node.type == "assignment_expression":
        operator = node.child_by_field_name("operator")
        kind = "" if operator is None else operator.type
        return (kind[:-1] if kind[:-1] in (*SUMS, "/", "%", "<<", ">>") else ""), left, right
    return operator_of(node), left, right


def has_effects(node: Node) -> bool:
    """Return True if it can matter how often the expression is evaluated."""
    return any(one.type in _EFFECTS for one in walk(node))


def _leaves(node: Node) -> Iterator[Node]:
    node = bare(node)
    if node.type == "unary_expression" and operator_of(node) == "!":
        argument = node.child_by_field_name("argument")
        if argument is not None:
            yield from _leaves(argument)
    elif operator_of(node) in ("&&", "||"):
        for side in ("left", "right"):
            part = node.child_by_field_name(side)
            if part is not None:
                yield from _leaves(part)
    elif node.type != "comment" and node.type not in _DECLARED:
        yield node


def bare(node: Node) -> Node:
    """Return the expression inside parentheses."""
    if node.type == "condition_clause":
        node = node.child_by_field_name("value") or node
    while node.type == "parenthesized_expression":
        inner = [c for c in node.named_children if c.type != "comment"]
        if len(inner) != 1 or inner[0].type == "compound_statement":
            break
        node = inner[0]
    return node


def labels(body: Node) -> Iterator[Node]:
    """Yield the labels of a switch, but not those of switches inside it."""
    stack = list(reversed(body.children))
    while stack:
        node = stack.pop()
        if node.type == "case_statement":
            yield node
        if node.type != "switch_statement":
            stack.extend(reversed(node.children))


def literal(node: Node) -> bool:
    """Return True if an expression consists of literals only."""
    leaves, stack = [], [node]
    while stack:
        one = stack.pop()
        if one.type in _LITERALS or not one.named_children:
            leaves.append(one.type)
        else:
            stack.extend(one.named_children)
    return all(kind in _LITERALS for kind in leaves)


def operator_of(node: Node) -> str:
    if node.type not in ("binary_expression", "unary_expression"):
        return ""
    operator = node.child_by_field_name("operator")
    return "" if operator is None else operator.type


def depth_of(node: Node) -> int:
    depth, parent = 0, node.parent
    while parent is not None:
        depth, parent = depth + 1, parent.parent
    return depth


def brief(text: bytes, node: Node) -> str:
    words = " ".join(text[node.start_byte : node.end_byte].decode(errors="replace").split())
    return words if len(words) <= MOST_TEXT else words[: MOST_TEXT - 1] + "…"


_MARKER = re.compile(rb'^#(?:line)? (\d+) "((?:[^"\\]|\\.)*)"')
_COMPARISONS = {"<": 0, "<=": 1, ">": 2, ">=": 3, "==": 4, "!=": 5}
"""The codes of comparisons in ``rtsim_probes.h``."""


_RESULTS = {"+": 0, "-": 1, "*": 2, "/": 3, "%": 3}
"""The codes of operations in ``rtsim_probes.h``."""


HAZARDS = ("divides by 0", "is out of bounds", "shifts too far", "overflows")
"""What an expression must not do; the search looks for inputs with which it does."""


@dataclass(frozen=True, order=True)
class Branch:
    """One way that a condition or a switch can go."""

    file: Path
    line: int
    order: int
    """Number of the condition among those of the same line, from 0."""
    text: str
    """The text of the condition."""
    way: str
    """``"true"``, ``"false"``, ``"case 3"``, ``"default"``, or one of :data:`HAZARDS`."""

    @property
    def where(self) -> str:
        """``file:line``."""
        return f"{self.file.name}:{self.line}"

    @property
    def in_words(self) -> str:
        """``motor.c:19: wanted < -LIMIT is true``."""
        if self.way in HAZARDS:
            return f"{self.where}: {self.text} {self.way}"
        if self.way in ("true", "false"):
            return f"{self.where}: {self.text} is {self.way}"
        return f"{self.where}: switch ({self.text}) takes {self.way}"

    @property
    def just(self) -> str:
        """``motor.c:19: wanted < -LIMIT is just true``."""
        return f"{self.where}: {self.text} is just {self.way}"


@dataclass
class Probed:
    """What was found in all sources of a controller."""

    branches: list[Branch] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """``file:line`` of functions and other parts without probes, which were not understood."""
    edges: set[int] = field(default_factory=set)
    """The indices of the branches that can be taken with little to spare: comparisons."""
    hazards: set[int] = field(default_factory=set)
    """The indices in ``branches`` of the hazards, which are no branches but are searched for."""
    numbers: set[float] = field(default_factory=set)
    """The numbers in the text of the functions."""


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    rank: int
    depth: float
    text: str


class Instrumenter:
    """Write probes into the preprocessed texts of one controller.

    ``files`` are the user's sources and headers; functions from other files get no probes.  A
    function that several sources include counts once.  Without ``distances`` the probes report only
    which way a condition went, which needs less of the compiler.  ``hazards`` also probes divisors,
    indices, shifts and sums (:data:`HAZARDS`).  In C++ operators can be functions of classes: a
    probe binds the operands to references, and has no distance for them.
    """

    def __init__(
        self,
        files: Collection[Path],
        distances: bool = True,
        hazards: bool = False,
    ) -> None:
        self.files = {path.resolve() for path in files}
        self.distances, self.hazards = distances, hazards
        self.found = Probed()
        self._known: dict[Branch, int] = {}
        self._shown: dict[tuple[Path, int], list[str]] = {}

    def instrument(self, text: bytes, folder: Path, cpp: bool = False) -> bytes:
        """Return ``text`` with probes; relative names in its line markers are below ``folder``."""
        lines = _Lines(text, folder)
        one = _OneText(self, lines, cpp)
        root = parsed(lines.blanked, cpp)
        one.remember(root)
        for function in functions(root):
            if lines.place(function)[0] in self.files:
                unread = function.has_error or at_compile_time(function)
                if unread or any(map(without_middle, walk(function))):
                    self._unread(lines.place(function))
                else:
                    one.visit(function)
        for wrong in outside_of_functions(root):
            for place in lines.places(wrong):
                if place[0] in self.files:  # a function may be hidden in it
                    self._unread(place)
                    break
        return one.text()

    def _unread(self, place: tuple[Path, int]) -> None:
        text = f"{place[0].name}:{place[1]}"
        if text not in self.found.unread:
            self.found.unread.append(text)

    def number_of(self, branch: Branch) -> int:
        """Return the index of ``branch``, which is new if it was not met before."""
        at = self._known.get(branch)
        if at is None:
            at = self._known[branch] = len(self.found.branches)
            self.found.branches.append(branch)
        return at

    def shown(self, file: Path, line: int, count: int, cpp: bool) -> list[str]:
        """Return the ``count`` conditions of a line as their author wrote them, with macros.

        The list is empty if the line of the file has another number of conditions.
        """
        if (file, 0) not in self._shown:
            self._shown[file, 0] = []
            original = file.read_bytes()
            for function in functions(parsed(original, cpp)):
                for node in conditions(function):
                    at = file, node.start_point.row + 1
                    self._shown.setdefault(at, []).append(brief(original, node))
        written = self._shown.get((file, line), [])
        return written if len(written) == count else []


class _Lines:
    """A preprocessed text, and the file and line of each of its rows."""

    def __init__(self, text: bytes, folder: Path) -> None:
        self.text = text
        self._rows: list[tuple[Path, int]] = []
        file, number, out = Path(), 0, []
        for row in text.split(b"\n"):
            self._rows.append((file, number))
            number += 1
            if row.startswith(b"#"):
                if marker := _MARKER.match(row):
                    name = marker[2].decode(errors="replace").replace('\\"', '"')
                    file = (folder / name.replace("\\\\", "\\")).resolve()
                    number = int(marker[1])
                row = b" " * len(row)
            out.append(row)
        self.blanked = b"\n".join(out)

    def place(self, node: Node) -> tuple[Path, int]:
        """Return file and line of the node's first character."""
        return self._rows[node.start_point.row]

    def places(self, node: Node) -> list[tuple[Path, int]]:
        """Return file and line of each row of the node."""
        return self._rows[node.start_point.row : node.end_point.row + 1]


class _OneText:
    def __init__(self, owner: Instrumenter, lines: _Lines, cpp: bool) -> None:
        self.owner, self.lines, self.cpp = owner, lines, cpp
        self._bound = "const auto&" if cpp else "__auto_type"
        # In C this makes a value of an array or a bit-field; -0.0 + 0 would be 0.0.
        self._value = "" if cpp else " - 0"
        self._edits: list[_Edit] = []
        self._orders: Counter[tuple[Path, int]] = Counter()
        self._hazards: Counter[tuple[Path, int, str]] = Counter()
        self._serial = 0

    def text(self) -> bytes:
        """Return the text with all edits."""
        out, at = [], 0
        for edit in sorted(self._edits, key=lambda e: (e.start, e.rank, e.depth)):
            out += [self.lines.text[at : edit.start], edit.text.encode()]
            at = max(at, edit.end)
        return b"".join([*out, self.lines.text[at:]])

    def visit(self, function: Node) -> None:
        for node in walk(function):
            if node.type == "switch_statement":
                self._switch(node)
        leaves = conditions(function)
        counts = Counter(map(self.lines.place, leaves))
        for leaf in leaves:
            self._condition(leaf, counts[self.lines.place(leaf)])
        for node in hazards(function) if self.owner.hazards else ():
            self._hazard(node)

    def remember(self, root: Node) -> None:
        """Collect the numbers in the user's text: many of them are limits of inputs."""
        stack = [root]
        while stack:
            node = stack.pop()
            if node.type == "number_literal" and self.lines.place(node)[0] in self.owner.files:
                with suppress(ValueError, OverflowError):
                    self.owner.found.numbers.add(_number(self._of(node)))
            stack.extend(node.children)

    def _branch(self, node: Node, order: int, text: str, way: str) -> int:
        file, line = self.lines.place(node)
        return self.owner.number_of(Branch(file, line, order, text, way))

    def _condition(self, leaf: Node, count: int) -> None:
        file, line = self.lines.place(leaf)
        order = self._orders[file, line]
        self._orders[file, line] += 1
        written = self.owner.shown(file, line, count, self.cpp)
        text = written[order] if order < count == len(written) else self._shortly(leaf)
        at = self._branch(leaf, order, text, "true")
        self._branch(leaf, order, text, "false")
        depth = depth_of(leaf)
        operator = operator_of(leaf)
        if not self.owner.distances or operator not in _COMPARISONS:
            self._around(leaf, depth, f"rtsim_probe({at}u, !!(", "))")
            return
        self.owner.found.edges |= {at, at + 1}
        left, right = leaf.child_by_field_name("left"), leaf.child_by_field_name("right")
        assert left is not None
        assert right is not None
        self._serial += 1
        a, b = f"rtsim_a{self._serial}", f"rtsim_b{self._serial}"
        code = _COMPARISONS[operator]
        first = f"(__extension__ ({{ {self._bound} {a} = ("
        end = f"){self._value}"
        if literal(right):  # it stays where it is: 0 may be a null pointer
            middle = f"{end}; rtsim_compare({at}u, {code}, {a} {operator} ("
            last = (
                f"), RTSIM_NUMBER({a}), RTSIM_NUMBER({self._of(right)}), RTSIM_WHOLE({a}) && "
                f"RTSIM_WHOLE({self._of(right)})); }}))"
            )
        else:
            middle = f"{end}; {self._bound} {b} = ("
            numbers = f"RTSIM_NUMBER({a}), RTSIM_NUMBER({b}), RTSIM_WHOLE({a}) && RTSIM_WHOLE({b})"
            last = f"{end}; rtsim_compare({at}u, {code}, {a} {operator} {b}, {numbers}); }}))"
        self._between(left, right, depth, first, middle, last)

    def _hazard(self, node: Node) -> None:
        """Probe what ``node`` must not do; each operand is evaluated once, and keeps its type."""
        operator, left, right = operands_of(node)
        if operator in _RESULTS:
            self._result(node, operator, left, right)
        elif operator == "[]":
            at = self._hazard_number(node, HAZARDS[1])
            count = f"RTSIM_COUNT({self._of(left)})"
            self._checked(right, f"rtsim_below({at}u, RTSIM_NUMBER({{v}}), {count})")
        else:
            at = self._hazard_number(node, HAZARDS[2])
            bits = f"RTSIM_WIDTH({self._of(left)})"
            self._checked(right, f"rtsim_below({at}u, RTSIM_NUMBER({{v}}), {bits})")

    def _hazard_number(self, node: Node, what: str) -> int:
        place = self.lines.place(node)
        order = self._hazards[(*place, what)]
        self._hazards[(*place, what)] += 1
        at = self._branch(node, order, self._shortly(node), what)
        self.owner.found.hazards.add(at)
        return at

    def _checked(self, operand: Node, call: str) -> None:
        """Let ``call`` see the value ``{v}`` of an operand; ``- 0`` keeps the sign of -0.0."""
        self._serial += 1
        v = f"rtsim_h{self._serial}"
        before = f"(__extension__ ({{ {self._bound} {v} = ("
        after = f"){self._value}; {call.format(v=v)}; {v}; }}))"
        self._around(operand, depth_of(operand) - 0.5, before, after)

    def _result(self, node: Node, operator: str, left: Node, right: Node) -> None:
        """Report how far a result of integers is from its limits, and a divisor from 0."""
        divides = operator not in SUMS
        calls = []
        if divides:
            at = self._hazard_number(node, HAZARDS[0])
            calls = [f"rtsim_divisor({at}u, RTSIM_KNOWN({{b}}), RTSIM_NUMBER({{b}}))"]
        assigned = node.type in ("assignment_expression", "update_expression")
        if not (assigned and has_effects(left)):
            # Without a name of its own, what is assigned to is read once more.
            at = self._hazard_number(node, HAZARDS[3])
            calls.append(f"RTSIM_SUM({at}u, {_RESULTS[operator]}, {operator}, {{a}}, {{b}})")
        if not calls:
            return
        call = "; ".join(calls)
        if node.type == "update_expression":  # ++a stays an lvalue in C++
            call = call.format(a=f"({self._of(left)})", b="1")
            self._around(node, depth_of(node), f"({call}, ", ")")
        elif node.type == "unary_expression":
            self._checked(right, call.format(a="0", b="{v}"))
        elif assigned:
            self._checked(right, call.replace("{a}", f"({self._of(left)})").replace("{b}", "{v}"))
        else:
            self._serial += 1
            a, b = f"rtsim_a{self._serial}", f"rtsim_b{self._serial}"
            self._between(
                left,
                right,
                depth_of(node) + 0.25,
                f"(__extension__ ({{ {self._bound} {a} = (",
                f"){self._value}; {self._bound} {b} = (",
                f"){self._value}; {call.format(a=a, b=b)}; {a} {operator} {b}; }}))",
            )

    def _between(
        self, left: Node, right: Node, depth: float, first: str, middle: str, last: str
    ) -> None:
        self._edits.append(_Edit(left.start_byte, left.start_byte, 2, depth, first))
        self._edits.append(_Edit(left.end_byte, right.start_byte, 1, depth, middle))
        self._edits.append(_Edit(right.end_byte, right.end_byte, 0, -depth, last))

    def _switch(self, node: Node) -> None:
        value, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        if value is None or body is None:
            return
        file, line = self.lines.place(node)
        text = brief(self.lines.blanked, bare(value))
        cases = []
        for label in labels(body):
            low = label.child_by_field_name("value")
            if low is None:
                continue
            at = self._branch(label, 0, text, f"case {brief(self.lines.blanked, low)}")
            cases.append((at, self._of(low)))
        default = self.owner.number_of(Branch(file, line, 0, text, "default"))
        self._serial += 1
        v = f"rtsim_v{self._serial}"
        gap = f"RTSIM_NUMBER({v}) - RTSIM_NUMBER(({{c}}))"
        tests = " ".join(f"rtsim_case({at}u, {v} == ({c}), {gap.format(c=c)});" for at, c in cases)
        other = " && ".join([*(f"{v} != ({c})" for _, c in cases)]) or "1"
        tests += f" rtsim_case({default}u, {other}, 1);"
        self._around(
            bare(value), depth_of(value), f"(__extension__ ({{ {self._bound} {v} = (",
            f"){self._value}; {tests} {v}; }}))",
        )  # fmt: skip

    def _around(self, node: Node, depth: float, before: str, after: str) -> None:
        self._edits.append(_Edit(node.start_byte, node.start_byte, 2, depth, before))
        self._edits.append(_Edit(node.end_byte, node.end_byte, 0, -depth, after))

    def _shortly(self, node: Node) -> str:
        return brief(self.lines.blanked, node)

    def _of(self, node: Node) -> str:
        return self.lines.blanked[node.start_byte : node.end_byte].decode(errors="replace")


def _number(text: str) -> float:
    digits = text.lower()
    if digits.startswith("0x"):
        return float.fromhex(digits) if "p" in digits else float(int(digits.rstrip("ul"), 16))
    digits = digits.rstrip("ulf")
    return (
        float(digits)
        if set(digits) & set(".e")
        else float(int(digits, 8 if digits[:1] == "0" else 10))
    )
