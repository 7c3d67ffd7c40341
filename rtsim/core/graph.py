"""Diagrams of boxes and arrows as text for Mermaid (Markdown) and Graphviz (``dot``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_RESERVED = {"call", "class", "click", "default", "end", "flowchart", "graph", "style", "subgraph"}
"""Keywords of Mermaid, which cannot be names of nodes."""
_MANY = 80
"""With more arrows than this, Graphviz limits the time for its layout."""
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class Node:
    """A box or an oval with lines of text.  ``path`` identifies the node in the graph."""

    path: str
    lines: tuple[str, ...]
    oval: bool = False
    about: str = ""
    """A longer text, which a browser shows when the pointer is on the box."""


@dataclass(frozen=True)
class Group:
    """A named frame around nodes and other groups."""

    path: str
    name: str
    items: tuple[Node | Group, ...]


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes. A dashed arrow is an event."""

    source: str
    target: str
    lines: tuple[str, ...] = ()
    event: bool = False
    at_head: bool = False
    """True to place the text beside the arrow's head instead of its middle."""
    about: str = ""


@dataclass(frozen=True)
class Graph:
    """Nodes, groups of nodes, and the arrows between them."""

    name: str
    items: tuple[Node | Group, ...]
    edges: tuple[Edge, ...]

    def mermaid(self) -> str:
        """Return the diagram as Mermaid text.  Dashed arrows are events."""
        lines = ["flowchart LR", *_MERMAID.items(self.items, "  ")]
        for edge in self.edges:
            arrow = "-.->" if edge.event else "-->"
            label = f"|{_MERMAID.text(edge.lines)}|" if edge.lines else ""
            lines.append(f"  {_word(edge.source)} {arrow}{label} {_word(edge.target)}")
        return "\n".join(lines) + "\n"

    def dot(self) -> str:
        """Return the diagram as Graphviz text.  Dashed arrows are events."""
        lines = [
            f"digraph {_quoted([self.name])} {{",
            "  rankdir=LR; nodesep=0.35; ranksep=0.6; bgcolor=transparent;",
            *(["  nslimit=2; nslimit1=2;"] if len(self.edges) > _MANY else []),
            '  node [shape=box, fontname=Helvetica, fontsize=11, margin="0.2,0.06"];',
            "  edge [fontname=Helvetica, fontsize=9, labeldistance=1.5, labelangle=-35];",
            *_DOT.items(self.items, "  "),
        ]
        for edge in self.edges:
            place = "headlabel" if edge.at_head else "label"
            style = [f"{place}={_quoted(edge.lines)}"] if edge.lines else []
            style += ["style=dashed"] if edge.event else []
            style += [f"tooltip={_quoted([edge.about])}"] if edge.about else []
            suffix = f" [{', '.join(style)}]" if style else ""
            lines.append(f"  {_quoted([edge.source])} -> {_quoted([edge.target])}{suffix};")
        return "\n".join((*lines, "}")) + "\n"


def _quoted(lines: Sequence[str]) -> str:
    texts = [line.replace("\\", "\\\\").replace('"', '\\"') for line in map(_plain, lines)]
    return '"' + "\\n".join(texts) + '"'


def _in_mermaid(lines: Sequence[str]) -> str:
    texts = (
        line.replace("&", "&amp;").replace("<", "&lt;").replace('"', "'").replace("|", "&#124;")
        for line in map(_plain, lines)
    )
    return "<br/>".join(texts)


def _plain(text: str) -> str:
    return _UNPRINTED.sub("\N{REPLACEMENT CHARACTER}", text.replace("\n", " "))


def _word(path: str) -> str:
    word = re.sub(r"\W", "_", path)
    return f"{path}_" if path in _RESERVED else word


@dataclass(frozen=True)
class _Forms:
    text: Callable[[Sequence[str]], str]
    oval: str
    box: str
    opens: str
    """Start of a group."""
    closes: str
    more: str
    """Template for the longer text ``about`` of a node; empty if the language has no such text."""

    def items(self, items: Sequence[Node | Group], indent: str) -> Iterator[str]:
        for item in items:
            names = {"path": _quoted([item.path]), "word": _word(item.path)}
            if isinstance(item, Group):
                cluster = _quoted([f"cluster_{item.path}"])
                text = self.text([item.name])
                yield indent + self.opens.format(**names, cluster=cluster, text=text)
                yield from self.items(item.items, indent + "  ")
                yield indent + self.closes
                continue
            more = self.more.format(_quoted([item.about])) if item.about else ""
            form = self.oval if item.oval else self.box
            yield indent + form.format(**names, text=self.text(item.lines), more=more)


_MERMAID = _Forms(
    text=_in_mermaid,
    oval='{word}(["{text}"])',
    box='{word}["{text}"]',
    opens='subgraph {word}_in ["{text}"]',
    closes="end",
    more="",
)
_DOT = _Forms(
    text=_quoted,
    oval="{path} [label={text}, shape=oval{more}];",
    box="{path} [label={text}{more}];",
    opens="subgraph {cluster} {{ label={text};",
    closes="}",
    more=", tooltip={}",
)
