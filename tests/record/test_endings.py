"""How a run ended, whether a re-run ended the same way, and how a drift from it grows.

Pages about runs that end at different times, or that have no signal and no time in common.
"""

from __future__ import annotations

import math
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, browser

from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.models.ball import scenario as ball
from rtsim.record.comparison import SHARE, Growth, by_range, compare, growth
from rtsim.record.events import CUT_OFF, ERROR, UNKNOWN, RunEnding, died_of, in_words, names_lack
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import end_of, ended_by_itself, ended_otherwise, said_no_more
from rtsim.record.reports import drawing
from rtsim.record.reports.charts import Chart, Line, grid
from rtsim.record.reports.comparison_pages import render_overlay
from rtsim.record.reports.page import page
from rtsim.record.reports.run_page import render
from rtsim.record.reports.view_charts import ViewCharts, overlaid, shown_views
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

SECOND = NS_PER_S
WALL = {"deterministic": "no"}


def run(
    *events: tuple[str, int, str, str],
    footer: dict[str, object] | None = None,
    header: dict[str, object] | None = None,
    last_ns: int = 3 * SECOND,
) -> Recording:
    """A recording with (kind, ns, source, text) as its events."""
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), Signals("x"))
    recorder.start(header or {})
    for ns in (0, last_ns):
        track.append(ns, (0,), np.array([1.0]))
    for kind, ns, source, text in events:
        recorder.event(Tag(ns), kind, source, text, {})
    if footer is not None:
        recorder.finish(footer)
    return recorder.recording()


def ending(reached_s: float, asked_s: float | None, reason: str, error: str = "") -> RunEnding:
    asked = None if asked_s is None else round(asked_s * SECOND)
    return RunEnding(round(reached_s * SECOND), asked, reason, error)


# -- one run


def test_an_ending_follows_from_header_footer_and_damage() -> None:
    of = RunEnding.of
    assert of(run()) == ending(3, None, UNKNOWN)
    assert of(run(header={"until": 4 * SECOND})) == ending(3, 4, CUT_OFF)
    assert of(run(footer={})) == ending(3, None, "end")
    told = {"reason": "error", "error": "it fell", "ended": 2 * SECOND}
    assert of(run(footer=told, header={"until": 4 * SECOND})) == ending(2, 4, "error", "it fell")
    cut = replace(run(footer=told), truncated="in the midst")
    assert of(cut) == ending(3, None, CUT_OFF)
    assert of(replace(cut, header={"until": "5000000000"})).asked_ns == 5 * SECOND


@pytest.mark.parametrize(
    ("one", "told", "complete", "stopped"),
    [
        (ending(3, 3, "end"), "reached its end at 3 s", True, False),
        (ending(3, None, "end"), "reached its end at 3 s", True, False),
        (ending(2, 3, "end"), "stopped at 2 s of 3 s", True, False),
        (ending(2.5, 3, "terminal"), "was ended by a terminal guard at 2.5 s", True, False),
        (ending(2, 3, "interrupted"), "was interrupted at 2 s of 3 s", False, True),
        (ending(2, None, "quit"), "was ended by the command quit at 2 s", False, True),
        (ending(2, 2, "restored"), "went back to a checkpoint at 2 s", False, True),
        (ending(2, 3, CUT_OFF), "was cut off at 2 s of 3 s", False, True),
        (ending(2, 3, ERROR, "why"), "ended in an error at 2 s of 3 s: why", False, False),
        (ending(2, None, UNKNOWN), "ends at 2 s", True, False),
    ],
)
def test_an_ending_in_words(one: RunEnding, told: str, complete: bool, stopped: bool) -> None:
    assert (str(one), one.complete, one.stopped) == (told, complete, stopped)
    asked = None if one.asked_ns is None else one.asked_ns / SECOND
    assert one.to_json() == {
        "reason": one.reason, "reached_s": one.reached_ns / SECOND, "asked_s": asked,
        "error": one.error,
    }  # fmt: skip


