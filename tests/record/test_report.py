"""The report: everything in one file, nothing of the recording taken for markup, no spike lost.

The report's plots draw a discontinuity: x- and x+ of one instant, and no slope between rows.

The report of an F-16 run: its size, and what a browser makes of it at three widths.

Charts as plain data: what is encoded is what was given, and the views of several runs.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser, browser
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray
from record_samples import fly, ticking

from rtsim.cli import main
from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.models.ball import scenario as ball
from rtsim.models.queues import scenario as queue
from rtsim.models.unstable import scenario as unstable
from rtsim.record.events import Event, Span
from rtsim.record.file import FileRecorder
from rtsim.record.markup import table
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.reports import charts
from rtsim.record.reports.charts import Chart, Line, Thinning, thin
from rtsim.record.reports.comparison_pages import render_overlay
from rtsim.record.reports.run_page import MOST_LINES, log_histogram, marked, render, write_report
from rtsim.record.reports.view_charts import MOST_OPEN, ViewCharts, shown_views
from rtsim.record.views import View
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
STAMPS = (
    *("sequence", "initiated", "initiated_step", "completed", "completed_step"),
    *("arrival", "arrival_step", "status"),
)


def recorded(rows: int = 50, text: str = "plain") -> Recording:
    recorder = MemoryRecorder()
    plant = recorder.track("ball", ("step", "side"), Signals("height [m]", "speed [m/s]"))
    messages = recorder.track(f"messages/{text}", STAMPS, Signals("u"), {"source": text})
    timing = recorder.track("timing", ("compute",), Signals(), {"deterministic": "no"})
    recorder.start(
        {
            "scenario": {"name": text, "assumptions": [text], "limits": ["slow"], "x": {text: 1}},
            "parameters": {"ball": {"mass": 2.5}},
            "seed": 41,
            "pace": "max",
        }
    )
    for i in range(rows):
        ns = i * 1_000_000
        plant.append(ns, (0, 0), np.array([float(i), math.nan if i == 3 else -i]))
        messages.append(
            ns,
            (i, ns, 0, ns + 112_000, 0, -1 if i == 1 else ns + 117_000, 0, int(i == 1)),
            np.ones(1),
        )
        timing.append(ns, (1000 + i,))
    recorder.event(Tag(5_000_000), text, text, text, {"v": text})
    summary = {"count": rows, "min": 900, "median": 1500, "p99": None, "p99_9": None, "max": 2e6}
    recorder.finish({"certificate": {"compute": summary, "overruns": {"wake": 0}, "note": text}})
    return recorder.recording()


def outside_scripts(page: str) -> str:
    return re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)


def test_the_report_has_run_signals_and_events() -> None:
    page = outside_scripts(render(recorded()))
    for text in ("plain", "slow", "mass", "2.5", "41", "0.000112", "0.117", "lost", "1.5 us"):
        assert text in page, text
    assert "2 ms" in page
    assert "thinned" not in page
    assert "incomplete" not in page


@pytest.mark.parametrize(
    ("footer", "said"),
    [
        ({"reason": "end", "ended": 50}, ""),
        ({"reason": "terminal", "ended": 20}, ""),
        ({"reason": "interrupted", "ended": 20}, ">The run was interrupted at 2e-08 s of 5e-08"),
        ({"reason": "error", "ended": 20, "error": "Lost: <b>"}, "of 5e-08 s: Lost: &lt;b&gt;"),
    ],
)
def test_the_report_gives_the_reason_of_an_early_end(footer: dict[str, Any], said: str) -> None:
    recorder = MemoryRecorder()
    recorder.start({"until": 50})
    recorder.finish(footer)
    page = outside_scripts(render(recorder.recording()))
    assert ("<div class=warn>The run " in page) == bool(said)
    assert said in page


def test_an_external_input_has_its_name_of_today() -> None:
    recorder = MemoryRecorder()
    recorder.start({"scenario": {"parts": {"stick": {"kind": "inlet"}}}})
    recorder.finish({})
    page = outside_scripts(render(recorder.recording()))
    assert "stick <span class=soft>external input</span>" in page
    assert "inlet" not in page


def test_the_report_is_a_single_file_without_links() -> None:
    page = outside_scripts(render(recorded()))
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
    assert "url(" not in page


def test_text_of_the_recording_is_text() -> None:
    page = render(recorded(text=EVIL))
    assert EVIL not in page
    assert "<img" not in outside_scripts(page)
    harmless = render(recorded(text="plain"))
    assert page.count("<script") == harmless.count("<script")


def test_any_recording_is_drawn(tmp_path: Path) -> None:
    for recorder in (MemoryRecorder(), MemoryRecorder()):
        write_report(recorder.recording(), tmp_path / "empty.html")
    odd = MemoryRecorder()
    fly(odd)
    write_report(odd.recording(), tmp_path / "odd.html")
    cut = Recording(
        "x.mcap", {"scenario": "text", "seed": [1, {"a": None}]}, None, {}, truncated="cut <here>"
    )
    assert "The recording is incomplete: cut &lt;here&gt;" in render(cut)
    with pytest.raises(RecordingError, match="cannot write the report"):
        write_report(cut, tmp_path / "none" / "a.html")


WORST = {"tag_ns": 14_350_000_000, "late_ns": 18_000, "compute_ns": 3_316_000}


def certified(**certificate: object) -> Recording:
    recorder = MemoryRecorder()
    sampled = recorder.track("messages/law.inputs", STAMPS, Signals("u [m]"), {"source": "law"})
    recorder.start({"scenario": {"name": "x"}})
    for i in range(3):
        sampled.append(i, (i, i, 0, i, 0, i, 0, 0), np.ones(1))
    recorder.finish({"certificate": certificate})
    return recorder.recording()


def test_time_that_no_job_owns_is_shown() -> None:
    frame = {**WORST, "jobs": {"recording": 102_000, "law": 29_000}}
    page = outside_scripts(render(certified(rate="1", worst=[frame])))
    assert "unaccounted\xa03.185\xa0ms, recording\xa0102\xa0us, law\xa029\xa0us" in page
    unpaced = outside_scripts(render(certified(rate="max", worst=[frame])))
    assert "unaccounted" not in unpaced, "without pacing only propagate is measured"
    assert "14.350000 s" in unpaced


@pytest.mark.parametrize("worst", [[{"tag_ns": 1}], [3], [{**WORST, "jobs": "<b>"}], 7])
def test_a_damaged_certificate_costs_a_table_and_not_the_page(worst: object) -> None:
    page = outside_scripts(render(certified(rate="1", worst=worst)))
    assert "cannot be read" in page
    assert "<b>" not in page


def test_what_controllers_sampled_is_in_a_fold_of_its_own() -> None:
    page = render(certified())
    found = re.search(
        r"<details><summary>Inputs that law sampled</summary>.*?"
        r'<script type="application/json">(.*?)</script></figure></div></details>',
        page,
        re.DOTALL,
    )
    assert found is not None
    (line,) = json.loads(found[1])["lines"]
    assert line["name"] == "law.inputs.u"


@pytest.mark.parametrize("count", [1, MOST_LINES, MOST_LINES + 1])
def test_every_chart_marks_events_and_faults_unless_they_are_many(count: int) -> None:
    events = [Event(Tag(k * 100_000_000), "Overrun", "f16") for k in range(count)]
    spans = [Span("f", float(k), k + 0.5, "") for k in range(count)]
    rare = Event(Tag(7_000_000_000), "Change", "f16")
    assert marked([*events, rare], spans)[0][-1:] == [7.0], "many events of another kind hide none"
    lines, bands = marked(events, spans)
    assert len(lines) == len(bands) == (count if count <= MOST_LINES else 0)
    if lines:
        assert bands[-1] == (count - 1.0, count - 0.5)
        assert lines[-1] == pytest.approx(0.1 * (count - 1))


def test_the_progress_of_drawing_is_reported() -> None:
    said: list[str] = []
    render(recorded(), said.append)
    assert said == ["drawing 3 views …"]


def test_quantities_do_not_break_and_endless_words_do() -> None:
    row = table((), [("3.5 ms", "14.35 s", 7, "two words", "f" * 64, "8 of 9 wakes")])
    kinds = re.findall(r"<td( class=\w+)?>", row)
    assert kinds == [" class=v", " class=v", " class=v", "", " class=long", ""]


def test_long_traces_are_thinned_and_said_to_be() -> None:
    assert "thinned for display" in render(recorded(rows=5000))


@given(
    npst.arrays(np.float64, st.integers(1, 400), elements=st.floats(width=64)), st.integers(1, 9)
)
def test_thinning_keeps_extremes_ends_and_gaps(y: Vector, buckets: int) -> None:
    t = np.arange(float(len(y)))
    kept_t, kept = thin(t, y, buckets)
    assert len(kept) <= max(len(y) if len(y) <= 5 * buckets else 0, 5 * buckets)
    assert np.array_equal(y[kept_t.astype(int)], kept, equal_nan=True)
    assert (np.diff(kept_t) > 0).all()
    assert (kept_t[0], kept_t[-1]) == (t[0], t[-1])
    finite = y[np.isfinite(y)]
    if len(finite):
        inside = kept[np.isfinite(kept)]
        assert (inside.min(), inside.max()) == (finite.min(), finite.max())
    assert np.isfinite(kept).all() == np.isfinite(y).all()


@given(npst.arrays(np.int64, st.integers(1, 100), elements=st.integers(-(10**12), 10**12)))
def test_a_histogram_holds_every_sample(samples: NDArray[np.int64]) -> None:
    edges, heights, below = log_histogram(samples.astype(np.float64), np.ones(len(samples)))
    assert heights.sum() + below == len(samples)
    assert len(edges) == len(heights) + 1


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


def test_continuous_signals_are_lines_and_held_signals_are_stairs(drawn: Drawn) -> None:
    """Stairs between the rows of a plant would be jumps that it never made."""
    assert not drawn(trace_of(ball(until=1)), "ball.height").stairs
    assert drawn(trace_of(queue(until=20)), "queue.waiting").stairs


def test_a_message_is_drawn_from_its_arrival_to_the_end(drawn: Drawn) -> None:
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


MOST_BYTES = 1_500_000
PAPER_PX = 720
DRAWING_PX = "document.querySelector('#setup svg').getBoundingClientRect().width"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "f16.html"
    write_report(simulate(load_scenario("f16"), until=20).recording(), path)
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("this machine has no Chromium")
    with browser() as found:
        yield found


@pytest.mark.long
def test_twenty_seconds_of_the_f16_are_a_small_page(page: Path) -> None:
    assert page.stat().st_size < MOST_BYTES


INK = """(() => {
  const {width, height} = document.querySelector("figure.chart canvas");
  const at = document.querySelector("figure.chart canvas").getContext("2d");
  const {data} = at.getImageData(0, 0, width, height);
  let drawn = 0;
  for (let i = 3; i < data.length; i += 4) drawn += data[i] > 0;
  return drawn / (width * height);
})()"""


@pytest.mark.full
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [380, 1000, 1920])
def test_the_report_is_drawn_at_every_width(
    page: Path, chromium: Browser, width: int, dark: bool
) -> None:
    chromium.errors.clear()
    chromium.open(page, width, dark=dark)
    assert chromium.errors == []
    assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.run("document.querySelectorAll('figure.chart canvas').length") >= 2
    assert 0.01 < chromium.run(INK) < 0.9, "lines and axes, and not a filled area"
    back = "getComputedStyle(document.querySelector('section')).backgroundColor"
    assert (chromium.run(back) == "rgb(255, 255, 255)") is not dark


@pytest.mark.full
def test_folds_zoom_and_print(page: Path, chromium: Browser) -> None:
    chromium.errors.clear()
    chromium.open(page, 1000)
    count = "document.querySelectorAll('figure.chart canvas').length"
    before = chromium.run(count)
    chromium.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    chromium.run("scrollTo(0, 2500); new Promise(done => setTimeout(done, 500))")
    assert chromium.run(count) > before
    for kind, x in (("mousePressed", 200), ("mouseMoved", 300), ("mouseReleased", 300)):
        chromium.run("scrollTo(0, 0)")
        at = json.loads(
            chromium.run(
                "JSON.stringify(document.querySelector('.u-over').getBoundingClientRect())"
            )
        )
        chromium.tell(
            "Input.dispatchMouseEvent", type=kind, x=x, y=at["y"] + 20, button="left",
            clickCount=1,
        )  # fmt: skip
    pdf = chromium.tell("Page.printToPDF")["data"]
    assert len(pdf) > 20_000
    chromium.open(page, PAPER_PX)
    assert chromium.run(DRAWING_PX) > PAPER_PX, "wider than paper: its reader scrolls"
    chromium.tell("Emulation.setEmulatedMedia", media="print")
    assert chromium.run(DRAWING_PX) <= PAPER_PX, "nobody scrolls paper"
    chromium.tell("Emulation.setEmulatedMedia", media="")
    assert chromium.errors == []


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
    assert x.tolist() == recording.track("plant").column("x").tolist()
    assert y.tolist() == recording.track("plant").column("v").tolist()
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


def charted(path: Path, delay: float) -> Path:
    with FileRecorder(path, ticking()) as recorder:
        simulate(unstable(latency=delay, until=1), recorder=recorder, compile=False)
    return path


def test_runs_are_drawn_over_each_other_with_their_differences(tmp_path: Path) -> None:
    paths = [charted(tmp_path / f"{k}.mcap", 0.05 * k) for k in range(2)]
    done = CliRunner().invoke(main, ["report", *map(str, paths), "-o", str(tmp_path / "a.html")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    drawn = decoded(page)
    position, difference = drawn[:2]
    assert [line["name"] for line in position["lines"]] == ["0", "1"]
    assert [line["name"] for line in difference["lines"]] == ["1"]
    a, b = (Recording.open(path) for path in paths)
    ns = np.intersect1d(a.track("plant").ns, b.track("plant").ns)
    last = [[r["plant.x"][r.time_ns <= t][-1] for t in ns] for r in (a, b)]
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
    path = str(charted(tmp_path / "a.mcap", 0.0))
    done = CliRunner().invoke(main, ["report", path, path, "--after", "0.5"])
    assert (done.exit_code, "--after is for one recording" in done.output) == (2, True)
