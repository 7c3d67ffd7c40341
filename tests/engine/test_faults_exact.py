"""Faults of signals and of the loop by themselves: each value, each item, and what is said."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rtsim.engine.faults.at_loop import LOOP_KINDS, LoopFault, LoopFaults
from rtsim.engine.faults.at_signals import MOST_TOLD, SIGNAL_KINDS, SignalFault
from rtsim.engine.faults.kind import Present

MS = 1_000_000
KINDS = {kind.name: kind for kind in SIGNAL_KINDS}
OF_LOOP = {kind.name: kind for kind in LOOP_KINDS}


class Said(Present):
    """Keeps what is said of faults."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[Any, ...]] = []

    def began(self, fault: Any, ns: int, text: str, values: Any) -> None:
        self.said.append((fault.name, ns, text, dict(values)))

    def ended(self, fault: Any, ns: int, items: int) -> None:
        self.said.append((fault.name, ns, items))


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


def fault(kind: str, size: int = 1, **parameters: Any) -> tuple[SignalFault, Any, Said]:
    """From 10 to before 30."""
    activity: Any = Strikes(10, 30, **parameters)
    said = Said()
    columns = tuple(f"v{i}" for i in range(size))
    return KINDS[kind](activity, said, columns), activity, said


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
    one, _, said = fault(kind, **parameters)
    assert read(one, 9, 5.0) == [5.0]
    assert read(one, 10, 5.0) == pytest.approx([first], nan_ok=True)
    assert read(one, 20, 6.0) == pytest.approx([second], nan_ok=True)
    assert read(one, 30, 7.0) == [7.0]
    began, ended = said.said
    assert began[:3] == ("f", 10, f"v0 5 is read as {first:g}")
    assert began[3] == pytest.approx({"v0": 5.0, "v0, as read": first}, nan_ok=True)
    assert ended == ("f", 30, 2)


def test_noise_is_what_the_stream_draws_at_each_item() -> None:
    one, _, _ = fault("noise", size=2, deviation=0.5)
    drawn = np.random.Generator(np.random.Philox(1)).standard_normal((2, 2))
    assert read(one, 10, 1.0, 2.0) == [1.0 + 0.5 * drawn[0, 0], 2.0 + 0.5 * drawn[0, 1]]
    assert read(one, 20, 1.0, 2.0) == [1.0 + 0.5 * drawn[1, 0], 2.0 + 0.5 * drawn[1, 1]]


def test_an_instant_is_one_item_however_often_it_is_read() -> None:
    one, activity, said = fault("stuck")
    for ns in (0, 10, 10, 15, 15, 15):
        read(one, ns, float(ns))
    assert activity.asked == [0, 10, 15]
    assert read(one, 15, 99.0) == [10.0], "what the first item found"
    assert len(said.said) == 1


@pytest.mark.parametrize(("size", "told"), [(1, 1), (2, 2), (8, 8), (9, 8)])
def test_eight_elements_are_told_and_how_many_more_there_are(size: int, told: int) -> None:
    one, _, said = fault("offset", size=size, amount=1.0)
    read(one, 10, *map(float, range(size)))
    ((_, _, text, values),) = said.said
    assert MOST_TOLD == 8
    assert len(values) == 2 * told
    assert text == "v0 0 is read as 1" + (f", and {size - 1} more" if size > 1 else "")


def test_one_that_ends_in_the_item_that_it_strikes_is_said_to_begin_first() -> None:
    one, activity, said = fault("offset", amount=1.0)
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
    one, _, _ = fault("stuck", size=2)
    read(one, 10, 1.0, 2.0)
    saved = one.save()
    assert saved == {"activity": {"a": 1}, "drawn": [1.0, 2.0], "active": True, "ns": 10}
    other, activity, _ = fault("stuck", size=2)
    other.restore({**saved, "activity": {"a": 7}})
    assert activity.kept == {"a": 7}
    assert read(other, 10, 8.0, 9.0) == [1.0, 2.0], "the same item"
    assert activity.asked == []
    fresh, _, _ = fault("stuck")
    assert fresh.save() == {"activity": {"a": 1}, "drawn": [0.0], "active": False, "ns": -1}


def test_drift_and_noise_change_though_nothing_else_does() -> None:
    assert {kind for kind, one in KINDS.items() if one.changes_alone} == {"drift", "noise"}


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
