"""The components of a run: plants, controllers, tasks, ports, the message bus, external inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.components.controller import Controller, PythonController
    from rtsim.components.latency import (
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

__all__ = [
    "Controller",
    "Duplicate",
    "Empirical",
    "Fixed",
    "Gamma",
    "Loss",
    "PythonController",
    "Reorder",
    "SerialLine",
    "TruncatedNormal",
    "Uniform",
]

__getattr__, __dir__ = lazy_exports(__name__)
