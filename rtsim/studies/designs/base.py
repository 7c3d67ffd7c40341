"""The interface of a design: which values the factors have in run k, and what estimates follow."""

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

# Shares of runs, with exact intervals.


@dataclass(frozen=True)
class Rate:
    """A share ``passed / count`` with its interval from ``low`` to ``high``."""

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
    """A share of all possible runs, with its interval from ``low`` to ``high``."""

    share: float
    low: float
    high: float
    level: float = LEVEL


def rate(passed: int, count: int, level: float = LEVEL) -> Rate:
    """Return the Clopper-Pearson interval of the share of ``passed`` among ``count`` runs.

    It covers the true share with at least the probability ``level`` (Clopper and Pearson,
    Biometrika 26 (1934) 404).  Raises :class:`ScenarioError` for impossible counts.
    """
    if not (0 <= passed <= count and count > 0):
        raise ScenarioError(f"{passed} of {count} is not a share; give 0 <= passed <= count")
    from scipy.special import betaincinv

    tail = 0.5 * (1.0 - level)
    low = 0.0 if passed == 0 else float(betaincinv(passed, count - passed + 1, tail))
    high = 1.0 if passed == count else float(betaincinv(passed + 1, count - passed, 1.0 - tail))
    return Rate(passed, count, low, high, level)


Integers = NDArray[np.int64]
Marks = NDArray[np.bool_]
Columns = Mapping[str, Any]
"""Columns of the table of runs, by name."""
Indices = dict[str, dict[str, float]]
"""Sensitivity indices of each factor, by their names; ``NAME_half`` is the half-width of the
interval of ``NAME``."""
PairIndices = dict[tuple[str, str], dict[str, float]]
"""Sensitivity indices of each pair of factors."""


@dataclass(frozen=True)
class Space:
    """The factors of a study, their correlations and the study's seed."""

    seed: int
    factors: Mapping[str, Spread]
    copula: Copula = field(default_factory=Copula)

    @classmethod
    def of(cls, factors: Mapping[str, object], seed: int, correlation: Pairs) -> Space:
        """Return the space of factors as a study declares them; raises :class:`ScenarioError`."""
        found: dict[str, Spread] = {}
        for name, given in factors.items():
            try:
                found[name] = spread(given)
            except ScenarioError as error:
                raise ScenarioError(f"factor {name}: {error}") from None
        return cls(seed, found, Copula.of(correlation, sorted(found)))

    @property
    def names(self) -> tuple[str, ...]:
        """The factors in alphabetical order, so that the order of their declaration is free."""
        return tuple(sorted(self.factors))

    def values(self, unit: list[Vector]) -> dict[str, Values]:
        """Return the values of all factors at ``unit``, (n,) in (0, 1) for each of the names."""
        mapped = self.copula.apply(self.names, unit)
        return {
            name: self.factors[name].at(one) for name, one in zip(self.names, mapped, strict=True)
        }

    def without(self, *names: str) -> Space:
        """Return the space without these factors."""
        rest = {name: one for name, one in self.factors.items() if name not in names}
        return Space(self.seed, rest, self.copula)


@dataclass(frozen=True)
class Points:
    """The factors of consecutive runs, each as an array (n,)."""

    values: Mapping[str, Values]
    draws: Integers
    """Runs with the same number (n,) have the same seed."""
    marks: Mapping[str, Values] = field(default_factory=dict)
    """Further columns of the results, such as ``weight`` and ``stratum``."""


