"""The measures of a task in a recording, and the checks of the data of a task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.signals import Vector

if TYPE_CHECKING:
    from rtsim.record.reading import Recording
    from rtsim.record.reports.charts import Chart


@dataclass(frozen=True)
class Row:
    """One measure of a task: its name, value and unit; ``value`` is None if it is not known."""

    name: str
    value: float | None
    unit: str = ""
    title: str = ""
    """What the report prints; if empty, the name."""

    @property
    def said(self) -> str:
        """The name for a reader."""
        return self.title or self.name

    @property
    def shown(self) -> str:
        """The value for a reader, without a unit."""
        return "not known" if self.value is None else f"{self.value:.4g}"

    def to_plain(self) -> dict[str, Any]:
        known = self.value is not None and math.isfinite(self.value)
        return {"value": self.value if known else None, "unit": self.unit}


@dataclass(frozen=True)
class Findings:
    """The measures of one task in one recording, with remarks, marked times and plots."""

    kind: str
    complete: bool
    """Whether the run contains the whole task; if not, the measures are those of a part."""
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    marks: tuple[Mapping[str, Any], ...] = ()
    """Marked stretches, such as oscillations, as plain data with ``what`` and ``text``."""
    charts: tuple[Chart, ...] = ()
    """Charts for the report."""
    details: tuple[Any, ...] = ()
    """What a kind gives beside its measures: a tracking task, its axes."""

    def __getitem__(self, name: str) -> float | None:
        """Return the value of the measure ``name``; raises :class:`UnknownName`."""
        for row in self.rows:
            if row.name == name:
                return row.value
        raise UnknownName("measure", name, [r.name for r in self.rows], f"task {self.kind}")

    def to_plain(self) -> dict[str, Any]:
        """Return the findings as plain data, for ``--json``."""
        return {
            "kind": self.kind,
            "complete": self.complete,
            "measures": {row.name: row.to_plain() for row in self.rows},
            "notes": list(self.notes),
            "marks": [dict(mark) for mark in self.marks],
        }


class TaskError(RtsimError):
    """Error: a recording does not have what the measures of its task need."""


def parameters_of(recording: Recording, name: str) -> dict[str, Any]:
    """Return the parameters of the plant ``name`` at the start of the recording."""
    found: dict[str, Any] = recording.header["scenario"]["parts"][name]["parameters"]
    return found


def source_of(recording: Recording, name: str, signal: str) -> str:
    """Return the signal to which the input ``signal`` of the component ``name`` is wired."""
    found: str = recording.header["scenario"]["parts"][name]["inputs"][signal]
    return found


def last_values(recording: Recording, name: str) -> dict[str, float]:
    """Return the last values of the plant ``name`` by column."""
    track = recording.track(name)
    return {c: float(track.column(c)[-1]) for c in track.signals.columns}


def elements(values: dict[str, float], name: str, count: int) -> Vector:
    return np.array([values[f"{name}_{i}"] for i in range(count)])


def rms_of(values: Vector) -> float | None:
    """Return the RMS of ``values`` (n,), or ``None`` if there are none."""
    return math.sqrt(float(np.mean(values**2))) if len(values) else None


# Checks of the data of a task: what was found, what was expected, and what to type.


def check_keys(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Raise :class:`UnknownName` for a key of ``data`` that is not ``known``."""
    for key in data:
        if key not in known:
            raise UnknownName("entry", str(key), known, where)


def number(value: object, what: str) -> float:
    """Return a finite number; raises :class:`ScenarioError` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(f"{what} = {value!r}; give a number")
    return float(value)


def numbers(value: object, what: str) -> tuple[float, ...]:
    """Return a list of finite numbers as a tuple."""
    if not isinstance(value, list | tuple):
        raise ScenarioError(f"{what} = {value!r}; give a list of numbers")
    return tuple(number(v, f"{what}, element {i}") for i, v in enumerate(value))


def texts(value: object, what: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple."""
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise ScenarioError(f"{what} = {value!r}; give a list of texts")
    return tuple(value)


class TaskData:
    """A kind of task whose fields are plain data: the base of dataclasses.

    The default of a field shows what it takes: a number, a text, a list of either, or a list of
    rows of numbers.  The metadata ``example`` of a text tells what to give.
    """

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> Self:
        """Return the task from plain data, such as a TOML file; raises :class:`ScenarioError`."""
        known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
        check_keys(data, tuple(known), where)
        given = {k: _read(v, known[k], f"{where}: {k}") for k, v in data.items()}
        try:
            return cls(**given)
        except ScenarioError as error:
            raise ScenarioError(f"{where}: {error}") from None

    @property
    def scene(self) -> str:
        """The scene of the window; empty for that of the scenario."""
        return ""

    def shown(self) -> Mapping[str, Any]:
        """Return options of the scene."""
        return {}


def _read(value: object, field: Field[Any], what: str) -> Any:
    """Return ``value`` checked and converted to the type of the field's default."""
    default: Any = field.default
    if isinstance(default, str):
        if not isinstance(value, str):
            example = field.metadata.get("example", "a text")
            raise ScenarioError(f"{what} = {value!r}; give {example}")
        return value
    if not isinstance(default, tuple):
        return type(default)(number(value, what))
    first = default[0]
    if isinstance(first, str):
        return texts(value, what)
    if not isinstance(first, tuple):
        return tuple(type(first)(v) for v in numbers(value, what))
    if not isinstance(value, list | tuple):
        raise ScenarioError(f"{what} = {value!r}; give a list of rows")
    return tuple(numbers(row, f"{what}, row {i}") for i, row in enumerate(value, start=1))
