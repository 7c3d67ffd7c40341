"""Formation: the pilot keeps a place relative to a lead aircraft, which weaves gently."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.models.piloting.findings import Findings, Row, TaskData, parameters_of, rms_of
from rtsim.models.piloting.place import PLACE_INPUTS, PLACE_NEEDS, along_across, place

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


@dataclass(frozen=True)
class Formation(TaskData):
    """Keep a place ``behind`` m behind the lead, ``beside`` m to its right and ``below`` m below.

    The lead flies along the course of the scenario with the aircraft's initial speed.  It weaves by
    ``weave`` m to each side in ``period`` s, and by ``climb`` m up and down in 0.7 of that time.
    The error counts from ``begin`` s for ``measured`` s.  The aircraft starts in its place.
    """

    kind: ClassVar[str] = "formation"

    behind: float = 60.0
    beside: float = 25.0
    below: float = 5.0
    weave: float = 30.0
    climb: float = 10.0
    period: float = 40.0
    begin: float = 10.0
    measured: float = 120.0
    title: str = "keep a place beside a lead aircraft"

    def __post_init__(self) -> None:
        if self.period <= 0.0 or self.measured <= 0.0 or self.begin < 0.0:
            raise ScenarioError(
                f"period = {self.period:g}, measured = {self.measured:g}, begin = {self.begin:g}; "
                "give period and measured > 0 s, and begin >= 0 s"
            )

    @property
    def duration(self) -> float:
        return self.begin + self.measured

    @property
    def needs(self) -> tuple[str, ...]:
        return PLACE_NEEDS

    def model(self) -> Model:
        """Return the plant ``task``: the place of the lead, and the errors of the own place."""
        figures = {
            "behind": (self.behind, "m"), "beside": (self.beside, "m"), "below": (self.below, "m"),
            "weave": (self.weave, "m"), "climb": (self.climb, "m"), "period": (self.period, "s"),
            "begin": (self.begin, "s"), "measured": (self.measured, "s"),
        }  # fmt: skip
        return Model(
            name=self.kind,
            inputs=Signals(*PLACE_INPUTS),
            outputs=Signals(
                *(f"lead_{axis} [m]" for axis in ("north", "east", "down")),
                *(f"{axis}_error [m]" for axis in ("along", "across", "above")),
            ),
            parameters=Signals(
                Signal("latitude0", "rad"),
                Signal("longitude0", "rad"),
                Signal("course", "rad"),
                Signal("lead_speed", "m/s"),
                Signal("along_start", "m"),
                Signal("across_start", "m"),
                Signal("height_start", "m"),
                *(Signal(name, unit, initial=value) for name, (value, unit) in figures.items()),
            ),
            output=output,
            assumptions=("the lead follows its path exactly, and has no wake",),
        )

    @staticmethod
    def findings(recording: Recording, name: str) -> Findings:
        """Return the RMS errors of the place beside the lead."""
        from rtsim.models.piloting.tracking_measures import latency_rows

        p = parameters_of(recording, name)
        end = recording.end_ns * 1e-9
        table = recording.table(name)
        on = (table.time >= p["begin"]) & (table.time < p["begin"] + p["measured"])
        complete = end >= p["begin"] + p["measured"] - 1e-9

        def rms(axis: str) -> float | None:
            return rms_of(table[f"{name}.{axis}_error"][on])

        axes = {
            "along": "along the course",
            "across": "across the course",
            "above": "in height",
        }
        rows = [
            Row(f"rms_{a}", rms(a), "m", f"RMS of the error {text}") for a, text in axes.items()
        ]
        notes = () if complete else (f"The run ends at {end:g} s, before the end of the task.",)
        more, remarks = latency_rows(recording)
        return Findings("formation", complete, (*rows, *more), (*notes, *remarks))


@compiled
def lead(t: float, p: Vector) -> tuple[float, float, float]:
    """Return the place of the lead: along the course, to the right of it, and height (m)."""
    turn = 2.0 * math.pi * t / p[12]
    along = p[4] + p[7] + p[3] * t
    across = p[5] - p[8] + p[10] * 0.5 * (1.0 - math.cos(turn))
    height = p[6] + p[9] + p[11] * 0.5 * (1.0 - math.cos(turn / 0.7))
    return along, across, height


@compiled
def errors(t: float, u: Vector, p: Vector) -> tuple[float, float, float]:
    """Return the own place minus the wanted place: along, across and height (m)."""
    north, east, down = place(u[0], u[1], u[2], p[0], p[1])
    along, across = along_across(north, east, p[2])
    ahead, right, height = lead(t, p)
    return along - (ahead - p[7]), across - (right + p[8]), -down - (height - p[9])


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Fill ``y`` with the place of the lead (north, east, down) and the errors."""
    along, across, height = lead(t, p)
    c, s = math.cos(p[2]), math.sin(p[2])
    y[0] = c * along - s * across
    y[1] = s * along + c * across
    y[2] = -height
    y[3], y[4], y[5] = errors(t, u, p)
