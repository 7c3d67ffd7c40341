"""What a window costs the simulation's own thread: some of its time, and no waiting at all.

Wake lateness beside a window is the bench's (``make bench``): on a busy machine it says more of
the others.  The processor's time of a thread, and how often it gave the processor away by itself,
are its own on any machine.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rtsim.components.external_inputs import ExternalInput
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.processes import ViewerProcess, Window
from rtsim.pilot.views import default_scene
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.standard_components import ExternalInputComponent
from rtsim.testing.clock import FakeClock
from tools.bench.pilot import moves
from tools.bench.pilot_witness import moved, witnessed

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.skipif(sys.platform != "linux", reason="counts of one thread"),
]
STEPS = 3000
ROUNDS = 3
MOST = 1.5
"""The thread's time with a window, against its time without one.

Both times are of whole runs, with the collection of garbage before the first frame.
"""


def spent(clock: FakeClock, cockpit: Cockpit | None) -> tuple[float, int]:
    """Processor s of :data:`STEPS` steps, and how often this thread waited for something.

    On a clock that never waits and goes on from run to run: states are published as in real time.
    """
    scenario = load_scenario("f16-by-hand", {"step": "0.001"})
    part = scenario.component("stick")
    assert isinstance(part, ExternalInputComponent)
    if cockpit is not None and cockpit.stick is not None:
        part.external_input = ExternalInput("stick", part.external_input.signals, cockpit.stick)
    before = resource.getrusage(resource.RUSAGE_THREAD)
    simulate(
        scenario, until=STEPS / 1000, clock=clock,
        publisher=None if cockpit is None else cockpit.pictures,
        inbox=None if cockpit is None else cockpit.inbox,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_THREAD)
    return after.ru_utime - before.ru_utime, after.ru_nvcsw - before.ru_nvcsw


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Cockpit]:
    """By a viewer that draws as it can, its stick moved all the time."""
    with ExitStack() as undo:
        undo.enter_context(witnessed(tmp_path, moves(60.0)))
        scenario = load_scenario("f16-by-hand", {"step": "0.001"})
        cockpit = undo.enter_context(Cockpit(scenario, "stick", default_scene("f16-by-hand")))
        window = Window(headless=True, size="640x360")
        undo.enter_context(ViewerProcess(cockpit.shared.path, window))
        yield cockpit
    assert len(moved(tmp_path)) > 0


def test_it_costs_less_than_the_step_and_waits_for_nothing(watched: Cockpit) -> None:
    clock = FakeClock()
    spent(clock, None)
    alone, seen = [], []
    reader = watched.shared.reader("plant/f16")
    for k in range(ROUNDS):
        alone.append(spent(clock, None))
        seen.append(spent(clock, watched))
        assert reader.number >= (k + 1) * STEPS
    least, waits = zip(*(map(min, zip(*of, strict=True)) for of in (alone, seen)), strict=True)
    assert least[1] < MOST * least[0]
    assert waits[1] <= waits[0] + STEPS // 1000
