"""The views of a scenario in the strips of the window, on rtsim top, and in generated layouts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.cli.top import in_views
from rtsim.core.signals import Signal, Signals
from rtsim.gateway.layouts import foxglove_layout, plotjuggler_layout
from rtsim.gateway.publishing import catalogue, topics_of
from rtsim.pilot.views import with_views
from rtsim.record.views import View
from rtsim.scenario.loading import load_scenario

NAMES = ["orbit", "valves", "nesc"]


@pytest.mark.parametrize("name", NAMES)
def test_layouts_show_what_a_run_sends(name: str) -> None:
    scenario = load_scenario(name)
    signals = catalogue(scenario.build(compile=False))["signals"]
    sent = {(topic.name, one) for topic in topics_of(signals) for one in topic.names}
    root = ElementTree.fromstring(plotjuggler_layout(scenario))
    titles = [area.get("name") for area in root.iter("DockArea")]
    assert titles == [view.title for view in scenario.presentation.views]
    for curve in root.iter("curve"):
        names = [curve.get(key) for key in ("name", "curve_x", "curve_y")]
        for one in (n.removesuffix("[XY]") for n in names if n):
            assert tuple(one.removeprefix("rtsim/").split("/")) in sent
    for splitter in root.iter("DockSplitter"):
        assert int(str(splitter.get("count"))) == len(list(splitter)) > 0
    layout = json.loads(foxglove_layout(scenario))
    panels = layout["configById"].values()
    assert [p["title"] for p in panels if "paths" in p] == titles[:12]
    shown = [series["value"] for panel in panels for series in panel.get("paths", ())]
    shown += [panel["xAxisPath"]["value"] for panel in panels if "xAxisPath" in panel]
    assert {tuple(value.split(".")) for value in shown} <= sent
    placed = json.dumps(layout["layout"])
    assert all(f'"{panel}"' in placed for panel in layout["configById"])


def test_a_layout_is_written_for_one_of_two_tools(tmp_path: Path) -> None:
    def rtsim(path: Path) -> str:
        return CliRunner().invoke(main, ["layout", "orbit", "-o", str(path)]).output

    assert "layout: " in rtsim(tmp_path / "a.xml")
    assert "layout: " in rtsim(tmp_path / "a.json")
    assert "exists; give another" in rtsim(tmp_path / "a.xml")
    assert "give -o FILE.xml for PlotJuggler" in rtsim(tmp_path / "a.txt")


def test_top_shows_the_signals_of_views_first() -> None:
    known = ["a.x", "a.q_0", "a.q_1", "a.q_10", "b.y", "a.qq_0"]
    views = [View("1", ("b.y", "a.q")).to_dict(), {"title": "wrong"}]
    assert in_views(known, views) == ["b.y", "a.q_0", "a.q_1", "a.q_10", "a.x", "a.qq_0"]
    assert in_views(known, None) == known


def test_strips_are_the_views_first_then_what_they_do_not_show() -> None:
    strips = pytest.importorskip("rtsim.pilot.scenes.strips")
    plants = {
        "a": Signals("x [m]", "v [m/s]", Signal("q", shape=(3,))),
        "b": Signals("x [m]"),
    }
    views = [
        View("places [m]", ("a.x", "b.x", "c.command")),
        View("mixed", ("a.v", "a.q_1")),
    ]
    found = strips.ordered_strips(plants, strips.readable_views([v.to_dict() for v in views]))
    assert [(s.plant, s.title, list(s.columns)) for s in found] == [
        ("a", "places [m]", [0]),
        ("b", "places [m]", [0]),
        ("a", "mixed", [1]),
        ("a", "mixed", [3]),
        ("a", "a.q", [2, 3, 4]),
    ]
    assert strips.readable_views([{"title": 3}, 4]) == strips.readable_views(None) == []


def test_only_a_window_of_strips_gets_the_views() -> None:
    assert with_views({}, [1]) == {"views": [1]}
    assert with_views({"scene": "strips"}, [1]) == {"scene": "strips", "views": [1]}
    assert with_views({"scene": "f16"}, [1]) == {"scene": "f16"}
    assert with_views({}, []) == {}
