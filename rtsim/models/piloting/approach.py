"""Approach and landing: the pilot follows a glide path and touches down at an aim point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.models.piloting.findings import (
    Findings,
    Row,
    TaskData,
    last_values,
    parameters_of,
    rms_of,
)
from rtsim.models.piloting.place import PLACE_INPUTS, PLACE_NEEDS, along_across, place

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

_LEAST_M = 30.0
"""The least distance with which deviations become angles."""


@dataclass(frozen=True)
class Approach(TaskData):
    """Follow a glide path of ``glide`` deg to an aim point, and touch down.

    The aim point is ``aim`` m along the course from the reference point of the scenario, at
    ``height`` m.  Deviations count from ``entry`` m before the aim point to ``exit`` m before it.
    ``speed`` is the wanted airspeed, m/s.  ``touchdown`` names the signal of the aircraft that
    rises above 0.5 when a wheel carries load, such as ``"f16.on_ground"``.  Without it, the
    aircraft touches down when its height above the aim point falls below ``wheels`` m.
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
        """The signals that the task's data names itself."""
        return {"touchdown": self.touchdown} if self.touchdown else {}

    def model(self) -> Model:
        """Return the plant ``task``: the deviations, and the touchdown."""
        touched = (Signal("touchdown"),) if self.touchdown else ()
        return Model(
            name=self.kind,
            inputs=Signals(*PLACE_INPUTS, Signal("airspeed", "m/s"), *touched),
            discrete=Signals(
                "height_before [m]",
                "sink_rate [m/s]",
                Signal("touched_at", "s", initial=-1.0),
                "touched_along [m]",
                "touched_across [m]",
                "touched_sink [m/s]",
                "touched_speed [m/s]",
                Signal("before_at", "s", initial=-1.0),
            ),
            outputs=Signals(
                "distance [m]",
                "glide_error [deg]",
                "course_error [deg]",
                "speed_error [m/s]",
                "above_aim [m]",
            ),
            parameters=Signals(
                Signal("latitude0", "rad"),
                Signal("longitude0", "rad"),
                Signal("course", "rad"),
                Signal("glide", "rad", initial=math.radians(self.glide)),
                Signal("aim", "m", initial=self.aim),
                Signal("aim_height", "m", initial=self.height),
                Signal("entry", "m", initial=self.entry),
                Signal("exit", "m", initial=self.exit),
                Signal("speed", "m/s", initial=self.speed),
                Signal("wheels", "m", initial=self.wheels),
            ),
            update=update,
            output=output,
        )

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


@compiled
def deviations(u: Vector, p: Vector) -> tuple[float, float, float, float, float]:
    """Return distance before the aim point and height above it (m), across (m), and two angles.

    The angles (deg) are above the glide path and to the right of the course.
    """
    north, east, down = place(u[0], u[1], u[2], p[0], p[1])
    along, across = along_across(north, east, p[2])
    before = p[4] - along
    height = -down - p[5]
    far = max(before, _LEAST_M)
    glide = math.degrees(math.atan2(height, far) - p[3])
    course = math.degrees(math.atan2(across, far))
    return before, height, across, glide, course


def update(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    """Note the first touchdown: where, how fast, and with which rate of descent."""
    before, height, across, _, _ = deviations(u, p)
    if z[7] >= 0.0 and t > z[7]:
        z[1] = (z[0] - height) / (t - z[7])
    touched = u[4] > 0.5 if u.size > 4 else height <= p[9]
    if touched and z[2] < 0.0 and z[7] >= 0.0:
        z[2] = t
        z[3] = -before
        z[4] = across
        z[5] = z[1]
        z[6] = u[3]
    z[0] = height
    z[7] = t


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Fill ``y`` with the distance to the aim point, the deviations and the height above it."""
    before, height, _, glide, course = deviations(u, p)
    y[0], y[1], y[2], y[3], y[4] = before, glide, course, u[3] - p[8], height
