"""When a fault acts, asked item by item; and what it makes of a message.

Faults of signals and of the loop by themselves: each value, each item, and what is said.

Faults in the flights that are compared: each is told, in the terminal, on the page, as JSON.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from pitl_parts import FakeBoard, Host, as_float
from rich.console import Console

from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, Stage
from hitl.comparison.verdict import ComparisonChain
from hitl.results.page import render
from hitl.results.table import Tables
from rtsim.cli import main
from rtsim.components.latency import Fixed, LatencyModel, Reorder
from rtsim.core.errors import ControllerError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.engine.faults.activity import FAR_NS, Activity
from rtsim.engine.faults.at_loop import LOOP_KINDS, LoopFault, LoopFaults
from rtsim.engine.faults.at_messages import MESSAGE_KINDS, FaultyTransport
from rtsim.engine.faults.at_signals import MOST_TOLD, SIGNAL_KINDS, SignalFault
from rtsim.engine.faults.description import fault_of
from rtsim.engine.faults.kind import Fault, Present
from rtsim.models.unstable import controller, scenario

MS = 1_000_000
KINDS = {kind.name: kind for kind in MESSAGE_KINDS}


def fault(kind: str = "drop", **entries: Any) -> Fault:
    return fault_of({"name": "f", "where": "link", "kind": kind, **entries})


def stream() -> np.random.Generator:
    return RandomStreams(1).stream("fault/f")


def activity(kind: str = "drop", holds: Any = None, **entries: Any) -> Activity:
    return Activity(fault(kind, **entries), stream(), holds)


def struck(one: Activity, ms: range) -> list[int]:
    return [k for k in ms if one.strikes(k * MS)]


# -- triggers, one item each ms


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, range(12)),
        ({"at": 0.004}, range(4, 12)),
        ({"at": 0.004, "until": 0.009}, range(4, 9)),
        ({"until": 0.005}, range(5)),
        ({"at": 0.004, "duration": 0.003}, range(4, 7)),
        ({"at": 0.004, "count": 3}, range(4, 7)),
        ({"at": 0.0045, "count": 1}, (5,)),
        ({"at": 0.0045, "duration": 0.002}, (5, 6)),
        ({"at": 0.004, "duration": 0.009, "until": 0.006}, (4, 5)),
        ({"every": 0.004, "count": 1}, (4, 8)),
        ({"every": 0.004, "duration": 0.002}, (4, 5, 8, 9)),
        ({"every": 0.004, "at": 0.001, "count": 2}, (1, 2, 5, 6, 9, 10)),
        ({"every": 0.004, "at": 0, "count": 1, "until": 0.008}, (0, 4)),
        ({"every": 0.003, "duration": 0.005}, range(3, 12)),
    ],
)
def test_items_that_are_struck(entries: dict[str, Any], expected: range | tuple[int, ...]) -> None:
    assert struck(activity(**entries), range(12)) == list(expected)


def test_a_time_that_went_by_without_an_item_is_over() -> None:
    one = activity(at=0.002, duration=0.003)
    assert not one.strikes(1 * MS)
    assert not one.strikes(5 * MS), "it began at 2 ms and was over at 5 ms"
    assert not one.strikes(6 * MS)
    assert one.activations == 0
    late = activity(at=0.002, duration=0.003)
    assert late.strikes(4 * MS)
    assert (late.began, late.since) == (2 * MS, 2 * MS), "it began when it was to"


def test_one_of_each_period_even_where_no_item_came_in_some() -> None:
    one = activity(every=0.004, count=1)
    assert [one.strikes(ms * MS) for ms in (3, 4, 5, 13, 14, 15, 16)] == [
        False, True, False, True, False, False, True,
    ]  # fmt: skip
    assert one.activations == 3


def test_chance_is_drawn_once_for_each_item_that_could_begin() -> None:
    drawn = stream().random(200)
    one = activity(probability=0.3)
    expected = [k for k in range(40) if drawn[k] < 0.3]
    assert struck(one, range(40)) == expected
    assert one.stream.random() == drawn[40]
    lasting = activity(probability=0.3, count=2, at=0.005, until=0.03)
    at, expected, k = 5, [], 0
    while at < 30:
        if drawn[k] < 0.3:
            expected += [at, at + 1]
            at += 2
        else:
            at += 1
        k += 1
    assert struck(lasting, range(40)) == [ms for ms in expected if ms < 30]


def test_a_condition_begins_when_it_becomes_true_and_lasts_while_it_is() -> None:
    now = {"ms": 0}
    true_at = {2, 3, 6, 7, 8}

    def held(**entries: Any) -> list[int]:
        one = activity(holds=lambda: now["ms"] in true_at, when="p.x > 0", **entries)
        out = []
        for ms in range(12):
            now["ms"] = ms
            if one.strikes(ms * MS):
                out.append(ms)
        return out

    assert held() == [2, 3, 6, 7, 8]
    assert held(count=1) == [2, 6]
    assert held(duration=0.003) == [2, 3, 4, 6, 7, 8]
    assert held(at=0.003) == [3, 6, 7, 8], "before that nobody looks"
    assert held(until=0.007) == [2, 3, 6]


# -- what it says of itself


def test_it_says_when_an_activation_begins_and_ends_and_of_how_many_items() -> None:
    one = activity(at=0.002, duration=0.003)
    seen = []
    for ms in range(8):
        one.strikes(ms * MS)
        seen.append((one.begins, one.ended, one.ended_ns // MS))
    assert [ms for ms in range(8) if seen[ms][0]] == [2]
    assert [(ms, seen[ms][1:]) for ms in range(8) if seen[ms][1]] == [(5, (3, 5))]
    counted = activity(at=0.002, count=2)
    assert struck(counted, range(2, 4)) == [2, 3]
    assert (counted.ended, counted.ended_ns, counted.items) == (2, 3 * MS, 2)


@pytest.mark.parametrize(
    ("entries", "over"),
    [
        ({"duration": 0.003}, 5),  # its time was over before the item that was asked for
        ({"until": 0.004}, 4),
        ({"duration": 0.003, "until": 0.004}, 4),
        ({"duration": 0.02, "until": 0.004}, 4),
    ],
)
def test_it_was_over_when_its_time_was(entries: dict[str, Any], over: int) -> None:
    one = activity(at=0.002, **entries)
    assert one.strikes(2 * MS)
    assert not one.strikes(9 * MS)
    assert (one.ended, one.ended_ns) == (1, over * MS)


# -- by command


def test_a_command_begins_one_and_its_own_trigger_does_not_end_it() -> None:
    one = activity(at=0.002, until=0.004)
    assert struck(one, range(6)) == [2, 3]
    one.start(6 * MS)
    assert struck(one, range(7, 10)) == [7, 8, 9]
    assert (one.since, one.by_hand) == (6 * MS, True)
    one.clear()
    assert struck(one, range(10, 13)) == []
    assert (one.cleared, one.by_hand) == (True, False)
    one.start(13 * MS)
    assert struck(one, range(13, 15)) == [13, 14]
    assert one.activations == 3


def test_one_that_is_under_way_is_not_begun_again() -> None:
    one = activity(count=3)
    assert one.strikes(0)
    one.start(1 * MS)
    assert struck(one, range(1, 6)) == [1, 2]
    assert one.activations == 1


def test_one_by_command_lasts_as_long_as_it_says() -> None:
    for entries, expected in (({"duration": 0.002}, [5, 6]), ({"count": 3}, [5, 6, 7])):
        one = activity(at=9, **entries)
        one.start(5 * MS)
        assert struck(one, range(5, 12)) == expected


def test_what_is_cleared_before_it_was_asked_for_does_not_begin() -> None:
    one = activity(at=0.005)
    one.start(1 * MS)
    one.clear()
    assert struck(one, range(1, 9)) == []


# -- when to look again


@pytest.mark.parametrize(
    ("entries", "edges"),
    [
        ({"at": 0.004}, [4]),
        ({"at": 0.004, "until": 0.009}, [4, 9]),
        ({"until": 0.009}, [9]),
        ({"every": 0.004, "count": 1}, [4, 8, 12, 16]),
        ({"every": 0.004, "at": 0.001, "count": 1, "until": 0.007}, [1, 5, 7, 9, 13, 17]),
        ({"at": 0.004, "duration": 0.003}, [4]),
    ],
)
def test_its_edges(entries: dict[str, Any], edges: list[int]) -> None:
    one, ns, found = activity(**entries), -1, []
    while (ns := one.next_edge(ns)) < 18 * MS:
        found.append(ns // MS)
    assert [ms for ms in found if ms > 0] == edges


def test_the_end_of_an_activation_is_an_edge() -> None:
    one = activity(at=0.004, duration=0.003)
    assert one.strikes(5 * MS)
    assert one.next_edge(5 * MS) == 7 * MS
    assert one.next_edge(7 * MS) == FAR_NS


# -- what is kept


@pytest.mark.parametrize(
    "entries",
    [
        {"at": 0.004, "duration": 0.004},
        {"at": 0.004, "count": 5},
        {"every": 0.003, "count": 2},
        {"until": 0.008},
        {"when": "p.x > 0"},
    ],
)
def test_one_that_was_saved_goes_on_as_if_nothing_was(entries: dict[str, Any]) -> None:
    now = {"ms": 0}

    def made() -> Activity:
        holds = (lambda: 3 <= now["ms"] < 9) if "when" in entries else None
        return activity(holds=holds, **entries)

    def told(one: Activity, ms: int) -> tuple[Any, ...]:
        now["ms"] = ms
        found = one.strikes(ms * MS)
        return found, one.begins, one.ended, one.since, one.items, one.activations

    for cut in range(1, 12):
        whole, gone_on = made(), made()
        for ms in range(cut):
            told(whole, ms)
        gone_on.restore(json.loads(json.dumps(whole.save())))
        assert [told(whole, ms) for ms in range(cut, 14)] == [
            told(gone_on, ms) for ms in range(cut, 14)
        ]


def test_one_that_nothing_was_asked_of_has_done_nothing() -> None:
    one = activity()
    assert one.save() == {
        "began": -1, "since": 0, "items": 0, "activations": 0, "held": False, "taken": -1,
        "by_hand": [-1, False, False],
    }  # fmt: skip
    assert (one.begins, one.ended, one.ended_ns) == (False, 0, 0)


def test_commands_are_kept_too() -> None:
    for orders in (["start"], ["start", "clear"], ["clear"]):
        one, other = activity(at=9), activity(at=9)
        for order in orders:
            one.start(3 * MS) if order == "start" else one.clear()
        other.restore(json.loads(json.dumps(one.save())))
        assert struck(one, range(4, 8)) == struck(other, range(4, 8))
        assert one.save() == other.save()


# -- messages


class Link:
    """Messages of a link with faults, and the events that it tells."""

    def __init__(self, *faults: Fault, inner: LatencyModel | None = None) -> None:
        self.present = Present()
        self.told: list[tuple[Tag, str, str, dict[str, float]]] = []
        self.present.event = lambda tag, kind, source, text, values: self.told.append(
            (tag, kind, f"{source}: {text}", values)
        )
        at_work = [KINDS[one.kind.name](Activity(one, stream())) for one in faults]
        self.transport = FaultyTransport(inner or Fixed("0.010"), at_work, self.present)

    def send(self, ms: int) -> tuple[int, ...]:
        self.present.ns = ms * MS
        return self.transport.delays(np.random.default_rng(1), 8)


def named(name: str, kind: str, **entries: Any) -> Fault:
    return fault_of({"name": name, "where": "link", "kind": kind, **entries})


@pytest.mark.parametrize(
    ("kind", "entries", "delays"),
    [
        ("drop", {}, ()),
        ("burst", {"length": 1}, ()),
        ("delay", {"delay": 0.003}, (13 * MS,)),
        ("duplicate", {}, (10 * MS, 10 * MS)),
        ("duplicate", {"gap": 0.002}, (10 * MS, 12 * MS)),
        ("reorder", {"extra": 0.005}, (15 * MS,)),
    ],
)
def test_what_becomes_of_a_message(
    kind: str, entries: dict[str, float], delays: tuple[int, ...]
) -> None:
    link = Link(named("f", kind, at=0.002, **entries))
    assert link.send(1) == (10 * MS,)
    assert link.send(2) == delays


def test_faults_act_one_after_the_other() -> None:
    slow, twice = named("a", "delay", delay=0.003), named("b", "duplicate", gap=0.002)
    assert Link(slow, twice).send(0) == (13 * MS, 15 * MS)
    assert Link(twice, slow).send(0) == (13 * MS, 15 * MS)
    assert Link(named("a", "drop"), twice).send(0) == ()


@pytest.mark.parametrize("inner", [Fixed(0), Reorder(Fixed(0), 0.5, 1)])
def test_only_a_message_that_is_held_back_gives_up_its_place(inner: LatencyModel) -> None:
    held = named("f", "reorder", extra=0.005, at=0.002, count=1)
    link = Link(held, named("g", "delay", delay=0.1), inner=inner)
    assert link.transport.ordered is inner.ordered
    for ms, ordered in ((1, True), (2, False), (3, True)):
        link.send(ms)
        assert link.transport.ordered is (ordered and inner.ordered)


def test_what_is_told_of_an_activation() -> None:
    link = Link(named("f", "delay", delay=0.003, at=0.002, duration=0.002))
    for ms in range(6):
        link.send(ms)
    begun, ended = link.told
    assert begun[:3] == (Tag(2 * MS), "Fault", "f: delay at link: message 2 takes longer")
    assert begun[3] == {
        "sequence": 2.0, "copies": 1.0, "delay": 0.013, "delay without it": 0.010,
    }  # fmt: skip
    assert ended == (Tag(4 * MS), "FaultEnded", "f: delay at link is over", {"items": 2.0})


def test_what_is_told_of_one_that_is_lost_and_of_one_that_was_lost_already() -> None:
    link = Link(named("f", "drop", count=1), named("g", "duplicate", count=1))
    link.send(0)
    assert [values for *_, values in link.told] == [
        {"sequence": 0.0, "copies": 0.0, "delay without it": 0.010},
        {"sequence": 0.0, "copies": 0.0},
    ]


def test_the_number_of_a_message_is_kept() -> None:
    one, other = (Link(named("f", "drop", at=0.003, count=1)) for _ in range(2))
    for ms in range(3):
        one.send(ms)
    other.transport.restore(json.loads(json.dumps(one.transport.save())))
    assert [one.send(3), one.send(4)] == [other.send(3), other.send(4)] == [(), (10 * MS,)]
    assert one.told == other.told
    assert other.told[0][3]["sequence"] == 3.0


EXACT = {kind.name: kind for kind in SIGNAL_KINDS}
OF_LOOP = {kind.name: kind for kind in LOOP_KINDS}


class Said(Present):
    """Keeps what is said of faults."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[Any, ...]] = []

    def began(self, exact: Any, ns: int, text: str, values: Any) -> None:
        self.said.append((exact.name, ns, text, dict(values)))

    def ended(self, exact: Any, ns: int, items: int) -> None:
        self.said.append((exact.name, ns, items))


