"""The schedules of processors on a page: from a run in progress, and from a recording."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("viser")

from gateway_parts import live
from web_parts import Made, handles, served

import rtsim as rt
from rtsim.gateway.client import Glance, connect
from rtsim.gateway.publishing import StateTable
from rtsim.gateway.web.page import Page
from rtsim.gateway.web.process import LiveRun
from rtsim.gateway.web.schedule import (
    BARS_IN_VIEW,
    MOST_BARS,
    MOST_PROCESSORS,
    MOST_TASKS,
    chart_html,
)
from rtsim.gateway.web.source import RecordedRun
from rtsim.record.file import FileRecorder
from rtsim.record.jobs import Pieces, ProcessorHistory, TaskHistory, processors_of
from rtsim.record.reading import Recording
from rtsim.record.recent_jobs import RecentJobs
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

MS = 1_000_000


def scenario(until: float = 0.02) -> Scenario:
    """``slow`` misses its deadline at 6 ms, because ``rare`` has a job from 4.2 ms on."""
    loop = Scenario("line", until=until)
    loop.processor("mcu")
    loop.task("fast", "mcu", period=0.004, execution=0.001, priority=0)
    loop.task("slow", "mcu", period=0.01, execution=0.004, priority=2, deadline=0.006)
    loop.task("rare", "mcu", period=1, offset=0.0042, execution=0.002, priority=1)
    return loop


def bars(html: str) -> list[tuple[str, int]]:
    """Return the colour and the number of bars of each path of bars."""
    found = re.findall(r'<path d="([^"]*)" fill="(#\w+)"/>', html)
    return [(colour, path.count("M")) for path, colour in found]


def made(count: int, name: str = "t", tasks: int = 1) -> ProcessorHistory:
    """Return a processor whose tasks run for 1 ms every 2 ms."""
    begin = np.arange(count, dtype=np.int64) * 2 * MS
    pieces = Pieces(begin, begin + MS, np.ones(count, np.int64), np.arange(count))
    none = np.zeros(0, np.int64)
    rows = tuple(TaskHistory(f"{name}{k}", pieces, None, none, 0) for k in range(tasks))
    return ProcessorHistory(name, "rm", 1, rows)


def test_a_chart_has_a_bar_for_each_piece_of_a_job() -> None:
    (history,) = processors_of(trace_of(scenario()))
    html = chart_html(history, 20 * MS, 0.02)
    runs, waits = "#1f5fbf", "#8a94a6"
    assert bars(html) == [(runs, 5), (runs, 1), (waits, 1), (runs, 4), (waits, 3)]
    assert html.count("<circle") == 1, "slow misses its deadline at 6 ms"
    left = 36  # a label of 4 letters
    assert f'cx="{left + 0.3 * (640 - left):.1f}"' in html, "6 ms of 20 ms"
    assert "mcu, policy fixed" in html
    before = chart_html(history, 5 * MS, 0.005)
    assert "<circle" not in before, "the chart ends at the present time"
    assert "rare" in before, "each task has a row, also before its first job"


def test_the_span_auto_shows_few_bars_and_a_long_span_is_cut() -> None:
    history = made(10 * MOST_BARS)
    end = 20 * MOST_BARS * MS
    ((_, count),) = bars(chart_html(history, end, None))
    assert BARS_IN_VIEW / 5 <= count <= BARS_IN_VIEW
    html = chart_html(history, end, 5.0)
    ((_, count),) = bars(html)
    assert count == MOST_BARS
    assert "at most 1500 bars" in html


@pytest.mark.parametrize("end", [0, 1, 10**18])
def test_a_time_without_jobs_has_no_bars(end: int) -> None:
    for span in (None, 0.005, 5.0):
        assert bars(chart_html(made(0), end, span)) == []
    assert chart_html(ProcessorHistory("mcu", "rm", 1, ()), end, None)


def test_names_are_text_and_no_markup() -> None:
    html = chart_html(made(2, "<img src=x onerror=alert(1)>"), 4 * MS, None)
    assert "<img" not in html
    assert "&lt;img" in html


def test_long_names_with_the_same_beginning_have_different_labels() -> None:
    html = chart_html(made(2, "a_task_with_a_long_name_", tasks=2), 4 * MS, None)
    assert re.findall(r"</title>([^<]*)<", html) == ["a_task_w…ng_name_0", "a_task_w…ng_name_1"]
    assert "<title>a_task_with_a_long_name_1</title>" in html


def test_a_page_is_bounded() -> None:
    names = [f"p{k}" for k in range(MOST_PROCESSORS + 2)]
    source = Made(["a.x"], processors=[{"name": name} for name in names])
    source.histories = [made(3, name, tasks=MOST_TASKS + 5) for name in names]
    with served() as (server, _, _):
        page = Page(server, source, control=False)
        page.update()
        assert page._schedules is not None
        charts = page._schedules._charts
        assert list(charts) == names[:MOST_PROCESSORS]
        content = charts["p0"].content
        assert content.count("</title>") == MOST_TASKS
        assert "5 more tasks are not shown" in content


def test_a_page_without_processors_has_no_schedule() -> None:
    with served() as (server, _, _):
        page = Page(server, Made(["a.x"]), control=False)
        page.update()
        assert page._schedules is None


def test_the_page_of_a_recording_follows_its_time(tmp_path: Path) -> None:
    file = tmp_path / "line.mcap"
    with FileRecorder(file) as recorder:
        rt.simulate(scenario(until=0.05), recorder=recorder)
    now = [0]
    source = RecordedRun(Recording.open(file), now=lambda: now[0])
    with served() as (server, _, _):
        page = Page(server, source, control=True)
        counts = []
        for now[0] in (5 * MS, 12 * MS, 40 * MS):
            page._looks = 0
            page.update()
            assert page._schedules is not None
            content = page._schedules._charts["mcu"].content
            counts.append((sum(count for _, count in bars(content)), content.count("<circle")))
        assert counts[0][0] < counts[1][0] < counts[2][0]
        assert [missed for _, missed in counts] == [0, 1, 1]
        schedules = page._schedules
        assert schedules is not None
        schedules._choose("5 ms")
        page._looks = 0
        page.update()
        assert sum(count for _, count in bars(schedules._charts["mcu"].content)) < counts[2][0]
        assert "Time span" in handles(page)


class Restored:
    """A client of a run that goes back to an earlier time."""

    scenario, pid, gone = "line", 1, False

    def __init__(self) -> None:
        self.leg, self.asked = 1, list[int | None]()
        self.jobs = RecentJobs(["a"])
        self.jobs.add(9 * MS, [(0, (1,)), (5 * MS, (0,))])

    @property
    def about(self) -> dict[str, Any]:
        one = {"name": "mcu", "policy": "rm", "cores": 1, "tasks": ["a"]}
        none: dict[str, Any] = {"topics": {}, "faults": {}, "left_out": {}}
        return {"leg": self.leg, "signals": (), "parameters": (), "processors": [one], **none}

    def glance(self, *names: str, jobs_after: int | None = None) -> Glance:  # noqa: ARG002
        self.asked.append(jobs_after)
        state = StateTable(self.jobs.until_ns, leg=self.leg)
        return Glance(state, {}, {}, jobs={"mcu": self.jobs.after(jobs_after or -1)})


def test_after_a_restore_the_schedule_begins_again() -> None:
    run = Restored()
    source = LiveRun(run)  # type: ignore[arg-type]

    def begins() -> list[int]:
        source.look(())
        begins: list[int] = source.schedules()[0].tasks[0].pieces.begin.tolist()
        return begins

    assert begins() == [0]
    run.jobs = RecentJobs(["a"])
    run.jobs.add(2 * MS, [(1 * MS, (1,))])
    run.leg = 2
    assert begins() == []
    assert begins() == [1 * MS]
    assert run.asked == [-1, 9 * MS, -1]


@pytest.mark.live
def test_a_run_in_progress_sends_what_it_records(tmp_path: Path) -> None:
    file = tmp_path / "line.mcap"
    with (
        FileRecorder(file) as recorder,
        live(scenario(until=1000), recorder=recorder),
        connect(os.getpid()) as run,
    ):
        source = LiveRun(run)
        assert source.about.processors == [
            {"name": "mcu", "policy": "fixed", "cores": 1, "tasks": ["fast", "rare", "slow"]}
        ]
        look = None
        while look is None or look.state.ns < 200 * MS:
            look = source.look(())
        (seen,) = source.schedules()
    (recorded,) = processors_of(Recording.open(file))
    for ours, theirs in zip(seen.tasks, recorded.tasks, strict=True):
        until = int(ours.pieces.begin[-1])
        assert until > 0
        for a, b in zip(ours.pieces.within(0, until), theirs.pieces.within(0, until), strict=True):
            assert a.tolist() == b.tolist(), ours.name
        assert ours.missed.tolist() == theirs.missed.tolist()[: len(ours.missed)]
    assert seen.tasks[2].missed.tolist()[0] == 6 * MS
