"""The bench's machinery on tiny sizes: structures are sane.  No figure of a machine is asserted.

The benches of loops in real time: verdicts on given figures, and short loops that are run.

Behind whom a loop stood, read from lines as the kernel writes them.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from hitl.building.toolchain import BuildError
from rtsim.core.errors import ModelError, OverrunError
from rtsim.core.tag import Tag
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder, NullRecorder
from rtsim.runs.simulation import simulate
from rtsim.timing.frames import NO_SAMPLE
from tools.bench import (
    blocks,
    blocks_cases,
    f16_loop,
    frame,
    gateway,
    loop,
    memory,
    pilot_trace,
    rate,
    rows,
    sil,
    solve,
    speed,
    step,
    timed,
    wake,
)
from tools.bench.__main__ import main
from tools.bench.blocks_cases import Case
from tools.bench.f16_c import SOURCE, compile_step, tables_header
from tools.bench.pilot_trace import Traced, overruns, traced
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


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OverrunError("101 late frames"), 2, "not measured: a: 101 late frames"),
        (ModelError("x is not a number"), 1, ""),  # an error of rtsim ends the command
    ],
)
def test_a_bench_that_the_machine_spoils_is_named_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, said: str
) -> None:
    def spoiled(_: bool) -> Result:
        raise error

    ran = Mock(return_value=KEPT)
    monkeypatch.setattr("tools.bench.__main__.BENCHES", {"a": spoiled, "b": ran})
    done = CliRunner().invoke(main, [])
    assert done.exit_code == status
    assert said in done.stderr
    assert ran.called == bool(said)


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


@pytest.mark.long
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


FAST = loop.Measured(np.zeros(2000, np.int64), 22, 10_000, 700.0, 50_000.0, "compiled", 99, 0)


def test_a_tag_that_did_not_wait_is_as_late_as_the_margin_before_it_says() -> None:
    track = np.array([[0, 5, 0, 70], [1, 8, 0, -900], [2, NO_SAMPLE, 0, 60], [3, 9, 0, 50]])
    assert loop.lateness(track, 100).tolist() == [8, 1000, 9]


def test_overruns_at_a_high_rate_are_held_against_the_c_loop() -> None:
    late = np.zeros(2000, np.int64)
    late[:10], late[10:20] = 10_001, 10_000
    for found, kept in (
        (FAST, [None, True, True, True]),
        (replace(FAST, overruns=23), [None, False, True, True]),
        (replace(FAST, computed_p99_9=50_001.0), [None, True, False, True]),
        (replace(FAST, dropped_rows=1), [None, True, True, False]),
        (replace(FAST, computed_p99_9=None), [None, True, None, True]),
    ):
        assert [row.ok for row in rate.rows([found], [late], 100_000)] == kept
    assert rate.rows([FAST], [late], 100_000)[0].figures["overruns"] == 10.0


def test_the_engine_is_held_against_the_c_loop_by_its_tail() -> None:
    c = {"p50": 10.0, "p99": 50_000.0, "p99.9": 90_000.0}
    kept = {"p50": 2010.0, "p99": 75_000.0, "p99.9": 135_000.0}
    for engine, ok in ((55_000.0, True), (55_001.0, False)):
        verdicts = wake._criteria(c, kept, {**kept, "p99": engine})
        assert [v["ok"] for v in verdicts] == [True, True, True, ok]
    quiet = wake._criteria({**c, "p99": 100.0}, kept, {**kept, "p99": 3100.0})
    assert quiet[-1]["ok"]
    assert not wake._criteria({**c, "p99": 100.0}, kept, {**kept, "p99": 3101.0})[-1]["ok"]


def test_a_recorded_loop_is_held_against_the_loop_alone() -> None:
    alone: dict[str, Any] = {"median": 10.0, "p99": 1000.0}
    recorded = {
        **alone, "p99": 4000.0, "rows": 9, "dropped": 0, "aside": 0,
        "memory": [[100.0, 50.0]] * 5 + [[104.0, 54.0]],
    }  # fmt: skip
    for changed, kept in (
        ({}, [None, True, True, True, True]),
        ({"p99": 4001.0}, [None, False, True, True, True]),
        ({"dropped": 1}, [None, True, False, True, True]),
        ({"memory": [[100.0, 50.0]] * 5 + [[104.1, 54.0]]}, [None, True, True, False, True]),
        ({"memory": [[100.0, 50.0]] * 5 + [[104.0, 54.1]]}, [None, True, True, True, False]),
    ):
        assert [r.ok for r in rows.rows(alone, recorded | changed, alone)] == kept


def test_a_wide_plant_has_rows_of_as_many_columns_as_stated() -> None:
    built = rows.scenario(2).build(0, compile=False)
    assert [plant.values.size for plant in built.plants] == [rows.COLUMNS] * 2
    built.close()


@pytest.mark.parametrize("name", ["rate", "wake"])
def test_without_a_compiler_a_loop_is_skipped(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from tools.bench.__main__ import BENCHES

    def missing() -> None:
        raise BuildError("no compiler")

    monkeypatch.setattr(wake, "find_toolchain", missing)
    monkeypatch.setattr("rtsim.core.clock.WallClock.calibrate", lambda *_: 25_000)
    assert BENCHES[name](True).skipped == "no compiler"


@pytest.mark.full
@pytest.mark.realtime
def test_short_loops_are_run_and_measured() -> None:
    found = loop.fly(loop.Asked(1000, 0.5, 25_000))
    assert found.engine.startswith("compiled")
    assert found.late.size >= 498
    assert found.rows > 5 * 500
    certificate = frame.compile_paced(1000, 0.3)
    assert certificate.engine.startswith("compiled")
    assert (frame.compute([certificate])["median [ns]"] or 0.0) > 0.0
    recorded = rows.fly(0.5, True, "")
    assert recorded["dropped"] == 0
    assert recorded["rows"] >= rows.PLANTS * 501


def test_a_recording_that_does_not_fit_the_disk_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc here to read memory from")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=60 * 10**9))
    found = rows.run()
    assert "needs 64 GB" in found.skipped
    assert not found.rows


LOOP, WINDOW, SERVER, OTHER = 100, 200, 300, 400
NAMES = {LOOP: "python", WINDOW: "python", SERVER: "Xvfb", OTHER: "kdamond.0", 0: "swapper/1"}


def at(us: int, cpu: int, rest: str) -> str:
    return f"          <idle>-0       (-------) [00{cpu}] d..2. 57.{us:06d}: {rest}\n"


def switch(us: int, cpu: int, before: int, after: int, state: str = "S") -> str:
    return at(
        us, cpu,
        f"sched_switch: prev_comm={NAMES[before]} prev_pid={before} prev_prio=120 "
        f"prev_state={state} ==> next_comm={NAMES[after]} next_pid={after} next_prio=120",
    )  # fmt: skip


def waking(us: int, cpu: int) -> str:
    return at(us, 0, f"sched_waking: comm=python pid={LOOP} prio=120 target_cpu=00{cpu}")


def mark(us: int, late_us: int) -> str:
    return at(us, 1, f"tracing_mark_write: overrun {late_us * 1000}")


def found(*lines: str) -> list[tuple[float, dict[int, int]]]:
    return [
        (late, {tid: round(us) for (tid, _), us in stood.items()})
        for late, stood in overruns(lines, LOOP)
    ]


def test_it_waits_until_another_gives_way() -> None:
    lines = switch(0, 1, 0, WINDOW), waking(1000, 1), switch(4000, 1, WINDOW, LOOP)
    assert found(*lines, mark(4100, 2500)) == [(2500, {WINDOW: 3000})]


def test_it_runs_and_is_taken_off() -> None:
    lines = (
        switch(0, 1, 0, WINDOW, "R"), waking(1000, 1), switch(1010, 1, WINDOW, LOOP, "R"),
        switch(1100, 1, LOOP, WINDOW, "R"), switch(3000, 1, WINDOW, SERVER, "R+"),
        switch(3400, 1, SERVER, LOOP),
    )  # fmt: skip
    assert found(*lines, mark(3500, 2400)) == [(2400, {WINDOW: 1910, SERVER: 400})]


def test_what_runs_on_another_processor_is_not_in_its_way() -> None:
    lines = (
        switch(0, 1, 0, OTHER), switch(0, 0, 0, WINDOW), waking(1000, 1),
        switch(1500, 0, WINDOW, SERVER), switch(2000, 1, OTHER, LOOP),
    )  # fmt: skip
    assert found(*lines, mark(2100, 1100)) == [(1100, {OTHER: 1000})]


def test_it_moves_to_another_processor() -> None:
    lines = (
        switch(0, 1, 0, WINDOW), switch(0, 0, 0, OTHER), waking(1000, 1),
        at(1800, 0, f"sched_migrate_task: comm=python pid={LOOP} prio=120 orig_cpu=1 dest_cpu=0"),
        switch(2000, 0, OTHER, LOOP),
    )  # fmt: skip
    assert found(*lines, mark(2100, 1100)) == [(1100, {WINDOW: 800, OTHER: 200})]


def test_a_machine_that_stands_still_is_nobody_s() -> None:
    lines = switch(0, 1, LOOP, 0), waking(1000, 1), switch(3000, 1, 0, LOOP)
    assert found(*lines, mark(3100, 2000)) == [(2000, {})]
    assert found(mark(5, 2000)) == [(2000, {})]


def test_what_was_before_it_slept_is_not_counted() -> None:
    lines = (
        switch(0, 1, 0, WINDOW), waking(1000, 1), switch(4000, 1, WINDOW, LOOP),
        switch(4500, 1, LOOP, 0), waking(9000, 1), switch(9001, 1, 0, LOOP),
    )  # fmt: skip
    assert found(*lines, mark(12000, 3000)) == [(3000, {})]


def test_lines_that_are_something_else_are_passed_over() -> None:
    lines = "# tracer: nop\n", "", at(1, 1, "sched_switch: what"), at(2, 1, "sched_wakeup: x")
    assert found(*lines) == []


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kernel makes of a folder that is made there."""
    make = Path.mkdir

    def mkdir(self: Path) -> None:
        make(self)
        for event in ("sched_switch", "sched_waking", "sched_migrate_task"):
            os.makedirs(self / "events" / "sched" / event)
        for name in ("trace", "trace_marker"):
            (self / name).touch()

    monkeypatch.setattr(pilot_trace, "_ROOT", tmp_path)
    monkeypatch.setattr(Path, "mkdir", mkdir)
    return tmp_path / f"rtsim-{os.getpid()}"


