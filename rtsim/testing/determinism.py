"""Check that a scenario is deterministic, and repeat runs with different seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL, Estimate, interval, line_average
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration, to_ns
from rtsim.discrete import Processes
from rtsim.named.controller import Controller
from rtsim.named.plant import Plant
from rtsim.record.measured import average, single
from rtsim.record.reading import Recording, TrackData
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

Run = Scenario | Plant | Controller | Processes
"""Argument of :func:`rtsim.simulate`: a scenario, or a component that is run with ``until=``."""


def trace_of(scenario: Run, **options: Any) -> Recording:
    """Run ``scenario`` once, and return the recording in memory.

    ``options`` are passed to :func:`rtsim.runs.simulation.simulate`.
    """
    return simulate(scenario, recorder=MemoryRecorder(), **options).recording()


def _made(make: Callable[[], Run] | Processes) -> Run:
    return make if isinstance(make, Processes) else make()


def check_determinism(make: Callable[[], Run] | Processes, runs: int = 2, **options: Any) -> str:
    """Assert that several runs are equal bit for bit, and return the digest of a run.

    The check fails, for example, if ``derivative`` draws random numbers or reads a clock. Raises
    ``ScenarioError`` for fewer than two runs, or for runs without rows.
    """
    if runs < 2:
        raise ScenarioError(f"runs = {runs} is too few for a comparison; give 2 or more")
    first = trace_of(_made(make), **options)
    if not first.trace_rows:
        name = first.header["scenario"]["name"]
        raise ScenarioError(
            f"a run of {name} has no rows to compare; give the scenario a plant, a controller or "
            "an input"
        )
    for _ in range(runs - 1):
        again = trace_of(_made(make), **options)
        difference = compare_exact(first, again)
        if difference is not None:
            raise AssertionError(
                f"two runs of {first.header['scenario']['name']} differ, first in "
                f"{difference}; check that derivative, output and the controllers draw no "
                "random numbers, read no clock and keep no state"
            )
    return first.digest()


# Independent replications of a run with different random numbers, and their statistics.

Measure = Callable[[Recording], Mapping[str, float]]
"""Function that computes measures of one run, by name."""


@dataclass(frozen=True)
class Replications:
    """Measures of several runs: by name, an array (n,) with one value for each run."""

    values: Mapping[str, Vector]
    seeds: tuple[int, ...]

    def __getitem__(self, name: str) -> Vector:
        if name not in self.values:
            raise UnknownName("measure", name, self.values)
        return self.values[name]

    def estimate(self, name: str, level: float = LEVEL) -> Estimate:
        """Return an estimate of the mean of a measure, with Student's confidence interval."""
        return interval(self[name], level)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {self.estimate(name)}" for name in self.values)


def replicate(
    make: Callable[[], Run] | Processes,
    measure: Measure,
    count: int = 20,
    seed: int = 0,
    **options: Any,
) -> Replications:
    """Simulate ``count`` runs with the seeds ``seed``, ``seed + 1``, …, and return their measures.

    ``make`` returns a scenario or a component. Processes are passed directly. Each run has
    different random numbers. ``options`` are passed to :func:`rtsim.runs.simulation.simulate`.
    """
    if count < 2:
        raise ScenarioError(
            f"count = {count} is too few to estimate a spread; give 2 or more replications"
        )
    seeds = tuple(range(seed, seed + count))
    rows = [dict(measure(trace_of(_made(make), seed=one, **options))) for one in seeds]
    return Replications({name: np.array([row[name] for row in rows]) for name in rows[0]}, seeds)


def held_average(
    recording: Recording, name: str, after: Duration = 0, before: float | None = None
) -> float:
    """Return the time average of ``"track.column"`` from ``after`` s to the end of the run.

    A signal of messages (``"messages/component.signal"``) keeps its value until the next message
    arrives. ``before`` is the value before the first message. The default is the declared initial
    value. A signal of a plant (``"plant.signal"``) is interpolated linearly between rows.
    """
    track, column = _track_of(recording, name)
    if "side" in track.integers:
        ns = track.ns
        last = int(ns[-1]) if len(ns) else 0
        return line_average(ns, single(track, column), to_ns(after), last)
    return average(recording, track, column, to_ns(after), before)


def mean_after(recording: Recording, name: str, after: Duration = 0) -> float:
    """Return the mean of a signal over all messages that were initiated after ``after`` (s).

    ``name`` is ``"messages/topic.signal"``.
    """
    track, column = _track_of(recording, name)
    if "initiated" not in track.integers:
        raise ScenarioError(
            f"{name} is a continuous signal, so the number of its rows, and with it the mean "
            "over the rows, depends on the solver's steps; use held_average, which averages "
            "over time"
        )
    values = single(track, column)[track.ns > to_ns(after)]
    if not len(values):
        raise ScenarioError(
            f"the recording contains no message of {name} after {after} s; run for longer"
        )
    return float(values.mean())


def _track_of(recording: Recording, name: str) -> tuple[TrackData, str]:
    track, dot, column = name.rpartition(".")
    if not dot:
        known = [f"{n}.{c}" for n, t in recording.tracks.items() for c in t.signals.columns]
        raise UnknownName("signal", name, known, recording.source)
    return recording.track(track), column
