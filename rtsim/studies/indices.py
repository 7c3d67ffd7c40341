"""Sensitivity indices of a study, as its design computes them."""

from __future__ import annotations

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.studies.designs import DESIGNS
from rtsim.studies.designs.base import Indices, PairIndices
from rtsim.studies.folder import Folder


def sensitivity(folder: Folder, result: str) -> Indices:
    """Return the indices of ``result`` for each factor.

    Runs without a finite result are left out, as the design needs it.  Raises
    :class:`UnknownName` for a result that the study does not have, and :class:`ScenarioError` for a
    design without indices, and if too few runs have a result.
    """
    design = folder.plan.sampled
    if not design.has_indices():
        able = " or ".join(name for name, one in DESIGNS.items() if one.has_indices())
        raise ScenarioError(f"the design {design.name} gives no sensitivity indices; use {able}")
    return design.sensitivity(folder.plan.space, _values(folder, result))


def interactions(folder: Folder, result: str) -> PairIndices:
    """Return the second-order indices of ``result`` by pairs of factors.

    Empty unless the design is ``saltelli`` with ``second=True``.  Raises what :func:`sensitivity`
    raises for a result that is not there, and for too few runs.
    """
    return folder.plan.sampled.interactions(folder.plan.space, _values(folder, result))


def _values(folder: Folder, result: str) -> Vector:
    """Return the result of each planned run (runs,); NaN for a run without a row."""
    plan = folder.plan
    if result not in plan.results:
        raise UnknownName("result", result, plan.results, "the study")
    columns = folder.columns("run", result)
    values = np.full(plan.runs, np.nan)
    values[columns["run"]] = columns[result].astype(np.float64)
    return values