def test_an_overrun_counts_where_most_of_it_was_behind_them(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threading.get_native_id", lambda: LOOP)
    lines = []
    for k, whose in enumerate((WINDOW, SERVER, OTHER)):
        start = 10_000 * k
        lines += [switch(start, 1, LOOP, whose), waking(start + 1000, 1),
                  switch(start + 3000, 1, whose, LOOP), mark(start + 3100, 2100)]  # fmt: skip
    with traced() as trace:
        assert isinstance(trace, Traced)
        assert (files / "tracing_on").read_text() == "1"
        trace.mark(7)
        assert (files / "trace_marker").read_text() == "overrun 7"
        (files / "trace").write_text("".join(lines))
        assert trace.behind([], []) == 0
        assert (files / "tracing_on").read_text() == "0"
        assert trace.behind([WINDOW], []) == 1
        assert trace.behind([WINDOW], ["Xvfb"]) == 2
        assert trace.behind([], ["kdamond.0"]) == 1


def test_where_it_may_not_be_read_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pilot_trace, "_ROOT", tmp_path / "nowhere")
    with traced() as trace:
        assert trace is None


_MARKS = dedent("""
    from tools.bench.pilot_trace import traced
    with traced() as trace:
        if trace is None:
            raise SystemExit(3)
        trace.mark(5_000_000)
        print(trace.behind([], []), len((trace._folder / "trace").read_text().splitlines()) > 0)
""")


