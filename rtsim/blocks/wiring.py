"""What a diagram consists of: blocks by name and the wires between them, checked as declared."""

from __future__ import annotations

from collections.abc import Sequence

from rtsim.blocks.block import Block
from rtsim.blocks.places import Place, WireEnd
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.equations.model import Model


class WiredBlocks:
    """The blocks of a diagram, the wires between them, and what goes in and out.

    :class:`~rtsim.blocks.diagram.Diagram` adds what can be made of them.  ``assumptions`` and
    ``limits`` are those of the model.
    """

    def __init__(
        self, name: str, *, assumptions: Sequence[str] = (), limits: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.assumptions, self.limits = tuple(assumptions), tuple(limits)
        self.blocks: dict[str, Block | WiredBlocks] = {}
        self.wires: dict[Place, WireEnd] = {}
        """By where each ends."""
        self.signals: list[Signal] = []
        """Inputs."""
        self.shown: dict[str, WireEnd] = {}
        """Outputs, and where each comes from."""

    def add(self, name: str, block: Block | WiredBlocks, *sources: str, **named: str) -> str:
        """A block called ``name``, its inputs wired: ``sources`` in their order, others by name.

        A source is ``"block.port"``, or ``"block"`` where it has one output, or an input of the
        diagram.  Returns ``name``.
        """
        if not isinstance(name, str):
            raise ScenarioError(f"add({name!r}, …): give the name first, then the block")
        if not name.isidentifier():
            raise ScenarioError(f"block name {name!r} is not an identifier; use letters, digits, _")
        if name in self.blocks or name in self._input_names():
            raise ScenarioError(f"{name} stands in diagram {self.name} already; call it otherwise")
        if block is self:
            raise ScenarioError(f"diagram {self.name} cannot be a block of itself")
        if not isinstance(block, (Block, WiredBlocks)):
            raise ScenarioError(_no_block(name, block))
        self.blocks[name] = block
        ports = input_names(block)
        if len(sources) > len(ports):
            raise ScenarioError(
                f"{name} has {len(ports)} inputs ({', '.join(ports) or 'none'}), "
                f"and {len(sources)} are given"
            )
        for port, source in (*zip(ports, sources, strict=False), *named.items()):
            self.wire(source, f"{name}.{port}")
        return name

    def wire(self, source: str, *to: str) -> None:
        """From an output to one or several inputs."""
        if not to:
            raise ScenarioError(f"the wire from {source} leads nowhere; name the inputs it goes to")
        for text in to:
            end = WireEnd.of(text)
            if end.block not in self.blocks:
                raise UnknownName("block", end.block, self.blocks, f"diagram {self.name}")
            port = self._input(end)
            place = (end.block, port)
            if not isinstance(source, str):
                raise ScenarioError(
                    f"{text} cannot be wired to {source!r}; give the name of a block or an input, "
                    "such as that of a Constant"
                )
            if place in self.wires:
                raise ScenarioError(
                    f"{end.block}.{port} is wired twice: to {self.wires[place]} and to {source}; "
                    "add the two with a Sum, or take one away"
                )
            self.wires[place] = WireEnd.of(source)

    def input(self, signal: str | Signal) -> str:
        """An input of the diagram, such as ``"force [N]"``; returns its name."""
        made = Signal.of(signal)
        if made.name in self.blocks or made.name in self._input_names():
            raise ScenarioError(f"{made.name} stands in diagram {self.name} already")
        self.signals.append(made)
        return made.name

    def output(self, source: str, name: str = "") -> None:
        """An output of the diagram, called as the block it comes from unless ``name`` says so."""
        name = name or WireEnd.of(source).block
        if name in self.shown:
            raise ScenarioError(
                f"output {name} of diagram {self.name} is declared twice; give a name="
            )
        self.shown[name] = WireEnd.of(source)

    def _input_names(self) -> list[str]:
        return [s.name for s in self.signals]

    def _input(self, end: WireEnd) -> str:
        """The port that ``end`` means."""
        ports = input_names(self.blocks[end.block])
        if end.port:
            if end.port not in ports:
                raise UnknownName("input", end.port, ports, end.block)
            return end.port
        return _only(end.block, ports, "input")

    def source(self, end: WireEnd) -> Place:
        """The output, or the diagram's own input, that ``end`` means."""
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
        return f"{name} is the class {given.__name__}, no block; write {given.__name__}(…)"
    if isinstance(given, Model):
        return f"{name} is a Model, no block; write Differential({given.name})"
    return f"{name} is {given!r}, no block; give one of rtsim.blocks, or a Diagram"


def input_names(block: Block | WiredBlocks) -> list[str]:
    if isinstance(block, WiredBlocks):
        return block._input_names()
    return [port.name for port in block.inputs]


def output_names(block: Block | WiredBlocks) -> list[str]:
    return list(block.shown) if isinstance(block, WiredBlocks) else [p.name for p in block.outputs]


def _only(block: str, ports: list[str], what: str) -> str:
    """The one port that is meant where none is named: the only one, or the first of inputs."""
    if not ports:
        raise ScenarioError(f"{block} has no {what}")
    if len(ports) == 1 or what == "input":
        return ports[0]
    raise ScenarioError(f"{block} has outputs {', '.join(ports)}; write '{block}.{ports[0]}'")
