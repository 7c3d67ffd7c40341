"""Designs of fixed levels: the full grid, and one factor at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.studies.designs.base import Design, Points, Space, positive
from rtsim.studies.factors import column_of
from rtsim.studies.texts import Value


@dataclass(frozen=True)
class Grid(Design):
    """Every combination of the levels of the factors.

    A list of values has these levels, a range has ``levels`` values from low to high, and a
    distribution has quantiles from 0.05 to 0.95.  The last factor of the alphabet changes fastest.
    """

    name: ClassVar[str] = "grid"
    random: ClassVar[bool] = False

    levels: int = 3

    def __post_init__(self) -> None:
        positive(self, levels=self.levels)

    def _levels(self, space: Space) -> dict[str, list[Value]]:
        return {name: space.factors[name].levels(self.levels) for name in space.names}

    def count(self, space: Space) -> int:
        return math.prod(len(one) for one in self._levels(space).values())

    def points(self, space: Space, first: int, count: int) -> Points:
        run = np.arange(first, first + count)
        rest, values = run, {}
        for name, levels in reversed(self._levels(space).items()):
            values[name] = column_of(levels)[rest % len(levels)]
            rest = rest // len(levels)
        return Points(values, run)


@dataclass(frozen=True)
class OneAtATime(Design):
    """Run 0 has the middle value of each factor; in each other run one factor has another level.

    The column ``factor`` names the factor that the run changes; it is empty in run 0.
    """

    name: ClassVar[str] = "one_at_a_time"
    random: ClassVar[bool] = False

    levels: int = 2

    def __post_init__(self) -> None:
        positive(self, levels=self.levels)

    def _changes(self, space: Space) -> list[tuple[str, Value]]:
        out = []
        for name in space.names:
            spread = space.factors[name]
            out += [(name, v) for v in spread.levels(self.levels) if v != spread.middle()]
        return out

    def count(self, space: Space) -> int:
        return 1 + len(self._changes(space))

    def check(self, space: Space) -> None:
        super().check(space)
        if not space.names:
            raise ScenarioError(f"the design {self.name} needs factors; give at least one")

    def points(self, space: Space, first: int, count: int) -> Points:
        rows = [("", 0.0), *self._changes(space)][first : first + count]
        values = {}
        for name in space.names:
            spread = space.factors[name]
            every = [spread.middle(), *spread.levels(self.levels)]
            kind = column_of(every).dtype
            own = [value if name == changed else spread.middle() for changed, value in rows]
            values[name] = np.array(own, dtype=kind)
        marks = {"factor": np.array([changed for changed, _ in rows])}
        return Points(values, np.zeros(len(rows), np.int64), marks)
