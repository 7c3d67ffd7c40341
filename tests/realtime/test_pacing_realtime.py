"""The pacer on the wall clock: invariants and ratios, never milliseconds."""

from __future__ import annotations

import itertools
import threading

import pytest

from rtsim.core.clock import MAX_SPIN_NS, MAX_SPIN_SHARE, MIN_SPIN_NS, Wake, WallClock, stopwatch
from rtsim.timing.certificate import certify
from rtsim.timing.doctor import examine
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp, Slip
from rtsim.timing.scheduling import request

pytestmark = pytest.mark.realtime
MS = 1_000_000


@pytest.mark.parametrize("rate", [0.5, 1.0, 10.0])
def test_never_early_monotonic_and_every_frame_counted(rate: float) -> None:
    with request() as granted:
        clock = WallClock(rate)
        clock.calibrate(MS)
        pacer = Pacer(clock, CatchUp(10**6), frame_ns=MS)
        pacer.start(0)
        begun = [clock.now()]
        for k in range(1, 301):
            assert pacer.wait(k * MS)
            begun.append(clock.now())
            assert begun[-1] >= clock.wall(k * MS)  # never early
        pacer.stop()
    assert all(a < b for a, b in itertools.pairwise(begun))
    found = certify(pacer, granted)
    assert found.frames == found.compute.count == 301
    assert found.lateness.count + found.not_waited == found.frames
    assert sum(count for _, _, count in found.lateness.histogram) == found.lateness.count
    assert found.lateness.min is not None
    assert found.lateness.min >= 0
    # whatever happened in between, the run as a whole kept its rate
    assert begun[-1] - begun[0] >= 300 * MS / rate - MS
    assert found.scheduling == granted.items


def test_a_tail_makes_most_wakes_less_late_than_a_plain_sleep() -> None:
    medians = []
    for spin_ns in (0, MAX_SPIN_NS):
        clock = WallClock(spin_ns=spin_ns)
        pacer = Pacer(clock, CatchUp(10**6), frame_ns=2 * MS)
        pacer.start(0)
        for k in range(1, 151):
            pacer.wait(2 * k * MS)
        pacer.stop()
        median = pacer.log.lateness.quantile(0.5)
        assert median is not None
        medians.append(median)
    assert medians[1] < medians[0]


def test_the_tuned_tail_lies_within_its_bounds() -> None:
    tail = WallClock().calibrate(MS)
    assert MIN_SPIN_NS <= tail <= MS // MAX_SPIN_SHARE


def test_slipping_neither_sprints_nor_loses_track() -> None:
    clock = WallClock()
    pacer = Pacer(clock, Slip(10**6), frame_ns=MS)
    start = clock.now()
    pacer.start(0)
    for k in range(1, 21):
        before = clock.now()
        if k == 5:
            while clock.now() - before < 20 * MS:  # slow computing
                pass
        assert pacer.wait(k * MS)
    took = clock.now() - start
    assert pacer.overruns["compute"] >= 1
    assert took >= 20 * MS + pacer.slipped_ns  # what was lost is not made up
    assert pacer.slipped_ns >= 18 * MS


def test_another_thread_cuts_a_wait_short() -> None:
    clock, wake = WallClock(), Wake()
    clock.anchor(0)
    timer = threading.Timer(0.02, wake.set)
    started = stopwatch()
    timer.start()
    assert not clock.wait_until(60_000 * MS, wake)
    assert 0 < clock.simulated(clock.now()) < 60_000 * MS
    assert stopwatch() - started < 60_000 * MS
    timer.join()


def test_the_doctor_examines_this_machine() -> None:
    found = examine(0.8)
    assert [m.lateness.count for m in found.measurements] == [20, 20, 200, 200]
    assert all(m.lateness.min is not None and m.lateness.min >= 0 for m in found.measurements)
    assert str(found.holds_hz or found.estimate_hz) in found.verdict
