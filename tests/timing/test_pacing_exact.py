"""The pacer to the nanosecond: what it begins with, long waits, and pauses that were asked for."""

from __future__ import annotations

import pytest

from rtsim.core.clock import WallClock
from rtsim.core.errors import ScenarioError
from rtsim.testing import FakeClock
from rtsim.timing.pacing import DEFAULT_TOLERANCE_NS, Pacer

MS = 1_000_000


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
def test_in_a_long_wait_it_listens_each_50_ms_and_not_near_its_end(
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
