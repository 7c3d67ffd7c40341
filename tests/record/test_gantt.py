"""The processors of a report: a table of the tasks, and a Gantt chart of a window of the run."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.record.jobs import ProcessorHistory, processors_of
from rtsim.record.reading import Recording
from rtsim.record.reports.gantt import MOST_BARS, chart, section, window
from rtsim.record.reports.run_page import render
from rtsim.scenario.scenario import Scenario
from rtsim.schedules import Segment
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


def history(recording: Recording) -> ProcessorHistory:
    (found,) = processors_of(recording)
    return found


@pytest.fixture(scope="module")
def recording() -> Recording:
    return trace_of(scenario())


def rows(html: str) -> dict[str, list[str]]:
    """Return the cells of each row of the first table, by the first cell."""
    body = html[html.index("<tbody>") : html.index("</tbody>")]
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("<tr>")[1:]]
    return {row[0]: row[1:] for row in found}


def drawn(html: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    made: dict[str, Any] = json.loads(data)
    return made


def test_the_pieces_of_a_task_are_its_states_by_job(recording: Recording) -> None:
    fast, rare, slow = history(recording).tasks
    pieces = slow.pieces
    assert [
        (b / MS, e / MS, s, j) for b, e, s, j in zip(*(c.tolist() for c in pieces), strict=True)
    ] == [
        (0, 1, -1, 0), (1, 4, 1, 0), (4, 7, -1, 0), (7, 8, 1, 0),
        (10, 12, 1, 1), (12, 13, -1, 1), (13, 15, 1, 1),
    ]  # fmt: skip
    assert fast.missed.tolist() == []
    assert slow.missed.tolist() == [6 * MS]
    assert rare.responses.tolist() == [2 * MS + 800_000]


def test_the_table_has_jobs_longest_responses_and_missed_deadlines(recording: Recording) -> None:
    table = rows(section(recording))
    assert table["fast"] == ["5", "1", "4", "0", "0", "0"]
    assert table["slow"] == ["2", "8", "6", "1", "0", "0"]


def test_the_chart_has_a_row_for_each_task_with_the_first_task_on_top(
    recording: Recording,
) -> None:
    made = drawn(section(recording))
    assert made["rows"] == ["slow", "rare", "fast"]
    assert made["span"] == made["view"] == [0, 0.02]
    colors = {(one["row"], one["color"]) for one in made["bars"]}
    assert colors == {(2, 0), (1, 0), (1, -1), (0, 0), (0, -1)}


def test_the_bars_are_the_pieces_of_the_tasks(recording: Recording) -> None:
    found = history(recording)
    bars = {(b.row, b.color): b for b in chart(found, (0, 20 * MS), (0, 20 * MS)).bars}
    assert (1e3 * bars[0, 0].begin).tolist() == pytest.approx([1, 7, 10, 13])
    assert (1e3 * bars[0, 0].end).tolist() == pytest.approx([4, 8, 12, 15])
    assert (1e3 * bars[0, -1].begin).tolist() == pytest.approx([0, 4, 12])


def test_missed_deadlines_are_points_in_the_row_of_their_task(recording: Recording) -> None:
    (line,) = chart(history(recording), (0, 20 * MS), (0, 20 * MS)).lines
    assert line.points
    marked = np.isfinite(line.y)
    assert line.x[marked].tolist() == [0.006]
    assert line.y[marked].tolist() == [0]
    (line,) = chart(history(recording), (7 * MS, 20 * MS), (7 * MS, 20 * MS)).lines
    assert not np.isfinite(line.y).any()


def test_a_window_is_at_the_first_missed_deadline_or_else_at_the_start() -> None:
    tasks = history(trace_of(scenario(until=2.0))).tasks
    begin, end = window(tasks, (0, 2000 * MS), 1000 * MS, 60)
    inside = sum(len(task.pieces.within(begin, end).begin) for task in tasks)
    assert begin < 1000 * MS < end
    assert (1000 * MS - begin) < (end - 1000 * MS)
    assert inside == pytest.approx(60, abs=3)
    assert window(tasks, (0, 2000 * MS), None, 60)[0] == 0
    assert window(tasks, (0, 2000 * MS), 1999 * MS, 60)[1] == 2000 * MS
    assert window(tasks, (0, 2000 * MS), 1000 * MS, 10_000) == (0, 2000 * MS)


def test_the_chart_of_a_long_run_is_a_window_and_the_page_remains_small() -> None:
    html = section(trace_of(scenario(until=20.0)))
    made = drawn(html)
    assert made["span"][1] < 10
    assert made["view"][1] < 1
    assert "rtsim export to .pftrace" in html
    assert len(html) < 40 * MOST_BARS


def test_a_task_that_waits_for_a_lock_has_a_colour_of_its_own() -> None:
    loop = Scenario("locks", until=0.01)
    loop.processor("mcu")
    held = [Segment(rt.Fixed(0.003), lock="bus")]
    loop.task("low", "mcu", period=0.01, priority=1, segments=held)
    loop.task("high", "mcu", period=0.01, offset=0.001, priority=0, segments=held)
    made = drawn(section(trace_of(loop)))
    assert (1, 1) in {(one["row"], one["color"]) for one in made["bars"]}


def test_aborted_jobs_and_skipped_releases_are_counted() -> None:
    loop = Scenario("missed", until=0.05)
    loop.processor("mcu")
    loop.task("a", "mcu", period=0.01, execution=0.02, missed="abort", priority=1)
    loop.task("b", "mcu", period=0.01, execution=0.013, missed="skip", priority=0)
    table = rows(section(trace_of(loop)))
    assert table["a"] == ["0", "", "10", "5", "5", "0"]
    assert table["b"] == ["2", "13", "10", "3", "0", "3"]  # the release at 50 ms is skipped


def test_the_report_of_a_run_with_a_processor_has_the_section(recording: Recording) -> None:
    page = render(recording)
    assert '<section id="processors">' in page
    assert "Tasks of mcu" in page


def test_a_run_without_a_processor_has_no_such_section() -> None:
    loop = Scenario("empty", until=0.1)
    loop.source("wanted", rt.Signals("x"))
    assert section(trace_of(loop)) == ""
