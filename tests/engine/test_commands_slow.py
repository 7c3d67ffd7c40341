"""A wait on the clock that takes long, in slow motion or between far tags, is no deaf one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from command_parts import Flown, Told
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import SLOWEST, Inbox
from rtsim.models import unstable
from rtsim.record.comparison import compare, compare_exact
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import fed_commands, rerun
from rtsim.runs.simulation import FedInputs, Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock

MS = 1_000_000
PIECE_NS = 50 * MS
SLOW: Told = {"kind": "rate", "rate": SLOWEST}
FAST: Told = {"kind": "rate", "rate": 1.0}
SET: Told = {"kind": "set", "target": "plant.stiffness", "value": 2.5}
TAG_NS = 300 * MS
"""The tag behind which something is told; the next one is a second of the wall away."""


def scenario() -> Scenario:
    """Steps of 10 ms for 0.5 s, a controller of 100 ms whose commands are 30 ms under way."""
    return unstable.scenario(latency=0.03, until=0.5)


class Counting(Inbox):
    """Counts what the run tells of itself, by tag."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, bool]] = []

    def after(self, ns: int, standing: bool) -> None:
        self.told.append((ns, standing))


class Slow(Flown):
    """Slow from 290 ms on; then told ``between``: (ms of the wall after the tag, what)."""

    make_inbox = Counting

    def __init__(
        self, *between: tuple[int, Told], at: Mapping[int, Any] | None = None, **how: Any
    ) -> None:
        self.between, self.began = list(between), 0
        super().__init__(scenario(), at or {TAG_NS - 20 * MS: [SLOW]}, **how)
        self.heard = {
            command.kind: ns - self.began
            for (command, _, _), ns in zip(self.answers, self.answered_ns, strict=True)
        }
        """By kind, when each was answered, ns of the wall after the tag."""

    def _tell(self, progress: Progress) -> None:
        super()._tell(progress)
        if progress.ns >= TAG_NS and self.between:
            self.began = self.clock.now()
            for ms, told in self.between:
                self.clock.call_at(self.began + ms * MS, partial(self.give, told))
            self.between.clear()

    @property
    def wall_ns(self) -> int:
        """From the start to the last tag."""
        waits = self.clock.waits
        return waits[-1].ended - waits[0].due + waits[0].ns


def values(flown: Flown, kind: str) -> dict[str, Any]:
    (event,) = [e for e in flown.recording.events if (e.kind, e.source) == ("Command", kind)][-1:]
    return dict(event.values)


@pytest.mark.rule("slow-is-not-deaf")
def test_a_rate_acts_in_the_midst_of_a_wait_and_the_wall_adds_up() -> None:
    flown = Slow((400, FAST))
    assert flown.heard["rate"] <= 400 * MS + PIECE_NS
    slow = flown.recording_of("rate")[0][0]
    at = int(values(flown, "rate")["between"])
    assert TAG_NS < at < TAG_NS + 10 * MS
    assert flown.events[-1] == (TAG_NS, "rate"), "recorded with the tag behind which it acted"
    expected = slow + 100 * (at - slow) + 500 * MS - at
    assert abs(flown.wall_ns - expected) <= 100, "a ns of simulated time is 100 of the wall"
    assert sum(flown.certificate.overruns.values()) == 0
    assert compare(flown.recording, Flown(scenario(), {}).recording).ok


def test_max_ends_a_long_wait() -> None:
    flown = Slow((400, {"kind": "rate", "rate": "max"}))
    assert flown.clock.now() - flown.began <= 400 * MS + PIECE_NS
    assert flown.recording.end_ns == 500 * MS


def test_a_pause_in_the_midst_of_a_wait_goes_on_where_it_stood() -> None:
    flown = Slow((400, {"kind": "pause"}), lasts_ns=7 * NS_PER_S)
    slow = flown.recording_of("rate")[0][0]
    assert flown.heard["pause"] <= 400 * MS + PIECE_NS
    assert (flown.certificate.holds, flown.certificate.held_ns) == (1, 7 * NS_PER_S)
    expected = slow + 100 * (500 * MS - slow) + 7 * NS_PER_S
    assert abs(flown.wall_ns - expected) <= 100
    assert sum(flown.certificate.overruns.values()) == 0
    assert compare(flown.recording, Flown(scenario(), {}).recording).ok


