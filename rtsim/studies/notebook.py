"""What a notebook shows of a study: how its runs ended, and the range of each result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtsim.record import markup
from rtsim.studies.measures import STATES, margin_name
from rtsim.studies.plan import Plan


def shown_study(path: Path, plan: Plan, columns: Mapping[str, NDArray[np.generic]]) -> str:
    """Return a study as HTML: counts and ranges, which are facts of any design.

    ``path``: the folder of the study; ``columns``: its results, one element for each run.
    """
    states = columns["state"]
    counts = {state: int((states == state).sum()) for state in STATES}
    facts: dict[str, object] = {
        "folder": path,
        "design": plan.design["design"],
        "runs": f"{len(states)} of {plan.runs}",
        "states": ", ".join(f"{count} {state}" for state, count in counts.items() if count),
    }
    for one in plan.job.required:
        met = columns[margin_name(one)].astype(np.float64) >= 0.0  # False for NaN
        facts[str(one)] = f"met in {int(met.sum())} of {len(met)} runs"
    rows = []
    for name in plan.results:
        values = columns[name].astype(np.float64)
        finite = values[np.isfinite(values)]
        ends = (float(finite.min()), float(finite.max())) if len(finite) else ("", "")
        rows.append([name, len(finite), *ends])
    return markup.shown("Study", facts, ("result", "finite values", "least", "greatest"), rows)
