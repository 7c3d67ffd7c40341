"""Components of a run: plants, controllers, tasks, ports, the message bus and external inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.components.can_bus import CanBus
    from rtsim.components.controller import ControllerProtocol, PythonController
    from rtsim.components.frames import Frame, FrameCodec, FrameError, read_frames
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

__all__ = [
    "CanBus",
    "ControllerProtocol",
    "Duplicate",
    "Empirical",
    "Fixed",
    "Frame",
    "FrameCodec",
    "FrameError",
    "Gamma",
    "InTurn",
    "Loss",
    "PythonController",
    "Reorder",
    "SerialLine",
    "TruncatedNormal",
    "Uniform",
    "read_frames",
]

__getattr__, __dir__ = lazy_exports(__name__)
