"""Runs of several tracks held against each other: which are compared, and up to where.

What a comparison covers: runs that ended early, rows that were not there, large tolerances.

How much of two recordings was compared, and which of them lacks the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import data, rtsim

from rtsim.cli.recordings import tolerances
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import START, Tag
from rtsim.record.comparison import ComparedRows, Comparison, SignalResult, compare, compare_exact
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import Tolerance

Rows = Sequence[tuple[int, float]]
WALL = {"deterministic": "no"}


def recorded(wall: Sequence[str] = (), **tracks: Rows) -> Recording:
    """Each track has one signal ``x``; a row is (ns, value)."""
    recorder = MemoryRecorder()
    made = {
        name: recorder.track(name, ("step",), Signals("x"), WALL if name in wall else None)
        for name in tracks
    }
    recorder.start({})
    for name, rows in tracks.items():
        for ns, value in rows:
            made[name].append(ns, (0,), np.array([value], np.float64))
    return recorder.recording()


def values(*given: float, step: int = 10) -> Rows:
    return [(k * step, v) for k, v in enumerate(given)]


def failed(result: Comparison) -> dict[str, str]:
    return {r.name: r.reason for r in result.failures}


def test_a_track_of_the_wall_is_left_out_and_those_behind_it_are_not() -> None:
    ours = recorded(("b",), a=values(1), b=values(1), c=values(1))
    theirs = recorded(("b",), a=values(1), b=values(9), c=values(2))
    result = compare(ours, theirs)
    assert [r.name for r in result.results] == ["a.x", "c.x"]
    assert list(failed(result)) == ["c.x"]
    found = compare_exact(ours, theirs)
    assert found is not None
    assert found.track == "c"


def test_a_track_that_is_missing_fails_and_those_behind_it_are_compared() -> None:
    ours = recorded(a=values(1), b=values(1), c=values(1))
    result = compare(ours, recorded(b=values(1), c=values(2), d=values(0)))
    assert failed(result) == {
        "a.x": "the candidate has no such track", "c.x": "fails at 0 s, 1/1",
    }  # fmt: skip
    assert result.extra == ["d"]


def test_a_comparison_of_nothing_is_no_agreement() -> None:
    empty = MemoryRecorder().recording()
    assert not compare(empty, empty).ok
    assert not Comparison([]).ok
    assert compare(recorded(a=values(1)), recorded(a=values(1))).ok


@pytest.mark.parametrize(("last", "ok"), [(29, False), (30, True), (31, True), (40, True)])
def test_the_candidate_has_to_reach_the_end(last: int, ok: bool) -> None:
    """Of all tracks together, those of the wall left out."""
    ours = recorded(("w",), a=[(0, 1.0)], b=[(0, 1.0), (30, 1.0)], w=[(99, 0.0)])
    theirs = recorded(a=[(0, 1.0)], b=[(0, 1.0), (30, 1.0)] if last >= 30 else [(0, 1.0)])
    more = recorded(a=[(0, 1.0)], b=[(0, 1.0), (30, 1.0)], z=[(last, 1.0)])
    assert compare(ours, more if last >= 30 else theirs).ok is ok
    assert ("overlap" in failed(compare(ours, theirs))) is not ok


def test_rows_behind_the_baselines_end_do_not_count_and_one_at_it_does() -> None:
    ours = recorded(a=values(1, 1, 1), b=values(1))
    assert compare(ours, recorded(a=values(1, 1, 1, 5), b=values(1))).ok
    assert compare(ours, recorded(a=values(1, 1, 1), b=[(0, 1.0), (21, 1.0)])).ok
    assert not compare(ours, recorded(a=values(1, 1, 1), b=[(0, 1.0), (20, 1.0)])).ok


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(0, 1.0), (11, 1.0), (20, 1.0)], "row 1 is 0.000000010 s in the baseline, 0.000000011 s"),
        ([(0, 1.0), (20, 1.0)], "row 1 is 0.000000010 s in the baseline, 0.000000020 s"),
        ([(0, 1.0), (10, 1.0), (10, 1.0), (20, 1.0)], "row 2 is 0.000000020 s in the baseline"),
        ([(0, 1.0), (10, 1.0), (20, 1.0), (20, 1.0)], "row 3 is missing in the baseline, 0.00000"),
    ],
)
def test_the_first_different_tag_is_named(rows: Rows, said: str) -> None:
    reason = failed(compare(recorded(a=values(1, 1, 1)), recorded(a=rows)))["a.x"]
    assert reason.startswith("other tags: ")
    assert said in reason


def test_a_track_without_columns_fails_by_its_rows() -> None:
    def bare(*ns: int) -> Recording:
        recorder = MemoryRecorder()
        track = recorder.track("ticks", ("step",), Signals())
        recorder.start({})
        for one in ns:
            track.append(one, (0,))
        return recorder.recording()

    assert list(failed(compare(bare(0, 10), bare(0, 9, 10)))) == ["ticks"]
    same = compare(bare(0, 10), bare(0, 10))
    assert (same.results, same.ok) == ([], False), "nothing was compared"


# -- common times


def common(a: Rows, b: Rows) -> SignalResult:
    result = compare(recorded(a=a), recorded(a=b, z=[(10_000, 0.0)]), tags="common")
    (found,) = result.results
    return found


def test_common_times_have_to_span_nine_tenths() -> None:
    ours = values(*[1.0] * 11)  # 0 to 100
    for first, last, ok in (
        (0, 100, True),
        (0, 90, True),
        (0, 80, False),
        (10, 100, True),
        (20, 100, False),
    ):
        theirs = [(ns, 1.0) for ns in range(first, last + 1, 10)]
        found = common(ours, theirs)
        assert found.ok is ok, (first, last)
        assert found.rows == (len(theirs) if ok else 0)
    said = common(ours, [(5, 1.0), (100, 1.0)]).reason
    assert said == "1 of 11 times in common, over less than 0.000000090 s"


def test_common_times_may_leave_out_every_other_row_but_no_long_gap() -> None:
    """Two rows of 1001, the first and the last, agreed."""
    ours = values(*[1.0] * 1001)  # 0 to 10000
    said = common(ours, [(0, 1.0), (10_000, 1.0)]).reason
    assert said == "2 of 1001 times in common, and none between 0.000000000 s and 0.000010000 s"
    for gap, ok in ((1000, True), (1010, False)):
        theirs = [(ns, 1.0) for ns in range(0, 10_001, 10) if not 2000 < ns < 2000 + gap]
        assert common(ours, theirs).ok is ok, gap
    assert common(values(1.0, 1.0, 1.0, 1.0, 1.0), [(0, 1.0), (20, 1.0), (40, 1.0)]).ok


def test_one_time_in_common_is_enough_only_where_there_is_but_one() -> None:
    assert common([(7, 1.0)], [(0, 3.0), (7, 1.0)]).ok
    assert not common([(7, 1.0)], [(0, 3.0), (8, 1.0)]).ok
    assert not common([(7, 1.0), (8, 1.0)], [(7, 1.0)]).ok


def test_the_last_of_several_rows_at_a_time_counts() -> None:
    ours = [(0, 1.0), (10, 5.0), (10, 2.0), (20, 3.0)]
    assert common(ours, [(0, 9.0), (0, 1.0), (10, 2.0), (20, 7.0), (20, 3.0)]).ok
    assert not common(ours, [(0, 1.0), (10, 5.0), (20, 3.0)]).ok


# -- what it says


def test_failures_come_first_and_the_worst_before_all() -> None:
    results = [
        SignalResult("ok small", max_rel=0.1), SignalResult("ok large", max_rel=0.9),
        SignalResult("bad small", max_rel=0.2, reason="x"),
        SignalResult("bad large", max_rel=0.2, max_abs=1.0, reason="x"),
        SignalResult("bad largest", max_rel=math.inf, reason="x"),
    ]  # fmt: skip
    order = ["bad largest", "bad large", "bad small", "ok large", "ok small"]
    comparison = Comparison(results)
    assert [r.name for r in comparison.worst_first()] == order
    assert [r.name for r in comparison.failures] == ["bad small", "bad large", "bad largest"]
    assert not comparison.ok
    data: Any = comparison.to_json()
    assert (data["ok"], len(data["signals"]), data["extra"]) == (False, 5, [])


def test_a_signal_that_has_the_name_of_a_stamp_is_told_apart() -> None:
    def of(stamp: int, value: float) -> Recording:
        recorder = MemoryRecorder()
        track = recorder.track("m", ("sequence",), Signals("sequence"))
        recorder.start({})
        track.append(0, (stamp,), np.array([value]))
        return recorder.recording()

    result = compare(of(1, 2.0), of(1, 2.5), {"m.sequence": (1.0, 0.0)})
    assert {r.name: r.tolerance for r in result.results} == {
        "m.sequence": Tolerance(1.0, 0.0), "m.sequence (stamp)": Tolerance(0.0, 0.0),
    }  # fmt: skip
    assert result.ok
    assert list(failed(compare(of(1, 2.0), of(2, 2.0)))) == ["m.sequence (stamp)"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Signal("x", "ft"), "its unit is 1 in the baseline, ft in the candidate"),
        (Signal("x", shape=(2,)), r"its shape is () in the baseline, (2,) in the candidate"),
        (Signal("x", kind="angle"), "its kind is scalar in the baseline, angle in the candidate"),
        (Signal("y"), "the candidate has no such signal"),
    ],
)
def test_a_signal_of_another_meaning_is_no_other_value_of_it(other: Signal, said: str) -> None:
    recorder = MemoryRecorder()
    track = recorder.track("a", ("step",), Signals(other))
    recorder.start({})
    track.append(0, (0,), np.ones(other.size))
    result = compare(recorded(a=values(1)), recorder.recording(), {"a.x": (9.0, 9.0)})
    assert failed(result) == {"a.x": said}
    assert result.results[0].tolerance == (9.0, 9.0)


# -- bit for bit


def test_the_first_difference_is_that_of_the_earliest_tag_then_of_the_first_track() -> None:
    ours = recorded(a=values(1, 1, 1), b=values(1, 1, 1), c=values(1, 1, 1))
    theirs = recorded(a=values(1, 1, 2), b=values(1, 3, 1), c=values(1, 4, 1))
    found = compare_exact(ours, theirs)
    assert found is not None
    assert (found.tag, found.track, found.column) == (Tag(10), "b", "x")
    assert (found.baseline, found.candidate) == ("1.0", "3.0")


def test_a_track_that_only_one_has_is_a_difference_from_the_start() -> None:
    one, two = recorded(a=values(1)), recorded(a=values(1), b=values(1))
    for ours, theirs, said in (
        (one, two, ("no such track", "present")), (two, one, ("present", "no such track")),
    ):  # fmt: skip
        found = compare_exact(ours, theirs)
        assert found is not None
        assert (found.tag, found.track, found.column) == (START, "b", "*")
        assert (found.baseline, found.candidate) == said
    wall = recorded(("b",), a=values(1), b=values(1))
    assert compare_exact(one, wall) is None


def test_rows_that_one_has_more_are_told_at_their_tag() -> None:
    short, long = recorded(a=values(1)), recorded(a=values(1, 1))
    found = compare_exact(short, long)
    assert found is not None
    assert (found.tag, found.baseline, found.candidate) == (Tag(10), "1 rows", "2 rows")
    found = compare_exact(long, short)
    assert found is not None
    assert (found.tag, found.baseline, found.candidate) == (Tag(10), "2 rows", "1 rows")


def test_a_nan_is_shown_with_its_bits_and_an_integer_as_itself() -> None:
    quiet, other = math.nan, float(np.array([0x7FF8000000000001]).view(np.float64)[0])
    found = compare_exact(recorded(a=values(quiet)), recorded(a=values(other)))
    assert found is not None
    assert (found.baseline, found.candidate) == (
        "nan (0x7ff8000000000000)", "nan (0x7ff8000000000001)",
    )  # fmt: skip
    late = compare_exact(recorded(a=[(5, 1.0)]), recorded(a=[(7, 1.0)]))
    assert late is not None
    assert (late.tag, late.column, late.baseline, late.candidate) == (Tag(5), "ns", "5", "7")
    minus = compare_exact(recorded(a=values(-math.nan)), recorded(a=values(1)))
    assert minus is not None
    assert minus.baseline == "nan (0xfff8000000000000)"


MS = 1_000_000
PLANT = """
from rtsim import Model, Scenario, Signals


