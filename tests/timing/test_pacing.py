"""Every policy and every cause, on a clock whose wakes and computing times are scripted.

The pacer to the nanosecond: what it begins with, long waits, and pauses that were asked for.

The pacer: what a policy is read from, and the warm-up of a wake.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
from pacing_parts import MS, LaterClock, fly, make

from rtsim.core.clock import Clock, Timeline, VirtualClock, Wake, WallClock
from rtsim.core.errors import OverrunError, ScenarioError
from rtsim.testing import FakeClock
from rtsim.timing.frames import NEXT, REST
from rtsim.timing.pacing import DEFAULT_TOLERANCE_NS, Pacer, tolerance_ns
from rtsim.timing.policy import Abort, CatchUp, Freeze, Policy, Slip, parse_policy


def test_a_loop_in_time_has_no_overruns() -> None:
    pacer, clock = make(Abort(), late=[3_000] * 10)
    assert fly(pacer, clock, [400_000] * 10) == []
    pacer.stop()
    assert pacer.overruns == {"compute": 0, "wake": 0}
    assert pacer.log.frames == 11
    assert pacer.log.lateness.count == 10
    assert pacer.log.lateness.min == pacer.log.lateness.max == 3_000
    assert pacer.log.compute.max == 400_000
    # the first frame began on time, the others 3 us late; 0.1 ms of tolerance
    assert pacer.log.margin.max == MS - 400_000 + 100_000
    assert pacer.log.margin.min == MS - 403_000 + 100_000


def test_catch_up_runs_late_frames_back_to_back_and_is_on_time_again() -> None:
    pacer, clock = make(CatchUp(5))
    found = fly(pacer, clock, [3_500_000, 100_000, 100_000, 100_000, 100_000, 100_000])
    assert [o.amount_ns for o in found] == [2_500_000, 1_600_000, 700_000]
    assert [o.consecutive for o in found] == [1, 2, 3]
    assert {(o.cause, o.action, o.allowed) for o in found} == {("compute", "catch_up", 5)}
    assert found[0].job == "plant"
    assert clock.now() == clock.wall(6 * MS)  # simulated and wall time are still tied
    assert pacer.slipped_ns == 0
    pacer.stop()
    assert pacer.log.margin.min == -2_500_000 + 100_000  # negative is an overrun
    assert pacer.log.frames - pacer.log.lateness.count == 4  # start, and three without a wait


def test_catch_up_ends_the_run_past_its_limit_with_the_numbers() -> None:
    pacer, clock = make(CatchUp(5))
    with pytest.raises(
        OverrunError, match=r"consecutive late frames: 6, allowed: 5; type .*catch_up:12"
    ) as e:
        fly(pacer, clock, [1_200_000] * 20)
    assert "computing took 1.200 ms too long, most of it in plant" in str(e.value)
    assert pacer.overrun is not None
    assert pacer.overrun.action == "abort"
    assert pacer.overruns["compute"] == 6
    pacer.stop()
    assert pacer.log.frames == 6


def test_a_frame_on_time_starts_the_count_again() -> None:
    pacer, clock = make(CatchUp(1))
    found = fly(pacer, clock, [1_500_000, 200_000] * 10)
    assert [o.consecutive for o in found] == [1] * 10


def test_a_loop_that_is_always_woken_late_but_keeps_up_is_not_ended() -> None:
    pacer, clock = make(CatchUp(5), late=[300_000] * 50)
    found = fly(pacer, clock, [100_000] * 50)
    assert {(o.cause, o.consecutive) for o in found} == {("wake", 1)}
    assert len(found) == 50


def test_a_late_wake_is_distinguished_from_slow_computing() -> None:
    pacer, clock = make(CatchUp(5), late=[0, 2_300_000])
    found = fly(pacer, clock, [100_000] * 8)
    assert [(o.tag_ns, o.cause) for o in found] == [
        (2 * MS, "wake"),
        (3 * MS, "wake"),  # handed on: with a wake in time it would have been in time
        (4 * MS, "wake"),
    ]
    assert [o.amount_ns for o in found] == [2_300_000, 1_400_000, 500_000]
    assert "the loop woke 2.300 ms late" in str(found[0])
    assert found[0].job == ""
    pacer.stop()
    assert pacer.log.lateness.max == 2_300_000


def test_computing_that_makes_more_of_the_lateness_is_its_cause() -> None:
    pacer, clock = make(CatchUp(5), late=[50_000])
    found = fly(pacer, clock, [100_000, 1_950_000, 900_000])
    assert [o.cause for o in found] == ["compute", "compute"]
    assert found[0].amount_ns == 1_000_000


def test_creeping_overload_is_an_overrun_once_it_exceeds_the_tolerance() -> None:
    pacer, clock = make(Abort(), late=[1_000])
    with pytest.raises(OverrunError, match="consecutive late frames: 1, allowed: 0") as error:
        fly(pacer, clock, [900_000] + [1_020_000] * 20)
    assert pacer.overrun is not None
    assert pacer.overrun.cause == "compute"
    assert pacer.overrun.amount_ns == 101_000 + 20_000 - 20_000  # 1 us of wake, 5 times 20 us
    assert "--overrun" in str(error.value)


def test_slip_takes_the_late_tag_as_due_now_and_does_not_sprint() -> None:
    pacer, clock = make(Slip(5))
    begun = []
    pacer.start(0)
    for k, spent in enumerate([3_500_000, 100_000, 100_000], 1):
        clock.advance(spent)
        pacer.wait(k * MS)
        begun.append(clock.now())
    assert [b - a for a, b in itertools.pairwise(begun)] == [MS, MS]
    assert pacer.slipped_ns == 2_500_000
    assert pacer.overruns == {"compute": 1, "wake": 0}


def test_slip_after_a_late_wake() -> None:
    pacer, clock = make(Slip(5), late=[700_000])
    found = fly(pacer, clock, [100_000] * 3)
    assert [(o.cause, o.action, o.amount_ns) for o in found] == [("wake", "slip", 700_000)]
    assert pacer.slipped_ns == 700_000
    pacer.stop()
    assert pacer.log.worst[0].late_ns == 700_000


def test_slipped_time_does_not_count_in_the_next_overrun() -> None:
    pacer, clock = make(Slip(5), late=[700_000])
    found = fly(pacer, clock, [100_000, 1_300_000])
    assert [(o.cause, o.amount_ns) for o in found] == [("wake", 700_000), ("compute", 300_000)]


def test_slip_has_a_limit_too() -> None:
    pacer, clock = make(Slip(3))
    with pytest.raises(
        OverrunError, match=r"consecutive late frames: 4, allowed: 3; type .*slip:8"
    ):
        fly(pacer, clock, [1_500_000] * 20)


def test_freeze_stops_simulated_time_before_the_late_tag_until_resumed() -> None:
    pacer, clock = make(Freeze(10.0))
    wake = Wake()
    pacer.start(0)
    clock.advance(1_500_000)
    assert not pacer.wait(MS, wake)
    assert pacer.frozen
    first = pacer.overrun
    assert first is not None
    assert (first.action, first.amount_ns) == ("freeze", 500_000)

    clock.call_at(clock.now() + 7_000 * MS, wake.set)  # an operator, seven seconds later
    assert (pacer.wait(MS, wake), pacer.frozen) == (False, True)
    assert pacer.overrun is not first  # it is recorded once
    wake.clear()
    pacer.resume()
    before = clock.now()
    assert pacer.wait(MS, wake)
    assert clock.now() == before  # due now
    assert pacer.wait(2 * MS, wake)
    assert clock.now() == before + MS  # no sprint
    assert pacer.overruns == {"compute": 1, "wake": 0}
    assert pacer.slipped_ns == 7_000 * MS + 500_000


def test_freeze_that_nobody_resumes_ends_the_run() -> None:
    pacer, clock = make(Freeze(10.0), late=[300_000])
    pacer.start(0)
    assert not pacer.wait(MS)
    frozen_at = clock.now()
    with pytest.raises(OverrunError, match=r"nobody resumed it within 10 s; type .*freeze:300"):
        pacer.wait(MS)
    assert clock.now() - frozen_at == 10_000 * MS
    pacer.stop()
    assert pacer.log.lateness.max == 300_000  # the late wake is counted, though no tag followed


@pytest.mark.parametrize(("late", "compute"), [([200_000], 0), ([], 1_200_000)])
def test_abort_ends_the_run_at_the_first_overrun(late: list[int], compute: int) -> None:
    pacer, clock = make(Abort(), late=late)
    with pytest.raises(OverrunError, match="consecutive late frames: 1, allowed: 0"):
        fly(pacer, clock, [compute])
    pacer.stop()
    assert sum(pacer.overruns.values()) == 1
    assert pacer.log.lateness.count == len(late)


def test_within_the_tolerance_nothing_is_an_overrun() -> None:
    clock = FakeClock()
    pacer = Pacer(clock, Abort(), frame_ns=5 * MS)  # tolerance 0.5 ms
    pacer.start(0)
    for ns in (5 * MS, 5 * MS + 1_000, 5 * MS + 2_000, 10 * MS):  # messages 1 us apart
        clock.advance(30_000)
        assert pacer.wait(ns)
    assert clock.now() == clock.wall(10 * MS)


def test_the_first_tag_is_waited_for_and_its_wake_is_measured() -> None:
    clock = LaterClock(1_900_000, late=[70_000])
    pacer = Pacer(clock, Abort(), frame_ns=MS)
    pacer.start(0)
    clock.advance(300_000)  # what precedes the first tag is not a part of its frame
    assert pacer.begin(0)
    assert clock.now() == clock.wall(0) + 70_000
    clock.advance(200_000)
    assert pacer.wait(MS)
    pacer.stop()
    assert (pacer.log.frames, pacer.log.lateness.count, pacer.log.lateness.max) == (2, 2, 70_000)
    assert pacer.log.compute.max == 200_000
    assert pacer.slipped_ns == 0


@pytest.mark.parametrize("clock", [FakeClock(), VirtualClock()])
def test_a_first_tag_that_is_due_begins_at_once(clock: Clock) -> None:
    pacer = Pacer(clock, Abort(), frame_ns=MS)
    pacer.start(0)
    before = clock.now()
    assert pacer.begin(0)
    assert clock.now() == before
    pacer.stop()
    assert (pacer.log.frames, pacer.log.lateness.count) == (1, 0)


def test_a_late_first_tag_is_an_overrun_like_any_other() -> None:
    pacer = Pacer(LaterClock(MS, late=[600_000]), Abort(), frame_ns=MS)
    pacer.start(0)
    with pytest.raises(OverrunError, match=r"overrun at 0\.0* s: the loop woke 0\.600 ms late"):
        pacer.begin(0)
    clock = LaterClock(MS, late=[600_000])
    pacer = Pacer(clock, Freeze(10.0), frame_ns=MS)
    pacer.start(0)
    assert not pacer.begin(0)
    assert pacer.frozen
    clock.advance(3 * MS)
    pacer.resume()
    assert pacer.begin(0)
    assert (clock.now(), pacer.slipped_ns) == (clock.wall(0), 3_600_000)
    assert pacer.wait(MS)
    pacer.stop()
    assert (pacer.log.frames, pacer.log.lateness.max) == (2, 600_000)


@pytest.mark.parametrize(
    ("rate", "period_ms", "tolerance_ns"),
    [(1, 10, MS), (100, 3000, 3 * MS), (0.01, 10, 100 * MS), (Fraction(1, 3), 10, 3 * MS)],
)
def test_the_tolerance_is_a_tenth_of_the_frame_on_the_wall_clock(
    rate: float | Fraction, period_ms: int, tolerance_ns: int
) -> None:
    for late, overruns in ((tolerance_ns, 0), (tolerance_ns + 1, 1)):
        pacer = Pacer(FakeClock(rate, late=[late]), CatchUp(), frame_ns=period_ms * MS)
        pacer.start(0)
        assert pacer.wait(period_ms * MS)
        assert pacer.tolerance_ns == tolerance_ns
        assert pacer.overruns == {"compute": 0, "wake": overruns}


def test_only_a_loop_without_a_period_has_the_default_tolerance() -> None:
    wall = Timeline(100, 0).wall
    assert tolerance_ns(0, wall) == DEFAULT_TOLERANCE_NS
    assert tolerance_ns(5, wall, 10) == 0, "this period takes less than 1 ns on the wall clock"
    assert tolerance_ns(10_000, wall, 10) == 10


def test_the_tolerance_follows_a_change_of_rate_also_during_a_pause() -> None:
    pacer = Pacer(FakeClock(), Abort(), frame_ns=10 * MS)
    pacer.start(0)
    found = [pacer.tolerance_ns]
    pacer.set_rate(20, 0)
    found.append(pacer.tolerance_ns)
    pacer.hold()
    pacer.set_rate(0.5, 0)
    pacer.end_hold(0)
    found.append(pacer.tolerance_ns)
    pacer.set_rate(None, 0)
    pacer.set_rate(4, 0)
    found.append(pacer.tolerance_ns)
    assert found == [MS, 50_000, 2 * MS, 250_000]
    given = Pacer(FakeClock(100), frame_ns=10 * MS, tolerance_ns=7)
    given.start(0)
    assert given.tolerance_ns == 7, "one that was given is wall-clock time already"


def test_tags_within_one_frame_count_as_one() -> None:
    pacer, clock = make(CatchUp(100))
    pacer.start(0)
    clock.advance(5 * MS)
    counts = []
    for ns in (MS, MS + 300_000, MS + 600_000, 2 * MS, 2 * MS + 500_000, 3 * MS):
        pacer.wait(ns)
        assert pacer.overrun is not None
        counts.append(pacer.overrun.consecutive)
    assert counts == [1, 1, 1, 2, 2, 3]


def test_an_event_input_ends_the_wait_and_waiting_is_not_computing() -> None:
    pacer, clock = make(Abort())
    wake = Wake()
    pacer.start(0)
    clock.advance(100_000)
    clock.call_at(clock.wall(600_000), wake.set)
    assert not pacer.wait(MS, wake)
    assert pacer.overrun is None
    wake.clear()
    clock.advance(50_000)  # it looks again
    assert pacer.wait(700_000, wake)
    clock.advance(1_000_000)
    wake.set()
    assert not pacer.wait(MS, wake)  # late, and an event input that came before: look first
    wake.clear()
    with pytest.raises(OverrunError):
        pacer.wait(MS, wake)
    pacer.stop()
    assert pacer.log.compute.count == 2
    assert pacer.log.compute.min == 150_000


def test_a_run_neither_sprints_nor_stalls_after_a_pause() -> None:
    pacer, clock = make(Abort())
    fly(pacer, clock, [100_000] * 3)
    clock.advance(60_000 * MS)  # somebody went for coffee
    pacer.start(3 * MS)
    before = clock.now()
    for k in range(4, 8):
        assert pacer.wait(k * MS)
        assert clock.now() == before + (k - 3) * MS
    assert sum(pacer.overruns.values()) == 0


def test_a_restore_to_an_earlier_time_and_another_rate() -> None:
    pacer, clock = make(Abort())
    fly(pacer, clock, [100_000] * 5)
    pacer.start(2 * MS)
    pacer.set_rate(0.5, 2 * MS)
    before = clock.now()
    assert pacer.wait(3 * MS)
    assert clock.now() == before + 2 * MS


def test_another_rate_before_the_first_tag_is_due_does_not_make_it_due_earlier() -> None:
    pacer, clock = make(Abort())
    pacer.start(0)
    clock.anchor(0, clock.now() + MS)  # it begins a little later, between two ticks
    due = clock.wall(0)
    pacer.set_rate(0.5, 0)
    assert clock.wall(0) == due
    assert pacer.wait(MS)
    assert clock.now() == due + 2 * MS
    assert pacer.slipped_ns == 0


def test_the_worst_frames_come_with_their_jobs() -> None:
    pacer, clock = make(CatchUp(), late=[0, 40_000])
    pacer.start(0)
    for k in range(1, 41):
        for name, ns in (("plant", 100_000), ("law", 20_000 * (k == 7)), ("plant", 5_000)):
            start = clock.now()
            clock.advance(ns)
            pacer.job(name, start, clock.now())
        pacer.ready(k * MS)
        clock.advance(10_000)  # towards the next tag
        pacer.wait(k * MS)
    pacer.stop()
    assert len(pacer.log.worst) == 10
    first, second = pacer.log.worst[:2]
    assert (first.tag_ns, first.late_ns, first.compute_ns) == (2 * MS, 40_000, 115_000)
    assert (second.tag_ns, second.compute_ns) == (6 * MS, 135_000)
    assert second.jobs == {"plant": 105_000, "law": 20_000, NEXT: 10_000}


def test_propagating_again_after_an_event_input_is_the_same_job() -> None:
    pacer, clock = make(Abort())
    wake = Wake()
    pacer.start(0)
    pacer.ready(0)
    clock.advance(100_000)
    clock.call_at(clock.wall(600_000), wake.set)
    assert not pacer.wait(MS, wake)
    wake.clear()
    clock.advance(50_000)
    assert pacer.wait(700_000, wake)
    pacer.stop()
    assert pacer.log.worst[0].jobs == {NEXT: 150_000}


def test_stretched_time_is_not_an_overrun() -> None:
    pacer, clock = make(Abort())
    pacer.start(0)
    clock.advance(50 * MS)
    pacer.anchor(0)
    assert pacer.wait(MS)
    assert sum(pacer.overruns.values()) == 0


def test_an_overrun_outside_the_named_jobs_says_so() -> None:
    pacer, clock = make(CatchUp())
    pacer.start(0)
    clock.advance(10_000)
    pacer.lap("plant")
    clock.advance(2 * MS)
    pacer.wait(MS)
    assert pacer.overrun is not None
    assert pacer.overrun.job == REST


def test_a_virtual_clock_is_never_late_and_computing_is_still_measured() -> None:
    pacer = Pacer(VirtualClock(), Abort(), frame_ns=MS)
    pacer.start(0)
    for k in range(1, 10_001):
        assert pacer.wait(k * MS)
    pacer.stop()
    assert pacer.log.frames == pacer.log.compute.count == 10_001
    assert pacer.log.lateness.count == pacer.log.margin.count == 0
    assert pacer.log.compute.min is not None
    assert pacer.log.compute.min >= 0


def test_memory_does_not_grow_with_the_run() -> None:
    pacer, clock = make(CatchUp())
    pacer.start(0)
    for k in range(1, 20_001):
        clock.advance(1000)
        pacer.wait(k * MS)
        clock.waits.clear()
        assert pacer.log.buffered < 4096
    pacer.stop()
    assert pacer.log.compute.count == 20_001
    assert len(pacer.log.worst) == 10


def test_a_pacer_begins_with_nothing() -> None:
    pacer = Pacer(FakeClock())
    assert (pacer.holds, pacer.held_ns, pacer.margin_ns, pacer.slipped_ns) == (0, 0, 0, 0)
    assert (pacer.overrun, pacer.frozen, pacer.injected) == (None, False, {})
    assert pacer.tolerance_ns == DEFAULT_TOLERANCE_NS == MS
    assert Pacer(FakeClock(), frame_ns=5 * MS).tolerance_ns == MS // 2


def test_a_tolerance_may_be_nothing_and_not_less() -> None:
    for given in (0, 5):
        assert Pacer(FakeClock(), frame_ns=MS, tolerance_ns=given).tolerance_ns == given
    assert Pacer(FakeClock(), keep_worst=0).log.worst == []
    for name in ("frame_ns", "tolerance_ns", "keep_worst"):
        with pytest.raises(ScenarioError, match=f"{name}=-1.*a value is negative"):
            Pacer(FakeClock(), **{name: -1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wait_ns", "heard"),
    [
        (150 * MS, []),
        (150 * MS + 1, [50]),
        (200 * MS, [50]),
        (201 * MS, [50, 100]),
        (330 * MS, [50, 100, 150, 200]),
    ],
)
def test_a_long_wait_listens_each_50_ms_and_not_near_its_end(
    wait_ns: int, heard: list[int]
) -> None:
    clock = FakeClock()
    pacer = Pacer(clock)
    asked: list[int] = []

    def commands(ns: int) -> bool:
        assert ns == wait_ns
        asked.append(clock.now() - clock.wall(0))
        return False

    pacer.start(0)
    assert pacer.wait(wait_ns, commands=commands)
    assert clock.now() == clock.wall(wait_ns)
    assert [round(ns / MS) for ns in asked] == heard
    assert all(abs(ns - 50 * MS * (k + 1)) <= k + 1 for k, ns in enumerate(asked))


def test_a_long_wait_is_waited_out_where_nobody_listens_and_cut_where_somebody_hears() -> None:
    clock = FakeClock()
    pacer = Pacer(clock)
    pacer.start(0)
    assert pacer.wait(1000 * MS)
    assert not pacer.wait(2000 * MS, commands=lambda _: True)
    assert clock.simulated(clock.now()) == pytest.approx(1050 * MS, abs=2)
    assert pacer.wait(2000 * MS)
    assert clock.now() == clock.wall(2000 * MS)


def test_a_pause_that_was_asked_for_is_no_time_of_the_frame() -> None:
    clock = FakeClock()
    pacer = Pacer(clock, frame_ns=MS)
    pacer.start(0)
    clock.advance(300_000)
    pacer.hold()
    clock.advance(5_000 * MS)
    assert pacer.end_hold(0) == 5_000 * MS
    assert (pacer.holds, pacer.held_ns, pacer.slipped_ns) == (1, 5_000 * MS, 0)
    assert clock.now() - clock.wall(0) == 300_000, "it was due as long ago as it was then"
    assert pacer.wait(MS)
    assert clock.now() == clock.wall(MS)
    pacer.hold(MS)
    clock.advance(7)
    assert pacer.end_hold(MS) == 7
    assert (pacer.holds, pacer.held_ns) == (2, 5_000 * MS + 7)
    assert pacer.overruns == {"compute": 0, "wake": 0}


def test_of_lateness_before_a_pause_no_more_than_a_frame_is_handed_on() -> None:
    clock = FakeClock()
    pacer = Pacer(clock, frame_ns=MS)
    pacer.start(0)
    clock.advance(3 * MS)
    pacer.hold()
    pacer.end_hold(0)
    assert clock.now() - clock.wall(0) == MS
    assert pacer.slipped_ns == 2 * MS


def stands_in_line(pacer: Pacer) -> bool:
    return pacer.line is not None


def test_only_the_walls_clock_has_a_thread_that_stands_in_line() -> None:
    pacer, fake = Pacer(WallClock()), Pacer(FakeClock())
    assert not stands_in_line(pacer)
    pacer.start(0)
    fake.start(0)
    assert stands_in_line(pacer)
    assert not stands_in_line(fake)
    pacer.stop()
    assert not stands_in_line(pacer)


ODD = ("freeze:0", "freeze:nan", "freeze:inf", "abort:1")


@pytest.mark.parametrize("policy", [CatchUp(), CatchUp(5), Slip(7), Freeze(), Freeze(2.5), Abort()])
def test_policies_are_read_from_their_own_text(policy: Policy) -> None:
    assert parse_policy(str(policy)) == policy
    assert parse_policy(policy) is policy


def test_policies_have_finite_defaults() -> None:
    assert parse_policy("catch_up") == CatchUp(100)
    assert parse_policy("slip") == Slip(1000)
    assert parse_policy(" freeze ") == Freeze(30.0)


@pytest.mark.parametrize(
    "text",
    ["", "catchup", "catch_up:x", "catch_up:-1", "slip:inf", "slip:99999999999", *ODD],
)
def test_an_unreadable_policy_is_refused_with_the_forms_to_type(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"catch_up:100|slip:100|freeze:30"):
        parse_policy(text)


def test_a_pacer_refuses_negative_numbers() -> None:
    with pytest.raises(ScenarioError, match="give values >= 0"):
        Pacer(FakeClock(), frame_ns=-1)


def test_the_warm_up_of_a_wake_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    time = [0]

    def sleep(seconds: float) -> None:
        time[0] += round(seconds * 1e9)

    def read() -> int:
        time[0] += 100
        return time[0]

    monkeypatch.setattr("rtsim.core.clock.stopwatch", read)
    monkeypatch.setattr("time.sleep", sleep)
    results = []
    for warmed_up in (True, False):
        clock = WallClock(spin_ns=100_000)
        pacer = Pacer(clock, Abort(), frame_ns=MS)
        assert clock.warm_up is not None
        warm_ups: list[int] = []
        warm_up = clock.warm_up

        def counted(warm_up: Callable[[int], object], warm_ups: list[int], left_ns: int) -> None:
            warm_up(left_ns)
            warm_ups.append(time[0])
            time[0] -= 100  # the one reading that it takes

        clock.warm_up = partial(counted, warm_up, warm_ups) if warmed_up else None
        pacer.start(0)
        for k in range(1, 50):
            time[0] += 1000 * k
            assert pacer.wait(k * MS)
        pacer.stop()
        assert len(warm_ups) == 49 * warmed_up
        results.append((pacer.log.compute.summary(), pacer.log.margin.summary(), pacer.log.worst))
        assert pacer.log.lateness.count == 49
    assert results[0][0] == results[1][0]
    assert results[0][2][0].compute_ns == results[1][2][0].compute_ns


@pytest.mark.parametrize(("takes_ns", "called"), [(10_000, 3), (35_000, 2), (70_000, 1)])
def test_components_warm_up_while_enough_time_is_left(
    takes_ns: int, called: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 us before the deadline, a warm-up begins only if more than 40 us are left."""
    time, calls = [0], [0]

    def read() -> int:
        time[0] += 100
        return time[0]

    def warm_up() -> None:
        calls[0] += 1
        time[0] += takes_ns

    monkeypatch.setattr("rtsim.core.clock.stopwatch", read)
    monkeypatch.setattr(
        "time.sleep", lambda seconds: time.append(time.pop() + round(seconds * 1e9))
    )
    pacer = Pacer(WallClock(spin_ns=100_000), Abort(), frame_ns=MS)
    pacer.warm_ups += [warm_up] * 3
    pacer.start(0)
    assert pacer.wait(MS)
    assert calls == [called]
    assert pacer.frame.woke_late < 1000, "the deadline was kept"
    pacer.stop()


