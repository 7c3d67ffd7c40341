"""Widen a compiled function: one call computes it for several lanes, with the bits of single calls.

The function is the one that numba has compiled, as LLVM code. Each number becomes a vector with one
element per lane. Values that are equal in all lanes, such as loop counters, sizes and addresses,
remain single values. A vector in memory becomes a matrix: element ``i`` of lane ``j`` is at
``i * width + j``.

Blocks on which lanes disagree run one after the other, each under a mask. A loop under a mask runs
until the last lane has left it. Functions of the C library are called once per lane. LLVM rounds
each element of a vector as it rounds a single number, so the results have the same bits.
:class:`~rtsim.equations.llvm_text.NotWidened` names what cannot be widened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rtsim.equations.divergence import CONSTANT, EXIT, LANES, RAISED, WORDS, Divergence
from rtsim.equations.llvm_text import (
    CASTS,
    Block,
    Instruction,
    NotWidened,
    Value,
    definition_of,
    function_of,
    offsets_of,
    size_of,
)
from rtsim.equations.vector_text import VectorText

_EXACT = frozenset((
    "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "copysign",
    "minnum", "maxnum", "minimum", "maximum", "fma", "smin", "smax", "umin", "umax", "ctpop",
    "bswap", "bitreverse", "fshl", "fshr", "canonicalize",
    "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat",
))  # fmt: skip
"""Intrinsic functions whose vector form computes each element exactly like the scalar form."""
_WITH_CONSTANT = frozenset(("abs", "ctlz", "cttz", "powi", "is.fpclass"))
"""Intrinsic functions of one value and one constant."""
_NOTHING = ("lifetime.", "assume", "experimental.noalias.scope.decl", "dbg.", "donothing")
EXACT_IN_C = {
    "sqrt": "sqrt", "fabs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "copysign": "copysign", "rint": "rint",
}  # fmt: skip
"""Functions of the C library whose results IEEE 754 defines, and LLVM's names of them."""
IN_C = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "exp10", "expm1", "fma", "fmod", "hypot", "ldexp", "lgamma", "log",
    "log10", "log1p", "log2", "nearbyint", "pow", "remainder", "round", "sin", "sinh", "tan",
    "tanh", "tgamma",
))  # fmt: skip
"""Functions of the C library that are called once per lane."""
_PLACE = 16
"""Size of the address and the length of a vector that is passed to a function, bytes."""
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_LONG = 24
"""A block with more instructions is skipped if no lane needs it."""
_REFERENCES = ("NRT_incref", "NRT_decref")


@dataclass(frozen=True)
class Widened:
    """The LLVM code of a widened function.

    ``called`` contains the number of calls of the C library per lane, by name of the function.
    """

    text: str
    name: str
    called: dict[str, int]
    masked: int
    """Number of blocks under a mask."""


def widen(module: str, name: str, width: int, new: str) -> Widened:
    """Widen the function ``name`` of an LLVM module; the result is called ``new``.

    ``name`` is a function of numba: it returns a status, and its first two arguments are the
    addresses of the result and of the exception. The widened function returns a status other than 0
    if a lane fails; then the caller must compute each lane on its own, and ignore the results.
    Raises :class:`NotWidened` if impossible.
    """
    found = Divergence(function_of(definition_of(module, name)))
    return _Writer(found, module, width, new).write()


