"""Find the branches of C functions, and insert probes.

The probes are inserted after the preprocessor, so that macros are expanded. A probe reports whether
a condition is true, and how far its operands are from the opposite result. For ``a < b``, the
distance is ``a - b``. The search for stimuli minimises these distances (docs/decisions/172).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hitl.stimuli.calls import ANY, Calls, Key, operands_of_call, parameters, sites
from hitl.stimuli.decisions import (
    COMPARISONS,
    SUMS,
    Decision,
    at_compile_time,
    bare,
    brief,
    decisions,
    depth_of,
    functions,
    has_effects,
    hazards,
    labels,
    literal,
    name_of,
    operands_of,
    operator_of,
    outside_of_functions,
    parsed,
    shortened,
    walk,
    without_middle,
)

if TYPE_CHECKING:
    from hitl.stimuli.decisions import Node


_MARKER = re.compile(rb'^#(?:line)? (\d+) "((?:[^"\\]|\\.)*)"')
_RESULTS = {"+": 0, "-": 1, "*": 2, "/": 3, "%": 3}
"""Codes of operations in ``rtsim_probes.h``."""


_SIMPLE = {
    "identifier", "field_expression", "subscript_expression", "call_expression",
    "parenthesized_expression", "number_literal",
}  # fmt: skip
"""Expressions that need no parentheses after a minus sign."""


HAZARDS = ("divides by 0", "is out of bounds", "shifts too far", "overflows")
"""Errors of an expression. The search looks for inputs that cause them."""


@dataclass(frozen=True, order=True)
class Branch:
    """A possible result of a condition, of a call such as ``fmin``, or of a switch."""

    file: Path
    line: int
    order: int
    """Number of the decision on its line, from 0."""
    text: str
    """Source text of the condition or of the call."""
    way: str
    """``"true"``, ``"false"``, an operand of the call, ``"case 3"``, ``"default"``, or one of
    :data:`HAZARDS`.
    """
    function: str = ""
    """Name of the function that contains the decision."""
    call: str = ""
    """The call, if calls are counted separately, such as ``limit(x, 0, 9) at motor.c:30``."""

    @property
    def where(self) -> str:
        return f"{self.file.name}:{self.line}"

    @property
    def switched(self) -> bool:
        return self.way == "default" or self.way.startswith("case ")

    @property
    def in_words(self) -> str:
        """The branch in words, such as ``motor.c:19: wanted < -LIMIT is true``."""
        if self.way in HAZARDS:
            return f"{self.where}: {self.text} {self.way}"
        if self.switched:
            return f"{self.where}: switch ({self.text}) takes {self.way}{self._called}"
        return f"{self.where}: {self.text} is {self.way}{self._called}"

    @property
    def just(self) -> str:
        """Text such as ``motor.c:19: wanted < -LIMIT is just true``."""
        return f"{self.where}: {self.text} is just {self.way}{self._called}"

    @property
    def _called(self) -> str:
        return f" in {self.call}" if self.call else ""

    @property
    def in_function(self) -> str:
        """Text with the function, such as ``motor.c:19: x < 0 is true, in motor_step()``."""
        plain = not self.function or self.call
        return self.in_words if plain else f"{self.in_words}, in {self.function}()"


@dataclass
class Probed:
    """All branches in the sources of a controller."""

    branches: list[Branch] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """``file:line`` of functions and other parts that could not be parsed and have no probes."""
    edges: set[int] = field(default_factory=set)
    """Indices of the branches that can be taken narrowly, which are comparisons."""
    hazards: set[int] = field(default_factory=set)
    """Indices in ``branches`` of the hazards, which are not branches but are searched for."""
    numbers: set[float] = field(default_factory=set)
    """The numbers in the text of the functions."""
    merged: set[str] = field(default_factory=set)
    """Functions with too many chains of calls, whose calls are not counted separately."""
    undefined: list[str] = field(default_factory=list)
    """Calls of functions that are declared but not defined, such as those of a library."""


@dataclass(frozen=True)
class _Written:
    text: str
    operands: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    rank: int
    depth: float
    text: str


@dataclass(frozen=True)
class Probes:
    """The kinds of probes to insert. Fewer kinds demand less of the compiler."""

    distances: bool = True
    """Whether to report the difference of both sides of a comparison."""
    hazards: bool = True
    """Whether to probe divisors, indices, shifts and sums (:data:`HAZARDS`)."""
    calls: bool = True
    """Whether to probe calls that decide, such as ``fmin``, and comparisons whose value is used."""
    apart: bool = True
    """Whether to count each call of a user's function separately."""


