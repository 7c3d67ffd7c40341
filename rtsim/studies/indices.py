"""Sensitivity indices of a study, as its design computes them."""

from __future__ import annotations

import numpy as np

from rtsim.core.errors import UnknownName
from rtsim.studies.designs.base import Indices
from rtsim.studies.folder import Folder


def sensitivity(folder: Folder, result: str) -> Indices:
    """Return the indices of ``result`` for each factor.

    Runs without a finite result are left out, as the design needs it.  Raises
    :class:`UnknownName` for a result that the study does not have, and :class:`ScenarioError` for a
    design without indices, and if too few runs have a result.
    """
    plan = folder.plan
    if result not in plan.results:
        raise UnknownName("result", result, plan.results, "the study")
    table = folder.table("run", result)
    values = np.full(plan.runs, np.nan)
    values[np.asarray(table["run"])] = np.asarray(table[result], dtype=np.float64)
    return plan.sampled.sensitivity(plan.space, values)
