"""The bench's machinery on tiny sizes: structures are sane.  No figure of a machine is asserted."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from rtsim.core.tag import Tag
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder, NullRecorder
from rtsim.runs.simulation import simulate
from tools.bench import (
    blocks,
    blocks_cases,
    f16_loop,
    frame,
    gateway,
    memory,
    sil,
    solve,
    speed,
    step,
    timed,
)
from tools.bench.__main__ import main
from tools.bench.blocks_cases import Case
from tools.bench.f16_c import SOURCE, compile_step, tables_header
from tools.bench.results import Result, Row
from tools.bench.solve_problems import problems
from tools.bench.turns import in_turns, median_ratio, spread


def shown(result: Result) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(result.table())
    json.dumps(result.to_json(), allow_nan=False)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_opponents_take_turns_in_alternating_order() -> None:
    seen: list[str] = []

    def one(name: str) -> float:
        seen.append(name)
        return float(len(seen))

    figures = in_turns({"a": lambda: one("a"), "b": lambda: one("b")}, 3)
    assert "".join(seen) == "ab" + "ab" + "ba" + "ab"
    assert figures == {"a": [3.0, 6.0, 7.0], "b": [4.0, 5.0, 8.0]}


def test_a_percentile_needs_samples_beyond_it() -> None:
    few = spread(np.arange(99.0))
    assert (few["median [ns]"], few["p99 [ns]"], few["max [ns]"]) == (49.0, None, 98.0)
    many = spread(np.arange(1000.0))
    assert many["p99 [ns]"] is not None
    assert many["p99.9 [ns]"] is not None
    assert spread([]) == {}


def test_a_ratio_is_formed_within_each_round() -> None:
    assert median_ratio([2.0, 200.0, 6.0], [1.0, 100.0, 2.0]) == 2.0


def test_a_verdict_is_pass_or_over_and_decides_the_whole() -> None:
    rows = (Row("kept", {"median [ns]": 1500.0}, "<= 2 us", True), Row("told", {}))
    assert Result("x", "y", rows).ok
    over = Result("x", "y", (*rows, Row("lost", {"ratio [x]": 3.0}, "<= 2 x", False)))
    assert not over.ok
    text = shown(over)
    for part in ("1.50 us", "3.00 x", "pass", "OVER", "<= 2 us"):
        assert part in text
    assert "skipped: no reason" in shown(Result("x", "y", skipped="no reason"))


SKIPPED = Result("x", "y", skipped="no compiler")
LACKING = Result("x", "y", (Row("SimPy: not installed", {}),))
KEPT = Result("x", "y", (Row("kept", {"median [ns]": 1.0}, "<= 2 us", True),))
TOLD = Result("x", "y", (Row("told", {"median [ns]": 1.0}), Row("SimPy: not installed", {})))
OVER = Result("x", "y", (Row("lost", {"median [ns]": 3.0}, "<= 2 us", False),))


@pytest.mark.parametrize(
    ("results", "status", "lacking"),
    [
        ([SKIPPED], 2, "not measured: a: no compiler"),
        ([LACKING], 2, "not measured: a: SimPy: not installed"),
        ([KEPT, LACKING], 2, "not measured: b: SimPy"),
        ([OVER, SKIPPED], 1, "not measured: b: no compiler"),
        ([TOLD, KEPT], 0, "not measured: a: SimPy"),
        ([KEPT], 0, ""),
    ],
)
def test_what_was_not_measured_is_no_bound_that_was_kept(
    monkeypatch: pytest.MonkeyPatch, results: list[Result], status: int, lacking: str
) -> None:
    named = [replace(r, name=n) for r, n in zip(results, "ab", strict=False)]
    benches = {r.name: lambda _, r=r: r for r in named}
    monkeypatch.setattr("tools.bench.__main__.BENCHES", benches)
    done = CliRunner().invoke(main, [])
    assert done.exit_code == status, done.output
    assert lacking in done.stderr
    assert ("not measured" in done.stderr) == bool(lacking)
    as_data = [reason for r in named for reason in r.to_json()["lacking"]]
    assert bool(as_data) == bool(lacking)


def test_a_frame_has_two_messages_and_both_states() -> None:
    frames = frame.interpret(frame.StampedVirtual(), 0.05)
    assert len(frames) == 49
    assert all(ns > 0 for ns in frames)
    recorder = MemoryRecorder()
    simulate(frame.scenario(), until=0.05, recorder=recorder)
    found = {name: len(track) for name, track in recorder.recording().tracks.items()}
    assert found == {"plant": 2 * 51, "messages/controller": 51, "messages/controller.inputs": 51}


@pytest.mark.realtime
def test_frames_of_the_compiled_engine_are_measured_by_batches() -> None:
    batches, whole = frame.compile_fast(3.0, recording=False)
    assert batches
    assert all(0.0 < ns < whole for ns in batches)


def test_c_and_python_are_the_same_equations(tmp_path: Path) -> None:
    flight = step.Flight.trimmed()
    c = compile_step(tmp_path, flight.p)
    assert step.worst_difference(c, flight, 200) < step.AGREE
    assert step.stepped_difference(c, flight, 20) < step.AGREE


def test_another_c_program_voids_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "wrong.c"
    text = SOURCE.read_text(encoding="utf-8")
    assert "3.0 - latitude" in text
    wrong.write_text(text.replace("3.0 - latitude", "3.0000001 - latitude"), encoding="utf-8")
    monkeypatch.setattr("tools.bench.f16_c.SOURCE", wrong)
    flight = step.Flight.trimmed()
    with pytest.raises(step.Void, match="not the same equations"):
        step.check(compile_step(tmp_path, flight.p), flight)


def test_the_loop_in_c_writes_the_rows_of_rtsim(tmp_path: Path) -> None:
    last, worst = f16_loop.check(f16_loop.CLoop(tmp_path))
    assert last <= f16_loop.AGREE
    assert last <= worst < 1e-8


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("0.5 * air.density", "0.50001 * air.density", "not the same program"),
        ("row[3] = row[5] = row[8] = 0", "row[3] = row[5] = row[8] = 1", "times or stamps"),
        ("if (memcmp(u, commands, sizeof u) == 0)", "if (ns > 0)", "words"),
    ],
)
def test_another_loop_in_c_voids_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, message: str
) -> None:
    changed = tmp_path / "changed.c"
    text = f16_loop.SOURCE.read_text(encoding="utf-8")
    assert right in text
    changed.write_text(text.replace(right, wrong), encoding="utf-8")
    (tmp_path / "f16_step.c").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(f16_loop, "SOURCE", changed)
    with pytest.raises(f16_loop.Void, match=message):
        f16_loop.check(f16_loop.CLoop(tmp_path, until=1.0))


def test_the_speed_of_a_flight_is_held_against_c_and_against_the_writer() -> None:
    seen = {
        "rtsim": [600.0], "rtsim silent": [2000.0], "writer": [750.0], "other": [300.0],
        "other silent": [1.0], "C": [1500.0], "C silent": [3000.0],
    }  # fmt: skip
    rows = [*speed._rows(seen), *speed._against_c(seen, "")]
    assert [r.ok for r in rows] == [True, None, True, True, None, True, True]
    slower = {**seen, "rtsim": [590.0], "rtsim silent": [1990.0]}
    rows = [*speed._rows(slower), *speed._against_c(slower, "")]
    assert [r.ok for r in rows] == [False, None, False, True, None, False, False]
    assert not speed._rows({**seen, "writer": [690.0]})[0].ok
    assert speed._rows({**seen, "rtsim": [1000.0], "writer": [1500.0]})[0].ok
    (row,) = speed._against_c(seen, "no compiler")
    assert not row.measured


def test_steps_are_compared_in_turns() -> None:
    result = step.run(rounds=3)
    ratios = [row for row in result.rows if row.ok is not None]
    assert len(ratios) == 2
    assert all(row.figures["ratio [x]"] for row in ratios)
    assert "Stepper.advance" in shown(result)


def test_tables_keep_every_bit() -> None:
    header = tables_header()
    assert f"#define LBF {(4.4482216152605).hex()}" in header
    assert "over_alpha[12][10]" in header


@pytest.mark.parametrize("recording", [True, False])
def test_a_flight_counts_until_its_recording_is_finished(
    recording: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From when all is ready to when the recording is closed, and neither less nor more."""
    told: list[str] = []
    clock = {"ns": 0}

    def takes(seconds: float, what: str) -> None:
        told.append(what)
        clock["ns"] += round(seconds * 1e9)

    base: Any = FileRecorder if recording else NullRecorder
    start, finish = base.start, base.finish

    def slow_start(self: Any, header: Any) -> None:
        takes(100.0, "start")
        start(self, header)

    def slow_finish(self: Any, footer: Any) -> None:
        takes(0.3, "finish")
        finish(self, footer)

    monkeypatch.setattr(base, "start", slow_start)
    monkeypatch.setattr(base, "finish", slow_finish)

    def simulate(flown: object, *, recorder: Any, engine: str) -> SimpleNamespace:
        assert isinstance(recorder, base)
        assert engine == "compiled"
        recorder.start({"scenario": type(flown).__name__})
        takes(0.1, "flight")
        recorder.finish({})
        takes(1000.0, "afterwards")
        return SimpleNamespace(ended=Tag(200_000_000))

    monkeypatch.setattr(timed, "stopwatch", lambda: clock["ns"])
    monkeypatch.setattr(speed, "simulate", simulate)
    took = 0.1 + (0.3 if recording else 0.0)
    assert speed.fly("13.1", recording=recording, until=0.2) == pytest.approx(0.2 / took)
    assert told[-2:] == ["finish", "afterwards"] if recording else ["flight", "afterwards"]