def test_quit_waits_for_no_tag() -> None:
    flown = Slow((400, {"kind": "quit"}))
    assert (flown.reason, flown.recording.end_ns) == ("quit", TAG_NS)
    assert flown.clock.now() - flown.began <= 400 * MS + PIECE_NS
    assert compare_exact(flown.recording, rerun(flown.recording, scenario())) is None


def test_what_acts_at_a_tag_is_answered_at_once_with_that_tag() -> None:
    wrong = {**SET, "value": [1.0, 2.0]}
    flown = Slow((300, SET), (400, {"kind": "mark", "text": "seen"}), (500, wrong))
    assert all(heard <= 500 * MS + PIECE_NS for heard in flown.heard.values())
    next_ns = TAG_NS + 10 * MS
    assert [(w[:25], ns) for _, w, ns in flown.answers[1:]] == [
        ("", next_ns), ("", next_ns), ("signal stiffness has 1 el", next_ns)]  # fmt: skip
    assert flown.events[-2:] == [(next_ns, "set"), (next_ns, "mark")]
    assert not compare(flown.recording, Flown(scenario(), {}).recording).ok
    assert compare(flown.recording, rerun(flown.recording, scenario())).ok


def test_a_single_step_from_the_midst_of_a_wait_stands_at_the_next_tag() -> None:
    flown = Slow((400, {"kind": "step"}))
    assert flown.events[-2:] == [(TAG_NS, "step"), (TAG_NS + 10 * MS, "resume")]


def test_nobody_asks_and_the_run_tells_of_itself_all_the_same() -> None:
    flown = Slow()
    assert isinstance(flown.inbox, Counting)
    told = [standing for ns, standing in flown.inbox.told if ns == TAG_NS]
    assert 15 <= len(told) <= 21, "each 50 ms of a second"
    assert not any(told)
    assert (flown.certificate.margin.max or 0) > 0.9 * NS_PER_S, "what the frame had in hand, whole"


def test_a_replay_that_waits_long_hears_nothing_before_its_tag() -> None:
    told = Flown(scenario(), {TAG_NS: [SET]})
    recorder = MemoryRecorder()
    fed = FedInputs(commands=fed_commands(told.recording))
    simulate(scenario(), fed=fed, clock=FakeClock(0.02), recorder=recorder)
    assert compare(told.recording, recorder.recording()).ok


KINDS = st.one_of(
    st.builds(lambda r: {"kind": "rate", "rate": r}, st.sampled_from([0.01, 0.02, 0.05, 1.0])),
    st.sampled_from([
        {"kind": "pause"}, {"kind": "resume"}, {"kind": "step"}, {"kind": "step", "tags": 2},
        {"kind": "step", "duration": 0.013}, {"kind": "step", "task": "controller"}, SET,
        {"kind": "inject", "topic": "controller", "value": 0.3}, {"kind": "mark", "text": "x"},
    ]),
)  # fmt: skip


@settings(max_examples=settings().max_examples // 16, deadline=None, phases=[Phase.generate])
@given(between=st.lists(st.tuples(st.integers(0, 6000), KINDS), max_size=12))
def test_anything_in_the_midst_of_waits_adds_up_and_replays(
    between: list[tuple[int, Told]],
) -> None:
    flown = Slow(*between, lasts_ns=3 * NS_PER_S)
    assert flown.error is None
    expected, rate, since = float(flown.certificate.held_ns), 1.0, 0
    for event in flown.recording.events:
        if (event.kind, event.source) == ("Command", "rate"):
            now = int(event.values.get("between", event.tag.ns))
            expected += (now - since) / rate
            rate, since = json.loads(event.text)["rate"], now
    expected += (500 * MS - since) / rate
    assert abs(flown.wall_ns - expected) <= 100 * (len(between) + 2)
    assert sum(flown.certificate.overruns.values()) == 0
    assert compare(flown.recording, rerun(flown.recording, scenario())).ok
