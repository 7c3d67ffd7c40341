"""rtsim: a real-time and hardware-in-the-loop simulation runtime.

This package exports the names that a scenario needs. Importing a name of this package loads only
the module of that name, so that a process without compiled models starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports
from rtsim.core.version import __version__

if TYPE_CHECKING:
    from rtsim.components.controller import PythonController
    from rtsim.components.latency import (
        Duplicate,
        Empirical,
        Fixed,
        Gamma,
        InTurn,
        Loss,
        Reorder,
        SerialLine,
        TruncatedNormal,
        Uniform,
    )
    from rtsim.core.errors import (
        ControllerError,
        ModelError,
        OverrunError,
        RecordingError,
        RtsimError,
        ScenarioError,
        UnknownName,
    )
    from rtsim.core.signals import Signal, Signals, Vector
    from rtsim.equations.compiling import compiled
    from rtsim.equations.delays import Delayed
    from rtsim.equations.modal import Mode, Transition, modal
    from rtsim.equations.model import Guard, Model
    from rtsim.gateway.client import connect
    from rtsim.linear.linearising import linearise
    from rtsim.linear.state_space import StateSpace
    from rtsim.linear.trimming import trim
    from rtsim.named.controller import Controller
    from rtsim.named.fields import (
        algebraic,
        delayed,
        input,
        line,
        memory,
        mode,
        output,
        parameter,
        state,
    )
    from rtsim.named.plant import Plant, crossing, every, falling, once, rising
    from rtsim.record.reading import Recording
    from rtsim.record.recorders import MemoryRecorder
    from rtsim.runs.result import RunResult
    from rtsim.runs.simulation import simulate
    from rtsim.runs.stepping import Simulation
    from rtsim.scenario.body import Body, Ground, GroundGrid, Mesh
    from rtsim.scenario.loading import load_scenario
    from rtsim.scenario.scenario import Scenario
    from rtsim.scenario.shown import Cue, Hud, Sound

__all__ = [
    "Body",
    "Controller",
    "ControllerError",
    "Cue",
    "Delayed",
    "Duplicate",
    "Empirical",
    "Fixed",
    "Gamma",
    "Ground",
    "GroundGrid",
    "Guard",
    "Hud",
    "InTurn",
    "Loss",
    "MemoryRecorder",
    "Mesh",
    "Mode",
    "Model",
    "ModelError",
    "OverrunError",
    "Plant",
    "PythonController",
    "Recording",
    "RecordingError",
    "Reorder",
    "RtsimError",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "SerialLine",
    "Signal",
    "Signals",
    "Simulation",
    "Sound",
    "StateSpace",
    "Transition",
    "TruncatedNormal",
    "Uniform",
    "UnknownName",
    "Vector",
    "__version__",
    "algebraic",
    "compiled",
    "connect",
    "crossing",
    "delayed",
    "every",
    "falling",
    "input",
    "line",
    "linearise",
    "load_scenario",
    "memory",
    "modal",
    "mode",
    "once",
    "output",
    "parameter",
    "rising",
    "simulate",
    "state",
    "trim",
]

__getattr__, __dir__ = lazy_exports(__name__)
