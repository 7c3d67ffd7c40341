"""How many runs a study needs, given the rows that it has so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from rtsim.core.estimates import Estimate
from rtsim.studies.folder import Folder
from rtsim.studies.measures import margin_name
from rtsim.studies.rows import decided
from rtsim.studies.stopping import Stop


def needed(folder: Folder) -> int:
    """Return the number of runs that the study needs: up to the next look, or to its end.

    Looks are decided one after the other, each from exactly the runs before it.  The answer
    therefore depends neither on the order of the runs nor on a resume.  A search needs its largest
    number of runs until it has ended.
    """
    plan, stop = folder.plan, folder.plan.stopping
    if not plan.sampled.planned and folder.ended.why:
        return folder.ended.runs
    if stop is None:
        return plan.runs
    columns = folder.columns()
    for look in stop.looks:
        if look >= plan.runs:
            break
        before = columns["run"] < look
        if before.sum() < look:
            return look
        low, high = looked(folder, stop, {n: c[before] for n, c in columns.items()})
        if 0.5 * (high - low) <= stop.half_width:
            return look
    return plan.runs


def looked(folder: Folder, stop: Stop, columns: dict[str, Any]) -> tuple[float, float]:
    """Return the interval at a look from the rows in ``columns``."""
    plan, level = folder.plan, stop.corrected
    ended = decided(columns["state"])
    for requirement in plan.job.required:
        if requirement.name == stop.result and stop.result not in plan.results:
            met = columns[margin_name(requirement)][ended].astype(np.float64) >= 0.0
            own = {n: c[ended] for n, c in columns.items()}
            found = plan.sampled.share(own, met, level)
            return (0.0, 1.0) if found is None else (found.low, found.high)
    values = columns[stop.result].astype(np.float64)
    good = ended & np.isfinite(values)
    kept = {n: c[good] for n, c in columns.items()}
    estimate: Estimate | None = plan.sampled.mean(kept, values[good], level)
    if estimate is None or np.ptp(values[good]) == 0.0:  # equal values tell no variance
        return -np.inf, np.inf
    return estimate.low, estimate.high
