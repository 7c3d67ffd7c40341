"""Random designs: Monte Carlo, Latin hypercubes, strata and common random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL, Estimate, stratified
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import (
    Columns,
    Design,
    Integers,
    Marks,
    Points,
    Share,
    Space,
    UnitDesign,
    inside,
    positive,
    rate,
)
from rtsim.studies.factors import Choice, Values, seed_of, uniforms


def scipy_generator(seed: int) -> Any:
    """Return the keyword argument for SciPy's random generator, ``rng`` since SciPy 1.15."""
    import scipy

    version = tuple(int(part) for part in scipy.__version__.split(".")[:2])
    return {"rng" if version >= (1, 15) else "seed": np.random.default_rng(seed)}


def _pair_means(pairs: Vector, values: Vector) -> Vector:
    names, which, count = np.unique(pairs, return_inverse=True, return_counts=True)
    sums = np.bincount(which, weights=values, minlength=len(names))
    out: Vector = sums[count == 2] / 2.0
    return out


@dataclass(frozen=True)
class MonteCarlo(UnitDesign):
    """Independent random values of all factors."""

    name: ClassVar[str] = "monte_carlo"

    runs: int = 100

    def __post_init__(self) -> None:
        positive(self, runs=self.runs)

    def count(self, space: Space) -> int:  # noqa: ARG002
        return self.runs

    def check_looks(self, looks: Sequence[int]) -> None:
        pass

    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        return [uniforms(space.seed, name, first, count) for name in space.names]


@dataclass(frozen=True)
class Replications(MonteCarlo):
    """Runs that differ only in their seed."""

    name: ClassVar[str] = "replications"

    def check(self, space: Space) -> None:
        if space.names:
            raise ScenarioError(
                f"the design {self.name} changes only the seed, but the study has the factors "
                f"{', '.join(space.names)}; use the design monte_carlo"
            )


