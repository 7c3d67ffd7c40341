"""Sensitivity indices of a study, computed by SALib: Sobol indices and Morris effects."""

from __future__ import annotations

from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.studies.designs import Morris, Saltelli, Space
from rtsim.studies.designs.screening import Sensitivity, problem_of
from rtsim.studies.folder import Folder
from rtsim.studies.uniforms import seed32_of

_RESAMPLES = 1000
"""Bootstrap samples for each interval."""


def sobol_indices(
    design: Saltelli, space: Space, values: Vector, level: float = 0.95
) -> dict[str, dict[str, float]]:
    """Return the Sobol indices of each factor from the results (n,) of whole groups of runs.

    ``first`` is the share of the variance that the factor explains alone, ``total`` the share in
    which it takes part; ``first_half`` and ``total_half`` are half-widths of their intervals.
    """
    from SALib.analyze import sobol

    _check(design, space, values)
    found = sobol.analyze(
        problem_of(space), np.asarray(values), calc_second_order=design.second, conf_level=level,
        num_resamples=_RESAMPLES, seed=seed32_of(space.seed, "bootstrap"),
    )  # fmt: skip
    keys = {"first": "S1", "first_half": "S1_conf", "total": "ST", "total_half": "ST_conf"}
    return _by_factor(space, found, keys)


def morris_effects(
    design: Morris, space: Space, values: Vector, grid: Vector, level: float = 0.95
) -> dict[str, dict[str, float]]:
    """Return the elementary effects of each factor from results (n,) on the ``grid`` (n, factors).

    ``mu`` is the mean of the effects, ``mu_star`` the mean of their absolute values with the
    half-width ``mu_star_half``, ``sigma`` their standard deviation.  An effect is the change of the
    result for a change of the factor's level by the whole range.
    """
    from SALib.analyze import morris

    _check(design, space, values)
    found = morris.analyze(
        problem_of(space), np.asarray(grid), np.asarray(values), num_levels=design.levels,
        conf_level=level, num_resamples=_RESAMPLES, seed=seed32_of(space.seed, "bootstrap"),
    )  # fmt: skip
    keys = {"mu": "mu", "mu_star": "mu_star", "mu_star_half": "mu_star_conf", "sigma": "sigma"}
    return _by_factor(space, found, keys)


def sensitivity(folder: Folder, result: str) -> dict[str, dict[str, float]]:
    """Return the indices of ``result`` for a study with the design ``saltelli`` or ``morris``.

    Groups in which a run has no finite result are left out.  Raises :class:`ScenarioError` for
    other designs, and if no group is complete.
    """
    plan = folder.plan
    design, space = plan.sampled, plan.space
    if not isinstance(design, Saltelli | Morris):
        raise ScenarioError(
            f"the design {design.name} gives no sensitivity indices; use saltelli or morris"
        )
    table = folder.table("run", result)
    values = np.full(plan.runs, np.nan)
    values[np.asarray(table["run"])] = np.asarray(table[result], dtype=np.float64)
    size = design.group(space)
    whole = np.isfinite(values.reshape(-1, size)).all(axis=1)
    if whole.sum() < 2:
        raise ScenarioError(
            f"only {whole.sum()} groups of {size} runs have all their results, but at least 2 are "
            "needed"
        )
    kept = np.repeat(whole, size)
    if isinstance(design, Saltelli):
        return sobol_indices(design, space, values[kept])
    return morris_effects(design, space, values[kept], design.grid(space, 0, plan.runs)[kept])


def _check(design: Sensitivity, space: Space, values: Vector) -> None:
    size = design.group(space)
    if len(values) % size or not np.isfinite(values).all():
        raise ScenarioError(
            f"{len(values)} results do not form whole groups of {size} finite values"
        )


def _by_factor(space: Space, found: Any, keys: dict[str, str]) -> dict[str, dict[str, float]]:
    return {
        name: {key: float(found[theirs][i]) for key, theirs in keys.items()}
        for i, name in enumerate(space.names)
    }
