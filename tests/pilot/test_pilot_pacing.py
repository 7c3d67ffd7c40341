"""Frames by absolute deadlines, on a clock that the test moves."""

from __future__ import annotations

import itertools

import pytest

from rtsim.core.errors import ScenarioError
from rtsim.pilot.pacing import POLL_NS, Durations, VideoFrames
from rtsim.testing.clock import FAKE_START, FakeClock

MS = 1_000_000


def test_deadlines_do_not_drift() -> None:
    """At 60 Hz the millionth frame is due when it should be, and none hands its lateness on."""
    clock = FakeClock(late=[300_000] * 50)
    frames = VideoFrames(60, clock)
    due = []
    for _ in range(121):
        due.append(frames.wait(lambda: None) - FAKE_START)
        clock.advance(7 * MS)  # drawing
    assert due == [round(n * 1e9 / 60) for n in range(121)]
    assert frames.dropped == 0
    assert frames.period.tick(60_000_000) == 10**15


def test_devices_are_read_each_millisecond_and_last_of_all() -> None:
    clock = FakeClock()
    frames = VideoFrames(100, clock)
    polls: list[int] = []

    def poll() -> None:
        polls.append(clock.now() - FAKE_START)

    for _ in range(3):
        frames.wait(poll)
        clock.advance(3 * MS)
    between = [at for at in polls if 10 * MS < at <= 20 * MS]
    gaps = [b - a for a, b in itertools.pairwise(between)]
    assert between[0] == 13 * MS
    assert between[-1] == 20 * MS
    assert max(gaps) <= POLL_NS


def test_a_frame_that_was_missed_is_dropped_and_the_grid_stays() -> None:
    clock = FakeClock()
    frames = VideoFrames(50, clock)
    begun = []
    for work in (5, 55, 5, 25, 5, 5):
        frames.wait(lambda: None)
        begun.append((clock.now() - FAKE_START) // MS)
        clock.advance(work * MS)
    assert begun == [0, 20, 75, 80, 105, 120]
    assert frames.dropped == 1  # the one of 40; that of 60 began at 75
    assert frames.intervals.count == 5
    assert frames.intervals.greatest == 55 * MS


@pytest.mark.parametrize("rate", [0.0, -60.0, 1e9])
def test_no_such_rate(rate: float) -> None:
    with pytest.raises(ScenarioError, match="give 1 to 1000"):
        VideoFrames(rate, FakeClock())


def test_durations_of_any_number() -> None:
    durations = Durations()
    assert (durations.quantile(0.5), durations.greatest, durations.count) == (0, 0, 0)
    for k in range(1, 1001):
        durations.add(k * MS)
    assert durations.count == 1000
    assert durations.quantile(0.5) == pytest.approx(500 * MS, rel=0.02)
    assert durations.quantile(0.95) == pytest.approx(950 * MS, rel=0.02)
    assert durations.greatest == 1000 * MS
