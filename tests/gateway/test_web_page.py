"""The page of a run: bounded, calm with NaN, escaped, and read-only unless allowed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("viser")

from web_parts import NOT_FINITE, Made, browser, handles, served

from rtsim.core.tag import NS_PER_S
from rtsim.gateway.publishing import MOST_VIEWS, StateTable
from rtsim.gateway.web.controls import (
    MOST_PARAMETERS,
    MOST_REQUIREMENTS,
    Commands,
    requirements_html,
)
from rtsim.gateway.web.page import MOST_CHARTS, MOST_CURVES, REST_S, Charts, Page, views_shown
from rtsim.gateway.web.scene import MOST_BODIES, NOBODY
from rtsim.gateway.web.source import MOST_NAMES, MOST_POINTS, About, History, Look, Past

MASS = {
    "name": "plane.mass", "unit": "kg", "value": [9.0], "low": 1.0, "high": 10.0,
    "description": "all of it", "shape": [],
}  # fmt: skip
BODY = {
    "name": "plane", "north_east_down": ["p.n", "p.e", "p.d"], "euler": ["p.r", "p.p", "p.y"],
    "shape": "aircraft", "length": 10.0,
}  # fmt: skip
SIX = ("p.n", "p.e", "p.d", "p.r", "p.p", "p.y")


def _click(page: Page, label: str, value: Any = None, who: int | None = 1) -> None:
    """Do what viser does when a browser clicks or types."""
    handle = handles(page)[label]
    if value is not None:
        handle._impl.value = value
    for callback in handle._impl.update_cb:
        callback(SimpleNamespace(target=handle, client_id=who, client=None))


def test_ten_thousand_signals_leave_the_page_small() -> None:
    names = [f"many.x_{k}" for k in range(10_000)]
    source = Made(names, topics={f"t{k}": names[:50] for k in range(200)})
    with served() as (server, address, _):
        page = Page(server, source, control=False)
        for _ in range(5):
            page.update()
        assert len(source.asked) <= MOST_NAMES
        assert len(page.charts.names) <= MOST_CHARTS * MOST_CURVES
        assert len(page._found.options) == 30
        buffer = server._websock_server._broadcast_buffer
        assert len(buffer.message_from_id) < 400
        with browser(address) as one:
            assert len(one.recv(10)) < 1_000_000
        _click(page, "Filter", "x_9999")
        page.update()
        assert page._found.options == ("many.x_9999",)
        _click(page, "Signal", "many.x_9999")
        _click(page, "Plot this signal")
        page.update()
        assert page.charts.names[0] == "many.x_9999"


@pytest.mark.parametrize("value", NOT_FINITE)
def test_numbers_that_are_not_finite_leave_gaps(value: float) -> None:
    names = [f"a.x_{k}" for k in range(3)]
    view = {"title": "both", "signals": ["a.x_0"], "over": "a.x_1"}
    band = {"title": "band", "signals": ["a.x_0", "a.x_1"], "band": 2.0}
    source = Made(
        [*names, *SIX], value, bodies=[BODY], parameters=[{**MASS, "value": [value]}],
        views=[view, band, {"title": "one", "signals": ["a.x_2"]}],
    )  # fmt: skip
    with served() as (server, _, _):
        page = Page(server, source, control=True)
        page.update()
        assert not page.scene._frames[0].visible
        source.value = 1.0
        page._looks = 0
        page.update()
        assert page.scene._frames[0].visible
        for chart in page.charts._charts:
            data = getattr(chart._plot, "data", ())
            assert not any(np.isinf(curve).any() for curve in data)


def test_a_chart_with_a_gap_has_a_range_of_its_own() -> None:
    with served() as (server, _, _):
        about = About("a", {"a.x": "m"}, {"a.x": "state"})
        charts = Charts(server.gui, about, views_shown(about))
        charts.open(server.gui.add_folder("x"))
        seconds = np.arange(4.0)
        past = SimpleNamespace(seconds=seconds, values={"a.x": np.array([1.0, np.nan, 3.0, 2.0])})
        charts.show(past)  # type: ignore[arg-type]
        plot = charts._charts[0]._plot
        assert plot.scales["y"] == {"range": (0.8, 3.2)}
        past.values["a.x"] = np.array([1.0, 2.0, 3.0, 2.0])
        charts.show(past)  # type: ignore[arg-type]
        assert plot.scales["y"] == {"auto": True}


def test_charts_rest_while_a_browser_draws_them_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that got other values meanwhile showed one second of the run, and no curve."""
    now = [NS_PER_S]
    monkeypatch.setattr("rtsim.gateway.web.page.stopwatch", lambda: now[0])
    source = Made(["a.x"])
    with served() as (server, address, guard):
        page = Page(server, source, False, guard)
        shown: list[float] = []
        monkeypatch.setattr(page.charts, "show", lambda _: shown.append(now[0] / NS_PER_S))

        def updated(until_s: float) -> list[float]:
            while now[0] < until_s * NS_PER_S:
                page.update()
                now[0] += NS_PER_S // 20
            return [t for t in shown if t >= until_s - REST_S]

        assert updated(3.0)
        with browser(address) as one, browser(address):
            one.recv(10)
            assert not updated(5.0)
            assert updated(7.0)
        _click(page, "Page", "1")
        assert updated(9.0) == [7.0], "a page that is turned has its values at once"