class Strikes:
    """An activity that strikes from ``since`` on, up to before ``until``."""

    begins = False
    ended = 0
    ended_ns = -1

    def __init__(
        self, since: int, until: int, name: str = "f", signal: str = "", **parameters: Any
    ) -> None:
        self.since, self.until = since, until
        self.fault = SimpleNamespace(name=name, signal=signal, parameters=parameters)
        self.stream = np.random.Generator(np.random.Philox(1))
        self.asked: list[int] = []
        self.kept: dict[str, int] = {"a": 1}

    def strikes(self, ns: int) -> bool:
        self.asked.append(ns)
        self.begins = ns == self.since
        self.ended, self.ended_ns = (2, ns) if ns == self.until else (0, -1)
        return self.since <= ns < self.until

    def save(self) -> dict[str, int]:
        return self.kept

    def restore(self, saved: dict[str, int]) -> None:
        self.kept = saved


def exact(kind: str, size: int = 1, **parameters: Any) -> tuple[SignalFault, Any, Said]:
    """From 10 to before 30."""
    activity: Any = Strikes(10, 30, **parameters)
    said = Said()
    columns = tuple(f"v{i}" for i in range(size))
    return EXACT[kind](activity, said, columns), activity, said


def read(one: SignalFault, ns: int, *value: float) -> list[float]:
    """What is read at an item, of this value."""
    out = np.array(value)
    one.item(ns, out.copy())
    one.spoil(out)
    return list(map(float, out))


