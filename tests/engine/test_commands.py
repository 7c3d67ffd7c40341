"""Commands: what is told to a run acts at a tag, is recorded, and acts again in a replay.

A wait on the clock that takes long, in slow motion or between far tags, is no deaf one.

Restore: a run that goes back to a checkpoint ends there whole, and another goes on.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_parts import Flown, Told
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import CheckpointHistory, Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import (
    KINDS,
    MOST_WAITING,
    NEXT_TAG,
    SLOWEST,
    CommandError,
    Inbox,
    from_json,
    read_command,
)
from rtsim.models import unstable
from rtsim.record.comparison import compare, compare_exact
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import fed_commands, rerun
from rtsim.runs.simulation import FedInputs, Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock

MS = 1_000_000


def scenario() -> Scenario:
    """Steps of 10 ms for 1 s, a controller of 100 ms whose commands are 30 ms under way."""
    return unstable.scenario(latency=0.03, until=1)


def same(a: Recording, b: Recording) -> bool:
    return compare(a, b).ok


@pytest.mark.rule("told-at-a-tag")
def test_a_parameter_set_while_it_runs_acts_at_the_next_tag_and_in_the_replay() -> None:
    told = Flown(scenario(), {200 * MS: [{"kind": "set", "target": TARGET, "value": VALUE}]})
    ((command, wrong, ns),) = told.answers
    assert (command.kind, wrong) == ("set", "")
    assert ns > 200 * MS
    assert (ns, "set") in told.events
    plain = Flown(scenario(), {})
    assert not same(plain.recording, told.recording)
    assert same(rerun(told.recording, scenario()), told.recording)


def test_a_value_with_its_declared_unit_is_taken_and_the_unit_recorded() -> None:
    told = {"kind": "set", "target": TARGET, "value": VALUE, "unit": UNIT}
    flown = Flown(scenario(), {200 * MS: [told]})
    assert [wrong for _, wrong, _ in flown.answers] == [""]
    assert [told for _, told in flown.recording_of("set")] == [told]
    bare = Flown(scenario(), {200 * MS: [{k: v for k, v in told.items() if k != "unit"}]})
    assert same(flown.recording, bare.recording)
    assert same(rerun(flown.recording, scenario()), flown.recording)


def test_the_unit_of_what_is_set_while_time_stands_is_checked_at_once() -> None:
    told = {"kind": "set", "target": TARGET, "value": VALUE, "unit": "kg"}
    flown = Flown(scenario(), {300 * MS: [{"kind": "pause"}]}, [told])
    assert "given in kg" in next(w for c, w, _ in flown.answers if c.kind == "set")
    assert "set" not in [source for _, source in flown.events]


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"kind": "set", "target": "nothing.here", "value": 1.0}, "unknown value"),
        ({"kind": "set", "target": "TARGET", "value": [1.0, 2.0]}, "elements"),
        ({"kind": "inject", "topic": "nobody", "value": 1.0}, "unknown topic"),
        ({"kind": "inject", "topic": "controller", "value": [1.0] * 9}, "values"),
        ({"kind": "step", "task": "nobody"}, "unknown task"),
        (
            {"kind": "set", "target": "TARGET", "value": 2.5, "unit": "N/m"},
            "the value was given in N/m, but plant.stiffness is in 1/s^2",
        ),
        (
            {"kind": "set", "target": "TARGET", "value": 2.5, "unit": "1/S^2"},
            "units are not converted",
        ),
        ({"kind": "set", "target": "plant.stif", "value": 2.5, "unit": "N/m"}, "unknown value"),
    ],
)
def test_what_a_run_cannot_follow_is_refused_and_changes_nothing(told: Told, says: str) -> None:
    told = {k: TARGET if v == "TARGET" else v for k, v in told.items()}
    flown = Flown(scenario(), {200 * MS: [told]})
    ((_, wrong, _),) = flown.answers
    assert says in wrong
    assert flown.events == []
    assert same(flown.recording, Flown(scenario(), {}).recording)


@pytest.mark.parametrize(
    "data",
    [
        None, 3, [], {}, {"kind": 3}, {"kind": "sett"}, {"kind": "set"},
        {"kind": "set", "target": 3},
        {"kind": "set", "target": "a.b", "value": "x"}, {"kind": "rate", "rate": 0},
        {"kind": "set", "target": "a.b", "value": True}, {"kind": "rate", "rate": -1},
        {"kind": "set", "target": "a.b", "value": float("nan")}, {"kind": "rate", "rate": "fast"},
        {"kind": "set", "target": "a.b", "value": [1.0] * 5000}, {"kind": "mark", "text": ""},
        {"kind": "set", "target": "a.b", "value": [[1.0]]}, {"kind": "mark", "text": "x" * 2000},
        {"kind": "pause", "more": 1}, {"kind": "step", "tags": 1, "duration": 1.0},
        {"kind": "step", "tags": 0.3}, {"kind": "step", "tags": 1.5}, {"kind": "step", "tags": 0},
        {"kind": "step", "tags": 1e300}, {"kind": "pause", "unit": "s"},
        {"kind": "set", "target": "a.b", "value": 1, "unit": 3},
        {"kind": "set", "target": "a.b", "value": 1, "unit": ""},
        {"kind": "fault", "name": "f", "do": "stop"}, {"kind": "checkpoint", "path": "/etc/x"},
        {"kind": "mark", "text": "a\x1b[2J"}, {"kind": "set", "target": "a", "value": 10**400},
    ],
)  # fmt: skip
def test_what_is_no_command_is_refused_before_it_reaches_a_run(data: object) -> None:
    with pytest.raises(CommandError) as caught:
        read_command(data)
    assert len(str(caught.value)) < 500


def test_a_command_reads_back_from_its_text() -> None:
    for data in EXAMPLES:
        command = read_command(data)
        assert from_json(command.to_json()) == command
    assert {d["kind"] for d in EXAMPLES} == set(KINDS)
    with pytest.raises(CommandError):
        from_json("{" * 100_000)


def test_what_comes_after_the_end_is_refused_with_the_reason() -> None:
    flown = Flown(scenario(), {})
    with pytest.raises(CommandError, match="the run reached its end at"):
        flown.give({"kind": "mark", "text": "too late"})


def test_more_commands_than_can_wait_are_refused() -> None:
    inbox = Inbox()
    for _ in range(MOST_WAITING):
        inbox.give(read_command({"kind": "pause"}))
    with pytest.raises(CommandError, match="more slowly"):
        inbox.give(read_command({"kind": "pause"}))


def test_quit_ends_on_a_whole_tag_and_replays() -> None:
    flown = Flown(scenario(), {300 * MS: [{"kind": "quit"}]})
    assert flown.reason == "quit"
    assert flown.recording.end_ns < 1_000 * MS
    assert same(rerun(flown.recording, scenario()), flown.recording)


def test_time_that_stood_is_no_overrun_and_none_is_caught_up() -> None:
    flown = Flown(scenario(), {300 * MS: [{"kind": "pause"}]}, lasts_ns=10_000 * MS)
    assert flown.certificate.held_ns == 10_000 * MS
    assert (flown.certificate.holds, sum(flown.certificate.overruns.values())) == (1, 0)
    waits = flown.clock.waits
    held = [b.asked - a.ended for a, b in itertools.pairwise(waits)]
    assert [h for h in held if h] == [10_000 * MS], "time stood once"
    assert all(w.ended == w.due for w in waits), "no frame is early, none late"
    assert same(flown.recording, Flown(scenario(), {}).recording)


def test_rates_add_up_to_the_ns() -> None:
    at = {200 * MS: [{"kind": "rate", "rate": 0.1}], 300 * MS: [{"kind": "rate", "rate": 10}],
          500 * MS: [{"kind": "rate", "rate": 1}]}  # fmt: skip
    flown = Flown(scenario(), at)
    changed = {source: ns for ns, source in flown.events}
    assert changed
    tags = [ns for ns, source in flown.events if source == "rate"]
    a, b, c = tags
    end = flown.recording.end_ns
    expected = a + (b - a) * 10 + (c - b) // 10 + end - c
    began = flown.clock.waits[0].due - flown.clock.waits[0].ns
    assert abs(flown.clock.now() - began - expected) <= 3
    assert sum(flown.certificate.overruns.values()) == 0


def test_max_waits_for_nothing_and_a_rate_paces_again() -> None:
    at: dict[int, list[Told]] = {
        200 * MS: [{"kind": "rate", "rate": "max"}],
        500 * MS: [{"kind": "rate", "rate": 1.0}],
    }
    flown = Flown(scenario(), at)
    (_, a), (_, b) = ((s, ns) for ns, s in flown.events)
    began = flown.clock.waits[0].due - flown.clock.waits[0].ns
    end = flown.recording.end_ns
    assert abs(flown.clock.now() - began - (a + end - b)) <= 3
    assert same(flown.recording, Flown(scenario(), {}).recording)


def test_a_single_step_goes_to_the_tag_the_tick_or_the_duration() -> None:
    steps: list[Told] = [
        {"kind": "step"}, {"kind": "mark", "text": "here"}, {"kind": "step", "tags": 3},
        {"kind": "step", "duration": 0.1}, {"kind": "step", "task": "controller"},
    ]  # fmt: skip
    flown = Flown(scenario(), {300 * MS: [{"kind": "pause"}]}, steps)
    told = [(ns, source) for ns, source in flown.events if source in ("pause", "step", "resume")]
    kinds = [s for _, s in told]
    assert kinds == ["pause", "step", "step", "step", "step", "resume"]
    at = [ns for ns, _ in told]
    assert at[4] - at[3] >= 100 * MS
    assert at == sorted(at)
    assert same(flown.recording, Flown(scenario(), {}).recording)


def test_what_is_set_while_time_stands_is_checked_at_once_and_acts_at_the_next_tag() -> None:
    told: list[Told] = [
        {"kind": "set", "target": TARGET, "value": VALUE},
        {"kind": "set", "target": "no.thing", "value": 1},
    ]
    flown = Flown(scenario(), {300 * MS: [{"kind": "pause"}]}, told)
    answers = [(wrong[:13], ns) for command, wrong, ns in flown.answers if command.kind == "set"]
    assert answers == [("", NEXT_TAG), ("unknown value", NEXT_TAG)]
    (at,) = [ns for ns, source in flown.events if source == "set"]
    paused = next(ns for ns, source in flown.events if source == "pause")
    assert at > paused
    assert same(rerun(flown.recording, scenario()), flown.recording)


def test_an_injected_message_is_recorded_and_replayed() -> None:
    flown = Flown(scenario(), {250 * MS: [{"kind": "inject", "topic": "controller", "value": 0.5}]})
    ((_, wrong, _),) = flown.answers
    assert wrong == ""
    assert not same(flown.recording, Flown(scenario(), {}).recording)
    assert same(rerun(flown.recording, scenario()), flown.recording)


TARGET, VALUE, UNIT = "plant.stiffness", 2.5, "1/s^2"
EXAMPLES: list[dict[str, object]] = [
    {"kind": "pause"}, {"kind": "resume"}, {"kind": "step"}, {"kind": "step", "task": "controller"},
    {"kind": "rate", "rate": "max"}, {"kind": "rate", "rate": 0.1}, {"kind": "quit"},
    {"kind": "set", "target": "a.b", "value": 0.1}, {"kind": "set", "target": "a", "value": [1, 2]},
    {"kind": "set", "target": "a.b", "value": 0.1, "unit": "kg m^2"},
    {"kind": "inject", "topic": "controller", "value": [0.1]}, {"kind": "mark", "text": "öl"},
    {"kind": "fault", "name": "f", "do": "clear"}, {"kind": "checkpoint"},
    {"kind": "restore", "back": 0.5},
]  # fmt: skip
COMMANDS = st.one_of(
    st.just({"kind": "pause"}), st.just({"kind": "resume"}),
    st.builds(lambda n: {"kind": "step", "tags": n}, st.integers(1, 20)),
    st.builds(lambda d: {"kind": "step", "duration": d}, st.floats(1e-3, 0.2)),
    st.builds(lambda r: {"kind": "rate", "rate": r}, st.sampled_from(["max", 0.1, 1.0, 10.0])),
    st.builds(lambda f: {"kind": "set", "target": TARGET, "value": VALUE * f}, st.floats(0.5, 1.5)),
    st.builds(lambda v: {"kind": "inject", "topic": "controller", "value": v}, st.floats(-1, 1)),
    st.just({"kind": "mark", "text": "here"}),
)  # fmt: skip


@settings(max_examples=settings().max_examples // 12, deadline=None)
@given(
    at=st.dictionaries(st.integers(0, 990 * MS), st.lists(COMMANDS, max_size=8), max_size=40),
    standing=st.lists(COMMANDS, max_size=20),
)
def test_any_commands_at_any_tags_replay_bit_for_bit(
    at: dict[int, list[dict[str, object]]], standing: list[dict[str, object]]
) -> None:
    flown = Flown(scenario(), at, standing, lasts_ns=5 * MS)
    assert flown.error is None
    again = rerun(flown.recording, scenario())
    assert same(again, flown.recording)
    assert again.end_ns == flown.recording.end_ns


PIECE_NS = 50 * MS
SLOW: Told = {"kind": "rate", "rate": SLOWEST}
FAST: Told = {"kind": "rate", "rate": 1.0}
SET: Told = {"kind": "set", "target": "plant.stiffness", "value": 2.5}
TAG_NS = 300 * MS
"""The tag behind which something is told; the next one is a second of the wall away."""


def slow_loop() -> Scenario:
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
        super().__init__(slow_loop(), at or {TAG_NS - 20 * MS: [SLOW]}, **how)
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
        """From the start to the end of the run, with a hold at its last tag."""
        first = self.clock.waits[0]
        return self.clock.now() - first.due + first.ns


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
    assert compare(flown.recording, Flown(slow_loop(), {}).recording).ok


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
    assert compare(flown.recording, Flown(slow_loop(), {}).recording).ok


def test_quit_waits_for_no_tag() -> None:
    flown = Slow((400, {"kind": "quit"}))
    assert (flown.reason, flown.recording.end_ns) == ("quit", TAG_NS)
    assert flown.clock.now() - flown.began <= 400 * MS + PIECE_NS
    assert compare_exact(flown.recording, rerun(flown.recording, slow_loop())) is None


def test_what_acts_at_a_tag_is_answered_at_once_with_that_tag() -> None:
    wrong = {**SET, "value": [1.0, 2.0]}
    flown = Slow((300, SET), (400, {"kind": "mark", "text": "seen"}), (500, wrong))
    assert all(heard <= 500 * MS + PIECE_NS for heard in flown.heard.values())
    next_ns = TAG_NS + 10 * MS
    assert [(w[:25], ns) for _, w, ns in flown.answers[1:]] == [
        ("", next_ns), ("", next_ns), ("signal stiffness has 1 el", next_ns)]  # fmt: skip
    assert flown.events[-2:] == [(next_ns, "set"), (next_ns, "mark")]
    assert not compare(flown.recording, Flown(slow_loop(), {}).recording).ok
    assert compare(flown.recording, rerun(flown.recording, slow_loop())).ok


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
    told = Flown(slow_loop(), {TAG_NS: [SET]})
    recorder = MemoryRecorder()
    fed = FedInputs(commands=fed_commands(told.recording))
    simulate(slow_loop(), fed=fed, clock=FakeClock(0.02), recorder=recorder)
    assert compare(told.recording, recorder.recording()).ok


SLOW_KINDS = st.one_of(
    st.builds(lambda r: {"kind": "rate", "rate": r}, st.sampled_from([0.01, 0.02, 0.05, 1.0])),
    st.sampled_from([
        {"kind": "pause"}, {"kind": "resume"}, {"kind": "step"}, {"kind": "step", "tags": 2},
        {"kind": "step", "duration": 0.013}, {"kind": "step", "task": "controller"}, SET,
        {"kind": "inject", "topic": "controller", "value": 0.3}, {"kind": "mark", "text": "x"},
    ]),
)  # fmt: skip


@settings(max_examples=settings().max_examples // 16, deadline=None, phases=[Phase.generate])
@given(between=st.lists(st.tuples(st.integers(0, 6000), SLOW_KINDS), max_size=12))
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
    assert compare(flown.recording, rerun(flown.recording, slow_loop())).ok


def kept_loop() -> Scenario:
    """Steps of 10 ms for 2 s, a controller of 100 ms whose commands are 30 ms under way."""
    return unstable.scenario(latency=0.03, until=2)


def told(kind: str, **arguments: Any) -> Told:
    return {"kind": kind, **arguments}


def leg(
    past: CheckpointHistory, at: dict[int, list[Told]], before: Flown | None = None,
    standing: list[Told] = []  # noqa: B006
) -> Flown:  # fmt: skip
    return Flown(
        kept_loop(),
        at,
        standing,
        checkpoints=CheckpointSchedule(None, past=past),
        before=before,
    )


def replays(flown: Flown) -> bool:
    again = rerun(flown.recording, kept_loop(), start=flown.start)
    return compare_exact(flown.recording, again, prefix=True) is None


def last(recording: Recording) -> bytes:
    return bytes(np.asarray(recording.track("plant").rows.floats[-1]).tobytes())


@pytest.mark.rule("restore-is-another-leg")
def test_a_run_goes_back_in_legs_that_each_replay_bit_for_bit() -> None:
    past = CheckpointHistory("1.5")
    first = leg(past, {1200 * MS: [told("restore", at=0.75)]})
    assert first.reason == "restored"
    assert first.restored is not None
    assert first.restored.tag == Tag(700 * MS), "one each 0.1 s is kept: the latest not after 0.75"
    assert first.recording.footer is not None
    assert first.recording.footer["restored"] == 700 * MS
    assert first.recording.end_ns == 1210 * MS
    (event,) = [e for e in first.recording.events if e.kind == "Restored"]
    assert (event.tag.ns, event.values["ns"]) == (1210 * MS, 700 * MS)
    assert replays(first)

    aside = [told("set", target="plant.stiffness", value=2.5)]
    second = leg(past, {900 * MS: aside, 1500 * MS: [told("restore", back=0.9)]}, first)
    assert second.restored is not None
    assert second.restored.ns == 600 * MS, "further back than where this leg began"
    assert replays(second)

    third = leg(past, {}, second)
    assert third.reason == "end"
    assert replays(third)
    assert last(third.recording) == last(Flown(kept_loop(), {}).recording), "as if never left"


def test_what_was_flown_before_going_back_is_no_past_of_what_goes_on() -> None:
    past = CheckpointHistory("1.5")
    orders = {720 * MS: [told("checkpoint")], 1200 * MS: [told("restore", at=0.72)]}
    first = Flown(kept_loop(), orders, checkpoints=CheckpointSchedule(Ring(9), past=past))
    assert first.restored is not None
    assert first.restored.ns == 700 * MS
    assert past.before(750 * MS) is not None
    second = leg(past, {750 * MS: [told("restore")]}, first)
    assert second.restored is not None
    assert second.restored.ns == 700 * MS, "the one of 0.73 s is of what was left"


def test_a_run_that_stood_stands_where_it_goes_on() -> None:
    past = CheckpointHistory("1.5")
    orders = [told("set", target="plant.stiffness", value=2.5), told("restore", at=0.5)]
    first = leg(past, {1000 * MS: [told("pause")]}, standing=orders)
    assert first.reason == "restored"
    assert first.certificate.holds == 1
    seen: list[Told] = [told("step", tags=2), told("mark", text="here")]
    second = leg(past, {}, first, standing=seen)
    told_at = [(ns, kind) for ns, kind in second.events]
    assert told_at == [(500 * MS, "step"), (520 * MS, "resume"), (530 * MS, "mark")]
    assert second.certificate.holds == 2
    assert "Change" not in {e.kind for e in second.recording.events}
    assert last(second.recording) == last(Flown(kept_loop(), {}).recording), "the set was undone"
    assert replays(first)
    assert replays(second)


@pytest.mark.rule("restore-is-another-leg")
def test_what_comes_after_a_restore_is_for_what_goes_on() -> None:
    past = CheckpointHistory("1.5")
    orders = [told("restore", at=0.5), told("mark", text="after")]
    first = leg(past, {1000 * MS: orders})
    second = leg(past, {}, first)
    assert [kind for _, kind in first.events] == ["restore"]
    assert second.events == [(510 * MS, "mark")]


def test_the_wall_neither_sprints_nor_stalls() -> None:
    past = CheckpointHistory("1.5")
    first = leg(past, {700 * MS: [told("rate", rate=0.1)], 1200 * MS: [told("restore", at=0.5)]})
    began = first.clock.now()
    second = leg(past, {}, first)
    assert second.clock.now() - began == 10 * 1500 * MS
    assert sum(second.certificate.overruns.values()) == 0


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (told("restore", at=1.5), "restore cannot go forward to"),
        (told("restore", at=0.05), "there is no checkpoint at or before 0.050"),
        (told("restore", back=1.0), "there is no checkpoint at or before"),
    ],
)
def test_a_restore_to_nowhere_is_refused_and_changes_nothing(asked: Told, says: str) -> None:
    flown = leg(CheckpointHistory(0.5), {900 * MS: [asked]})
    ((_, wrong, _),) = flown.answers
    assert says in wrong
    assert flown.reason == "end"
    assert flown.events == []


def test_without_anything_kept_it_says_what_keeps_some() -> None:
    flown = Flown(kept_loop(), {900 * MS: [told("restore")]})
    ((_, wrong, _),) = flown.answers
    assert "--rewind SECONDS" in wrong


def test_what_goes_on_alone_cannot_go_back() -> None:
    rig, past = kept_loop(), CheckpointHistory(1)
    rig.component("controller").controller.paced = True  # type: ignore[attr-defined]
    flown = Flown(
        rig, {900 * MS: [told("restore")]}, checkpoints=CheckpointSchedule(None, past=past)
    )
    ((_, wrong, _),) = flown.answers
    assert "restore is refused: controller is a board in real time" in wrong


@pytest.mark.parametrize("rate", ["max", 1.0])
def test_kept_files_are_gone_back_to(tmp_path: Path, rate: float | str) -> None:
    past, files = CheckpointHistory(), Files(tmp_path / "a.mcap")
    past.add(files)
    at: dict[int, list[Told]] = {
        100 * MS: [told("rate", rate=rate)],
        400 * MS: [told("checkpoint")], 700 * MS: [told("checkpoint")],
        900 * MS: [told("restore", at=0.6)],
    }  # fmt: skip
    first = Flown(kept_loop(), at, checkpoints=CheckpointSchedule(files, past=past))
    assert first.restored is not None
    assert first.restored.ns == 410 * MS
    more = Files(tmp_path / "b.mcap")
    past.add(more)
    later = CheckpointSchedule(more, past=past)
    second = Flown(kept_loop(), {720 * MS: [told("restore")]}, checkpoints=later, before=first)
    assert second.restored is not None
    assert second.restored.ns == 410 * MS, "the one of 0.71 s is of another past"
    assert {p.name for p in files.paths} == {"a@0.410.checkpoint", "a@0.710.checkpoint"}
    assert replays(second)


def test_a_span_of_nothing() -> None:
    with pytest.raises(ScenarioError, match="rewind span 0 s must be > 0"):
        CheckpointHistory(0)
