"""A run that was told something goes on from a checkpoint with what it was told."""

from __future__ import annotations

import numpy as np
import pytest

from rtsim.core.signals import Signals, Vector
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import Command, PendingCommand
from rtsim.equations.model import Model
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import FedInputs, simulate
from rtsim.scenario.scenario import Scenario

MS = 1_000_000


def climb(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = p[0]


CLIMB = Model("climb", Signals("x [1]"), climb, parameters=Signals("k [1/s] = 1"))


def two_grids() -> Scenario:
    out = Scenario("two grids", until=0.06)
    out.plant("slow", CLIMB, step=0.01)
    out.plant("fast", CLIMB, step=0.003)
    return out


@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.rule("outside-inputs-latch")
@pytest.mark.parametrize("at", ["0.002", "0.0165", "0.0195", "0.0205", "0.033"])
def test_a_parameter_set_in_the_middle_of_a_step_acts_at_its_end(at: str) -> None:
    """No step is cut; a checkpoint in between knows what is still to come."""
    told = [
        PendingCommand(Command("set", {"target": f"{name}.k", "value": 5.0}), None, 14 * MS)
        for name in ("slow", "fast")
    ]
    recorder, ring = MemoryRecorder(), Ring(1)
    scenario, at_once = two_grids(), CheckpointSchedule(ring, at=[at])
    fed = FedInputs(commands=told)
    simulate(scenario, compile=False, fed=fed, recorder=recorder, checkpoints=at_once)
    whole = recorder.recording()
    for name, since in (("slow", 20), ("fast", 15)):
        ns, x = whole.time(name), whole[f"{name}.x"]
        after = np.where(ns > since * MS, 5.0, 1.0) * np.diff(ns, prepend=0) / 1e9
        assert np.allclose(x, np.cumsum(after))
        changed = [e.tag.ns // MS for e in whole.events if e.source == f"{name}.k"]
        assert changed == [since]
    assert compare_exact(whole, rerun(whole, scenario)) is None
    start = ring.before(10**9)
    assert start is not None
    assert bool(start.state["postponed"]) == (15 * MS <= start.ns < 20 * MS)
    rest = MemoryRecorder()
    still = [one for one in told if one.ns > start.ns]
    simulate(scenario, compile=False, start=start, recorder=rest, fed=FedInputs(commands=still))
    assert rest.recording().digest() == whole.since(start.rows).digest()


class Stick:
    """Says something at some of the tags at which it is asked."""

    def __init__(self, said: dict[int, float]) -> None:
        self.said = said
        self.asked = 0

    def poll(self) -> Vector | None:
        self.asked += 1
        value = self.said.get(self.asked - 1)
        return None if value is None else np.array([value])


def follow(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0]


FOLLOW = Model("follow", Signals("x [1]"), follow, inputs=Signals("u [1]"))


@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.rule("outside-inputs-latch")
@pytest.mark.parametrize("asked", range(1, 12))
def test_a_stick_that_moved_in_the_middle_of_a_step_is_still_heard_at_its_end(asked: int) -> None:
    scenario = Scenario("stick", until=0.06)
    scenario.external_input("stick", Signals("u [1]"), Stick({asked: 1.0, asked + 9: 2.0}))
    for name, step in (("slow", 0.01), ("fast", 0.003)):
        scenario.plant(name, FOLLOW, step=step, inputs={"u": "stick.u"})
    recorder, ring = MemoryRecorder(), Ring(1)
    taking = CheckpointSchedule(ring, at=[f"{ms}/1000" for ms in range(1, 58, 2)])
    simulate(scenario, compile=False, recorder=recorder, checkpoints=taking)
    whole = recorder.recording()
    starts = {c.ns: c for ms in range(1, 60) if (c := ring.before(ms * MS)) is not None}
    assert len(starts) > 15
    for start in starts.values():
        rest = whole.since(start.rows, start.events)
        assert compare_exact(rest, rerun(whole, scenario, start=start)) is None, start.tag
