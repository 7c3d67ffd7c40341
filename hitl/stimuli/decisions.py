"""Find decisions and possible errors in C and C++ code.

Decisions are conditions, switches and calls such as ``fmin``.

The syntax tree is that of tree-sitter. :mod:`hitl.stimuli.probes` inserts a probe at each location.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rtsim.core.extras import extra

if TYPE_CHECKING:
    from tree_sitter import Node as Node  # the other modules of the package take it from here
    from tree_sitter import Parser


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
"""Operators whose results can exceed the range of their type."""
_EFFECTS = {
    "assignment_expression", "update_expression", "call_expression", "compound_statement",
    "co_await_expression", "new_expression", "delete_expression",
}  # fmt: skip
MOST_TEXT = 100
"""Greatest length of a condition in a message, characters."""


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
    """Parse a C or C++ file, and return the root of the syntax tree.

    Raises :class:`ScenarioError` if a package of the extra ``sil`` is missing.
    """
    return _parser(cpp).parse(_with_plain_types(text)).root_node


_TYPEOF = re.compile(
    rb""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'  # a text
        | \b(?:__)?typeof(?:_unqual)?(?:__)?\s*(\() """,
    re.VERBOSE,
)


def _with_plain_types(text: bytes) -> bytes:
    out = text
    for found in _TYPEOF.finditer(text):
        if not found[1]:
            continue  # a text
        end, depth = found.end(), 1
        while depth and end < len(text):
            depth += {b"(": 1, b")": -1}.get(text[end : end + 1], 0)
            end += 1
        if not depth:  # else in a comment, or in code that is not C
            spaces = re.sub(rb"[^\n]", b" ", text[found.start() + 3 : end])
            out = out[: found.start()] + b"int" + spaces + out[end:]
    return out


def at_compile_time(node: Node) -> bool:
    """Return True for code that is marked as ``constexpr`` in C++."""
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
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "ERROR" or node.is_missing:
            yield node
        elif node.has_error and node.type != "function_definition":
            stack.extend(reversed(node.children))


def without_middle(node: Node) -> bool:
    """Return True for ``a ?: b``, into which no probe can be inserted."""
    if node.type != "conditional_expression":
        return False
    return node.child_by_field_name("consequence") is None


