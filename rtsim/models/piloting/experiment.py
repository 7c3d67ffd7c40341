"""Experiments with pilots: participants, conditions, order of trials, questions and results.

The folder of an experiment contains ``experiment.toml``, recordings ``recordings/NAME.mcap`` and
results ``results/NAME.json``. NAME consists of the participant and the number of the trial. A trial
counts as done if its result file exists. The result file is written at the end of a trial and never
overwritten. An aborted trial leaves a recording; the next attempt is recorded in
``NAME-attempt2.mcap``.

The orders of the conditions are balanced Latin squares. Source: E. J. Williams, "Experimental
Designs Balanced for the Estimation of Residual Effects of Treatments", Australian Journal of
Scientific Research A 2 (1949).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rtsim.core import toml
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.toml import (
    NEEDED,
    Entries,
    Key,
    ListKey,
    Place,
    TableKey,
    choice,
    number,
    read,
    table,
    text,
    texts,
    whole,
)
from rtsim.record.table import SignalTable


def williams(count: int) -> list[list[int]]:
    """Return the rows of a balanced Latin square with the numbers 0 to ``count`` - 1.

    Each number occurs equally often at each position, and equally often after each other number.
    The square has ``count`` rows, or twice as many if ``count`` is odd and above 1.
    """
    first = [0]
    for k in range(1, count):
        first.append((k + 1) // 2 if k % 2 else count - k // 2)
    rows = [[(v + shift) % count for v in first] for shift in range(count)]
    if count % 2 and count > 1:
        rows += [row[::-1] for row in rows]
    return rows


def orders(count: int, participants: int, blocks: int, seed: int) -> list[list[list[int]]]:
    """Return the order of the conditions 0 to ``count`` - 1 for each participant and block.

    The order depends only on the arguments. In each block, a participant has each condition once.
    The orders are rows of ``williams`` in random sequence. Each row is used once before a row is
    used again.
    """
    rows = williams(count)
    stream = RandomStreams(seed).stream("experiment/order")
    names = stream.permutation(count).tolist()
    dealt: list[int] = []
    while len(dealt) < participants * blocks:
        dealt += stream.permutation(len(rows)).tolist()
    return [
        [[names[v] for v in rows[dealt[p * blocks + b]]] for b in range(blocks)]
        for p in range(participants)
    ]


SCALE, CHOICE, TEXT = "scale", "choice", "text"
KINDS = (SCALE, CHOICE, TEXT)
MOST_TEXT = 1000
_QUESTION = {
    "name": text(),
    "text": text(),
    "kind": choice(KINDS, SCALE, "kind of question"),
    "low": number(default=1.0),
    "high": number(default=10.0),
    "choices": texts(),
}
Answer = float | str | None


@dataclass(frozen=True)
class Question:
    """A question that the participant answers after each trial.

    ``kind`` is one of :data:`KINDS`. The answer to a question of the kind ``scale`` is a number
    from ``low`` to ``high``. The answer to a question of the kind ``choice`` is one of ``choices``.
    The participant can skip a question with an empty answer.
    """

    name: str
    text: str
    kind: str = SCALE
    low: float = 1.0
    high: float = 10.0
    choices: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Entries) -> Self:
        """Return the question of a table ``[[questions]]``.

        Raises :class:`ScenarioError` if the table is invalid.
        """
        kind, low, high = row["kind"], row["low"], row["high"]
        if not row["name"].isidentifier():
            raise row.error(
                "name", f"name = {row['name']!r}; write letters, digits and _, because the name "
                "becomes a column",
            )  # fmt: skip
        if kind == SCALE and not low < high:
            raise row.error("low", f"low = {low:g}, high = {high:g}; write low < high")
        if kind == CHOICE and len(row["choices"]) < 2:
            text = f"choices = {list(row['choices'])}; write two or more texts"
            raise row.error("choices", text)
        return cls(**row)

    @property
    def prompt(self) -> str:
        """Text of the question, with the valid answers."""
        if self.kind == SCALE:
            return f"{self.text} ({self.low:g} to {self.high:g}, Enter to skip)"
        if self.kind == CHOICE:
            return f"{self.text} ({', '.join(self.choices)}; Enter to skip)"
        return f"{self.text} (Enter to skip)"

    def read(self, typed: str) -> Answer:
        """Return the answer, or ``None`` for an empty text.

        Raises ``ScenarioError`` for an invalid answer; the message lists the valid answers.
        """
        given = typed.strip()
        if not given:
            return None
        if self.kind == SCALE:
            return self._scale(given)
        if self.kind == CHOICE and given not in self.choices:
            raise ScenarioError(f"{given!r} is none of {', '.join(self.choices)}; type one of them")
        if len(given) > MOST_TEXT or not given.isprintable():
            raise ScenarioError(f"type at most {MOST_TEXT} printable characters")
        return given

    def _scale(self, given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:
            raise ScenarioError(
                f"{given!r} is not a number from {self.low:g} to {self.high:g}; type one"
            )
        return value


MOST_TRIALS = 10_000
_NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*\Z")
Value = str | float


def _value(given: Any) -> Value:
    return given.strip() if isinstance(given, str) else float(number().convert(given))


class _Nested(TableKey):
    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        flat = dict(_with_dotted_names("", given)) if isinstance(given, Mapping) else given
        return super().value(flat, place, name, element)


_VALUE = Key("a number or a text", convert=_value)
_VALUES = ListKey("a list, such as [0.0, 0.1]", of=_VALUE, count=range(1, MOST_TRIALS))
_KEYS = {
    "scenario": text(wanted='the name of a scenario, such as scenario = "f16"'),
    "task": text("", empty=True),
    "participants": texts(
        NEEDED, 'one or more different names, such as participants = ["p1", "p2"]'
    ),
    "repetitions": whole(1, default=1),
    "seed": whole(default=0),
    "until": text(None, "a time in quotes", empty=True),
    "settings": _Nested("a table [settings]", of=_VALUE),
    "conditions": _Nested("a table [conditions]", of=_VALUES),
    "questions": ListKey("tables [[questions]]", (), of=table(_QUESTION)),
}


@dataclass(frozen=True)
class Trial:
    """One flight of a participant.

    ``number`` counts the participant's trials, and ``block`` the repetitions, both from 1.
    ``condition`` contains the value of each condition. ``seed`` is the seed of the run.
    """

    participant: str
    number: int
    block: int
    condition: Mapping[str, Value]
    seed: int

    @property
    def name(self) -> str:
        return f"{self.participant}-{self.number:03d}"


@dataclass(frozen=True)
class Experiment:
    """An experiment with a scenario, participants, conditions and questions.

    ``conditions`` contains the settings of each condition, by name. A setting is an argument of the
    scenario, such as ``latency``, or a value of a component, such as ``f16.cg``. ``settings`` apply
    to all trials.
    """

    scenario: str
    participants: tuple[str, ...]
    conditions: Mapping[str, tuple[Value, ...]]
    settings: Mapping[str, Value]
    repetitions: int = 1
    seed: int = 0
    task: str = ""
    until: str | None = None
    questions: tuple[Question, ...] = ()
    text: str = ""
    """Text of the experiment's TOML file."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def cells(self) -> list[dict[str, Value]]:
        names = list(self.conditions)
        return [
            dict(zip(names, values, strict=True))
            for values in itertools.product(*self.conditions.values())
        ]

    def trials(self, participant: str) -> list[Trial]:
        """Return the trials of ``participant`` in the order of the flights.

        All trials of a block have the same seed, so that the participant meets the same gusts in
        all conditions. Raises ``UnknownName`` for an undeclared participant.
        """
        if participant not in self.participants:
            raise UnknownName("participant", participant, self.participants, "the experiment")
        cells = self.cells
        who = self.participants.index(participant)
        mine = orders(len(cells), len(self.participants), self.repetitions, self.seed)[who]
        flat = [(block, cell) for block, row in enumerate(mine, start=1) for cell in row]
        return [
            Trial(participant, number, block, cells[cell], self.seed * 1000 + block)
            for number, (block, cell) in enumerate(flat, start=1)
        ]


