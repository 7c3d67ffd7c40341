"""The base class of designs, which give the factors of each run their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import LEVEL, Estimate, interval
from rtsim.core.signals import Vector
from rtsim.studies.factors import Copula, Pairs, Spread, Values, spread


@dataclass(frozen=True)
class Rate:
    """Fraction of runs that pass, with its confidence interval from ``low`` to ``high``."""

    passed: int
    count: int
    low: float
    high: float
    level: float = LEVEL

    @property
    def share(self) -> float:
        return self.passed / self.count

    def __str__(self) -> str:
        return f"{self.share:.4g} ({self.low:.4g} to {self.high:.4g}, n = {self.count})"


@dataclass(frozen=True)
class Share:
    """Estimated fraction of all possible runs that meet a requirement."""

    share: float
    low: float
    high: float
    level: float = LEVEL


def rate(passed: int, count: int, level: float = LEVEL) -> Rate:
    """Return a fraction with its Clopper-Pearson confidence interval.

    The interval contains the true fraction with a probability of at least ``level`` (Clopper and
    Pearson, Biometrika 26 (1934) 404). Impossible counts raise :class:`ScenarioError`.
    """
    if not (0 <= passed <= count and count > 0):
        raise ScenarioError(
            f"passed={passed} of count={count} runs is impossible; give 0 <= passed <= count and "
            "count > 0"
        )
    from scipy.special import betaincinv

    tail = 0.5 * (1.0 - level)
    low = 0.0 if passed == 0 else float(betaincinv(passed, count - passed + 1, tail))
    high = 1.0 if passed == count else float(betaincinv(passed + 1, count - passed, 1.0 - tail))
    return Rate(passed, count, low, high, level)


Integers = NDArray[np.int64]
Marks = NDArray[np.bool_]
Columns = Mapping[str, Any]
Indices = dict[str, dict[str, float]]
"""Sensitivity indices by factor and name. ``NAME_half`` is the half-width of the interval of the
index ``NAME``."""
PairIndices = dict[tuple[str, str], dict[str, float]]


@dataclass(frozen=True)
class Space:
    """The factors of a study, with their correlations and the seed."""

    seed: int
    factors: Mapping[str, Spread]
    copula: Copula = field(default_factory=Copula)

    @classmethod
    def of(cls, factors: Mapping[str, object], seed: int, correlation: Pairs) -> Space:
        """Return the space for the declared factors and correlations.

        Invalid factors or correlations raise :class:`ScenarioError`.
        """
        found: dict[str, Spread] = {}
        for name, given in factors.items():
            try:
                found[name] = spread(given)
            except ScenarioError as error:
                raise ScenarioError(f"factor {name}: {error}") from None
        return cls(seed, found, Copula.of(correlation, sorted(found)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the factors in alphabetical order."""
        return tuple(sorted(self.factors))

    def values(self, unit: list[Vector]) -> dict[str, Values]:
        """Convert numbers between 0 and 1 to values of the factors.

        ``unit`` contains an array (n,) of numbers for each factor.
        """
        mapped = self.copula.apply(self.names, unit)
        return {
            name: self.factors[name].at(one) for name, one in zip(self.names, mapped, strict=True)
        }

    def without(self, *names: str) -> Space:
        """Return a copy without the given factors."""
        rest = {name: one for name, one in self.factors.items() if name not in names}
        return Space(self.seed, rest, self.copula)


@dataclass(frozen=True)
class Points:
    """Values of the factors in consecutive runs, one array (n,) for each factor."""

    values: Mapping[str, Values]
    draws: Integers
    """One number per run, (n,). Runs with equal numbers have the same seed."""
    marks: Mapping[str, Values] = field(default_factory=dict)
    """Further columns of the results, such as ``weight`` and ``stratum``."""


