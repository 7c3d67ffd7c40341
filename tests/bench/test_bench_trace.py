"""Behind whom a loop stood, read from lines as the kernel writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tools.bench import pilot_trace
from tools.bench.pilot_trace import Traced, overruns, traced

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
