"""A course of gates: the pilot flies through squares in the air, one after another.

The gates are part of the run. The plant ``task`` computes which gates the aircraft has passed, and
the distances from their centres. A window only draws the gates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import rtsim as rt
from rtsim.core.errors import ScenarioError
from rtsim.models.piloting.findings import (
    Findings,
    Row,
    TaskData,
    elements,
    last_values,
    parameters_of,
    rms_of,
    with_values,
)
from rtsim.models.piloting.place import PLACE_NEEDS, Placed

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

_FARTHEST_M = 2000.0
"""Distance between two samples, m, above which the motion is a jump that passes no gate."""


@dataclass(frozen=True)
class Gates(TaskData):
    """Task to fly through ``gates`` in their order.

    A row of ``gates`` contains the distance along the course, the distance to the right of the
    course, the height (m), and the turn relative to the course (deg). Distances are measured from
    the reference point of the scenario, such as the middle of a runway. ``half`` is half of a
    gate's side length, m.
    """

    kind: ClassVar[str] = "gates"

    gates: tuple[tuple[float, float, float, float], ...] = ((0.0, 0.0, 300.0, 0.0),)
    half: float = 45.0
    seconds: float = 3600.0
    title: str = "fly through the gates"

    def __post_init__(self) -> None:
        if not self.gates or any(len(row) != 4 for row in self.gates):
            raise ScenarioError(
                "gates: give one or more rows of four numbers: along, across and height in m, and "
                "turn in deg"
            )
        if self.half <= 0.0 or self.seconds <= 0.0:
            raise ScenarioError(
                f"half = {self.half:g}, seconds = {self.seconds:g}; give numbers > 0"
            )

    @property
    def duration(self) -> float:
        return self.seconds

    @property
    def needs(self) -> tuple[str, ...]:
        return PLACE_NEEDS

    def shown(self) -> Mapping[str, Any]:
        return {"gates": [list(row) for row in self.gates], "half": self.half}

    def model(self) -> rt.Model:
        """Return the plant ``task``, which computes which gates the aircraft has passed."""
        along, across, height, turn = zip(*self.gates, strict=True)
        return with_values(
            _row_of(len(self.gates)),
            half=self.half, along=along, across=across, height=height,
            turn=[math.radians(angle) for angle in turn],
        )  # fmt: skip

    @staticmethod
    def findings(recording: Recording, name: str) -> Findings:
        """Return passed and missed gates, the time, and the RMS distance from the centres."""
        from rtsim.models.piloting.tracking_measures import latency_rows

        n = len(parameters_of(recording, name)["along"])
        last = last_values(recording, name)
        passed = elements(last, "passed", n) > 0.5
        at = elements(last, "passed_at", n)[passed]
        off = np.hypot(elements(last, "lateral", n), elements(last, "vertical", n))[passed]
        rows = [
            Row("gates", float(n), "", "gates of the course"),
            Row("passed", float(passed.sum()), "", "gates passed"),
            Row("missed", last["missed"], "", "gates missed"),
            Row("seconds", float(at[-1] - at[0]) if len(at) > 1 else None, "s",
                "time from the first to the last passed gate"),
            Row("rms_off_middle", rms_of(off), "m",
                "RMS of the distance from the middle of the passed gates"),
        ]  # fmt: skip
        complete = last["next"] >= n
        notes = [] if complete else ["The run ends before the last gate."]
        more, remarks = latency_rows(recording)
        return Findings("gates", complete, (*rows, *more), (*notes, *remarks))


class GateRow(Placed, name="gates"):
    """Plant that records whether, when and where the aircraft passed each gate.

    Derived classes have ``COUNT`` gates.
    """

    COUNT = 1
    half = rt.parameter("m", low=0.0)
    along = rt.parameter("m", shape=(1,))
    across = rt.parameter("m", shape=(1,))
    height = rt.parameter("m", shape=(1,))
    turn = rt.parameter("rad", shape=(1,))
    started = rt.memory()
    next = rt.memory()
    missed = rt.memory()
    north = rt.memory("m")
    east = rt.memory("m")
    down = rt.memory("m")
    passed = rt.memory("1", shape=(1,))
    passed_at = rt.memory("s", shape=(1,))
    lateral = rt.memory("m", shape=(1,))
    vertical = rt.memory("m", shape=(1,))
    distance = rt.output("m")
    gate_lateral = rt.output("m")
    gate_vertical = rt.output("m")
    assumptions = ("the gates stand on a flat world that touches the Earth at the reference",)

    def relative(
        self, i: int, north: float, east: float, down: float
    ) -> tuple[float, float, float]:
        """Return the distances (m) of the aircraft beyond, right of and above gate ``i``.

        The distance beyond the gate is negative before the gate.
        """
        course = self.course
        c, s = math.cos(course), math.sin(course)
        dn = north - (c * self.along[i] - s * self.across[i])
        de = east - (s * self.along[i] + c * self.across[i])
        turn = course + self.turn[i]
        ahead = math.cos(turn) * dn + math.sin(turn) * de
        right = math.cos(turn) * de - math.sin(turn) * dn
        return ahead, right, -down - self.height[i]

    def update(self) -> None:
        """Record the next gate if the aircraft has passed it since the last call."""
        north, east, down = self.place()
        jump = max(abs(north - self.north), abs(east - self.east), abs(down - self.down))
        if self.started > 0.5 and jump <= _FARTHEST_M:
            for i in range(int(self.next), self.COUNT):
                was, right0, up0 = self.relative(i, self.north, self.east, self.down)
                now, right1, up1 = self.relative(i, north, east, down)
                if was < 0.0 <= now:
                    share = was / (was - now)
                    right = right0 + share * (right1 - right0)
                    up = up0 + share * (up1 - up0)
                    if abs(right) <= self.half and abs(up) <= self.half:
                        self.missed += i - self.next
                        self.next = i + 1
                        self.passed[i] = 1.0
                        self.passed_at[i] = self.t
                        self.lateral[i] = right
                        self.vertical[i] = up
                        break
        self.started = 1.0
        self.north = north
        self.east = east
        self.down = down

    def outputs(self) -> None:
        i = min(int(self.next), self.COUNT - 1)
        north, east, down = self.place()
        ahead, right, up = self.relative(i, north, east, down)
        self.distance, self.gate_lateral, self.gate_vertical = -ahead, right, up


@cache
def _row_of(count: int) -> type[GateRow]:
    size = (count,)

    class Sized(GateRow, name="gates"):
        COUNT = count
        along = rt.parameter("m", shape=size)
        across = rt.parameter("m", shape=size)
        height = rt.parameter("m", shape=size)
        turn = rt.parameter("rad", shape=size)
        passed = rt.memory("1", shape=size)
        passed_at = rt.memory("s", -1.0, shape=size)
        lateral = rt.memory("m", shape=size)
        vertical = rt.memory("m", shape=size)

    return Sized
