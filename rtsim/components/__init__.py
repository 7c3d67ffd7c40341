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
    from rtsim.components.networks import MEDIA, read_networks
    from rtsim.components.networks.ethernet import Ethernet, EthernetLink
    from rtsim.components.networks.lin import LinBus
    from rtsim.components.networks.time_division import TimeDivision
    from rtsim.components.networks.wireless import GilbertElliott, WirelessChannel

__all__ = [
    "MEDIA",
    "CanBus",
    "ControllerProtocol",
    "Duplicate",
    "Empirical",
    "Ethernet",
    "EthernetLink",
    "Fixed",
    "Frame",
    "FrameCodec",
    "FrameError",
    "Gamma",
    "GilbertElliott",
    "InTurn",
    "LinBus",
    "Loss",
    "PythonController",
    "Reorder",
    "SerialLine",
    "TimeDivision",
    "TruncatedNormal",
    "Uniform",
    "WirelessChannel",
    "read_frames",
    "read_networks",
]

__getattr__, __dir__ = lazy_exports(__name__)
