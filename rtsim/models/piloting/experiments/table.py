"""One table of an experiment: a row for each trial, for statistics in other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.models.piloting.experiments.folder import ExperimentFolder
from rtsim.models.piloting.experiments.plan import Trial
from rtsim.record.table import SignalTable


def trial_table(folder: ExperimentFolder) -> SignalTable:
    """Return a row for each trial that is done; its time is the simulated end of the trial.

    The columns are participant, number, block, the conditions, the measures of the task, the
    answers, and the file of the recording.  A value that is not known is NaN, or an empty text.
    Raises :class:`ScenarioError` if no trial is done.
    """
    found = folder.results()
    if not found:
        raise ScenarioError(
            f"{folder.path} has no result yet; fly a trial: rtsim experiment FILE.toml "
            f"--participant {folder.experiment.participants[0]}"
        )
    rows = [_row(trial, result) for trial, result in found]
    names = list(dict.fromkeys(name for row in rows for name in row))
    names.sort(key=lambda name: name == "recording")
    units: dict[str, str] = {}
    for _, result in found:
        units |= {k: str(v.get("unit", "")) for k, v in result["measures"].items()}
    ends = np.array([round(float(r.get("simulated_s", 0.0)) * 1e9) for _, r in found], np.int64)
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    return SignalTable(ends, columns, {n: u for n, u in units.items() if n in columns})


def _row(trial: Trial, result: Mapping[str, Any]) -> dict[str, Any]:
    measures = {k: v.get("value") for k, v in result["measures"].items()}
    clash = set(measures) & set(trial.condition)
    condition = {f"condition_{k}" if k in clash else k: v for k, v in trial.condition.items()}
    return {
        "participant": trial.participant,
        "trial": trial.number,
        "block": trial.block,
        **condition,
        **measures,
        "marks": result.get("marks"),
        **result.get("answers", {}),
        "recording": result.get("recording", ""),
    }


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Return numbers as doubles or integers, and anything with a text as texts."""
    if any(isinstance(v, str) for v in values):
        return np.array(["" if v is None else str(v) for v in values], object)
    if all(isinstance(v, int) for v in values):
        return np.array(values, np.int64)
    return np.array([np.nan if v is None else float(v) for v in values])


def write_table(folder: ExperimentFolder, path: Path) -> SignalTable:
    """Write :func:`trial_table` in the format of the suffix of ``path``."""
    from rtsim.record.export import export

    table = trial_table(folder)
    export(table, path)
    return table
