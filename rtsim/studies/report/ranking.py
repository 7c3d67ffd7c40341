"""Which results are drawn over which factors: the pairs with the largest rank correlation first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.studies.report.runs import Runs, numbers


def ranked(runs: Runs) -> list[tuple[str, str]]:
    """Return the pairs (result, factor), by falling absolute rank correlation.

    A result that is finite in no run has no pairs.
    """
    drawn = [name for name in runs.plan.results if np.isfinite(numbers(runs.ended[name])).any()]
    pairs = [(result, factor) for result in drawn for factor in runs.factors]
    strength = {pair: correlation(runs.ended[pair[1]], runs.ended[pair[0]]) for pair in pairs}
    return sorted(pairs, key=lambda pair: -strength[pair])


def correlation(factor: NDArray[np.generic], result: NDArray[np.generic]) -> float:
    """Return the absolute value of Spearman's correlation of the runs with a finite result.

    The values of a factor that are texts are ranked by the alphabet.  0 if it is not defined.
    """
    y = numbers(result)
    finite = np.isfinite(y)
    x = _ranks(factor[finite])
    y = _ranks(y[finite])
    if len(x) < 2 or not np.ptp(x) or not np.ptp(y):
        return 0.0
    return float(abs(np.corrcoef(x, y)[0, 1]))


def _ranks(values: NDArray[np.generic]) -> Vector:
    """Return the ranks (n,); equal values have the average of their ranks."""
    from scipy.stats import rankdata

    texts = values.astype(str) if values.dtype == object else values
    _, which = np.unique(texts, return_inverse=True)
    return np.asarray(rankdata(which))
