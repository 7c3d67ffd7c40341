"""The report: everything in one file, nothing of the recording taken for markup, no spike lost."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray
from record_samples import fly

from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.record.events import Event, Span
from rtsim.record.markup import table
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.reports.charts import thin
from rtsim.record.reports.run_page import MOST_LINES, log_histogram, marked, render, write_report

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


def test_it_holds_what_a_reader_asks_for() -> None:
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
def test_it_says_how_a_run_ended_early(footer: dict[str, Any], said: str) -> None:
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


def test_it_needs_nothing_else() -> None:
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


def test_what_is_being_drawn_is_told() -> None:
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