def read_experiment(path: Path) -> Experiment:
    """Return the experiment of a TOML file; raise :class:`ScenarioError` if the file is invalid."""
    file = toml.open_toml(path, "a file of an experiment")
    return _experiment(read(file.data, _KEYS, file.place), file.text)


def experiment_of(data: Mapping[str, Any], where: str, text: str) -> Experiment:
    """Return an experiment from plain data; error messages begin with ``where``."""
    return _experiment(read(data, _KEYS, Place(where)), text)


def _experiment(top: Entries, text: str) -> Experiment:
    people, conditions, settings = top["participants"], top["conditions"], top["settings"]
    for name in people:
        if not _NAME.match(name):
            problem = (
                f"participant {name!r}: use letters, digits, _ and -, because the name is part of "
                "file names"
            )
            raise top.error("participants", problem)
    if not people or len(set(people)) != len(people):
        wanted = _KEYS["participants"].wanted
        raise top.error("participants", f"participants = {list(people)}; write {wanted}")
    for name, values in conditions.items():
        if len(set(values)) != len(values):
            raise conditions.error(
                name, f"{name} contains a value twice; leave one of the two values out"
            )
    names = [q["name"] for q in top["questions"]]
    if len(set(names)) != len(names):
        raise top.error(
            "questions", "two questions have the same name; give each question another name"
        )
    twice = sorted({*settings} & {*conditions})
    if top["task"] and "task" in {*settings, *conditions}:
        twice.append("task")
    if twice:
        raise top.error("settings", f"{twice[0]} is given twice; leave one of them out")
    found = Experiment(
        top["scenario"],
        people,
        dict(conditions),
        dict(settings),
        top["repetitions"],
        top["seed"],
        top["task"],
        top["until"] or None,
        tuple(map(Question.of, top["questions"])),
        text,
    )
    count = len(found.cells) * found.repetitions
    if count > MOST_TRIALS:
        problem = f"{count} trials for each participant; the limit is {MOST_TRIALS}"
        raise top.error("conditions", problem)
    return found


