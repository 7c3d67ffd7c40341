"""Formation flight: the pilot keeps a position relative to a lead aircraft."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import rtsim as rt
from rtsim.core.errors import ScenarioError
from rtsim.models.piloting.findings import (
    Findings,
    Row,
    TaskData,
    parameters_of,
    rms_of,
    with_values,
)
from rtsim.models.piloting.place import PLACE_NEEDS, Placed, along_across

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


@dataclass(frozen=True)
class Formation(TaskData):
    """Task to keep a fixed position relative to a lead aircraft.

    The distances from the lead aircraft are ``behind``, ``beside`` (to the right) and ``below``, m.
    The aircraft starts in this position. The lead aircraft flies along the course of the scenario
    at the pilot's initial speed. Every ``period`` s, the lead aircraft moves ``weave`` m to the
    right and back. Every 0.7 ``period`` s, the lead aircraft climbs by ``climb`` m and descends
    again. The measurement begins at ``begin`` s and lasts ``measured`` s.
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

    def model(self) -> rt.Model:
        """Return the plant ``task``, which computes the lead aircraft's path and the errors."""
        return with_values(
            Lead,
            behind=self.behind, beside=self.beside, below=self.below,
            weave=self.weave, climb=self.climb, period=self.period,
            begin=self.begin, measured=self.measured,
        )  # fmt: skip

    @staticmethod
    def findings(recording: Recording, name: str) -> Findings:
        """Return the RMS errors of the position relative to the lead aircraft."""
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


class Lead(Placed, name="formation"):
    """Plant that computes the lead aircraft's path, and the errors relative to it."""

    lead_speed = rt.parameter("m/s")
    along_start = rt.parameter("m")
    across_start = rt.parameter("m")
    height_start = rt.parameter("m")
    behind = rt.parameter("m")
    beside = rt.parameter("m")
    below = rt.parameter("m")
    weave = rt.parameter("m")
    climb = rt.parameter("m")
    period = rt.parameter("s")
    begin = rt.parameter("s")
    measured = rt.parameter("s")
    lead_north = rt.output("m")
    lead_east = rt.output("m")
    lead_down = rt.output("m")
    along_error = rt.output("m")
    across_error = rt.output("m")
    above_error = rt.output("m")
    assumptions = ("the lead follows its path exactly, and has no wake",)

    def lead(self) -> tuple[float, float, float]:
        """Return the lead aircraft's distances along and right of the course, and height."""
        turn = 2.0 * math.pi * self.t / self.period
        along = self.along_start + self.behind + self.lead_speed * self.t
        across = self.across_start - self.beside + self.weave * 0.5 * (1.0 - math.cos(turn))
        height = self.height_start + self.below + self.climb * 0.5 * (1.0 - math.cos(turn / 0.7))
        return along, across, height

    def outputs(self) -> None:
        ahead, right, above = self.lead()
        c, s = math.cos(self.course), math.sin(self.course)
        self.lead_north = c * ahead - s * right
        self.lead_east = s * ahead + c * right
        self.lead_down = -above
        north, east, down = self.place()
        along, across = along_across(north, east, self.course)
        self.along_error = along - (ahead - self.behind)
        self.across_error = across - (right + self.beside)
        self.above_error = -down - (above - self.below)
