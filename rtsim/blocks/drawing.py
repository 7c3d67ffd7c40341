"""A diagram as text for drawing programs: Mermaid (Markdown) and Graphviz (``dot``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rtsim.blocks.block import Wire
from rtsim.blocks.flat import Scope, flatten, identifier
from rtsim.blocks.places import Place, WireEnd
from rtsim.blocks.wiring import WiredBlocks
from rtsim.core.errors import ScenarioError

_RESERVED = {"call", "class", "click", "default", "end", "flowchart", "graph", "style", "subgraph"}
"""Keywords of Mermaid, which cannot be names of nodes."""


@dataclass(frozen=True)
class _Edge:
    source: str
    target: str
    label: str
    event: bool


def _identifier(path: str) -> str:
    return f"{path}_" if path in _RESERVED else identifier(path)


def _carried(diagram: WiredBlocks) -> Mapping[Place, Wire]:
    """Return the wire of each output; the result is empty for an incomplete diagram."""
    try:
        return flatten(diagram).carried
    except ScenarioError:
        return {}


def _start(scope: Scope, end: WireEnd) -> str:
    """Return the node at which a wire begins: a block, possibly in a nested diagram."""
    block, port = scope.diagram.source(end)
    if not block:
        return scope.prefix + port
    inner = scope.diagram.blocks[block]
    if isinstance(inner, WiredBlocks):
        return _start(scope.inner(block), inner.shown[port])
    return scope.prefix + block


def _edges(scope: Scope, carried: Mapping[Place, Wire]) -> Iterator[_Edge]:
    def edge(end: WireEnd, target: str, label: str = "") -> Iterator[_Edge]:
        try:
            place = scope.resolve(end)
            start = _start(scope, end)
        except ScenarioError:
            return  # the output of the nested diagram has no source yet
        event = place is not None and place in carried and carried[place].kind == "event"
        yield _Edge(start, target, label, event)

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


def _node(form: str, path: str, name: str, label: str = "") -> str:
    return form.format(path=path, id=_identifier(path), name=name, label=label)


@dataclass(frozen=True)
class _Forms:
    """Text templates of a drawing language.

    Placeholders: ``path``, or ``id`` if only a word is allowed; ``name``; ``label``.
    """

    oval: str
    """An input or an output of the diagram."""
    block: str
    opens: str
    """The start of a nested diagram."""
    closes: str

    def nodes(self, diagram: WiredBlocks) -> Iterator[str]:
        yield from self._within(diagram, "", "  ")
        for name in diagram.shown:
            yield "  " + _node(self.oval, f"out.{name}", name)

    def _within(self, diagram: WiredBlocks, prefix: str, indent: str) -> Iterator[str]:
        for signal in diagram.signals:
            text = signal.name if signal.unit == "1" else f"{signal.name} [{signal.unit}]"
            yield indent + _node(self.oval, prefix + signal.name, text)
        for name, block in diagram.blocks.items():
            path = prefix + name
            if isinstance(block, WiredBlocks):
                yield indent + _node(self.opens, path, name)
                yield from self._within(block, f"{path}.", indent + "  ")
                yield indent + self.closes
            else:
                label = block.label.replace('"', "'")
                yield indent + _node(self.block, path, name, label)


_MERMAID = _Forms(
    oval='{id}(["{name}"])',
    block='{id}["{name}<br/>{label}"]',
    opens='subgraph {id}_in ["{name}"]',
    closes="end",
)
_DOT = _Forms(
    oval='"{path}" [label="{name}", shape=oval];',
    block='"{path}" [label="{name}\\n{label}"];',
    opens='subgraph "cluster_{path}" {{ label="{name}";',
    closes="}",
)


def mermaid(diagram: WiredBlocks) -> str:
    """Return Mermaid text; dashed arrows are events."""
    lines = ["flowchart LR", *_MERMAID.nodes(diagram)]
    for edge in _edges(Scope(diagram), _carried(diagram)):
        arrow = "-.->" if edge.event else "-->"
        label = f"|{edge.label}|" if edge.label else ""
        lines.append(f"  {_identifier(edge.source)} {arrow}{label} {_identifier(edge.target)}")
    return "\n".join(lines) + "\n"


def dot(diagram: WiredBlocks) -> str:
    """Return Graphviz text; dashed arrows are events."""
    lines = [
        f'digraph "{diagram.name}" {{'.replace("\\", "/"),
        "  rankdir=LR; nodesep=0.35; ranksep=0.6;",
        "  node [shape=box, fontname=Helvetica, fontsize=11];",
        "  edge [fontname=Helvetica, fontsize=9, labeldistance=1.5, labelangle=-35];",
        *_DOT.nodes(diagram),
    ]
    for edge in _edges(Scope(diagram), _carried(diagram)):
        style = [f'headlabel="{edge.label}"'] if edge.label else []
        style += ["style=dashed"] if edge.event else []
        suffix = f" [{', '.join(style)}]" if style else ""
        lines.append(f'  "{edge.source}" -> "{edge.target}"{suffix};')
    return "\n".join((*lines, "}")) + "\n"
