"""A course of gates: the pilot flies through a row of squares in the air, in their order.

The gates are part of the run: the plant ``task`` decides which gates were passed, and how far from
their middle.  A window only draws them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.models.piloting.findings import (
    Findings,
    Row,
    TaskData,
    elements,
    last_values,
    parameters_of,
    rms_of,
)
from rtsim.models.piloting.place import PLACE_INPUTS, PLACE_NEEDS, place

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

_HEAD = 4
"""Parameters before the gates: latitude, longitude and course of the reference, and half a side."""
_FIRST = 6
"""Discrete signals before those of each gate: started, next, missed, and the last place."""
_FARTHEST_M = 2000.0
"""A place that is further from the last one is a jump, which passes no gate."""


@dataclass(frozen=True)
class Gates(TaskData):
    """Fly through ``gates``: rows of distance along the course, across it, height (m), turn (deg).

    The distances begin at the reference point of the scenario, for example the middle of a runway;
    ``turn`` is relative to the course.  ``half`` is half the side of a gate, m.
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

    def model(self) -> Model:
        """Return the plant ``task``: which gate is next, which were passed, and how exactly."""
        n = len(self.gates)
        along, across, height, turn = zip(*self.gates, strict=True)
        arrays = {
            "along": (along, "m"), "across": (across, "m"), "height": (height, "m"),
            "turn": (tuple(math.radians(v) for v in turn), "rad"),
        }  # fmt: skip
        return Model(
            name=self.kind,
            inputs=Signals(*PLACE_INPUTS),
            discrete=Signals(
                "started",
                "next",
                "missed",
                "north [m]",
                "east [m]",
                "down [m]",
                Signal("passed", shape=(n,), initial=(0.0,) * n),
                Signal("passed_at", "s", shape=(n,), initial=(-1.0,) * n),
                Signal("lateral", "m", shape=(n,), initial=(0.0,) * n),
                Signal("vertical", "m", shape=(n,), initial=(0.0,) * n),
            ),
            outputs=Signals("distance [m]", "gate_lateral [m]", "gate_vertical [m]"),
            parameters=Signals(
                Signal("latitude0", "rad"),
                Signal("longitude0", "rad"),
                Signal("course", "rad"),
                Signal("half", "m", initial=self.half, low=0.0),
                *(
                    Signal(name, unit, shape=(n,), initial=tuple(map(float, values)))
                    for name, (values, unit) in arrays.items()
                ),
            ),
            update=update,
            output=output,
            assumptions=(
                "the gates stand on a flat world that touches the Earth at the reference",
            ),
        )

    @staticmethod
    def findings(recording: Recording, name: str) -> Findings:
        """Return passed and missed gates, the time from the first to the last, and how exactly."""
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


@compiled
def relative(
    i: int, n: int, north: float, east: float, down: float, p: Vector
) -> tuple[float, float, float]:
    """Return the distances (m) behind (-) or beyond gate ``i``, to its right, and above it."""
    course = p[2]
    c, s = math.cos(course), math.sin(course)
    along, across, height = p[_HEAD + i], p[_HEAD + n + i], p[_HEAD + 2 * n + i]
    dn = north - (c * along - s * across)
    de = east - (s * along + c * across)
    turn = course + p[_HEAD + 3 * n + i]
    ahead = math.cos(turn) * dn + math.sin(turn) * de
    right = math.cos(turn) * de - math.sin(turn) * dn
    return ahead, right, -down - height


def update(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    """Pass the first gate, from the next one on, through which the last piece of the path leads."""
    n = (z.size - _FIRST) // 4
    north, east, down = place(u[0], u[1], u[2], p[0], p[1])
    jump = max(abs(north - z[3]), abs(east - z[4]), abs(down - z[5]))
    if z[0] > 0.5 and jump <= _FARTHEST_M:
        for i in range(int(z[1]), n):
            was, right0, up0 = relative(i, n, z[3], z[4], z[5], p)
            now, right1, up1 = relative(i, n, north, east, down, p)
            if was < 0.0 <= now:
                share = was / (was - now)
                right = right0 + share * (right1 - right0)
                up = up0 + share * (up1 - up0)
                if abs(right) <= p[3] and abs(up) <= p[3]:
                    z[2] += i - z[1]
                    z[1] = i + 1
                    z[_FIRST + i] = 1.0
                    z[_FIRST + n + i] = t
                    z[_FIRST + 2 * n + i] = right
                    z[_FIRST + 3 * n + i] = up
                    break
    z[0] = 1.0
    z[3] = north
    z[4] = east
    z[5] = down


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Fill ``y`` with the distance to the plane of the next gate, and the place in this plane."""
    n = (z.size - _FIRST) // 4
    i = min(int(z[1]), n - 1)
    north, east, down = place(u[0], u[1], u[2], p[0], p[1])
    ahead, right, up = relative(i, n, north, east, down, p)
    y[0], y[1], y[2] = -ahead, right, up