def scenario(dies=99.0, speed=1.0):
    def fly(t, x, z, u, p, dx):
        dx[0] = p[0]
        if t > p[1]:
            raise ValueError("the wing broke")

    model = Model("p", Signals("x [m]"), fly, parameters=Signals("speed [m/s]", "dies [s]"))
    out = Scenario("plain", until=1)
    out.plant("p", model, step=0.01, parameters={"speed": speed, "dies": dies})
    return out
"""


def run(
    values: list[float],
    *,
    reason: str = "end",
    until_ms: int | None = None,
    messages: int = 0,
    step_ms: int = 1,
    signals: Signals = Signals("x [m]"),  # noqa: B008
    error: str = "",
) -> Recording:
    """Rows of one plant each ms, and so many messages, of a run that ended for ``reason``."""
    recorder = MemoryRecorder()
    plant = recorder.track("p", ("step", "side"), signals)
    topic = recorder.track("messages/m", ("sequence",), Signals("u"))
    last = (len(values) - 1) * step_ms * MS
    recorder.start({"until": last if until_ms is None else until_ms * MS})
    for i, value in enumerate(values):
        plant.append(i * step_ms * MS, (0, 0), np.full(signals.size, value))
    for i in range(messages):
        topic.append(i * step_ms * MS, (i,), np.zeros(1))
    recorder.finish({"reason": reason, "error": error, "ended": last})
    return recorder.recording()


def signal(found: Comparison, name: str) -> SignalResult:
    return next(r for r in found.results if r.name == name)


LONG = [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("wrong", ["inf", "nan", "-1"])
@pytest.mark.parametrize("option", ["--abs", "--rel", "--tol", "--tol of the relative"])
def test_a_tolerance_that_everything_or_nothing_passes_is_refused(wrong: str, option: str) -> None:
    rules: dict[str, tuple[float, float, tuple[str, ...]]] = {
        "--abs": (float(wrong), 0.0, ()),
        "--rel": (0.0, float(wrong), ()),
        "--tol": (0.0, 0.0, (f"p.x={wrong}",)),
        "--tol of the relative": (0.0, 0.0, (f"p.x=0,{wrong}",)),
    }
    with pytest.raises(ScenarioError, match="give two finite numbers >= 0"):
        tolerances(*rules[option])
    given = (0.0, float(wrong)) if "rel" in option else (float(wrong), 0.0)
    with pytest.raises(ScenarioError, match="give two finite numbers >= 0"):
        compare(run(LONG), run(LONG[::-1]), {"*": given})


@pytest.mark.parametrize("reason", ["error", "interrupted", "quit", "restored"])
def test_a_baseline_that_ended_early_gives_no_agreement(reason: str) -> None:
    short = run(LONG[:3], reason=reason, until_ms=4, error="ModelError: x")
    found = compare(short, run(LONG))
    assert (found.outcome, found.ok) == (Outcome.UNDECIDED, False)
    assert "at 0.002 s of 0.004 s" in found.undecided[0]
    assert found.covered == (3, 3, 0, 2 * MS)
    differs = compare(short, run([0.0, 1.0, 2.5, 3.0, 4.0]))
    assert differs.outcome is Outcome.FAILED


def test_a_baseline_that_was_cut_off_gives_none_either() -> None:
    recorder = MemoryRecorder()
    recorder.track("p", ("step", "side"), Signals("x [m]")).append(0, (0, 0), np.zeros(1))
    recorder.start({"until": 4 * MS})
    found = compare(recorder.recording(), run(LONG))
    assert found.outcome is Outcome.UNDECIDED
    assert "was cut off at 0 s of 0.004 s" in found.undecided[0]


def test_a_terminal_guard_is_an_end_of_its_own() -> None:
    found = compare(
        run(LONG[:3], reason="terminal", until_ms=9), run(LONG[:3], reason="terminal", until_ms=9)
    )
    assert found.outcome is Outcome.PASSED
    assert "was ended by a terminal guard" in str(found.endings[0])


@pytest.mark.parametrize("reason", ["interrupted", "quit", "restored"])
def test_a_candidate_that_was_stopped_from_outside_is_no_failure(reason: str) -> None:
    found = compare(run(LONG, messages=5), run(LONG[:3], reason=reason, until_ms=4, messages=3))
    assert found.outcome is Outcome.UNDECIDED
    assert "but it must reach 0.004000000 s" in found.undecided[0]
    assert signal(found, "p.x").rows == 3
    assert signal(found, "p.x").there == 5
    other = run([0.0, 1.5, 2.0], reason=reason, until_ms=4, messages=3)
    assert compare(run(LONG, messages=5), other).outcome is Outcome.FAILED
    assert compare(run(LONG), other, tags="common").outcome is Outcome.FAILED


def test_a_candidate_that_died_fails_by_its_error() -> None:
    died = run(LONG[:3], reason="error", until_ms=4, error="ModelError: the wing broke")
    found = compare(run(LONG), died)
    assert found.outcome is Outcome.FAILED
    assert [r.name for r in found.failures] == ["overlap"]
    assert "the wing broke" in found.failures[0].reason
    assert "at 0.002 s of 0.004 s" in found.failures[0].reason


def test_a_candidate_that_died_at_the_end_and_lacks_rows_of_it_fails() -> None:
    """It stands at the baseline's end, and what it did not do there is missing."""
    died = run(LONG, reason="error", error="ModelError: x", messages=4, until_ms=9)
    found = compare(run(LONG, messages=5), died)
    assert found.outcome is Outcome.FAILED


