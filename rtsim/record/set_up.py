"""The set-up of a run as a graph and as a table: components, wires, periods and latencies.

Both are made of the scenario's plain data (:meth:`Scenario.describe`), which each recording has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from rtsim.core.graph import Edge, Graph, Node
from rtsim.record import markup, notebook
from rtsim.record.drawing import Drawing
from rtsim.record.markup import mapping

_MOST_NAMES = 4
"""Number of signals that are named at an arrow."""
_LONGEST, _LONGEST_ABOUT = 40, 300
_SOURCE = re.compile(r"[^\W\d]\w*\.\w+(\[\d+\])*\Z")
"""Matches the source of an input: ``component.signal``."""
_KINDS = {"inlet": "external input", "topic": "messages"}
"""Kinds of components whose names in recordings are other ones."""


def drawn(scenario: object) -> Drawing:
    """Return the drawing of a scenario from its description, such as that of a recording."""
    return Drawing(graph(mapping(scenario)))


def graph(scenario: Mapping[str, Any]) -> Graph:
    """Return the components and wires of a scenario's description.

    The signals and the latencies are at the arrows, the steps and periods in the boxes.
    """
    parts = {str(name): mapping(part) for name, part in mapping(scenario.get("parts")).items()}
    edges = tuple(edge for name, part in parts.items() for edge in _edges(name, part, parts))
    missing = sorted({edge.source for edge in edges} - parts.keys())
    nodes = [_node(name, part) for name, part in parts.items()]
    nodes += [Node(name, (_cut(name), "not declared")) for name in missing]
    return Graph(str(scenario.get("name", "")), tuple(nodes), edges)


def component_table(scenario: object) -> str:
    """Return the components of a scenario's description as an HTML table."""
    parts = mapping(mapping(scenario).get("parts"))
    rows = []
    for name, part in parts.items():
        part = mapping(part)
        reads = {source.partition(".")[0]: None for _, source, _ in _sources(part)}
        cells = _what(part), _times(part), _latency(part), ", ".join(reads)
        rows.append([_cut(text) for text in (str(name), *cells)])
    return notebook.table(("component", "what", "time", "latency", "reads"), rows)


def views_table(views: object) -> str:
    """Return the declared views as an HTML table; of published values it has the number only."""
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
    """Return the kind of a component; of a plant, also its model and its solver."""
    kind = str(part.get("kind", ""))
    if "model" in part:
        return ", ".join([f"{kind} {part['model']}", str(part.get("solver", ""))])
    own = str(part.get("type", ""))
    usual = "" if own in ("", "PythonController") else f" ({own})"
    return _KINDS.get(kind, kind) + usual


def _times(part: Mapping[str, Any]) -> str:
    """Return the step or the period of a component, or what it waits for."""
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
    """Return the latencies of the messages that a component sends; empty if they take no time."""
    said = [_delay(part[key]) for key in ("compute", "transport") if key in part]
    return " + ".join(one for one in said if one)


def _delay(stated: object) -> str:
    """Return a latency model from its text in a description, such as ``Fixed(seconds=0.1)``."""
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
    """Return a time or a period in ns, which may be a fraction such as ``50000000/3``."""
    try:
        return markup.duration(float(Fraction(str(ns))))
    except (ValueError, ZeroDivisionError, OverflowError):
        return _cut(str(ns))


def _edges(name: str, part: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[Edge]:
    """Yield one arrow for all signals that a component reads from another one."""
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
    """Yield each input of a component with its source, and whether the source is an event."""
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
