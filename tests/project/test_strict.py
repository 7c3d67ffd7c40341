"""``--strict`` says what it could not judge."""

from __future__ import annotations

import pytest
from command_line import data, rtsim


@pytest.mark.parametrize("pace", ["max", "50"])
def test_a_run_that_was_not_paced_says_that_no_timing_was_judged(pace: str) -> None:
    flown = ("run", "orbit", "--until", "1", "--no-record", "--pace", pace)
    done = rtsim(*flown, "--strict")
    assert ("--strict checked no timing" in done.stdout) == (pace == "max")
    assert "checked no timing" not in rtsim(*flown).stdout
    told = data(rtsim(*flown, "--strict", "--json"))
    assert told["strict"] == {"timing_measured": pace != "max"}
    if pace == "max":
        assert done.exit_code == 0, done.output
