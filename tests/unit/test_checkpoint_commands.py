"""A run that was told something goes on from a checkpoint with what it was told."""

from __future__ import annotations

import numpy as np
import pytest

from rtsim.checkpoint.taking import Ring, Taking
from rtsim.control.commands import Command
from rtsim.control.desk import Waiting
from rtsim.model import Model
from rtsim.record.exact import compare_exact
from rtsim.record.tape import MemoryRecorder
from rtsim.replay import rerun
from rtsim.scenario import Scenario
from rtsim.signals import Signals, Vector
from rtsim.simulation import Fed, simulate

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
        Waiting(Command("set", {"target": f"{name}.k", "value": 5.0}), None, 14 * MS)
        for name in ("slow", "fast")
    ]
    recorder, ring = MemoryRecorder(), Ring(1)
    scenario, at_once = two_grids(), Taking(ring, at=[at])
    fed = Fed(commands=told)
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
    simulate(scenario, compile=False, start=start, recorder=rest, fed=Fed(commands=still))
    assert rest.recording().digest() == whole.since(start.rows).digest()
