"""Common random numbers: alternatives are compared under the same seeds and the same factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.studies.designs.base import Columns, Design, Marks, Points, Space
from rtsim.studies.designs.sampling import MonteCarlo
from rtsim.studies.factors import Choice


@dataclass(frozen=True)
class CommonRandomNumbers(Design):
    """Each run of the design ``base`` once for each value of the factor ``alternatives``.

    This factor is a list of values, such as two gains or two controllers.  The runs of one
    replication have the same seed and the same values of all other factors, so that a difference
    between two alternatives has a small variance.  The column ``replication`` numbers them.
    """

    name: ClassVar[str] = "common_random_numbers"
    pooled: ClassVar[bool] = False

    alternatives: str
    base: Design = MonteCarlo()

    def check(self, space: Space) -> None:
        if self.alternatives not in space.names:
            raise UnknownName("factor", self.alternatives, space.names, f"the design {self.name}")
        if not isinstance(space.factors[self.alternatives], Choice):
            raise ScenarioError(
                f"the factor {self.alternatives} has no list of values; give a list, such as "
                f"{{{self.alternatives!r}: [1.0, 2.0]}}"
            )
        if any(self.alternatives in pair[:2] for pair in space.copula.pairs):
            raise ScenarioError(
                f"the alternatives {self.alternatives} are correlated with another factor; leave "
                "this correlation out"
            )
        rest = space.without(self.alternatives)
        self.base.check(rest)
        if "weight" in self.base.example(rest).marks:
            raise ScenarioError(
                f"the runs of the design {self.base.name} have weights, which the design "
                f"{self.name} cannot use; give a base without weights, such as monte_carlo or "
                "latin_hypercube"
            )

    def _choice(self, space: Space) -> Choice:
        choice = space.factors[self.alternatives]
        assert isinstance(choice, Choice)
        return choice

    def count(self, space: Space) -> int:
        rest = space.without(self.alternatives)
        return self.base.count(rest) * len(self._choice(space).values)

    def points(self, space: Space, first: int, count: int) -> Points:
        array = self._choice(space).array()
        n = len(array)
        run = np.arange(first, first + count)
        replication = run // n
        begin = int(first // n)
        rest = space.without(self.alternatives)
        base = self.base.points(rest, begin, int((first + count - 1) // n) - begin + 1)
        where = replication - begin
        values = {name: column[where] for name, column in base.values.items()}
        marks = {name: column[where] for name, column in base.marks.items()}
        return Points(
            {**values, self.alternatives: array[run % n]},
            base.draws[where],
            {**marks, "replication": replication},
        )

    def series(self, columns: Columns) -> dict[str, Marks]:
        which = columns[self.alternatives]
        values, first = np.unique(which, return_index=True)
        ordered = values[np.argsort(first)]  # as the study declares them
        return {f"{self.alternatives} = {value}": which == value for value in ordered}

    def to_plain(self) -> dict[str, Any]:
        return {
            "design": self.name,
            "alternatives": self.alternatives,
            "base": self.base.to_plain(),
        }
