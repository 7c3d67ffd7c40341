"""The loop: steps at once where nobody looks, where a run stands, and how it is ended.

One instant: external inputs, a message of a command, and who is told of the time taken.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from command_parts import Told
from controller_task_parts import Answers
from fault_parts import ramp
from pacing_parts import LaterClock

from rtsim.core.clock import Clock, VirtualClock
from rtsim.core.raised import ENDING, Interrupted
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import Inbox, PendingCommand, read_command
from rtsim.engine.executive import RECORDING_LOST, Executive
from rtsim.engine.microsteps import Microsteps
from rtsim.engine.system import Change, System
from rtsim.engine.trace import Trace
from rtsim.equations.model import Guard, Model
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Freeze


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -x[0]


DECAY = Model(name="decay", states=Signals("x"), derivative=derivative)


def alone(step: str, until: float) -> Scenario:
    """One plant and nothing else."""
    out = Scenario("alone", until=until)
    out.plant("plant", DECAY, step=step)
    return out


def below(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.5


class Counting(MemoryRecorder):
    """How often the loop came by."""

    pumps = 0

    def pump(self, wait: bool = True) -> None:
        self.pumps += 1
        super().pump(wait)


class Draws:
    """A viewer."""

    def publish(self, *_: object) -> None: ...
    def withdraw(self, plant: str) -> None: ...


def came_by(scenario: Scenario, **how: Any) -> tuple[int, int]:
    """How often the loop came back, and how many rows it recorded."""
    recorder = Counting()
    simulate(scenario, recorder=recorder, **how)
    return recorder.pumps, len(recorder.recording().track("plant").ns)


def test_steps_are_taken_at_once_where_nobody_looks_in_between() -> None:
    pumps, rows = came_by(alone("0.001", 1), engine="compiled")
    assert rows == 1001
    assert pumps < 50


def test_steps_are_taken_one_by_one_where_somebody_looks() -> None:
    pumps, rows = came_by(alone("0.001", 1), publisher=Draws())
    assert (pumps, rows) == (1000, 1001)


def test_the_certificate_says_why_a_run_with_a_viewer_is_interpreted() -> None:
    result = simulate(alone("0.01", 1), publisher=Draws(), engine="compiled")
    assert result.certificate.engine == "interpreted: a viewer gets each step"


@pytest.mark.parametrize(("until_ns", "at_once"), [(2**53 - 1, True), (2**53, False)])
def test_times_that_a_float_does_not_hold_are_taken_one_by_one(
    until_ns: int, at_once: bool
) -> None:
    system = alone("65536", 1e7).build()
    recorder = Counting()
    Executive(system, Pacer(VirtualClock()), recorder, until_ns).run()
    assert system.ns == until_ns
    assert (recorder.pumps < 50) is at_once
    assert recorder.pumps < 50 or recorder.pumps == 138


@pytest.mark.parametrize("plants", [1, 2])
def test_steps_of_two_plants_are_taken_one_by_one(plants: int) -> None:
    scenario = alone("0.001", 1)
    if plants == 2:
        scenario.plant("other", DECAY, step="0.001")
    assert (came_by(scenario, engine="interpreted")[0] == 1000) is (plants == 2)


def test_a_checkpoint_knows_the_rows_and_events_before_it() -> None:
    ring = Ring(10)
    recorder = MemoryRecorder()
    scenario = ramp(until=1.0)
    simulate(scenario, recorder=recorder, checkpoints=CheckpointSchedule(ring, at=["0.5"]))
    kept = ring.before(NS_PER_S)
    assert kept is not None
    recording = recorder.recording()
    before = {name: int((t.ns <= kept.ns).sum()) for name, t in recording.tracks.items()}
    assert kept.rows == {name: before[name] for name in kept.rows}
    assert kept.rows["ramp"] > 1
    assert kept.events == len([e for e in recording.events if e.tag.ns <= kept.ns]) == 0


def test_a_run_without_a_watch_begins_with_nothing_recorded() -> None:
    executive = Executive(
        alone("0.1", 1).build(compile=False), Pacer(VirtualClock()), MemoryRecorder(), NS_PER_S
    )
    assert executive.position()[1] == 0
    assert not any(executive.position()[0].values())
    assert executive.in_hand() is None, "nobody waits"
    executive.interrupt()
    assert executive.stopping == "interrupted"
    with pytest.raises(Interrupted):
        executive.interrupt()


@pytest.mark.parametrize("interpreted", [False, True])
def test_machine_code_is_loaded_before_the_first_tag_where_it_is_surely_used(
    interpreted: bool,
) -> None:
    scenario = alone("0.1", 1)
    if interpreted:
        scenario.controller("c", Answers(), period=0.1, inputs={"u": 0.0, "v": 0.0})
    system = scenario.build(compile=True)
    pacer = Pacer(VirtualClock())
    executive = Executive(system, pacer, MemoryRecorder(), NS_PER_S, engine="compiled")
    assert executive.compiled_engine is not None
    assert bool(executive.compiled_engine.interpreted) is interpreted
    assert (executive.compiled_engine._table is None) is interpreted


@pytest.mark.parametrize(("failure", "told"), [("", ""), ("too low", "plant.low: too low")])
def test_a_run_that_a_guard_ended_failed_only_where_the_guard_says_so(
    failure: str, told: str
) -> None:
    low = Guard("low", -1, terminal=True, failure=failure)
    scenario = Scenario("falls", until=1)
    scenario.plant("plant", replace(DECAY, guards=(low,), guard=below), states={"x": 1}, step="0.1")
    executive = Executive(
        scenario.build(compile=False), Pacer(VirtualClock()), MemoryRecorder(), NS_PER_S
    )
    executive.run()
    assert (executive.ended_by, executive.failure) == ("plant.low", told)


def test_a_recording_that_is_lost_ends_the_run_where_that_was_asked_for() -> None:
    def lost(end: bool, stopping: str = "") -> tuple[str, str]:
        system = alone("0.1", 1).build(compile=False)
        executive = Executive(system, Pacer(VirtualClock()), MemoryRecorder(), NS_PER_S)
        executive.stopping = stopping
        return executive.lose_recording("the disk is full", 0, end), executive.stopping

    since = "after 0.000000000 s: the disk is full"
    assert lost(False) == (since, "")
    assert lost(True) == (since, RECORDING_LOST)
    assert lost(True, "interrupted") == (since, "interrupted"), "it ends for that already"


@pytest.mark.parametrize("engine", ["interpreted", "auto"])
def test_no_tag_begins_before_it_is_due(engine: str) -> None:
    clock = LaterClock(1_900_000)
    early: list[int] = []

    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        early.append(clock.wall(round(t * NS_PER_S)) - clock.now())
        y[0] = u[0]

    simulate(ramp(law, step=0.01), until=0.5, pace=1.0, clock=clock, engine=engine, compile=False)
    assert len(early) >= 5
    assert max(early) == 0


class Signalled(Inbox):
    """Sends one signal to this process while the paused run waits for a command."""

    def __init__(self, number: int, *kinds: Told) -> None:
        super().__init__([PendingCommand(read_command(told)) for told in kinds])
        self._number, self.waits = number, 0

    def wait(self, seconds: float) -> None:  # noqa: ARG002
        self.waits += 1
        assert self.waits == 1, "the first signal did not end the pause"
        signal.raise_signal(self._number)


ENDS = (
    ({"kind": "pause"}, 0.0),
    ({"kind": "step", "tags": 3}, 0.2),
    ({"kind": "step", "duration": 0.25}, 0.2),
)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize(("told", "paused"), ENDS)
@pytest.mark.parametrize("clock", [VirtualClock, FakeClock])
def test_a_single_signal_ends_a_paused_run(
    clock: Callable[[], Clock], told: Told, paused: float, number: int
) -> None:
    inbox = Signalled(number, told)
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP, and so would the run
    try:
        result = simulate(ramp(step=0.1), until=10.0, pace=1.0, clock=clock(), inbox=inbox)
    finally:
        signal.signal(number, before)
    assert (result.reason, inbox.waits) == ("interrupted", 1)
    assert result.ended.ns == pytest.approx(paused * NS_PER_S, abs=NS_PER_S // 10)
    assert result.certificate.holds == 1


def test_a_single_signal_ends_a_run_frozen_by_an_overrun() -> None:
    inbox = Signalled(ENDING[0])
    pace = Pace(1.0, Freeze(30.0))
    clock = FakeClock(late=[50_000_000])
    result = simulate(ramp(step=0.1), until=10.0, pace=pace, clock=clock, inbox=inbox)
    assert (result.reason, result.ended.ns, inbox.waits) == ("interrupted", 0, 1)


def test_a_run_that_starts_paused_ends_at_the_first_signal() -> None:
    inbox = Signalled(ENDING[1])
    inbox.standing = True
    result = simulate(ramp(step=0.1), until=10.0, inbox=inbox)
    assert (result.reason, result.ended.ns, inbox.waits) == ("interrupted", 0, 1)


Latch = Callable[[Tag], list[Change]]


class Says:
    """A device that says ``values`` one after the other, then nothing more."""

    def __init__(self, *values: float | None) -> None:
        self.left = list(values)

    def poll(self) -> Vector | None:
        said = self.left.pop(0) if self.left else None
        return None if said is None else np.array([said])


def lab() -> System:
    """Two external inputs and a sensor of the second one."""
    out = Scenario("lab", until=1)
    out.external_input("a", Signals("v [1]"), Says(None, 3.0))
    out.external_input("b", Signals("v [1]"), Says(5.0, None, 7.0))
    out.sensor("s", {"v": "b.v"}, period=0.5)
    return out.build()


class Stand:
    def __init__(self, clock: Clock | None = None, latch: Latch | None = None) -> None:
        self.system = lab()
        self.laps: list[str] = []
        clock = clock or VirtualClock()
        self.recorder = MemoryRecorder()
        trace = Trace(self.system, self.recorder, clock.paced)
        self.instant = Microsteps(
            self.system, trace, clock, lambda _: None, self.laps.append, latch
        )

    def at(self, ns: int, discrete: bool = False) -> tuple[float, float]:
        """What the external inputs hold after the instant at ``ns``."""
        self.instant.run(ns, discrete)
        return float(self.system.ports["a"].value[0]), float(self.system.ports["b"].value[0])


def test_an_external_input_without_news_hides_none_behind_it_and_keeps_its_value() -> None:
    one = Stand()
    assert [one.at(ns) for ns in (0, 10, 20, 30)] == [
        (0.0, 5.0), (3.0, 5.0), (3.0, 7.0), (3.0, 7.0),
    ]  # fmt: skip
    recording = one.recorder.recording()
    assert recording.track("inputs/a").ns.tolist() == [10]
    assert recording.track("inputs/b").ns.tolist() == [0, 20]


@pytest.mark.parametrize(("discrete", "messages"), [(False, 0), (True, 1)])
def test_without_a_discrete_instant_no_task_reacts(discrete: bool, messages: int) -> None:
    one = Stand()
    one.at(0, discrete)
    assert len(one.recorder.recording().track("messages/s")) == messages


def test_a_message_of_a_command_is_delivered_at_its_tag_where_nothing_else_happens() -> None:
    def injects(tag: Tag) -> list[Change]:
        one.system.bus.inject("s", tag, np.array([9.0]))
        return []

    one = Stand(latch=injects)
    one.at(10)
    assert one.system.ports["s"].value.tolist() == [9.0]


@pytest.mark.parametrize(
    ("clock", "latch", "laps"),
    [
        (VirtualClock(), None, []),
        (VirtualClock(), lambda _: [], ["s"]),
        (FakeClock(), None, ["s"]),
        (FakeClock(), lambda _: [], ["s"]),
    ],
)
def test_the_time_of_each_task_is_told_where_a_clock_paces_or_a_command_may_pace(
    clock: Clock, latch: Latch | None, laps: list[str]
) -> None:
    one = Stand(clock, latch)
    one.at(0, discrete=True)
    assert one.laps == laps