@pytest.mark.parametrize("recording", [True, False])
def test_a_flight_of_the_bench_is_flown(recording: bool) -> None:
    assert speed.fly("13.1", recording=recording, until=0.2) > 0.0


def test_memory_is_sampled_for_loop_and_writer() -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc here to read memory from")
    rows = memory.fly(60.0)
    assert 5 <= len(rows) <= memory.SAMPLES + 1  # the compiled engine reports every 2048 tags
    assert all(row[1] > 1.0 and row[2] >= 0.0 for row in rows)
    assert memory.growth([9.0, 1.0, 5.0, 2.0, 1.0]) == (1.0, 5.0)


@pytest.mark.long
def test_sil_is_measured_beside_a_bare_ping_pong_and_a_broker() -> None:
    result = sil.run(rounds=1, steps=5, flights=2, seconds=0.02)
    shown(result)
    worker, ping_pong, broker, *links, in_process, flown, bare = result.rows
    assert all(row.figures["median [ns]"] for row in (worker, ping_pong, broker, in_process))
    if sys.platform.startswith("linux"):
        assert [bool(row.figures.get("ratio [x]")) for row in links] == [True, False, True]
    assert worker.figures["ratio [x]"]
    assert broker.figures["ratio [x]"]
    assert flown.figures["steps"] == bare.figures["steps"] == 2 * 20