def test_both_that_died_alike_are_undecided() -> None:
    died = run(LONG[:3], reason="error", until_ms=4, error="ModelError: x")
    assert compare(died, died).outcome is Outcome.UNDECIDED


def test_up_to_where_both_came_it_can_be_decided() -> None:
    early = run(LONG[:3], reason="interrupted", until_ms=4)
    for pair in ((early, run(LONG)), (run(LONG), early)):
        found = compare(*pair, until_ns=2 * MS)
        assert found.outcome is Outcome.PASSED, found.undecided
        assert found.covered.last_ns == 2 * MS
        assert compare(*pair, until_ns=3 * MS).outcome is Outcome.UNDECIDED
    assert compare(run(LONG), run(LONG), until_ns=5 * MS).outcome is Outcome.UNDECIDED


def test_a_track_without_rows_agrees_with_nothing() -> None:
    found = compare(run(LONG), run(LONG))
    assert found.outcome is Outcome.PASSED
    assert {r.name for r in found.empty} == {"messages/m.u", "messages/m.sequence"}
    assert [r.name for r in found.agreed] == ["p.x"]
    assert signal(found, "messages/m.u").verdict == "nothing to compare"
    empty = run([])
    assert compare(empty, empty).outcome is Outcome.UNDECIDED
    assert compare(empty, empty, tags="common").outcome is Outcome.UNDECIDED
    assert compare(run(LONG), run(LONG, messages=2), tags="common").outcome is Outcome.FAILED
    assert compare(run(LONG, messages=2), run(LONG), tags="common").outcome is Outcome.FAILED


