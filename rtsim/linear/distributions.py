"""Distributions of latencies as points and probabilities, for expected values over a latency.

The expected value of a smooth function of a latency is a sum over these points: exact for discrete
distributions, and Gauss-Legendre quadrature for continuous ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from rtsim.components.latency import (
    Empirical,
    Fixed,
    LatencyModel,
    Loss,
    TruncatedNormal,
    Uniform,
    latency_model,
)
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Duration

Latency = LatencyModel | Duration | Mapping[float, float]
"""A latency: a number of seconds, a latency model, or probabilities of latencies in s."""

_SIGMAS = (-8.0, -4.0, -2.0, 0.0, 2.0, 4.0, 8.0)
"""Borders of the pieces of a normal distribution, in standard deviations from its mean."""


class Points(NamedTuple):
    """Latencies (k,) in s, and their probabilities (k,), whose sum is 1."""

    seconds: Vector
    probabilities: Vector


class Distribution(NamedTuple):
    """A latency between ``low`` and ``high`` (s), and the probability that the message is lost."""

    model: Fixed | Uniform | TruncatedNormal | Mapping[float, float]
    low: float
    high: float
    loss: float

    @property
    def discrete(self) -> bool:
        """True if the latency has finitely many values."""
        return isinstance(self.model, Fixed | Mapping)

    def points(self, count: int) -> Points:
        """Return all values of a discrete latency.

        For a continuous latency, return ``count`` nodes of Gauss-Legendre quadrature for each piece
        on which the density is smooth.
        """
        model = self.model
        if isinstance(model, Fixed):
            return Points(np.array([self.low]), np.ones(1))
        if isinstance(model, Mapping):
            return Points(np.array(list(model)), np.array(list(model.values())))
        borders = [self.low, self.high]
        if isinstance(model, TruncatedNormal):
            inside = (model.mean + s * model.deviation for s in _SIGMAS)
            borders = [self.low, *(b for b in inside if self.low < b < self.high), self.high]
        nodes, weights = np.polynomial.legendre.leggauss(count)
        halves = np.diff(borders) / 2.0
        at = np.concatenate([a + h * (nodes + 1.0) for a, h in zip(borders, halves, strict=False)])
        share = np.concatenate([h * weights for h in halves])
        if isinstance(model, TruncatedNormal):
            density = NormalDist(model.mean, model.deviation)
            share = share * np.array([density.pdf(s) for s in at])
        return Points(at, share / share.sum())


def distribution(given: Latency, where: str = "the latency") -> Distribution:
    """Return the distribution of a latency with bounded values.

    ``given`` is a number of seconds, a latency model, or a mapping of latencies (s) to their
    probabilities. ``where`` begins the messages of errors. Raises :class:`ModelError` for a
    latency without a known distribution, or without an upper bound.
    """
    if isinstance(given, Mapping):
        return _discrete({float(s): float(p) for s, p in given.items()}, where)
    if isinstance(given, float):
        given = float(given)  # A number of NumPy is a float with a text of its own.
    model = latency_model(given, where)
    lost = 0.0
    while isinstance(model, Loss):
        lost = 1.0 - (1.0 - lost) * (1.0 - model.probability)
        model = model.inner
    if isinstance(model, Empirical):
        counts = Counter(model.samples)
        shares = {ns / NS_PER_S: n / len(model.samples) for ns, n in sorted(counts.items())}
        return _discrete(shares, where)._replace(loss=lost)
    if isinstance(model, Fixed):
        seconds = model.constant[0] / NS_PER_S
        return Distribution(model, seconds, seconds, lost)
    if isinstance(model, Uniform) and model.low == model.high:
        return Distribution(Fixed(model.low), model.low, model.low, lost)
    if isinstance(model, Uniform | TruncatedNormal) and math.isfinite(model.high):
        return Distribution(model, model.low, model.high, lost)
    raise ModelError(
        f"{where} is {model!r}; the cost of timing needs a latency with a known distribution and "
        "an upper bound: Fixed, Uniform, Empirical, TruncatedNormal with high=, one of these in "
        "Loss, or a mapping of latencies to probabilities"
    )


def _discrete(shares: Mapping[float, float], where: str) -> Distribution:
    total = math.fsum(shares.values())
    if not shares or min(shares) < 0.0 or min(shares.values()) < 0.0 or abs(total - 1.0) > 1e-9:
        raise ScenarioError(
            f"{where} has the probabilities {dict(shares)}; give latencies >= 0 s with "
            "probabilities >= 0 whose sum is 1"
        )
    return Distribution(shares, min(shares), max(shares), 0.0)


def sum_of(one: Distribution, other: Distribution, where: str) -> Distribution:
    """Return the distribution of the sum of two independent latencies, one of them constant."""
    lost = 1.0 - (1.0 - one.loss) * (1.0 - other.loss)
    if isinstance(one.model, Fixed):
        one, other = other, one
    if not isinstance(other.model, Fixed):
        raise ModelError(
            f"{where} is the sum of two random latencies; declare their sum as one latency, for "
            "example in compute=, and no transport="
        )
    return _later(one, other.low)._replace(loss=lost)


def _later(one: Distribution, seconds: float) -> Distribution:
    model, low, high = one.model, one.low + seconds, one.high + seconds
    if isinstance(model, Mapping):
        moved = {s + seconds: p for s, p in model.items()}
        return Distribution(moved, low, high, one.loss)
    if isinstance(model, Fixed):
        return Distribution(Fixed(low), low, high, one.loss)
    if isinstance(model, Uniform):
        return Distribution(Uniform(low, high), low, high, one.loss)
    normal = TruncatedNormal(model.mean + seconds, model.deviation, low, high)
    return Distribution(normal, low, high, one.loss)
