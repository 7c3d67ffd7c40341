"""Search methods, which choose candidates from the margins of earlier candidates.

Other packages add methods through the entry point ``rtsim.search_methods`` (docs/falsification.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.extras import extra
from rtsim.core.signals import Vector
from rtsim.studies.designs.sampling import scipy_generator

_SMALLEST = 20
_EACH_FACTOR = 5
_AT_ONCE = 16
"""Number of runs after which a method without generations checks whether to stop."""


class Problem(Protocol):
    """The variables of a search, with the computation of margins."""

    low: Vector
    """Smallest coordinate (n,) of each of the n variables."""
    high: Vector
    """Largest coordinate (n,) of each variable."""
    whole: Any
    """Which coordinates (n,) are integers."""
    runs: int
    """Largest number of runs."""
    population: int
    """Number of candidates in a generation that the user wants, or 0."""

    def seed(self, name: str) -> int:
        """Return a seed below 2^53, which depends on the name."""

    def scaled(self, units: Any) -> Any:
        """Convert numbers (k, n) between 0 and 1 to coordinates of k candidates."""

    def margins(self, candidates: Iterable[Vector]) -> list[float]:
        """Run candidates, and return a finite margin for each.

        An exception is raised at the end of the search.
        """

    def converged(self, margins: Vector) -> bool:
        """Return whether the margins (n,) of a generation are nearly equal."""


class SearchMethod(ABC):
    """Abstract base class of search methods.

    To add a search method, write and register a class with a ``name`` and a method ``search``. The
    candidates may depend only on the seeds of the problem and on the margins.
    """

    name: ClassVar[str]

    @abstractmethod
    def search(self, problem: Problem) -> None:
        """Request margins until the method has converged or the search has ended."""


class DifferentialEvolution(SearchMethod):
    """SciPy's differential evolution, beginning with a Latin hypercube."""

    name = "differential_evolution"

    def search(self, problem: Problem) -> None:
        from scipy.optimize import differential_evolution

        size = problem.population or max(_SMALLEST, _EACH_FACTOR * len(problem.low))
        call: Any = differential_evolution
        call(
            lambda x: 0.0,  # noqa: ARG005  (the map below computes the margins)
            list(zip(problem.low, problem.high, strict=True)), integrality=problem.whole,
            init=problem.scaled(_hypercube(problem, "search/first", size)),
            workers=lambda _, candidates: problem.margins(candidates), updating="deferred",
            polish=False,
            callback=lambda intermediate_result: problem.converged(
                intermediate_result.population_energies
            ),
            maxiter=problem.runs,
            # The tolerances of SciPy are never met, so only the callback ends the search.
            tol=0.0, atol=-1.0, **scipy_generator(problem.seed("search")),
        )  # fmt: skip


class RandomSearch(SearchMethod):
    """Independent candidates of equal probability."""

    name = "random"

    def search(self, problem: Problem) -> None:
        generator = np.random.Generator(np.random.Philox(problem.seed("search/random")))
        while True:
            problem.margins(problem.scaled(generator.random((_AT_ONCE, len(problem.low)))))


class LatinHypercubeSearch(SearchMethod):
    """A search whose candidates are one Latin hypercube."""

    name = "latin_hypercube"

    def search(self, problem: Problem) -> None:
        every = _hypercube(problem, "search/hypercube", problem.runs)
        for first in range(0, len(every), _AT_ONCE):
            problem.margins(problem.scaled(every[first : first + _AT_ONCE]))


class CovarianceMatrixAdaptation(SearchMethod):
    """CMA-ES of the package cma, beginning with the best candidate of a Latin hypercube.

    After convergence, the method starts again with a generation of twice the size.
    """

    name = "cma"

    def search(self, problem: Problem) -> None:
        cma = extra("cma", "study", "the search method cma")
        size = problem.population or max(6, 4 + int(3 * math.log(len(problem.low))))
        for start in range(1_000_000):
            first = _hypercube(problem, f"search/cma/{start}", max(_AT_ONCE, size))
            found = problem.margins(problem.scaled(first))
            generator = np.random.Generator(np.random.Philox(problem.seed(f"search/cma/{start}")))
            options = {
                "bounds": [0.0, 1.0], "popsize": size, "verbose": -9, "seed": math.nan,
                "randn": lambda *shape, of=generator: of.standard_normal(shape),
                "maxiter": math.inf, "maxfevals": math.inf, "verb_log": 0,
            }  # fmt: skip
            best = first[int(np.argmin(found))].tolist()
            # cma rejects a single variable, so one variable gets a companion without effect.
            best = best if len(problem.low) > 1 else [*best, 0.5]
            strategy = cma.CMAEvolutionStrategy(best, _STEP, options)
            while not strategy.stop():
                candidates = strategy.ask()
                units = np.array(candidates)[:, : len(problem.low)]
                margins = problem.margins(problem.scaled(units))
                strategy.tell(candidates, margins)
            size *= 2


_STEP = 0.25


def _hypercube(problem: Problem, name: str, count: int) -> Any:
    from scipy.stats import qmc

    cube = qmc.LatinHypercube(len(problem.low), **scipy_generator(problem.seed(name)))
    return cube.random(count)


def _checked(name: str, one: object) -> type[SearchMethod]:
    if not (isinstance(one, type) and issubclass(one, SearchMethod)) or one.name != name:
        raise ScenarioError(
            f"search method {name!r} is {one!r}; expected a subclass of "
            f"rtsim.studies.SearchMethod whose name is {name!r}"
        )
    return one


_SHIPPED: tuple[type[SearchMethod], ...] = (
    DifferentialEvolution, RandomSearch, LatinHypercubeSearch, CovarianceMatrixAdaptation,
)  # fmt: skip
SEARCH_METHODS: ExtensionPoint[type[SearchMethod]] = ExtensionPoint(
    "rtsim.search_methods", "search method", {one.name: one for one in _SHIPPED}, _checked
)
"""Classes of the search methods, by name."""