def test_rows_are_told_of_rows_there() -> None:
    found = compare(run([0.0] * 101), run([0.0] * 11, step_ms=10), tags="common")
    assert found.outcome is Outcome.PASSED
    assert signal(found, "p.x").cells()[2] == "11 of 101"
    assert str(found.covered) == "11 of 101 rows, 0 to 0.1 s"
    told = found.to_json()
    assert (told["rows"], told["rows_there"], told["to_s"]) == (11, 101, 0.1)


@pytest.mark.parametrize(
    ("absolute", "off", "remark"),
    [
        (0.2, 0.1, ""),
        (0.5, 0.1, "tolerance 0.5 above a tenth of its range 4"),
        (1.0, 0.9, "tolerance 1 above a tenth of its range 4, differs by 0.9"),
        (5.0, 0.0, ""),
    ],
)
def test_a_tolerance_as_large_as_the_signal_is_remarked(
    absolute: float, off: float, remark: str
) -> None:
    other = [0.0, 1.0, 2.0 + off, 3.0, 4.0]
    found = compare(run(LONG), run(other), {"p.x": (absolute, 0.0)})
    assert signal(found, "p.x").remark == remark
    assert found.outcome is Outcome.PASSED
    assert signal(found, "p.x").verdict == (f"ok, {remark}" if remark else "ok")


