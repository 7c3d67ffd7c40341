"""The measures of one axis of a tracking task."""

from __future__ import annotations

from dataclasses import dataclass

from rtsim.core.signals import Vector
from rtsim.models.piloting.identification import DescribingFunctions, PilotFit
from rtsim.models.piloting.oscillation import Oscillation


@dataclass(frozen=True)
class TrackedAxis:
    """The measures of one axis; ``found`` is ``None`` if the measured interval is incomplete."""

    name: str
    unit: str
    rms_error: float
    rms_target: float
    rms_stick: float
    found: DescribingFunctions | None
    fit: PilotFit | None
    marks: tuple[Oscillation, ...]
    time: Vector
    target: Vector
    error: Vector
    stick: Vector
