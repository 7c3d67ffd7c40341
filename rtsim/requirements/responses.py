"""Settling time, overshoot and rise time of a step response.

The computation needs only one row of the response at a time, and no recording.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from rtsim.core.signals import Vector


class Running(ABC):
    """Base class of computations over the values of a signal during a run."""

    held: bool = False
    """True if the signal keeps each value until the next point, like a signal of messages. The
    attribute is set before the first point.
    """

    @abstractmethod
    def take(self, t: Vector, v: Vector) -> None:
        """Process the next values ``v`` of the signal at the times ``t`` (s).

        Both have the shape (n,), n >= 1. Without ``of_rows``, the first and the last point are at
        the ends of the time window.
        """

    @abstractmethod
    def value(self) -> float:
        """Return the result, or NaN without points."""


def crossed(t: Vector, d: Vector) -> float:
    """Return the time (s) at which a line through two points crosses 0.

    The points have the values ``d`` at the times ``t``, both (n,) with n >= 2. The value ``d[0]``
    must not be 0. The value ``d[1]`` must be 0 or have the opposite sign of ``d[0]``. If ``d[0]``
    is infinite, the result is ``t[1]``.
    """
    share = float(d[0] / (d[0] - d[1])) if math.isfinite(d[0]) else 1.0
    return float(t[0] + share * (t[1] - t[0]))


class Settling(Running):
    """Time (s) from ``step`` until the signal stays within ``band`` of ``target``.

    The result is infinite if the signal ends outside the band, and NaN if a value is NaN.
    """

    def __init__(self, target: float, band: float, step: float = 0.0) -> None:
        self._target, self._band, self._step = target, band, step
        self._since, self._t, self._v, self._bad = math.nan, math.nan, math.nan, False

    def take(self, t: Vector, v: Vector) -> None:
        self._bad = self._bad or bool(np.isnan(v).any())
        if math.isnan(self._t):
            self._since = float(t[0])
        else:
            t, v = np.concatenate(([self._t], t)), np.concatenate(([self._v], v))
        outside = np.flatnonzero(~(np.abs(v - self._target) <= self._band))
        if outside.size:
            k = int(outside[-1])
            self._since = self._entry(t[k:], v[k:]) if k + 1 < len(t) else math.inf
        self._t, self._v = float(t[-1]), float(v[-1])

    def _entry(self, t: Vector, v: Vector) -> float:
        side = math.copysign(1.0, v[0] - self._target)
        beyond = side * (v[:2] - self._target) - self._band
        return float(t[1]) if self.held else crossed(t, beyond)

    def value(self) -> float:
        return math.nan if self._bad else self._since - self._step


class Overshoot(Running):
    """Largest excess over ``target``, relative to the height of the step.

    For a step of height 0, the result is 0 or infinite.
    """

    def __init__(self, target: float) -> None:
        self._target, self._first, self._beyond = target, math.nan, 0.0
        self.at = math.nan
        """Time (s) of the largest excess, or of the first point if the signal has no excess."""

    def take(self, t: Vector, v: Vector) -> None:
        if math.isnan(self.at):
            self._first, self.at = float(v[0]), float(t[0])
        step = self._target - self._first
        beyond = (v - self._target) if step >= 0.0 else (self._target - v)
        k = int(np.argmax(beyond))  # the first NaN, if there is one
        if not math.isnan(self._beyond) and not beyond[k] <= self._beyond:
            self._beyond, self.at = float(beyond[k]), float(t[k])

    def value(self) -> float:
        step = abs(self._target - self._first)
        return self._beyond / step if step else self._beyond * math.inf if self._beyond else step


def reached(t: Vector, v: Vector, target: float, share: float, held: bool) -> float:
    """Return the time (s) at which a response has covered the fraction ``share`` of its step.

    The response has the values ``v`` (n,) at the times ``t`` (n,) in s, and its step is from
    ``v[0]`` to ``target``. The result is NaN if the response does not get so far.
    """
    covered = (v - v[0]) / (target - v[0]) - share
    there = np.flatnonzero(covered >= 0.0)
    if not len(there):
        return math.nan
    k = int(there[0])
    return float(t[k]) if held else crossed(t[k - 1 :], covered[k - 1 :])
