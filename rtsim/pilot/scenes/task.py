"""What a scene of a flight shows of the pilot's task: gates, a lead aircraft, deviations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pygame

from rtsim.pilot.scenes.camera import Camera, axes_of
from rtsim.pilot.scenes.scene import SceneMoment, Shown
from rtsim.pilot.scenes.solids import DrawnSolid, Placement
from rtsim.pilot.scenes.world import Course

_NAME = "task"


class TaskDrawing:
    """Draws the plant ``task`` of a moment; ``heading`` (rad) is that of the runway.

    ``about`` can have the entries ``gates`` (rows of along, across, height in m and turn in deg)
    and ``half`` (m).
    """

    def __init__(self, about: Mapping[str, Any], heading: float) -> None:
        rows = [tuple(map(float, row)) for row in about.get("gates", ())]
        self.course = Course.along(rows, heading, float(about.get("half", 45.0)))
        self._heading = heading

    def draw(
        self,
        surface: pygame.Surface,
        camera: Camera,
        moment: SceneMoment,
        aircraft: DrawnSolid,
    ) -> None:
        """Draw the gates as the run has counted them, and ``aircraft`` as lead of a formation."""
        task = moment.plants.get(_NAME)
        self._follow(task)
        self.course.draw(surface, camera)
        if task is None or "lead_north" not in task.signals:
            return
        place = np.array([task[f"lead_{axis}"] for axis in ("north", "east", "down")])
        if np.isfinite(place).all():
            axes = axes_of(0.0, 0.0, self._heading)
            aircraft.draw(surface, camera, Placement(place, axes))

    def _follow(self, task: Shown | None) -> None:
        """Take over which gates were passed; between two tags, those of the first one count."""
        if task is None or "passed" not in task.signals:
            return
        values = np.nan_to_num([task["next"], task["missed"]])
        self.course.next = math.floor(values[0] + 1e-6)
        self.course.missed = math.floor(values[1] + 1e-6)
        passed = task.vector("passed")
        self.course.passed = [
            k < len(passed) and bool(passed[k] > 0.999) for k in range(len(self.course.gates))
        ]

    def text(self, moment: SceneMoment) -> str:
        """Return one line about the task for the head-up display; empty if there is none."""
        course, task = self.course, moment.plants.get(_NAME)
        if course.gates:
            missed = f", missed {course.missed}" if course.missed else ""
            return f"gate {min(course.next + 1, len(course.gates))}/{len(course.gates)}{missed}"
        if task is not None and "glide_error" in task.signals:
            return f"GS {task['glide_error']:+.1f}, LOC {task['course_error']:+.1f}"
        if task is not None and "along_error" in task.signals:
            return f"fwd {task['along_error']:+.0f}, right {task['across_error']:+.0f}"
        return ""