def test_an_interrupt_after_the_warm_up_counts_no_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    time = [0]

    def read() -> int:
        time[0] += 100
        return time[0]

    def interrupted(warm_up: Callable[[int], object], left_ns: int) -> None:
        warm_up(left_ns)
        raise KeyboardInterrupt

    monkeypatch.setattr("rtsim.core.clock.stopwatch", read)
    monkeypatch.setattr(
        "time.sleep", lambda seconds: time.append(time.pop() + round(seconds * 1e9))
    )
    clock = WallClock(spin_ns=100_000)
    pacer = Pacer(clock, Abort(), frame_ns=MS)
    assert clock.warm_up is not None
    clock.warm_up = partial(interrupted, clock.warm_up)
    pacer.start(0)
    with pytest.raises(KeyboardInterrupt):
        pacer.wait(MS)
    pacer.stop()
    assert pacer.log.lateness.count == 0


def test_a_wake_right_after_the_warm_up_finds_the_frame_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = [0]

    class Sleepy(Wake):
        def wait(self, seconds: float) -> bool:
            time[0] += round(seconds * 1e9)
            return self.is_set()

    def read() -> int:
        time[0] += 100
        return time[0]

    monkeypatch.setattr("rtsim.core.clock.stopwatch", read)
    clock, wake = WallClock(spin_ns=100_000), Sleepy()
    pacer = Pacer(clock, Abort(), frame_ns=MS)
    warm_up = clock.warm_up
    assert warm_up is not None

    def warm_up_and_set(left_ns: int) -> None:
        warm_up(left_ns)
        wake.set()

    pacer.start(0)
    assert pacer.wait(MS, wake)
    clock.warm_up = warm_up_and_set
    assert not pacer.wait(2 * MS, wake)
    wake.clear()
    clock.warm_up = None
    assert pacer.wait(2 * MS, wake)
    pacer.stop()
    assert pacer.log.frames == 3
    assert pacer.log.lateness.count == 2
    assert len(pacer.log.worst) == 3
    assert all(0 <= frame.late_ns < 1000 for frame in pacer.log.worst)
