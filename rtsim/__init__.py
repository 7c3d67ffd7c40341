"""rtsim: a real-time and hardware-in-the-loop simulation runtime.

The names that a scenario needs, each loaded when it is first used: the recorder's writing process
imports this package too, and must not pay for a compiler that it never calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtsim.compiling import compiled
    from rtsim.controller import PythonController
    from rtsim.gateway.client import connect
    from rtsim.latency import (
        Duplicate,
        Empirical,
        Fixed,
        Gamma,
        Loss,
        Reorder,
        SerialLine,
        TruncatedNormal,
        Uniform,
    )
    from rtsim.model import Guard, Model
    from rtsim.record.reading import Recording
    from rtsim.scenario import Scenario
    from rtsim.scene import Body, Cue
    from rtsim.signals import Signal, Signals
    from rtsim.simulation import simulate

__version__ = "0.1.0"

_HOMES = {
    "rtsim.compiling": ("compiled",),
    "rtsim.controller": ("PythonController",),
    "rtsim.gateway.client": ("connect",),
    "rtsim.latency": (
        "Duplicate",
        "Empirical",
        "Fixed",
        "Gamma",
        "Loss",
        "Reorder",
        "SerialLine",
        "TruncatedNormal",
        "Uniform",
    ),
    "rtsim.model": ("Guard", "Model"),
    "rtsim.record.reading": ("Recording",),
    "rtsim.scenario": ("Scenario",),
    "rtsim.scene": ("Body", "Cue"),
    "rtsim.signals": ("Signal", "Signals"),
    "rtsim.simulation": ("simulate",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Body",
    "Cue",
    "Duplicate",
    "Empirical",
    "Fixed",
    "Gamma",
    "Guard",
    "Loss",
    "Model",
    "PythonController",
    "Recording",
    "Reorder",
    "Scenario",
    "SerialLine",
    "Signal",
    "Signals",
    "TruncatedNormal",
    "Uniform",
    "compiled",
    "connect",
    "simulate",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rtsim' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
