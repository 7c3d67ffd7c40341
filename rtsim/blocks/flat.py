"""Flattening of nested diagrams, and the evaluation order of blocks.

A flattened diagram contains only elementary blocks. Wires are checked when they are declared.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rtsim.blocks.block import ANY, Block, Port, Wire, same
from rtsim.blocks.continuous import block_of
from rtsim.core.errors import ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.equations.model import Model

Place = tuple[str, str]
"""The name of a block and a port; the name is empty for an input of the diagram."""


@dataclass(frozen=True)
class WireEnd:
    block: str
    port: str

    @classmethod
    def of(cls, text: str) -> WireEnd:
        block, _, port = text.partition(".")
        return cls(block, port)

    def __str__(self) -> str:
        return f"{self.block}.{self.port}" if self.port else self.block


class WiredBlocks:
    """The blocks of a diagram, the wires between them, its inputs and its outputs.

    :class:`~rtsim.blocks.diagram.Diagram` adds methods that make a model or a drawing.
    ``assumptions`` and ``limits`` become the assumptions and limits of the model.
    """

    def __init__(
        self, name: str, *, assumptions: Sequence[str] = (), limits: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.assumptions, self.limits = tuple(assumptions), tuple(limits)
        self.blocks: dict[str, Block | WiredBlocks] = {}
        self.wires: dict[Place, WireEnd] = {}
        """Maps the input port at which a wire ends to the source of the wire."""
        self.signals: list[Signal] = []
        self.shown: dict[str, WireEnd] = {}
        """The outputs of the diagram by name, each with its source."""
        self.solved: dict[WireEnd, tuple[float, ...]] = {}
        """The outputs through which algebraic loops are solved, each with its initial values."""

    def add(self, name: str, block: object, *sources: str, **named: str) -> str:
        """Add a block, wire its inputs, and return its name.

        A source is ``"block.port"``, ``"block"`` for a block with one output, or the name of an
        input of the diagram.

        Args:
            name: Name of the block in the diagram.
            block: A block, a diagram, or a linear system of rtsim, python-control or
                ``scipy.signal``.
            sources: Sources of the block's inputs, in the order of the inputs.
            named: Sources of further inputs, by the names of the inputs.

        Raises:
            ScenarioError: The name, the block or a source is invalid.
        """
        if not isinstance(name, str):
            raise ScenarioError(f"add({name!r}, …): give the name first, then the block")
        if not name.isidentifier():
            raise ScenarioError(f"block name {name!r} is not an identifier; use letters, digits, _")
        if name in self.blocks or name in self._input_names():
            raise ScenarioError(f"diagram {self.name} already has {name}; use another name")
        if block is self:
            raise ScenarioError(
                f"diagram {self.name} cannot contain itself as a block; add another diagram"
            )
        if not isinstance(block, (Block, WiredBlocks)):
            linear = block_of(block)
            if linear is None:
                raise ScenarioError(_no_block(name, block))
            block = linear
        self.blocks[name] = block
        ports = input_names(block)
        if len(sources) > len(ports):
            raise ScenarioError(
                f"{name} has {len(ports)} inputs ({', '.join(ports) or 'none'}), "
                f"but {len(sources)} sources are given; leave out {len(sources) - len(ports)}"
            )
        for port, source in (*zip(ports, sources, strict=False), *named.items()):
            self.wire(source, f"{name}.{port}")
        return name

    def wire(self, source: str, *to: str) -> None:
        """Add a wire from an output to one or several inputs."""
        if not to:
            raise ScenarioError(
                f"the wire from {source} leads to no input; name at least one input"
            )
        for text in to:
            end = WireEnd.of(text)
            if end.block not in self.blocks:
                raise UnknownName("block", end.block, self.blocks, f"diagram {self.name}")
            port = self._input(end)
            place = (end.block, port)
            if not isinstance(source, str):
                raise ScenarioError(
                    f"{text} cannot be wired to {source!r}; give the name of a block or of an "
                    "input of the diagram. For a number, add a Constant"
                )
            if place in self.wires:
                raise ScenarioError(
                    f"{end.block}.{port} is wired twice: to {self.wires[place]} and to {source}; "
                    "add the two sources with a Sum, or remove one wire"
                )
            self.wires[place] = WireEnd.of(source)

    def input(self, signal: str | Signal) -> str:
        """Add an input to the diagram, such as ``"force [N]"``, and return its name."""
        made = Signal.of(signal)
        if made.name in self.blocks or made.name in self._input_names():
            raise ScenarioError(f"diagram {self.name} already has {made.name}; use another name")
        self.signals.append(made)
        return made.name

    def output(self, source: str, name: str = "") -> None:
        """Add an output to the diagram, by default with the name of the source block."""
        name = name or WireEnd.of(source).block
        if name in self.shown:
            raise ScenarioError(
                f"output {name} of diagram {self.name} is declared twice; give one of the outputs "
                "another name"
            )
        self.shown[name] = WireEnd.of(source)

    def solve(self, source: str, *, initial: float | Sequence[float] = 0.0) -> None:
        """Declare that rtsim must solve the algebraic loop through the block output ``source``.

        The output becomes an algebraic variable of the model. The solution begins at the guess
        ``initial``: one number, or one number for each element of the output. Raises
        :class:`ScenarioError` if a value is not finite, or if the output is declared twice.
        """
        end = WireEnd.of(source)
        values = (initial,) if isinstance(initial, int | float) else tuple(initial)
        if not values or not all(map(math.isfinite, values)):
            raise ScenarioError(
                f"solve({source!r}, initial={initial!r}): give a finite number for each element"
            )
        if end in self.solved:
            raise ScenarioError(f"solve({source!r}) is declared twice; remove one of them")
        self.solved[end] = tuple(map(float, values))

    def _input_names(self) -> list[str]:
        return [s.name for s in self.signals]

    def _input(self, end: WireEnd) -> str:
        ports = input_names(self.blocks[end.block])
        if end.port:
            if end.port not in ports:
                raise UnknownName("input", end.port, ports, end.block)
            return end.port
        return _only(end.block, ports, "input")

    def source(self, end: WireEnd) -> Place:
        if end.block in self._input_names() and not end.port:
            return "", end.block
        if end.block not in self.blocks:
            known = (*self.blocks, *self._input_names())
            raise UnknownName("block or input", end.block, known, f"diagram {self.name}")
        ports = output_names(self.blocks[end.block])
        if end.port:
            if end.port not in ports:
                raise UnknownName("output", end.port, ports, end.block)
            return end.block, end.port
        return end.block, _only(end.block, ports, "output")

    @property
    def inputs(self) -> Signals:
        return Signals(*self.signals)


def _no_block(name: str, given: object) -> str:
    if isinstance(given, type) and issubclass(given, (Block, WiredBlocks)):
        return f"{name} is the class {given.__name__}, not a block; write {given.__name__}(…)"
    if isinstance(given, Model):
        return f"{name} is a Model, not a block; write Differential({given.name})"
    return f"{name} is {given!r}, not a block; give a block of rtsim.blocks, or a Diagram"


def input_names(block: Block | WiredBlocks) -> list[str]:
    if isinstance(block, WiredBlocks):
        return block._input_names()
    return [port.name for port in block.inputs]


def output_names(block: Block | WiredBlocks) -> list[str]:
    return list(block.shown) if isinstance(block, WiredBlocks) else [p.name for p in block.outputs]


def _only(block: str, ports: list[str], what: str) -> str:
    if not ports:
        raise ScenarioError(f"{block} has no {what}, so it cannot be wired")
    if len(ports) == 1 or what == "input":
        return ports[0]
    raise ScenarioError(f"{block} has outputs {', '.join(ports)}; write '{block}.{ports[0]}'")


# The order in which blocks are evaluated, and algebraic loops, which have no such order.

N = TypeVar("N", bound=Hashable)


def algebraic_loop(path: Sequence[str]) -> ScenarioError:
    """Return the error for an algebraic loop through the outputs in ``path``."""
    return ScenarioError(
        f"algebraic loop: {' -> '.join((*path, path[0]))}: each block needs the output of the "
        "block before it at the same instant. Insert an Integrator or a TransferFunction (a small "
        "lag). In a sampled loop, insert a UnitDelay or a ZeroOrderHold. Or declare that the loop "
        f"is to be solved: solve({path[0]!r})"
    )


def evaluation_order(nodes: Iterable[N], needs: Mapping[N, Iterable[N]]) -> list[N]:
    """Return ``nodes`` in an order in which each node comes after the nodes on which it depends.

    The result contains no node that belongs to a loop or depends on a loop. The function
    :func:`find_loop` finds the loop.
    """
    rank = {node: i for i, node in enumerate(nodes)}
    by_rank = list(rank)
    waiting = dict.fromkeys(rank, 0)
    readers: dict[N, list[N]] = {}
    for node in rank:
        for needed in set(needs.get(node, ())):
            waiting[node] += 1
            readers.setdefault(needed, []).append(node)
    ready = [rank[node] for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    out: list[N] = []
    while ready:
        node = by_rank[heapq.heappop(ready)]
        out.append(node)
        for reader in readers.get(node, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, rank[reader])
    return out


def find_loop(nodes: Sequence[N], ordered: Sequence[N], needs: Mapping[N, Iterable[N]]) -> list[N]:
    """Return one algebraic loop among the nodes that are missing in ``ordered``."""
    done = set(ordered)
    stuck = {node for node in nodes if node not in done}
    path: list[N] = []
    place: dict[N, int] = {}
    node = next(n for n in nodes if n in stuck)
    while node not in place:
        place[node] = len(path)
        path.append(node)
        node = next(n for n in needs[node] if n in stuck)
    return path[place[node] :][::-1]


def reachable(start: Iterable[N], needs: Mapping[N, Iterable[N]]) -> set[N]:
    found = set(start)
    waiting = list(found)
    while waiting:
        for needed in needs.get(waiting.pop(), ()):
            if needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found


@dataclass
class FlatBlock:
    """A block of a flattened diagram.

    ``name`` is an identifier, and ``path`` is the name in messages, such as ``cart.spring``.
    """

    name: str
    path: str
    block: Block
    sources: dict[str, Place] = field(default_factory=dict)
    """Maps each input port to its source: the :attr:`name` of a block (empty for a diagram's input)
    and a port.
    """
    wires: dict[str, Wire] = field(default_factory=dict)
    """Maps each input port to the kind, size and unit of its wire."""


@dataclass(frozen=True)
class Flat:
    """A diagram without nested diagrams, with its blocks sorted by name."""

    diagram: WiredBlocks
    inputs: Signals
    blocks: dict[str, FlatBlock]
    outputs: dict[str, Place]
    carried: dict[Place, Wire]
    solved: dict[Place, tuple[float, ...]] = field(default_factory=dict)
    """The outputs through which algebraic loops are solved, each with its initial values."""


@dataclass(frozen=True)
class Scope:
    diagram: WiredBlocks
    prefix: str = ""
    outer: Scope | None = None
    name: str = ""

    def inner(self, name: str) -> Scope:
        diagram = self.diagram.blocks[name]
        assert isinstance(diagram, WiredBlocks)
        return Scope(diagram, f"{self.prefix}{name}.", self, name)

    def blocks(self) -> Iterator[tuple[Scope, str, Block]]:
        for name, block in self.diagram.blocks.items():
            if isinstance(block, WiredBlocks):
                yield from self.inner(name).blocks()
            else:
                yield self, name, block

    def within(self) -> Iterator[Scope]:
        for name, block in self.diagram.blocks.items():
            if isinstance(block, WiredBlocks):
                inner = self.inner(name)
                yield inner
                yield from inner.within()

    def resolve(self, end: WireEnd, seen: tuple[tuple[str, str], ...] = ()) -> Place | None:
        """Return the block output that is connected to ``end``, or ``None``."""
        step = (self.prefix, str(end))
        if step in seen:
            raise ScenarioError(
                f"the wire from {end} leads back to {end}; give {end} a block as its source"
            )
        block, port = self.diagram.source(end)
        seen = (*seen, step)
        if block:
            inside = self.diagram.blocks[block]
            if isinstance(inside, WiredBlocks):
                return self.inner(block).resolve(inside.shown[port], seen)
            return identifier(self.prefix + block), port
        if self.outer is None:
            return "", port
        further = self.outer.diagram.wires.get((self.name, port))
        return None if further is None else self.outer.resolve(further, seen)


def identifier(path: str) -> str:
    return path.replace(".", "_")


def flatten(diagram: WiredBlocks) -> Flat:
    """Return the diagram with all nested diagrams replaced by their blocks.

    Raises ``ScenarioError`` for an unconnected input, an unknown name, or a wire with different
    sizes or units at its ends.
    """
    top = Scope(diagram)
    found: dict[str, FlatBlock] = {}
    open_ends: list[str] = []
    for scope, name, block in top.blocks():
        path = scope.prefix + name
        flat = FlatBlock(identifier(path), path, block)
        if flat.name in found:
            raise ScenarioError(
                f"{found[flat.name].path} and {path} would both be named {flat.name} in the model; "
                "rename one of them"
            )
        found[flat.name] = flat
        for port in block.inputs:
            end = scope.diagram.wires.get((name, port.name))
            place = None if end is None else scope.resolve(end)
            if place is not None:
                flat.sources[port.name] = place
            elif not port.optional or end is not None:
                open_ends.append(f"{path}.{port.name}" + (f" (by {end})" if end else ""))
    if open_ends:
        raise ScenarioError(
            f"not wired in diagram {diagram.name}: {', '.join(sorted(open_ends))}; "
            "wire each of these inputs to an output, an input of the diagram, or a Constant"
        )
    outputs = {name: _shown(top, name, end) for name, end in diagram.shown.items()}
    blocks = dict(sorted(found.items()))
    solved = dict(sorted(_solved(top).items()))
    carried = _carried(diagram, blocks, solved)
    whole = Flat(diagram, diagram.inputs, blocks, outputs, carried, solved)
    for one in blocks.values():
        _check(whole, one)
    for scope in top.within():
        _check_inputs(whole, scope)
    return whole


def _check_inputs(flat: Flat, scope: Scope) -> None:
    assert scope.outer is not None
    for signal in scope.diagram.signals:
        end = scope.outer.diagram.wires.get((scope.name, signal.name))
        place = None if end is None else scope.outer.resolve(end)
        if place is not None:
            port = Port(signal.name, None, signal.size, signal.unit)
            _check_wire(flat, scope.prefix + signal.name, port, place, flat.carried[place])


def _shown(top: Scope, name: str, end: WireEnd) -> Place:
    place = top.resolve(end)
    if place is None:
        raise ScenarioError(
            f"output {name} of diagram {top.diagram.name} comes from an input that is not wired; "
            "wire that input"
        )
    return place


def _solved(top: Scope) -> dict[Place, tuple[float, ...]]:
    out: dict[Place, tuple[float, ...]] = {}
    for scope in (top, *top.within()):
        for end, values in scope.diagram.solved.items():
            place = scope.resolve(end)
            if place is None or not place[0]:
                raise ScenarioError(
                    f"solve({str(end)!r}) in diagram {scope.diagram.name}: {end} is an input of "
                    "the diagram; name the output of a block"
                )
            out[place] = values
    return out


def _carried(
    diagram: WiredBlocks, blocks: dict[str, FlatBlock], solved: dict[Place, tuple[float, ...]]
) -> dict[Place, Wire]:
    known: dict[Place, Wire] = {
        ("", s.name): Wire("signal", s.size, s.unit) for s in diagram.signals
    }
    known |= {place: Wire("signal", len(values), ANY) for place, values in solved.items()}
    readers: dict[str, list[str]] = {}
    for name, flat in blocks.items():
        for source, _ in flat.sources.values():
            readers.setdefault(source, []).append(name)
    waiting = list(reversed(blocks))
    while waiting:
        flat = blocks[waiting.pop()]
        flat.wires = {port: known[p] for port, p in flat.sources.items() if p in known}
        news = False
        for port, wire in flat.block.carries(flat.wires).items():
            if (flat.name, port) not in known:
                known[flat.name, port] = wire
                news = True
        if news:
            waiting += readers.get(flat.name, ())
    for flat in blocks.values():
        if any(place not in known for place in flat.sources.values()):
            raise algebraic_loop(_circle(flat, blocks, known))
        flat.wires = {port: known[place] for port, place in flat.sources.items()}
    for (name, port), values in solved.items():
        made = blocks[name].block.carries(blocks[name].wires)[port]
        if (made.kind, made.size) != ("signal", len(values)):
            has = "is an event" if made.kind == "event" else f"has {made.size} elements"
            raise ScenarioError(
                f"solve({blocks[name].path}.{port!s}) gives {len(values)} initial values, but the "
                f"output {has}; give a signal, and one initial value for each of its elements"
            )
        known[name, port] = made
    return known


def _circle(flat: FlatBlock, blocks: dict[str, FlatBlock], known: dict[Place, Wire]) -> list[str]:
    path: list[str] = []
    name = flat.name
    while name not in path:
        path.append(name)
        name = next(s for s, port in blocks[name].sources.values() if (s, port) not in known)
    return [f"{blocks[n].path}.y" for n in reversed(path[path.index(name) :])]


def _check(flat: Flat, one: FlatBlock) -> None:
    for port in one.block.inputs:
        if port.name in one.wires:
            end = f"{one.path}.{port.name}"
            _check_wire(flat, end, port, one.sources[port.name], one.wires[port.name])
    one.block.check(one.path, one.wires)


def _check_wire(flat: Flat, end: str, port: Port, place: Place, wire: Wire) -> None:
    source = f"{flat.blocks[place[0]].path}.{place[1]}" if place[0] else place[1]
    if port.kind not in (None, wire.kind):
        if wire.kind == "event":
            raise ScenarioError(
                f"{source} is an event, but {end} needs a signal; put a ZeroOrderHold between them"
            )
        remedy = port.remedy or "put a PeriodicSampler, a Sampler or a LevelCrossing between them"
        raise ScenarioError(f"{source} is a signal, but {end} needs events; {remedy}")
    if port.size not in (None, wire.size):
        raise ShapeError(
            f"{source} has size {wire.size}, but {end} needs size {port.size}; make the sizes equal"
        )
    if not same(wire.unit, port.unit):
        raise ScenarioError(
            f"{source} is in {wire.unit}, but {end} needs {port.unit}; wires do not convert units. "
            "Put a Gain with the unit of the conversion between them"
        )
