"""Scheduling requests: granted, refused, or not there, they never raise, and all is undone."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from rtsim.core.errors import ScenarioError
from rtsim.timing import scheduling
from rtsim.timing.scheduling import SchedulingRequest, probe, request, slice_ns


class Libc:
    """Stands in for the C library: remembers, and refuses what it is told to."""

    def __init__(self, refuse: tuple[str, ...] = ()) -> None:
        self.slack, self.locked, self.refuse = 50_000, 0, refuse

    def prctl(self, what: int, value: int, *_: int) -> int:
        if what == 30:
            return self.slack
        if "prctl" in self.refuse:
            return -1
        self.slack = value
        return 0

    def mlockall(self, flags: int) -> int:
        if "mlockall" in self.refuse:
            return -1
        self.locked = flags
        return 0

    def munlockall(self) -> int:
        self.locked = 0
        return 0


SLICE_NS = 1_400_000
GONE = 4


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A system that grants everything, and what it was told."""
    told: dict[str, Any] = {"libc": Libc(), "class": os.SCHED_OTHER, "priority": 0, "cpus": {0, 1}}
    told["slice"], told["others"] = SLICE_NS, {}

    def set_class(_pid: int, policy: int, parameters: os.sched_param) -> None:
        told["class"], told["priority"] = policy, parameters.sched_priority

    def place(pid: int, cpus: set[int]) -> None:
        if pid == GONE:
            raise ProcessLookupError
        if not cpus:
            raise OSError("on none")
        told.update(cpus=set(cpus)) if pid == 0 else told["others"].update({pid: set(cpus)})

    monkeypatch.setattr(scheduling, "_libc", lambda: told["libc"])
    monkeypatch.setattr(scheduling, "_may_lock_all", lambda: True)
    monkeypatch.setattr(scheduling, "slice_ns", lambda: told["slice"])
    monkeypatch.setattr(scheduling, "set_slice", lambda ns: told.update(slice=ns))
    monkeypatch.setattr(os, "sched_setscheduler", set_class)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _pid: told["class"])
    monkeypatch.setattr(os, "sched_getparam", lambda _pid: os.sched_param(told["priority"]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: told["cpus"])
    monkeypatch.setattr(os, "sched_setaffinity", place)
    yield told
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_plain_run_asks_for_what_harms_nobody(
    system: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[bool] = []
    monkeypatch.setattr(scheduling, "_collect", lambda: collected.append(gc.isenabled()))
    with request() as granted:
        assert collected == [True]
        assert granted.refused == ()
        assert [i.name for i in granted.items if i.asked != "no"] == [
            "timer slack",
            "time slice",
            "garbage collector",
        ]
        assert system["slice"] == 100_000
        assert granted["time slice"].granted == "100 us"
        assert granted["timer slack"].granted == "1 ns"
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        assert system["class"] == os.SCHED_OTHER
        assert system["libc"].locked == 0
    assert (system["libc"].slack, system["slice"]) == (50_000, SLICE_NS)


def test_a_system_without_slices_says_so(
    system: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "set_slice", lambda _ns: None)  # taken, and without effect
    with request() as granted:
        assert granted["time slice"].granted == "1400 us"
        assert "6.12" in granted["time slice"].reason

    def none() -> int:
        raise OSError("not available on plan9")

    monkeypatch.setattr(scheduling, "slice_ns", none)
    with request() as granted:
        assert granted["time slice"].reason == "not available on plan9"
        assert granted["time slice"].granted == "system default"
    assert system["slice"] == SLICE_NS


def test_a_window_asks_for_a_long_slice_so_that_the_loop_takes_over(system: dict[str, Any]) -> None:
    with request(SchedulingRequest.beside()) as granted:
        assert granted.refused == ()
        assert granted["timer slack"].granted == "1 ns"
        assert system["slice"] == 100_000_000
        assert granted["time slice"].granted == "100000 us"
    assert system["slice"] == SLICE_NS


@pytest.mark.parametrize("cpus", [{0, 1}, {2, 7}])
def test_of_two_cpus_the_loop_has_one_and_its_window_the_other(
    system: dict[str, Any], cpus: set[int]
) -> None:
    system["cpus"] = cpus
    loop, window = SchedulingRequest.watched(), SchedulingRequest.window()
    with request(loop) as granted:
        assert granted.refused == ()
        assert (system["cpus"], system["slice"]) == ({max(cpus)}, 100_000)
    with request(window) as granted:
        assert granted.refused == ()
        assert (system["cpus"], system["slice"]) == ({min(cpus)}, 100_000_000)
        assert gc.isenabled()  # until the window is set up
    assert system["cpus"] == cpus


@pytest.mark.parametrize("cpus", [{0}, {0, 1, 2}, set(range(16))])
def test_of_one_cpu_or_many_nobody_is_given_one(system: dict[str, Any], cpus: set[int]) -> None:
    system["cpus"] = cpus
    for asked in (SchedulingRequest.watched(), SchedulingRequest.window()):
        with request(asked) as granted:
            assert granted["CPUs"].asked == "no"
            assert system["cpus"] == cpus


def test_who_writes_is_kept_off_a_cpu_that_is_asked_for(system: dict[str, Any]) -> None:
    writer, others = 77, system["others"]
    for asked in (SchedulingRequest.watched(), SchedulingRequest.realtime()):
        with request(asked, [GONE, writer]) as granted:
            assert granted.refused == ()
            assert (system["cpus"], others) == ({1}, {writer: {0}})
        assert (system["cpus"], others) == ({0, 1}, {writer: {0, 1}})
    others.clear()
    with request(SchedulingRequest(), [writer]):
        assert others == {}, "a plain run asks for no CPU"
    with request(SchedulingRequest(cpus=(0, 1)), [writer]):
        assert others == {}, "there is no other"


def test_where_threads_have_no_place_nobody_is_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS and Windows: a plain run asks for nothing that it cannot have."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for name in ("sched_getaffinity", "sched_setaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    assert SchedulingRequest.watched().cpus == SchedulingRequest.window().cpus == ()


def test_real_time_asks_for_everything_and_gives_it_back(system: dict[str, Any]) -> None:
    with request(SchedulingRequest.realtime()) as granted:
        assert granted.refused == ()
        assert granted["class"].granted == "SCHED_FIFO 50"
        assert system["class"] & os.SCHED_RESET_ON_FORK  # helpers must not inherit it
        assert system["cpus"] == {1}
        assert system["libc"].locked == 3
    assert (system["class"], system["cpus"]) == (os.SCHED_OTHER, {0, 1})
    assert (system["libc"].locked, system["libc"].slack) == (0, 50_000)


def test_all_is_given_back_after_an_error(system: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError), request(SchedulingRequest.realtime()):
        raise RuntimeError
    assert system["class"] == os.SCHED_OTHER
    assert system["libc"].locked == 0


def test_refusals_are_reported_with_what_to_type(
    system: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    system["libc"] = Libc(refuse=("mlockall", "prctl"))
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with request(SchedulingRequest.realtime()) as granted:
        assert {i.name for i in granted.refused} == {"timer slack", "memory", "class", "CPUs"}
        fifo = granted["class"]
        assert (fifo.asked, fifo.granted) == ("SCHED_FIFO 50", "SCHED_OTHER")
        assert fifo.reason == "Operation not permitted"
        assert "rtprio 50" in fifo.remedy
        assert "memlock unlimited" in granted["memory"].remedy
        assert "0, 1" in granted["CPUs"].remedy
        assert granted["timer slack"].granted == "50000 ns"
        console = Console(file=io.StringIO(), width=200)
        console.print(granted.table())
    assert len(granted.to_json()) == 6


def test_under_a_limit_memory_to_come_is_not_locked(
    system: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "_may_lock_all", lambda: False)
    with request(SchedulingRequest(lock_memory=True)) as granted:
        assert system["libc"].locked == 1  # MCL_FUTURE would make later allocations fail
        assert not granted["memory"].ok
        assert "only memory allocated so far" in granted["memory"].granted
    assert system["libc"].locked == 0


def test_fifo_is_refused_on_one_cpu(system: dict[str, Any]) -> None:
    system["cpus"] = {0}
    with request(SchedulingRequest.realtime()) as granted:
        assert not granted["class"].ok
        assert "one CPU" in granted["class"].reason
        assert system["class"] == os.SCHED_OTHER


def test_reset_on_fork_cannot_always_be_taken_back(
    system: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_class(_pid: int, policy: int, _parameters: os.sched_param) -> None:
        if not policy & os.SCHED_RESET_ON_FORK:
            raise PermissionError(1, "Operation not permitted")
        system["class"] = policy

    monkeypatch.setattr(os, "sched_setscheduler", set_class)
    with request(SchedulingRequest(fifo=10)) as granted:
        assert granted["class"].ok
    assert system["class"] == os.SCHED_OTHER | os.SCHED_RESET_ON_FORK


def test_on_another_platform_everything_degrades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "_libc", lambda: None)
    for name in ("setscheduler", "getscheduler", "getparam", "setaffinity", "getaffinity"):
        monkeypatch.delattr(os, f"sched_{name}")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    with request(SchedulingRequest.realtime()) as granted:
        assert {i.name for i in granted.refused} == {"timer slack", "memory", "class", "CPUs"}
        assert all("not available" in i.reason for i in granted.refused)
        assert granted["garbage collector"].ok
    with request() as granted:
        assert granted["class"].granted == "system default"


def test_a_collector_that_was_off_stays_off(system: dict[str, Any]) -> None:  # noqa: ARG001
    gc.disable()
    try:
        with request() as granted:
            assert granted["garbage collector"].ok
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.long
def test_this_machine_can_be_probed() -> None:
    before = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    assert len(probe().items) == 6
    assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == before


def test_a_slice_is_asked_of_this_system_and_given_back() -> None:
    try:
        before = slice_ns()
    except OSError as error:
        pytest.skip(str(error))
    with request() as granted:
        during = slice_ns()
    assert slice_ns() == before
    if granted["time slice"].ok:
        assert during == 100_000
        # what steps back does not keep what it inherited
        words = "from rtsim.timing import background, scheduling as s; s.set_slice(200_000);"
        words += "background.step_back(); print(s.slice_ns() != 200_000)"
        done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
        assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("fifo", [-1, 100])
def test_a_priority_that_does_not_exist_is_refused(fifo: int) -> None:
    with pytest.raises(ScenarioError, match="1 to 99"):
        SchedulingRequest(fifo=fifo)


def test_a_negative_cpu_is_refused() -> None:
    with pytest.raises(ScenarioError, match=">= 0"):
        SchedulingRequest(cpus=(-1,))
