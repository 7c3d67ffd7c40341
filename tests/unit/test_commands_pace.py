"""Pauses and rates: wall time against simulated time is right to the ns, nothing is an overrun."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest
from command_parts import Flown, Told
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rtsim.clock import Wake, WallClock
from rtsim.control.commands import read_command
from rtsim.control.desk import Inbox
from rtsim.models import unstable
from rtsim.record.comparison import compare
from rtsim.record.tape import MemoryRecorder
from rtsim.scenario import Scenario
from rtsim.simulation import Pace, Progress, simulate
from rtsim.tag import NS_PER_S
from rtsim.timing.policy import parse_policy

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


@settings(max_examples=25, deadline=None, phases=[Phase.generate])
@given(
    changes=st.dictionaries(st.integers(1, 98), RATES, max_size=12),
    pauses=st.sets(st.integers(1, 98), max_size=4),
)
def test_any_rates_and_pauses_add_up(changes: dict[int, float], pauses: set[int]) -> None:
    at: dict[int, list[Told]] = {}
    for step, value in changes.items():
        at.setdefault(step * 10 * MS, []).append(rate(value))
    for step in pauses:
        at.setdefault(step * 10 * MS, []).append({"kind": "pause"})
    flown = Flown(scenario(1), at, lasts_ns=3 * NS_PER_S)
    expected, now, ns = Fraction(flown.certificate.held_ns), Fraction(1), 0
    for tag, told in flown.recording_of("rate"):
        expected += (tag - ns) / now
        now, ns = Fraction(repr(float(str(told["rate"])))), tag
    expected += (NS_PER_S - ns) / now
    assert flown.certificate.held_ns == 3 * NS_PER_S * flown.certificate.holds
    assert bool(flown.certificate.holds) == bool(pauses)
    assert 0 <= passed_ns(flown) - expected <= 1 + len(at), "each rounds up by less than a ns"
    check_frames(flown)


class Pausing(Wake):
    """After so many real seconds of standing somebody says that it goes on."""

    def __init__(self, seconds: float, inbox: Inbox) -> None:
        super().__init__()
        self._seconds, self._inbox = seconds, inbox

    def wait(self, seconds: float) -> bool:  # noqa: ARG002
        super().wait(self._seconds)
        self._inbox.give(read_command({"kind": "resume"}))
        return True


@pytest.mark.realtime
def test_on_a_real_clock_time_passes_in_these_ratios() -> None:
    told: dict[int, Iterable[dict[str, Any]]] = {
        200 * MS: [{"kind": "rate", "rate": 0.5}], 400 * MS: [{"kind": "pause"}],
        500 * MS: [{"kind": "rate", "rate": 4.0}], 1500 * MS: [{"kind": "rate", "rate": 1.0}],
    }  # fmt: skip
    inbox = Inbox()
    inbox.wake = Pausing(0.4, inbox)
    stamps: list[tuple[int, int]] = []
    clock = WallClock(1.0)

    def observe(progress: Progress) -> None:
        stamps.append((progress.ns, clock.now()))
        for ns in [n for n in told if n <= progress.ns]:
            for data in told.pop(ns):
                inbox.give(read_command(data))

    recorder = MemoryRecorder()
    outcome = simulate(
        scenario(2), pace=Pace(1.0, parse_policy("slip:1000000")), clock=clock, inbox=inbox,
        observe=observe, recorder=recorder,
    )  # fmt: skip
    certificate = outcome.certificate
    changes = [e for e in recorder.recording().events if e.kind == "Command"]
    slow, pause, _, fast, back = (e.tag.ns for e in changes)
    expected = slow + 2 * (fast - slow) + (back - fast) / 4 + 2 * NS_PER_S - back
    wall = stamps[-1][1] - stamps[0][1] - certificate.held_ns
    assert (certificate.holds, slow < pause < fast) == (1, True)
    assert certificate.held_ns >= 0.4 * NS_PER_S * 0.99
    assert wall >= expected - stamps[0][0], "nothing is early"
    assert wall - certificate.slipped_ns <= 1.3 * expected + 100 * MS
