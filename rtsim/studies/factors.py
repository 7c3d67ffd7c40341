"""Factors of a study, with their distributions and correlations.

The value of a factor depends only on the seed of the study, the name of the factor and the number
of the run. The values do not depend on the order of the runs, the number of workers, or other
factors. Each factor has its own Philox generator.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.studies.texts import Value, call_of, made

Values = NDArray[Any]


class Bounds(NamedTuple):
    """Smallest and largest coordinate of a factor in a search."""

    low: float
    high: float
    whole: bool = False


class Spread(ABC):
    """Base class of the possible values of a factor."""

    @abstractmethod
    def at(self, unit: Vector) -> Values:
        """Convert numbers ``unit`` (n,) in (0, 1) to values (n,) of the factor."""

    @abstractmethod
    def levels(self, count: int) -> list[Value]:
        """Return ``count`` values from low to high.

        A factor with a list returns all its values.
        """

    @abstractmethod
    def middle(self) -> Value:
        """Return the value for runs in which other factors change."""

    @abstractmethod
    def bounds(self, within: float) -> Bounds:
        """Return the bounds of a search.

        For a distribution, the bounds enclose the fraction ``within`` of its values.
        """

    def chosen(self, coordinate: float) -> Value:
        return coordinate + 0.0  # Adding 0.0 turns -0.0 into 0.0.

    @abstractmethod
    def to_plain(self) -> dict[str, Any]:
        """Return JSON data for :func:`spread_of`."""


@dataclass(frozen=True)
class Range(Spread):
    """A factor with a uniform distribution from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ScenarioError(
                f"the range from {self.low!r} to {self.high!r} is empty or not finite; give "
                "(low, high) with low < high"
            )

    def at(self, unit: Vector) -> Values:
        return self.low + (self.high - self.low) * unit

    def levels(self, count: int) -> list[Value]:
        return [float(v) for v in np.linspace(self.low, self.high, count)]

    def middle(self) -> Value:
        return 0.5 * (self.low + self.high)

    def bounds(self, within: float) -> Bounds:  # noqa: ARG002
        return Bounds(self.low, self.high)

    def to_plain(self) -> dict[str, Any]:
        return {"range": [self.low, self.high]}


@dataclass(frozen=True)
class Choice(Spread):
    """A factor with a list of values of equal probability."""

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ScenarioError("a list of values is empty; give at least one value")

    def at(self, unit: Vector) -> Values:
        n = len(self.values)
        return self.array()[np.minimum((unit * n).astype(np.int64), n - 1)]

    def array(self) -> Values:
        return column_of(self.values)

    def levels(self, count: int) -> list[Value]:  # noqa: ARG002
        return list(self.values)

    def middle(self) -> Value:
        return self.values[0]

    def bounds(self, within: float) -> Bounds:  # noqa: ARG002
        return Bounds(0.0, len(self.values) - 1.0, whole=True)

    def chosen(self, coordinate: float) -> Value:
        out: Value = self.array()[int(coordinate)].item()
        return out

    def to_plain(self) -> dict[str, Any]:
        return {"values": list(self.values)}


@dataclass(frozen=True)
class Distributed(Spread):
    """Factor with a distribution of :mod:`scipy.stats`."""

    name: str
    values: tuple[float, ...] = ()
    named: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, frozen: Any) -> Distributed:
        """Convert a frozen distribution such as ``scipy.stats.norm(2, 0.1)``."""
        from scipy import stats

        name = str(frozen.dist.name)
        if type(getattr(stats, name, None)) is not type(frozen.dist):
            raise ScenarioError(
                f"the distribution {name!r} is not one of scipy.stats, so it cannot be stored with "
                "the study; give a table of values instead"
            )
        out = cls(
            name,
            tuple(_number(name, v) for v in frozen.args),
            tuple((k, _number(name, v)) for k, v in sorted(frozen.kwds.items())),
        )
        out.frozen()
        return out

    def frozen(self) -> Any:
        from scipy import stats

        family = getattr(stats, self.name, None)
        if not isinstance(family, stats.rv_continuous | stats.rv_discrete):
            kinds = stats.rv_continuous, stats.rv_discrete
            known = [name for name, one in vars(stats).items() if isinstance(one, kinds)]
            raise UnknownName("distribution", self.name, ("range", "values", *known))
        try:
            frozen = family(*self.values, **dict(self.named))
        except TypeError as error:
            raise ScenarioError(f"distribution {self}: {error}") from None
        if not math.isfinite(float(frozen.ppf(0.5))):
            raise ScenarioError(f"distribution {self} is not defined for these arguments")
        return frozen

    def at(self, unit: Vector) -> Values:
        return np.asarray(self.frozen().ppf(unit))

    def levels(self, count: int) -> list[Value]:
        if count == 1:
            return [self.middle()]
        return [float(v) for v in self.frozen().ppf(np.linspace(0.05, 0.95, count))]

    def middle(self) -> Value:
        return float(self.frozen().ppf(0.5))

    def bounds(self, within: float) -> Bounds:
        from scipy import stats

        frozen, tail = self.frozen(), 0.5 * (1.0 - within)
        low, high = frozen.ppf(tail), frozen.ppf(1.0 - tail)
        return Bounds(float(low), float(high), isinstance(frozen.dist, stats.rv_discrete))

    def to_plain(self) -> dict[str, Any]:
        return {
            "distribution": self.name,
            "arguments": list(self.values),
            "named": dict(self.named),
        }

    def __str__(self) -> str:
        words = [f"{v:g}" for v in self.values] + [f"{k}={v:g}" for k, v in self.named]
        return f"{self.name}:{','.join(words)}"


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ScenarioError(
            f"an argument of the distribution {name} is {value!r}; give one number"
        ) from None