@pytest.mark.parametrize(
    ("kind", "parameters", "first", "second"),
    [
        ("stuck", {}, 5.0, 5.0),
        ("stuck", {"value": 2.0}, 2.0, 2.0),
        ("offset", {"amount": -1.5}, 3.5, 4.5),
        ("scale", {"factor": 3.0}, 15.0, 18.0),
        ("drift", {"rate": 1e9}, 5.0, 16.0),
        ("quantised", {"step": 4.0}, 4.0, 8.0),
        ("nan", {}, math.nan, math.nan),
    ],
)
def test_each_kind_from_its_first_item_to_its_last(
    kind: str, parameters: dict[str, Any], first: float, second: float
) -> None:
    one, _, said = exact(kind, **parameters)
    assert read(one, 9, 5.0) == [5.0]
    assert read(one, 10, 5.0) == pytest.approx([first], nan_ok=True)
    assert read(one, 20, 6.0) == pytest.approx([second], nan_ok=True)
    assert read(one, 30, 7.0) == [7.0]
    began, ended = said.said
    assert began[:3] == ("f", 10, f"v0 5 is read as {first:g}")
    assert began[3] == pytest.approx({"v0": 5.0, "v0, as read": first}, nan_ok=True)
    assert ended == ("f", 30, 2)


