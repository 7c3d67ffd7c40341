"""What can be done with a scenario and its recordings: simulate, replay, resume, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.face import face

if TYPE_CHECKING:
    from rtsim.runs.diverging import diverge
    from rtsim.runs.replay import rerun
    from rtsim.runs.simulation import Pace, simulate

__all__ = ["Pace", "diverge", "rerun", "simulate"]

__getattr__, __dir__ = face(
    __name__,
    {
        "rtsim.runs.diverging": ("diverge",),
        "rtsim.runs.replay": ("rerun",),
        "rtsim.runs.simulation": (
            "Pace",
            "simulate",
        ),
    },
)