def test_the_gateway_is_held_against_the_loop_alone_within_each_pair() -> None:
    late = {gateway.ALONE: np.arange(1000), gateway.REACHED: np.arange(1000) * 2}
    for factor, ok in ((1.5, True), (1.51, False)):
        p99 = {gateway.ALONE: [1.0, 100.0, 1.0], gateway.REACHED: [factor, 100.0 * factor, 9.0]}
        result = Result("gateway", "x", gateway.rows(late, p99))
        assert result.ok is ok
        text = shown(result)
        for part in (gateway.ALONE, gateway.REACHED, "median", "p99.9", "<= 1.5 x"):
            assert part in text


@pytest.mark.full
@pytest.mark.realtime
def test_the_gateway_bench_measures_with_a_client_that_got_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway, "STARTING_S", 1.5)  # nobody looks at the figures
    result = gateway.measure(0.5, 1)
    assert not result.skipped, result.skipped
    assert [row.what for row in result.rows][:2] == [gateway.ALONE, gateway.REACHED]
    assert all(row.figures["median [ns]"] is not None for row in result.rows[:2])


def test_block_cases_end_where_they_end_exactly() -> None:
    """Each case against what it should come to, and no ratio where ours is worse."""
    for case in blocks_cases.CASES:
        _, error = blocks.ours(case)()
        assert error < 3e-3, case.name
    slow = Case("slow", (), blocks_cases.oscillator, lambda: 0.0, "x", 1.0, 0.1)
    row = blocks.row("slow", slow, {"ours": [1.0], "theirs": [100.0]}, 0.5, 0.1)
    assert "VOID" in row.what
    assert row.ok is False
    assert blocks.row("x", slow, {"ours": [1.0], "theirs": [49.0]}, 0.1, 0.5).ok is False
    assert blocks.row("x", slow, {"ours": [1.0], "theirs": [51.0]}, 0.1, 0.5).ok is True


def test_solvers_are_compared_on_the_same_problem() -> None:
    lorenz, arenstorf, _ = problems(quick=True)
    for problem in (lorenz, arenstorf):
        row = solve._compiled(problem, rounds=1)
        assert row.figures["off"] == pytest.approx(row.figures["SciPy off"], rel=1e-3)
        assert (solve._plain(problem, rounds=1).figures["faster [x]"] or 0) > 0
