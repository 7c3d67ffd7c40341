"""An experiment as it is declared: participants, conditions, repetitions, questions; its trials."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.core import toml
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.models.piloting.experiments.order import orders
from rtsim.models.piloting.experiments.questions import Question
from rtsim.models.piloting.reading import check_keys, texts

MOST_BYTES = 1 << 20
MOST_TRIALS = 10_000
_KEYS = (
    "scenario", "task", "participants", "repetitions", "seed", "until", "settings", "conditions",
    "questions",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*\Z")
Value = str | float


@dataclass(frozen=True)
class Trial:
    """One flight: the participant's ``number``-th (from 1), in ``block`` (from 1), with settings.

    ``condition`` has the value of each condition; ``seed`` is the seed of the run.
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
    """An experiment; ``conditions`` has the values of each condition by its name.

    The name of a condition is an argument of the scenario, such as ``latency``, or a value of a
    component, such as ``f16.cg``.  ``settings`` are the same for all trials.
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
    """The text of the file."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def cells(self) -> list[dict[str, Value]]:
        """The combinations of all conditions."""
        names = list(self.conditions)
        return [
            dict(zip(names, values, strict=True))
            for values in itertools.product(*self.conditions.values())
        ]

    def trials(self, participant: str) -> list[Trial]:
        """Return the trials of ``participant`` in their order.

        All conditions of a block have the same seed, so that they are compared with the same gusts.
        Raises :class:`UnknownName` for a name that is not declared.
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
    """Return the experiment of a TOML file; raises :class:`ScenarioError` with what to type."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ScenarioError(f"experiment {path}: {error.strerror}; give a TOML file") from None
    if len(raw) > MOST_BYTES:
        raise ScenarioError(f"experiment {path} has more than {MOST_BYTES} bytes")
    try:
        text = raw.decode()
        data = toml.loads(text)
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"experiment {path} is not valid TOML: {error}") from None
    return experiment_of(data, f"experiment {path.name}", text)


def experiment_of(data: Mapping[str, Any], where: str, text: str) -> Experiment:
    """Return the experiment from plain data; ``where`` begins the messages of errors."""
    check_keys(data, _KEYS, where)
    people = texts(data.get("participants", []), f"{where}: participants")
    for name in people:
        if not _NAME.match(name):
            raise ScenarioError(
                f"{where}: participant {name!r}: use letters, digits, _ and -, because the name "
                "is part of file names"
            )
    if not people or len(set(people)) != len(people):
        raise ScenarioError(
            f"{where}: participants = {list(people)}; give one or more different names, for "
            'example participants = ["p1", "p2"]'
        )
    for key in ("scenario", "task", "until"):
        if not isinstance(data.get(key, ""), str):
            raise ScenarioError(f"{where}: {key} = {data[key]!r}; give a text in quotes")
    if not data.get("scenario"):
        raise ScenarioError(f'{where} names no scenario; write, for example, scenario = "f16"')
    conditions = _conditions(data.get("conditions", {}), where)
    settings = {k: _value(v, f"{where}: settings: {k}") for k, v in _table(data, "settings", where)}
    twice = sorted(
        {*settings} & {*conditions}
        | ({"task"} & {*settings, *conditions} if data.get("task") else set())
    )
    if twice:
        raise ScenarioError(f"{where}: {twice[0]} is given twice; leave one of them out")
    found = Experiment(
        data["scenario"],
        people,
        conditions,
        settings,
        _whole(data.get("repetitions", 1), 1, f"{where}: repetitions"),
        _whole(data.get("seed", 0), 0, f"{where}: seed"),
        data.get("task", ""),
        data.get("until") or None,
        _questions(data.get("questions", []), where),
        text,
    )
    count = len(found.cells) * found.repetitions
    if count > MOST_TRIALS:
        raise ScenarioError(
            f"{where}: {count} trials for each participant; the limit is {MOST_TRIALS}"
        )
    return found


def _table(data: Mapping[str, Any], key: str, where: str) -> list[tuple[str, Any]]:
    found = data.get(key, {})
    if not isinstance(found, Mapping):
        raise ScenarioError(f"{where}: {key} = {found!r}; write a table [{key}]")
    return list(_flat("", found))


def _flat(prefix: str, found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the entries with full names: TOML reads ``f16.cg`` as a table in a table."""
    out: list[tuple[str, Any]] = []
    for key, value in found.items():
        if isinstance(value, Mapping):
            out += _flat(f"{prefix}{key}.", value)
        else:
            out.append((f"{prefix}{key}", value))
    return out


def _conditions(found: object, where: str) -> dict[str, tuple[Value, ...]]:
    out = {}
    for name, values in _table({"conditions": found}, "conditions", where):
        if not isinstance(values, list) or not values:
            raise ScenarioError(
                f"{where}: condition {name} = {values!r}; give a list, such as {name} = [0.0, 0.1]"
            )
        known = tuple(_value(v, f"{where}: condition {name}") for v in values)
        if len(set(known)) != len(known):
            raise ScenarioError(f"{where}: condition {name} has a value twice; leave one out")
        out[name] = known
    return out


def _value(value: object, what: str) -> Value:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ScenarioError(f"{what} = {value!r}; give a number or a text")
    return value if isinstance(value, str) else float(value)


def _whole(value: object, least: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ScenarioError(f"{what} = {value!r}; give a whole number >= {least}")
    return value


def _questions(found: object, where: str) -> tuple[Question, ...]:
    if not isinstance(found, list) or not all(isinstance(q, Mapping) for q in found):
        raise ScenarioError(f"{where}: questions: write tables [[questions]]")
    out = tuple(
        Question.from_data(q, f"{where}: question {i}") for i, q in enumerate(found, start=1)
    )
    names = [q.name for q in out]
    if len(set(names)) != len(names):
        raise ScenarioError(f"{where}: two questions have the same name; give each its own")
    return out
