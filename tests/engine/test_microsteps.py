"""One instant: external inputs, a message of a command, and who is told of the time taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rtsim.core.clock import Clock, VirtualClock
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.microsteps import Microsteps
from rtsim.engine.system import Change, System
from rtsim.engine.trace import Trace
from rtsim.record.recorders import MemoryRecorder
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock

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
    assert recording.time("inputs/a").tolist() == [10]
    assert recording.time("inputs/b").tolist() == [0, 20]


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
