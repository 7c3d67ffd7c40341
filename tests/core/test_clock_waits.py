"""The wall clock on a wall of its own: sleeps, spins, tails and ticks to the nanosecond."""

from __future__ import annotations

import os
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from rtsim.core import clock as clock_module
from rtsim.core.clock import (
    DEFAULT_SPIN_NS,
    VirtualClock,
    Wake,
    WallClock,
    age_ns,
    exact_rate,
    tail_for,
    tick_ns,
    until_quiet,
)
from rtsim.core.errors import ScenarioError

YEAR_NS = 365.25 * 86_400e9


class Wall:
    """A time that goes on only where somebody sleeps, or by ``reading`` ns at each look at it."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000
        self.reading = self.late = 0
        self.sleeps: list[float] = []

    def read(self) -> int:
        self.ns += self.reading
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.ns += round(seconds * 1e9) + self.late


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    out = Wall()
    monkeypatch.setattr(clock_module, "stopwatch", out.read)
    monkeypatch.setattr("time.sleep", out.sleep)
    return out


def test_a_tail_is_twice_what_was_late_of_99_in_100(wall: Wall) -> None:
    wall.late = 40_000
    clock = WallClock()
    assert clock.spin_ns == DEFAULT_SPIN_NS == 200_000
    assert clock.calibrate() == clock.spin_ns == clock.most_spin_ns == 80_000
    assert wall.sleeps == [0.001] * 100
    for samples, slept in ((7, 7), (1, 1), (0, 1), (-5, 1)):
        wall.sleeps.clear()
        clock.calibrate(samples=samples)
        assert len(wall.sleeps) == slept


def test_the_bounds_of_a_tail() -> None:
    assert tail_for([0] * 100) == 20_000
    assert tail_for([10_001]) == 20_002
    assert tail_for([10**9]) == 500_000
    assert tail_for([10**9], 2_000_000) == 500_000
    assert tail_for([10**9], 1_999_996) == 499_999
    assert tail_for([10**9], 40_000) == 10_000, "a fast loop spins no more than a quarter"
    assert tail_for([60_000, *[30_000] * 99]) == 60_000, "one of a hundred is left out"
    assert tail_for([60_000, *[30_000] * 98]) == 120_000, "one of 99 is not"
    assert tail_for([60_000, 60_000, *[30_000] * 98]) == 120_000, "nor are two of a hundred"


def test_the_longest_tail_is_a_quarter_of_the_frame_at_each_rate(wall: Wall) -> None:
    wall.late = 40_000
    clock = WallClock(10)
    assert clock.calibrate(1_000_000) == 25_000
    tails = []
    for rate in (1, 100, 0.5):
        clock.set_rate(rate, 0)
        tails.append(clock.spin_ns)
    assert tails == [80_000, 2_500, 80_000], "what was tuned is kept, and bounded by the frame"
    clock._retune(-10_000_000)
    clock._retune(-300_000)
    assert clock.spin_ns == 400_000, (
        "of frames of 2 ms; a window of 0.25 ms was the limit at rate 1"
    )


def test_a_tail_grows_by_what_was_missing_and_some_spare(wall: Wall) -> None:
    wall.late = 40_000
    clock = WallClock()
    clock.calibrate(1_000_000)
    for left, tail in (
        (-1, 100_001),  # one ns too late: that and 20 us
        (0, 99_981),  # in time to the ns: 20 ns less
        (50, 99_961),
        (-150_039, 250_000),  # all that a quarter of the period covers
        (-1, 250_000),  # more is not chased
        (10, 249_980),
        (-21, 249_980),  # 250 001 would be beyond
        (-20, 250_000),
    ):
        clock._retune(left)
        assert clock.spin_ns == tail, left
    assert clock.most_spin_ns == 250_000
    for _ in range(8_500):
        clock._retune(5)
    assert clock.spin_ns == 80_000, "what was tuned is the least"


def test_a_wait_sleeps_until_the_tail_begins_and_spins_to_the_deadline(wall: Wall) -> None:
    clock = WallClock(spin_ns=150_000)
    clock.anchor(0, clock.now())
    warm_ups: list[tuple[int, int]] = []
    clock.warm_up = lambda left: warm_ups.append((wall.ns, left))
    began, wall.reading = wall.ns, 100
    assert clock.wait_until(1_000_000)
    (slept,) = wall.sleeps
    assert slept == pytest.approx(850e-6, abs=2e-7)
    assert 0 <= wall.ns - began - 1_000_000 <= 300
    assert len(warm_ups) == 1
    assert warm_ups[0][0] - began == pytest.approx(850_000, abs=500)
    assert warm_ups[0][1] == pytest.approx(150_000, abs=500), "the time until the deadline"
    wall.sleeps.clear()
    assert clock.wait_until(1_000_000), "it has gone by"
    assert clock.wait_until(1_100_000)
    assert not wall.sleeps, "all of it is in the tail"
    assert len(warm_ups) == 1, "without a sleep there is nothing to come back from"


@pytest.mark.parametrize(("late", "warmed_up"), [(139_999, 1), (140_000, 0), (160_000, 0)])
def test_a_tail_too_short_to_warm_up_in_is_left_alone(
    late: int, warmed_up: int, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        wall.sleep(seconds)
        monkeypatch.setattr(clock_module, "stopwatch", reads.pop)

    clock = WallClock(spin_ns=150_000)
    clock.anchor(0, clock.now())
    calls: list[int] = []
    clock.warm_up = calls.append
    wall.late = late
    awake = wall.ns + 850_000 + late
    reads = [awake + 10**6, awake, awake]  # it looks twice, then the deadline has gone by
    monkeypatch.setattr("time.sleep", sleep)
    assert clock.wait_until(1_000_000)
    assert len(calls) == warmed_up


def test_a_wait_of_hours_is_slept_in_pieces_of_one(wall: Wall) -> None:
    clock = WallClock(spin_ns=0)
    clock.anchor(0, clock.now())
    assert clock.wait_until(5 * 3_600_000_000_000 // 2)
    assert wall.sleeps == [3600.0, 3600.0, pytest.approx(1800.0)]


@pytest.mark.parametrize("spin_ns", [0, 500_000])
def test_who_wakes_a_wait_is_told_and_who_does_not_is_waited_out(wall: Wall, spin_ns: int) -> None:
    class Sleeps(Wake):
        def wait(self, seconds: float) -> bool:
            wall.sleep(seconds)
            return self.is_set()

    wake, clock = Sleeps(), WallClock(spin_ns=spin_ns)
    clock.anchor(0, clock.now())
    wall.reading, began = 10, wall.ns
    assert clock.wait_until(400_000, wake), "nobody woke it"
    assert wall.ns - began >= 400_000
    assert not wake.is_set()
    wake.set()
    assert not clock.wait_until(800_000, wake)
    assert wall.ns - began < 800_000 or spin_ns == 0
    assert wake.is_set(), "it stays set"


def test_a_clock_without_a_rate_waits_for_nothing(wall: Wall) -> None:
    clock = WallClock(None)
    assert not clock.paced
    before = wall.ns
    wall.reading = 1
    assert clock.wait_until(10**18)
    clock.spend(10**18)
    assert (wall.ns, wall.sleeps) == (before, [])
    clock.set_rate(2, 5)
    assert clock.rate == 2
    assert clock.wall(5 + 2_000) - clock.wall(5) == 1_000
    assert WallClock(2).paced


def test_to_be_busy_takes_as_long_as_was_asked_for(wall: Wall) -> None:
    clock = WallClock()
    wall.reading, began = 1, wall.ns
    clock.spend(1_000)
    assert 1_000 <= wall.ns - began <= 1_002
    virtual = VirtualClock()
    virtual.spend(1_000)
    assert virtual.now() == 0


def test_a_tail_below_nothing_is_refused() -> None:
    assert WallClock(spin_ns=0).spin_ns == 0
    with pytest.raises(ScenarioError, match="spin_ns = -1 ns is negative"):
        WallClock(spin_ns=-1)


def test_own_time_begins_36_to_73_years_further_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Drawn:
        def randrange(self, low: int, high: int) -> int:
            asked.append((low, high))
            return low

    monkeypatch.setattr("random.SystemRandom", Drawn)
    assert WallClock().offset_ns / YEAR_NS == pytest.approx(36.5, abs=0.1)
    ((_, high),) = asked
    assert high / YEAR_NS == pytest.approx(73, abs=0.1)


def test_a_clock_that_is_not_calibrated_begins_at_once(wall: Wall) -> None:
    clock = WallClock()
    clock.anchor(100)
    assert clock.wall(100) == wall.ns + clock.offset_ns
    assert clock.begun_ns == wall.ns
    clock.calibrate()  # for a loop without a period
    wall.ns += 12_345
    clock.anchor(100)
    assert clock.wall(100) == wall.ns + clock.offset_ns


def test_a_virtual_clock_is_where_it_was_anchored() -> None:
    clock = VirtualClock()
    clock.set_rate(Fraction(1, 2), 40)
    assert (clock.now(), clock.wall(7), clock.simulated(7)) == (40, 7, 7)
    clock.set_rate(None, 50)
    assert clock.now() == 50
    assert not clock.paced


def test_a_rate_is_what_its_decimals_say() -> None:
    assert exact_rate(0.1) == Fraction(1, 10)
    assert exact_rate(Fraction(1, 3)) == Fraction(1, 3)
    assert exact_rate(1e-6) == Fraction(1, 10**6)
    with pytest.raises(ScenarioError, match=r"from 1e-06 to 1e\+09"):
        exact_rate(1e-300)
    with pytest.raises(ScenarioError):
        exact_rate(Fraction(0))


# -- what the system says


def test_a_tick_is_as_long_as_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(time, "clock_getres", lambda clock: 1.0 if clock == 6 else 5.0)
    assert tick_ns() == 1_000_000_000

    def unknown(clock: int) -> float:
        raise OSError(clock)

    monkeypatch.setattr(time, "clock_getres", unknown)
    assert tick_ns() == 0


def test_a_tick_leaves_room_for_two_tails_or_none() -> None:
    assert until_quiet(0, 1_000_000, 500_000, 4_000_000) == 470_000
    assert until_quiet(0, 1_000_000, 500_001, 4_000_000) == 0
    assert until_quiet(470_000, 1_000_000, 500_000, 4_000_000) == 0
    assert until_quiet(470_001, 1_000_000, 500_000, 4_000_000) == 999_999
    assert until_quiet(10, 1_000_000, 80_000, 4_000_000) == 49_990
    assert until_quiet(10, 1_000_000, 79_998, 4_000_000) == 539_989, "a short tail: asleep"
    assert until_quiet(0, 100_000, 25_000, 4_000_000) == 62_500, "10 kHz"


@pytest.mark.parametrize("said", [OSError(), "1 (a", "1 (a) S 1", "1 (a) " + "x " * 30])
def test_where_the_system_does_not_say_a_process_is_as_old_as_this_module(
    said: str | OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_text(self: Path) -> str:  # noqa: ARG001
        if isinstance(said, OSError):
            raise said
        return said

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(clock_module, "stopwatch", lambda: clock_module._loaded_ns + 77)
    assert age_ns() == 77


@pytest.mark.skipif(sys.platform != "linux", reason="another system has another clock")
def test_a_process_began_so_many_ticks_after_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = " ".join(str(k) for k in range(3, 53))
    monkeypatch.setattr(Path, "read_text", lambda _: f"1 (a) b) {fields}")
    monkeypatch.setattr(os, "sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: 10**9)
    assert age_ns() == 10**9 - 22 * 10**7, "field 22 is the start"
