"""SALib's description of factors, and its sensitivity indices: Sobol indices and Morris effects."""

from __future__ import annotations

from typing import Any

import numpy as np

from rtsim.core.estimates import LEVEL
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import Indices, PairIndices, Space
from rtsim.studies.uniforms import seed32_of

_RESAMPLES = 1000
"""Bootstrap samples for each interval."""


def problem_of(space: Space) -> dict[str, Any]:
    """Return the factors as SALib describes them, each from 0 to 1."""
    names = list(space.names)
    return {"num_vars": len(names), "names": np.array(names), "bounds": [[0.0, 1.0]] * len(names)}


def sobol_indices(space: Space, values: Vector, second: bool, level: float = LEVEL) -> Indices:
    """Return the Sobol indices of each factor from the results (n,) of whole groups of runs.

    ``first`` is the share of the variance that the factor explains alone, ``total`` the share in
    which it takes part; ``first_half`` and ``total_half`` are half-widths of their intervals.
    ``second``: the groups have the runs for indices of second order.
    """
    found = _analysed(space, values, second, level)
    keys = {"first": "S1", "first_half": "S1_conf", "total": "ST", "total_half": "ST_conf"}
    return _by_factor(space, found, keys)


def second_order(space: Space, values: Vector, level: float = LEVEL) -> PairIndices:
    """Return the second-order Sobol index of each pair of factors from whole groups of runs (n,).

    ``second`` is the share of the variance that the interaction of the two factors explains, and
    ``second_half`` the half-width of its interval.  The groups need the runs for second order.
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
        problem_of(space), np.asarray(values), calc_second_order=second, conf_level=level,
        num_resamples=_RESAMPLES, seed=seed32_of(space.seed, "bootstrap"),
    )  # fmt: skip


def morris_effects(
    space: Space, values: Vector, grid: Vector, levels: int, level: float = LEVEL
) -> Indices:
    """Return the elementary effects of each factor from results (n,) on the ``grid`` (n, factors).

    ``mu`` is the mean of the effects, ``mu_star`` the mean of their absolute values with the
    half-width ``mu_star_half``, ``sigma`` their standard deviation.  An effect is the change of the
    result for a change of the factor's level by the whole range.
    """
    from SALib.analyze import morris

    found = morris.analyze(
        problem_of(space), np.asarray(grid), np.asarray(values), num_levels=levels,
        conf_level=level, num_resamples=_RESAMPLES, seed=seed32_of(space.seed, "bootstrap"),
    )  # fmt: skip
    keys = {"mu": "mu", "mu_star": "mu_star", "mu_star_half": "mu_star_conf", "sigma": "sigma"}
    return _by_factor(space, found, keys)


def _by_factor(space: Space, found: Any, keys: dict[str, str]) -> Indices:
    return {
        name: {key: float(found[theirs][i]) for key, theirs in keys.items()}
        for i, name in enumerate(space.names)
    }
