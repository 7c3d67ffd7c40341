"""The schedule of faults by itself: when each is looked at, what is saved, and its conditions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fault_parts import flown, ramp, sampled

from rtsim.components.ports import SignalPort
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Period, Tag
from rtsim.engine.faults.kind import FaultError, Present, parse_condition
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.engine.faults.schedule import FIRST, FaultTask, Schedule
from rtsim.engine.system import System
from rtsim.record.events import Event

MS = 1_000_000
TENTH = Period.of("0.1")


class Looked:
    """Stands for the wiring that a fault is looked at in, and for the plants behind it."""

    def __init__(self, *edges: int, **described: Any) -> None:
        entries = {"probability": None, "when": None, "count": None, "at_ns": None, **described}
        self.edges = edges
        self.looks = 0
        fault = SimpleNamespace(name="f", **entries)
        self.fault: Any = SimpleNamespace(
            fault=fault, changes_alone=False, activity=SimpleNamespace(next_edge=self.next_edge)
        )
        self.plant: Any = SimpleNamespace(stale=False, ns=0, target_ns=0)

    def next_edge(self, ns: int) -> int:
        return next((edge for edge in self.edges if edge > ns), 2**62)

    def look(self, fault: Any) -> None:
        assert fault is self.fault
        self.looks += 1

    def task(self) -> FaultTask:
        wiring: Any = self
        return FaultTask(self.fault, wiring, [self.plant], TENTH)


def react(task: FaultTask, ns: int) -> int:
    environment: Any = None
    task.react(Tag(ns), environment)
    return task.next_ns


def test_a_fault_that_only_begins_and_ends_is_looked_at_then() -> None:
    parts = Looked(300 * MS, 500 * MS, at_ns=300 * MS)
    task = parts.task()
    assert task.next_ns == 300 * MS
    assert react(task, 300 * MS) == 500 * MS
    assert parts.plant.stale
    assert react(task, 500 * MS) == 2**62
    assert parts.looks == 2


@pytest.mark.parametrize("at_ns", [0, None])
def test_one_that_begins_at_the_start_is_looked_at_there(at_ns: int | None) -> None:
    task = Looked(500 * MS, at_ns=at_ns).task()
    assert task.next_ns == 0
    assert react(task, 0) == 500 * MS


@pytest.mark.parametrize("what", ["probability", "when", "count"])
def test_one_that_is_drawn_asked_or_counted_is_looked_at_each_period(what: str) -> None:
    task = Looked(250 * MS, at_ns=50 * MS, **{what: 0}).task()
    assert task.next_ns == 50 * MS
    seen = [react(task, 50 * MS)]
    for _ in range(3):
        seen.append(react(task, seen[-1]))
    assert [ns // MS for ns in seen] == [150, 250, 350, 450]


def test_an_edge_between_two_ticks_is_looked_at_too() -> None:
    parts = Looked(120 * MS, at_ns=0)
    parts.fault.changes_alone = True
    task = parts.task()
    assert (react(task, 0), react(task, 100 * MS), react(task, 120 * MS)) == (
        100 * MS, 120 * MS, 200 * MS,
    )  # fmt: skip


def test_a_command_is_followed_at_once_or_at_the_end_of_the_step_under_way() -> None:
    parts = Looked(at_ns=0)
    parts.fault.changes_alone = True
    task = parts.task()
    react(task, 0)
    parts.plant.ns = 70 * MS
    task.told(70 * MS)
    assert parts.looks == 2
    assert task.next_ns == 170 * MS, "its ticks count from here on"
    parts.plant.ns, parts.plant.target_ns = 80 * MS, 90 * MS
    task.told(85 * MS)
    assert (parts.looks, task.next_ns) == (2, 90 * MS)
    assert react(task, 90 * MS) == 185 * MS
    saved = task.save()
    assert saved == {"k": 1, "next": 185 * MS, "offset": 85 * MS}
    other = Looked(at_ns=0).task()
    other.restore(saved)
    assert other.save() == saved


# -- all of a run


def system(*faults: Any) -> tuple[System, Schedule]:
    scenario = ramp()
    scenario.faults(*faults)
    out = scenario.build(compile=False)
    assert out.faults is not None
    return out, out.faults


OFFSET = {"name": "off", "where": "controller.u", "kind": "offset", "amount": 1.0}


def test_a_command_names_a_fault_of_the_run_that_can_act() -> None:
    _, faults = system({**OFFSET, "at": 0.3})
    assert faults.counts == {"off": 0}
    with pytest.raises(UnknownName, match="fault 'of'"):
        faults.command("of", "start", 0)
    faults.idle["off"] = "nobody reads it"
    with pytest.raises(FaultError, match="fault off cannot act in this run: nobody reads it"):
        faults.command("off", "start", 0)
    faults.feed([])
    assert faults.check("off") is faults.activities["off"], "in a replay it did what it did"


def test_why_a_fault_is_idle_is_said_once_and_not_in_a_replay() -> None:
    said: list[tuple[Any, ...]] = []
    runs: list[tuple[int, bool]] = []

    def run(ns: int, discrete: bool) -> None:
        runs.append((ns, discrete))

    for fed in (False, True):
        _, faults = system(OFFSET)
        faults.idle["off"] = "nobody reads it"
        faults.record(lambda *event: said.append(event))
        if fed:
            faults.feed([])
        told = faults.telling(run)
        told(0, True)
        told(5, False)
        assert faults.present.ns == 5
    assert [(e[0], e[2], e[3]) for e in said] == [(Tag(0), "off", "nobody reads it")]
    assert runs == [(0, True), (5, False)] * 2


def test_a_replay_says_again_what_is_not_there_at_its_tags() -> None:
    said: list[Any] = []
    faults = Schedule([], Present())
    faults.record(lambda tag, *_: said.append(tag))
    faults.feed([])
    faults._fed = [Event(Tag(ns), "k", "s", "", {"a": 1}) for ns in (3, 5, 5, 9, 12)]
    told = faults.telling(lambda *_: None)
    for ns, seen in ((2, 0), (3, 1), (5, 3), (8, 3)):
        told(ns, True)
        assert len(said) == seen, ns
    faults.over(9)
    assert said == [Tag(3), Tag(5), Tag(5), Tag(9)]


def test_what_is_spoiled_at_samples_is_what_was_declared() -> None:
    found = sampled(flown(ramp(), {**OFFSET, "at": 0.3, "duration": 0.3}))
    clean = sampled(flown(ramp()))
    assert np.round(found - clean, 9).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]


def test_a_fault_is_decided_before_anybody_reads() -> None:
    assert -(2**63) < FIRST < -(2**31), "whatever priority a task has"
    assert FaultTask.priority == FIRST


def test_what_is_saved_is_restored_with_the_same_faults_and_no_others() -> None:
    _, faults = system({**OFFSET, "at": 0.3})
    faults.present.ns = 77
    saved = faults.save()
    _, other = system({**OFFSET, "at": 0.3})
    other.restore(saved)
    assert other.save() == saved
    assert other.present.ns == 77
    with pytest.raises(ValueError, match="zip"):
        other.restore({**saved, "signals": []})


def test_a_command_is_looked_at_for_its_own_fault_alone() -> None:
    spoiled = {"where": "driven.u", "kind": "offset", "amount": 1.0}
    _, faults = system({**spoiled, "name": "one", "at": 0.5}, {**spoiled, "name": "two", "at": 0.7})
    asked, other = faults.tasks
    before = other.save()
    faults.command("one", "start", 200 * MS)
    faults.follow(200 * MS)
    assert asked.save()["offset"] == 200 * MS
    assert other.save() == before
    faults.follow(300 * MS)
    assert asked.save()["offset"] == 200 * MS, "a command is followed once"


# -- the faults of a line


def test_a_line_is_told_of_its_own_and_never_of_times_to_come() -> None:
    said: list[tuple[str, int]] = []

    class Told(Present):
        def began(self, fault: Any, ns: int, *_: Any) -> None:  # noqa: ARG002
            said.append(("began", ns))

        def ended(self, fault: Any, ns: int, *_: Any) -> None:  # noqa: ARG002
            said.append(("ended", ns))

    def activity(signal: str, ended_ns: int) -> Any:
        return SimpleNamespace(
            fault=SimpleNamespace(signal=signal), ended_ns=ended_ns, ended="over",
            save=lambda: {"at": ended_ns}, restore=restored.append,
        )  # fmt: skip

    restored: list[Any] = []
    present = Told()
    one, other = activity("to_board", 50), activity("from_board", 70)
    line = LineFaults([one, other], present)
    assert line.now_ns == -1
    present.ns = 60
    assert (line.at("to_board"), line.at("from_board"), line.at("board")) == ((one,), (other,), ())
    line.began(one, 40, "", {})
    line.began(one, 65, "", {})
    line.ended(one)
    line.ended(other)
    assert said == [("began", 40), ("began", 60), ("ended", 50), ("ended", 60)]
    assert line.save() == [{"at": 50}, {"at": 70}]
    line.restore([{"a": 1}, {"a": 2}])
    assert restored == [{"a": 1}, {"a": 2}]
    with pytest.raises(ValueError, match="zip"):
        line.restore([{"a": 1}])


# -- conditions


def holds(text: str, **values: float) -> bool:
    signals = Signals(*values, Signal("v", shape=(2,)))
    port = SignalPort("p", signals, np.array([*values.values(), 5.0, 6.0]))
    return parse_condition(text).bind({"p": port})()


@pytest.mark.parametrize(
    ("test", "below", "same", "above"),
    [
        ("<", True, False, False), ("<=", True, True, False), (">", False, False, True),
        (">=", False, True, True), ("==", False, True, False), ("!=", True, False, True),
    ],
)  # fmt: skip
def test_each_comparison(test: str, below: bool, same: bool, above: bool) -> None:
    text = f"p.x {test} 2"
    assert [holds(text, x=x) for x in (1, 2, 3)] == [below, same, above]
    turned = f"2 {test} p.x"
    assert [holds(turned, x=x) for x in (3, 2, 1)] == [below, same, above]


def test_all_comparisons_have_to_hold() -> None:
    text = " p.x > 1  and p.y<-.5e1 and 1e2 > p.x "
    assert parse_condition(text).text == text.strip()
    assert holds(text, x=2, y=-6)
    assert not holds(text, x=0, y=-6)
    assert not holds(text, x=2, y=-5)
    assert not holds(text, x=200, y=-6)
    assert holds("p.y != p.x", x=1, y=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p.x", "'p.x' is not a comparison"),
        ("p.x > 1 and", "neither a number nor|is not a comparison"),
        ("p.x = 1", "is not a comparison"),
        ("1 > 2", "'1 > 2' compares two numbers"),
        ("p.x > nan", "'nan' is neither a number nor a name of the form component.signal"),
        ("p.x > 1e999", "'1e999' is neither"),
        ("x > 1", "'x' is neither"),
        ("p.x.y > 1", "'p.x.y' is neither"),
        ("p.x > 1_0", "'1_0' is neither"),
    ],
)
def test_what_is_no_condition_is_told(text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        parse_condition(text)


def test_a_condition_has_at_most_500_characters_and_compares_one_element() -> None:
    assert parse_condition("p.x > 1".ljust(500))
    with pytest.raises(ScenarioError, match="the condition has 501 characters; at most 500"):
        parse_condition("p.x > 1".ljust(501))
    with pytest.raises(
        ScenarioError, match=r"p.v has 2 elements, but a comparison needs one number"
    ):
        holds("p.v > 1", x=1)