def test_a_remark_is_of_the_element_that_is_small() -> None:
    layout = Signals(Signal("v", "m", shape=(2,)))
    recordings = []
    for off in (0.0, 1e-3):
        one = run([1.0, 2.0, 3.0], signals=layout)
        words = one.tracks["p"].words
        assert isinstance(words, np.ndarray)
        words[:, -1] = np.array([0.0, 1e-3, 2e-3 + off]).view(np.int64)
        recordings.append(one)
    remark = signal(compare(recordings[0], recordings[1], {"p.v": (1e-2, 0.0)}), "p.v").remark
    assert remark == ("tolerance 0.01 above a tenth of its range 0.002, differs by 0.001")


def test_of_a_repeated_pattern_the_last_one_counts_where_it_stands() -> None:
    given = tolerances(0.0, 0.0, ("p.x=0", "p.*=1", "p.x=2"))
    assert list(given.items()) == [("p.*", Tolerance(1.0)), ("p.x", Tolerance(2.0))]
    given = tolerances(5.0, 0.0, ("p.x=0", "*=1e-9"))
    assert list(given)[-1] == "*"


# -- the command ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text(PLANT)
    return tmp_path


def fly(path: str, *options: str, status: int = 0) -> None:
    done = rtsim("run", "plain.py", "--plain", "-o", path, *options)
    assert done.exit_code == status, done.output