def column_of(values: Sequence[Value]) -> Values:
    """Return ``values`` as an array (n,) of bool, int64, float64 or str."""
    kinds = {type(v) for v in values}
    if kinds == {bool}:
        return np.array(values, dtype=np.bool_)
    if kinds == {int}:
        return np.array(values, dtype=np.int64)
    if kinds <= {int, float}:
        return np.array(values, dtype=np.float64)
    return np.array([str(v) for v in values])


def spread(given: object) -> Spread:
    """Convert the declaration of a factor to a ``Spread``.

    ``given`` is a frozen distribution of scipy.stats, a range ``(low, high)``, a list of values, or
    a text such as ``norm:2,0.1``, ``range:1,3`` or ``values:1,2,5``.
    """
    if isinstance(given, Spread):
        return given
    if isinstance(given, str):
        return _spread_of_text(given)
    if isinstance(given, tuple) and len(given) == 2:
        return Range(_number("range", given[0]), _number("range", given[1]))
    if isinstance(given, list):
        return Choice(tuple(_single(v) for v in given))
    if hasattr(given, "dist") and hasattr(given, "ppf"):
        return Distributed.of(given)
    raise ScenarioError(
        f"a factor is {given!r}; give a frozen distribution of scipy.stats, a range (low, high), "
        "or a list of values"
    )


def _single(value: object) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float | str):
        raise ScenarioError(f"a value of a factor is {value!r}; give a number or a text")
    return value


def _spread_of_text(text: str) -> Spread:
    call = call_of(text)
    if call.name == "range":
        return made(f"factor {text!r}", Range, call.values, call.named)
    if call.name == "values":
        return Choice(tuple(call.values))
    named = tuple(sorted((k, _number(call.name, v)) for k, v in call.named.items()))
    out = Distributed(call.name, tuple(_number(call.name, v) for v in call.values), named)
    out.frozen()
    return out


def spread_of(plain: Mapping[str, Any]) -> Spread:
    if "range" in plain:
        return Range(*plain["range"])
    if "values" in plain:
        return Choice(tuple(plain["values"]))
    return Distributed(
        plain["distribution"], tuple(plain["arguments"]), tuple(sorted(plain["named"].items()))
    )


# Correlation by a Gaussian copula, which preserves the distribution of each factor.

Pairs = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Copula:
    """Correlation coefficients of pairs of factors.

    The coefficients are those of a Gaussian copula.
    """

    pairs: tuple[tuple[str, str, float], ...] = ()
    _factors: dict[tuple[str, ...], list[list[float]]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, given: Pairs, names: Sequence[str]) -> Copula:
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
        """Return the Cholesky factor of the correlation matrix, row by row."""
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
        """Correlate independent numbers ``unit`` in (0, 1), one array (n,) per name."""
        if not self.pairs:
            return unit
        from scipy.special import ndtr, ndtri

        normal = [ndtri(u) for u in unit]
        out = []
        for row in self.lower(names):
            total = np.zeros_like(normal[0])
            # A loop instead of BLAS fixes the order of the additions.
            for weight, one in zip(row, normal, strict=True):
                if weight:
                    total = total + weight * one
            out.append(np.clip(ndtr(total), 2.0**-53, 1.0 - 2.0**-53))
        return out


def normals(
    names: Sequence[str], mean: Sequence[float], covariance: Sequence[Sequence[float]]
) -> tuple[dict[str, Distributed], dict[tuple[str, str], float]]:
    """Return normally distributed, correlated factors, from means and covariances.

    ``covariance`` has the shape (n, n) for n factors. Pass both results to :class:`Study`:

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


# Random numbers. They depend only on the study's seed, a name and the number of the run.

_OUTPUTS = 4
_SEED_BITS = 53
"""Seeds of runs are below 2^53, because some programs read JSON numbers as doubles."""


def _key(seed: int, name: str) -> NDArray[np.uint64]:
    digest = hashlib.sha256(f"{seed}/study/{name}".encode()).digest()
    return np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)


def uniforms(seed: int, name: str, first: int, count: int) -> Vector:
    """Return random numbers (count,) in (0, 1), one for each run from ``first`` on.

    ``name`` selects an independent sequence of numbers.
    """
    stream = np.random.Philox(key=_key(seed, name), counter=first)
    raw = stream.random_raw(_OUTPUTS * count)[::_OUTPUTS]
    return ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def seed_of(seed: int, name: str) -> int:
    """Derive a seed below 2^53 from the study's ``seed`` and ``name``."""
    digest = hashlib.sha256(f"{seed}/study/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - _SEED_BITS)


def seed32_of(seed: int, name: str) -> int:
    """Return a seed below 2^32, for libraries with this limit."""
    return seed_of(seed, name) & 0xFFFFFFFF
