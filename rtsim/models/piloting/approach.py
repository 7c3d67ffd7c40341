"""Approach and landing: the pilot follows a glide path to an aim point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import rtsim as rt
from rtsim.core.errors import ScenarioError
from rtsim.models.piloting.findings import (
    Findings,
    Row,
    TaskData,
    last_values,
    parameters_of,
    rms_of,
    with_values,
)
from rtsim.models.piloting.place import PLACE_NEEDS, Placed, along_across

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

_LEAST_M = 30.0
"""Lower limit of the distance that is used to convert deviations to angles, m."""


@dataclass(frozen=True)
class Approach(TaskData):
    """Task to follow a glide path of ``glide`` deg to an aim point, and to touch down.

    The aim point is ``aim`` m along the course from the reference point of the scenario, at the
    height ``height`` (m). Deviations are measured between the distances ``entry`` m and ``exit`` m
    before the aim point. ``speed`` is the target airspeed, m/s.

    ``touchdown`` is the name of a signal that exceeds 0.5 when a wheel carries load, such as
    ``"f16.on_ground"``. Without ``touchdown``, the aircraft touches down when its height above the
    aim point is ``wheels`` m.
    """

    kind: ClassVar[str] = "approach"

    glide: float = 3.0
    aim: float = -1200.0
    height: float = 0.0
    entry: float = 6000.0
    exit: float = 300.0
    speed: float = 85.0
    touchdown: str = field(default="", metadata={"example": "'plant.signal'"})
    wheels: float = 2.0
    seconds: float = 600.0
    title: str = "follow a glide path and land"

    def __post_init__(self) -> None:
        if not 0.0 < self.glide < 45.0:
            raise ScenarioError(f"glide = {self.glide:g} deg; give an angle between 0 and 45 deg")
        if not 0.0 <= self.exit < self.entry:
            raise ScenarioError(
                f"entry = {self.entry:g}, exit = {self.exit:g}; give entry > exit >= 0 m"
            )
        if self.speed <= 0.0 or self.seconds <= 0.0 or self.wheels < 0.0:
            raise ScenarioError(
                f"speed = {self.speed:g}, seconds = {self.seconds:g}, wheels = {self.wheels:g}; "
                "give speed and seconds > 0, and wheels >= 0"
            )

    @property
    def duration(self) -> float:
        return self.seconds

    @property
    def needs(self) -> tuple[str, ...]:
        return (*PLACE_NEEDS, "airspeed")

    @property
    def signals(self) -> Mapping[str, str]:
        """Additional aircraft signals that the task reads: the signal ``touchdown``."""
        return {"touchdown": self.touchdown} if self.touchdown else {}

    def model(self) -> rt.Model:
        """Return the plant ``task``, which computes the deviations and the touchdown."""
        return with_values(
            TouchdownPath if self.touchdown else GlidePath,
            glide=math.radians(self.glide), aim=self.aim, aim_height=self.height,
            entry=self.entry, exit=self.exit, speed=self.speed, wheels=self.wheels,
        )  # fmt: skip

    @staticmethod
    def findings(recording: Recording, name: str) -> Findings:
        """Return the deviations from the glide path, and the place and speed of the touchdown."""
        from rtsim.models.piloting.tracking_measures import latency_rows

        last = last_values(recording, name)
        touched = last["touched_at"] >= 0.0
        p = parameters_of(recording, name)
        table = recording.table(name)
        before = table[f"{name}.distance"]
        on = (before <= p["entry"]) & (before >= p["exit"])
        if touched:
            on &= table.time < last["touched_at"]

        def rms(error: str) -> float | None:
            return rms_of(table[f"{name}.{error}"][on])

        def there(value: str) -> float | None:
            return last[value] if touched else None

        rows = [
            Row("rms_glide", rms("glide_error"), "deg", "RMS of the deviation from the glide path"),
            Row("rms_course", rms("course_error"), "deg", "RMS of the deviation from the course"),
            Row("rms_speed", rms("speed_error"), "m/s", "RMS of the deviation from the speed"),
            Row("touched_at", there("touched_at"), "s", "time of the touchdown"),
            Row("touched_along", there("touched_along"), "m", "touchdown beyond the aim point"),
            Row(
                "touched_across",
                there("touched_across"),
                "m",
                "touchdown to the right of the course",
            ),
            Row("touched_sink", there("touched_sink"), "m/s", "sink rate at the touchdown"),
            Row("touched_speed", there("touched_speed"), "m/s", "airspeed at the touchdown"),
        ]
        passed = last["distance"] <= p["exit"]
        notes = []
        if not on.any():
            notes.append("The aircraft never was between entry and exit of the glide path.")
        elif not (passed or touched):
            notes.append("The run ends on the glide path, so the deviations are those of a part.")
        if not touched:
            notes.append("The aircraft did not touch down.")
        more, remarks = latency_rows(recording)
        return Findings("approach", touched and bool(on.any()), (*rows, *more), (*notes, *remarks))


class GlidePath(Placed, name="approach"):
    """Plant that computes deviations from a glide path and records the first touchdown."""

    airspeed = rt.input("m/s")
    glide = rt.parameter("rad")
    aim = rt.parameter("m")
    aim_height = rt.parameter("m")
    entry = rt.parameter("m")
    exit = rt.parameter("m")
    speed = rt.parameter("m/s")
    wheels = rt.parameter("m")
    height_before = rt.memory("m")
    sink_rate = rt.memory("m/s")
    touched_at = rt.memory("s", -1.0)
    touched_along = rt.memory("m")
    touched_across = rt.memory("m")
    touched_sink = rt.memory("m/s")
    touched_speed = rt.memory("m/s")
    before_at = rt.memory("s", -1.0)
    distance = rt.output("m")
    glide_error = rt.output("deg")
    course_error = rt.output("deg")
    speed_error = rt.output("m/s")
    above_aim = rt.output("m")

    def deviations(self) -> tuple[float, float, float, float, float]:
        """Return the aircraft's position relative to the glide path as five numbers.

        Three lengths (m) are the distance before the aim point, the height above it, and the
        distance to the right of the course. Two angles (deg) are the deviations above the glide
        path and to the right of the course.
        """
        north, east, down = self.place()
        along, across = along_across(north, east, self.course)
        before = self.aim - along
        height = -down - self.aim_height
        far = max(before, _LEAST_M)
        glide = math.degrees(math.atan2(height, far) - self.glide)
        course = math.degrees(math.atan2(across, far))
        return before, height, across, glide, course

    def touches(self, height: float) -> bool:
        """Return whether the wheels touch the ground at ``height`` m above the aim point."""
        return height <= self.wheels

    def update(self) -> None:
        """Record position, speed and sink rate of the first touchdown."""
        before, height, across, _, _ = self.deviations()
        if self.before_at >= 0.0 and self.t > self.before_at:
            self.sink_rate = (self.height_before - height) / (self.t - self.before_at)
        if self.touches(height) and self.touched_at < 0.0 and self.before_at >= 0.0:
            self.touched_at = self.t
            self.touched_along = -before
            self.touched_across = across
            self.touched_sink = self.sink_rate
            self.touched_speed = self.airspeed
        self.height_before = height
        self.before_at = self.t

    def outputs(self) -> None:
        before, height, _, glide, course = self.deviations()
        self.distance = before
        self.glide_error = glide
        self.course_error = course
        self.speed_error = self.airspeed - self.speed
        self.above_aim = height


class TouchdownPath(GlidePath, name="approach"):
    """Glide path of an aircraft that reports the touchdown in a signal."""

    touchdown = rt.input()

    def touches(self, height: float) -> bool:  # noqa: ARG002
        return self.touchdown > 0.5
