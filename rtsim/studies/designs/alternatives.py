"""Common random numbers: alternatives are compared under the same seeds and the same factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL, Estimate
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import Columns, Design, Marks, Points, Space
from rtsim.studies.designs.sampling import MonteCarlo
from rtsim.studies.factors import Choice
from rtsim.studies.rates import Share


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
        values = self._choice(space).values
        if len(set(values)) < len(values):
            raise ScenarioError(
                f"the alternatives {self.alternatives} name a value twice; give each value once"
            )
        if any(self.alternatives in pair[:2] for pair in space.copula.pairs):
            raise ScenarioError(
                f"the alternatives {self.alternatives} are correlated with another factor; leave "
                "this correlation out"
            )
        self._check_base(space.without(self.alternatives))

    def _check_base(self, rest: Space) -> None:
        """Raise :class:`ScenarioError` if the base gives no independent runs of equal weight."""
        base = self.base
        if not base.pooled:
            raise ScenarioError(
                f"the base of the design {self.name} has the design {base.name}, but only one "
                "factor can have alternatives; give a base such as monte_carlo. To compare "
                "combinations of two factors, write an argument of scenario() whose values name "
                "the combinations"
            )
        if not base.planned:
            raise ScenarioError(
                f"the runs of the design {base.name} follow from the results of its earlier runs, "
                f"so it cannot be the base of the design {self.name}; give a base such as "
                "monte_carlo"
            )
        base.check(rest)
        if "weight" in base.example(rest).marks:
            raise ScenarioError(
                f"the runs of the design {base.name} have weights, which the design {self.name} "
                "cannot use; give a base without weights, such as monte_carlo or latin_hypercube"
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

    def mean(self, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:
        """Return the mean of runs of one alternative, as the base weights them."""
        return self.base.mean(columns, values, level)

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:
        """Return the share of runs of one alternative, as the base weights them."""
        return self.base.share(columns, met, level)

    def compared(
        self, space: Space, columns: Columns, values: Vector, level: float = LEVEL
    ) -> list[dict[str, Any]]:
        """Return the mean in each alternative, and its difference to the first alternative.

        A difference takes the replications with a finite result in both alternatives.
        """
        rows: list[dict[str, Any]] = []
        finite = np.isfinite(values)
        first: dict[int, float] = {}
        for value in self._choice(space).values:
            mine = np.flatnonzero((columns[self.alternatives] == value) & finite)
            own = {name: column[mine] for name, column in columns.items()}
            groups, results = own["replication"], values[mine]
            row: dict[str, Any] = {"value": value}
            if mean := self.base.mean(own, results, level):
                row |= mean.to_plain()
            if rows:
                both = np.isin(groups, list(first))
                less = results[both] - np.array([first[k] for k in groups[both].tolist()])
                pairs = {name: column[both] for name, column in own.items()}
                if difference := self.base.mean(pairs, less, level):
                    row["difference"] = difference.to_plain()
            else:
                first = dict(zip(groups.tolist(), results.tolist(), strict=True))
            rows.append(row)
        return rows

    @classmethod
    def named(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the values with ``runs=N`` as the base of ``N`` random runs."""
        rest = {name: value for name, value in given.items() if name != "runs"}
        runs = given.get("runs")
        return {**rest, "base": MonteCarlo(runs)} if isinstance(runs, int) else given

    def to_plain(self) -> dict[str, Any]:
        return {
            "design": self.name,
            "alternatives": self.alternatives,
            "base": self.base.to_plain(),
        }
