"""Measures of a task, computed from a recording."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import rtsim as rt
from rtsim.core.errors import RtsimError, UnknownName
from rtsim.core.signals import Vector
from rtsim.core.toml import Place, read_as

if TYPE_CHECKING:
    from rtsim.record.reading import Recording
    from rtsim.record.reports.charts import Chart


@dataclass(frozen=True)
class Row:
    """One measure of a task. ``value`` is ``None`` if the measure could not be computed."""

    name: str
    value: float | None
    unit: str = ""
    title: str = ""
    """Name in the report. If empty, the report prints ``name``."""

    @property
    def said(self) -> str:
        """Name that the report prints."""
        return self.title or self.name

    @property
    def shown(self) -> str:
        """Value that the report prints, without its unit."""
        return "not known" if self.value is None else f"{self.value:.4g}"

    def to_plain(self) -> dict[str, Any]:
        known = self.value is not None and math.isfinite(self.value)
        return {"value": self.value if known else None, "unit": self.unit}


@dataclass(frozen=True)
class Findings:
    """Measures of a task in one recording, with remarks, marked intervals and charts."""

    kind: str
    complete: bool
    """Whether the run contains the whole task. If not, the measures cover only a part."""
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    marks: tuple[Mapping[str, Any], ...] = ()
    """Marked intervals, such as oscillations, as plain data with ``what`` and ``text``."""
    charts: tuple[Chart, ...] = ()
    details: tuple[Any, ...] = ()
    """Further results of a kind of task. A tracking task stores its axes here."""

    def __getitem__(self, name: str) -> float | None:
        """Return the value of the measure ``name``; raise :class:`UnknownName` if missing."""
        for row in self.rows:
            if row.name == name:
                return row.value
        raise UnknownName("measure", name, [r.name for r in self.rows], f"task {self.kind}")

    def to_plain(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "complete": self.complete,
            "measures": {row.name: row.to_plain() for row in self.rows},
            "notes": list(self.notes),
            "marks": [dict(mark) for mark in self.marks],
        }


class TaskError(RtsimError):
    """A recording lacks the data for the measures of its task."""


def with_values(plant: type[rt.Plant], **values: float | Sequence[float]) -> rt.Model:
    model = plant.model()
    begin = {
        name: float(value) if isinstance(value, float | int) else tuple(map(float, value))
        for name, value in values.items()
    }
    parameters = (replace(s, initial=begin.get(s.name, s.initial)) for s in model.parameters)
    return replace(model, parameters=rt.Signals(*parameters))


def parameters_of(recording: Recording, name: str) -> dict[str, Any]:
    found: dict[str, Any] = recording.header["scenario"]["parts"][name]["parameters"]
    return found


def source_of(recording: Recording, name: str, signal: str) -> str:
    """Return the signal that is connected to the input ``signal`` of a component."""
    found: str = recording.header["scenario"]["parts"][name]["inputs"][signal]
    return found


def last_values(recording: Recording, name: str) -> dict[str, float]:
    track = recording.track(name)
    return {c: float(track.column(c)[-1]) for c in track.signals.columns}


def elements(values: dict[str, float], name: str, count: int) -> Vector:
    return np.array([values[f"{name}_{i}"] for i in range(count)])


def rms_of(values: Vector) -> float | None:
    """Return the root mean square of ``values`` (n,), or ``None`` for an empty array."""
    return math.sqrt(float(np.mean(values**2))) if len(values) else None


class TaskData:
    """Base class for dataclasses with the plain data of a task.

    A field is a number, a text, a list of numbers or texts, or a list of rows of numbers.
    """

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> Self:
        """Return the task from plain data, such as a TOML file.

        Raises :class:`ScenarioError` if the data is invalid.
        """
        return read_as(cls, data, Place(where))

    @property
    def scene(self) -> str:
        """The scene of the window; an empty text means the scene of the scenario."""
        return ""

    def shown(self) -> Mapping[str, Any]:
        return {}
