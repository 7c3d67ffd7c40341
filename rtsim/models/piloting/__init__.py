"""Scripted pilots, and tasks that measure a pilot: tracking, gates, approach and formation.

docs/tasks.md has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.models.piloting.approach import Approach
    from rtsim.models.piloting.findings import Findings, Row
    from rtsim.models.piloting.formation import Formation
    from rtsim.models.piloting.gates import Gates
    from rtsim.models.piloting.pilot_model import PilotModel, link, pilot
    from rtsim.models.piloting.task import Flying, Task, add_flying, add_task, measure, task_named
    from rtsim.models.piloting.tracking import Tracking
    from rtsim.models.piloting.tracking_measures import closed_loop_error

__all__ = [
    "Approach",
    "Findings",
    "Flying",
    "Formation",
    "Gates",
    "PilotModel",
    "Row",
    "Task",
    "Tracking",
    "add_flying",
    "add_task",
    "closed_loop_error",
    "link",
    "measure",
    "pilot",
    "task_named",
]

__getattr__, __dir__ = lazy_exports(__name__)