class _Writer(VectorText):
    def __init__(self, found: Divergence, module: str, width: int, new: str) -> None:
        self._found, self._function, self._graph = found, found.function, found.graph
        super().__init__(width)
        self._module, self._new = module, new
        self._heads: list[str] = []
        """The allocations at the beginning of the function."""
        self._places: dict[str, str] = {}
        self._declared: dict[str, str] = {}
        self._labels = {label: f"b{i}" for i, label in enumerate(self._function.blocks)}
        self._mask = ""
        self._called: dict[str, int] = {}
        self._all = self._list("i1", "true")
        self._memory_of = found.memory_of

    def write(self) -> Widened:
        function = self._function
        arguments = []
        for i, one in enumerate(function.arguments):
            kind = self._vector(one.type) if one.type == "double" else one.type
            arguments.append(f"{kind} %a{i}")
        given = {one.name: i for i, one in enumerate(function.arguments)}
        self._given = given
        first = next(iter(function.blocks))
        for label, block in function.blocks.items():
            if label not in self._found.masked:
                self._block(label, block)
        body, self._lines = self._lines, []
        head = f"define i32 @{self._new}({', '.join(arguments)}) {{\nentry:"
        lines = [head, *self._heads, f"  br label %{self._labels[first]}", *body, "}"]
        declared = [one for one in self._declared.values() if one]
        text = "\n".join((*lines, *declared, *self._globals("\n".join(lines))))
        return Widened(text + "\n", self._new, self._called, len(self._found.masked))

    def _globals(self, text: str) -> list[str]:
        """Return the definitions of the constants that ``text`` uses."""
        out, waiting, seen = [], [text], set[str]()
        definitions = {
            m.group(1): m.group(0)
            for m in re.finditer(r'^@("[^"]*"|[-\w$.]+) = [^\n]*$', self._module, re.M)
        }
        while waiting:
            for name in re.findall(r'@("[^"]*"|[-\w$.]+)', waiting.pop()):
                if name in definitions and name not in seen:
                    seen.add(name)
                    line = definitions[name]
                    if not re.search(r"\bconstant\b", line):
                        raise NotWidened(f"it uses the variable {name}")
                    line = re.sub(
                        r"= (?:linkonce_odr|weak_odr|common|internal|private|external)\b",
                        "= internal", line,
                    )  # fmt: skip
                    out.append(line.partition(", comdat")[0])
                    waiting.append(line.partition(" = ")[2])
        return out

    # Values

    def _form(self, value: Value) -> bool:
        return value.name in self._found.varying

    def _place(self, name: str, kind: str) -> str:
        if name not in self._places:
            self._count += 1
            self._places[name] = f"%p{self._count}"
            self._heads.append(f"  {self._places[name]} = alloca {kind}")
        return self._places[name]

    def _type_of(self, value: Value) -> str:
        return self._vector(value.type) if self._form(value) else value.type

    def _own(self, value: Value) -> str:
        """Return the operand in its own form."""
        if not value.local:
            return value.name
        key = value.name, self._form(value)
        if key not in self._known:
            if value.name in self._given:
                return f"%a{self._given[value.name]}"
            kind = self._type_of(value)
            self._known[key] = self._put(f"load {kind}, ptr {self._place(value.name, kind)}")
        return self._known[key]

    def _single(self, value: Value) -> str:
        assert not self._form(value), value
        return self._own(value)

    def _wide(self, value: Value) -> str:
        """Return the operand as a vector."""
        if self._form(value):
            return self._own(value)
        if not value.local and "(" not in value.name:
            return self._list(value.type, value.name)
        key = value.name, True
        if key not in self._known:
            self._known[key] = self._spread(value.type, self._own(value))
        return self._known[key]

    def _keep(self, block: Block, one: Instruction, name: str) -> None:
        """Note the result of an instruction, and store it for other blocks."""
        value = Value(one.result, one.name)
        self._known[one.name, self._form(value)] = name
        uses = self._found.uses.get(one.name, set())
        if uses <= {block.label} and one.op != "phi":
            return
        kind = self._type_of(value)
        place = self._place(one.name, kind)
        if self._mask and self._form(value):
            loop = self._graph.loop_of(block.label, self._found.masked)
            if loop and not uses <= loop:
                before = self._put(f"load {kind}, ptr {place}")
                mask = self._vector("i1")
                name = self._put(f"select {mask} {self._mask}, {kind} {name}, {kind} {before}")
        self._say(f"store {kind} {name}, ptr {place}")

    # Blocks

    def _block(self, label: str, block: Block) -> None:
        self._open(self._labels[label])
        self._mask = ""
        self._body(block)
        if label == EXIT:
            self._return(block)
        elif label in self._found.split:
            self._region(label, block)
        else:
            self._go_on(block)

    def _body(self, block: Block) -> None:
        for one in block.body:
            self._instruction(block, one)

    def _return(self, block: Block) -> None:
        assert block.condition is not None
        status = block.condition
        if not self._form(status):
            self._say(f"ret i32 {self._single(status)}")
            return
        bad = self._put(f"icmp ne {self._vector('i32')} {self._wide(status)}, zeroinitializer")
        self._say(f"ret i32 {self._put(f'zext i1 {self._any(bad)} to i32')}")

    def _any(self, mask: str) -> str:
        bits = self._put(f"bitcast {self._vector('i1')} {mask} to i{self._width}")
        return self._put(f"icmp ne i{self._width} {bits}, 0")

    def _go_on(self, block: Block) -> None:
        """End a block after which all lanes take the same way."""
        if len(set(block.targets)) == 1:
            self._phis(block.label, block.targets[0])
            self._say(f"br label %{self._labels[block.targets[0]]}")
            return
        assert block.condition is not None
        given = self._single(block.condition)
        ways = []
        for target in block.targets:
            ways.append(self._fresh_label() if self._graph.blocks[target].phis else
                        self._labels[target])  # fmt: skip
        kind = block.condition.type
        if block.end == "switch":
            table = " ".join(
                f"{kind} {case}, label %{way}"
                for case, way in zip(block.cases, ways[1:], strict=True)
            )
            self._say(f"switch {kind} {given}, label %{ways[0]} [ {table} ]")
        else:
            self._say(f"br i1 {given}, label %{ways[0]}, label %{ways[1]}")
        known = dict(self._known)
        for way, target in zip(ways, block.targets, strict=True):
            if way != self._labels[target]:
                self._open(way)
                self._known = dict(known)  # the block before dominates this one
                self._phis(block.label, target)
                self._say(f"br label %{self._labels[target]}")

    def _phis(self, label: str, target: str) -> None:
        """Store the values that ``target`` receives from the block ``label``."""
        for place, kind, name, _ in self._received(label, target):
            self._say(f"store {kind} {name}, ptr {place}")

    def _received(self, label: str, target: str) -> list[tuple[str, str, str, bool]]:
        """Return place, type and name of each value that ``target`` receives from ``label``."""
        found = []
        for phi in self._graph.blocks[target].phis:
            value = phi.operands[phi.extra.index(label)]
            wide = phi.name in self._found.varying
            kind = self._vector(phi.result) if wide else phi.result
            name = self._wide(value) if wide else self._single(value)
            found.append((self._place(phi.name, kind), kind, name, wide))
        return found

    # Blocks under a mask

    def _region(self, label: str, block: Block) -> None:
        region, end = self._found.region_of(label)
        bits = self._vector("i1")
        masks = {one: self._place(f"mask {one}", bits) for one in region}
        for place in masks.values():
            self._say(f"store {bits} zeroinitializer, ptr {place}")
        self._ways(block, "", masks)
        items = self._graph.in_line(region)
        labels = [self._fresh_label() for _ in items] + [self._labels[end]]
        self._say(f"br label %{labels[0]}")
        opened: dict[str, int] = {}
        closes = {what: i for i, (kind, what) in enumerate(items) if kind == "close"}
        for i, (kind, one) in enumerate(items):
            self._open(labels[i])
            following = labels[i + 1]
            if kind == "block":
                self._masked_block(one, masks, following, bool(opened))
                continue
            if kind == "open":
                opened[one] = i
            mask = self._put(f"load {bits}, ptr {masks[one]}")
            ahead, out = labels[i + 1], labels[closes[one] + 1]
            if kind == "close":
                ahead = labels[opened.pop(one) + 1]
            self._say(f"br i1 {self._any(mask)}, label %{ahead}, label %{out}")

    def _masked_block(self, label: str, masks: dict[str, str], following: str, again: bool) -> None:
        block, bits = self._graph.blocks[label], self._vector("i1")
        mask = self._put(f"load {bits}, ptr {masks[label]}")
        if again:
            self._say(f"store {bits} zeroinitializer, ptr {masks[label]}")
        if self._skipped(block):
            inside = self._fresh_label()
            self._say(f"br i1 {self._any(mask)}, label %{inside}, label %{following}")
            self._open(inside)
        self._mask = mask
        self._body(block)
        self._ways(block, mask, masks)
        self._mask = ""
        self._say(f"br label %{following}")

    def _skipped(self, block: Block) -> bool:
        """Return whether the block must not run, or is too long to run, without a lane."""
        if len(block.body) > _LONG:
            return True
        for one in block.body:
            if one.op == "call" and not self._cheap(one.extra[0]):
                return True
            at_one_place = one.op in ("load", "store") and not self._form(one.operands[-1])
            if at_one_place and self._memory_of(one.operands[-1]) != RAISED:
                return True
            if one.op in _DIVISIONS and not self._form(one.operands[1]):
                return True
        return False

    @staticmethod
    def _cheap(callee: str) -> bool:
        word = callee.removeprefix("@").removeprefix("llvm.").rpartition(".")[0]
        return callee.startswith("@llvm.") and word in _EXACT

    def _ways(self, block: Block, mask: str, masks: dict[str, str]) -> None:
        """Add the lanes that leave ``block`` to the masks of the next blocks."""
        edges, bits = self._edges(block, mask), self._vector("i1")
        # A stored value may be one that another way reads, so all are read first.
        received = {target: self._received(block.label, target) for target in edges}
        for target, edge in edges.items():
            if target in masks:
                before = self._put(f"load {bits}, ptr {masks[target]}")
                added = self._put(f"or {bits} {before}, {edge}")
                self._say(f"store {bits} {added}, ptr {masks[target]}")
            for place, kind, name, wide in received[target]:
                if wide:
                    before = self._put(f"load {kind}, ptr {place}")
                    name = self._put(f"select {bits} {edge}, {kind} {name}, {kind} {before}")
                self._say(f"store {kind} {name}, ptr {place}")

    def _edges(self, block: Block, mask: str) -> dict[str, str]:
        bits = self._vector("i1")
        targets = list(dict.fromkeys(block.targets))
        if len(targets) == 1:
            return {targets[0]: mask or self._all}
        assert block.condition is not None
        given, kind = self._wide(block.condition), self._vector(block.condition.type)
        yes, no = self._all, "zeroinitializer"

        def both(condition: str) -> str:
            # A selection, because the condition of a lane outside the mask may be poison.
            if not mask:
                return condition
            return self._put(f"select {bits} {mask}, {bits} {condition}, {bits} {no}")

        if block.end == "br":
            opposite = self._put(f"xor {bits} {given}, {yes}")
            return {block.targets[0]: both(given), block.targets[1]: both(opposite)}
        out: dict[str, str] = {}
        rest = mask or self._all
        for case, target in zip(block.cases, block.targets[1:], strict=True):
            same = self._put(f"icmp eq {kind} {given}, {self._list(block.condition.type, case)}")
            edge = both(same)
            out[target] = self._put(f"or {bits} {out[target]}, {edge}") if target in out else edge
            opposite = self._put(f"xor {bits} {edge}, {yes}")
            rest = self._put(f"select {bits} {opposite}, {bits} {rest}, {bits} {no}")
        default = block.targets[0]
        out[default] = self._put(f"or {bits} {out[default]}, {rest}") if default in out else rest
        return out

    # Instructions

    def _instruction(self, block: Block, one: Instruction) -> None:
        if one.op == "alloca":
            self._allocate(block, one)
        elif one.op == "load":
            self._load(block, one)
        elif one.op == "store":
            self._store(one)
        elif one.op == "call":
            self._call(block, one)
        elif one.op == "getelementptr":
            self._element(block, one)
        elif any(map(self._form, one.operands)):
            self._keep(block, one, self._each(one))
        else:
            name = self._once(one)
            if one.name in self._found.varying:
                name = self._spread(one.result, name)
            self._keep(block, one, name)

    def _only_passed(self, address: str) -> bool:
        """Return whether an address is only passed on, perhaps at a distance."""
        for block in self._function.blocks.values():
            for one in block.body:
                if any(v.name == address for v in one.operands):
                    passed = one.op in ("store", "inttoptr")
                    if not passed and not (one.op == "add" and self._only_passed(one.name)):
                        return False
        return not any(v.name == address for b in self._function.blocks.values()
                       for phi in b.phis for v in phi.operands)  # fmt: skip

    def _flags(self, one: Instruction) -> str:
        return " ".join((one.op, *one.extra))

    def _once(self, one: Instruction) -> str:
        """Write an instruction whose operands are equal in all lanes."""
        if one.op == "ptrtoint" and not self._only_passed(one.name):
            raise NotWidened("it computes an address")
        names = [self._single(v) for v in one.operands]
        kinds = [v.type for v in one.operands]
        return self._put(self._written(one, one.result, kinds, names))

    def _each(self, one: Instruction) -> str:
        """Write an instruction for all lanes."""
        if one.op in ("inttoptr", "ptrtoint"):
            raise NotWidened("it computes an address from numbers")
        operands = list(one.operands)
        names = [self._wide(v) for v in operands]
        kinds = [self._vector(v.type) for v in operands]
        if one.op == "select" and not self._form(operands[0]):
            names[0], kinds[0] = self._single(operands[0]), "i1"
        if self._mask and one.op in _DIVISIONS:  # a lane outside the mask must not divide by zero
            bits, kind = self._vector("i1"), kinds[0]
            for i, safe in enumerate((0, 1)):
                value = self._list(operands[0].type, str(safe))
                names[i] = self._put(
                    f"select {bits} {self._mask}, {kind} {names[i]}, {kind} {value}"
                )
        result = self._vector(one.result)
        name = self._put(self._written(one, result, kinds, names))
        if one.op in ("fptosi", "fptoui"):
            # Of a number out of range, the processor's result counts, as in a single call. Without
            # this, LLVM may assume another value in each place.
            return self._put(f"freeze {result} {name}")
        return name

    def _written(
        self, one: Instruction, result: str, kinds: Sequence[str], names: Sequence[str]
    ) -> str:
        if one.op in CASTS:
            return f"{self._flags(one)} {kinds[0]} {names[0]} to {result}"
        if one.op == "select":
            pairs = ", ".join(f"{k} {n}" for k, n in zip(kinds, names, strict=True))
            return f"{self._flags(one)} {pairs}"
        return f"{self._flags(one)} {kinds[0]} {', '.join(names)}"

    # Memory

    def _allocate(self, block: Block, one: Instruction) -> None:
        name = self._new_name()
        kind = one.of
        if self._found.memory[one.name] == LANES:
            kind = f"[{-(-size_of(one.of) * self._width // 8)} x i64]"
        self._heads.append(f"  {name} = alloca {kind}, align 64")
        self._keep(block, one, name)

    def _element(self, block: Block, one: Instruction) -> None:
        pointer, *indices = one.operands
        memory = self._memory_of(Value("ptr", one.name))
        if memory != LANES:
            varying = any(map(self._form, one.operands))
            if varying and memory != CONSTANT:
                raise NotWidened("the address of a table differs between lanes")
            pairs = [f"{self._type_of(v)} {self._own(v)}" for v in one.operands]
            if not varying and one.name in self._found.varying:
                name = self._put(f"{self._flags(one)} {one.of}, {', '.join(pairs)}")
                self._keep(block, one, self._spread("ptr", name))
                return
            self._keep(block, one, self._put(f"{self._flags(one)} {one.of}, {', '.join(pairs)}"))
            return
        constant, factors = offsets_of(one.of, tuple(indices))
        varying = any(map(self._form, one.operands))
        kind = self._vector("i64") if varying else "i64"

        def number(value: int) -> str:
            return self._list("i64", str(value)) if varying else str(value)

        offset = number(constant * self._width)
        for index, factor in factors:
            name = self._wide(index) if varying else self._single(index)
            if index.type != "i64":
                own = self._vector(index.type) if varying else index.type
                name = self._put(f"sext {own} {name} to {kind}")
            name = self._put(f"mul {kind} {name}, {number(factor * self._width)}")
            offset = self._put(f"add {kind} {offset}, {name}")
        base = f"{self._type_of(pointer)} {self._own(pointer)}"
        name = self._put(f"getelementptr i8, {base}, {kind} {offset}")
        if not varying and one.name in self._found.varying:
            name = self._spread("ptr", name)
        self._keep(block, one, name)

    def _addresses(self, pointer: Value, kind: str, memory: str) -> str:
        """Return the addresses of the elements of all lanes."""
        name = self._wide(pointer)
        if memory != LANES:
            return name
        steps = ", ".join(f"i64 {size_of(kind) * j}" for j in range(self._width))
        pointers, offsets = self._vector("ptr"), self._vector("i64")
        return self._put(f"getelementptr i8, {pointers} {name}, {offsets} <{steps}>")

    def _suffix(self, kind: str) -> str:
        short = {"double": "f64", "float": "f32", "ptr": "p0"}.get(kind, kind)
        return f"v{self._width}{short}"

    def _intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]]) -> str:
        given = list(arguments)
        self._declared[name] = f"declare {result} @{name}({', '.join(k for k, _ in given)})"
        pairs = ", ".join(f"{kind} {value}" for kind, value in given)
        return f"call {result} @{name}({pairs})"

    def _check_size(self, kind: str, memory: str) -> None:
        if memory == LANES and size_of(kind) != 8 and kind != "i32":
            raise NotWidened(f"a vector contains {kind}")

    def _load(self, block: Block, one: Instruction) -> None:
        (pointer,) = one.operands
        memory, kind = self._memory_of(pointer), one.result
        self._check_size(kind, memory)
        vector, bits = self._vector(kind), self._vector("i1")
        if memory == LANES and kind == "ptr":
            raise NotWidened("a vector contains addresses")
        if self._form(pointer):
            if memory not in (LANES, CONSTANT):
                raise NotWidened("the address of a table differs between lanes")
            name = self._put(self._intrinsic(
                f"llvm.masked.gather.{self._suffix(kind)}.{self._suffix('ptr')}", vector,
                ((self._vector("ptr"), self._addresses(pointer, kind, memory)),
                 *self._aligned(kind), (bits, self._mask or self._all), (vector, "poison")),
            ))  # fmt: skip
        elif memory == LANES:
            name = self._put(f"load {vector}, ptr {self._single(pointer)}, align {size_of(kind)}")
        else:
            name = self._put(f"load {kind}, ptr {self._single(pointer)}")
            if one.name in self._found.varying:
                name = self._spread(kind, name)
        self._keep(block, one, name)

    def _aligned(self, kind: str) -> tuple[tuple[str, str], ...]:
        return (("i32", str(size_of(kind))),)

    def _store(self, one: Instruction) -> None:
        value, pointer = one.operands
        memory, kind = self._memory_of(pointer), value.type
        if memory == RAISED:
            return  # after a failure, each lane runs on its own
        if memory == CONSTANT:
            raise NotWidened("it writes to a constant")
        if memory == WORDS:
            if self._mask or self._form(pointer) or self._form(value):
                raise NotWidened("lanes pass different vectors to a function")
            name = self._single(value)
            if kind == "i64" and self._is_for_address(pointer):
                name = self._moved_address(value)
            self._say(f"store {kind} {name}, ptr {self._single(pointer)}")
            return
        self._check_size(kind, memory)
        vector, bits = self._vector(kind), self._vector("i1")
        new = self._wide(value)
        if self._form(pointer):
            name = f"llvm.masked.scatter.{self._suffix(kind)}.{self._suffix('ptr')}"
            addresses = self._addresses(pointer, kind, memory)
            self._say(self._intrinsic(name, "void", (
                (vector, new), (self._vector("ptr"), addresses), *self._aligned(kind),
                (bits, self._mask or self._all),
            )))  # fmt: skip
        elif self._mask:
            name = f"llvm.masked.store.{self._suffix(kind)}.p0"
            self._say(self._intrinsic(name, "void", (
                (vector, new), ("ptr", self._single(pointer)), *self._aligned(kind),
                (bits, self._mask),
            )))  # fmt: skip
        else:
            self._say(f"store {vector} {new}, ptr {self._single(pointer)}, align {size_of(kind)}")

    def _is_for_address(self, pointer: Value) -> bool:
        """Return whether a word of a vector's address is at ``pointer``, and not its length."""
        offset, place = 0, pointer
        while True:
            found = self._function.defined.get(place.name)
            if found is None or found[1].op not in ("alloca", "getelementptr"):
                raise NotWidened("a table of vectors is not understood")
            one = found[1]
            if one.op == "alloca":
                return offset % _PLACE == 0
            constant, factors = offsets_of(one.of, one.operands[1:])
            if factors:
                raise NotWidened("a table of vectors is not understood")
            offset, place = offset + constant, one.operands[0]

    def _moved_address(self, value: Value) -> str:
        """Return an address, in which the distance from a vector's begin grows with the lanes."""
        if not value.local:
            return value.name
        one = self._made(value)
        if self._begins_vector(value):
            return self._single(value)
        if one.op == "add":
            for base, distance in (one.operands, one.operands[::-1]):
                if self._begins_vector(base) and not self._begins_vector(distance):
                    far = self._put(f"mul i64 {self._single(distance)}, {self._width}")
                    return self._put(f"add i64 {self._single(base)}, {far}")
        raise NotWidened("it computes an address")

    def _made(self, value: Value) -> Instruction:
        found = self._function.defined.get(value.name)
        if found is None:
            raise NotWidened("it computes an address")
        return found[1]

    def _begins_vector(self, value: Value) -> bool:
        """Return whether an integer is an address from a table, or of a vector of all lanes."""
        if not value.local:
            return False
        one = self._made(value)
        if one.op == "ptrtoint":
            return self._memory_of(one.operands[0]) == LANES
        return one.op == "load" and self._memory_of(one.operands[0]) == WORDS

    # Calls

    def _call(self, block: Block, one: Instruction) -> None:
        (callee,) = one.extra
        if callee.startswith("%"):
            self._call_address(block, one, callee)
            return
        name = callee.removeprefix("@").strip('"')
        if name.startswith("llvm."):
            self._call_intrinsic(block, one, name.removeprefix("llvm."))
        elif name in EXACT_IN_C:
            self._whole(block, one, EXACT_IN_C[name])
        elif name in IN_C:
            self._per_lane(block, one, name)
        else:
            raise NotWidened(f"it calls {name}")

    def _call_intrinsic(self, block: Block, one: Instruction, name: str) -> None:
        if name.startswith(_NOTHING):
            return
        if name.startswith(("memset.", "memcpy.", "memmove.")):
            self._move(one, name)
            return
        word = name.rpartition(".")[0]
        if word in _EXACT or (word in _WITH_CONSTANT and word != "powi"):
            self._whole(block, one, word)
        elif word in IN_C or word.rpartition(".")[0] in ("powi", "ldexp"):
            self._per_lane(block, one, f"llvm.{name}")
        else:
            raise NotWidened(f"it calls llvm.{name}")

    def _whole(self, block: Block, one: Instruction, word: str) -> None:
        """Call an intrinsic function on vectors."""
        varying = one.name in self._found.varying
        kind = one.operands[0].type
        short = {"double": "f64", "float": "f32"}.get(kind, kind)
        suffix = self._suffix(kind) if varying else short
        form, read = (self._vector, self._wide) if varying else (str, self._single)
        given = [(form(v.type), read(v)) for v in one.operands]
        if word in _WITH_CONSTANT:
            given[1] = one.operands[1].type, one.operands[1].name
        called = self._intrinsic(f"llvm.{word}.{suffix}", form(one.result), given)
        self._keep(block, one, self._put(called))

    def _per_lane(self, block: Block, one: Instruction, name: str) -> None:
        kinds = [v.type for v in one.operands]
        self._declared[name] = f"declare {one.result} @{name}({', '.join(kinds)})"
        if one.name not in self._found.varying:
            pairs = ", ".join(f"{v.type} {self._single(v)}" for v in one.operands)
            self._keep(block, one, self._put(f"call {one.result} @{name}({pairs})"))
            return
        short = name.removeprefix("llvm.").partition(".")[0]
        self._called[short] = self._called.get(short, 0) + 1
        vector, result = self._vector(one.result), "poison"
        given = [(v.type, self._form(v), self._own(v)) for v in one.operands]
        for j in range(self._width):
            each: list[str] = []
            for kind, wide, value in given:
                if wide:
                    value = self._put(f"extractelement {self._vector(kind)} {value}, i64 {j}")
                each.append(f"{kind} {value}")
            found = self._put(f"call {one.result} @{name}({', '.join(each)})")
            result = self._put(f"insertelement {vector} {result}, {one.result} {found}, i64 {j}")
        self._keep(block, one, result)

    def _call_address(self, block: Block, one: Instruction, callee: str) -> None:
        """Call another widened function by its address."""
        if self._mask:
            raise NotWidened("a function is called for some of the lanes only")
        address = self._single(Value("ptr", callee))
        pairs = []
        for value in one.operands:
            if value.type == "double":
                pairs.append(f"{self._vector('double')} {self._wide(value)}")
            elif self._form(value):
                raise NotWidened("an integer argument differs between lanes")
            else:
                pairs.append(f"{value.type} {self._single(value)}")
        text = f"call {one.result} {address}({', '.join(pairs)})"
        if one.result == "void":
            self._say(text)
        else:
            self._keep(block, one, self._put(text))

    def _move(self, one: Instruction, name: str) -> None:
        """Fill or copy memory; its length grows with the number of lanes."""
        into, source, count, _ = one.operands
        memory = self._memory_of(into)
        if self._form(into) or self._form(count) or (self._form(source)):
            raise NotWidened("lanes fill or copy different memory")
        if not name.startswith("memset.") and self._memory_of(source) != memory:
            raise NotWidened("a constant vector is copied")
        length = self._single(count)
        if memory == LANES and self._mask:
            self._move_under_mask(one, name)
            return
        if memory == LANES:
            length = self._put(f"mul {count.type} {length}, {self._width}")
        self._say(self._intrinsic(f"llvm.{name}", "void", (
            ("ptr", self._single(into)), (source.type, self._single(source)),
            (count.type, length), ("i1", "false"),
        )))  # fmt: skip

    def _move_under_mask(self, one: Instruction, name: str) -> None:
        into, source, count, _ = one.operands
        if count.local or int(count.name) > 8 * _LONG or int(count.name) % 8:
            raise NotWidened("a long vector is filled or copied for some of the lanes only")
        vector, bits = self._vector("i64"), self._vector("i1")
        offsets = [self._width * i for i in range(0, int(count.name), 8)]
        found: list[str] = []
        for offset in offsets:
            if name.startswith("memset."):
                if source.name != "0":
                    raise NotWidened("memory is filled with a value other than 0")
                found.append("zeroinitializer")
                continue
            place = self._put(f"getelementptr i8, ptr {self._single(source)}, i64 {offset}")
            found.append(self._put(f"load {vector}, ptr {place}, align 8"))
        for offset, value in zip(offsets, found, strict=True):
            place = self._put(f"getelementptr i8, ptr {self._single(into)}, i64 {offset}")
            self._say(self._intrinsic(f"llvm.masked.store.{self._suffix('i64')}.p0", "void", (
                (vector, value), ("ptr", place), ("i32", "8"), (bits, self._mask),
            )))  # fmt: skip