def test_a_run_cut_at_a_reached_time_has_reached_its_end() -> None:
    died = ending(2, 3, ERROR, "why")
    assert died.up_to(2 * SECOND) == ending(2, 2, "end")
    assert died.up_to(SECOND) == ending(1, 1, "end")
    assert died.up_to(0) == ending(0, 0, "end")
    assert died.up_to(2 * SECOND + 1) == died
    assert died.up_to(None) == died
    assert ending(2, 3, CUT_OFF).up_to(SECOND) == ending(2, 3, CUT_OFF)


def test_what_a_run_died_of_is_its_last_error_and_no_lack_of_this_machine() -> None:
    first, last = ("Error", 1, "ValueError", "a"), ("Error", 2, "ModelError", "b")
    found = died_of(run(first, last, ("Late", 3, "law", "")))
    assert found is not None
    assert (found.tag, found.source) == (Tag(2), "ModelError")
    assert died_of(run(("Late", 3, "law", ""))) is None
    for source, text in (
        ("OverrunError", ""), ("OSError", ""), ("FileNotFoundError", ""), ("ImportError", ""),
        ("ModuleNotFoundError", ""), ("MemoryError", ""),
        ("ControllerError", "the device of input stick is gone"),
    ):  # fmt: skip
        assert died_of(run(first, ("Error", 2, source, text))) is None, source
    for source in ("ValueError", "print", "NoSuchError"):
        assert died_of(run(("Error", 2, source, "a device of input"))) is not None, source


def test_addresses_and_paths_are_no_part_of_an_error() -> None:
    here = ("Error", 2, "ValueError", "<object 0x7f00> failed (a/law.py:12 in law)")
    there = ("Error", 2, "ValueError", "<object 0xAB1> failed (b/law.py:13 in law)")
    one, other = (in_words(died_of(run(event))) for event in (here, there))
    assert one == other == "0.000000002 s ValueError: <object > failed "
    assert in_words(None) == ""


def test_a_text_tells_of_a_lack_by_the_name_of_its_error() -> None:
    assert names_lack("law raised FileNotFoundError: no such file")
    assert names_lack("KeyError: 1, after OSError: 5")
    assert not names_lack("KeyError: 1")
    assert not names_lack("FileNotFoundError")


# -- a run that is flown again

DIED = ("Error", 2 * SECOND, "ModelError", "x became inf")
OTHER = ("Error", SECOND, "ModelError", "x became nan")


def lacking(kind: str) -> Exception:
    """One that a lack of this machine is behind."""
    outer = ControllerError("it fell over")
    if kind == "cause":
        outer.__cause__ = OSError("gone")
    if kind == "context":
        outer.__context__ = MemoryError()
    if kind == "behind":
        outer.__cause__ = ValueError()
        outer.__cause__.__context__ = ImportError()
    return OSError("gone") if kind == "itself" else outer


@pytest.mark.parametrize("kind", ["itself", "cause", "context", "behind"])
def test_an_end_for_a_lack_is_not_the_runs_own(kind: str) -> None:
    error = lacking(kind)
    assert not ended_by_itself(run(), run(OTHER, footer={}), error)
    (note,) = error.__notes__
    assert "had no such error: the run needs a resource that is missing on this machine" in note
    again = lacking(kind)
    assert ended_by_itself(run(OTHER), run(OTHER, footer={}), again), "the recorded one had it too"
    assert not hasattr(again, "__notes__")


def test_an_end_is_its_own_where_it_began_and_lacks_nothing() -> None:
    assert ended_by_itself(run(), run(OTHER, footer={}), ControllerError("it fell over"))
    assert not ended_by_itself(run(), run(OTHER), ControllerError("it never began"))


def test_an_interrupt_of_a_re_run_is_one() -> None:
    with pytest.raises(KeyboardInterrupt, match="the comparison has no result"):
        said_no_more(run(), run(footer={"reason": "interrupted"}))
    said_no_more(run(), run(footer={"reason": "end"}))
    said_no_more(run(), run())


