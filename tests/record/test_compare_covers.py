"""What a comparison covers: runs that ended early, rows that were not there, large tolerances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import data, rtsim

from rtsim.cli.recordings import tolerances
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Signals
from rtsim.record.comparison import Comparison, compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import SignalResult, Tolerance

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
def test_a_tolerance_as_large_as_the_signal_is_told(
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
def test_what_is_passed_with_a_remark_is_shown() -> None:
    fly("a.mcap")
    fly("fast.mcap", "--set", "speed=1.5")
    done = rtsim("compare", "a.mcap", "fast.mcap", "--tol", "p.x=9", "--tol", "p.x=0.6")
    assert done.exit_code == 0, done.output
    assert "above a tenth of its range 1, differs by 0.5" in done.stdout
