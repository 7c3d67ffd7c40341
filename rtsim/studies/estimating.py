"""The mean of a result, as the design of the study weights its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rtsim.core.estimates import LEVEL, Estimate, interval, stratified
from rtsim.core.signals import Vector
from rtsim.studies.designs import Antithetic, Strata
from rtsim.studies.plan import Plan

Columns = Mapping[str, Any]


def mean(plan: Plan, columns: Columns, values: Vector, level: float = LEVEL) -> Estimate | None:
    """Return the mean of ``values`` (n,) of the runs in ``columns``, as the design weights them.

    ``None`` if there are too few runs.
    """
    design = plan.sampled
    if isinstance(design, Strata):
        strata = [values[columns["stratum"] == k] for k in range(len(design.runs))]
        return stratified(strata, design.shares, level) if min(map(len, strata)) > 1 else None
    if isinstance(design, Antithetic):
        values = pair_means(columns["pair"], values)
    return interval(values, level) if len(values) > 1 else None


def pair_means(pairs: Vector, values: Vector) -> Vector:
    """Return the mean of each complete pair, (m,)."""
    names, which, count = np.unique(pairs, return_inverse=True, return_counts=True)
    sums = np.bincount(which, weights=values, minlength=len(names))
    out: Vector = sums[count == 2] / 2.0
    return out