@dataclass(frozen=True)
class Antithetic(MonteCarlo):
    """Pairs of runs with opposite random numbers: u in the first run, and 1 - u in the second.

    If a result is monotonic in the factors, its mean then has a smaller variance. The number of
    ``runs`` must be even.
    """

    name: ClassVar[str] = "antithetic"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs % 2:
            raise ScenarioError(f"{self.runs} runs cannot form pairs; give an even number of runs")

    def check_looks(self, looks: Sequence[int]) -> None:
        if any(look % 2 for look in looks):
            raise ScenarioError(
                "antithetic runs are pairs, but an interim analysis after an odd number of runs "
                "divides a pair; give only even numbers in looks"
            )

    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        run = np.arange(first, first + count)
        pairs = (first + count + 1) // 2 - first // 2
        out = []
        for name in space.names:
            u = uniforms(space.seed, name, first // 2, pairs)[run // 2 - first // 2]
            out.append(np.where(run % 2, 1.0 - u, u))
        return out

    def points(self, space: Space, first: int, count: int) -> Points:
        out = super().points(space, first, count)
        return Points(out.values, out.draws, {"pair": out.draws // 2})

    def mean(self, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:
        return super().mean(columns, _pair_means(columns["pair"], values), level)

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:  # noqa: ARG002
        """Estimate the fraction of runs that meet a requirement.

        The confidence interval is that of half as many independent runs. In the worst case, both
        runs of each pair have the same verdict, so that the second run adds no information.
        """
        count, passed = len(met), int(met.sum())
        if count < 2:
            return None
        low = rate(passed // 2, count // 2, level).low
        high = rate(min(count // 2, (passed + 1) // 2), count // 2, level).high
        return Share(passed / count, low, high, level)


@dataclass(frozen=True)
class LatinHypercube(UnitDesign):
    """Latin hypercube samples of ``size`` runs each, by default one sample of all runs.

    In each sample, ``size`` intervals of equal probability divide the range of a factor, and each
    interval contains one run.
    """

    name: ClassVar[str] = "latin_hypercube"

    runs: int = 100
    size: int = 0

    def __post_init__(self) -> None:
        positive(self, runs=self.runs, size=self.size or self.runs)

    def count(self, space: Space) -> int:  # noqa: ARG002
        return self.runs

    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        from scipy.stats import qmc

        size = self.size or self.runs
        d = len(space.names)
        if not d:
            return []
        parts = []
        for block in range(first // size, (first + count - 1) // size + 1):
            random = scipy_generator(seed_of(space.seed, f"{self.name}/{block}"))
            cube = qmc.LatinHypercube(d, **random).random(size)
            begin = max(first - block * size, 0)
            parts.append(cube[begin : first + count - block * size])
        return [inside(column) for column in np.concatenate(parts).T]


@dataclass(frozen=True)
class SobolSequence(UnitDesign):
    """Scrambled Sobol sequence, which fills the space more evenly than random numbers.

    The number of runs must be a power of two.
    """

    name: ClassVar[str] = "sobol_sequence"

    runs: int = 128

    def __post_init__(self) -> None:
        positive(self, runs=self.runs)
        if self.runs & (self.runs - 1):
            near = 1 << self.runs.bit_length()
            raise ScenarioError(
                f"a Sobol sequence is balanced for powers of two; give {near // 2} or {near} runs "
                f"instead of {self.runs}"
            )

    def count(self, space: Space) -> int:  # noqa: ARG002
        return self.runs

    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        from scipy.stats import qmc

        if not space.names:
            return []
        random = scipy_generator(seed_of(space.seed, self.name))
        sequence = qmc.Sobol(len(space.names), scramble=True, **random)
        if first:
            sequence.fast_forward(first)
        return [inside(column) for column in sequence.random(count).T]


# Strata, which give rare values of a factor more runs than their share.


@dataclass(frozen=True)
class Strata(UnitDesign):
    """Stratified sampling: the quantiles in ``at`` divide the range of ``factor`` into strata.

    ``Strata("gust", at=(0.9, 0.99), runs=(100, 100, 200))`` makes 100 runs below the quantile 0.9
    of the factor, 100 runs between the quantiles 0.9 and 0.99, and 200 runs above. The columns of a
    run include the number ``stratum`` and the ``weight`` of the run in the population.
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
        """Fraction of the population in each stratum."""
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
        """Return an order of the runs in which all strata grow equally."""
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
        return {
            name: value if name == "factor" or isinstance(value, tuple) else (value,)
            for name, value in given.items()
        }


# Common random numbers: alternatives with the same seeds and the same factors.


@dataclass(frozen=True)
class CommonRandomNumbers(Design):
    """Compare alternatives: each run of the design ``base`` is repeated for each alternative.

    ``alternatives`` is the name of a factor with a list of values, such as two controllers. Runs of
    one ``replication`` have the same seed and the same values of all other factors.
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
                f"factor {self.alternatives} contains the alternatives of the design {self.name}, "
                "so it cannot be correlated with another factor; leave this correlation out"
            )
        self._check_base(space.without(self.alternatives))

    def _check_base(self, rest: Space) -> None:
        base = self.base
        if not base.pooled:
            raise ScenarioError(
                f"the base of the design {self.name} is the design {base.name}, but only one of "
                "the two can have alternatives; give a base such as monte_carlo. To compare "
                "combinations of two factors, give scenario() one argument whose values name the "
                "combinations"
            )
        if not base.planned:
            raise ScenarioError(
                f"the design {base.name} chooses each run from the results of earlier runs, so it "
                f"cannot be the base of the design {self.name}; give a base such as monte_carlo"
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
        ordered = values[np.argsort(first)]  # In the order in which the study declares the values.
        return {f"{self.alternatives} = {value}": which == value for value in ordered}

    def mean(self, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:
        return self.base.mean(columns, values, level)

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:
        return self.base.share(columns, met, level)

    def compared(
        self, space: Space, columns: Columns, values: Vector, level: float = LEVEL
    ) -> list[dict[str, Any]]:
        """Return the mean for each alternative, and its difference from the first one.

        Only replications with finite results in both alternatives count.
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
        """Replace an integer argument ``runs=N`` by ``base=MonteCarlo(N)``."""
        rest = {name: value for name, value in given.items() if name != "runs"}
        runs = given.get("runs")
        return {**rest, "base": MonteCarlo(runs)} if isinstance(runs, int) else given

    def to_plain(self) -> dict[str, Any]:
        return {
            "design": self.name,
            "alternatives": self.alternatives,
            "base": self.base.to_plain(),
        }
