"""Diagrams, which connect blocks by name and become a Model.

::

    d = Diagram("oscillator")
    d.add("v", Integrator(1.0), "acceleration")
    d.add("x", Integrator(), "v")
    d.add("acceleration", Gain(-4.0), "x")
    model = d.model()

Blocks can be added in any order, even before their sources.  A diagram can be a block of another
diagram. A diagram within a diagram adds no delay, and rtsim also finds algebraic loops that pass
through inner diagrams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rtsim.blocks.block import Wire
from rtsim.blocks.flat import Place, Scope, WiredBlocks, WireEnd, flatten
from rtsim.core.errors import ScenarioError
from rtsim.core.graph import Edge, Graph, Group, Node
from rtsim.equations.model import Model
from rtsim.record.reports.drawing import Drawing


class Diagram(WiredBlocks):
    """A block diagram: blocks, wires, inputs and outputs.

    ``assumptions`` and ``limits`` become the assumptions and limits of the model.
    """

    def model(self) -> Model:
        """Return the diagram as a :class:`Model`.

        Raises :class:`ScenarioError` if the diagram is incomplete or has an algebraic loop.  The
        error names the blocks.
        """
        from rtsim.blocks.generate import generate  # a diagram can be drawn without a compiler

        return generate(self)

    def draw(self) -> Drawing:
        """Return a drawing, which notebooks display and whose attribute ``svg`` is a picture."""
        return Drawing(graph(self))

    def mermaid(self) -> str:
        """Return the diagram as Mermaid text, which Markdown pages can show as a picture."""
        return self.draw().mermaid

    def dot(self) -> str:
        """Return the diagram as Graphviz text, for the command ``dot -Tsvg``."""
        return self.draw().dot

    def _repr_html_(self) -> str:
        return self.draw().html()


def graph(diagram: WiredBlocks) -> Graph:
    outs = tuple(Node(f"out.{name}", (name,), oval=True) for name in diagram.shown)
    edges = tuple(_edges(Scope(diagram), _carried(diagram)))
    return Graph(diagram.name, (*_items(diagram, ""), *outs), edges)


def _items(diagram: WiredBlocks, prefix: str) -> Iterator[Node | Group]:
    for signal in diagram.signals:
        text = signal.name if signal.unit == "1" else f"{signal.name} [{signal.unit}]"
        yield Node(prefix + signal.name, (text,), oval=True)
    for name, block in diagram.blocks.items():
        path = prefix + name
        if isinstance(block, WiredBlocks):
            yield Group(path, name, tuple(_items(block, f"{path}.")))
        else:
            yield Node(path, (name, block.label))


def _carried(diagram: WiredBlocks) -> Mapping[Place, Wire]:
    try:
        return flatten(diagram).carried
    except ScenarioError:
        return {}


def _start(scope: Scope, end: WireEnd) -> str:
    block, port = scope.diagram.source(end)
    if not block:
        return scope.prefix + port
    inner = scope.diagram.blocks[block]
    if isinstance(inner, WiredBlocks):
        return _start(scope.inner(block), inner.shown[port])
    return scope.prefix + block


def _edges(scope: Scope, carried: Mapping[Place, Wire]) -> Iterator[Edge]:
    def edge(end: WireEnd, target: str, label: str = "") -> Iterator[Edge]:
        try:
            place = scope.resolve(end)
            start = _start(scope, end)
        except ScenarioError:
            return  # an output of the nested diagram has no source yet
        event = place is not None and place in carried and carried[place].kind == "event"
        yield Edge(start, target, (label,) if label else (), event, at_head=True)

    for (name, port), end in scope.diagram.wires.items():
        block = scope.diagram.blocks[name]
        if isinstance(block, WiredBlocks):
            yield from edge(end, f"{scope.prefix}{name}.{port}")
        else:
            label = port if len(block.inputs) > 1 else ""
            yield from edge(end, scope.prefix + name, label)
    if scope.outer is None:
        for name, end in scope.diagram.shown.items():
            yield from edge(end, f"out.{name}")
    for name, block in scope.diagram.blocks.items():
        if isinstance(block, WiredBlocks):
            yield from _edges(scope.inner(name), carried)
