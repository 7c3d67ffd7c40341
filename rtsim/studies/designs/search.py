"""Worst-case search: find the run with the smallest margin of a requirement."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL, Estimate
from rtsim.core.signals import Vector
from rtsim.core.tag import to_ns
from rtsim.studies.designs.base import Columns, Design, Marks, Points, Share, Space, positive
from rtsim.studies.designs.search_methods import SEARCH_METHODS
from rtsim.studies.factors import seed_of
from rtsim.studies.measures import margin_column, robustness_column
from rtsim.studies.texts import Value

Candidate = Mapping[str, Value]
Evaluate = Callable[[int, list[Candidate]], list[float]]
"""Function that executes the candidates of a generation and returns their margins. A run without a
margin has NaN. The first argument is the number of the generation."""

CONVERGED, MAXIMUM, MISS, NO_MARGIN = "converged", "maximum", "miss", "no margin"
TIME = "time"
"""Reasons for the end of a search.

- converged: the margins of the population are nearly equal.
- maximum: the largest number of runs is reached.
- miss: a run misses the requirement.
- no margin: a run has no margin, and no run misses the requirement.
- time: the wall-clock time of the search is over.
"""
_FAR = 1e100
_WORST = -1e101
"""A run without a margin counts as worse than every run with a margin. The value is finite so that
populations can be compared."""


class Ended(Exception):
    """A search has ended; the argument is the reason."""


@dataclass(frozen=True)
class Search(Design):
    """Search for the run with the smallest margin of ``requirement``.

    The factors stay within their ranges, or for a distribution between two quantiles. All runs have
    the same seed, so that the margin depends only on the factors. The column ``generation``
    contains the number of the generation. The factors of a generation depend on the margins of
    earlier generations.
    """

    name: ClassVar[str] = "search"
    random: ClassVar[bool] = False
    planned: ClassVar[bool] = False

    requirement: str
    runs: int = 1000
    """Largest number of runs."""
    population: int = 0
    """Number of runs in each generation. With 0, the method chooses the number; for differential
    evolution, it is five per factor, and at least 20."""
    within: float = 0.998
    """Fraction of each distribution, around the median, from which the search takes values."""
    stop_at_failure: bool = False
    """True to stop after the first generation with a run that misses the requirement or has no
    margin."""
    tolerance: float = 0.01
    """Convergence limit. The search ends when the largest and the smallest margin of the population
    are close enough. The limit is this share of the distance between the median margin of the first
    generation and the smallest margin."""
    method: str = "differential_evolution"
    """Name of the search method, one of ``rtsim.studies.SEARCH_METHODS``."""
    seconds: float | None = None
    """Wall-clock time, s, after which no further runs begin."""

    def __post_init__(self) -> None:
        positive(self, runs=self.runs, population=self.population or 1)
        if 0 < self.population < 5:
            raise ScenarioError(
                f"the population of a search is {self.population}; give at least 5, or 0 for the "
                "default"
            )
        if not 0.0 < self.within < 1.0:
            raise ScenarioError(
                f"within is {self.within!r}; give the share of each distribution to search, "
                "between 0 and 1"
            )
        SEARCH_METHODS.get_or_raise(self.method)
        if self.seconds is not None:
            if self.seconds <= 0.0:
                raise ScenarioError(f"seconds is {self.seconds!r}; give a time > 0 s")
            to_ns(self.seconds, "time of the search")
        if not self.tolerance >= 0.0:
            raise ScenarioError(f"tolerance is {self.tolerance!r}; give a number >= 0")

    def count(self, space: Space) -> int:  # noqa: ARG002
        return self.runs

    def check(self, space: Space) -> None:
        super().check(space)
        if not space.names:
            raise ScenarioError(
                "the study has no factors, so a search has nothing to vary; give a factor"
            )
        self.bounds(space)

    def check_names(self, results: Collection[str], requirements: Collection[str]) -> None:
        super().check_names(results, requirements)
        if self.requirement not in requirements:
            raise UnknownName("requirement", self.requirement, requirements, "the search")

    def points(self, space: Space, first: int, count: int) -> Points:  # noqa: ARG002
        raise ScenarioError(
            "a search chooses each run from the results of earlier runs, so the factors of its "
            "runs are not known in advance; read them from the results of the study"
        )

    def example(self, space: Space) -> Points:
        values = {name: space.factors[name].at(np.array([0.5])) for name in space.names}
        none = np.zeros(1, np.int64)
        return Points(values, none, {"generation": none})

    def mean(self, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:  # noqa: ARG002
        """Return ``None``, because the runs of a search are no random sample."""
        return None

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:  # noqa: ARG002
        return None

    def figures(self, space: Space, columns: Columns) -> dict[str, Any]:
        """Return the worst run, the smallest margin, and the first violation.

        A run without a margin is the worst run. Otherwise, the worst run has the smallest margin.
        The margin of an undecided run is its upper bound.
        """
        margins = np.asarray(columns[self.margin], np.float64)
        runs = np.asarray(columns["run"])
        missed = runs[margins < 0.0]
        robustness = columns.get(robustness_column(self.requirement))
        # Of a formula, also the undecided runs have a robustness.
        decided = ~np.isnan(margins)
        margins = margins if robustness is None else np.asarray(robustness, np.float64)
        none = np.isnan(margins)
        undecided = ~(none | decided)
        out: dict[str, Any] = {
            "requirement": self.requirement, "worst_margin": None, "worst_run": None,
            "worst_state": None, "worst_decided": None, "factors": {},
            "smallest_margin": None, "smallest_run": None, "misses": len(missed),
            "first_miss": int(missed.min()) if len(missed) else None,
            "without_margin": int(none.sum()), "undecided": int(undecided.sum()),
        }  # fmt: skip
        if not none.all():
            k = int(np.nanargmin(margins))
            out |= {"smallest_margin": float(margins[k]), "smallest_run": int(runs[k])}
        if len(margins):
            k = int(np.argmax(none)) if none.any() else k
            out |= {"worst_run": int(runs[k]), "worst_state": columns["state"][k]}
            out["worst_decided"] = bool(decided[k])
            out["worst_margin"] = None if none[k] else float(margins[k])
            out["factors"] = {name: columns[name][k : k + 1].tolist()[0] for name in space.names}
        return {"search": out}

    @property
    def margin(self) -> str:
        """Name of the column with the margin of the requirement."""
        return margin_column(self.requirement)

    def bounds(self, space: Space) -> tuple[Vector, Vector, Any]:
        """Return the smallest and largest coordinates of the factors, and which are integers.

        Each of the three arrays has one element for each factor.
        """
        found = [space.factors[name].bounds(self.within) for name in space.names]
        for name, (low, high, _) in zip(space.names, found, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ScenarioError(
                    f"the search range of factor {name} is {low} to {high}, which is not possible; "
                    "give the factor a range, or give within= a smaller share of its distribution"
                )
        lows, highs, whole = zip(*found, strict=True)
        return np.array(lows, np.float64), np.array(highs, np.float64), np.array(whole, np.bool_)

    def minimise(self, space: Space, evaluate: Evaluate) -> str:
        """Search for the smallest margin, and return the reason for the end of the search.

        ``evaluate`` is called once for each generation, with its new candidates. The candidates
        depend only on the factors and on earlier margins.
        """
        try:
            SEARCH_METHODS.get_or_raise(self.method)().search(_Minimum(self, space, evaluate))
        except Ended as ended:
            return str(ended)
        return CONVERGED


class _Minimum:
    def __init__(self, design: Search, space: Space, evaluate: Evaluate) -> None:
        self._design, self._space, self._evaluate = design, space, evaluate
        self.low, self.high, self.whole = design.bounds(space)
        self.runs, self.population = design.runs, design.population
        self._left = design.runs
        self._generation = 0
        self._middle = 0.0
        self._seen: dict[tuple[Value, ...], float] = {}

    def seed(self, name: str) -> int:
        return seed_of(self._space.seed, name)

    def scaled(self, units: Any) -> Any:
        span = self.high - self.low
        steps = np.minimum(np.floor(units * (span + 1.0)), span)
        return self.low + np.where(self.whole, steps, units * span)

    def margins(self, coordinates: Iterable[Vector]) -> list[float]:
        keys = [self._key(x) for x in coordinates][: self._left]
        new = list(dict.fromkeys(key for key in keys if key not in self._seen))
        if new:
            names = self._space.names
            candidates = [dict(zip(names, key, strict=True)) for key in new]
            found = self._evaluate(self._generation, list(candidates))
            self._seen.update(zip(new, found, strict=True))
        out = [self._seen[key] for key in keys]
        self._left -= len(keys)
        if self._design.stop_at_failure and not all(margin >= 0.0 for margin in out):
            raise Ended(MISS if any(margin < 0.0 for margin in out) else NO_MARGIN)
        if not self._left:
            raise Ended(MAXIMUM)
        energies = [_energy(margin) for margin in out]
        if not self._generation:
            self._middle = float(np.median(energies))
        self._generation += 1
        return energies

    def converged(self, energies: Vector) -> bool:
        scale = self._middle - energies.min()
        # If all margins have been equal from the beginning, the search has not succeeded.
        return bool(scale > 0.0 and np.ptp(energies) <= self._design.tolerance * scale)

    def _key(self, coordinates: Vector) -> tuple[Value, ...]:
        # A rounded sum may exceed the bounds by one bit.
        inside = np.clip(coordinates, self.low, self.high)
        factors = self._space.factors
        return tuple(
            factors[name].chosen(float(x))
            for name, x in zip(self._space.names, inside, strict=True)
        )


def _energy(margin: float) -> float:
    return _WORST if math.isnan(margin) else min(max(margin, -_FAR), _FAR)
