"""Worst-case search: differential evolution minimises the margin of a requirement."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL, Estimate
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import Columns, Design, Marks, Points, Share, Space, positive
from rtsim.studies.designs.sampling import scipy_generator
from rtsim.studies.factors import seed_of
from rtsim.studies.measures import margin_column
from rtsim.studies.texts import Value

Candidate = Mapping[str, Value]
Evaluate = Callable[[int, list[Candidate]], list[float]]
"""Function that executes the candidates of a generation and returns their margins. A run without a
margin has NaN. The first argument is the number of the generation."""

CONVERGED, MAXIMUM, MISS, NO_MARGIN = "converged", "maximum", "miss", "no margin"
"""Reasons for the end of a search.

- converged: the margins of the population are nearly equal.
- maximum: the largest number of runs is reached.
- miss: a run misses the requirement.
- no margin: a run has no margin, and no run misses the requirement.
"""
_SMALLEST = 20
_EACH_FACTOR = 5
_FAR = 1e100
_WORST = -1e101
"""A run without a margin counts as worse than every run with a margin. The value is finite so that
populations can be compared."""


class _Ended(Exception):
    """Exception that ends a search; its argument is the reason for the end."""


@dataclass(frozen=True)
class Search(Design):
    """Search for the smallest margin of ``requirement`` within bounds of the factors.

    The bounds are those of a range, two quantiles of a distribution, or the first and last entry of
    a list. All runs have the same seed, so that the margin is a function of the factors. The column
    ``generation`` contains the number of the generation. The candidates of a generation depend on
    the margins of the earlier generations.
    """

    name: ClassVar[str] = "search"
    random: ClassVar[bool] = False
    planned: ClassVar[bool] = False

    requirement: str
    runs: int = 1000
    """Largest number of runs."""
    population: int = 0
    """Number of runs in each generation. With 0, the number is five per factor, and at least 20."""
    within: float = 0.998
    """Share of each distribution, around its median, in which the search chooses values."""
    stop_at_failure: bool = False
    """True to stop after the first generation with a run that misses the requirement or has no
    margin."""
    tolerance: float = 0.01
    """Convergence limit. The search ends when the largest and the smallest margin of the population
    are close enough. The limit is this share of the distance between the median margin of the first
    generation and the smallest margin."""

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
        """Return no estimate, because the runs of a search are not a sample of the factors."""
        return None

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:  # noqa: ARG002
        return None

    def figures(self, space: Space, columns: Columns) -> dict[str, Any]:
        """Return the worst run, the smallest margin, and the first run with a negative margin.

        The worst run is the first run that has no margin. If all runs have a margin, the worst run
        is the run with the smallest margin.
        """
        margins = np.asarray(columns[self.margin], np.float64)
        runs = np.asarray(columns["run"])
        missed = runs[margins < 0.0]
        none = np.isnan(margins)
        out: dict[str, Any] = {
            "requirement": self.requirement, "worst_margin": None, "worst_run": None,
            "worst_state": None, "factors": {}, "smallest_margin": None, "smallest_run": None,
            "misses": len(missed), "first_miss": int(missed.min()) if len(missed) else None,
            "without_margin": int(none.sum()),
        }  # fmt: skip
        if not none.all():
            k = int(np.nanargmin(margins))
            out |= {"smallest_margin": float(margins[k]), "smallest_run": int(runs[k])}
        if len(margins):
            k = int(np.argmax(none)) if none.any() else k
            out |= {"worst_run": int(runs[k]), "worst_state": columns["state"][k]}
            out["worst_margin"] = None if none[k] else float(margins[k])
            out["factors"] = {name: columns[name][k : k + 1].tolist()[0] for name in space.names}
        return {"search": out}

    @property
    def margin(self) -> str:
        """Name of the column that is minimised."""
        return margin_column(self.requirement)

    def size(self, space: Space) -> int:
        """Return the number of candidates in each generation."""
        return self.population or max(_SMALLEST, _EACH_FACTOR * len(space.names))

    def bounds(self, space: Space) -> tuple[Vector, Vector, Any]:
        """Return the low and high coordinates of the factors, and which coordinates are integers.

        Each of the three arrays has one element per factor.
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
        """Search for the smallest margin, and return the reason for which the search ended.

        ``evaluate`` is called once per generation, with the candidates that are new. Candidates
        depend only on the space of the factors and on the margins of earlier generations.
        """
        from scipy.optimize import differential_evolution
        from scipy.stats import qmc

        low, high, whole = self.bounds(space)
        cube = qmc.LatinHypercube(
            len(low), **scipy_generator(seed_of(space.seed, "search/first"))
        ).random(self.size(space))
        steps = np.minimum(np.floor(cube * (high - low + 1.0)), high - low)
        first = low + np.where(whole, steps, cube * (high - low))
        minimum = _Minimum(self, space, evaluate)
        call: Any = differential_evolution
        try:
            call(
                lambda x: 0.0,  # noqa: ARG005  (the map below computes the margins)
                list(zip(low, high, strict=True)), init=first, integrality=whole,
                workers=minimum.margins, updating="deferred", callback=minimum.converged,
                polish=False, maxiter=self.runs,
                # The tolerances of SciPy are never met, so only `converged` ends the search.
                tol=0.0, atol=-1.0,
                **scipy_generator(seed_of(space.seed, "search")),
            )  # fmt: skip
        except _Ended as ended:
            return str(ended)
        return CONVERGED


class _Minimum:
    def __init__(self, design: Search, space: Space, evaluate: Evaluate) -> None:
        self._design, self._space, self._evaluate = design, space, evaluate
        self._bounds = design.bounds(space)
        self._left = design.runs
        self._generation = 0
        self._middle = 0.0
        self._seen: dict[tuple[Value, ...], float] = {}

    def margins(self, _: object, coordinates: Iterable[Vector]) -> list[float]:
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
            raise _Ended(MISS if any(margin < 0.0 for margin in out) else NO_MARGIN)
        if not self._left:
            raise _Ended(MAXIMUM)
        energies = [_energy(margin) for margin in out]
        if not self._generation:
            self._middle = float(np.median(energies))
        self._generation += 1
        return energies

    def converged(self, intermediate_result: Any) -> bool:
        energies = intermediate_result.population_energies
        scale = self._middle - energies.min()
        # If all margins have been equal from the beginning, the search has not succeeded.
        return bool(scale > 0.0 and np.ptp(energies) <= self._design.tolerance * scale)

    def _key(self, coordinates: Vector) -> tuple[Value, ...]:
        low, high, _ = self._bounds
        inside = np.clip(coordinates, low, high)  # A rounded sum may exceed the bounds by one bit.
        factors = self._space.factors
        return tuple(
            factors[name].chosen(float(x))
            for name, x in zip(self._space.names, inside, strict=True)
        )


def _energy(margin: float) -> float:
    return _WORST if math.isnan(margin) else min(max(margin, -_FAR), _FAR)
