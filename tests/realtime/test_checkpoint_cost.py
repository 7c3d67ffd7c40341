"""What taking a checkpoint costs a run: a small part of a frame, however long the run lasts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rtsim.components.controller import FedController
from rtsim.core.clock import stopwatch
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.loading import load_scenario

pytestmark = pytest.mark.realtime
_TIMES = 200


def quickest(work: Callable[[], object]) -> int:
    """Wall ns; the least of many is what the work itself takes, whoever else runs."""
    found = []
    for _ in range(_TIMES):
        began = stopwatch()
        work()
        found.append(stopwatch() - began)
    return min(found)


def test_taking_one_is_a_small_part_of_a_frame() -> None:
    """The F-16 with guidance and autopilot: a tenth of its shortest step, at most."""
    ring = Ring(10)
    outcome = simulate(load_scenario("f16"), until=2, checkpoints=CheckpointSchedule(ring, every=1))
    frame_ns = min(int(plant.step.ns) for plant in outcome.system.plants)
    assert quickest(outcome.system.save) < frame_ns / 10


def test_taking_one_does_not_cost_more_as_the_run_gets_longer() -> None:
    """What a controller outside was asked is handed over as it lies there, not copied."""
    costs = []
    for steps in (1_000, 200_000):
        controller = FedController(Signals("u [1]", "v [1]"), Signals("y [1]"), {})
        inputs = np.zeros(2)
        for k in range(steps):
            controller.send(Tag(k), inputs)
        costs.append(quickest(controller.save))
    assert costs[1] < 20 * costs[0]  # for 200 times the rows


def test_a_ring_in_real_time_keeps_what_it_is_told_to() -> None:
    ring = Ring(0.2)
    taking = CheckpointSchedule(ring, every=0.05)
    scenario = load_scenario("unstable")
    outcome = simulate(scenario, until=0.6, pace=Pace.of("1"), checkpoints=taking)
    assert outcome.ended.ns == 600_000_000
    assert taking.taken + taking.postponed >= 12
    found = ring.before(outcome.ended.ns)
    assert found is not None
    again = simulate(scenario, until=1, start=found)
    assert again.ended.ns == 1_000_000_000
