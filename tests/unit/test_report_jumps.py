"""The report's plots draw a discontinuity: x- and x+ of one instant, and no slope between rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import pytest

from rtsim.core.errors import UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.models.ball import scenario as ball
from rtsim.models.queues import scenario as queue
from rtsim.record import figures
from rtsim.record.reading import Recording
from rtsim.record.report import render
from rtsim.testing.determinism import trace_of

Drawn = Callable[[Recording, str], go.Scatter]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The trace by its title, out of the figures of a whole report."""
    made: list[go.Figure] = []
    as_html = figures.plot_html

    def keep(figure: go.Figure, **how: bool) -> str:
        made.append(figure)
        return as_html(figure, **how)

    monkeypatch.setattr(figures, "plot_html", keep)

    def find(recording: Recording, title: str) -> go.Scatter:
        made.clear()
        render(recording)
        (trace,) = [one for figure in made for one in figure.data if one.name == title]
        return trace

    return find


def bounces(recording: Recording) -> list[int]:
    """ns of those that are not among the last, which lie ever closer together."""
    return [e.tag.ns for e in recording.events if e.kind == "Crossed"][:4]


@pytest.mark.parametrize("step", ["1/100", "1/5000"], ids=["all-rows", "thinned"])
def test_a_jump_is_drawn_from_before_to_after_at_one_time(step: str, drawn: Drawn) -> None:
    recording = trace_of(ball(until=2, step=step))
    speed = drawn(recording, "speed [m/s]")
    hits = bounces(recording)
    assert len(hits) == 4
    for ns in hits:
        t = ns / NS_PER_S
        before, after = recording.at(t, "-")["ball.speed"], recording.at(t, "+")["ball.speed"]
        assert before < 0.0 < after
        assert speed.y[speed.x == t].tolist() == [before, after]


def test_what_flows_is_drawn_from_row_to_row_and_what_holds_in_stairs(drawn: Drawn) -> None:
    """Stairs between the rows of a plant would be jumps that it never made."""
    assert drawn(trace_of(ball(until=1)), "height [m]").line.shape == "linear"
    line = drawn(trace_of(queue(until=20)), "waiting")
    assert line.line.shape == "hv"


def test_what_is_sent_is_drawn_from_its_arrival_on(drawn: Drawn) -> None:
    recording = trace_of(queue(until=20))
    line, track = drawn(recording, "served"), recording.track("messages/queue")
    assert line.x.tolist() == (track.integer("arrival") / NS_PER_S).tolist()
    assert line.y.tolist() == track.column("served").tolist()


@pytest.mark.parametrize("side", ["before", "minus", "", "+-"])
def test_an_instant_has_two_sides_and_no_other_is_taken_for_one(side: Any) -> None:
    with pytest.raises(UnknownName, match=r"unknown side of an instant .* -, \+"):
        trace_of(ball(until="1/10")).at("1/10", side)
