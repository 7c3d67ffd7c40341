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
    found = _analysed(design, space, values, level)
    keys = {"first": "S1", "first_half": "S1_conf", "total": "ST", "total_half": "ST_conf"}
    return _by_factor(space, found, keys)


def second_order(
    design: Saltelli, space: Space, values: Vector, level: float = 0.95
) -> dict[tuple[str, str], dict[str, float]]:
    """Return the second-order Sobol index of each pair of factors; arguments as above.

    ``second`` is the share of the variance that the interaction of the two factors explains, and
    ``second_half`` the half-width of its interval.  The design needs ``second=True``.
    """
    if not design.second:
        raise ScenarioError(
            "second-order indices need more runs; use the design saltelli with second=true"
        )
    names, found = space.names, _analysed(design, space, values, level)
    return {
        (names[i], names[k]): {
            "second": float(found["S2"][i, k]), "second_half": float(found["S2_conf"][i, k]),
        }
        for i in range(len(names))
        for k in range(i + 1, len(names))
    }  # fmt: skip


def _analysed(design: Saltelli, space: Space, values: Vector, level: float) -> Any:
    from SALib.analyze import sobol

    _check(design, space, values)
    return sobol.analyze(
        problem_of(space), np.asarray(values), calc_second_order=design.second, conf_level=level,
        num_resamples=_RESAMPLES, seed=seed32_of(space.seed, "bootstrap"),
    )  # fmt: skip


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
    design, space = folder.plan.sampled, folder.plan.space
    if not isinstance(design, Saltelli | Morris):
        raise ScenarioError(
            f"the design {design.name} gives no sensitivity indices; use saltelli or morris"
        )
    values, kept = _whole_groups(folder, design, result)
    if isinstance(design, Saltelli):
        return sobol_indices(design, space, values)
    return morris_effects(design, space, values, design.grid(space, 0, folder.plan.runs)[kept])


def interactions(folder: Folder, result: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return the second-order indices of ``result`` by pairs of factors.

    Empty unless the design is ``saltelli`` with ``second=True``.  See :func:`second_order` and
    :func:`sensitivity`.
    """
    design = folder.plan.sampled
    if not (isinstance(design, Saltelli) and design.second):
        return {}
    values, _ = _whole_groups(folder, design, result)
    return second_order(design, folder.plan.space, values)


def _whole_groups(folder: Folder, design: Sensitivity, result: str) -> tuple[Vector, Any]:
    """Return the values (n,) of the groups that are complete, and which runs these are."""
    plan = folder.plan
    table = folder.table("run", result)
    values = np.full(plan.runs, np.nan)
    values[np.asarray(table["run"])] = np.asarray(table[result], dtype=np.float64)
    size = design.group(plan.space)
    whole = np.isfinite(values.reshape(-1, size)).all(axis=1)
    if whole.sum() < 2:
        raise ScenarioError(
            f"only {whole.sum()} groups of {size} runs have all their results, but at least 2 are "
            "needed"
        )
    kept = np.repeat(whole, size)
    return values[kept], kept


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