def test_noise_is_what_the_stream_draws_at_each_item() -> None:
    one, _, _ = exact("noise", size=2, deviation=0.5)
    drawn = np.random.Generator(np.random.Philox(1)).standard_normal((2, 2))
    assert read(one, 10, 1.0, 2.0) == [1.0 + 0.5 * drawn[0, 0], 2.0 + 0.5 * drawn[0, 1]]
    assert read(one, 20, 1.0, 2.0) == [1.0 + 0.5 * drawn[1, 0], 2.0 + 0.5 * drawn[1, 1]]


def test_an_instant_is_one_item_however_often_it_is_read() -> None:
    one, activity, said = exact("stuck")
    for ns in (0, 10, 10, 15, 15, 15):
        read(one, ns, float(ns))
    assert activity.asked == [0, 10, 15]
    assert read(one, 15, 99.0) == [10.0], "what the first item found"
    assert len(said.said) == 1


@pytest.mark.parametrize(("size", "told"), [(1, 1), (2, 2), (8, 8), (9, 8)])
def test_eight_elements_are_told_and_how_many_more_there_are(size: int, told: int) -> None:
    one, _, said = exact("offset", size=size, amount=1.0)
    read(one, 10, *map(float, range(size)))
    ((_, _, text, values),) = said.said
    assert MOST_TOLD == 8
    assert len(values) == 2 * told
    assert text == "v0 0 is read as 1" + (f", and {size - 1} more" if size > 1 else "")


