"""Folders of studies whose rows are made up, so that a test needs no run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.signals import Vector
from rtsim.studies.folder import Folder
from rtsim.studies.measures import OK, Limit, Row, margin_name
from rtsim.studies.plan import Ordered, Orders, Plan
from rtsim.studies.study import Study

Values = Callable[[Ordered], Mapping[str, float]]
"""Returns the results of a run."""


def made_up(
    path: str,
    study: Study,
    values: Values,
    states: Mapping[int, tuple[str, str]] | None = None,
    rows: int | None = None,
    history: Callable[[Ordered, Vector], Vector] | None = None,
) -> Folder:
    """Return the folder of a study of the scenario ``unstable``.

    ``states``: state and cause of the runs that are not ``ok``; runs in the states ``error``,
    ``lost`` and ``timeout`` have no results.  ``rows``: the number of rows; default: all.
    ``history``: returns the values of each signal at the times (points,) in s.
    """
    plan = Plan.of(study, "unstable").with_histories_until(10**9)
    folder, orders = Folder.new(Path(path), plan), Orders(plan)
    seconds = plan.job.grid / 1e9
    for run in range(plan.runs if rows is None else rows):
        order = orders[run]
        state, cause = (states or {}).get(run, (OK, ""))
        found: dict[str, Any] = dict(values(order)) if state in (OK, "nan") else {}
        for one in plan.job.required if found else ():
            if isinstance(one, Limit):
                found[margin_name(one)] = one.margin(found[one.result])
        histories = {
            signal: np.asarray(history(order, seconds), np.float64)
            for signal in plan.job.histories
            if history is not None
        }
        folder.add(Row(order, state, cause, values=found, histories=histories, digest="0" * 64))
        if run % 7 == 6:  # several files
            folder.write()
    folder.write()
    return folder


def x_of(order: Ordered) -> dict[str, float]:
    """Return the factor ``plant.x`` of a run as its result ``x``."""
    return {"x": float(order.factors["plant.x"])}
