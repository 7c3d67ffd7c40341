"""The latest states of tasks: copies of clients are complete from a known time on, and bounded."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rtsim.core.errors import RtsimError
from rtsim.record.jobs import recent_history
from rtsim.record.recent_jobs import AT_DEADLINE, ENDED, MOST_CELLS, MOST_ROWS, RecentJobs


def filled(first: int, last: int, tasks: int = 2) -> RecentJobs:
    """Return rows at the times ``first`` to ``last`` - 1, at which all tasks change."""
    made = RecentJobs([f"t{k}" for k in range(tasks)])
    for ns in range(first, last):
        made.add(ns, [(ns, [ns % 2] * tasks)])
        made.mark(ns, 0, ENDED)
    return made


def test_a_copy_that_is_joined_in_parts_equals_the_original() -> None:
    source, copy = RecentJobs(["a", "b"]), RecentJobs(["a", "b"])
    for ns in range(0, 100, 10):
        source.mark(ns, 1, AT_DEADLINE)
        source.add(ns, [(ns, (1, -1)), (ns + 5, (0, 1))] if ns % 20 else ())
        source.until_ns = ns + 5
        if ns % 30 == 0:
            copy.join(source.after(copy.until_ns))
    copy.join(source.after(copy.until_ns))
    assert copy.states().tolist() == source.states().tolist() != []
    assert copy.marks(1, AT_DEADLINE).tolist() == list(range(0, 100, 10))
    assert copy.marks(1, ENDED).tolist() == copy.marks(0, AT_DEADLINE).tolist() == []
    assert copy.since_ns == -1


def test_rows_of_the_present_time_are_sent_with_the_next_part() -> None:
    source = filled(0, 5)
    source.mark(7, 0, ENDED)  # an event of a tag that is not over
    copy = filled(0, 0)
    copy.join(source.after(-1))
    source.add(7, [(7, (1, 1))])
    copy.join(source.after(copy.until_ns))
    assert copy.marks(0, ENDED).tolist() == [0, 1, 2, 3, 4, 7]


@pytest.mark.parametrize("tasks", [2, 300])
def test_the_rows_are_bounded_and_say_since_when_they_are_complete(tasks: int) -> None:
    most = min(MOST_ROWS, MOST_CELLS // (1 + tasks))
    source = filled(0, most + 10, tasks)
    assert source.since_ns == 9
    assert source.states()[:, 0].tolist() == list(range(10, most + 10))
    copy = filled(0, 5, tasks)
    copy.join(source.after(copy.until_ns))
    assert copy.since_ns == 9, "rows 5 to 9 are missing, so the earlier rows are discarded"
    assert copy.states().tolist() == source.states().tolist()
    assert len(copy.marks(0, ENDED)) == most
    assert recent_history("mcu", "rm", 1, copy).since_ns == 9


def test_a_time_that_went_back_begins_anew() -> None:
    copy = filled(0, 50)
    copy.join(filled(0, 20).after(-1))
    assert copy.states()[:, 0].tolist() == list(range(20))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": b"12345678"}, {"rows": [1, 2, 3]}, {"rows": bytes(24 * MOST_CELLS + 24)},
        {"marks": b"1"}, {"since": None}, {"until": "x"},
        {"since": math.inf}, {"until": 2**63}, {"since": True},
    ],
)  # fmt: skip
def test_data_of_a_wrong_form_are_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(RtsimError, match="wrong form"):
        filled(0, 0).join({**filled(0, 3).after(-1), **change})


def test_a_mark_of_an_unknown_task_is_drawn_nowhere() -> None:
    source = filled(0, 3)
    source.mark(1, 99, AT_DEADLINE)
    source.mark(1, 0, 77)
    copy = filled(0, 0)
    copy.join(source.after(-1))
    history = recent_history("mcu", "rm", 1, copy)
    assert [task.missed.tolist() for task in history.tasks] == [[], []]