def test_the_kernel_s_own_lines_are_read() -> None:
    """Where this user may: the mark is found again, and nothing of it is left behind."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _MARKS], cwd=root, capture_output=True, text=True, timeout=60
    )
    if done.returncode == 3:
        pytest.skip("the kernel's trace is root's")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "True"]
    assert not list(pilot_trace._ROOT.glob("rtsim-*"))


def test_requirements_may_cost_a_paced_loop_neither_lateness_nor_overruns() -> None:
    from tools.bench.monitor import ALONE, REQUIREMENTS, WATCHED, flight
    from tools.bench.web import rows

    scenario = flight()
    scenario.require_all(*(f"R{k}: {one}" for k, one in enumerate(REQUIREMENTS)))
    assert len(scenario.requirements) == 20

    def kept(late: float, overruns: float) -> list[bool | None]:
        p99 = {ALONE: [100.0, 200.0, 300.0], WATCHED: [late * x for x in (100.0, 200.0, 300.0)]}
        counts = {ALONE: [10.0] * 3, WATCHED: [overruns] * 3}
        return [row.ok for row in rows(p99, counts, (ALONE, WATCHED))]

    assert kept(1.5, 15.0) == [None, None, True, True]
    assert kept(1.6, 15.0) == [None, None, False, True]
    assert kept(1.5, 16.0) == [None, None, True, False]