def test_published_values_are_points_among_the_curves() -> None:
    nasa = {"name": "NASA", "times": [-1.0, 0.0, 1.5, 9.0], "values": [7.0, 8.0, 9.0, 7.0]}
    view = {"title": "a", "signals": ["a.x"], "published": [nasa], "band": 1.0}
    with served() as (server, _, _):
        about = About("a", {"a.x": "m"}, {"a.x": "state"}, views=[view])
        charts = Charts(server.gui, about, views_shown(about))
        charts.open(server.gui.add_folder("x"))
        past = Past(np.arange(4.0), {"a.x": np.array([1.0, 2.0, 4.0, 6.0])})
        charts.show(past)
        plot = charts._charts[0]._plot
        seconds, curve, upper, _, points = (list(one) for one in plot.data)
        assert seconds == [0.0, 1.0, 1.5, 2.0, 3.0]
        assert curve == [1.0, 2.0, 3.0, 4.0, 6.0]
        assert upper == [1.0] * 5
        np.testing.assert_equal(points, [8.0, math.nan, 9.0, math.nan, math.nan])
        assert plot.series[-1]["label"] == "NASA"
        assert plot.scales["y"]["range"][1] > 9.0


def test_views_of_signals_that_are_not_sent_are_named() -> None:
    """A component with 10,000 signals does not fit; its views were missing without a word."""
    views = [{"title": "there", "signals": ["a.x"]}, {"title": "<far>", "signals": ["a.far"]}]
    with served() as (server, _, _):
        Page(server, Made(["a.x"], views=views), control=False)
        sent = server._websock_server._broadcast_buffer.message_from_id.values()
        said = " ".join(str(getattr(getattr(m, "props", None), "content", "")) for m in sent)
        assert "the run does not send them: &lt;far&gt;" in said
        assert "there" not in said


def test_names_from_a_recording_are_text_and_no_markup() -> None:
    evil = "<img src=x onerror=alert(1)>"
    source = Made([f"{evil}.{evil}"], topics={evil: [evil]}, left_out={evil: 3})
    source.about = About(evil, source.about.signals, source.about.kinds, topics={evil: [evil]})
    with served() as (server, _, _):
        page = Page(server, source, control=False)
        page.update()
        page.say(evil)
        for shown in (page._state, page._messages, page._values):
            assert "<img" not in shown.content
        assert "&lt;img" in page._messages.content


def test_a_page_without_control_gives_no_commands() -> None:
    with served() as (server, _, _):
        page = Page(server, Made(["a.x"], parameters=[MASS]), control=False)
        page.update()
        assert "Pause or resume" not in handles(page)
        field = handles(page)["plane.mass"]
        assert field.disabled
        assert not field._impl.update_cb
        assert "--control" in page._state.content


def test_buttons_and_fields_give_commands() -> None:
    source = Made(["a.x"], parameters=[MASS], faults={"stuck": "sensor"})
    with served() as (server, _, _):
        page = Page(server, source, control=True)
        page.update()
        for label, value in [
            ("Pause or resume", None), ("Step", None), ("Rate", "faster"),
            ("Back to the last checkpoint", None), ("Save a checkpoint", None),
            ("Fault: start", None), ("Fault: clear", None),
        ]:  # fmt: skip
            _click(page, label, value)
        _click(page, "plane.mass", "5\n")
        page.update()
        assert source.told == [
            ("pause", {}), ("step", {}), ("rate", {"rate": 2.0}), ("restore", {}),
            ("checkpoint", {}), ("fault", {"name": "stuck", "do": "start"}),
            ("fault", {"name": "stuck", "do": "clear"}),
            ("set", {"target": "plane.mass", "value": 5.0}),
        ]  # fmt: skip
        source.refused = "mass is outside its range"
        _click(page, "plane.mass", "7\n")
        page._looks = 0
        page.update()
        assert "refused: mass is outside its range" in page._state.content


