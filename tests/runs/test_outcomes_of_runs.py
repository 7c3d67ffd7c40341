"""The outcome of a run, by its end, its error and its recording."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ramp_parts import ramp

import rtsim as rt
from rtsim.core.errors import OverrunError, RecordingError
from rtsim.core.outcome import Outcome
from rtsim.record.events import LACKING, RunEnding


class BoardLost(Exception):
    environment = True


FAILED, UNDECIDED = Outcome.FAILED, Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({}, Outcome.PASSED),
        ({"error": ValueError("wrong gain")}, FAILED),
        ({"error": OverrunError("too slow")}, UNDECIDED),
        ({"error": LACKING[0]("memory is full")}, UNDECIDED),
        ({"error": BoardLost("no answer")}, UNDECIDED),
        ({"lost": RecordingError("the disk is full")}, UNDECIDED),
        ({"ending": RunEnding(1, 2, "interrupted")}, UNDECIDED),
        ({"ending": RunEnding(1, 2, "terminal", "the cart hit the wall")}, FAILED),
        ({"ending": RunEnding(1, 2, "error")}, FAILED),
    ],
    ids=str,
)
def test_what_ended_the_run_decides_its_outcome(changed: dict[str, Any], outcome: Outcome) -> None:
    run = replace(rt.simulate(ramp(0.5, "A: always ramp.x < 2 m")), **changed)
    assert run.outcome is outcome
    for one in (run.error, run.lost):
        assert one is None or str(one) in run.in_words


def test_a_run_with_an_error_or_an_incomplete_recording_is_not_checked() -> None:
    run = rt.simulate(ramp(0.5))
    assert run.checked() is run
    with pytest.raises(ValueError, match="wrong gain"):
        replace(run, error=ValueError("wrong gain")).checked()
    with pytest.raises(RecordingError, match="the disk is full"):
        replace(run, lost=RecordingError("the disk is full")).checked()
