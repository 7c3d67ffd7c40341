"""The same experiment with other random numbers: independent runs, and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL, Estimate, interval, line_average
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration, to_ns
from rtsim.record.outputs import average, single
from rtsim.record.reading import Recording, TrackData
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

Measure = Callable[[Recording], Mapping[str, float]]
"""What one run says: numbers by name."""


@dataclass(frozen=True)
class Replications:
    """What was measured, by name: (n,) each, one of each run."""

    values: Mapping[str, Vector]
    seeds: tuple[int, ...]

    def __getitem__(self, name: str) -> Vector:
        if name not in self.values:
            raise UnknownName("measure", name, self.values)
        return self.values[name]

    def estimate(self, name: str, level: float = LEVEL) -> Estimate:
        """Student's interval of the mean."""
        return interval(self[name], level)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {self.estimate(name)}" for name in self.values)


def replicate(
    make: Callable[[], Scenario], measure: Measure, count: int = 20, seed: int = 0, **options: Any
) -> Replications:
    """``count`` runs with the seeds from ``seed`` on; every named stream differs in each.

    ``options`` are those of :func:`rtsim.runs.simulation.simulate`.
    """
    if count < 2:
        raise ScenarioError(f"{count} replications say nothing about their spread; give 2 or more")
    seeds = tuple(range(seed, seed + count))
    rows = [dict(measure(trace_of(make(), seed=one, **options))) for one in seeds]
    return Replications({name: np.array([row[name] for row in rows]) for name in rows[0]}, seeds)


def held_average(
    recording: Recording, name: str, after: Duration = 0, before: float | None = None
) -> float:
    """The average over time of ``"track.column"`` from ``after`` s to the end of the run.

    A message (``"messages/part.signal"``) holds from its arrival on; ``before`` is what held before
    the first, where that is not the value that was declared.  A plant's signal
    (``"plant.signal"``) goes in straight lines from row to row, with its jumps.
    """
    track, column = _track_of(recording, name)
    if "side" in track.integers:
        ns = track.ns
        last = int(ns[-1]) if len(ns) else 0
        return line_average(ns, single(track, column), to_ns(after), last)
    return average(recording, track, column, to_ns(after), before)


def mean_after(recording: Recording, name: str, after: Duration = 0) -> float:
    """The mean of ``"messages/topic.signal"`` over the messages initiated after ``after`` s."""
    track, column = _track_of(recording, name)
    if "initiated" not in track.integers:
        raise ScenarioError(
            f"{name} is no message, and a mean over rows depends on the steps; use held_average"
        )
    values = single(track, column)[track.ns > to_ns(after)]
    if not len(values):
        raise ScenarioError(f"no message of {name} after {after} s; run longer")
    return float(values.mean())


def _track_of(recording: Recording, name: str) -> tuple[TrackData, str]:
    """What ``"track.column"`` stands in, and the column."""
    track, dot, column = name.rpartition(".")
    if not dot:
        raise UnknownName("signal", name, recording.names, recording.source)
    return recording.track(track), column
