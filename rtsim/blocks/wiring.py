"""The contents of a diagram: named blocks, and wires that are checked when they are declared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rtsim.blocks.block import Block
from rtsim.blocks.continuous import block_of
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.equations.model import Model

# The two ends of a wire in a diagram; each is a block and one of its ports.

Place = tuple[str, str]
"""The name of a block, and a port; the name is empty for an input of the diagram."""


@dataclass(frozen=True)
class WireEnd:
    """One end of a wire as the user wrote it; ``port`` is empty if the user gave none."""

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
    ``assumptions`` and ``limits`` become those of the model.
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
        """The inputs of the diagram."""
        self.shown: dict[str, WireEnd] = {}
        """The outputs of the diagram by name, each with its source."""
        self.solved: dict[WireEnd, tuple[float, ...]] = {}
        """The outputs through which an algebraic loop is solved, each with its first values."""

    def add(self, name: str, block: object, *sources: str, **named: str) -> str:
        """Add ``block`` under ``name`` and wire its inputs; return ``name``.

        ``sources`` are wired to the block's inputs in their order, ``named`` sources to the inputs
        of these names.  A source is ``"block.port"``, ``"block"`` if that block has one output, or
        the name of an input of the diagram.  A linear system of rtsim, python-control or
        ``scipy.signal`` can be given as a block.  Raises :class:`ScenarioError` for an invalid
        name, block or source.
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
        """Add an input to the diagram, such as ``"force [N]"``; return its name."""
        made = Signal.of(signal)
        if made.name in self.blocks or made.name in self._input_names():
            raise ScenarioError(f"diagram {self.name} already has {made.name}; use another name")
        self.signals.append(made)
        return made.name

    def output(self, source: str, name: str = "") -> None:
        """Add an output to the diagram; without ``name`` it has the name of its source block."""
        name = name or WireEnd.of(source).block
        if name in self.shown:
            raise ScenarioError(
                f"output {name} of diagram {self.name} is declared twice; give one of the outputs "
                "another name"
            )
        self.shown[name] = WireEnd.of(source)

    def solve(self, source: str, *, initial: float | Sequence[float] = 0.0) -> None:
        """Declare that the algebraic loop through the output ``source`` is to be solved.

        The output becomes an algebraic variable of the model.  At 0 s, its search begins at
        ``initial``: a number, or one number for each element.  Raises :class:`ScenarioError` for a
        value that is not finite, or an output that is declared twice.
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
        """Return the input port to which ``end`` refers."""
        ports = input_names(self.blocks[end.block])
        if end.port:
            if end.port not in ports:
                raise UnknownName("input", end.port, ports, end.block)
            return end.port
        return _only(end.block, ports, "input")

    def source(self, end: WireEnd) -> Place:
        """Return the block output, or the input of the diagram, to which ``end`` refers."""
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
    """Return the port to use if none is named: the only output, or the first input."""
    if not ports:
        raise ScenarioError(f"{block} has no {what}, so it cannot be wired")
    if len(ports) == 1 or what == "input":
        return ports[0]
    raise ScenarioError(f"{block} has outputs {', '.join(ports)}; write '{block}.{ports[0]}'")
