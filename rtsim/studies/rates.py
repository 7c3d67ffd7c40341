"""Shares of runs, with exact intervals."""

from __future__ import annotations

from dataclasses import dataclass

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import LEVEL


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