def test_one_that_ends_in_the_item_that_it_strikes_is_said_to_begin_first() -> None:
    one, activity, said = exact("offset", amount=1.0)
    activity.until = 99
    strikes = activity.strikes

    def once(ns: int) -> bool:
        struck: bool = strikes(ns)
        activity.ended, activity.ended_ns = 1, ns
        return struck

    activity.strikes = once
    assert read(one, 10, 1.0) == [2.0]
    assert [entry[2] for entry in said.said] == ["v0 1 is read as 2", 1]


def test_what_was_drawn_is_restored() -> None:
    one, _, _ = exact("stuck", size=2)
    read(one, 10, 1.0, 2.0)
    saved = one.save()
    assert saved == {"activity": {"a": 1}, "drawn": [1.0, 2.0], "active": True, "ns": 10}
    other, activity, _ = exact("stuck", size=2)
    other.restore({**saved, "activity": {"a": 7}})
    assert activity.kept == {"a": 7}
    assert read(other, 10, 8.0, 9.0) == [1.0, 2.0], "the same item"
    assert activity.asked == []
    fresh, _, _ = exact("stuck")
    assert fresh.save() == {"activity": {"a": 1}, "drawn": [0.0], "active": False, "ns": -1}


def test_drift_and_noise_change_though_nothing_else_does() -> None:
    assert {kind for kind, one in EXACT.items() if one.changes_alone} == {"drift", "noise"}