def test_fields_show_unit_and_range_and_are_bounded() -> None:
    rows = [{**MASS, "name": f"plane.m{k}"} for k in range(200)]
    wide = {**MASS, "name": "plane.big", "value": [0.0] * 500}
    free = {**MASS, "name": "plane.free", "low": None, "high": None}
    with served() as (server, _, _):
        page = Page(server, Made(["a.x"], parameters=[wide, free, *rows]), control=True)
        assert len(page._parameters._fields) == MOST_PARAMETERS
        assert page._parameters._fields["plane.big"] == []
        page.update()
        notes = page._parameters._notes
        assert "1 to 10 kg" in notes["plane.m0"].content
        assert "any number, kg" in notes["plane.free"].content
        assert page._parameters._fields["plane.m0"][0].hint == "all of it"
        page._parameters.open(server.gui.add_folder("x"), "M199")
        assert list(page._parameters._fields) == ["plane.m199"]
        page._parameters.show({"plane.m199": 2.5})
        assert page._parameters._fields["plane.m199"][0].value == "2.5"


class Tuned(Made):
    """A source whose mass follows the commands."""

    def __init__(self, **about: Any) -> None:
        super().__init__(["plane.mass"], 9.0, parameters=[MASS], **about)

    def tell(self, kind: str, **arguments: Any) -> str:
        answer = super().tell(kind, **arguments)
        if kind == "set":
            self.value = arguments["value"]
        return answer

    @property
    def masses(self) -> list[float]:
        return [arguments["value"] for kind, arguments in self.told if kind == "set"]


def _now(page: Page) -> None:
    """Let the page take what users did, and show the next state."""
    for _ in range(2):
        page._looks = 0
        page.update()


def _keys(page: Page, text: str) -> None:
    """Type ``text`` into the emptied field of the mass; a browser sends the text after each key."""
    for end in range(len(text) + 1):
        _click(page, "plane.mass", text[:end])
        _now(page)


def test_a_typed_value_is_pending_until_enter() -> None:
    source = Tuned()
    with served() as (server, _, _):
        page = Page(server, source, control=True)
        _now(page)
        _keys(page, "2.25")
        assert source.masses == []
        assert handles(page)["plane.mass"].value == "2.25", "the present value does not replace it"
        note = page._parameters._notes["plane.mass"]
        assert "pending, now 9 kg; 1 to 10 kg" in note.content
        _click(page, "plane.mass", "2.25\n")
        _now(page)
        assert source.masses == [2.25]
        assert handles(page)["plane.mass"].value == "2.25"
        assert "pending" not in note.content
        source.value = 3.5  # another client
        _now(page)
        assert handles(page)["plane.mass"].value == "3.5"
        _click(page, "plane.mass", "6.0", who=None)  # this process showed the value
        _click(page, "Apply")
        _now(page)
        assert source.masses == [2.25]


@pytest.mark.parametrize("text", ["", "-", "x", "nan", "1e400", "0.5", "1" + 400 * "0", "1,5"])
def test_a_text_that_is_no_number_in_the_range_sets_nothing(text: str) -> None:
    source = Tuned()
    with served() as (server, _, _):
        page = Page(server, source, control=True)
        _now(page)
        _click(page, "plane.mass", text + "\n")
        _now(page)
        assert source.masses == []
        assert "type 1 to 10 kg" in page._state.content
        assert "type 1 to 10 kg" in page._parameters._notes["plane.mass"].content
        _click(page, "Discard")
        _now(page)
        assert handles(page)["plane.mass"].value == "9.0"
        assert "type 1 to 10 kg" not in page._state.content


def test_apply_sets_pending_values_and_undo_restores_them() -> None:
    source = Tuned()
    with served() as (server, _, _):
        page = Page(server, source, control=True)
        _now(page)
        for text in ("2", "3"):
            _keys(page, text)
            _click(page, "Apply")
            _now(page)
        for _ in range(3):
            _click(page, "Undo")
            _now(page)
        assert source.masses == [2.0, 3.0, 2.0, 9.0]
        assert "there is no change to undo" in page._state.content
        source.refused = "no"
        _click(page, "plane.mass", "4\n")
        _now(page)
        assert handles(page)["plane.mass"].value == "9.0", "the run refused 4"
        source.refused = ""
        _click(page, "Undo")
        _now(page)
        assert source.masses == [2.0, 3.0, 2.0, 9.0]


def test_the_end_of_a_run_is_shown_above_its_last_state() -> None:
    with served() as (server, _, _):
        page = Page(server, Made(["a.x"]), control=True)
        page.end("the run ended in an error at 0 s")
        assert "ended in an error" in page._state.content
        page.update()
        page.end("the run ended in an error at 0.05 s: ModelError: <x> became nan")
        shown = page._state.content
        assert "ended in an error at 0.05 s: ModelError: &lt;x&gt; became nan" in shown
        assert "0.050 s" in shown
        assert "overruns" in shown


