"""Read one function of LLVM's text form as blocks of instructions.

Only the instructions that numba's code contains are read; :class:`NotWidened` names any other. The
text is that of LLVM's printer, with one instruction per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property


class NotWidened(Exception):
    """A function cannot be widened; the text is the reason."""


NAME = r'[%@](?:"(?:[^"\\]|\\.)*"|[-a-zA-Z$._0-9]+)'
_ASSIGNED = re.compile(rf"({NAME}) = (.*)")
_LABEL = re.compile(r'^("(?:[^"]*)"|[-a-zA-Z$._0-9]+):')
_TRAILING = re.compile(r"(, ![-a-zA-Z$._0-9]+ !\S+|, align \d+| #\d+)+$")
_ATTRIBUTES = re.compile(
    r"\b(?:noundef|nonnull|noalias|readonly|writeonly|readnone|writable|dead_on_unwind|initializes"
    r"|dead_on_return|returned|nocapture|immarg|zeroext|signext|inreg|captures|range|nofpclass"
    r"|dereferenceable|dereferenceable_or_null|align)\b"
)


@dataclass(frozen=True)
class Value:
    """An operand with its type, such as ``double %x`` or ``i64 8``."""

    type: str
    name: str

    @property
    def local(self) -> bool:
        """Whether the value is an argument or the result of an instruction."""
        return self.name.startswith("%")


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    ``extra`` contains the words between operation and operands, such as flags and predicates, or
    the label of the predecessor of each operand of a ``phi``, or the name of a called function.
    ``result`` is the type of the result, or ``void``.
    """

    op: str
    name: str
    result: str
    operands: tuple[Value, ...] = ()
    extra: tuple[str, ...] = ()
    of: str = ""
    """Type of the memory that ``alloca`` and ``getelementptr`` describe."""


@dataclass
class Block:
    label: str
    phis: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    condition: Value | None = None
    """Condition of a branch, value of a switch, or result of a return."""
    targets: tuple[str, ...] = ()
    """The labels of the next blocks; the first one is taken if the condition holds."""
    cases: tuple[str, ...] = ()
    """Values of a switch; its first target is the default."""
    end: str = ""
    """One of ``br``, ``switch``, ``ret`` and ``unreachable``."""


@dataclass
class Function:
    name: str
    result: str
    arguments: tuple[Value, ...]
    blocks: dict[str, Block]

    @cached_property
    def defined(self) -> dict[str, tuple[str, Instruction]]:
        """The block and the instruction of each local value."""
        return {
            one.name: (block.label, one)
            for block in self.blocks.values()
            for one in (*block.phis, *block.body)
            if one.name
        }


def definition_of(text: str, name: str) -> str:
    """Return the text of the definition of a function in the text of a module."""
    quoted = f'(?:{re.escape(name)}|"{re.escape(name)}")'
    found = re.search(rf"^define [^\n]*@{quoted}\(.*?^}}$", text, re.M | re.S)
    if found is None:
        raise NotWidened(f"the code contains no function {name}")
    return found.group(0)


def function_of(definition: str) -> Function:
    """Return the function that ``definition`` contains; raise :class:`NotWidened` if impossible."""
    head, _, rest = definition.partition("\n")
    start = head.index("(", head.index("@"))
    name = head[head.index("@") + 1 : start].strip('"')
    result = _plain(head[len("define") : head.index("@")]).split()[-1]
    arguments = tuple(
        Value(*_typed(_plain(one))) for one in _commas(_inside(head, start)) if one.strip()
    )
    blocks: dict[str, Block] = {}
    block: Block | None = None
    for line in _lines(rest):
        label = _LABEL.match(line)
        if label and not line.startswith(" "):
            block = blocks[label.group(1).strip('"')] = Block(label.group(1).strip('"'))
            continue
        if block is None:
            block = blocks["the entry"] = Block("the entry")
        _add(block, line.strip())
    return Function(name, result, arguments, blocks)


def _lines(text: str) -> Iterator[str]:
    held = ""
    for line in text.splitlines():
        cut = line.partition(" ; ")[0].rstrip() if '"' not in line else line.rstrip()
        if cut.startswith("}") or not cut.strip() or cut.strip().startswith((";", "#dbg")):
            continue
        held = f"{held} {cut.strip()}" if held else cut
        if held.strip().startswith("switch ") and "]" not in held:
            continue
        yield held
        held = ""