class Instrumenter:
    """Insert probes into the preprocessed sources of a controller.

    ``files`` contains the user's sources and headers; other functions get no probes. A function
    counts once, even if several sources include it. In C++, an operator can be a function of a
    class. C++ probes therefore use references to the operands, and report no distances for objects.
    To count each call of a user's function separately, first pass each text to :meth:`read`.
    """

    def __init__(self, files: Collection[Path], probes: Probes | None = None) -> None:
        self.files = {path.resolve() for path in files}
        self.probes = probes or Probes(hazards=False)
        self.found = Probed()
        self.calls_of = Calls()
        self._known: dict[Branch, int] = {}
        self._shown: dict[tuple[Path, int], list[_Written]] = {}

    def read(self, text: bytes, folder: Path, cpp: bool = False) -> None:
        """Collect the calls in ``text``; read all sources before the first ``instrument``."""
        lines = _Lines(text, folder)
        self.calls_of.read(parsed(lines.blanked, cpp), self.files, lines.place, lines.blanked)

    def instrument(self, text: bytes, folder: Path, cpp: bool = False) -> bytes:
        """Return ``text`` with probes.

        Relative file names in ``text`` are relative to ``folder``.
        """
        lines = _Lines(text, folder)
        one = _OneText(self, lines, cpp)
        root = parsed(lines.blanked, cpp)
        one.remember(root)
        users = [one for one in functions(root) if lines.place(one)[0] in self.files]
        own = frozenset(map(name_of, users))
        for function in users:
            unread = function.has_error or at_compile_time(function)
            if unread or any(map(without_middle, walk(function))):
                self._unread(lines.place(function))
            else:
                one.visit(function, own)
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
        at = self._known.get(branch)
        if at is None:
            at = self._known[branch] = len(self.found.branches)
            self.found.branches.append(branch)
        return at

    def decided(self, function: Node, cpp: bool, own: Collection[str]) -> list[Decision]:
        found = decisions(function, cpp, own)
        return found if self.probes.calls else [one for one in found if not one.value]

    def shown(
        self, file: Path, line: int, count: int, cpp: bool, own: Collection[str]
    ) -> list[_Written]:
        """Return the decisions on a line of the source, before macros are expanded.

        The list is empty if their number is not ``count``.
        """
        if (file, 0) not in self._shown:
            self._shown[file, 0] = []
            original = file.read_bytes()
            for function in functions(parsed(original, cpp)):
                for one in self.decided(function, cpp, own):
                    at = file, one.node.start_point.row + 1
                    operands = tuple(brief(original, operand) for operand in one.operands)
                    written = _Written(brief(original, one.node), operands)
                    self._shown.setdefault(at, []).append(written)
        written_there = self._shown.get((file, line), [])
        return written_there if len(written_there) == count else []


class _Lines:
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
        return self._rows[node.start_point.row]

    def places(self, node: Node) -> list[tuple[Path, int]]:
        return self._rows[node.start_point.row : node.end_point.row + 1]