def test_a_failure_that_is_borne_counts_where_it_is_a_lack_that_is_new() -> None:
    lack = ("Failed", 5, "law", "raised FileNotFoundError: table")
    with pytest.raises(ControllerError, match=r"law failed at 0\.000000005 s: raised FileNotF"):
        said_no_more(run(), run(lack))
    said_no_more(run(lack), run(lack))
    said_no_more(run(), run(("Failed", 5, "law", "raised KeyError: 1")))
    said_no_more(run(), run(("Late", 5, "law", "raised FileNotFoundError: table")))
    for known in (("Failed", 6, *lack[2:]), ("Failed", 5, "other", lack[3]), ("Late", *lack[1:])):
        with pytest.raises(ControllerError):
            said_no_more(run(known), run(lack))


def test_one_of_two_that_died_is_a_difference_at_the_earlier_end() -> None:
    assert ended_otherwise(run(), run()) is None
    assert ended_otherwise(run(DIED), run(DIED)) is None
    found = ended_otherwise(run(DIED), run(OTHER))
    assert found is not None
    assert (found.tag, found.track, found.column) == (Tag(SECOND), "the run", "end")
    assert found.baseline == "ModelError: x became inf"
    assert found.candidate == "ModelError: x became nan"
    alone = ended_otherwise(run(DIED), run())
    assert alone is not None
    assert (alone.tag, alone.candidate) == (Tag(2 * SECOND), "no error")


def test_an_end_behind_that_of_the_re_run_is_no_difference() -> None:
    assert ended_otherwise(run(DIED), run(), 2 * SECOND) is None
    assert ended_otherwise(run(DIED), run(), SECOND) is None
    assert ended_otherwise(run(DIED), run(), 2 * SECOND + 1) is not None
    assert ended_otherwise(run(), run(DIED), SECOND) is not None, "it is the re-run that died"


def test_a_run_that_died_is_flown_again_to_behind_its_end() -> None:
    assert end_of(run()) == 3 * SECOND
    assert end_of(run(DIED)) == 3 * SECOND + 1


# -- how far off


def drifting(*rows: tuple[float, ...], signals: str | Signal = "x [m]", **more: Any) -> Recording:
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), Signals(signals), more.get("about"))
    recorder.start({})
    for k, row in enumerate(rows):
        track.append(k * SECOND, (0,), np.array(row))
    return recorder.recording()


def test_a_tolerance_goes_with_the_range_and_the_last_bits_of_the_size() -> None:
    eps, least = 2.0**-52, 5e-324
    for values, wanted in (
        ((0.0, 2.0), SHARE * 2 + 16 * eps * 2),
        ((5.0, 5.0), SHARE * 5 + 16 * eps * 5),  # of what stands still, its size
        ((-8.0, 0.0), SHARE * 8 + 16 * eps * 8),
        ((0.0, 0.0), least),
        ((math.nan, math.inf), least),
        ((0.0, 1.0, math.inf), SHARE * 1 + 16 * eps),
    ):
        ((name, tolerance),) = by_range(drifting(*((v,) for v in values))).items()
        assert name == "p.x"
        assert tolerance.absolute == pytest.approx(wanted, rel=1e-12, abs=0.0)
        assert tolerance.relative == 0.0
    assert SHARE == 1e-9
    assert by_range(drifting((1.0,), about=WALL)) == {}


def test_a_track_without_rows_is_held_against_the_least_that_there_is() -> None:
    """A topic on which nothing was sent; and one of the wall before it has no tolerance."""
    recorder = MemoryRecorder()
    recorder.track("a", ("step",), Signals("x"), WALL)
    recorder.track("b", ("step",), Signals("x", Signal("v", shape=(3,))))
    recorder.start({})
    assert by_range(recorder.recording()) == {"b.x": (5e-324, 0.0), "b.v": (5e-324, 0.0)}


