"""Functions for a scenario and its recordings: simulate, replay, resume, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.runs.diverging import diverge
    from rtsim.runs.replay import rerun
    from rtsim.runs.request import Connections, Output, Pace, RunRequest
    from rtsim.runs.result import RunResult
    from rtsim.runs.simulation import run, simulate
    from rtsim.runs.stepping import SavedSimulation, Simulation

__all__ = [
    "Connections",
    "Output",
    "Pace",
    "RunRequest",
    "RunResult",
    "SavedSimulation",
    "Simulation",
    "diverge",
    "rerun",
    "run",
    "simulate",
]

__getattr__, __dir__ = lazy_exports(__name__)
