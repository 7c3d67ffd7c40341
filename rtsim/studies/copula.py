"""Correlated factors: a Gaussian copula, which keeps the distribution of each factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.studies.factors import Distributed

Pairs = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Copula:
    """Correlation coefficients of pairs of factors, before their distributions are applied."""

    pairs: tuple[tuple[str, str, float], ...] = ()
    _factors: dict[tuple[str, ...], list[list[float]]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, given: Pairs, names: Sequence[str]) -> Copula:
        """Return the copula of the factors ``names``; raises :class:`ScenarioError`."""
        found: dict[tuple[str, str], float] = {}
        for (a, b), rho in given.items():
            for name in (a, b):
                if name not in names:
                    raise UnknownName("factor", name, names, "the correlation")
            if a == b or not -1.0 < rho < 1.0:
                raise ScenarioError(
                    f"the correlation of {a} and {b} is {rho!r}; give two factors and a number "
                    "between -1 and 1"
                )
            low, high = sorted((a, b))
            found[low, high] = float(rho)
        out = cls(tuple((a, b, rho) for (a, b), rho in sorted(found.items())))
        out.lower(tuple(names))
        return out

    def lower(self, names: tuple[str, ...]) -> list[list[float]]:
        """Return the Cholesky factor of the correlation matrix of ``names``, row by row."""
        if names not in self._factors:
            matrix = np.eye(len(names))
            for a, b, rho in self.pairs:
                i, j = names.index(a), names.index(b)
                matrix[i, j] = matrix[j, i] = rho
            try:
                self._factors[names] = np.linalg.cholesky(matrix).tolist()
            except np.linalg.LinAlgError:
                raise ScenarioError(
                    "no random numbers have these correlations: their matrix is not positive "
                    "definite; make the correlations smaller"
                ) from None
        return self._factors[names]

    def apply(self, names: tuple[str, ...], unit: list[Vector]) -> list[Vector]:
        """Return correlated numbers in (0, 1) from independent ones, (n,) for each name."""
        if not self.pairs:
            return unit
        from scipy.special import ndtr, ndtri

        normal = [ndtri(u) for u in unit]
        out = []
        for row in self.lower(names):
            total = np.zeros_like(normal[0])
            for weight, one in zip(row, normal, strict=True):  # no BLAS: sums in a fixed order
                if weight:
                    total = total + weight * one
            out.append(np.clip(ndtr(total), 2.0**-53, 1.0 - 2.0**-53))
        return out


def normals(
    names: Sequence[str], mean: Sequence[float], covariance: Sequence[Sequence[float]]
) -> tuple[dict[str, Distributed], dict[tuple[str, str], float]]:
    """Return normal factors with a ``covariance`` matrix (n, n), and their correlations.

    factors, correlation = normals(["a", "b"], [0, 1], [[1, 0.5], [0.5, 4]])
    Study(factors=factors, correlation=correlation, ...)
    """
    matrix = np.asarray(covariance, dtype=float)
    n = len(names)
    if matrix.shape != (n, n) or len(mean) != n or not np.array_equal(matrix, matrix.T):
        raise ScenarioError(
            f"{n} factors need {n} means and a symmetric covariance matrix ({n}, {n}); got "
            f"{len(mean)} means and a matrix {matrix.shape}"
        )
    if not (np.diag(matrix) > 0.0).all():
        raise ScenarioError("a variance of the covariance matrix is not positive; give values > 0")
    deviation = np.sqrt(np.diag(matrix))
    factors = {
        name: Distributed("norm", (float(mean[i]), float(deviation[i])))
        for i, name in enumerate(names)
    }
    correlation = {
        (names[i], names[j]): float(matrix[i, j] / (deviation[i] * deviation[j]))
        for i in range(n)
        for j in range(i)
        if matrix[i, j]
    }
    return factors, correlation
