"""Pages about runs that end at different times, or that have no signal and no time in common."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, browser

from rtsim.core.signals import Signals
from rtsim.models.ball import scenario as ball
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.reports import drawing
from rtsim.record.reports.charts import Chart, Line, grid
from rtsim.record.reports.comparison_pages import render_overlay
from rtsim.record.reports.page import page
from rtsim.record.reports.run_page import render
from rtsim.record.reports.view_charts import ViewCharts, overlaid, shown_views
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

STAMPS = ("initiated", "arrival", "status")


def sent(end_s: float, period_s: float, begin_s: float = 0.0) -> Recording:
    """A run until ``end_s`` with one message each ``period_s``."""
    recorder = MemoryRecorder()
    track = recorder.track("messages/law", STAMPS, Signals("force [N]"))
    plant = recorder.track("cart", ("step", "side"), Signals("x [m]"))
    recorder.start({"until": round(end_s * 1e9)})
    plant.append(round(end_s * 1e9), (0, 1), np.zeros(1))
    for ns in range(round(begin_s * 1e9), round(end_s * 1e9), round(period_s * 1e9)):
        track.append(ns, (ns, ns, 0), np.array([float(ns)]))
    recorder.finish({"reason": "end", "ended": round(end_s * 1e9)})
    return recorder.recording()


def test_a_line_of_messages_ends_with_its_run() -> None:
    long, short = sent(20.0, 0.2), sent(13.0, 0.5)
    first = overlaid([("long", long), ("short", short)], "messages/law", "force")[0]
    assert [line.x[-1] for line in first.lines] == [20.0, 13.0]


def test_runs_without_a_common_time_have_no_empty_difference() -> None:
    runs = [("a", sent(2.0, 0.5)), ("b", sent(2.0, 0.5, begin_s=0.1))]
    gap = overlaid(runs, "messages/law", "force")[1]
    assert gap.title.endswith("no difference from a, because the runs have no time in common")


def test_a_page_names_runs_without_its_signals() -> None:
    one = simulate(ball(until=1), record=True).recording()
    text = render_overlay([one, sent(1.0, 0.1)])
    assert "Without any of these signals: B: memory" in text
    assert "Without any" not in render_overlay([one, one])


@pytest.fixture(scope="module")
def flight() -> Recording:
    return simulate(load_scenario("f16"), until=1).recording()


def test_published_values_are_counted_in_the_set_up(flight: Recording) -> None:
    shown = render(flight)
    assert "NASA, simulation 05: 81 values" in shown
    assert "10013.000069" not in re.sub(r"<script.*?</script>", "", shown, flags=re.DOTALL)


@pytest.mark.parametrize("views", [None, "x", [], [1], [{"title": "a"}], [{"published": [3]}]])
def test_any_views_of_a_recording_are_a_table(views: Any) -> None:
    assert drawing.views_table(views).count("<tr>") <= 2


def test_one_assumption_applies(flight: Recording) -> None:
    def said(assumptions: list[str]) -> str:
        header = {**flight.header, "scenario": {"assumptions": assumptions, "limits": []}}
        return render(Recording("x", header, None, {}))

    assert "1 assumption</a> applies to" in said(["flat"])
    assert "2 assumptions</a> apply to" in said(["flat", "calm"])


def test_the_ends_of_a_recording_are_read_once(
    flight: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads whole columns: a report of 10,000 signals took minutes."""
    asked: list[int] = []
    end_ns = flight.end_ns

    def counted(_: Recording) -> int:
        asked.append(1)
        return end_ns

    monkeypatch.setattr(Recording, "end_ns", property(counted))
    drawer = ViewCharts(flight, 10)
    for view in shown_views(flight).first:
        assert drawer.chart(view) is not None
    assert len(asked) == 1


DRAWN = """(() => {
  const canvas = document.querySelector("figure.chart canvas");
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let last = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i] > 190 && data[i + 1] < 140 && data[i + 2] < 60)
      last = Math.max(last, (i / 4) % canvas.width);
  return last / canvas.width;
})()"""
"""How far to the right the orange line goes, as a share of the chart."""


@pytest.mark.full
def test_stairs_end_before_those_of_a_longer_run(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("this machine has no Chromium")
    long, short = np.arange(0.0, 20.5, 0.5), np.arange(0.0, 10.5, 0.5)
    lines = [Line("long", long, long, 0, stairs=True), Line("short", short, short, 1, stairs=True)]
    drawn = grid([Chart("both", lines, span=(0.0, 20.0))])
    path = tmp_path / "both.html"
    path.write_text(page("both", "", [("views", "Views", drawn)]), encoding="utf-8")
    with browser() as chromium:
        chromium.open(path, 1000)
        assert 0.4 < chromium.run(DRAWN) < 0.65
        assert chromium.errors == []
