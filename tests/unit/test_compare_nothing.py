"""A comparison of recordings without rows covers no rows and no time."""

from __future__ import annotations

import pytest

from rtsim.core.signals import Signals
from rtsim.record.comparison import ComparedRows, Comparison, compare
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.reading import Recording
from rtsim.record.verdict import Outcome


def empty() -> Recording:
    """One plant without rows."""
    recorder = MemoryRecorder()
    recorder.track("p", ("step", "side"), Signals("x [m]"))
    recorder.start({"until": 0})
    recorder.finish({"reason": "end", "error": "", "ended": 0})
    return recorder.recording()


@pytest.mark.parametrize("found", [Comparison([]), compare(empty(), empty())])
def test_nothing_that_was_compared_is_no_rows_and_no_time(found: Comparison) -> None:
    assert found.covered == (0, 0, 0, 0) == ComparedRows()
    assert found.outcome is Outcome.UNDECIDED
    told = found.to_json()
    assert (told["rows"], told["rows_there"], told["from_s"], told["to_s"]) == (0, 0, 0.0, 0.0)
    assert str(found.covered) == "0 of 0 rows, 0 to 0 s"


def test_the_span_that_was_compared_is_told_in_seconds() -> None:
    assert str(ComparedRows(3, 4, 500_000_000, 2_000_000_000)) == "3 of 4 rows, 0.5 to 2 s"
