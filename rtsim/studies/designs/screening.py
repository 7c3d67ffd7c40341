"""Sensitivity analysis by the methods of Morris and Sobol, with SALib."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import LEVEL
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import (
    Indices,
    Marks,
    PairIndices,
    Points,
    Space,
    UnitDesign,
    inside,
    positive,
)
from rtsim.studies.factors import seed32_of

# Adapter to SALib: its description of the factors, and its indices.

_RESAMPLES = 1000


def _problem_of(space: Space) -> dict[str, Any]:
    names = list(space.names)
    return {"num_vars": len(names), "names": np.array(names), "bounds": [[0.0, 1.0]] * len(names)}


def sobol_indices(space: Space, values: Vector, second: bool, level: float = LEVEL) -> Indices:
    """Return the Sobol indices of each factor from results (n,) of complete groups.

    ``first`` is the fraction of the variance that the factor alone explains. ``total`` includes the
    interactions with other factors. ``first_half`` and ``total_half`` are half-widths of confidence
    intervals. ``second`` is True if the groups include the runs for second-order indices.
    """
    found = _analysed(space, values, second, level)
    keys = {"first": "S1", "first_half": "S1_conf", "total": "ST", "total_half": "ST_conf"}
    return _by_factor(space, found, keys)


def second_order(space: Space, values: Vector, level: float = LEVEL) -> PairIndices:
    """Return the second-order Sobol indices of all pairs of factors.

    ``second`` is the fraction of the variance that the interaction of a pair explains;
    ``second_half`` is the half-width of its confidence interval. ``values`` (n,) contains results
    of complete groups, with the runs for second-order indices.
    """
    names, found = space.names, _analysed(space, values, True, level)
    return {
        (names[i], names[k]): {
            "second": float(found["S2"][i, k]), "second_half": float(found["S2_conf"][i, k]),
        }
        for i in range(len(names))
        for k in range(i + 1, len(names))
    }  # fmt: skip


def _analysed(space: Space, values: Vector, second: bool, level: float) -> Any:
    from SALib.analyze import sobol

    return sobol.analyze(
        _problem_of(space), np.asarray(values), calc_second_order=second, conf_level=level,
        num_resamples=_RESAMPLES, seed=seed32_of(space.seed, "bootstrap"),
    )  # fmt: skip


def _morris_effects(
    space: Space, values: Vector, grid: Vector, levels: int, level: float = LEVEL
) -> Indices:
    from SALib.analyze import morris

    found = morris.analyze(
        _problem_of(space), np.asarray(grid), np.asarray(values), num_levels=levels,
        conf_level=level, num_resamples=_RESAMPLES, seed=seed32_of(space.seed, "bootstrap"),
    )  # fmt: skip
    keys = {"mu": "mu", "mu_star": "mu_star", "mu_star_half": "mu_star_conf", "sigma": "sigma"}
    return _by_factor(space, found, keys)


def _by_factor(space: Space, found: Any, keys: dict[str, str]) -> Indices:
    return {
        name: {key: float(found[theirs][i]) for key, theirs in keys.items()}
        for i, name in enumerate(space.names)
    }


class Sensitivity(UnitDesign):
    """Base class of designs whose runs form groups, numbered in the column ``group``.

    All runs of a group have the same seed. Differences within a group are therefore caused by the
    factors, not by noise.
    """

    random: ClassVar[bool] = False

    def check(self, space: Space) -> None:
        super().check(space)
        if len(space.names) < 2:
            raise ScenarioError(f"the design {self.name} needs at least 2 factors")

    @abstractmethod
    def group(self, space: Space) -> int:
        """Return the number of runs in a group."""

    def points(self, space: Space, first: int, count: int) -> Points:
        group = np.arange(first, first + count) // self.group(space)
        return Points(space.values(self.unit(space, first, count)), group, {"group": group})

    def sensitivity(self, space: Space, values: Vector, level: float = LEVEL) -> Indices:
        kept = self.whole_groups(space, values)
        return self.indices(space, np.asarray(values)[kept], kept, level)

    def whole_groups(self, space: Space, values: Vector) -> Marks:
        """Return a mask (runs,) of the runs whose group has only finite results."""
        size, runs = self.group(space), self.count(space)
        if len(values) != runs:
            raise ScenarioError(
                f"got {len(values)} results of {runs} runs; give NaN for a run without a result"
            )
        whole = np.isfinite(values.reshape(-1, size)).all(axis=1)
        if whole.sum() < 2:
            raise ScenarioError(
                f"only {whole.sum()} groups of {size} runs have all their results, but at least 2 "
                "are needed"
            )
        return np.repeat(whole, size)

    @abstractmethod
    def indices(self, space: Space, values: Vector, kept: Marks, level: float) -> Indices:
        """Return sensitivity indices from complete groups of runs.

        ``values`` contains these results. ``kept`` (runs,) is a mask of the runs in complete
        groups.
        """


@dataclass(frozen=True)
class Morris(Sensitivity):
    """Trajectories of Morris through a grid.

    From one run of a trajectory to the next, one factor changes.

    The grid consists of ``levels`` quantiles of each factor, from 0 to 1. If a distribution is
    infinite at 0 or 1, its quantiles go from 0.01 to 0.99. The design has ``trajectories`` *
    (number of factors
    + 1) runs. Source: Morris, Technometrics 33 (1991) 161.
    """

    name: ClassVar[str] = "morris"

    trajectories: int = 20
    levels: int = 4

    def __post_init__(self) -> None:
        positive(self, trajectories=self.trajectories, levels=self.levels)
        if self.levels % 2:
            raise ScenarioError(
                f"levels of the design morris is {self.levels}; give an even number, such as 4"
            )

    def group(self, space: Space) -> int:
        return len(space.names) + 1

    def count(self, space: Space) -> int:
        return self.trajectories * self.group(space)

    def grid(self, space: Space, first: int, count: int) -> Vector:
        from SALib.sample import morris

        size = self.group(space)
        begin, end = first // size, (first + count - 1) // size + 1
        rows = [
            morris.sample(
                _problem_of(space), 1, num_levels=self.levels,
                seed=seed32_of(space.seed, f"{self.name}/{trajectory}"),
            )
            for trajectory in range(begin, end)
        ]  # fmt: skip
        out: Vector = np.concatenate(rows)[first - begin * size :][:count]
        return out

    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        columns = self.grid(space, first, count).T
        out = []
        for name, column in zip(space.names, columns, strict=True):
            ends = np.asarray(space.factors[name].at(np.array([0.0, 1.0])), dtype=object)
            finite = all(np.isfinite(v) for v in ends if not isinstance(v, str))
            out.append(column if finite else 0.01 + 0.98 * column)
        return out

    def indices(self, space: Space, values: Vector, kept: Marks, level: float) -> Indices:
        grid = self.grid(space, 0, len(kept))[kept]
        return _morris_effects(space, values, grid, self.levels, level)


@dataclass(frozen=True)
class Saltelli(Sensitivity):
    """Saltelli's samples for first-order and total-effect Sobol indices.

    The design has ``base`` * (number of factors + 2) runs. With ``second=True``, the design also
    gives second-order indices, and has ``base`` * (2 * number of factors + 2) runs. ``base`` must
    be a power of two. Source: Saltelli et al., Computer Physics Communications 181 (2010) 259.
    """

    name: ClassVar[str] = "saltelli"

    base: int = 128
    second: bool = False

    def __post_init__(self) -> None:
        positive(self, base=self.base)
        if self.base & (self.base - 1):
            raise ScenarioError(
                f"base of the design saltelli is {self.base}; give a power of two, such as 128"
            )

    def group(self, space: Space) -> int:
        return (2 if self.second else 1) * len(space.names) + 2

    def count(self, space: Space) -> int:
        return self.base * self.group(space)

    def unit(self, space: Space, first: int, count: int) -> list[Vector]:
        rows = self._all(space)[first : first + count]
        return [inside(column) for column in rows.T]

    def indices(self, space: Space, values: Vector, kept: Marks, level: float) -> Indices:  # noqa: ARG002
        return sobol_indices(space, values, self.second, level)

    def interactions(self, space: Space, values: Vector, level: float = LEVEL) -> PairIndices:
        if not self.second:
            return {}
        kept = self.whole_groups(space, values)
        return second_order(space, np.asarray(values)[kept], level)

    def _all(self, space: Space) -> Vector:
        from SALib.sample import sobol

        key = (space.seed, space.names, self)
        if key not in _SAMPLES:
            _SAMPLES.clear()
            _SAMPLES[key] = sobol.sample(
                _problem_of(space), self.base, calc_second_order=self.second, scramble=True,
                seed=seed32_of(space.seed, self.name),
            )  # fmt: skip
        return _SAMPLES[key]


_SAMPLES: dict[object, Vector] = {}
"""The latest of Saltelli's samples, cached because each block of runs reads it."""