# -- of the loop


def of_loop(
    since: int, until: int, kind: str, signal: str = "", **parameters: Any
) -> tuple[LoopFault, Any]:
    """From ``since`` to before ``until``, and its activity."""
    activity: Any = Strikes(since, until, kind, signal, **parameters)
    return OF_LOOP[kind](activity), activity


def loop(*faults: LoopFault, tasks: tuple[str, ...] = ("law", "other")) -> tuple[LoopFaults, Said]:
    said = Said()
    return LoopFaults(faults, said, tasks), said


def test_each_fault_of_the_loop_acts_where_it_is_of() -> None:
    made = [of_loop(0, 9, kind, "job")[0] for kind in ("stall", "late_wake", "slow_job", "load")]
    lost, _ = of_loop(0, 9, "lost_tick", "law")
    faults, _ = loop(*made, lost)
    stall, wake, slow, load = made
    assert faults.frames == [stall, load]
    assert faults.wakes == [wake]
    assert dict(faults.jobs) == {"job": [slow]}
    assert faults.late == [one.fault for one in made]
    assert faults.loses
    assert not loop(*made)[0].loses
    assert not faults.told_again


def test_a_stall_takes_its_amount_of_each_item_and_says_so_once() -> None:
    stall, _ = of_loop(10, 30, "stall", amount=3.0 * MS)
    faults, said = loop(stall)
    assert [faults.takes(stall, ns) for ns in (9, 10, 20, 30)] == [0, 3 * MS, 3 * MS, 0]
    assert said.said == [
        ("stall", 10, "the loop stands still for 3 ms", {"amount": 0.003}),
        ("stall", 30, 2),
    ]


def test_a_load_takes_what_the_stream_draws_up_to_its_amount() -> None:
    load, _ = of_loop(0, 10**9, "load", amount=3.0)
    faults, said = loop(load)
    taken = {faults.takes(load, ns) for ns in range(200)}
    assert taken == {0, 1, 2, 3}
    assert len(said.said) == 1


def test_a_tick_is_lost_of_its_task_or_of_all_and_never_a_faults_own() -> None:
    one, _ = of_loop(10, 30, "lost_tick", "law")
    every, items = of_loop(20, 30, "lost_tick")
    faults, said = loop(one, every)
    assert [faults.lose("law", ns) for ns in (9, 10, 20, 30)] == [False, True, True, False]
    assert said.said == [
        ("lost_tick", 10, "law does not tick", {}), ("lost_tick", 20, "law does not tick", {}),
        ("lost_tick", 30, 2), ("lost_tick", 30, 2),
    ]  # fmt: skip
    assert [faults.lose("other", ns) for ns in (10, 20, 30)] == [False, True, False]
    asked = len(items.asked)
    assert not faults.lose("fault.f", 25)
    assert len(items.asked) == asked, "it is no item"


def test_faults_of_the_loop_are_restored_with_as_many_as_there_are() -> None:
    (stall, one), (load, two) = of_loop(0, 9, "stall"), of_loop(0, 9, "load")
    faults, _ = loop(stall, load)
    assert faults.save() == [{"a": 1}, {"a": 1}]
    faults.restore([{"b": 1}, {"b": 2}])
    assert (one.kept, two.kept) == ({"b": 1}, {"b": 2})
    with pytest.raises(ValueError, match="zip"):
        faults.restore([{"b": 1}])


