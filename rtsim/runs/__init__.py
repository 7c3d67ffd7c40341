"""Functions that simulate, step, replay, resume and compare runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.engine.checkpoint.file import Checkpoint, Ring
    from rtsim.engine.checkpoint.schedule import CheckpointSchedule
    from rtsim.engine.faults import read_faults
    from rtsim.runs.diverging import diverge
    from rtsim.runs.episodes import environment
    from rtsim.runs.prepared import prepare
    from rtsim.runs.replay import rerun, timing_faults
    from rtsim.runs.request import Connections, Output, Pace, RunRequest
    from rtsim.runs.result import RunResult
    from rtsim.runs.simulation import run, simulate
    from rtsim.runs.stepping import SavedSimulation, Simulation
    from rtsim.timing.policy import Slip, parse_policy

__all__ = [
    "Checkpoint",
    "CheckpointSchedule",
    "Connections",
    "Output",
    "Pace",
    "Ring",
    "RunRequest",
    "RunResult",
    "SavedSimulation",
    "Simulation",
    "Slip",
    "diverge",
    "environment",
    "parse_policy",
    "prepare",
    "read_faults",
    "rerun",
    "run",
    "simulate",
    "timing_faults",
]

__getattr__, __dir__ = lazy_exports(__name__)
