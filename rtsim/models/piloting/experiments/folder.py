"""The folder of an experiment: recordings and results of trials, which are never overwritten.

The folder has ``experiment.toml`` (a copy of the declaration), ``recordings/NAME.mcap`` and
``results/NAME.json``, where NAME is participant and number.  A trial is done when its result
exists.  A result is written whole, after the measures and the answers are known.  A trial that was
aborted leaves a recording only; it is flown again into ``NAME.2.mcap``.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.models.piloting.experiments.plan import Experiment, Trial

_COPY = "experiment.toml"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ExperimentFolder:
    """The folder ``path`` of ``experiment``; :meth:`open` makes or checks it."""

    path: Path
    experiment: Experiment

    @classmethod
    def open(cls, path: Path, experiment: Experiment) -> ExperimentFolder:
        """Make the folder, or continue in it.

        Raises :class:`ScenarioError` if the folder belongs to another experiment.
        """
        copy = path / _COPY
        try:
            for name in ("recordings", "results"):
                (path / name).mkdir(parents=True, exist_ok=True)
            if not copy.exists():
                _write_new(copy, experiment.text)
            text = copy.read_text(encoding="utf-8")
        except OSError as error:
            raise ScenarioError(
                f"folder {path}: {error.strerror}; give another -o FOLDER"
            ) from error
        if text != experiment.text:
            raise ScenarioError(
                f"{path} belongs to another version of the experiment; its trials would not fit "
                f"those of the changed file. Restore the file from {copy}, or give another -o "
                "FOLDER"
            )
        return cls(path, experiment)

    def result_path(self, trial: Trial) -> Path:
        return self.path / "results" / f"{trial.name}.json"

    def new_recording(self, trial: Trial) -> Path:
        """Return the file of the next attempt at ``trial``, which does not exist yet."""
        folder, attempt = self.path / "recordings", 1
        while True:
            name = trial.name if attempt == 1 else f"{trial.name}-attempt{attempt}"
            if not any(folder.glob(f"{name}.*")):
                return folder / f"{name}.mcap"
            attempt += 1

    def done(self, participant: str) -> list[Trial]:
        """Return the trials of ``participant`` that have a result."""
        return [t for t in self.experiment.trials(participant) if self.result_path(t).is_file()]

    def left(self, participant: str) -> list[Trial]:
        """Return the trials of ``participant`` that have no result, in their order."""
        return [t for t in self.experiment.trials(participant) if not self.result_path(t).is_file()]

    def keep(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """Write the result of ``trial``; raises :class:`RecordingError` if it exists already."""
        path = self.result_path(trial)
        try:
            _write_new(path, json.dumps(result, indent=1, sort_keys=True, allow_nan=False) + "\n")
        except FileExistsError:
            raise RecordingError(
                f"{path} exists: another session has flown this trial; nothing was overwritten"
            ) from None
        except OSError as error:
            raise RecordingError(f"cannot write {path}: {error.strerror}") from error

    def results(self) -> list[tuple[Trial, Mapping[str, Any]]]:
        """Return all trials with a result, by participant and number."""
        out: list[tuple[Trial, Mapping[str, Any]]] = []
        for participant in self.experiment.participants:
            for trial in self.done(participant):
                path = self.result_path(trial)
                try:
                    if path.stat().st_size > _MOST_BYTES:
                        raise ValueError("it is too large")
                    found = json.loads(path.read_text(encoding="utf-8"))
                    if not isinstance(found, dict) or not isinstance(found.get("measures"), dict):
                        raise ValueError("it has no measures")
                except (OSError, ValueError, RecursionError) as error:
                    raise RecordingError(
                        f"{path} cannot be read: {error}; restore it, or move it away to fly the "
                        "trial again"
                    ) from error
                out.append((trial, found))
        return out


def _write_new(path: Path, text: str) -> None:
    """Write a whole new file; raises :class:`FileExistsError` if ``path`` exists."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)  # atomic, and refuses an existing file
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    finally:
        Path(name).unlink(missing_ok=True)