LAW = "controller=firmware/core/unstable_control.toml:single"
LOST = {"name": "lost", "where": "controller", "kind": "drop", "at": 0.5, "count": 2}
BYTES = {"name": "bytes", "where": "controller.to_board", "kind": "silence"}
FAR = {"name": "far", "where": "controller", "kind": "drop", "at": 100.0, "count": 1}
ROW = ["lost", "drop", "controller", "1"]


def chain_of(folder: Path, *faults: Mapping[str, object]) -> ComparisonChain:
    spoiled = scenario()
    spoiled.faults(*faults)
    stages = [
        Stage("host C", {"controller": Host(controller(), as_float)}),
        Stage("board", {"controller": FakeBoard(controller(), as_float, folder)}),
    ]
    return compare_chain(spoiled, stages, ComparisonRequest(until=1))


def shown(result: ComparisonChain) -> str:
    out = Console(width=100, file=io.StringIO(), highlight=False)
    out.print(Tables(result), crop=False)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_table_says_what_each_did_in_the_flight_with_the_board(tmp_path: Path) -> None:
    result = chain_of(tmp_path, LOST, BYTES, FAR)
    text, page = shown(result), render(result)
    assert "Faults in the run with the board" in text
    assert ROW in [line.split() for line in text.splitlines()]
    for told in (text, page):
        assert "these faults have no effect here: bytes (controller has no line here" in told
        assert "these faults never acted in this run: far" in told
    cells = "<td>lost</td><td>drop</td><td>controller</td>"
    assert cells in page.partition("<h2>Faults</h2>")[2]


class Broken(FakeBoard):
    """Of the flight: fails at its step 5."""

    def fresh(self) -> FakeBoard:
        out = Broken(self.law, self.change, self.folder)
        out.board = out.greeting
        return out

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        if self.step == 5:
            raise ControllerError("the supply is gone")
        return super().receive(tag, patience)


def test_what_ended_a_flight_is_told_once(tmp_path: Path) -> None:
    board = {"controller": FakeBoard(controller(), as_float, tmp_path)}
    broken = {"controller": Broken(controller(), as_float, tmp_path)}
    host = Stage("host C", {"controller": Host(controller(), as_float)})
    stages = [host, Stage("board", board, broken)]
    result = compare_chain(scenario(), stages, ComparisonRequest(until=1))
    told, page = shown(result), render(result)
    assert told.count("the supply is gone") == 1
    assert page.count("the supply is gone") == 2, "in the verdict, and in its section"
    assert "this was the scenario's controller 'controller'" in told
    assert "so the closed loop causes the difference: the run ended early, at 0.5 s" in " ".join(
        told.split()
    )
    assert "11 steps on the same inputs, all answered." in page


def test_without_faults_nothing_is_told_of_them(tmp_path: Path) -> None:
    result = chain_of(tmp_path)
    assert "Faults" not in shown(result)
    assert "<h2>Faults" not in render(result)


def compare(folder: Path, text: str, *options: str) -> Result:
    (folder / "faults.toml").write_text(text)
    line = ["sil", "test", "unstable", "-c", LAW, "--until", "1"]
    return CliRunner().invoke(main, [*line, "--faults", str(folder / "faults.toml"), *options])


@pytest.mark.sample(1)
@pytest.mark.parametrize(("at", "count"), [(0.5, 1), (100.0, 0)])
def test_strict_is_a_no_where_a_fault_never_acted(tmp_path: Path, at: float, count: int) -> None:
    text = f'[[fault]]\nname = "lost"\nwhere = "controller"\nkind = "drop"\nat = {at}\ncount = 2\n'
    done = compare(tmp_path, text, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["faults"]["lost"]["activations"] == count
    assert compare(tmp_path, text, "--strict").exit_code == 1 - count
