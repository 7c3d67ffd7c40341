"""Charts as plain data: what is encoded is what was given, and the views of several runs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from record_samples import ticking

from rtsim.cli import main
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Vector
from rtsim.models.ball import scenario as ball
from rtsim.models.unstable import scenario as unstable
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.reports import charts
from rtsim.record.reports.charts import Chart, Line, Thinning
from rtsim.record.reports.comparison_pages import render_overlay
from rtsim.record.reports.run_page import render
from rtsim.record.reports.view_charts import MOST_OPEN, ViewCharts, shown_views
from rtsim.record.views import View
from rtsim.runs.simulation import simulate


def decoded(page: str) -> list[dict[str, Any]]:
    """The charts of a page, as their script reads them."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return [json.loads(one) for one in found]


def array(text: str, kind: str) -> Vector:
    return np.frombuffer(base64.b64decode(text), kind).astype(np.float64)


def times(packed: dict[str, Any]) -> Vector:
    if "all" in packed:
        return array(packed["all"], "<f8")
    steps = np.r_[0.0, array(packed["gaps"], "<u2")].cumsum()
    return np.asarray((packed["first"] + steps * packed["unit"]) / 1e9)


def values(packed: dict[str, Any]) -> Vector:
    if "all" in packed:
        return array(packed["all"], "<f8")
    return np.asarray(packed["first"] + array(packed["off"], "<f4"))


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.integers(1, 10**6))
def test_times_are_kept_exactly(gaps: list[int], unit: int) -> None:
    ns = np.cumsum(np.array(gaps) % (2**53 // (unit * len(gaps)) + 1)) * unit
    x = ns / 1e9
    assert times(dict(charts._times(x))).tolist() == x.tolist()


@given(npst.arrays(np.float64, st.integers(1, 50), elements=st.floats(width=64)))
def test_values_are_kept_to_single_precision_of_their_spread(y: Vector) -> None:
    packed = dict(charts._values(y))
    kept = values(packed)
    finite = np.isfinite(y)
    assert np.array_equal(np.isfinite(kept), finite)
    if "off" in packed:
        most = np.abs(y[finite] - packed["first"]) * 2.0**-24 + np.abs(y[finite]) * 2.0**-52
        assert (np.abs(kept[finite] - y[finite]) <= most + 1e-44).all()
    else:
        assert np.array_equal(kept, y, equal_nan=True)


@given(npst.arrays(np.float64, st.integers(0, 60), elements=st.sampled_from([0.0, 1.0, 2.0])))
def test_values_that_are_left_out_change_neither_line_nor_stairs(y: Vector) -> None:
    x = np.arange(float(len(y)))
    kept_x, kept = charts._needed(x, y, points=False)
    at = np.searchsorted(kept_x, x, side="right") - 1
    assert np.array_equal(kept[at], y) if len(y) else not len(kept)


def test_text_in_a_chart_is_text() -> None:
    evil = "</script><img onerror=alert(1)>\"'"
    page = Chart(evil, [Line(evil, np.zeros(2), np.zeros(2))], rows=[evil]).html()
    assert "<img" not in page
    assert page.count("</script>") == 1
    assert decoded(page)[0]["rows"] == [evil]


def test_a_view_has_its_command_band_and_path() -> None:
    scenario = unstable(until=2)
    scenario.plot("held", "plant.x", "controller.force", band=0.5, unit="any")
    recording = simulate(scenario, compile=False).recording()
    drawer = ViewCharts(recording, 4)
    views = {view.title: view for view in shown_views(recording).first}
    held = drawer.chart(views["held"])
    assert held is not None
    assert [line.name for line in held.lines] == ["plant.x", "controller.force", "+0.5", "-0.5"]
    assert [line.dashed for line in held.lines] == [False, True, True, True]
    assert held.lines[2].y - held.lines[3].y == pytest.approx(1.0)
    assert held.y_label == "any"
    path = drawer.chart(views["speed over position"])
    assert path is not None
    assert (path.path, path.timed, path.x_label) == (True, False, "plant.x")
    ((x, y),) = [(line.x, line.y) for line in path.lines]
    assert x.tolist() == recording["plant.x"].tolist()
    assert y.tolist() == recording["plant.v"].tolist()
    assert drawer.chart(View("gone", ("no.signal",))) is None
    assert drawer.missing([View("gone", ("no.signal",))]) == ["no.signal"]


def test_a_path_keeps_the_extremes_of_both_axes() -> None:
    t = np.arange(10_000.0)
    x, y = np.sin(t), np.cos(1.7 * t)
    keep = Thinning(t, 40).kept(x, y)
    assert len(keep) < 400
    for one in (x, y):
        assert (one[keep].min(), one[keep].max()) == (one.min(), one.max())


def test_many_default_views_are_in_a_fold() -> None:
    scenario = ball(until=1)
    recording = simulate(scenario, compile=False).recording()
    assert shown_views(recording).first[0].title == "height [m]"
    page = render(recording)
    assert page.index('id="views"') < page.index('id="events"') < page.index('id="stated"')
    header = {k: v for k, v in recording.header.items() if k != "views"}
    plain = Recording("x", header, recording.footer, recording.tracks)
    found = shown_views(plain)
    assert [view.signals[0] for view in found.first][:2] == ["ball.height", "ball.speed"]
    assert len(found.first) <= MOST_OPEN


def recorded(path: Path, delay: float) -> Path:
    with FileRecorder(path, ticking()) as recorder:
        simulate(unstable(latency=delay, until=1), recorder=recorder, compile=False)
    return path


def test_runs_are_drawn_over_each_other_with_their_differences(tmp_path: Path) -> None:
    paths = [recorded(tmp_path / f"{k}.mcap", 0.05 * k) for k in range(2)]
    done = CliRunner().invoke(main, ["report", *map(str, paths), "-o", str(tmp_path / "a.html")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    drawn = decoded(page)
    position, difference = drawn[:2]
    assert [line["name"] for line in position["lines"]] == ["0", "1"]
    assert [line["name"] for line in difference["lines"]] == ["1"]
    a, b = (Recording.open(path) for path in paths)
    ns = np.intersect1d(a.time("plant"), b.time("plant"))
    last = [[r["plant.x"][r.time("plant") <= t][-1] for t in ns] for r in (a, b)]
    gap = values(difference["lines"][0]["v"])
    at = np.searchsorted(ns / 1e9, times(difference["lines"][0]["t"]))
    assert gap == pytest.approx((np.array(last[1]) - np.array(last[0]))[at], abs=1e-6)
    assert "1 reached its end at 1 s" in page
    same = render_overlay([a, a])
    assert "Equal to A: 0 bit for bit: B: 0" in same


def test_every_response_of_a_view_is_drawn_for_all_runs() -> None:
    scenario = unstable(until=0.3)
    scenario.plot("both", "plant.x", "plant.v", "controller.force")
    one = simulate(scenario, compile=False).recording()
    page = render_overlay([one, one])
    for title in ("both: x", "both: v", "both: x: difference from A: "):
        assert f"<figcaption>{title}" in page
    forces = [f for f in decoded(page) if f["lines"][-1]["name"] == "controller.force"]
    assert [len(found["lines"]) for found in forces] == [3], "both runs, and the command"


@pytest.mark.parametrize("count", [1, 13])
def test_a_page_of_runs_has_from_2_to_12(count: int) -> None:
    one = Recording("x.mcap", {}, None, {})
    with pytest.raises(RecordingError, match=f"{count} recordings were given.* 2 to 12"):
        render_overlay([one] * count)


def test_averages_are_of_one_recording(tmp_path: Path) -> None:
    path = str(recorded(tmp_path / "a.mcap", 0.0))
    done = CliRunner().invoke(main, ["report", path, path, "--after", "0.5"])
    assert (done.exit_code, "--after is for one recording" in done.output) == (2, True)