@pytest.mark.usefixtures("folder")
def test_the_command_says_how_each_run_ended() -> None:
    fly("died.mcap", "--set", "dies=0.055", status=2)
    fly("whole.mcap")
    done = rtsim("compare", "died.mcap", "whole.mcap")
    assert done.exit_code == 2, done.output
    assert "agree" not in done.stdout
    assert "nothing differs in 1 signals: 6 of 6 rows, 0 to 0.05 s" in done.stdout
    assert "could not be decided: the baseline ended in an error at 0.05 s of 1 s" in done.stdout
    assert "the wing broke" in done.stdout
    assert "whole.mcap reached its end at 1 s" in done.stdout
    assert "to compare up to the time that both runs reached: --to 0.05" in done.stdout
    assert rtsim("compare", "died.mcap", "whole.mcap", "--to", "0.05").exit_code == 0
    told: Any = data(rtsim("compare", "died.mcap", "whole.mcap", "--json"))
    assert (told["ok"], told["outcome"], told["rows"]) == (False, "undecided", 6)
    assert [one["reason"] for one in told["ended"]] == ["error", "end"]
    assert rtsim("compare", "whole.mcap", "died.mcap").exit_code == 1


@pytest.mark.usefixtures("folder")
def test_a_difference_that_was_seen_counts_more_than_an_early_end() -> None:
    fly("died.mcap", "--set", "dies=0.055", status=2)
    fly("fast.mcap", "--set", "speed=2")
    done = rtsim("compare", "died.mcap", "fast.mcap")
    assert done.exit_code == 1, done.output
    assert "1 of 1 signals FAILED" in done.stdout


@pytest.mark.usefixtures("folder")
def test_a_verdict_states_signals_rows_and_span() -> None:
    fly("a.mcap")
    done = rtsim("compare", "a.mcap", "a.mcap")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "a.mcap reached its end at 1 s",
        "a.mcap reached its end at 1 s",
        "all 1 signals agree: 101 of 101 rows, 0 to 1 s",
    ]


@pytest.mark.usefixtures("folder")
def test_what_goes_on_after_the_baseline_is_not_agreed_to() -> None:
    fly("short.mcap", "--until", "0.5")
    fly("whole.mcap")
    done = rtsim("compare", "short.mcap", "whole.mcap")
    assert done.exit_code == 2, done.output
    assert "A ends at 0.500 s and B goes on to 1.000 s, which was not compared" in done.stdout
    assert "give --to 0.500" in done.stdout
    assert "agree" not in done.stdout
    assert rtsim("compare", "short.mcap", "whole.mcap", "--to", "0.500").exit_code == 0


