"""Random designs: replications, Monte Carlo, antithetic pairs, Latin hypercube, Sobol sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import LEVEL, Estimate
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import Columns, Marks, Points, Space, UnitDesign, inside, positive
from rtsim.studies.rates import Share, rate
from rtsim.studies.uniforms import seed_of, uniforms


def scipy_generator(seed: int) -> Any:
    """Return the argument with which SciPy takes a generator; SciPy 1.15 renamed it."""
    import scipy

    version = tuple(int(part) for part in scipy.__version__.split(".")[:2])
    return {"rng" if version >= (1, 15) else "seed": np.random.default_rng(seed)}


def pair_means(pairs: Vector, values: Vector) -> Vector:
    """Return the mean of each complete pair, (m,)."""
    names, which, count = np.unique(pairs, return_inverse=True, return_counts=True)
    sums = np.bincount(which, weights=values, minlength=len(names))
    out: Vector = sums[count == 2] / 2.0
    return out


@dataclass(frozen=True)
class MonteCarlo(UnitDesign):
    """Independent random values of all factors in each run."""

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
    """The same scenario again and again: only the seed of the run changes."""

    name: ClassVar[str] = "replications"

    def check(self, space: Space) -> None:
        if space.names:
            raise ScenarioError(
                f"the design {self.name} changes only the seed, but the study has the factors "
                f"{', '.join(space.names)}; use the design monte_carlo"
            )


@dataclass(frozen=True)
class Antithetic(MonteCarlo):
    """Pairs of runs: the second run of a pair has the numbers 1 - u where the first has u.

    The mean of a result that is monotonic in the factors then has a smaller variance.  ``runs`` is
    the number of runs and must be even.
    """

    name: ClassVar[str] = "antithetic"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs % 2:
            raise ScenarioError(f"{self.runs} runs cannot form pairs; give an even number of runs")

    def check_looks(self, looks: Sequence[int]) -> None:
        if any(look % 2 for look in looks):
            raise ScenarioError("a look divides a pair of antithetic runs; give even looks")

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
        return super().mean(columns, pair_means(columns["pair"], values), level)

    def share(self, columns: Columns, met: Marks, level: float = LEVEL) -> Share | None:  # noqa: ARG002
        """Return the share of runs; its interval is that of half as many independent runs.

        The two runs of a pair may agree always, so that a pair may tell no more than one run.
        """
        count, passed = len(met), int(met.sum())
        if count < 2:
            return None
        low = rate(passed // 2, count // 2, level).low
        high = rate(min(count // 2, (passed + 1) // 2), count // 2, level).high
        return Share(passed / count, low, high, level)


@dataclass(frozen=True)
class LatinHypercube(UnitDesign):
    """Latin hypercube samples of ``size`` runs (default: all runs), one after the other.

    In each sample, each of ``size`` equal intervals of each factor has exactly one run.
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
    """A scrambled Sobol sequence, which fills the space more evenly than random numbers.

    Its properties hold for powers of two, so ``runs`` must be one.
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