def test_bodies_follow_and_are_bounded() -> None:
    bodies = [{**BODY, "name": f"b{k}"} for k in range(MOST_BODIES + 5)]
    with served() as (server, _, _):
        page = Page(server, Made(SIX, 2.0, bodies=[*bodies, {"name": "wrong"}]), control=False)
        assert len(page.scene.placed) == MOST_BODIES
        assert f"only {MOST_BODIES}" in page.scene.wrong
        page.update()
        here, world = page.scene._frames[0].position, page.scene._world.position
        assert np.allclose(here + world, 0.0)
        assert np.abs(here).max() > 0
        _click(page, "Camera follows", NOBODY)
        page.update()
        assert np.allclose(page.scene._world.position, 0.0)


def test_a_body_of_a_wrong_unit_is_named() -> None:
    source = Made(SIX, bodies=[{**BODY, "north_east_down": ["p.n", "p.e", "p.gone"]}])
    with served() as (server, _, _):
        page = Page(server, source, control=False)
        assert "p.gone" in page.scene.wrong
        page.update()


def test_a_run_that_does_not_answer_is_waited_for() -> None:
    class Silent(Made):
        def look(self, names: Any) -> None:
            pass

    with served() as (server, _, _):
        page = Page(server, Silent(["a.x"]), control=False)
        page.update()
        assert "does not answer" in page._state.content
        answered = Page(server, Made(["a.x"]), control=False)
        answered.update()
        answered._source = Silent(["a.x"])
        answered.update()
        assert "does not answer" in answered._state.content
        assert "overruns" in answered._state.content


def test_commands_are_bounded_and_the_last_value_counts() -> None:
    commands = Commands()
    for k in range(1000):
        commands.add("set", once="set a", value=k)
    assert commands.take() == [("set", {"value": 999})]
    for _ in range(1000):
        commands.add("step")
    assert len(commands.take()) == 100
    assert commands.dropped == 900
    assert commands.take() == []


def test_a_history_keeps_a_span_in_bounded_memory() -> None:
    history = History(("a", "b"), 10.0, most=100)
    for k in range(5000):
        history.add(k * 10_000_000, {"a": float(k)})
    past = history.past(10.0)
    assert 99 <= len(past.seconds) <= 100
    assert past.seconds[-1] == pytest.approx(49.9, abs=0.1)
    assert np.isnan(past.values["b"]).all()
    moved = history.moved_to(("a", "c"), 10.0).past(10.0)
    assert moved.values["a"].tolist() == past.values["a"].tolist()
    assert len(history.past(1.0).seconds) <= 11
    history.add(5, {"a": 7.0})
    assert history.past(10.0).values["a"].tolist() == [7.0], "the run went back"
    assert MOST_POINTS * 8 * MOST_CURVES * MOST_CHARTS < 1_000_000
    assert MOST_VIEWS < 1000


REQUIRED = (
    {"name": "LOW", "formula": "always a.x < 1 m", "text": "It is <low>."},
    {"name": "SOON", "formula": "eventually[0, 9] a.x > 1 m"},
    {"name": "NEW", "formula": "always a.x < 2 m"},
)


def test_the_page_shows_each_requirement_with_its_robustness_so_far() -> None:
    source = Made(["a.x"], requirements=REQUIRED)
    with served() as (server, _, _):
        page = Page(server, source, control=False)
        page.update()
        shown = page._required.content
        assert shown.count("<td>open</td>") == 3
        source.watched = (
            {"name": "LOW", "robustness": [None, -0.25], "outcome": "failed", "at_ns": NS_PER_S},
            {"name": "SOON", "robustness": [0.5, 0.5], "outcome": "passed", "at_ns": None},
            {"name": "NEW", "robustness": [-1.0, 2.0], "outcome": "undecided", "at_ns": None},
            {"name": "GONE", "robustness": [1.0, None], "outcome": "undecided", "at_ns": None},
        )
        page._looks = 0
        page.update()
        low, soon, new = page._required.content.split("<tr")[2:]
        assert "<td>LOW</td><td>violated</td><td>&lt;= -0.25</td><td>1.000</td>" in low
        assert "color:#c92a2a" in low
        assert "It is &lt;low&gt;.\nalways a.x &lt; 1 m" in low
        assert "<td>SOON</td><td>holds</td><td>0.5</td><td></td>" in soon
        assert "<td>NEW</td><td>open</td><td>-1 to 2</td><td></td>" in new
        assert "color" not in new


def test_a_page_without_requirements_has_no_table_of_them() -> None:
    with served() as (server, _, _):
        page = Page(server, Made(["a.x"]), control=False)
        page.update()
        assert page._required is None


def test_requirements_beyond_the_limit_are_counted() -> None:
    many = [{"name": f"R{k}", "formula": "always a.x < 1 m"} for k in range(MOST_REQUIREMENTS + 2)]
    about = About("a", {}, {}, requirements=many)
    shown = requirements_html(about, Look(StateTable(0), {}, {}))
    assert shown.count("<td>open</td>") == MOST_REQUIREMENTS
    assert "2 more requirements are not shown" in shown
