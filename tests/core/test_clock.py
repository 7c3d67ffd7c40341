"""The exact map between simulated and wall time, wakes, and the fake clock's scripts.

Every clock passes the suite that ships for users' own, and the suite catches broken ones.

The wall clock on a wall of its own: sleeps, spins, tails and ticks to the nanosecond.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.core import clock as clock_module
from rtsim.core.clock import (
    DEFAULT_SPIN_NS,
    MAX_SPIN_NS,
    MIN_SPIN_NS,
    Timeline,
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
from rtsim.testing import FakeClock, check_clock

MONTH_NS = 31 * 86_400 * 10**9
RATES = st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=10_000)
TIMES = st.integers(-MONTH_NS, MONTH_NS)


@given(RATES, TIMES, st.integers(2**60, 2**61), TIMES)
def test_w_is_exact_to_the_nanosecond(rate: Fraction, at: int, own: int, ns: int) -> None:
    line = Timeline(rate, 0)
    line.anchor(at, own)
    error = line.wall(ns) - (own + (ns - at) / rate)
    assert 0 <= error < 1  # rounded up: never early
    assert line.wall(at) == own


@given(RATES, TIMES, TIMES, st.integers(0, 10**12))
def test_w_is_monotonic_and_simulated_is_its_inverse(
    rate: Fraction, at: int, ns: int, more: int
) -> None:
    line = Timeline(rate, 2**60)
    line.anchor(at, 2**60)
    assert line.wall(ns + more) >= line.wall(ns)
    assert 0 <= line.simulated(line.wall(ns)) - ns <= rate  # within one wall nanosecond


def test_a_rate_in_decimals_does_not_drift_in_a_month() -> None:
    line = Timeline(0.1, 0)
    assert line.wall(MONTH_NS) == 10 * MONTH_NS
    assert int(MONTH_NS / float.fromhex("0x1.999999999999bp-4")) != 10 * MONTH_NS  # one ulp would


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), -float("inf"), Fraction(-1)])
def test_a_rate_that_does_not_let_time_pass_is_refused(rate: float) -> None:
    with pytest.raises(ScenarioError, match="finite number > 0"):
        exact_rate(rate)
    with pytest.raises(ScenarioError, match="--pace"):
        WallClock(rate)
    with pytest.raises(ScenarioError):
        VirtualClock().set_rate(rate, 0)


def test_clocks_that_nothing_was_asked_of_stand_at_the_start() -> None:
    assert VirtualClock().now() == 0
    assert WallClock().begun_ns == 0


def test_a_process_is_as_old_as_the_system_says() -> None:
    """No older than the machine, and no younger than what it has done since."""
    before = age_ns()
    assert 0 < before <= age_ns() < 10**18
    assert age_ns() - before < 3600 * 10**9


def test_virtual_clock_advances_to_the_requested_time() -> None:
    clock = VirtualClock()
    for ns, now in ((5, 5), (3, 5), (9, 9)):
        assert clock.wait_until(ns)
        assert clock.now() == now
    clock.anchor(2)  # a restore
    assert clock.now() == 2


def test_wall_clock_starts_far_from_simulated_time_and_elsewhere_each_time() -> None:
    clocks = [WallClock() for _ in range(4)]
    assert all(clock.now() > 2**60 for clock in clocks)
    assert len({clock.offset_ns for clock in clocks}) == 4
    own = clocks[0].now()
    assert own - clocks[0].offset_ns <= clock_module.stopwatch()


def test_wall_clock_sleeps_short_of_the_deadline_and_spins_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, sleeps = [0], []

    def read() -> int:
        time[0] += 100
        return time[0]

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        time[0] += round(seconds * 1e9)

    monkeypatch.setattr(clock_module, "stopwatch", read)
    monkeypatch.setattr("time.sleep", sleep)
    clock = WallClock(spin_ns=150_000)
    clock.anchor(0)
    assert clock.wait_until(1_000_000)
    assert sum(sleeps) == pytest.approx(850e-6, abs=1e-6)
    assert 0 <= clock.now() - clock.wall(1_000_000) < 1000
    sleeps.clear()
    clock.anchor(0)
    assert clock.wait_until(2 * 10**13)  # five and a half hours: in pieces
    assert max(sleeps) <= 3600
    assert len(sleeps) == 6


def test_the_tail_follows_what_comes_late_within_its_bounds_and_eases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, late = [0], [40_000]

    def read() -> int:
        time[0] += 100
        return time[0]

    def sleep(seconds: float) -> None:
        time[0] += round(seconds * 1e9) + late[0]

    def wait() -> int:
        """One period; how late it ended."""
        clock.anchor(0)
        assert clock.wait_until(1_000_000)
        return clock.now() - clock.wall(1_000_000)

    monkeypatch.setattr(clock_module, "stopwatch", read)
    monkeypatch.setattr("time.sleep", sleep)
    clock = WallClock()
    tuned = clock.calibrate(1_000_000)
    assert 80_000 <= tuned < 90_000
    assert wait() < 1000
    assert clock.spin_ns == tuned
    late[0] = 150_000  # somebody has joined
    assert wait() > 60_000
    assert wait() < 1000, "the next such sleep is covered"
    assert 150_000 < clock.spin_ns <= 175_000
    longest = clock.spin_ns
    late[0] = 5_000_000  # the machine was away: no tail covers that
    wait()
    assert clock.spin_ns <= longest
    late[0] = 245_000
    wait()
    assert clock.spin_ns == clock.most_spin_ns == 250_000, "a quarter of the period"
    late[0] = 40_000
    for _ in range(20_000):
        wait()
    assert clock.spin_ns == tuned, "given back"
    assert clock.most_spin_ns == 250_000


TICKS = st.sampled_from([1_000_000, 3_333_333, 4_000_000, 10_000_000])
TAIL_NS = 250_000


@given(
    now=st.integers(0, 2**62), period=st.integers(1, 2000).map(lambda k: k * 50_000),
    tick=TICKS, tail=st.integers(20_000, 500_000),
)  # fmt: skip
def test_a_tick_meets_the_beginning_of_a_tail_or_a_loop_that_sleeps(
    now: int, period: int, tick: int, tail: int
) -> None:
    rest = until_quiet(now, period, tail, tick)
    assert 0 <= rest < tick
    divisor = math.gcd(period, tick)
    if divisor < 2 * tail:
        assert rest == 0, "no room"
        return
    short = tail - 30_000 < 50_000
    slept = (divisor + tail) // 2 if short else tail - 30_000
    for k in range(40):
        since = (now + rest + k * period) % tick
        assert since % divisor == slept % divisor
        assert since == slept or since >= divisor, "the tick before is far off, or in the tail"
        if short:
            assert since >= tail, "the tick is over before the tail begins"


def test_without_a_period_or_a_tick_every_time_is_quiet() -> None:
    assert until_quiet(12_345, 0, TAIL_NS, 4_000_000) == 0
    assert until_quiet(12_345, 1_000_000, TAIL_NS, 0) == 0


@pytest.mark.parametrize(("rate", "divisor"), [(1.0, 1_000_000), (0.5, 2_000_000)])
def test_a_loop_begins_where_ticks_do_not_meet_it(
    rate: float, divisor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = [123_456_789]
    monkeypatch.setattr(clock_module, "stopwatch", lambda: time[0])
    monkeypatch.setattr(clock_module, "tick_ns", lambda: 4_000_000)
    monkeypatch.setattr("time.sleep", lambda seconds: time.append(seconds))
    clock = WallClock(rate)
    clock.anchor(0)
    assert clock.wall(0) - clock.offset_ns == time[0], "before it is calibrated: now"
    clock = WallClock(rate)
    clock.calibrate(1_000_000, samples=1)
    tail = divisor // 4  # the longest window: a quarter of the period on the wall clock
    clock.anchor(7)
    assert (clock.wall(7) - clock.offset_ns) % divisor == tail - 30_000
    assert 0 <= clock.wall(7) - clock.now() < divisor
    assert clock.begun_ns == clock.wall(7) - clock.offset_ns
    begun, time[0] = clock.begun_ns, time[0] + 333_333
    clock.anchor(9, clock.now())
    assert clock.wall(9) == clock.now(), "where it is said when, it was then"
    clock.anchor(9)
    assert (clock.wall(9) - clock.offset_ns) % divisor == tail - 30_000
    assert clock.begun_ns == begun
    clock.set_rate(None, 11)
    assert clock.wall(11) == clock.now(), "nothing is waited for"
    clock.calibrate(1_000_000, samples=1)  # another run
    time[0] += 10**9
    clock.anchor(0)
    assert clock.begun_ns == time[0]


def test_the_system_tells_its_tick_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux":
        assert 500_000 <= tick_ns() <= 10_000_000
    monkeypatch.setattr(sys, "platform", "win32")
    assert tick_ns() == 0


@pytest.mark.parametrize("spin_ns", [0, 30_000])
def test_a_tail_that_was_not_tuned_is_kept(spin_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    clock = WallClock(spin_ns=spin_ns)
    clock._retune(-10_000)
    clock._retune(10_000)
    assert clock.spin_ns == clock.most_spin_ns == spin_ns


def test_spin_tail_covers_nearly_all_and_is_bounded() -> None:
    assert tail_for([80_000] * 99 + [9_000_000]) == 160_000  # the outlier is not chased
    assert tail_for([1_000] * 100) == MIN_SPIN_NS
    assert tail_for([4_000_000] * 100) == MAX_SPIN_NS
    assert tail_for([4_000_000] * 100, period_ns=1_000_000) == 250_000  # a quarter of the core


def test_wake_stays_set_until_cleared() -> None:
    wake = Wake()
    assert not wake.is_set()
    wake.set()
    wake.set()
    assert wake.is_set()
    assert wake.wait(0.0)
    assert wake.is_set()
    wake.clear()
    wake.clear()
    assert not wake.is_set()
    assert not wake.wait(0.0)


def test_many_threads_may_set_a_wake() -> None:
    wake = Wake()
    threads = [threading.Thread(target=wake.set) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert wake.wait(5.0)
    for thread in threads:
        thread.join()
    assert wake.is_set()


def test_wall_clock_is_woken_by_another_thread() -> None:
    clock, wake = WallClock(), Wake()
    clock.anchor(0)
    thread = threading.Thread(target=wake.set)
    thread.start()
    assert not clock.wait_until(60 * 10**9, wake)
    thread.join()
    assert clock.simulated(clock.now()) < 60 * 10**9


def test_fake_clock_jumps_wakes_late_and_remembers() -> None:
    clock = FakeClock(late=[70, 0])
    clock.anchor(0)
    clock.wait_until(1000)
    assert clock.now() - clock.wall(1000) == 70
    clock.advance(930)  # computing, exactly to the next deadline
    clock.wait_until(2000)  # already due: nothing to wait for, the script is not used
    assert clock.now() == clock.wall(2000)
    clock.wake_late(5)
    clock.wait_until(3000)
    clock.wait_until(4000)
    assert clock.now() == clock.wall(4000) + 5
    assert [w.ended - w.due for w in clock.waits] == [70, 0, 0, 5]
    assert clock.waits[1].asked == clock.waits[1].ended
    with pytest.raises(ValueError, match="cannot advance a clock by -1 ns"):
        clock.advance(-1)


def test_fake_clock_is_woken_by_what_happens_while_it_waits() -> None:
    clock, wake = FakeClock(), Wake()
    clock.anchor(0)
    clock.call_at(clock.wall(400), wake.set)
    assert not clock.wait_until(1000, wake)
    assert clock.simulated(clock.now()) == 400
    wake.clear()
    assert clock.wait_until(1000, wake)


def test_fake_clock_without_autojump_waits_to_be_advanced() -> None:
    clock = FakeClock(autojump=False)
    clock.anchor(0)
    thread = threading.Thread(target=clock.advance, args=(1000,))
    thread.start()
    assert clock.wait_until(1000)
    thread.join()
    assert clock.now() == clock.wall(1000)
    with pytest.raises(TimeoutError, match="call advance"):
        FakeClock(autojump=False, patience=0.0).wait_until(1)


def test_the_rate_of_a_fake_clock_can_change() -> None:
    clock = FakeClock(rate=0.5)
    clock.anchor(0)
    clock.wait_until(100)
    assert clock.now() == clock.wall(0) + 200
    clock.set_rate(4, 100)
    assert clock.rate == 4
    before = clock.now()
    clock.wait_until(500)
    assert clock.now() - before == 100


def test_virtual_clock() -> None:
    check_clock(VirtualClock)


def test_fake_clock() -> None:
    check_clock(FakeClock)


@pytest.mark.realtime
@pytest.mark.parametrize("spin_ns", [0, 200_000])
def test_wall_clock(spin_ns: int) -> None:
    check_clock(lambda: WallClock(spin_ns=spin_ns))


class Early(FakeClock):
    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        return super().wait_until(ns - 1, wake)


class Deaf(FakeClock):
    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:  # noqa: ARG002
        return super().wait_until(ns)


class Sprints(FakeClock):
    """Keeps its first anchor, as a loop does that pays its backlog after a pause."""

    anchored = False

    def anchor(self, ns: int, own: int | None = None) -> None:
        if not self.anchored:
            self.anchored = True
            super().anchor(ns, own)


class Stalls(FakeClock):
    def anchor(self, ns: int, own: int | None = None) -> None:
        super().anchor(ns - 1_000_000, own)


class AnyRate(FakeClock):
    def set_rate(self, rate: object, ns: int, own: int | None = None) -> None:  # noqa: ARG002
        self.anchor(ns, own)


class Drifts(FakeClock):
    def wall(self, ns: int) -> int:
        return super().wall(int(float(ns) * 1.000_000_01))


class Clears(FakeClock):
    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        reached = super().wait_until(ns, wake)
        if wake is not None:
            wake.clear()
        return reached


@pytest.mark.parametrize("broken", [Early, Deaf, Sprints, Stalls, AnyRate, Drifts, Clears])
def test_the_suite_catches(broken: type[FakeClock]) -> None:
    with pytest.raises(AssertionError):
        check_clock(broken)


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
def test_a_wait_ends_at_a_wake_or_at_its_time(wall: Wall, spin_ns: int) -> None:
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


def test_a_rate_is_exact_to_its_decimals() -> None:
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
