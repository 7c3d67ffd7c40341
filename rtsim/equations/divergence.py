"""Find which values and branches of a function differ between lanes.

A function runs for several lanes at once. A value is *varying* if it can differ between lanes. A
branch on a varying condition makes lanes take different ways, until the ways meet again. The blocks
on these ways run under a mask (:mod:`rtsim.equations.widening`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

from rtsim.equations.llvm_text import Block, Function, Instruction, NotWidened, Value

EXIT = "the only exit"
FAILURE = "1"
"""The status of a function that reaches code that must not be reached."""

WORDS, LANES, CONSTANT, RAISED = "words", "lanes", "constant", "raised"
"""Kinds of memory: addresses and sizes, which all lanes share; numbers of each lane; constants;
and the address of an exception.
"""


def with_one_exit(function: Function) -> None:
    """Replace all returns by one, in the block :data:`EXIT`."""
    operands, labels = [], []
    for block in function.blocks.values():
        if block.end not in ("ret", "unreachable"):
            continue
        failed = Value(function.result, FAILURE)
        operands.append(block.condition if block.end == "ret" and block.condition else failed)
        labels.append(block.label)
        block.end, block.condition, block.targets = "br", None, (EXIT,)
    if function.result != "i32":
        raise NotWidened(f"the function returns {function.result}")
    phi = Instruction("phi", "%the.only.status", "i32", tuple(operands), tuple(labels))
    function.blocks[EXIT] = Block(EXIT, [phi], [], Value("i32", phi.name), (), (), "ret")


class Graph:
    """The blocks of a function, with their dominators and loops."""

    def __init__(self, function: Function) -> None:
        self.blocks = function.blocks
        entry = next(iter(self.blocks))
        seen = self.reached((entry,), ())
        for label in [label for label in self.blocks if label not in seen]:
            del self.blocks[label]
        self.order = list(self.blocks)
        self.before: dict[str, list[str]] = {label: [] for label in self.order}
        for label in self.order:
            for target in dict.fromkeys(self.blocks[label].targets):
                self.before[target].append(label)
        for block in self.blocks.values():
            block.phis = [_of_present(phi, self.before[block.label]) for phi in block.phis]
        self.above = self._dominators(entry, self.before)
        after = {label: list(dict.fromkeys(self.blocks[label].targets)) for label in self.order}
        self.below = self._dominators(EXIT, after)
        if any(EXIT not in below for below in self.below.values()):
            raise NotWidened("a loop has no end")

    def reached(self, starts: Iterable[str], without: Collection[str]) -> set[str]:
        """Return the blocks that ``starts`` reach on ways that avoid ``without``."""
        found: set[str] = set()
        waiting = [start for start in starts if start not in without]
        while waiting:
            label = waiting.pop()
            if label not in found:
                found.add(label)
                waiting += [t for t in self.blocks[label].targets if t not in without]
        return found

    def _dominators(self, root: str, before: dict[str, list[str]]) -> dict[str, set[str]]:
        every = set(self.order)
        found = {label: {root} if label == root else every for label in self.order}
        changed = True
        while changed:
            changed = False
            for label in self.order:
                if label == root:
                    continue
                known = [found[one] for one in before[label]]
                new = {label} | (set.intersection(*known) if known else set())
                if new != found[label]:
                    found[label], changed = new, True
        return found

    def ends_after(self, label: str) -> list[str]:
        """Return the blocks that every way from ``label`` passes, the nearest first."""
        later = self.below[label] - {label}
        return sorted(later, key=lambda one: -len(self.below[one]))

    @cached_property
    def loops(self) -> list[tuple[str, frozenset[str]]]:
        """The header and the blocks of each loop."""
        found: dict[str, set[str]] = {}
        for label in self.order:
            for target in self.blocks[label].targets:
                if target in self.above[label]:
                    body = found.setdefault(target, {target})
                    waiting = [label]
                    while waiting:
                        one = waiting.pop()
                        if one not in body:
                            body.add(one)
                            waiting += self.before[one]
        return [(header, frozenset(body)) for header, body in found.items()]

    def loop_of(self, label: str, within: Collection[str]) -> frozenset[str]:
        """Return the blocks of the smallest loop around ``label`` inside ``within``."""
        around = [body for _, body in self.loops if label in body and body <= set(within)]
        return min(around, key=len, default=frozenset())

    def in_line(self, region: Collection[str]) -> list[tuple[str, str]]:
        """Return the blocks of ``region`` in an order in which each follows its predecessors.

        The items are ("block", label), and ("open", header) and ("close", header) around the
        blocks of a loop.
        """
        return self._in_line(set(region), frozenset())

    def _in_line(self, region: set[str], cut: frozenset[str]) -> list[tuple[str, str]]:
        """``cut`` contains the headers whose returning edges do not count."""
        parts = self._components(region, cut)
        out: list[tuple[str, str]] = []
        for part in parts:
            first = next(iter(part))
            if len(part) == 1 and (first in cut or first not in self.blocks[first].targets):
                out.append(("block", first))
                continue
            headers = [h for h, body in self.loops if h in part and set(part) <= body]
            if len(headers) != 1:
                raise NotWidened("a loop has several entries")
            header = headers[0]
            out.append(("open", header))
            out += self._in_line(set(part), cut | {header})
            out.append(("close", header))
        return out

    def _components(self, region: set[str], cut: frozenset[str]) -> list[list[str]]:
        """Return the strongly connected parts of ``region`` in topological order (Tarjan)."""
        index: dict[str, int] = {}
        low: dict[str, int] = {}
        stack: list[str] = []
        found: list[list[str]] = []

        def after(label: str) -> list[str]:
            return [t for t in reversed(self.blocks[label].targets) if t in region - cut]

        def visit(start: str) -> None:
            work = [(start, iter(after(start)))]
            index[start] = low[start] = len(index)
            stack.append(start)
            while work:
                label, rest = work[-1]
                for target in rest:
                    if target not in index:
                        index[target] = low[target] = len(index)
                        stack.append(target)
                        work.append((target, iter(after(target))))
                        break
                    if target in stack:
                        low[label] = min(low[label], index[target])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[label])
                    if low[label] == index[label]:
                        part = stack[stack.index(label) :]
                        del stack[stack.index(label) :]
                        found.append(part)

        for label in sorted(region, key=self.order.index):
            if label not in index:
                visit(label)
        return found[::-1]


def _of_present(phi: Instruction, before: Collection[str]) -> Instruction:
    pairs = [pair for pair in zip(phi.operands, phi.extra, strict=True) if pair[1] in before]
    return Instruction(
        "phi", phi.name, phi.result, tuple(v for v, _ in pairs), tuple(label for _, label in pairs)
    )


class Divergence:
    """Which values vary, which blocks run under a mask, and which memory a pointer is in."""

    def __init__(self, function: Function) -> None:
        with_one_exit(function)
        self.graph = Graph(function)
        self.function = function
        vars(function).pop("defined", None)
        self.memory = self._memory()
        self.varying = {a.name for a in function.arguments if a.type == "double"}
        self.masked: set[str] = set()
        self.split: set[str] = set()
        """Blocks after which lanes take different ways."""
        self.uses = self._uses()
        before = None
        while before != (now := (len(self.varying), len(self.masked), len(self.split))):
            before = now
            self._vary()
            self._mask()

    def region_of(self, label: str) -> tuple[set[str], str]:
        """Return the masked blocks after ``label``, and the block at which the ways meet."""
        end = next(one for one in self.graph.ends_after(label) if one not in self.masked)
        return self.graph.reached(self.function.blocks[label].targets, (end,)), end

    def is_varying(self, value: Value) -> bool:
        return value.name in self.varying

    def memory_of(self, value: Value) -> str:
        """Return the kind of memory to which a pointer points."""
        if not value.local:
            return CONSTANT
        if value.name not in self.memory:
            raise NotWidened("it computes an address")
        return self.memory[value.name]

    # Memory

    def _memory(self) -> dict[str, str]:
        function = self.function
        found: dict[str, str] = {}
        pointers = [a.name for a in function.arguments if a.type == "ptr"]
        kinds = (LANES, RAISED)
        for i, name in enumerate(pointers):
            found[name] = kinds[i] if i < len(kinds) else WORDS
        flows: list[tuple[str, Value]] = []
        allocated = []
        for _, one in function.defined.values():
            if one.op == "alloca":
                allocated.append(one.name)
            elif one.result == "ptr" and one.op == "inttoptr":
                self._from_integer(one, found, flows)
            elif one.result == "ptr" and one.op in ("phi", "getelementptr", "select", "freeze"):
                given = one.operands[:1] if one.op == "getelementptr" else one.operands
                flows += [(one.name, v) for v in given if v.type == "ptr"]
        for name in allocated:
            found[name] = self._allocated(name, flows)
        changed = True
        while changed:
            changed = False
            for name, source in flows:
                kind = found.get(source.name) if source.local else CONSTANT
                if source.name in ("null", "undef", "poison"):
                    kind = None
                if kind is None:
                    continue
                if name not in found:
                    found[name], changed = kind, True
                elif found[name] != kind:
                    raise NotWidened("an address is in one of two kinds of memory")
        for _, one in function.defined.values():
            if one.op == "load" and one.result == "ptr":
                found.setdefault(one.name, RAISED)
        return found

    def _from_integer(
        self, one: Instruction, found: dict[str, str], flows: list[tuple[str, Value]]
    ) -> None:
        (source,) = one.operands
        made = self.function.defined.get(source.name)
        if not source.local:
            found[one.name] = CONSTANT
        elif made is not None and made[1].op == "load":
            found[one.name] = LANES
        elif made is not None and made[1].op == "ptrtoint":
            flows.append((one.name, made[1].operands[0]))

    def _allocated(self, name: str, flows: list[tuple[str, Value]]) -> str:
        """Return the kind of memory on the stack, from the instructions that use it."""
        names, grown = {name}, True
        while grown:
            more = {to for to, source in flows if source.name in names} - names
            names |= more
            grown = bool(more)
        kinds = set()
        for block in self.function.blocks.values():
            for one in block.body:
                if one.op == "call" and one.extra[0].startswith("%"):
                    pointers = [v for v in one.operands if v.type == "ptr"]
                    for i, v in enumerate(pointers):
                        if v.name in names:
                            kinds.add((LANES, RAISED)[i] if i < 2 else WORDS)
                elif one.op in ("load", "store") and one.operands[-1].name in names:
                    kind = one.result if one.op == "load" else one.operands[0].type
                    if kind == "double":
                        kinds.add(LANES)
        if len(kinds) > 1:
            raise NotWidened("one piece of memory contains both numbers and addresses")
        return kinds.pop() if kinds else LANES

    # Values

    def _uses(self) -> dict[str, set[str]]:
        """Return the blocks that use each value; a ``phi`` uses a value in its predecessor."""
        found: dict[str, set[str]] = {}
        for block in self.function.blocks.values():
            for phi in block.phis:
                for value, label in zip(phi.operands, phi.extra, strict=True):
                    found.setdefault(value.name, set()).add(label)
                found.setdefault(phi.name, set())
            for one in block.body:
                for value in one.operands:
                    found.setdefault(value.name, set()).add(block.label)
                if one.extra and one.op == "call":
                    found.setdefault(one.extra[0], set()).add(block.label)
            if block.condition is not None:
                found.setdefault(block.condition.name, set()).add(block.label)
        return found

    def _vary(self) -> None:
        changed = True
        while changed:
            changed = False
            for block in self.function.blocks.values():
                for one in (*block.phis, *block.body):
                    if one.name and one.name not in self.varying and self._varies(block, one):
                        self.varying.add(one.name)
                        changed = True

    def _varies(self, block: Block, one: Instruction) -> bool:
        if one.op == "alloca":
            return False
        if one.op == "phi":
            apart = block.label in self.masked or any(
                label in self.masked or label in self.split for label in one.extra
            )
            return apart or any(map(self.is_varying, one.operands))
        if block.label in self.masked and one.name in self.uses:
            loop = self.graph.loop_of(block.label, self.masked)
            if loop and not self.uses[one.name] <= loop:
                return True
        if one.op == "load":
            memory = self.memory_of(one.operands[0])
            return memory == LANES or self.is_varying(one.operands[0])
        if one.op == "call" and one.extra[0].startswith("%"):
            return False
        return any(map(self.is_varying, one.operands))

    def _mask(self) -> None:
        blocks, changed = self.function.blocks, True
        while changed:
            changed = False
            for label, block in blocks.items():
                if label in self.masked or not block.targets:
                    continue
                apart = block.condition is not None and self.is_varying(block.condition)
                apart = apart or any(target in self.masked for target in block.targets)
                if apart and label not in self.split:
                    self.split.add(label)
                    changed = True
            for label in sorted(self.split, key=self.graph.order.index):
                if label in self.masked:
                    self.split.discard(label)
                    changed = True
                    continue
                region, _ = self.region_of(label)
                if not region <= self.masked:
                    self.masked |= region
                    changed = True