class _OneText:
    def __init__(self, owner: Instrumenter, lines: _Lines, cpp: bool) -> None:
        self.owner, self.lines, self.cpp = owner, lines, cpp
        self._bound = "const auto&" if cpp else "__auto_type"
        # In C, "- 0" makes a value of an array or a bit-field; + 0 would turn -0.0 into 0.0.
        self._value = "" if cpp else " - 0"
        self._edits: list[_Edit] = []
        self._orders: Counter[tuple[Path, int]] = Counter()
        self._hazards: Counter[tuple[Path, int, str]] = Counter()
        self._serial = 0
        self._key: Key = (Path(), 0, "")
        self._chains = ANY
        self._parameters: list[str] = []

    def text(self) -> bytes:
        out, at = [], 0
        for edit in sorted(self._edits, key=lambda e: (e.start, e.rank, e.depth)):
            out += [self.lines.text[at : edit.start], edit.text.encode()]
            at = max(at, edit.end)
        return b"".join([*out, self.lines.text[at:]])

    def visit(self, function: Node, own: Collection[str]) -> None:
        self._key = (*self.lines.place(function), name_of(function))
        self._chains = self.owner.calls_of.chains(self._key)
        self._parameters = parameters(function) if len(self._chains) > 1 else []
        self.owner.found.merged |= self.owner.calls_of.merged
        body = function.child_by_field_name("body")
        if len(self._chains) > 1 and body is not None:
            self._begin(body)
        for number, call in sites(function):
            offset = self.owner.calls_of.offset(self._key, number)
            if offset is not None:
                self._site(call, offset)
        for node in walk(function):
            if node.type == "switch_statement":
                self._switch(node)
        found = self.owner.decided(function, self.cpp, own)
        counts = Counter(self.lines.place(one.node) for one in found)
        for one in found:
            file, line = place = self.lines.place(one.node)
            order = self._orders[place]
            self._orders[place] += 1
            written = self.owner.shown(file, line, counts[place], self.cpp, own)
            if order < counts[place] == len(written):
                told = written[order]
            else:
                told = _Written(self._shortly(one.node), tuple(map(self._shortly, one.operands)))
            if one.sides:
                self._call(one, order, told)
            else:
                self._condition(one, order, told.text)
        for node in hazards(function) if self.owner.probes.hazards else ():
            self._hazard(node)

    def remember(self, root: Node) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            if node.type == "number_literal" and self.lines.place(node)[0] in self.owner.files:
                with suppress(ValueError, OverflowError):
                    self.owner.found.numbers.add(_number(self._of(node)))
            stack.extend(node.children)

    def _begin(self, body: Node) -> None:
        text = " const unsigned rtsim_here = rtsim_site; rtsim_site = 0;"
        at = body.start_byte + 1
        self._edits.append(_Edit(at, at, 0, 0, text))

    def _site(self, call: Node, offset: int) -> None:
        here = " + rtsim_here" if len(self._chains) > 1 else ""
        said = f"rtsim_site = {offset}u{here}"
        depth, kept = depth_of(call) + 0.1, "auto&&" if self.cpp else "__auto_type"
        at, opening, given = call.start_byte, "(__extension__ ({ ", []
        function = call.child_by_field_name("function")
        assert function is not None
        for operand in operands_of_call(call) or []:
            if literal(operand):  # 0 may be a null pointer
                given.append(self._of(operand))
                continue
            self._serial += 1
            given.append(f"rtsim_x{self._serial}")
            text = f"{opening}{kept} {given[-1]} = ("
            first = at == call.start_byte
            edit = _Edit(at, operand.start_byte, 2 if first else 1, depth, text)
            self._edits.append(edit)
            at, opening = operand.end_byte, "); "
        if at == call.start_byte:
            self._around(call, depth, f"({said}, ", ")")
        else:
            last = f"); {said}; {self._of(function)}({', '.join(given)}); }}))"
            self._edits.append(_Edit(at, call.end_byte, 0, -depth, last))

    def _branch(
        self,
        node: Node,
        read: Sequence[Node],
        order: int,
        text: str,
        *ways: str,
        edges: bool = False,
    ) -> str:
        file, line = self.lines.place(node)
        first = []
        for chain in self._chains:
            names = {name for k, name in enumerate(self._parameters) if name and k in chain.fixed}
            words = "" if names and all(literal(one, names) for one in read) else chain.words
            known = [
                self.owner.number_of(Branch(file, line, order, text, way, self._key[2], words))
                for way in ways
            ]
            first.append(known[0])
            if edges:
                self.owner.found.edges.update(known)
        out = f"{first[0]}u"
        for chain_, at in list(enumerate(first))[1:]:
            out = f"rtsim_here == {chain_}u ? {at}u : {out}"
        return f"({out})" if len(first) > 1 else out

    def _condition(self, one: Decision, order: int, text: str) -> None:
        leaf = one.node
        depth, operator = depth_of(leaf), operator_of(leaf)
        compared = operator in COMPARISONS and self.owner.probes.distances
        at = self._branch(leaf, [leaf], order, text, "true", "false", edges=compared)
        if compared:
            self._comparison(leaf, at, one.value)
        elif one.value and operator not in COMPARISONS:
            self._checked(leaf, f"rtsim_probe({at}, !!{{v}})")
        else:
            self._around(leaf, depth, f"rtsim_probe({at}, !!(", "))")

    def _comparison(self, leaf: Node, at: str, value: bool) -> None:
        depth, operator = depth_of(leaf), operator_of(leaf)
        left, right = leaf.child_by_field_name("left"), leaf.child_by_field_name("right")
        assert left is not None
        assert right is not None
        self._serial += 1
        a, b = f"rtsim_a{self._serial}", f"rtsim_b{self._serial}"
        code = COMPARISONS[operator]
        first = f"{'(' * value}(__extension__ ({{ {self._bound} {a} = ("
        end = f"){self._value}"
        if literal(right):  # it stays where it is: 0 may be a null pointer
            middle = f"{end}; rtsim_compare({at}, {code}, {a} {operator} ("
            last = (
                f"), RTSIM_NUMBER({a}), RTSIM_NUMBER({self._of(right)}), RTSIM_WHOLE({a}) && "
                f"RTSIM_WHOLE({self._of(right)})); }}))"
            )
        else:
            middle = f"{end}; {self._bound} {b} = ("
            numbers = f"RTSIM_NUMBER({a}), RTSIM_NUMBER({b}), RTSIM_WHOLE({a}) && RTSIM_WHOLE({b})"
            last = f"{end}; rtsim_compare({at}, {code}, {a} {operator} {b}, {numbers}); }}))"
        self._between(left, right, depth, first, middle, last + " != 0)" * value)

    def _call(self, one: Decision, order: int, told: _Written) -> None:
        names = []
        for _ in one.operands:
            self._serial += 1
            names.append(f"rtsim_a{self._serial}")
        reports = ""
        for sides in one.sides:
            ways = [_way(way, one.operands, told.operands) for way in (sides.one, sides.other)]
            at = self._branch(one.node, one.operands, order, told.text, *ways, edges=True)
            a, b = (side.format(*names) for side in (sides.left, sides.right))
            sent = f"RTSIM_NUMBER({a}), RTSIM_NUMBER({b}), RTSIM_WHOLE({a}) && RTSIM_WHOLE({b})"
            way = f"{a} {sides.relation} {b}"
            code = COMPARISONS[sides.relation]
            reports += (
                f" rtsim_compare({at}, {code}, {way}, {sent});"
                if sides.tied
                else f" rtsim_choice({at}, {way}, {sent});"
            )
        depth, end = depth_of(one.node), f"){self._value};"
        texts = [f"(__extension__ ({{ {self._bound} {names[0]} = ("]
        texts += [f"{end} {self._bound} {name} = (" for name in names[1:]]
        head = self.lines.blanked[one.node.start_byte : one.operands[0].start_byte].decode()
        tail = self.lines.blanked[one.operands[-1].end_byte : one.node.end_byte].decode()
        last = f"{end}{reports} {head}{', '.join(names)}{tail}; }}))"
        first = one.operands[0].start_byte
        self._edits.append(_Edit(one.node.start_byte, first, 2, depth, texts[0]))
        for before, after, text in zip(one.operands, one.operands[1:], texts[1:], strict=False):
            self._edits.append(_Edit(before.end_byte, after.start_byte, 1, depth, text))
        self._edits.append(_Edit(one.operands[-1].end_byte, one.node.end_byte, 0, -depth, last))

    def _hazard(self, node: Node) -> None:
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
        branch = Branch(*place, order, self._shortly(node), what, self._key[2])
        at = self.owner.number_of(branch)
        self.owner.found.hazards.add(at)
        return at

    def _checked(self, operand: Node, call: str) -> None:
        """Pass the value ``{v}`` of an operand to ``call``; ``- 0`` preserves the sign of -0.0."""
        self._serial += 1
        v = f"rtsim_h{self._serial}"
        before = f"(__extension__ ({{ {self._bound} {v} = ("
        after = f"){self._value}; {call.format(v=v)}; {v}; }}))"
        self._around(operand, depth_of(operand) - 0.5, before, after)

    def _result(self, node: Node, operator: str, left: Node, right: Node) -> None:
        divides = operator not in SUMS
        calls = []
        if divides:
            at = self._hazard_number(node, HAZARDS[0])
            calls = [f"rtsim_divisor({at}u, RTSIM_KNOWN({{b}}), RTSIM_NUMBER({{b}}))"]
        assigned = node.type in ("assignment_expression", "update_expression")
        if not (assigned and has_effects(left)):
            # without a name, the assigned variable is read a second time
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
        text = brief(self.lines.blanked, bare(value))
        cases = []
        for label in labels(body):
            low = label.child_by_field_name("value")
            if low is None:
                continue
            way = f"case {brief(self.lines.blanked, low)}"
            at = self._branch(label, [value], 0, text, way)
            cases.append((at, self._of(low)))
        default = self._branch(node, [value], 0, text, "default")
        self._serial += 1
        v = f"rtsim_v{self._serial}"
        gap = f"RTSIM_NUMBER({v}) - RTSIM_NUMBER(({{c}}))"
        tests = " ".join(f"rtsim_case({at}, {v} == ({c}), {gap.format(c=c)});" for at, c in cases)
        other = " && ".join([*(f"{v} != ({c})" for _, c in cases)]) or "1"
        tests += f" rtsim_case({default}, {other}, 1);"
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


def _way(way: str, operands: Sequence[Node], written: Sequence[str]) -> str:
    plain = "-" not in way
    inside = [
        text if plain or node.type in _SIMPLE else f"({text})"
        for node, text in zip(operands, written, strict=True)
    ]
    return shortened(way.format(*inside))


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