def _with_dotted_names(prefix: str, found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for key, value in found.items():
        if isinstance(value, Mapping):
            out += _with_dotted_names(f"{prefix}{key}.", value)
        else:
            out.append((f"{prefix}{key}", value))
    return out


_COPY = "experiment.toml"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ExperimentFolder:
    """Folder of recordings and results of ``experiment``."""

    path: Path
    experiment: Experiment

    @classmethod
    def open(cls, path: Path, experiment: Experiment) -> ExperimentFolder:
        """Create the folder of an experiment, or open an existing one.

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
                f"{path} was made with another version of the experiment file; restore this "
                f"version from {copy}, or give another -o FOLDER"
            )
        return cls(path, experiment)

    def result_path(self, trial: Trial) -> Path:
        return self.path / "results" / f"{trial.name}.json"

    def new_recording(self, trial: Trial) -> Path:
        folder, attempt = self.path / "recordings", 1
        while True:
            name = trial.name if attempt == 1 else f"{trial.name}-attempt{attempt}"
            if not any(folder.glob(f"{name}.*")):
                return folder / f"{name}.mcap"
            attempt += 1

    def done(self, participant: str) -> list[Trial]:
        return [t for t in self.experiment.trials(participant) if self.result_path(t).is_file()]

    def left(self, participant: str) -> list[Trial]:
        return [t for t in self.experiment.trials(participant) if not self.result_path(t).is_file()]

    def keep(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """Write the result of ``trial``; raise ``RecordingError`` if a result exists."""
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
        """Return all trials that have a result, ordered by participant and number."""
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
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)  # atomic, and fails if the file exists
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    finally:
        Path(name).unlink(missing_ok=True)


def trial_table(folder: ExperimentFolder) -> SignalTable:
    """Return a table with one row for each completed trial.

    The time of a row is the simulated time at the end of the trial. The columns are participant,
    trial, block, conditions, measures, answers and recording. A missing value is NaN or an empty
    text. Raises :class:`ScenarioError` if no trial is complete.
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
    if any(isinstance(v, str) for v in values):
        return np.array(["" if v is None else str(v) for v in values], object)
    if all(isinstance(v, int) for v in values):
        return np.array(values, np.int64)
    return np.array([np.nan if v is None else float(v) for v in values])


def write_table(folder: ExperimentFolder, path: Path) -> SignalTable:
    """Write the table of trials to ``path``, in the format of its suffix."""
    from rtsim.record.export import export

    table = trial_table(folder)
    export(table, path)
    return table
