"""A diagram run and recorded, for the tests of blocks."""

from __future__ import annotations

from typing import Any

from rtsim.blocks import Diagram
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Solver


def flown(
    diagram: Diagram, until: float, solver: str | Solver = "rk4", step: str = "1/100", **how: Any
) -> Recording:
    """Plain unless asked otherwise: compiled runs have tests of their own."""
    scenario = Scenario(diagram.name, until=until)
    scenario.plant("d", diagram.model(), step=step, solver=solver)
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, **{"compile": False, **how})
    return recorder.recording()


def wired(*parts: tuple[object, ...]) -> Diagram:
    d = Diagram("d")
    for name, block, *sources in parts:
        d.add(name, block, *sources)  # type: ignore[arg-type]
    return d


def crossed(recording: Recording) -> list[int]:
    """ns of each guard that fired."""
    return [event.tag.ns for event in recording.events if event.kind == "Crossed"]
