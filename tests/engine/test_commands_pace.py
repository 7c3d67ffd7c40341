"""Pauses and rates: wall time against simulated time is right to the ns, nothing is an overrun."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from command_parts import Flown, Told
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rtsim.core.tag import NS_PER_S
from rtsim.models import unstable
from rtsim.record.comparison import compare
from rtsim.runs.simulation import Progress
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FAKE_START
from rtsim.timing.policy import CatchUp, Policy, Slip

MS = 1_000_000
COMPUTING_NS = 300_000
"""Of each frame: less than one at the fastest rate."""


def scenario(until: float) -> Scenario:
    """Steps of 10 ms, a controller of 100 ms whose commands are 30 ms under way."""
    return unstable.scenario(latency=0.03, until=until)


class Busy(Flown):
    """Its frames take time."""

    def _tell(self, progress: Progress) -> None:
        self.clock.spend(COMPUTING_NS)
        super()._tell(progress)


def rate(value: float | str) -> Told:
    return {"kind": "rate", "rate": value}


def passed_ns(flown: Flown) -> int:
    """Wall time from the start to the last tag."""
    first = flown.clock.waits[0]
    return flown.clock.waits[-1].ended - (first.due - first.ns)


def check_frames(flown: Flown) -> None:
    """None early, none late, none an overrun; own time never goes back."""
    waits = flown.clock.waits
    assert all(wait.ended == wait.due for wait in waits)
    assert all(a.ended <= b.asked for a, b in itertools.pairwise(waits))
    assert flown.certificate.overruns == {"compute": 0, "wake": 0}
    assert flown.certificate.slipped_ns == 0


@pytest.mark.rule("standing-is-no-lateness")
def test_a_pause_of_ten_seconds_slow_motion_and_ten_times_as_fast() -> None:
    at: dict[int, list[Told]] = {
        1000 * MS: [rate(0.1)], 2000 * MS: [{"kind": "pause"}], 3000 * MS: [rate(10)],
        13_000 * MS: [rate(1)],
    }  # fmt: skip
    flown = Busy(scenario(15), at, lasts_ns=10 * NS_PER_S)
    slow, pause, _, fast, back = (ns for ns, _ in flown.events)
    assert [kind for _, kind in flown.events] == ["rate", "pause", "resume", "rate", "rate"]
    held = flown.certificate.held_ns
    assert held == 10 * NS_PER_S
    expected = slow + 10 * (pause - slow) + held + 10 * (fast - pause)
    expected += (back - fast) // 10 + 15 * NS_PER_S - back
    assert passed_ns(flown) == expected
    check_frames(flown)
    assert compare(flown.recording, Flown(scenario(15), {}).recording).ok


RATES = st.sampled_from([0.1, 0.25, 0.3, 1.0, 1.7, 3, 10.0])
BUSY = st.lists(st.sampled_from([0, 200_000, 900_000, 3 * MS, 12_345_678]), min_size=1, max_size=7)
"""ns of computing, frame by frame and over again; of a frame of 10 ms."""
MANY = 10**6


class Laden(Flown):
    """Its frames take what ``busy`` says, over again, and it is woken as late as ``woken`` says."""

    def __init__(self, *given: Any, busy: list[int], woken: list[int], **how: Any) -> None:
        self._busy, self._woken, self._tags = busy, woken, 0
        super().__init__(*given, **how)

    def _tell(self, progress: Progress) -> None:
        self.clock.spend(self._busy[self._tags % len(self._busy)])
        self.clock.wake_late(self._woken[self._tags % len(self._woken)])
        self._tags += 1
        super()._tell(progress)


def planned(flown: Flown, until_ns: int) -> Fraction:
    """Wall ns from the start to ``until_ns``, from what was recorded: rates, pauses, slips."""
    wall, now, ns = Fraction(0), Fraction(1), 0
    for tag, told in flown.recording_of("rate"):
        wall += (tag - ns) / now
        now, ns = Fraction(repr(float(str(told["rate"])))), tag
    certificate = flown.recording.footer["certificate"]  # type: ignore[index]
    held = int(certificate["held_ns"]) + int(certificate["slipped_ns"])
    return wall + (until_ns - ns) / now + held


@settings(max_examples=settings().max_examples // 16, deadline=None, phases=[Phase.generate])
@given(
    changes=st.dictionaries(st.integers(1, 98), RATES, max_size=12),
    pauses=st.sets(st.integers(1, 98), max_size=4),
    standing=st.lists(RATES, max_size=4),
    busy=BUSY, woken=st.lists(st.sampled_from([0, 70_000, 4 * MS]), min_size=1, max_size=5),
    policy=st.sampled_from([CatchUp(MANY), Slip(MANY)]),
)  # fmt: skip
def test_any_rates_and_pauses_add_up(
    changes: dict[int, float], pauses: set[int], standing: list[float],
    busy: list[int], woken: list[int], policy: Policy,
) -> None:  # fmt: skip
    """To the ns, however late the tag was at which one acts, and also where it acts in a pause."""
    at: dict[int, list[Told]] = {}
    for step, value in changes.items():
        at.setdefault(step * 10 * MS, []).append(rate(value))
    for step in pauses:
        at.setdefault(step * 10 * MS, []).append({"kind": "pause"})
    told = [rate(value) for value in standing]
    flown = Laden(
        scenario(1), at, told, lasts_ns=3 * NS_PER_S, policy=policy, busy=busy, woken=woken
    )
    certificate = flown.certificate
    due = flown.clock.wall(NS_PER_S) - FAKE_START
    assert 0 <= due - planned(flown, NS_PER_S) <= 1 + len(flown.events), "each rounds up"
    assert certificate.held_ns >= 3 * NS_PER_S * certificate.holds
    assert bool(certificate.holds) == bool(pauses)
    waits = flown.clock.waits
    assert all(wait.ended >= wait.due for wait in waits), "none is early"
    assert all(a.ended <= b.asked for a, b in itertools.pairwise(waits))


def test_a_run_that_waited_until_it_was_told_max_has_a_certificate_to_show() -> None:
    flown = Flown(scenario(1), {500 * MS: [rate("max")]})
    assert (flown.certificate.rate, flown.certificate.paced) == ("max", True)
    assert flown.certificate.lateness.count == 51


def test_what_is_more_than_a_frame_late_has_slipped_when_the_rate_changes() -> None:
    """25 ms late, told 10 times as fast: 1 ms of it is handed on, so that nothing sprints."""
    flown = Laden(
        scenario(1), {500 * MS: [rate(10)]}, policy=CatchUp(MANY),
        busy=[0] * 49 + [35 * MS] + [0] * 60, woken=[0],
    )  # fmt: skip
    assert flown.events == [(510 * MS, "rate")]
    assert flown.certificate.slipped_ns == 24 * MS
    assert [e.tag.ns // MS for e in flown.recording.events if e.kind == "Overrun"] == [510]
    assert flown.clock.now() - FAKE_START == 510 * MS + 49 * MS + 24 * MS


def test_a_rate_told_in_a_pause_takes_nothing_from_the_frame_before() -> None:
    """3 ms of computing at rate 10 are 30 ms of simulated time, and at rate 0.1 would be 300 ms."""
    at: dict[int, list[Told]] = {200 * MS: [rate(10)], 500 * MS: [{"kind": "pause"}]}
    flown = Laden(scenario(1), at, [rate(0.1)], lasts_ns=MS, busy=[900_000], woken=[0])
    assert flown.certificate.overruns == {"compute": 0, "wake": 0}
    assert flown.certificate.slipped_ns == 0
    due = {wait.ns // MS: wait.due for wait in flown.clock.waits}
    assert due[520] - due[510] == 2 * MS + 100 * MS
