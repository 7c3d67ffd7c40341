"""docs/semantics.md, **own-time**: controllers that are late by a clock of their own."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
import pytest
from semantics_parts import MS, U, rows

from rtsim.components.latency import Fixed
from rtsim.core.errors import ControllerError, RtsimError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock

LATE, MISSED, DISCARDED = "Late", "Missed", "Discarded"
FOREVER = 10**6


class Processor:
    """Takes so many ms of its own time for each request, and answers the request's number."""

    inputs, outputs, outside, own_time, silence = U, Signals("y [1]"), True, True, 5.0

    def __init__(self, takes_ms: Sequence[int]) -> None:
        self.takes_ms = takes_ms
        self.number = 0
        self.now_ns = self.done_ns = self.ahead_ns = 0
        self.calls: list[str] = []

    def fresh(self) -> Processor:
        out = copy(self)
        out.calls = self.calls = []
        return out

    def advance(self, tag: Tag) -> None:
        self.calls.append("advance")
        self.now_ns = max(self.now_ns, tag.ns)

    def anchor(self, tag: Tag) -> None:
        self.calls.append(f"anchor {tag.ns // MS}")
        self.now_ns = tag.ns

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self.calls.append("send")
        assert self.now_ns >= tag.ns, "its time was not brought up to the tag"
        takes = self.takes_ms[self.number] if self.number < len(self.takes_ms) else 1
        self.done_ns = self.now_ns + takes * MS
        self.number += 1

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        until = tag.ns + round(patience * NS_PER_S)
        self.now_ns = max(self.now_ns, min(until, self.done_ns))
        self.ahead_ns = max(self.ahead_ns, self.now_ns - tag.ns)
        return np.array([float(self.number)]) if self.done_ns <= until else None

    def close(self) -> None:
        self.calls.append("close")


def scenario_of(processor: Processor, allowed_ms: int, late: str = "hold") -> Scenario:
    """Asked each 10 ms for 60 ms."""
    scenario = Scenario("own time", until=0.06)
    scenario.source("set", U)
    scenario.controller(
        "c", processor, period=0.01, inputs={"u": "set.u"}, compute=Fixed(allowed_ms / 1000),
        late=late, failure="hold",
    )  # fmt: skip
    return scenario


def flown(scenario: Scenario, paced: bool) -> tuple[Recording, RtsimError | None]:
    recorder, error = MemoryRecorder(), None
    try:
        simulate(
            scenario, clock=FakeClock(late=[7, 0, 3] * 40) if paced else None, recorder=recorder
        )
    except RtsimError as problem:
        error = problem
    recording = recorder.recording()
    assert compare_exact(recording, rerun(recording, scenario)) is None
    return recording, error


def told(recording: Recording) -> list[tuple[int, str]]:
    return [(e.tag.ns // MS, e.kind) for e in recording.events]


RUNS: dict[str, tuple[tuple[int, ...], int, list[tuple[int, str]], list[int]]] = {
    "in time": ((5, 5, 5), 5, [], [0, 10, 20, 30, 40, 50]),
    "in time at the tick itself": ((10, 10), 10, [], [0, 10, 20, 30, 40, 50]),
    "late": ((5, 6), 5, [(15, LATE), (20, DISCARDED)], [0, 20, 30, 40, 50]),
    "late at the tick itself": ((5, 11), 10, [(20, LATE), (20, MISSED), (30, DISCARDED)],
                                [0, 30, 40, 50]),
    "late and busy": ((1, 25), 5, [(15, LATE), (20, MISSED), (30, MISSED), (40, DISCARDED)],
                      [0, 40, 50]),
    "late, there at a tick": ((1, 10), 5, [(15, LATE), (20, DISCARDED)], [0, 20, 30, 40, 50]),
}  # fmt: skip


@pytest.mark.rule("own-time")
@pytest.mark.parametrize("paced", [False, True], ids=["lockstep", "paced"])
@pytest.mark.parametrize("name", RUNS)
def test_late_is_what_its_own_time_says(name: str, paced: bool) -> None:
    """At any pace: this processor takes no time of the wall at all."""
    takes, allowed_ms, wanted, initiated = RUNS[name]
    recording, error = flown(scenario_of(Processor(takes), allowed_ms), paced)
    assert error is None
    assert told(recording) == wanted
    assert [row[0] // MS for row in rows(recording, "messages/c")] == initiated
    late = [e.values for e in recording.events if e.kind == LATE]
    assert late == [{"allowed": allowed_ms * MS, "actual": allowed_ms * MS}] * len(late)


@pytest.mark.rule("own-time")
def test_its_time_is_brought_up_to_each_tick_before_anything_else() -> None:
    processor = Processor((1, 25))
    flown(scenario_of(processor, 5), paced=False)
    busy = ["advance", "advance"]
    assert processor.calls == [*["advance", "send"] * 2, *busy, *["advance", "send"] * 3, "close"]


@pytest.mark.rule("own-time")
@pytest.mark.parametrize("paced", [False, True], ids=["lockstep", "paced"])
def test_with_no_latency_its_time_runs_ahead(paced: bool) -> None:
    """Whatever it costs: nobody is late, and what it is ahead of the tag adds up."""
    processor = Processor((25, 25))
    flying = processor.fresh()
    processor.fresh = lambda: flying  # type: ignore[method-assign]
    recording, error = flown(scenario_of(processor, 0), paced)
    assert error is None
    assert told(recording) == []
    assert [row[0] // MS for row in rows(recording, "messages/c")] == [0, 10, 20, 30, 40, 50, 60]
    assert flying.ahead_ns == 40 * MS, "25 ms of the first, 25 of the second, less one period"


@pytest.mark.rule("own-time")
def test_stretched_its_time_is_the_tags_again() -> None:
    processor = Processor((1, 25, 5))
    recording, error = flown(scenario_of(processor, 5, late="stretch"), paced=False)
    assert error is None
    assert told(recording) == [(15, LATE)]
    assert [row[0] // MS for row in rows(recording, "messages/c")] == [0, 10, 20, 30, 40, 50]
    assert [call for call in processor.calls if call.startswith("anchor")] == ["anchor 15"]


@pytest.mark.rule("own-time")
@pytest.mark.parametrize(("allowed_ms", "late"), [(0, "hold"), (5, "stretch"), (5, "fail")])
def test_one_that_never_answers(allowed_ms: int, late: str) -> None:
    recording, error = flown(scenario_of(Processor((1, FOREVER)), allowed_ms, late), paced=False)
    assert error is None
    failed = next(e for e in recording.events if e.kind == "Failed")
    assert failed.tag.ns == (10 + allowed_ms) * MS
    said = "no answer after 5000000 ns" if late == "fail" else "did not answer the request of"
    assert said in failed.text


def test_a_dead_one_is_not_spoken_to() -> None:
    class Dies(Processor):
        def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
            raise ControllerError("died")

    processor = Dies(())
    flown(scenario_of(processor, 5), paced=False)
    assert processor.calls[:3] == ["advance", "send", "close"]
    assert "advance" not in processor.calls[3:]
