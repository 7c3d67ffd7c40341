"""Tasks of the processors of a scenario: response times by analysis beside those of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.components.processor import Processor
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.tag import NS_PER_S, Duration
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.schedules.response_times import TaskAnalysis, analyse, load_of

JOBS = "jobs/"
"""Prefix of the names of tracks with the ended jobs of a task."""


@dataclass(frozen=True)
class TaskRow:
    """One task: its analysis, and its jobs in a run."""

    analysis: TaskAnalysis
    jobs: int | None
    """Number of jobs that ended in the run, or None without a run."""
    longest: int | None
    """Longest response in the run, ns, or None."""
    missed: int
    """Number of jobs in the run that missed their deadline."""

    @property
    def late(self) -> bool:
        """True if the worst response by analysis exceeds the deadline."""
        one = self.analysis
        return one.response is not None and one.response > one.deadline

    @property
    def verdict(self) -> str:
        """Whether the task meets its deadlines, with the reason if this is not known."""
        one = self.analysis
        if self.missed:
            return f"no: {self.missed} missed in the run"
        if one.response is None:
            return f"not analysed: {one.reason}"
        if self.late:
            return "not guaranteed: the worst response exceeds the deadline"
        return "yes"

    def to_json(self) -> dict[str, Any]:
        one = self.analysis
        return {
            "task": one.name,
            "period_s": _s(one.period),
            "deadline_s": _s(one.deadline),
            "execution_s": [_s(one.execution.shortest), _s(one.execution.longest)],
            "load": one.load,
            "worst_response_s": _s(one.response),
            "blocking_s": _s(one.blocking),
            "reason": one.reason,
            "jobs": self.jobs,
            "simulated_s": _s(self.longest),
            "missed": self.missed,
            "verdict": self.verdict,
        }


def _s(ns: int | None) -> float | None:
    return None if ns is None else ns / NS_PER_S


@dataclass(frozen=True)
class ProcessorTable:
    """The tasks of one processor."""

    name: str
    policy: str
    loads: tuple[float | None, ...]
    """Load of each core, or of all cores together if jobs migrate."""
    cores: int
    rows: tuple[TaskRow, ...]

    def lines(self) -> list[str]:
        """Return one line about the load of each core."""
        return load_lines(self.name, self.loads, self.cores)

    def to_json(self) -> dict[str, Any]:
        return {
            "processor": self.name,
            "policy": self.policy,
            "loads": list(self.loads),
            "tasks": [row.to_json() for row in self.rows],
        }


def load_lines(name: str, loads: tuple[float | None, ...], cores: int) -> list[str]:
    """Return one line for each core of processor ``name`` about its load."""
    out = []
    for core, load in enumerate(loads, 1):
        whole = cores if len(loads) < cores else 1
        where = name if len(loads) == 1 else f"core {core} of {name}"
        if load is None:
            out.append(f"load of {where}: no limit is known")
        else:
            over = f", which exceeds {whole}" if load > whole else ""
            out.append(f"load of {where}: {load:.3f}{over}")
    return out


@dataclass(frozen=True)
class ScheduleTable:
    """The tasks of all processors of a scenario."""

    processors: tuple[ProcessorTable, ...]
    source: str
    """Where the simulated responses come from."""

    @property
    def misses(self) -> list[str]:
        """Names of the tasks that missed a deadline."""
        return [row.analysis.name for one in self.processors for row in one.rows if row.missed]

    @property
    def late(self) -> list[str]:
        """Names of the tasks whose worst response by analysis exceeds the deadline."""
        return [row.analysis.name for one in self.processors for row in one.rows if row.late]

    @property
    def why(self) -> str:
        """Which tasks missed or can miss deadlines; empty if there are none."""
        found = [f"{', '.join(self.misses)} missed deadlines"] if self.misses else []
        late = [name for name in self.late if name not in self.misses]
        found += [f"{', '.join(late)} can miss deadlines"] if late else []
        return "; ".join(found)

    def to_json(self) -> dict[str, Any]:
        return {
            "processors": [one.to_json() for one in self.processors],
            "simulated": self.source,
            "missed": self.misses,
            "late": self.late,
        }


def schedule_table(
    scenario: Scenario,
    recording: Path | None = None,
    *,
    until: Duration | None = None,
    seed: int = 0,
    simulated: bool = True,
) -> ScheduleTable:
    """Return the tasks of all processors of ``scenario``.

    Args:
        scenario: A scenario with at least one processor.
        recording: Recording of the scenario. Without it, the scenario is run once.
        until: End of the new run, s.
        seed: Seed of the new run.
        simulated: False to analyse without a run.

    Raises:
        ScenarioError: The scenario has no processor.
        RecordingError: The recording has no jobs of a task.
    """
    system = scenario.build(seed)
    try:
        processors = system.processors
    finally:
        system.close()
    if not processors:
        raise ScenarioError(
            f"scenario {scenario.name} has no processor; declare one with scenario.processor(...)"
        )
    read: Recording | None = None
    source = "no run"
    if recording is not None:
        read, source = Recording.open(recording), str(recording)
    elif simulated:
        recorder = MemoryRecorder()
        result = simulate(scenario, recorder=recorder, until=until, seed=seed)
        read, source = recorder.recording(), f"a run of {result.ended.seconds:g} s, seed {seed}"
    tables = tuple(_table(one, read) for one in processors)
    return ScheduleTable(tables, source)


def _table(processor: Processor, read: Recording | None) -> ProcessorTable:
    missed = {} if read is None else _missed(read)
    rows = tuple(_row(one, read, missed) for one in analyse(processor))
    loads = tuple(load_of(processor))
    return ProcessorTable(processor.name, processor.policy.name, loads, processor.cores, rows)


def _missed(read: Recording) -> Mapping[str, int]:
    out: dict[str, int] = {}
    for event in read.events:
        if event.kind == "DeadlineMissed":
            out[event.source] = out.get(event.source, 0) + 1
    return out


def _row(one: TaskAnalysis, read: Recording | None, missed: Mapping[str, int]) -> TaskRow:
    if read is None:
        return TaskRow(one, None, None, 0)
    track = read.tracks.get(f"{JOBS}{one.name}")
    if track is None:
        raise RecordingError(
            f"the recording has no jobs of task {one.name}; give a recording of this scenario"
        )
    ended = track.integer("aborted") == 0
    responses = (track.ns - track.integer("arrival"))[ended]
    longest = int(responses.max()) if len(responses) else None
    return TaskRow(one, len(responses), longest, missed.get(one.name, 0))
