"""Tasks that measure a pilot: tracking, gates, approach and formation; scripted pilots.

docs/tasks.md has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.face import face

if TYPE_CHECKING:
    from rtsim.piloting.approach import Approach
    from rtsim.piloting.findings import Findings, Row
    from rtsim.piloting.formation import Formation
    from rtsim.piloting.gates import Gates
    from rtsim.piloting.link import link
    from rtsim.piloting.pilot import PilotModel, pilot
    from rtsim.piloting.task import Task, add_task, measure, task_named
    from rtsim.piloting.tracking import Tracking

_HOMES = {
    "rtsim.piloting.approach": ("Approach",),
    "rtsim.piloting.findings": ("Findings", "Row"),
    "rtsim.piloting.formation": ("Formation",),
    "rtsim.piloting.gates": ("Gates",),
    "rtsim.piloting.link": ("link",),
    "rtsim.piloting.pilot": ("PilotModel", "pilot"),
    "rtsim.piloting.task": ("Task", "add_task", "measure", "task_named"),
    "rtsim.piloting.tracking": ("Tracking",),
}
__all__ = [
    "Approach",
    "Findings",
    "Formation",
    "Gates",
    "PilotModel",
    "Row",
    "Task",
    "Tracking",
    "add_task",
    "link",
    "measure",
    "pilot",
    "task_named",
]

__getattr__, __dir__ = face(__name__, _HOMES)
