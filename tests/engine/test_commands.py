"""Commands: what is told to a run acts at a tag, is recorded, and acts again in a replay."""

from __future__ import annotations

import itertools

import pytest
from command_parts import Flown, Told
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.engine.commands.commands import (
    KINDS,
    MOST_WAITING,
    NEXT_TAG,
    CommandError,
    Inbox,
    from_json,
    read_command,
)
from rtsim.models import unstable
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.runs.replay import rerun
from rtsim.scenario.scenario import Scenario

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
