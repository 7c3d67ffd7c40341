"""Tasks of the processors of a scenario: response times by analysis beside those of a run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.components.controller import FedController
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import TaskTiming
from rtsim.core.errors import DeadlineError, RecordingError, RtsimError, ScenarioError, UnknownName
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import NS_PER_S, Duration
from rtsim.record.ages import ages
from rtsim.record.jobs import JOBS, MISSED
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.processor_components import ProcessorComponent, TaskComponent, TaskOptions
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent
from rtsim.schedules.chains import ChainRow, chain_bound
from rtsim.schedules.messages import OVERLOADED, MessageRow, loads_of, message_rows
from rtsim.schedules.response_times import TaskAnalysis, analyse, load_of


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
    def deadline_met(self) -> str:
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
            "verdict": self.deadline_met,
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
class ScheduleTable(Judged):
    """The tasks of all processors of a scenario."""

    processors: tuple[ProcessorTable, ...]
    source: str
    """Where the simulated responses come from."""
    messages: tuple[MessageRow, ...] = ()
    """Messages on media."""
    chains: tuple[ChainRow, ...] = ()
    """The declared chains."""
    stopped: str = ""
    """Why a missed deadline or an overload ended the run early; empty otherwise."""

    @property
    def misses(self) -> list[str]:
        """Names of the tasks that missed a deadline."""
        return [row.analysis.name for one in self.processors for row in one.rows if row.missed]

    @property
    def late(self) -> list[str]:
        """Names of the tasks whose worst response by analysis exceeds the deadline."""
        return [row.analysis.name for one in self.processors for row in one.rows if row.late]

    @property
    def undecided(self) -> list[str]:
        """Names of the tasks without an analysis that missed no deadline in the run."""
        rows = [row for one in self.processors for row in one.rows]
        return [r.analysis.name for r in rows if r.analysis.response is None and not r.missed]

    @property
    def overloaded(self) -> list[str]:
        """Names of the media that cannot carry the load of their messages."""
        return sorted({row.medium for row in self.messages if row.reason == OVERLOADED})

    def _judge(self) -> Outcome:
        """Return whether all tasks meet their deadlines, and all media carry their loads."""
        if self.stopped or self.misses or self.late or self.overloaded:
            return Outcome.FAILED
        return Outcome.UNDECIDED if self.undecided else Outcome.PASSED

    @property
    def in_words(self) -> str:
        return self.why or "all tasks meet their deadlines"

    @property
    def why(self) -> str:
        """Which tasks miss deadlines, can miss them, or are not analysed; empty if none do."""
        found = [f"{', '.join(self.misses)} missed deadlines"] if self.misses else []
        late = [name for name in self.late if name not in self.misses]
        found += [f"{', '.join(late)} can miss deadlines"] if late else []
        found += [f"{', '.join(self.overloaded)} overloaded"] if self.overloaded else []
        found += [self.stopped] if self.stopped else []
        found += [f"{', '.join(self.undecided)} not analysed"] if self.undecided else []
        return "; ".join(found)

    def to_json(self) -> dict[str, Any]:
        return {
            "processors": [one.to_json() for one in self.processors],
            "messages": [one.to_json() for one in self.messages],
            "chains": [one.to_json() for one in self.chains],
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
    """Return the tasks on processors, the messages on media, and the chains of ``scenario``.

    Args:
        scenario: A scenario with at least one processor or chain.
        recording: Recording of the scenario. Without it, the scenario is run once.
        until: End of the new run, s.
        seed: Seed of the new run.
        simulated: False to analyse without a run.

    Raises:
        ScenarioError: The scenario has neither a processor nor a chain.
        RecordingError: The recording has no jobs of a task.
    """
    processors = processors_of(scenario, seed)
    if not processors and not loads_of(scenario)[0] and not scenario.chains:
        raise ScenarioError(
            f"scenario {scenario.name} has no processor and no bus, and declares no chain; declare "
            "a processor with scenario.processor(...), or a chain with scenario.chain(...)"
        )
    read: Recording | None = None
    source, stopped = "no run", ""
    if recording is not None:
        read, source = Recording.open(recording), str(recording)
        _check_same(scenario, read, source)
    elif not simulated:
        check_wired(scenario, seed)
    else:
        recorder = MemoryRecorder()
        try:
            result = simulate(scenario, recorder=recorder, until=until, seed=seed)
            source = f"a run of {result.ended.seconds:g} s, seed {seed}"
        except DeadlineError as error:
            stopped = str(error)
            source = f"a run that a missed deadline ended, seed {seed}"
        read = recorder.recording()
    tables = tuple(_table(one, read) for one in processors)
    chains = tuple(
        ChainRow(
            chain_bound(scenario, chain, processors),
            None if read is None else ages(read, chain.elements),
        )
        for chain in scenario.chains
    )
    made = ScheduleTable(tables, source, tuple(message_rows(scenario, read)), chains, stopped)
    _check_bounds(made)
    return made


def check_wired(scenario: Scenario, seed: int = 0) -> None:
    """Raise :class:`ScenarioError` if a run of ``scenario`` could not start.

    No controller in another process or on a board is started.
    """
    outside = {
        name: FedController(one.controller.inputs, one.controller.outputs, {})
        for name, one in scenario.of(ControllerComponent).items()
        if one.outside
    }
    scenario.build(seed, compile=False, controllers=outside).close()


def processors_of(scenario: Scenario, seed: int = 0) -> list[Processor]:
    """Return the processors of ``scenario``, in order of their names, without its controllers."""
    tasks: defaultdict[str, list[TaskTiming]] = defaultdict(list)
    declared: dict[str, ProcessorComponent] = {}
    for name, component in sorted(scenario.components.items()):
        options = getattr(component, "options", None)
        if isinstance(component, ProcessorComponent):
            declared[name] = component
        elif isinstance(options, TaskOptions):
            assert isinstance(component, ControllerComponent | TaskComponent)
            tasks[options.processor].append(
                options.timing(
                    name, component.period, component.offset_ns, component.priority,
                    component.execution,
                )
            )  # fmt: skip
    for processor, found in tasks.items():
        if processor not in declared:
            where = f"processor= of {found[0].name}"
            raise UnknownName("processor", processor, sorted(declared), where)
    streams = RandomStreams(seed)
    return [one.running(name, tasks[name], {}, streams)[0] for name, one in declared.items()]


def overloads(scenario: Scenario) -> list[str]:
    """Return a sentence for each core of a processor whose load exceeds 1."""
    out = []
    for one in processors_of(scenario):
        loads = tuple(load_of(one))
        lines = load_lines(one.name, loads, one.cores)
        whole = one.cores if len(loads) < one.cores else 1
        out += [
            line
            for line, load in zip(lines, loads, strict=True)
            if load is not None and load > whole
        ]
    return out


def _check_same(scenario: Scenario, read: Recording, source: str) -> None:
    """Raise :class:`RecordingError` if a task or processor of the recording differs."""
    recorded = read.header["scenario"]["parts"]
    for name, part in scenario.describe()["parts"].items():
        if part["kind"] != "processor" and "processor" not in part:
            continue
        theirs = recorded.get(name, {})
        for key, value in json.loads(json.dumps(part)).items():
            if theirs.get(key) != value:
                raise RecordingError(
                    f"{source} was recorded with {key} of {name} {theirs.get(key)!r}, but the "
                    f"scenario has {value!r}; give the same settings with --set"
                )


def _check_bounds(table: ScheduleTable) -> None:
    """Raise :class:`RtsimError` if a simulated time exceeds its bound."""
    for processor in table.processors:
        for row in processor.rows:
            bound, longest = row.analysis.response, row.longest
            if bound is not None and longest is not None and longest > bound:
                raise _exceeded(f"the response of {row.analysis.name}", longest, bound)
    for message in table.messages:
        if message.worst is not None and (message.longest or 0) > message.worst:
            raise _exceeded(f"the latency of {message.sender}", message.longest or 0, message.worst)


def _exceeded(what: str, longest: int, bound: int) -> RtsimError:
    return RtsimError(
        f"{what} is {longest} ns in the run, but its bound by analysis is {bound} ns; this is an "
        "error of rtsim, please report it with the scenario"
    )


def _table(processor: Processor, read: Recording | None) -> ProcessorTable:
    missed = {} if read is None else _missed(read)
    rows = tuple(_row(one, read, missed) for one in analyse(processor))
    loads = tuple(load_of(processor))
    return ProcessorTable(processor.name, processor.policy.name, loads, processor.cores, rows)


def _missed(read: Recording) -> Mapping[str, int]:
    out: dict[str, int] = {}
    for event in read.events:
        if event.kind == MISSED:
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
