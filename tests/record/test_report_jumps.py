"""The report's plots draw a discontinuity: x- and x+ of one instant, and no slope between rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rtsim.core.errors import UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.models.ball import scenario as ball
from rtsim.models.queues import scenario as queue
from rtsim.record.reading import Recording
from rtsim.record.reports import charts
from rtsim.record.reports.charts import Line
from rtsim.record.reports.run_page import render
from rtsim.testing.determinism import trace_of

Drawn = Callable[[Recording, str], Line]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The line by its name, out of the charts of a whole report."""
    made: list[Line] = []
    plain = charts._plain

    def keep(line: Line, path: bool) -> dict[str, Any]:
        made.append(line)
        return plain(line, path)

    monkeypatch.setattr(charts, "_plain", keep)

    def find(recording: Recording, name: str) -> Line:
        made.clear()
        render(recording)
        return next(line for line in made if line.name == name)

    return find


def bounces(recording: Recording) -> list[int]:
    """ns of those that are not among the last, which lie ever closer together."""
    return [e.tag.ns for e in recording.events if e.kind == "Crossed"][:4]


@pytest.mark.parametrize("step", ["1/100", "1/5000"], ids=["all-rows", "thinned"])
def test_a_jump_is_drawn_from_before_to_after_at_one_time(step: str, drawn: Drawn) -> None:
    recording = trace_of(ball(until=2, step=step))
    speed = drawn(recording, "ball.speed")
    hits = bounces(recording)
    assert len(hits) == 4
    for ns in hits:
        t = ns / NS_PER_S
        before, after = recording.at(t, "-")["ball.speed"], recording.at(t, "+")["ball.speed"]
        assert before < 0.0 < after
        assert speed.y[speed.x == t].tolist() == [before, after]


def test_what_flows_is_drawn_from_row_to_row_and_what_holds_in_stairs(drawn: Drawn) -> None:
    """Stairs between the rows of a plant would be jumps that it never made."""
    assert not drawn(trace_of(ball(until=1)), "ball.height").stairs
    assert drawn(trace_of(queue(until=20)), "queue.waiting").stairs


def test_what_is_sent_is_drawn_from_its_arrival_to_the_end(drawn: Drawn) -> None:
    recording = trace_of(queue(until=20))
    line, track = drawn(recording, "queue.served"), recording.track("messages/queue")
    arrivals = (track.integer("arrival") / NS_PER_S).tolist()
    values = track.column("served").tolist()
    assert line.x.tolist()[: len(arrivals)] == arrivals
    assert line.y.tolist()[: len(values)] == values
    assert line.x[-1] == recording.end_ns / NS_PER_S
    assert line.y[-1] == values[-1]


@pytest.mark.parametrize("side", ["before", "minus", "", "+-"])
def test_an_instant_has_two_sides_and_no_other_is_taken_for_one(side: Any) -> None:
    with pytest.raises(UnknownName, match=r"unknown side of an instant .* -, \+"):
        trace_of(ball(until="1/10")).at("1/10", side)
