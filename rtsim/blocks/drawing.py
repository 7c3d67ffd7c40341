"""A diagram as text that others draw: Mermaid in Markdown, Graphviz by ``dot``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rtsim.blocks.block import Block
from rtsim.blocks.diagram import Diagram, End, input_names, output_names
from rtsim.errors import ScenarioError


@dataclass(frozen=True)
class _Edge:
    source: str
    target: str
    label: str
    event: bool


def _identifier(path: str) -> str:
    return path.replace(".", "_")


def _inside(diagram: Diagram, prefix: str, end: End, at_start: bool) -> list[tuple[str, str]]:
    """The nodes that ``end`` means, with the port; where it is a diagram, those within."""
    if at_start:
        block, port = diagram.source(end)
        if not block:
            return [(f"{prefix}{port}", "")]
        inner = diagram.blocks[block]
        if isinstance(inner, Diagram):
            return _inside(inner, f"{prefix}{block}.", inner.shown[port], True)
        return [(prefix + block, port)]
    inner = diagram.blocks[end.block]
    if isinstance(inner, Diagram):
        return [(f"{prefix}{end.block}.{end.port}", "")]
    return [(prefix + end.block, end.port)]


def _edges(diagram: Diagram, prefix: str = "") -> Iterator[_Edge]:
    for (name, port), end in diagram.wires.items():
        try:
            start = _inside(diagram, prefix, end, True)
        except ScenarioError:
            continue  # not wired to anything yet
        for source, out in start:
            for target, into in _inside(diagram, prefix, End(name, port), False):
                block = diagram.blocks[name]
                several = not isinstance(block, Diagram) and len(input_names(block)) > 1
                yield _Edge(source, target, into if several else "", _is_event(diagram, end, out))
    for name, end in () if prefix else diagram.shown.items():
        for source, out in _inside(diagram, prefix, end, True):
            yield _Edge(source, f"out.{name}", "", _is_event(diagram, end, out))
    for name, block in diagram.blocks.items():
        if isinstance(block, Diagram):
            yield from _edges(block, f"{prefix}{name}.")


def _is_event(diagram: Diagram, end: End, port: str) -> bool:
    block_name, _ = diagram.source(end)
    block = diagram.blocks.get(block_name)
    while isinstance(block, Diagram):
        inner_end = block.shown[end.port or output_names(block)[0]]
        end, (name, port) = inner_end, block.source(inner_end)
        block = block.blocks.get(name)
    if not isinstance(block, Block):
        return False
    return any(p.kind == "event" for p in block.outputs if p.name == port)


def _label(block: Block) -> str:
    return block.label.replace('"', "'")


def mermaid(diagram: Diagram) -> str:
    """Dashed arrows are events."""
    lines = ["flowchart LR"]

    def nodes(inner: Diagram, prefix: str, indent: str) -> None:
        for signal in inner.signals:
            text = signal.name if signal.unit == "1" else f"{signal.name} [{signal.unit}]"
            lines.append(f'{indent}{_identifier(prefix + signal.name)}(["{text}"])')
        for name, block in inner.blocks.items():
            if isinstance(block, Diagram):
                lines.append(f'{indent}subgraph {_identifier(prefix + name)}_in ["{name}"]')
                nodes(block, f"{prefix}{name}.", indent + "  ")
                lines.append(f"{indent}end")
            else:
                text = f"{name}<br/>{_label(block)}"
                lines.append(f'{indent}{_identifier(prefix + name)}["{text}"]')

    nodes(diagram, "", "  ")
    for name in diagram.shown:
        lines.append(f'  out_{name}(["{name}"])')
    for edge in _edges(diagram):
        arrow = "-.->" if edge.event else "-->"
        label = f"|{edge.label}|" if edge.label else ""
        lines.append(f"  {_identifier(edge.source)} {arrow}{label} {_identifier(edge.target)}")
    return "\n".join(lines) + "\n"


def dot(diagram: Diagram) -> str:
    """Dashed arrows are events."""
    lines = [
        f'digraph "{diagram.name}" {{'.replace("\\", "/"),
        "  rankdir=LR; node [shape=box, fontname=Helvetica, fontsize=11];",
        "  edge [fontname=Helvetica, fontsize=9];",
    ]

    def nodes(inner: Diagram, prefix: str, indent: str) -> None:
        for signal in inner.signals:
            text = signal.name if signal.unit == "1" else f"{signal.name} [{signal.unit}]"
            lines.append(f'{indent}"{prefix}{signal.name}" [label="{text}", shape=oval];')
        for name, block in inner.blocks.items():
            if isinstance(block, Diagram):
                lines.append(f'{indent}subgraph "cluster_{prefix}{name}" {{ label="{name}";')
                nodes(block, f"{prefix}{name}.", indent + "  ")
                lines.append(f"{indent}}}")
            else:
                text = f"{name}\\n{_label(block)}"
                lines.append(f'{indent}"{prefix}{name}" [label="{text}"];')

    nodes(diagram, "", "  ")
    for name in diagram.shown:
        lines.append(f'  "out.{name}" [label="{name}", shape=oval];')
    for edge in _edges(diagram):
        style = [f'headlabel="{edge.label}"'] if edge.label else []
        style += ["style=dashed"] if edge.event else []
        suffix = f" [{', '.join(style)}]" if style else ""
        lines.append(f'  "{edge.source}" -> "{edge.target}"{suffix};')
    return "\n".join((*lines, "}")) + "\n"
