"""What a replay reads from a recording: answers of controllers, external inputs, commands.

Each recording is written row by row here; no run is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rtsim.components.bus import STAMPS
from rtsim.core.errors import ControllerError, RecordingError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.commands.commands import Command
from rtsim.record.events import Event
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import (
    _happenings,
    _script,
    _under_way,
    fed_commands,
    fed_controller,
    fed_controllers,
    fed_external_inputs,
    fed_tracks,
)
from rtsim.scenario.scenario import Scenario

ANSWERS, INPUTS = Signals("y [1]"), Signals("u [1]")
NEVER_ASKED = Tag(-1)
"""Stands for the request before the first one."""


def stamps(initiated: Tag, arrival: Tag) -> tuple[int, ...]:
    values = dict.fromkeys(STAMPS, 0)
    values |= {"initiated": initiated.ns, "initiated_step": initiated.step}
    values |= {"completed": arrival.ns, "arrival": arrival.ns}
    return tuple(values.values())


def recorded(
    requests: Sequence[Tag] = (),
    answers: Sequence[tuple[Tag, float]] = (),
    events: Sequence[Event] = (),
    **header: Any,
) -> Recording:
    """A run of controller ``c`` with these requests, answers by request, and events."""
    recorder = MemoryRecorder()
    answer = recorder.track("messages/c", STAMPS, ANSWERS)
    request = recorder.track("messages/c.inputs", STAMPS, INPUTS)
    stick = recorder.track("inputs/stick", ("step",), Signals("p [1]", "q [1]"))
    recorder.start(header)
    for tag in requests:
        request.append(tag.ns, stamps(tag, tag), np.array([0.5]))
    for tag, value in answers:
        answer.append(tag.ns, stamps(tag, Tag(tag.ns + 3)), np.array([value]))
    for ns in (7, 9):
        stick.append(ns, (0,), np.array([ns / 2, -1.0]))
    return replace(recorder.recording(), events=list(events))


def of_c(ns: int, kind: str, text: str = "", step: int = 0) -> Event:
    return Event(Tag(ns, step), kind, "c", text)


def plain(script: dict[Tag, list[Vector | str | None]]) -> dict[Tag, list[object]]:
    """Arrays as lists, NaN as a text, so that scripts can be compared; without empty entries."""
    return {tag: [_plain(one) for one in said] for tag, said in script.items() if said}


def _plain(said: Vector | str | None) -> object:
    if isinstance(said, np.ndarray):
        return "unknown" if np.isnan(said).all() else said.tolist()
    return said


def script(recording: Recording, *before: Any) -> dict[Tag, list[object]]:
    return plain(_script(recording, "c", *before))


# -- the script of a controller's answers ---------------------------------------------------------


def test_each_answer_belongs_to_the_request_whose_tag_and_microstep_it_carries() -> None:
    tags = [Tag(10), Tag(10, 2), Tag(20, 1)]
    run = recorded(tags, [(tags[0], 1.0), (tags[2], 3.0), (tags[1], 2.0)])
    assert script(run) == {tags[0]: [[1.0]], tags[1]: [[2.0]], tags[2]: [[3.0]]}


def test_a_late_answer_follows_one_empty_poll_for_each_late_and_each_missed_tick() -> None:
    events = [of_c(15, "Late"), of_c(20, "Missed"), of_c(30, "Missed")]
    run = recorded([Tag(10), Tag(40)], [(Tag(10), 1.0), (Tag(40), 4.0)], events)
    assert script(run) == {Tag(10): [None, None, None, [1.0]], Tag(40): [[4.0]]}


def test_a_missed_tick_polls_only_for_an_answer_that_is_already_late() -> None:
    """Before that the answer is not due, so the controller is busy and is not polled."""
    run = recorded([Tag(10)], [(Tag(10), 1.0)], [of_c(20, "Missed"), of_c(25, "Late")])
    assert script(run) == {Tag(10): [None, [1.0]]}


def test_other_kinds_of_events_are_no_polls() -> None:
    run = recorded([Tag(10)], [(Tag(10), 1.0)], [of_c(12, "Alive"), of_c(13, "Reported")])
    assert script(run) == {Tag(10): [[1.0]]}


def test_events_of_other_sources_are_not_the_controllers() -> None:
    events = [Event(Tag(15), "Late", "d"), Event(Tag(16), "Failed", "d", "broken")]
    run = recorded([Tag(10)], [(Tag(10), 1.0)], events)
    assert script(run) == {Tag(10): [[1.0]]}


def test_a_discarded_answer_is_known_to_have_come_but_not_what_it_was() -> None:
    events = [of_c(15, "Late"), of_c(20, "Discarded"), of_c(25, "Late")]
    run = recorded([Tag(10), Tag(20)], [(Tag(20), 2.0)], events)
    assert script(run) == {Tag(10): [None, "unknown"], Tag(20): [None, [2.0]]}


def test_at_one_tag_late_and_discarded_concern_the_request_before() -> None:
    events = [of_c(20, "Late"), of_c(20, "Discarded")]
    run = recorded([Tag(10), Tag(20)], [(Tag(20), 2.0)], events)
    assert script(run) == {Tag(10): [None, "unknown"], Tag(20): [[2.0]]}


def test_a_failure_within_the_tag_of_a_request_is_of_that_request() -> None:
    run = recorded([Tag(10), Tag(20)], [(Tag(10), 1.0)], [of_c(20, "Failed", "refused")])
    assert script(run) == {Tag(10): [[1.0]], Tag(20): ["refused"]}


def test_after_a_failure_the_controller_is_not_polled() -> None:
    events = [
        of_c(15, "Late"), of_c(20, "Failed", "dead"), of_c(20, "Missed"), of_c(30, "Missed"),
        of_c(40, "Late"), of_c(50, "Failed", "again"),
    ]  # fmt: skip
    run = recorded([Tag(10)], events=events)
    assert script(run) == {Tag(10): [None, "dead"]}


def test_the_error_that_ends_the_run_is_what_the_pending_request_said() -> None:
    events = [of_c(15, "Late"), Event(Tag(20), "Error", "ControllerError", "dead")]
    run = recorded([Tag(10)], events=events)
    assert script(run) == {Tag(10): [None, "dead"]}


def test_an_error_after_the_answer_is_of_something_else() -> None:
    error = Event(Tag(20), "Error", "ModelError", "the wing broke")
    run = recorded([Tag(10)], [(Tag(10), 1.0)], [error])
    assert script(run) == {Tag(10): [[1.0]]}


def test_without_an_error_a_request_without_an_answer_says_nothing() -> None:
    assert script(recorded([Tag(10)])) == {}


@pytest.mark.parametrize("others", [1, 2])
def test_of_several_errors_the_last_one_counts(others: int) -> None:
    errors = [Event(Tag(20 + k), "Error", "X", f"error {k}") for k in range(others + 1)]
    run = recorded([Tag(10)], events=errors)
    assert script(run) == {Tag(10): [f"error {others}"]}


def test_an_error_before_the_first_request_is_no_requests_answer() -> None:
    """Microsteps and times from 0 on are possible tags of requests."""
    run = recorded(events=[Event(Tag(0), "Error", "ModelError", "at once")])
    assert script(run) == {NEVER_ASKED: ["at once"]}


def test_a_request_pending_at_a_checkpoint_keeps_its_earlier_polls() -> None:
    run = recorded([Tag(40)], [(Tag(10, 3), 1.0), (Tag(40), 4.0)], [of_c(30, "Missed")])
    before = Tag(10, 3), 2
    assert script(run, before) == {Tag(10, 3): [None, None, None, [1.0]], Tag(40): [[4.0]]}
    assert script(run, (Tag(10, 3), 0)) == {Tag(10, 3): [[1.0]], Tag(40): [[4.0]]}


def test_happenings_are_in_order_of_tags_and_of_kinds_at_one_tag() -> None:
    """In whichever order the events were recorded."""
    events = [
        of_c(30, "Missed", "d"), of_c(30, "Failed", "c"), of_c(30, "Discarded", "a"),
        of_c(30, "Late", "b", step=1), of_c(5, "Late", "z"), Event(Tag(30), "Late", "other"),
    ]  # fmt: skip
    run = recorded([Tag(30), Tag(10)], events=events)
    assert _happenings(run, "c") == [
        (Tag(5), "Late", "z"),
        (Tag(10), "Request", ""),
        (Tag(30), "Discarded", "a"),
        (Tag(30), "Request", ""),
        (Tag(30), "Failed", "c"),
        (Tag(30), "Missed", "d"),
        (Tag(30, 1), "Late", "b"),
    ]


# -- what was pending at a checkpoint -------------------------------------------------------------


def checkpoint(**tasks: Any) -> Checkpoint:
    return Checkpoint(25, {}, {"tasks": tasks})


def test_without_a_checkpoint_no_request_is_pending() -> None:
    assert _under_way(None, "c") == (NEVER_ASKED, 0)


def test_a_checkpoint_says_which_request_is_pending_and_how_often_it_was_polled() -> None:
    asked = {"request": [[10, 3], [15, 0], True, 2]}
    assert _under_way(checkpoint(c=asked, d={"request": None}), "c") == (Tag(10, 3), 2)
    assert _under_way(checkpoint(c={"request": None}, d=asked), "c") == (NEVER_ASKED, 0)
    assert _under_way(checkpoint(d=asked), "c") == (NEVER_ASKED, 0)


# -- controllers that say their answers again -----------------------------------------------------


def test_a_fed_controller_says_what_was_recorded_poll_by_poll() -> None:
    events = [of_c(15, "Late"), of_c(30, "Failed", "dead")]
    part = {
        "kind": "controller", "type": "sil", "file": "law.toml", "about": ["type", "file"],
        "parameters": {"gain": 2.5, "table": [1.0, 2.0, 3.0]},
    }  # fmt: skip
    run = recorded([Tag(10), Tag(20)], [(Tag(10), 1.0)], events, scenario={"parts": {"c": part}})
    fed = fed_controller(run, "c")
    assert (fed.inputs, fed.outputs) == (INPUTS, ANSWERS)
    assert fed.describe() == {"type": "sil", "file": "law.toml"}
    assert fed.parameters == Signals(
        Signal("gain", initial=2.5), Signal("table", shape=(3,), initial=(1.0, 2.0, 3.0))
    )
    fed.send(Tag(10), np.zeros(1))
    assert fed.receive(Tag(10), 0.0) is None
    said = fed.receive(Tag(10), 0.0)
    assert said is not None
    assert said.tolist() == [1.0]
    fed.send(Tag(20), np.zeros(1))
    with pytest.raises(ControllerError, match=r"\Adead\Z"):
        fed.receive(Tag(20), 0.0)


class Device:
    """An external input that says nothing."""

    def poll(self) -> Vector | None:
        return None


class Elsewhere:
    """A controller outside of the process, which is not to be asked."""

    inputs, outputs, outside = INPUTS, ANSWERS, True

    def send(self, tag: Tag, inputs: Vector) -> None:
        raise NotImplementedError

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


class Inside(Elsewhere):
    outside = False


def lab() -> Scenario:
    """Two controllers, one outside of the process, an external input, and a source."""
    out = Scenario("lab", until=1)
    out.source("set", Signals("v [1]"))
    out.external_input("stick", Signals("p [1]", "q [1]"), Device())
    out.controller("c", Elsewhere(), period=0.1, inputs={"u": "set.v"})
    out.controller("law", Inside(), period=0.1, inputs={"u": "set.v"})
    return out


def test_controllers_outside_of_the_process_are_fed_and_no_others() -> None:
    assert list(fed_controllers(lab(), recorded())) == ["c"]


def test_external_inputs_say_their_recorded_values_at_their_times() -> None:
    (name, fed), *others = fed_external_inputs(lab(), recorded()).items()
    assert (name, others) == ("stick", [])
    assert fed.signals == Signals("p [1]", "q [1]")
    said = {ns: fed.read(ns) for ns in (6, 7, 8, 9, 10)}
    values = {ns: one.tolist() for ns, one in said.items() if one is not None}
    assert values == {7: [3.5, -1.0], 9: [4.5, -1.0]}


@pytest.mark.parametrize(
    ("header", "more"),
    [
        ({}, set()),
        ({"scenario": {"origin": {"replaced": {"law": {}}}}}, {"messages/law"}),
        ({"scenario": {"origin": {"replaced": {"c": {}}}}}, set()),
    ],
)
def test_fed_tracks_are_external_inputs_and_answers_from_outside_or_of_replacements(
    header: dict[str, Any], more: set[str]
) -> None:
    assert fed_tracks(recorded(**header), lab()) == {"inputs/stick", "messages/c"} | more


# -- commands -------------------------------------------------------------------------------------


def command(ns: int, kind: str, **arguments: Any) -> Event:
    return Event(Tag(ns), "Command", kind, Command(kind, arguments).to_json())


def test_commands_that_act_at_a_tag_are_repeated_at_their_tag() -> None:
    events = [
        command(10, "mark", text="one"), command(20, "pause"),
        Event(Tag(25), "Change", "set", Command("mark", {"text": "none"}).to_json()),
        command(30, "set", target="set.v", value=2.0),
    ]  # fmt: skip
    told = fed_commands(recorded(events=events))
    assert [(one.ns, one.command.kind, one.answer) for one in told] == [
        (10, "mark", None),
        (30, "set", None),
    ]
    assert told[0].command.arguments == {"text": "one"}


def test_a_malformed_command_is_an_error_of_the_recording() -> None:
    broken = Event(Tag(10), "Command", "mark", "{")
    with pytest.raises(
        RecordingError, match=r"^this run contains a malformed command: cannot read"
    ):
        fed_commands(recorded(events=[broken]))
