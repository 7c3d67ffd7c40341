"""docs/semantics.md: controllers that live outside and are late, fail, or fail while late."""

from __future__ import annotations

import json
from copy import copy

import numpy as np
import pytest
from semantics_parts import MS, U

from rtsim.components.latency import Fixed
from rtsim.core.errors import ControllerError, RtsimError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.executive import Executive
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.timing.pacing import Pacer

DIES, UNSENT = "dies", "unsent"
Said = float | str | None


class Outside:
    """Says what it was told to: for each request what comes each time it is asked.

    A number is an answer, ``None`` nothing yet, ``DIES`` an error; ``UNSENT`` as the first fails
    when it is sent.  Requests that nothing is told of answer their number.
    """

    inputs, outputs, outside = U, Signals("y [1]"), True

    def __init__(self, script: dict[int, list[Said]]) -> None:
        self.script = script
        self.number = 0
        self.left: list[Said] = []
        self.closed = False

    def fresh(self) -> Outside:
        out = copy(self)
        out.script = {k: list(v) for k, v in self.script.items()}
        return out

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        assert not self.closed, "nobody speaks to a dead one"
        self.left = self.script.get(self.number, [float(self.number)])
        self.number += 1
        if self.left == [UNSENT]:
            raise ControllerError("takes no request")

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        assert not self.closed, "nobody asks a dead one"
        said = self.left.pop(0)
        if said == DIES:
            raise ControllerError(f"died of {tag}")
        return None if said is None else np.array([said])

    def close(self) -> None:
        self.closed = True


def scenario_of(
    script: dict[int, list[Said]], failure: str, late: str, allowed_ms: int
) -> Scenario:
    """Asked each 10 ms for 60 ms; beside it somebody who reads it and speaks at each tick too."""
    scenario = Scenario("outside", until=0.06)
    scenario.source("set", U)
    compute = Fixed(allowed_ms / 1000)
    scenario.controller(
        "c", Outside(script), period=0.01, inputs={"u": "set.u"}, compute=compute, late=late,
        failure=failure,
    )  # fmt: skip
    scenario.sensor("watch", {"y": "c.y"}, period=0.01)
    scenario.sensor("a_watch", {"y": "c.y"}, period=0.01)
    return scenario