def _inside(text: str, start: int) -> str:
    """Return the text between the parenthesis at ``start`` and its partner."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        if text[i] == '"':
            quoted = not quoted
        elif not quoted:
            depth += (text[i] in "([{<") - (text[i] in ")]}>")
            if not depth:
                return text[start + 1 : i]
    raise NotWidened(f"the line {text[:80]!r} is not understood")


def _commas(text: str) -> list[str]:
    out, depth, quoted, last = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted:
            depth += (c in "([{<") - (c in ")]}>")
            if c == "," and not depth:
                out.append(text[last:i].strip())
                last = i + 1
    return [*out, text[last:].strip()]


def _plain(text: str) -> str:
    """Return the text without attributes of arguments."""
    out, text = [], text.strip()
    while text:
        found = _ATTRIBUTES.match(text)
        if found is None:
            token = re.match(r'[%@]?"[^"]*"|\S+', text)
            assert token is not None
            if text[0] in "[{<(":
                inner = _inside(text, 0)
                out.append(text[0] + inner + text[len(inner) + 1])
                text = text[len(inner) + 2 :].lstrip()
                continue
            out.append(token.group(0))
            text = text[token.end() :].lstrip()
            continue
        word, text = found.group(0), text[found.end() :].lstrip()
        if text.startswith("("):
            text = text[len(_inside(text, 0)) + 2 :].lstrip()
        elif word == "align":
            text = text.partition(" ")[2].lstrip()
    return " ".join(out)


def _typed(text: str) -> tuple[str, str]:
    """Return the type and the name of an operand."""
    text = text.strip()
    if text[0] in "[{<":
        inner = _inside(text, 0)
        kind = text[0] + inner + text[len(inner) + 1]
        return kind, text[len(kind) :].strip()
    kind, _, rest = text.partition(" ")
    return kind, rest.strip()


def _add(block: Block, line: str) -> None:
    found = _ASSIGNED.match(line)
    name, text = found.groups() if found else ("", line)
    text = _TRAILING.sub("", text)
    word, _, rest = text.partition(" ")
    if word in ("tail", "musttail", "notail"):
        word, _, rest = rest.partition(" ")
    if word in _ENDS:
        _end(block, word, rest)
    elif word == "phi":
        block.phis.append(_phi(name, rest))
    elif word in _READERS:
        block.body.append(replace(_READERS[word](word, rest), name=name))
    elif word in _BINARY:
        block.body.append(_binary(word, name, rest))
    elif word in CASTS:
        block.body.append(_cast(word, name, rest))
    else:
        raise NotWidened(f"the instruction {word} is unknown")


_ENDS = ("br", "switch", "ret", "unreachable")


def _label(text: str) -> str:
    return text.split("%", 1)[1].strip().strip('"')


def _end(block: Block, word: str, rest: str) -> None:
    block.end = word
    if word == "br":
        parts = _commas(rest)
        if len(parts) == 3:
            block.condition = Value(*_typed(parts[0]))
            block.targets = _label(parts[1]), _label(parts[2])
        else:
            block.targets = (_label(parts[0]),)
    elif word == "switch":
        head, _, table = rest.partition("[")
        value, default = _commas(head)
        block.condition = Value(*_typed(value))
        pairs = re.findall(rf"\w+ (-?\w+), label ({NAME})", table)
        block.targets = (_label(default), *(_label(target) for _, target in pairs))
        block.cases = tuple(case for case, _ in pairs)
    elif word == "ret" and rest.strip() != "void":
        block.condition = Value(*_typed(rest))


def _phi(name: str, rest: str) -> Instruction:
    while rest.split(" ", 1)[0] in _FAST:
        rest = rest.partition(" ")[2]
    kind, rest = _typed(rest)
    operands, labels = [], []
    for pair in _commas(rest):
        value, label = _commas(pair.strip()[1:-1])
        operands.append(Value(kind, value))
        labels.append(_label(label))
    return Instruction("phi", name, kind, tuple(operands), tuple(labels))


_FAST = frozenset(("fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"))
INEXACT = frozenset(("fast", "arcp", "contract", "afn", "reassoc"))
"""Flags that allow a compiler to round differently."""
_FLAGS = {*_FAST, "nuw", "nsw", "exact", "disjoint", "nneg", "inbounds", "nusw", "samesign"}
_BINARY = frozenset((
    "fadd", "fsub", "fmul", "fdiv", "frem", "add", "sub", "mul", "sdiv", "udiv", "srem", "urem",
    "shl", "lshr", "ashr", "and", "or", "xor",
))  # fmt: skip
CASTS = frozenset((
    "fptosi", "fptoui", "sitofp", "uitofp", "sext", "zext", "trunc", "bitcast", "inttoptr",
    "ptrtoint", "fpext", "fptrunc",
))  # fmt: skip


def _flags(rest: str) -> tuple[tuple[str, ...], str]:
    flags = []
    while rest.split(" ", 1)[0] in _FLAGS:
        flag, _, rest = rest.partition(" ")
        flags.append(flag)
    if INEXACT & set(flags):
        raise NotWidened("fast-math allows other rounding")
    return tuple(flags), rest


def _scalar(kind: str) -> str:
    if kind.startswith("<"):
        raise NotWidened(f"the code already contains vectors ({kind})")
    return kind


def _binary(word: str, name: str, rest: str) -> Instruction:
    flags, rest = _flags(rest)
    first, second = _commas(rest)
    kind, value = _typed(first)
    return Instruction(word, name, _scalar(kind), (Value(kind, value), Value(kind, second)), flags)


def _cast(word: str, name: str, rest: str) -> Instruction:
    flags, rest = _flags(rest)
    value, _, kind = rest.rpartition(" to ")
    return Instruction(word, name, _scalar(kind.strip()), (Value(*_typed(value)),), flags)


def _compare(word: str, rest: str) -> Instruction:
    flags, rest = _flags(rest)
    predicate, _, rest = rest.partition(" ")
    first, second = _commas(rest)
    kind, value = _typed(first)
    operands = Value(_scalar(kind), value), Value(kind, second)
    return Instruction(word, "", "i1", operands, (*flags, predicate))


def _values(word: str, rest: str) -> Instruction:
    flags, rest = _flags(rest)
    operands = tuple(Value(*_typed(one)) for one in _commas(rest))
    return Instruction(word, "", _scalar(operands[-1].type), operands, flags)


def _load(word: str, rest: str) -> Instruction:
    if rest.split(" ", 1)[0] in ("volatile", "atomic"):
        raise NotWidened("memory is shared with other threads")
    kind, pointer = _commas(rest)[:2]
    return Instruction(word, "", _scalar(kind), (Value(*_typed(pointer)),))


def _store(word: str, rest: str) -> Instruction:
    if rest.split(" ", 1)[0] in ("volatile", "atomic"):
        raise NotWidened("memory is shared with other threads")
    value, pointer = (Value(*_typed(one)) for one in _commas(rest)[:2])
    _scalar(value.type)
    return Instruction(word, "", "void", (value, pointer))


def _element(word: str, rest: str) -> Instruction:
    flags, rest = _flags(rest)
    of, *operands = _commas(rest)
    found = tuple(Value(*_typed(one)) for one in operands)
    return Instruction(word, "", "ptr", found, flags, of)


def _alloca(word: str, rest: str) -> Instruction:
    return Instruction(word, "", "ptr", (), (), _commas(rest)[0])


def _call(word: str, rest: str) -> Instruction:
    _, rest = _flags(rest)
    start = _first_call(rest)
    head = _plain(rest[:start])
    *result, callee = head.split(" ") if '"' not in head else (head[: head.index('"') - 2], "")
    if '"' in head:
        callee = head[head.index('"') - 1 :]
    arguments = tuple(
        Value(*_typed(_plain(one))) for one in _commas(_inside(rest, start)) if one.strip()
    )
    return Instruction(word, "", _scalar(" ".join(result).strip()), arguments, (callee.strip(),))


def _first_call(text: str) -> int:
    """Return the index of the parenthesis after the name of the called function."""
    found = re.search(rf"{NAME}\(", text)
    if found is None:
        raise NotWidened("a call is not understood")
    return found.end() - 1


_READERS = {
    "icmp": _compare, "fcmp": _compare, "select": _values, "freeze": _values, "fneg": _values,
    "load": _load, "store": _store, "getelementptr": _element, "alloca": _alloca, "call": _call,
}  # fmt: skip


# Sizes of types


def size_of(kind: str) -> int:
    """Return the size of a type in bytes, with padding."""
    return _layout(kind)[0]


def _layout(kind: str) -> tuple[int, int]:
    kind = kind.strip()
    if kind in ("double", "ptr"):
        return 8, 8
    if kind == "float":
        return 4, 4
    if re.fullmatch(r"i\d+", kind):
        size = max(1, int(kind[1:]) // 8)
        return size, size
    if kind.startswith("["):
        count, _, of = kind[1:-1].partition(" x ")
        size, align = _layout(of)
        return int(count) * size, align
    if kind.startswith("{"):
        _, size, align = _fields(kind)
        return -(-size // align) * align, align
    raise NotWidened(f"the type {kind} is unknown")


def _fields(kind: str) -> tuple[list[int], int, int]:
    offsets, at, most = [], 0, 1
    for one in _commas(kind[1:-1]):
        size, align = _layout(one)
        at = -(-at // align) * align
        offsets.append(at)
        at, most = at + size, max(most, align)
    return offsets, at, most


def offsets_of(of: str, indices: tuple[Value, ...]) -> tuple[int, list[tuple[Value, int]]]:
    """Return the offset of a ``getelementptr``: constant bytes, and indices with their factors."""
    constant, factors = 0, []
    kind = f"[0 x {of}]"
    for index in indices:
        if kind.startswith("["):
            kind = kind[1:-1].partition(" x ")[2]
            if index.local:
                factors.append((index, size_of(kind)))
            else:
                constant += int(index.name) * size_of(kind)
        elif kind.startswith("{"):
            constant += _fields(kind)[0][int(index.name)]
            kind = _commas(kind[1:-1])[int(index.name)]
        else:
            raise NotWidened(f"an address in the type {kind} is unknown")
    return constant, factors
