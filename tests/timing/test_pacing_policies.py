"""The pacer: what a policy is read from, and the warm-up of a wake."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from pacing_parts import MS

from rtsim.core.clock import Wake, WallClock
from rtsim.core.errors import ScenarioError
from rtsim.testing import FakeClock
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Abort, CatchUp, Freeze, Policy, Slip, parse_policy

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
def test_a_policy_that_cannot_be_read_says_what_to_type(text: str) -> None:
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