def walk(node: Node) -> Iterator[Node]:
    """Yield the nodes of executable code, in the order of the source."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed([child for child in node.children if _runs(node, child)]))


def _runs(parent: Node, child: Node) -> bool:
    if child.type in _UNEVALUATED:
        return False
    if parent.type == "case_statement" and parent.child_by_field_name("value") == child:
        return False
    if parent.child_by_field_name("condition") == child and at_compile_time(parent):
        return False
    if child.type == "call_expression":
        called = child.child_by_field_name("function")
        return called is None or called.text not in _CONSTANT_CALLS
    if child.type == "declaration":
        kinds = [c.text for c in child.children if c.type == "storage_class_specifier"]
        return b"static" not in kinds and not at_compile_time(child)
    return True


def conditions(function: Node) -> list[Node]:
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


COMPARISONS = {"<": 0, "<=": 1, ">": 2, ">=": 3, "==": 4, "!=": 5}
"""Codes of comparisons in ``rtsim_probes.h``."""


@dataclass(frozen=True)
class Sides:
    """The two sides of a call that decides; ``{0}``, ``{1}`` and ``{2}`` are its operands.

    If the comparison of ``left`` and ``right`` is true, the call takes the side ``one``. Otherwise,
    the call takes the side ``other``.
    """

    one: str
    other: str
    left: str
    relation: str
    right: str
    tied: bool = False
    """False if equal ``left`` and ``right`` make both sides equal, so neither side is taken."""


_LEAST = (Sides("{0}", "{1}", "{0}", "<", "{1}"),)
_LARGEST = (Sides("{0}", "{1}", "{0}", ">", "{1}"),)
_CLAMPED = (
    Sides("{1}", "not {1}", "{0}", "<", "{1}"),
    Sides("{2}", "not {2}", "{0}", ">", "{2}"),
)
_WIDTH = "(?:f|l|f16|f32|f64|f128|f32x|f64x)?"
_ORDERED = {"greater": ">", "greaterequal": ">=", "less": "<", "lessequal": "<="}
_CALLS = {
    rf"fmin(?:imum(?:_num)?)?{_WIDTH}": (2, _LEAST),
    rf"fmax(?:imum(?:_num)?)?{_WIDTH}": (2, _LARGEST),
    rf"fdim{_WIDTH}": (2, (Sides("{0} - {1}", "0", "{0}", ">", "{1}"),)),
    rf"fabs{_WIDTH}|l{{0,2}}abs|imaxabs": (1, (Sides("{0}", "-{0}", "{0}", ">", "0"),)),
    rf"copysign{_WIDTH}": (2, (Sides("positive", "negative", "{1}", ">", "0"),)),
    rf"signbit{_WIDTH}": (1, (Sides("true", "false", "{0}", "<", "0"),)),
    **{
        f"is{name}": (2, (Sides("true", "false", "{0}", relation, "{1}", tied=True),))
        for name, relation in _ORDERED.items()
    },
}
"""Number of operands and sides of the C functions that decide, by name pattern."""
_CALLS_CPP = {"min": (2, _LEAST), "max": (2, _LARGEST), "clamp": (3, _CLAMPED)}
_PREDICATES = re.compile(rf"is(?:nan|inf|finite|normal|unordered|lessgreater){_WIDTH}|isinf_sign")
_PREFIX = re.compile("__builtin_|__tg_|__(?=fabs|signbit|is)")


@dataclass(frozen=True)
class Decision:
    """An expression that decides between two sides."""

    node: Node
    value: bool = False
    """True if the value is used, and not only whether it is 0."""
    operands: tuple[Node, ...] = ()
    """The operands of a call that decides."""
    sides: tuple[Sides, ...] = ()
    """The sides of a call that decides. A clamp has two pairs."""


def decisions(function: Node, cpp: bool, own: Collection[str] = ()) -> list[Decision]:
    """Return the decisions in a function, in the order of the source.

    Decisions are conditions, comparisons, operands of ``!``, and calls such as ``fmin``. Calls of
    the user's functions, ``own``, are omitted, because their source is analysed.
    """
    out = {node.id: Decision(node) for node in conditions(function)}
    for node in walk(function):
        if operator_of(node) == "!":
            for leaf in _leaves(node):
                if not literal(leaf):
                    out.setdefault(leaf.id, Decision(leaf))
        elif operator_of(node) in COMPARISONS and not literal(node):
            out.setdefault(node.id, Decision(node, value=True))
        elif node.type == "call_expression":
            name, operands = _call(node, cpp)
            if name in own or not operands:
                continue
            if _PREDICATES.fullmatch(name):
                out.setdefault(node.id, Decision(node, value=True))
            elif sides := _sides(name, operands, cpp):
                out[node.id] = Decision(node, True, operands, sides)
    return sorted(out.values(), key=lambda one: (one.node.start_byte, one.node.end_byte))


def _call(node: Node, cpp: bool) -> tuple[str, tuple[Node, ...]]:
    called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if called is None or given is None:
        return "", ()
    operands = tuple(one for one in given.named_children if one.type != "comment")
    if called.type == "qualified_identifier" and cpp:
        scope = called.child_by_field_name("scope")
        if scope is not None and scope.text != b"std":
            return "", ()
        called = called.child_by_field_name("name") or called
    if called.type == "template_function":
        called = called.child_by_field_name("name") or called
    if called.type != "identifier":
        return "", ()
    name = _PREFIX.sub("", text_of(called), count=1)
    if name == "tgmath" and operands:
        # The functions for each type precede the operands: fmaxf, fmax, fmaxl, a, b.
        name = text_of(operands[0])
        while operands and any(_known(text_of(operands[0]), cpp)):
            operands = operands[1:]
    return name, operands


def _known(name: str, cpp: bool) -> Iterator[tuple[int, tuple[Sides, ...]]]:
    if cpp and name in _CALLS_CPP:
        yield _CALLS_CPP[name]
    for pattern, known in _CALLS.items():
        if re.fullmatch(pattern, name):
            yield known


def _sides(name: str, operands: tuple[Node, ...], cpp: bool) -> tuple[Sides, ...]:
    for count, sides in _known(name, cpp):
        if count == len(operands) and not all(map(literal, operands)):
            return sides
    return ()


def text_of(node: Node) -> str:
    return "" if node.text is None else node.text.decode(errors="replace")


def hazards(function: Node) -> list[Node]:
    """Return the divisions, shifts, subscripts, sums and products that can cause an error."""
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
    """Return the operator and both operands of a binary expression.

    The operator is "" for other nodes.

    The operator of ``a[i]`` is ``[]``, and that of ``a /= b`` is ``/``. The only operand of ``-a``,
    ``++a`` and ``a--`` is returned twice.
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
    if node.type == "condition_clause":
        node = node.child_by_field_name("value") or node
    while node.type == "parenthesized_expression":
        inner = [c for c in node.named_children if c.type != "comment"]
        if len(inner) != 1 or inner[0].type == "compound_statement":
            break
        node = inner[0]
    return node


def labels(body: Node) -> Iterator[Node]:
    """Yield the labels of a switch, without those of nested switches."""
    stack = list(reversed(body.children))
    while stack:
        node = stack.pop()
        if node.type == "case_statement":
            yield node
        if node.type != "switch_statement":
            stack.extend(reversed(node.children))


def literal(node: Node, names: Collection[str] = ()) -> bool:
    """Return True if an expression contains only literals and the variables ``names``."""
    leaves, stack = [], [node]
    while stack:
        one = stack.pop()
        if one.type == "identifier" and text_of(one) in names:
            continue
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


def name_of(function: Node) -> str:
    node: Node | None = function
    while node is not None and (inner := node.child_by_field_name("declarator")) is not None:
        node = inner
    return "" if node is None or node is function else text_of(node)


def brief(text: bytes, node: Node) -> str:
    """Return the text of a node on one line, for a message."""
    return shortened(text[node.start_byte : node.end_byte].decode(errors="replace"))


def shortened(text: str) -> str:
    """Return a text on one line, with at most ``MOST_TEXT`` characters."""
    words = " ".join(text.split())
    return words if len(words) <= MOST_TEXT else words[: MOST_TEXT - 1] + "…"