class Design(ABC):
    """A rule that gives each run the values of its factors.

    Write a dataclass whose fields are JSON data, with a ``name`` and the methods :meth:`count` and
    :meth:`points`, and register it: docs/studies.md.
    """

    name: ClassVar[str]
    random: ClassVar[bool] = True
    """False if the design does not use the distributions of the factors, only their levels."""
    pooled: ClassVar[bool] = True
    """False if some runs are copies of others under another alternative: then there are estimates
    of each alternative, and none of all runs together."""
    planned: ClassVar[bool] = True
    """False if the runs follow from the results of earlier runs.  Their values are then in the
    results only, and they are no sample of the factors."""

    @abstractmethod
    def count(self, space: Space) -> int:
        """Return the number of runs."""

    @abstractmethod
    def points(self, space: Space, first: int, count: int) -> Points:
        """Return the factors of the runs ``first``, ``first + 1``, ... (``count`` of them).

        The values of a run depend on the space and on the number of the run, and not on ``first``
        or ``count``.
        """

    def samples(
        self, factors: Mapping[str, object], *, seed: int = 0, correlation: Pairs | None = None
    ) -> list[dict[str, Any]]:
        """Return the values of ``factors`` in each run by name, for a loop of your own.

        ``factors`` and ``correlation`` are those of :class:`rtsim.studies.Study`.  A study with
        this seed has the same values.  Raises :class:`ScenarioError` for factors that the design
        cannot use, and for a design whose runs follow from earlier results.

        Example:
            for values in LatinHypercube(100).samples({"mass": (1, 2)}):
                simulate(Cart(**values), until=10)
        """
        if not self.planned:
            raise ScenarioError(
                f"the runs of the design {self.name} follow from the results of earlier runs; "
                "start a study of it"
            )
        space = Space.of(factors, seed, correlation or {})
        self.check(space)
        count = self.count(space)
        columns = self.points(space, 0, count).values
        plain = {name: np.asarray(one).tolist() for name, one in columns.items()}
        return [{name: values[k] for name, values in plain.items()} for k in range(count)]

    def check(self, space: Space) -> None:
        """Raise :class:`ScenarioError` if the design cannot be used with these factors."""
        if not self.random and space.copula.pairs:
            raise ScenarioError(
                f"the design {self.name} varies factors independently, so they cannot be "
                "correlated; leave the correlation out, or use the design monte_carlo"
            )

    def check_names(self, results: Collection[str], requirements: Collection[str]) -> None:  # noqa: ARG002
        """Raise :class:`UnknownName` if the design names a result or requirement that is not there.

        ``results``, ``requirements``: the names that the study has.
        """
        return

    def check_looks(self, looks: Sequence[int]) -> None:  # noqa: ARG002
        """Raise :class:`ScenarioError` if a study of this design cannot stop after ``looks`` runs.

        A design can stop early if its first runs are a sample of all, whose means have intervals.
        """
        raise ScenarioError(
            f"the design {self.name} cannot stop early, because its runs belong together; use "
            "monte_carlo, replications or antithetic, or leave stop out"
        )

    def example(self, space: Space) -> Points:
        """Return one run with typical values, whose columns have the types of all runs."""
        return self.points(space, 0, 1)

    def mean(self, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:  # noqa: ARG002
        """Return the mean of the results ``values`` (n,), as this design weights its runs.

        ``columns``: the columns of these runs, (n,) each.  ``None`` if there are too few runs.
        """
        return interval(values, level) if len(values) > 1 else None

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:  # noqa: ARG002
        """Return the share of runs with a true entry of ``met`` (n,), as this design weights them.

        ``columns``: the columns of these runs, (n,) each.  ``None`` if there are too few runs.
        """
        if not len(met):
            return None
        exact = rate(int(met.sum()), len(met), level)
        return Share(exact.share, exact.low, exact.high, exact.level)

    def weights(self, columns: Columns) -> Vector | None:  # noqa: ARG002
        """Return the weight (n,) of each of these runs, with the sum 1; ``None`` for equal weights.

        ``columns``: the columns of these runs, (n,) each.
        """
        return None

    def series(self, columns: Columns) -> dict[str, Marks]:
        """Return the runs (n,) that a plot draws as one series, by the text of its legend.

        ``columns``: the columns of all runs, (n,) each.
        """
        return {"": np.ones(len(columns["run"]), np.bool_)}

    def order(self, columns: Columns) -> Integers:
        """Return the order (n,) in which these runs are taken to show how estimates converge.

        ``columns``: the columns of these runs, (n,) each, in the order of their numbers.
        """
        return np.arange(len(columns["run"]))

    def sensitivity(self, space: Space, values: Vector, level: float = LEVEL) -> Indices:  # noqa: ARG002
        """Return sensitivity indices of each factor from the results ``values`` (runs,).

        A run without a result has NaN.  Raises :class:`ScenarioError` if the design has no indices,
        or if too few runs have a result.
        """
        raise ScenarioError(f"the design {self.name} gives no sensitivity indices")

    def interactions(self, space: Space, values: Vector, level: float = LEVEL) -> PairIndices:  # noqa: ARG002
        """Return indices of second order; arguments as for :meth:`sensitivity`.

        Empty if the design has none.
        """
        return {}

    @classmethod
    def has_indices(cls) -> bool:
        """Return whether :meth:`sensitivity` computes indices."""
        return cls.sensitivity is not Design.sensitivity

    def figures(self, space: Space, columns: Columns) -> dict[str, Any]:  # noqa: ARG002
        """Return further figures of the summary of a study; ``columns``: all rows so far."""
        return {}

    def compared(
        self,
        space: Space,  # noqa: ARG002
        columns: Columns,  # noqa: ARG002
        values: Vector,  # noqa: ARG002
        level: float = LEVEL,  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """Return the means of one result in each alternative of the design, one row for each.

        ``columns``: the columns of the runs that came to their end, (n,) each; ``values``: their
        results (n,).  A design without alternatives has no rows.
        """
        return []

    @classmethod
    def named(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the named values of a text such as ``grid:levels=5`` as the constructor takes
        them.
        """
        return given

    def to_plain(self) -> dict[str, Any]:
        """Return plain JSON data; :func:`rtsim.studies.designs.design_of` reads it."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"design": self.name, **own}


class UnitDesign(Design):
    """A design that gives numbers in (0, 1), to which the distributions are applied."""

    @abstractmethod
    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        """Return numbers (count,) in (0, 1) for each of ``space.names``."""

    def points(self, space: Space, first: int, count: int) -> Points:
        unit = self.unit(space, first, count)
        return Points(space.values(unit), np.arange(first, first + count))


def positive(design: Design, **values: object) -> None:
    """Raise :class:`ScenarioError` unless each value is a whole number >= 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ScenarioError(
                f"{name} of the design {design.name} is {value!r}; give a whole number >= 1"
            )


def inside(unit: Vector) -> Vector:
    """Return ``unit`` with numbers moved off 0 and 1, where a distribution may be infinite."""
    return np.clip(unit, 2.0**-53, 1.0 - 2.0**-53)
