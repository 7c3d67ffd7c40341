"""The layout files of ``docs/layouts``: well formed, and all they show is something a run sends.

The views of a scenario in the strips of the window, on rtsim top, and in generated layouts.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.cli.top import in_views
from rtsim.core.signals import Signal, Signals
from rtsim.gateway.layouts import foxglove_layout, plotjuggler_layout
from rtsim.gateway.loop import Gateway
from rtsim.gateway.publishing import PLOTJUGGLER, catalogue, topics_of
from rtsim.pilot.views import with_views
from rtsim.record.views import View
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.timing.policy import parse_policy

LAYOUTS = Path(__file__).parents[2] / "docs" / "layouts"
PANELS = {"3D", "Plot", "StateTransitions", "map"}


def plotjuggler() -> ElementTree.Element:
    return ElementTree.parse(LAYOUTS / "plotjuggler_f16.xml").getroot()


def curves() -> set[str]:
    return {str(curve.get("name")) for curve in plotjuggler().iter("curve")}


def foxglove() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((LAYOUTS / "foxglove_f16.json").read_text())
    return found


def paths() -> set[str]:
    """``topic.field`` of every series."""
    panels = foxglove()["configById"].values()
    return {series["value"] for panel in panels for series in panel.get("paths", ())}


@pytest.fixture(scope="module")
def sent() -> set[tuple[str, str]]:
    """Topic and name of all that a run of the F-16 has."""
    signals = catalogue(load_scenario("f16", {}).build(compile=False))["signals"]
    return {(topic.name, name) for topic in topics_of(signals) for name in topic.names}


@pytest.mark.long
def test_plotjuggler_curves_are_named_as_it_names_what_it_is_sent(
    sent: set[tuple[str, str]],
) -> None:
    assert len(curves()) > 20
    assert curves() <= {f"rtsim/{topic}/{name}" for topic, name in sent}


def test_plotjuggler_layout_is_of_its_form() -> None:
    root = plotjuggler()
    assert root.tag == "root"
    streamer, plugin = root.find("previouslyLoaded_Streamer"), root.find("Plugins/plugin")
    assert streamer is not None
    assert plugin is not None
    assert streamer.get("name") == plugin.get("ID") == "ZMQ Subscriber"
    assert PLOTJUGGLER.endswith("127.0.0.1:9872"), "what it connects to by itself"
    tabs = root.findall("tabbed_widget/Tab")
    assert len(tabs) == 3
    for splitter in root.iter("DockSplitter"):
        sizes = str(splitter.get("sizes")).split(";")
        assert int(str(splitter.get("count"))) == len(sizes) == len(list(splitter))
        assert sum(map(float, sizes)) == pytest.approx(1.0, abs=1e-3)
    for area in root.iter("DockArea"):
        plot = area.find("plot")
        assert plot is not None
        assert plot.get("mode") == "TimeSeries"
        assert plot.find("curve") is not None


def test_foxglove_series_are_fields_of_what_it_is_sent(sent: set[tuple[str, str]]) -> None:
    assert len(paths()) > 12
    assert paths() <= {f"{topic}.{name}" for topic, name in sent}


def test_foxglove_layout_is_of_its_form() -> None:
    layout = foxglove()
    assert set(layout) == {"configById", "globalVariables", "layout", "playbackConfig", "userNodes"}

    def leaves(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
            return
        assert node["direction"] in ("row", "column")
        assert 0 < node["splitPercentage"] < 100
        yield from leaves(node["first"])
        yield from leaves(node["second"])

    shown = list(leaves(layout["layout"]))
    assert sorted(shown) == sorted(layout["configById"]), "every panel has its place"
    assert all(re.fullmatch(r"\w+!\w+", name) for name in shown)
    assert {name.partition("!")[0] for name in shown} == PANELS


def test_the_scene_of_the_layout_is_that_of_the_scenario() -> None:
    (body,) = load_scenario("f16", {}).bodies
    panels = foxglove()["configById"]
    assert panels["3D!scene"]["followTf"] == body.name
    assert panels["3D!scene"]["topics"] == {"scene/bodies": {"visible": True}}
    assert panels["3D!scene"]["layers"]["grid"]["frameId"] == "world"
    assert panels["map!track"]["followTopic"] == f"scene/{body.name}/location"


@pytest.mark.live
def test_a_live_flight_sends_plotjuggler_every_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    got: dict[str, float] = {}
    seen, context = threading.Event(), zmq.Context()
    end: zmq.Socket[bytes] = context.socket(zmq.SUB)
    end.setsockopt(zmq.SUBSCRIBE, b"")
    end.connect(endpoint)

    def hear() -> None:
        while not curves() <= set(got):
            if not end.poll(60_000):
                break
            topic, data = end.recv_multipart()
            message = msgpack.unpackb(data)
            got.update({f"{topic.decode()}/{name}": value for name, value in message.items()})
        seen.set()

    hearing = threading.Thread(target=hear)
    hearing.start()
    pace = Pace(1.0, parse_policy("slip:1000000"))
    with Gateway({"scenario": "f16"}, plotjuggler=endpoint) as inbox:
        simulate(
            load_scenario("f16", {}), until=1000, pace=pace, inbox=inbox,
            observe=lambda _: _ended(inbox) if seen.is_set() else None,
        )  # fmt: skip
    hearing.join()
    end.close()
    context.term()
    assert curves() <= set(got)
    assert got["rtsim/f16/altitude_ft"] == pytest.approx(10_013.0, abs=100.0)
    assert inbox.telemetry["plotjuggler"]["sent"] > 0


def _ended(inbox: Any) -> None:
    from rtsim.engine.commands.commands import read_command

    if not inbox.waiting and not inbox.closed:
        inbox.give(read_command({"kind": "quit"}))


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