def test_common_says_of_how_many_rows(folder: Path) -> None:
    text = PLANT.replace("step=0.01", "step=0.1")
    (folder / "coarse.py").write_text(text)
    fly("fine.mcap")
    assert rtsim("run", "coarse.py", "--plain", "-o", "coarse.mcap").exit_code == 0
    done = rtsim("compare", "fine.mcap", "coarse.mcap", "--common", "--abs", "1e-9")
    assert done.exit_code == 0, done.output
    assert "11 of 101 rows, 0 to 1 s" in done.stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("last", ["0", "-1"])
def test_an_end_before_the_start_is_refused(last: str) -> None:
    fly("a.mcap")
    done = rtsim("compare", "a.mcap", "a.mcap", "--to", last)
    assert done.exit_code == 2
    assert "the comparison begins at 0.000 s, and --to" in done.stderr


@pytest.mark.usefixtures("folder")
def test_signals_that_pass_with_a_remark_are_shown() -> None:
    fly("a.mcap")
    fly("fast.mcap", "--set", "speed=1.5")
    done = rtsim("compare", "a.mcap", "fast.mcap", "--tol", "p.x=9", "--tol", "p.x=0.6")
    assert done.exit_code == 0, done.output
    assert "above a tenth of its range 1, differs by 0.5" in done.stdout


def spanning(*at_ms: int, messages: int = 0, reason: str = "end") -> Recording:
    """A plant with rows at these times, and so many messages, one at each row from the first on."""
    recorder = MemoryRecorder()
    plant = recorder.track("p", ("step", "side"), Signals("w", "x", "y", "z"))
    topic = recorder.track("messages/m", ("sequence",), Signals("u"))
    last = max(at_ms, default=0) * MS
    recorder.start({"until": last})
    for ms in at_ms:
        plant.append(ms * MS, (0, 0), np.zeros(4))
    for k, ms in enumerate(at_ms[:messages]):
        topic.append(ms * MS, (k,), np.zeros(1))
    recorder.finish({"reason": reason, "error": "ModelError: x", "ended": last})
    return recorder.recording()


@pytest.mark.parametrize("found", [Comparison([]), compare(spanning(), spanning())])
def test_nothing_that_was_compared_is_no_rows_and_no_time(found: Comparison) -> None:
    assert found.covered == (0, 0, 0, 0) == ComparedRows()
    assert found.outcome is Outcome.UNDECIDED
    told = found.to_json()
    assert (told["rows"], told["rows_there"], told["from_s"], told["to_s"]) == (0, 0, 0.0, 0.0)
    assert str(found.covered) == "0 of 0 rows, 0 to 0 s"


def test_the_compared_span_is_given_in_seconds() -> None:
    found = compare(spanning(500, 700, 2000), spanning(500, 700, 2000))
    told = found.to_json()
    assert (told["rows"], told["rows_there"], told["from_s"], told["to_s"]) == (3, 3, 0.5, 2.0)
    assert str(found.covered) == "3 of 3 rows, 0.5 to 2 s"


def test_a_row_that_one_lacks_at_its_early_end_is_that_ones_alone() -> None:
    """Both end at 2 ms, one of them by an error before its message of that time."""
    whole, died = spanning(0, 1, 2, messages=3), spanning(0, 1, 2, messages=2, reason="error")
    found = compare(whole, died)
    assert (found.outcome, found.undecided) == (Outcome.FAILED, [])
    assert [r.name for r in found.failures] == ["overlap"]
    found = compare(died, whole)
    assert (found.outcome, found.failures) == (Outcome.UNDECIDED, [])
    (why,) = found.undecided
    assert why.startswith("the baseline ended in an error at 0.002 s")
    assert why.endswith("; later values are not known")


def test_a_baseline_that_stopped_early_decides_nothing_though_all_its_rows_are_there() -> None:
    found = compare(spanning(0, 1, 2, reason="error"), spanning(0, 1, 2, 3))
    assert (found.outcome, found.failures) == (Outcome.UNDECIDED, [])
    assert [why.rpartition("; ")[2] for why in found.undecided] == ["later values are not known"]


def test_a_pattern_without_a_signal_is_refused_with_three_examples() -> None:
    with pytest.raises(ScenarioError) as raised:
        compare(spanning(0), spanning(0), {"q.*": (1.0, 0.0)})
    said = "no signal matches 'q.*'; names of signals are, for example, p.w, p.x, p.y"
    assert str(raised.value) == said
