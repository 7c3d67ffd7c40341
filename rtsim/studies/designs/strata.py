"""Strata: a factor's distribution is divided, and rare values get more runs than their share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL, Estimate, stratified
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import (
    Columns,
    Integers,
    Marks,
    Points,
    Space,
    UnitDesign,
    positive,
)
from rtsim.studies.factors import Values
from rtsim.studies.rates import Share
from rtsim.studies.uniforms import uniforms


@dataclass(frozen=True)
class Strata(UnitDesign):
    """Strata of ``factor`` between the quantiles ``at``, with ``runs`` in each of the strata.

    ``Strata("gust", at=(0.9, 0.99), runs=(100, 100, 200))`` makes 100 runs with the factor below
    its quantile 0.9, 100 runs from there to its quantile 0.99, and 200 runs above.  The column
    ``stratum`` numbers the strata, and ``weight`` is the share of the population for which the run
    stands.
    """

    name: ClassVar[str] = "strata"

    factor: str
    at: tuple[float, ...]
    runs: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", tuple(map(float, self.at)))
        object.__setattr__(self, "runs", tuple(self.runs))
        if len(self.runs) != len(self.at) + 1:
            raise ScenarioError(
                f"{len(self.at)} quantiles make {len(self.at) + 1} strata, but runs has "
                f"{len(self.runs)} numbers; give one number of runs for each stratum"
            )
        for runs in self.runs:
            positive(self, runs=runs)
        if not all(a < b for a, b in pairwise(self._edges)):
            raise ScenarioError(
                f"the quantiles {', '.join(f'{q:g}' for q in self.at)} do not rise from 0 to 1"
            )

    @property
    def _edges(self) -> tuple[float, ...]:
        return (0.0, *self.at, 1.0)

    @property
    def shares(self) -> list[float]:
        """The share of the population in each stratum."""
        return [b - a for a, b in pairwise(self._edges)]

    def check(self, space: Space) -> None:
        if self.factor not in space.names:
            raise UnknownName("factor", self.factor, space.names, "the design strata")
        if any(self.factor in pair[:2] for pair in space.copula.pairs):
            raise ScenarioError(
                f"the factor {self.factor} of the strata is correlated with another factor; use "
                "the design monte_carlo, or leave this correlation out"
            )

    def count(self, space: Space) -> int:  # noqa: ARG002
        return sum(self.runs)

    def mean(self, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:
        strata = [values[columns["stratum"] == k] for k in range(len(self.runs))]
        return stratified(strata, self.shares, level) if min(map(len, strata)) > 1 else None

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:
        found = self.mean(columns, met.astype(np.float64), level)
        if found is None:
            return None
        return Share(found.mean, max(0.0, found.low), min(1.0, found.high), level)

    def weights(self, columns: Columns) -> Vector | None:
        strata = np.asarray(columns["stratum"])
        count = np.bincount(strata, minlength=len(self.runs))
        each = np.array(self.shares) / np.maximum(count, 1)
        return each[strata] / each[strata].sum() if len(strata) else None

    def order(self, columns: Columns) -> Integers:
        """Return an order in which all strata are filled at the same pace."""
        strata = np.asarray(columns["stratum"])
        part = np.zeros(len(strata))
        for k in range(len(self.runs)):
            mine = strata == k
            part[mine] = (np.arange(mine.sum()) + 0.5) / max(1, mine.sum())
        return np.argsort(part, kind="stable")

    def _strata(self, first: int, count: int) -> Values:
        ends = np.cumsum(self.runs)
        return np.searchsorted(ends, np.arange(first, first + count), side="right")

    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        stratum = self._strata(first, count)
        low = np.array(self._edges)[stratum]
        wide = np.array(self.shares)[stratum]
        out = []
        for name in space.names:
            u = uniforms(space.seed, name, first, count)
            out.append(low + wide * u if name == self.factor else u)
        return out

    def points(self, space: Space, first: int, count: int) -> Points:
        out = super().points(space, first, count)
        stratum = self._strata(first, count)
        each = [share / runs for share, runs in zip(self.shares, self.runs, strict=True)]
        assert math.isclose(sum(self.shares), 1.0)
        marks = {"stratum": stratum, "weight": np.array(each)[stratum]}
        return Points(out.values, out.draws, marks)

    @classmethod
    def named(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the values with ``at`` and ``runs`` as tuples, also with one value each."""
        return {
            name: value if name == "factor" or isinstance(value, tuple) else (value,)
            for name, value in given.items()
        }
