"""Shared basics of all packages: time tags, clocks, signals with units, errors, random streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.core.clock import Wake
    from rtsim.core.errors import (
        ControllerError,
        ModelError,
        OverrunError,
        RecordingError,
        RtsimError,
        ScenarioError,
    )
    from rtsim.core.signals import Signal, Signals
    from rtsim.core.tag import Period, Tag

__all__ = [
    "ControllerError",
    "ModelError",
    "OverrunError",
    "Period",
    "RecordingError",
    "RtsimError",
    "ScenarioError",
    "Signal",
    "Signals",
    "Tag",
    "Wake",
]

__getattr__, __dir__ = lazy_exports(__name__)