def test_the_growth_of_a_difference_is_given_from_its_start_to_the_end() -> None:
    ours = drifting(*((float(k),) for k in range(9)))
    theirs = drifting(*((k + (0.0 if k < 3 else 0.5 * (k - 2)) * (k != 6),) for k in range(9)))
    found = growth(ours, theirs, compare(ours, theirs))
    assert found is not None
    assert (found.name, found.unit, found.first, found.range) == ("p.x", "m", Tag(3 * SECOND), 8.0)
    assert found.points == ((3.0, 0.5), (4.0, 1.0), (6.0, 1.5), (7.0, 2.5), (8.0, 3.0))
    assert str(found) == (
        "p.x at 3.000000000 s; largest so far in m: 0.5 by 3 s, 1 by 4 s, 1.5 by 6 s, 2.5 by 7 s, "
        "3 by 8 s (its range is 8 m)"
    )
    assert found.to_json() == {
        "signal": "p.x", "unit": "m", "first": [3 * SECOND, 0], "range": 8.0,
        "growth": [[3.0, 0.5], [4.0, 1.0], [6.0, 1.5], [7.0, 2.5], [8.0, 3.0]],
    }  # fmt: skip


@pytest.mark.parametrize("unit", ["", "1"])
def test_a_signal_without_a_unit_is_shown_without_a_unit(unit: str) -> None:
    one = Growth("p.x", unit, Tag(0), 2.0, ((0.0, 1.0),))
    assert str(one).endswith("largest so far: 1 by 0 s (its range is 2)")


def test_of_an_array_the_element_that_is_farthest_off_counts() -> None:
    signal = Signal("v", shape=(2,))
    ours = drifting((0.0, 0.0), (1.0, 5.0), signals=signal)
    theirs = drifting((0.0, 0.25), (1.0, 7.0), signals=signal)
    found = growth(ours, theirs, compare(ours, theirs))
    assert found is not None
    assert found.points == ((0.0, 0.25), (1.0, 2.0))
    assert found.range == 5.0


def test_a_small_range_is_told_as_it_is() -> None:
    ours, theirs = drifting((0.0,), (0.25,)), drifting((0.0,), (0.5,))
    found = growth(ours, theirs, compare(ours, theirs))
    assert found is not None
    assert found.range == 0.25
    with pytest.raises(FrozenInstanceError):
        found.range = 1.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        ending(1, 1, "end").reason = "error"  # type: ignore[misc]


def test_what_is_the_same_does_not_grow_and_the_first_of_several_does() -> None:
    same = drifting((1.0,), (2.0,))
    assert growth(same, same, compare(same, same)) is None
    recorders = [MemoryRecorder(), MemoryRecorder()]
    for recorder, offset in zip(recorders, (0.0, 1.0), strict=True):
        track = recorder.track("p", ("step",), Signals("a", "b"))
        recorder.start({})
        for k in range(3):
            track.append(k, (0,), np.array([offset * (k > 1), offset * (k > 0)]))
    ours, theirs = (recorder.recording() for recorder in recorders)
    found = growth(ours, theirs, compare(ours, theirs))
    assert found is not None
    assert (found.name, found.first) == ("p.b", Tag(1))


def test_a_stamp_that_differs_first_is_named_without_a_figure() -> None:
    recorders = [MemoryRecorder(), MemoryRecorder()]
    for recorder, stamp in zip(recorders, (1, 2), strict=True):
        track = recorder.track("messages/m", ("sequence",), Signals("u"))
        recorder.start({})
        track.append(0, (stamp,), np.array([1.0]))
    ours, theirs = (recorder.recording() for recorder in recorders)
    found = growth(ours, theirs, compare(ours, theirs))
    assert found is not None
    assert (found.name, found.points, found.range) == ("messages/m.sequence", (), 0.0)


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
    assert "Without any of these signals: B: this run" in text
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