def told(recording: Recording) -> list[tuple[int, str]]:
    return [(e.tag.ns // MS, e.kind) for e in recording.events]


def flown(scenario: Scenario, paced: bool) -> tuple[Recording, RtsimError | None]:
    recorder, error = MemoryRecorder(), None
    try:
        simulate(scenario, clock=FakeClock() if paced else None, recorder=recorder)
    except RtsimError as problem:
        error = problem
    return recorder.recording(), error


LATE, MISSED, DISCARDED, FAILED, ERROR = "Late", "Missed", "Discarded", "Failed", "Error"
DEAD_FROM_30 = [(30, MISSED), (40, MISSED), (50, MISSED), (60, MISSED)]
RUNS: dict[str, tuple[dict[int, list[Said]], str, str, int, list[tuple[int, str]]]] = {
    "dies at once": ({2: [DIES]}, "hold", "hold", 5, [(25, FAILED), *DEAD_FROM_30]),
    "dies where that is due at a tick": (
        {1: [DIES]}, "hold", "hold", 10, [(20, FAILED), (20, MISSED), *DEAD_FROM_30],
    ),
    "cannot be sent": ({2: [UNSENT]}, "hold", "hold", 5, [(25, FAILED), *DEAD_FROM_30]),
    "late, then dead at a tick": (
        {1: [None, DIES]}, "hold", "hold", 5,
        [(15, LATE), (20, FAILED), (20, MISSED), *DEAD_FROM_30],
    ),
    "late, busy, then dead at a tick": (
        {1: [None, None, DIES]}, "hold", "hold", 5,
        [(15, LATE), (20, MISSED), (30, FAILED), *DEAD_FROM_30],
    ),
    "late and discarded at one tick": (
        {1: [None, 9.0]}, "hold", "hold", 10, [(20, LATE), (20, DISCARDED)],
    ),
    "late, busy, discarded, then dead": (
        {1: [None, None, 9.0], 2: [DIES]}, "hold", "hold", 5,
        [(15, LATE), (20, MISSED), (30, DISCARDED), (35, FAILED), *DEAD_FROM_30[1:]],
    ),
    "too late, which is a failure": (
        {1: [None]}, "hold", "fail", 5, [(15, LATE), (15, FAILED), (20, MISSED), *DEAD_FROM_30],
    ),
    "stretched": ({1: [None, 9.0]}, "hold", "stretch", 5, [(15, LATE)]),
    "stretched in vain": (
        {1: [None, None]}, "hold", "stretch", 5,
        [(15, LATE), (15, FAILED), (20, MISSED), *DEAD_FROM_30],
    ),
    "not a number": (
        {1: [float("nan")]}, "hold", "hold", 5, [(15, FAILED), (20, MISSED), *DEAD_FROM_30],
    ),
    "ends the run": ({2: [DIES]}, "end", "hold", 5, [(20, ERROR)]),
    "cannot be sent, which ends the run": ({2: [UNSENT]}, "end", "hold", 5, [(20, ERROR)]),
    "late, then dead, which ends the run": (
        {1: [None, None, DIES]}, "end", "hold", 5, [(15, LATE), (20, MISSED), (20, ERROR)],
    ),
    "too late, which ends the run": ({1: [None]}, "end", "fail", 5, [(15, LATE), (10, ERROR)]),
}  # fmt: skip


@pytest.mark.rule("failed")
@pytest.mark.rule("replay")
@pytest.mark.parametrize("name", RUNS)
def test_what_is_recorded_and_replayed(name: str) -> None:
    script, failure, late, allowed_ms, wanted = RUNS[name]
    scenario = scenario_of(script, failure, late, allowed_ms)
    recording, error = flown(scenario, paced=True)
    assert told(recording) == wanted
    assert (error is None) == (failure == "hold")
    again = rerun(recording, scenario)
    assert compare_exact(recording, again) is None
    # What ended the run may be due after the last tag that is recorded.
    assert [one for one in told(again) if one[1] != ERROR] == [w for w in wanted if w[1] != ERROR]
    texts = [e.text for e in recording.events if e.kind not in (LATE, ERROR)]
    assert [e.text for e in again.events if e.kind not in (LATE, ERROR)] == texts


@pytest.mark.rule("failed")
def test_the_last_answer_holds() -> None:
    scenario = scenario_of({3: [DIES]}, "hold", "hold", 0)
    recording, error = flown(scenario, paced=False)
    assert error is None
    assert recording.messages["c"]["y"].tolist() == [0.0, 1.0, 2.0]
    assert recording.messages["watch"]["y"].tolist() == [0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    event = recording.events[0]
    assert (event.tag, event.kind, event.source) == (Tag(30 * MS), FAILED, "c")
    assert event.text == "died of 0.030000000 s"
    assert {e.text for e in recording.events[1:]} == {"c is dead: died of 0.030000000 s"}


@pytest.mark.rule("failed")
@pytest.mark.parametrize("allowed_ms", [0, 5, 10])
@pytest.mark.parametrize("script", [{2: [DIES]}, {2: [UNSENT]}], ids=[DIES, UNSENT])
def test_a_failure_that_ends_the_run_is_told_when_it_is_due(
    script: dict[int, list[Said]], allowed_ms: int
) -> None:
    scenario = scenario_of(script, "end", "hold", allowed_ms)
    recording, error = flown(scenario, paced=False)
    assert error is not None
    assert recording.track("messages/c.inputs").ns.tolist() == [0, 10 * MS, 20 * MS]
    assert compare_exact(recording, rerun(recording, scenario)) is None


# -- saved and restored ---------------------------------------------------------------------------


class Kept(Outside):
    """One whose memory can be saved."""

    def save(self) -> dict[str, object]:
        return {"number": self.number, "left": list(self.left)}

    def restore(self, saved: dict[str, object]) -> None:
        self.number, self.left = saved["number"], saved["left"]  # type: ignore[assignment]


@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.parametrize("at_ms", [12, 17, 22, 27, 32, 37])
@pytest.mark.parametrize(
    "script",
    [{1: [None, None, DIES]}, {1: [None, 9.0], 3: [DIES]}, {2: [UNSENT]}, {1: [DIES]}],
    ids=["late", "discarded", "unsent", "dead"],
)
def test_a_run_goes_on_from_where_it_was_saved(script: dict[int, list[Said]], at_ms: int) -> None:
    """A late request, a failure that is not told yet, a dead controller: all are kept."""

    def made() -> Scenario:
        scenario = scenario_of(script, "hold", "hold", 5)
        part = scenario.component("c")
        part.controller = Kept(script)  # type: ignore[attr-defined]
        return scenario

    whole, first = MemoryRecorder(), MemoryRecorder()
    Executive(made().build(0), Pacer(FakeClock()), whole, 60 * MS).run()
    system = made().build(0)
    Executive(system, Pacer(FakeClock()), first, at_ms * MS).run()
    kept = json.loads(json.dumps(system.save()))
    second, last = made().build(1), MemoryRecorder()
    second.restore(kept)
    Executive(second, Pacer(FakeClock()), last, 60 * MS).run()
    assert told(first.recording()) + told(last.recording()) == told(whole.recording())
    parts = [r.recording().messages["watch"]["y"].tolist() for r in (first, last, whole)]
    assert parts[0] + parts[1] == parts[2]


@pytest.mark.rule("saved-as-a-whole")
def test_a_memory_that_nobody_can_restore_is_refused() -> None:
    scenario = scenario_of({}, "hold", "hold", 5)
    system = scenario.build(0)
    start = json.loads(json.dumps(system.save()))
    Executive(system, Pacer(FakeClock()), MemoryRecorder(), 25 * MS).run()
    kept = json.loads(json.dumps(system.save()))
    with pytest.raises(
        ScenarioError, match=r"c \(\w+\) saved no memory, so the controller cannot be restored"
    ):
        scenario.build(0).restore(kept)
    scenario.build(0).restore(start)