class Design(ABC):
    """Base class of designs, which give the factors of each run their values.

    To add a design, write a dataclass whose fields are JSON data, with a ``name`` and the methods
    :meth:`count` and :meth:`points`, and register it (docs/studies.md).
    """

    name: ClassVar[str]
    random: ClassVar[bool] = True
    """False if the design ignores the distributions of the factors and only uses their levels."""
    pooled: ClassVar[bool] = True
    """False if the runs are repeated for several alternatives. Estimates then exist for each
    alternative, but not for all runs together."""
    planned: ClassVar[bool] = True
    """False if the factors of a run depend on the results of earlier runs. The factors are then
    stored only with the results, and the runs are not a sample of the factors."""

    @abstractmethod
    def count(self, space: Space) -> int:
        """Return the number of runs."""

    @abstractmethod
    def points(self, space: Space, first: int, count: int) -> Points:
        """Return the factors of ``count`` consecutive runs, beginning with run ``first``.

        The factors of a run may depend only on ``space`` and the number of the run.
        """

    def samples(
        self, factors: Mapping[str, object], *, seed: int = 0, correlation: Pairs | None = None
    ) -> list[dict[str, Any]]:
        """Return the factors of all runs without running a study, one dict for each run.

        ``factors`` and ``correlation`` are those of ``rtsim.studies.Study``. Raises
        ``ScenarioError`` for unsuitable factors, and for a design that depends on the results of
        runs.

        Example:
            for values in LatinHypercube(100).samples({"mass": (1, 2)}):
                simulate(Cart(**values), until=10)
        """
        if not self.planned:
            raise ScenarioError(
                f"the design {self.name} chooses the factors of a run from the results of earlier "
                "runs, so the factors are not known in advance; start a study with this design"
            )
        space = Space.of(factors, seed, correlation or {})
        self.check(space)
        count = self.count(space)
        columns = self.points(space, 0, count).values
        plain = {name: np.asarray(one).tolist() for name, one in columns.items()}
        return [{name: values[k] for name, values in plain.items()} for k in range(count)]

    def check(self, space: Space) -> None:
        """Raise ``ScenarioError`` if the design is not suitable for these factors."""
        if not self.random and space.copula.pairs:
            raise ScenarioError(
                f"the design {self.name} varies factors independently, so they cannot be "
                "correlated; leave the correlation out, or use the design monte_carlo"
            )

    def check_names(self, results: Collection[str], requirements: Collection[str]) -> None:  # noqa: ARG002
        """Raise ``UnknownName`` if the design refers to an unknown result or requirement.

        ``results`` and ``requirements`` contain the known names.
        """
        return

    def check_looks(self, looks: Sequence[int]) -> None:  # noqa: ARG002
        """Raise ``ScenarioError`` if the design cannot stop early after ``looks`` runs.

        A design can stop early if its first runs are a random sample of all runs.
        """
        raise ScenarioError(
            f"the design {self.name} cannot stop early, because its runs belong together; use "
            "monte_carlo, replications or antithetic, or leave stop out"
        )

    def example(self, space: Space) -> Points:
        """Return a typical run, whose values have the types of all runs."""
        return self.points(space, 0, 1)

    def mean(self, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:  # noqa: ARG002
        """Estimate the mean of a result, with the weights of the design.

        ``values`` (n,) contains the results of n runs, and ``columns`` all columns of these runs.
        The estimate is ``None`` if there are too few runs.
        """
        return interval(values, level) if len(values) > 1 else None

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:  # noqa: ARG002
        """Estimate the fraction of runs that meet a requirement, with the weights of the design.

        ``met`` (n,) is true for these runs. ``columns`` contains all columns of the runs, each
        (n,). The estimate is ``None`` if there are too few runs.
        """
        if not len(met):
            return None
        exact = rate(int(met.sum()), len(met), level)
        return Share(exact.share, exact.low, exact.high, exact.level)

    def weights(self, columns: Columns) -> Vector | None:  # noqa: ARG002
        """Return the weights (n,) of runs, with the sum 1, or ``None`` for equal weights.

        ``columns`` contains all columns of the runs, each (n,).
        """
        return None

    def series(self, columns: Columns) -> dict[str, Marks]:
        """Return the series of a plot: for each series, its name and a mask (n,) of its runs.

        ``columns`` contains all columns of the runs, each (n,).
        """
        return {"": np.ones(len(columns["run"]), np.bool_)}

    def order(self, columns: Columns) -> Integers:
        """Return the order (n,) of runs in a plot of the convergence.

        ``columns`` contains all columns of the runs, sorted by run number.
        """
        return np.arange(len(columns["run"]))

    def sensitivity(self, space: Space, values: Vector, level: float = LEVEL) -> Indices:  # noqa: ARG002
        """Return sensitivity indices of the factors from the results ``values`` (runs,).

        ``values`` contains NaN for a run without a result. Raises ``ScenarioError`` for a design
        without indices, and for too few results.
        """
        raise ScenarioError(f"the design {self.name} gives no sensitivity indices")

    def interactions(self, space: Space, values: Vector, level: float = LEVEL) -> PairIndices:  # noqa: ARG002
        """Return second-order indices of pairs of factors; empty for most designs.

        The arguments are those of ``sensitivity``.
        """
        return {}

    @classmethod
    def has_indices(cls) -> bool:
        """Return whether the design implements :meth:`sensitivity`."""
        return cls.sensitivity is not Design.sensitivity

    def figures(self, space: Space, columns: Columns) -> dict[str, Any]:  # noqa: ARG002
        """Return additional entries for the summary of a study.

        ``columns`` contains all rows so far.
        """
        return {}

    def compared(
        self,
        space: Space,  # noqa: ARG002
        columns: Columns,  # noqa: ARG002
        values: Vector,  # noqa: ARG002
        level: float = LEVEL,  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """Return the mean of a result for each alternative; empty for most designs.

        ``columns`` contains all columns of the completed runs, each (n,). ``values`` (n,) contains
        the results of these runs.
        """
        return []

    @classmethod
    def named(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Convert named values in a text such as ``grid:levels=5`` to arguments of the design."""
        return given

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data.

        :func:`rtsim.studies.designs.design_of` recreates the design from the data.
        """
        own = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"design": self.name, **own}


class UnitDesign(Design):
    """Design that chooses numbers between 0 and 1 for the distributions of the factors."""

    @abstractmethod
    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        """Return one array (count,) of numbers in (0, 1) for each of ``space.names``."""

    def points(self, space: Space, first: int, count: int) -> Points:
        unit = self.unit(space, first, count)
        return Points(space.values(unit), np.arange(first, first + count))


def positive(design: Design, **values: object) -> None:
    """Raise ``ScenarioError`` for a value that is no positive whole number."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ScenarioError(
                f"{name} of the design {design.name} is {value!r}; give a whole number >= 1"
            )


def inside(unit: Vector) -> Vector:
    """Move numbers away from 0 and 1, where a factor could be infinite."""
    return np.clip(unit, 2.0**-53, 1.0 - 2.0**-53)
