"""Views: what a declaration accepts, what a recording keeps, and the default order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rtsim.components.controller import PythonController
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.equations.model import Model
from rtsim.record.reading import Recording
from rtsim.record.reports.view_charts import ViewCharts, shown_views
from rtsim.record.views import Published, View, places, views_of
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario


def _motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0], dx[1] = x[1], u[0]
    dx[2:] = 0.0


def _output(t: float, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = x[0]


def _law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = u[0] - u[1]


def _cart() -> Scenario:
    out = Scenario("cart", until=0.05)
    model = Model(
        name="cart",
        states=Signals("x [m]", "v [m/s]", Signal("extra", shape=(3,))),
        inputs=Signals("force [N]"),
        outputs=Signals("place [m]"),
        derivative=_motion,
        output=_output,
    )
    out.plant("cart", model, step=0.01, inputs={"force": "law.force"})
    out.source("driver", Signals("place_command [m] = 1", "idle"))
    law = PythonController(
        _law, inputs=Signals("place_command [m]", "place [m]"), outputs=Signals("force [N]")
    )
    wires = {"place_command": "driver.place_command", "place": "cart.place"}
    out.controller("law", law, period=0.02, inputs=wires)
    return out


def _recorded(scenario: Scenario) -> Recording:
    return simulate(scenario, compile=False).recording()


def test_the_default_order_is_commands_over_responses_then_outputs_then_states() -> None:
    found = [view.signals for view in views_of(_cart())]
    assert found == [
        ("cart.place", "driver.place_command"),
        ("cart.force", "law.force"),
        ("driver.idle",),
        ("cart.x",),
        ("cart.v",),
        ("cart.extra",),
    ]
    assert views_of(_cart())[0].title == "cart.place [m]"


def test_a_recording_has_the_views_of_its_scenario() -> None:
    recording = _recorded(_cart())
    shown = [view.signals for view in views_of(recording)]
    assert shown == [v.signals for v in views_of(_cart()) if v.signals != ("driver.idle",)]
    found = places(recording.header, recording.tracks)
    assert found["driver.place_command"] == ("messages/law.inputs", "place_command")
    assert found["cart.extra_2"] == ("cart", "extra_2")
    assert found["law.force"] == ("messages/law", "force")


def test_a_declared_view_is_kept_and_changes_no_row() -> None:
    plain = _recorded(_cart())
    scenario = _cart()
    scenario.plot("place [m]", "cart.place", "driver.place_command", band=0.5)
    scenario.plot("phase", "cart.v", over="cart.x", unit="m/s", marks=False)
    shown = _recorded(scenario)
    assert views_of(shown) == views_of(scenario) == scenario.presentation.views
    assert [v.title for v in views_of(shown)] == ["place [m]", "phase"]
    assert shown.digest() == plain.digest()
    assert shown.header["scenario"] == plain.header["scenario"]
    assert not _cart().presentation.views


def test_a_wrong_signal_is_refused_at_the_build_with_the_near_names() -> None:
    scenario = _cart()
    scenario.plot("place", "cart.plaze")
    with pytest.raises(UnknownName, match=r"'cart\.plaze' in plot 'place'.*cart\.place"):
        scenario.build(compile=False)
    other = _cart()
    other.plot("place", "cart.place", over="cart.extra_7")
    with pytest.raises(UnknownName, match="extra_7"):
        other.build(compile=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"title": ""}, "title must be a text"),
        ({"title": 3}, "title must be a text"),
        ({"signals": []}, "0 signals"),
        ({"signals": "a.b"}, "give texts"),
        ({"signals": ["a"]}, "names no signal"),
        ({"signals": [1]}, "not a text"),
        ({"signals": ["a.b", "a.b"]}, "twice"),
        ({"over": "x"}, "names no signal"),
        ({"band": -1.0}, "band is -1.0"),
        ({"band": float("nan")}, "band is nan"),
        ({"band": "wide"}, "band is 'wide'"),
        ({"band": 1.0, "over": "a.c"}, "remove over= or band="),
        ({"unit": 3}, "unit is 3"),
        ({"marks": "yes"}, "marks is 'yes'"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_a_wrong_view_gives_one_clear_error(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        View.from_dict({"title": "t", "signals": ["a.b"], **given})


def test_views_are_plain_data_and_back() -> None:
    view = View("t", ("a.b", "a.c"), band=2)
    assert View.from_dict(view.to_dict()) == view
    with pytest.raises(ScenarioError, match="has no signals"):
        View.from_dict({"title": "t"})
    with pytest.raises(ScenarioError, match="must be a table"):
        View.from_dict(["t"])


def test_a_title_is_declared_once() -> None:
    scenario = _cart()
    scenario.plot("place", "cart.place")
    with pytest.raises(ScenarioError, match="declared twice"):
        scenario.plot("place", "cart.x")


def test_a_damaged_view_of_a_recording_names_the_recording() -> None:
    recording = _recorded(_cart())
    damaged = replace(recording, header={**recording.header, "views": [{"title": "t"}]})
    with pytest.raises(RecordingError, match="contains an invalid view"):
        views_of(damaged)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"times": (0.0, 0.0)}, "do not increase"),
        ({"times": (0.0,)}, "1 times, but 2 values"),
        ({"values": (0.0, float("nan"))}, "give finite numbers"),
        ({"values": "01"}, "give numbers"),
        ({"times": (), "values": ()}, "0 elements"),
        ({"name": ""}, "must be a text"),
    ],
)
def test_wrong_published_values_are_refused(given: dict[str, Any], told: str) -> None:
    right: dict[str, Any] = {"name": "source", "times": (0.0, 1.0), "values": (2.0, 3.0)}
    with pytest.raises(ScenarioError, match=told):
        Published(**{**right, **given})
    kept = {**right, **given}
    with pytest.raises(ScenarioError):
        View.from_dict({"title": "t", "signals": ["a.b"], "published": [kept]})


@pytest.mark.parametrize("given", [3, [3], [{"name": "a"}], "abc"])
def test_published_values_that_are_none_are_refused(given: object) -> None:
    with pytest.raises(ScenarioError, match="published"):
        View.from_dict({"title": "t", "signals": ["a.b"], "published": given})
    with pytest.raises(ScenarioError, match="need the time"):
        View("t", ("a.b",), over="a.c", published=(Published("s", (0.0,), (0.0,)),))


def test_a_report_shows_published_values_up_to_the_end_of_the_run() -> None:
    scenario = _cart()
    published = Published("a book", (0.0, 0.02, 7.0), (5.0, 6.0, 8.0))
    scenario.plot("place [m]", "cart.place", published=[published])
    recording = _recorded(scenario)
    assert shown_views(recording).first[0].published == (published,)
    chart = ViewCharts(recording, 4).chart(shown_views(recording).first[0])
    assert chart is not None
    found = chart.lines[-1]
    assert (found.name, found.points) == ("a book", True)
    assert (found.x.tolist(), found.y.tolist()) == ([0.0, 0.02], [5.0, 6.0])
