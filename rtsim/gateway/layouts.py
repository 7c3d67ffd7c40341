"""Layouts for PlotJuggler and Foxglove that show the views of a scenario."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from rtsim.core.signals import Signals
from rtsim.record.views import View, views_of
from rtsim.scenario.body import Body
from rtsim.scenario.scenario import Scenario

COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_ROWS, _COLUMNS = 3, 2
_PER_TAB = _ROWS * _COLUMNS
MOST_PANELS = 12
"""Limit of the plots in a Foxglove layout, which shows all of them at once."""
_SPAN_S = 60


def plotjuggler_layout(scenario: Scenario) -> str:
    """Return a PlotJuggler layout as XML, with six views per tab."""
    signals = scenario.readable()
    root = ElementTree.Element("root")
    window = _add(root, "tabbed_widget", name="Main Window", parent="main_window")
    views = iter(views_of(scenario))
    number = 0
    while some := list(islice(views, _PER_TAB)):
        number += 1
        tab = _add(window, "Tab", tab_name=f"Views {number}", containers="1")
        halves = [some[k : k + _ROWS] for k in range(0, len(some), _ROWS)]
        across = _split(_add(tab, "Container"), "|", len(halves))
        for half in halves:
            down = _split(across, "-", len(half))
            for view in half:
                _plot(_add(down, "DockArea", name=view.title), view, signals)
    _add(window, "currentTabIndex", index="0")
    _add(root, "use_relative_time_offset", enabled="0")
    _add(_add(root, "Plugins"), "plugin", ID="ZMQ Subscriber")
    _add(root, "previouslyLoaded_Datafiles")
    _add(root, "previouslyLoaded_Streamer", name="ZMQ Subscriber")
    _add(root, "customMathEquations")
    _add(root, "snippets")
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(parent: ElementTree.Element, tag: str, /, **attributes: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, attributes)


def _split(parent: ElementTree.Element, orientation: str, count: int) -> ElementTree.Element:
    sizes = ";".join([f"{1.0 / count:.6f}"] * count)
    return _add(parent, "DockSplitter", orientation=orientation, count=str(count), sizes=sizes)


def _plot(area: ElementTree.Element, view: View, signals: Mapping[str, Signals]) -> None:
    mode = "TimeSeries" if view.over is None else "XYPlot"
    plot = _add(area, "plot", mode=mode, style="Lines", flip_x="false", flip_y="false")
    _add(plot, "range", left="0.0", right=f"{_SPAN_S:.1f}", top="1.0", bottom="-1.0")
    _add(plot, "limitY")
    across = [] if view.over is None else _elements(view.over, signals)
    for k, name in enumerate(n for one in view.signals for n in _elements(one, signals)):
        curve, color = _curve(name), COLORS[k % len(COLORS)]
        if across:
            x = _curve(across[0])
            _add(plot, "curve", name=f"{curve}[XY]", color=color, curve_x=x, curve_y=curve)
        else:
            _add(plot, "curve", name=curve, color=color)


def _curve(name: str) -> str:
    component, _, signal = name.rpartition(".")
    return f"rtsim/{component}/{signal}"


def _elements(name: str, signals: Mapping[str, Signals]) -> list[str]:
    component, _, signal = name.rpartition(".")
    if signal not in signals[component]:
        return [name]
    return [f"{component}.{one}" for one in signals[component][signal].columns]


def foxglove_layout(scenario: Scenario) -> str:
    """Return a Foxglove layout as JSON, with plots, the scene and the map."""
    signals = scenario.readable()
    panels: dict[str, Any] = {}
    for k, view in enumerate(views_of(scenario)[:MOST_PANELS], start=1):
        panels[f"Plot!view{k}"] = _panel(view, signals)
    plots = list(panels)
    left: list[str] = []
    for body in scenario.bodies[:1]:
        panels["3D!scene"] = _scene(body)
        left.append("3D!scene")
        if body.geodetic:
            panels["map!track"] = {
                "layer": "map",
                "zoomLevel": 11,
                "followTopic": f"scene/{body.name}/location",
            }
            left.append("map!track")
    half = (len(plots) + 1) // 2
    columns = [some for some in (left, plots[:half], plots[half:]) if some]
    layout = _halves([_halves(some, "column") for some in columns], "row")
    whole = {
        "configById": panels,
        "globalVariables": {},
        "userNodes": {},
        "playbackConfig": {"speed": 1},
        "layout": layout,
    }
    return json.dumps(whole, indent=2) + "\n"


def _halves(nodes: Sequence[Any], direction: str) -> Any:
    if len(nodes) == 1:
        return nodes[0]
    return {
        "direction": direction,
        "first": nodes[0],
        "second": _halves(nodes[1:], direction),
        "splitPercentage": round(100 / len(nodes)),
    }


def _panel(view: View, signals: Mapping[str, Signals]) -> dict[str, Any]:
    names = [n for one in view.signals for n in _elements(one, signals)]
    paths = [
        {
            "value": name,
            "label": name,
            "enabled": True,
            "timestampMethod": "receiveTime",
            "color": COLORS[k % len(COLORS)],
        }
        for k, name in enumerate(names)
    ]
    panel = {
        "title": view.title,
        "paths": paths,
        "showXAxisLabels": True,
        "showYAxisLabels": True,
        "showLegend": True,
        "legendDisplay": "floating",
        "showPlotValuesInLegend": True,
        "isSynced": True,
    }
    if view.over is None:
        return {**panel, "xAxisVal": "timestamp", "followingViewWidth": _SPAN_S}
    across = {"value": _elements(view.over, signals)[0], "enabled": True}
    return {**panel, "isSynced": False, "xAxisVal": "custom", "xAxisPath": across}


def _scene(body: Body) -> dict[str, Any]:
    grid = {
        "visible": True,
        "layerId": "foxglove.Grid",
        "instanceId": "grid",
        "frameId": "world",
        "size": 20_000,
        "divisions": 40,
    }
    return {
        "cameraState": {"distance": 5.0 * body.length, "perspective": True, "phi": 65,
                        "thetaOffset": 135, "near": 0.5, "far": 200_000},
        "followMode": "follow-position",
        "followTf": body.name,
        "topics": {"scene/bodies": {"visible": True}, "scene/ground": {"visible": True}},
        "layers": {"grid": grid},
    }  # fmt: skip


FORMATS: Mapping[str, Callable[[Scenario], str]] = {
    ".xml": plotjuggler_layout,
    ".json": foxglove_layout,
}
"""Function that makes a layout, by suffix of the file: ``.xml`` PlotJuggler, ``.json`` Foxglove."""
