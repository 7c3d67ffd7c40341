"""Run a scenario for a command, and print a summary of the run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from rtsim.cli.check import (
    print_requirements,
    requirement_suite,
    requirements_to_json,
    status_of,
    why_of,
)
from rtsim.cli.common import FAILED, INTERRUPTED, NO, explain, show_result, sigterm_interrupts
from rtsim.cli.options import parse_settings
from rtsim.cli.run_options import GoingOn, RunOptions, Wanted, in_a_file
from rtsim.cli.schedule import print_processors, processors_to_json
from rtsim.cli.telemetry import page_to_json, telemetry_line, telemetry_to_json
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.clock import age_ns, stopwatch
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.executive import StatePublisher
from rtsim.engine.faults.schedule import Schedule
from rtsim.engine.system import System
from rtsim.equations.compiling import CHECKED, announced
from rtsim.gateway.pipe import page_line
from rtsim.record.events import Event, notes
from rtsim.record.file import FileRecorder
from rtsim.record.output_files import PathTaken, write_whole
from rtsim.record.recorders import Recorder
from rtsim.record.writer_process import WRITER
from rtsim.runs.progress import ProgressLine
from rtsim.runs.request import Connections, Output, RunRequest, compilation_of
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import run
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from rtsim.requirements.verdict import RequirementResult

# After going back to a checkpoint, a run continues in a new recording, as a new segment.


def run_segments(request: RunRequest, wanted: Wanted, stack: ExitStack) -> RunResult:
    """Run all segments of a run, and return the result of the whole run.

    The recorder in ``request`` records the first segment; each later segment has a recording of its
    own. Later recorders are entered into ``stack``. A new segment begins with the speed that the
    previous segment had at its end. Raises the error that ends the run. A failed recording does not
    raise an error.
    """
    past = wanted.past(request.start)
    recorder = request.output.recorder
    earlier: tuple[RunResult, ...] = ()
    while True:
        path = _path(recorder)
        if request.start is not None:
            request = replace(request, start=in_a_file(request.start, path))
        taking = wanted.taking(path, past, request.start)
        result = replace(run(request.into(recorder, taking)), earlier=earlier)
        if result.error is not None:
            if path is not None and path.is_file():
                result.error.add_note(f"recording up to the error: {path}")
            raise result.error
        restored = result.restored
        if restored is None:
            return result
        inbox = request.live.inbox
        assert inbox is not None
        try:
            first = result.segments[0].path
            if first is not None:
                assert isinstance(recorder, FileRecorder)
                recorder = stack.enter_context(next_recorder(first, recorder.writer))
                inbox.goes_on(recording=str(recorder.path))
        except BaseException as error:
            inbox.close(f"the run could not continue from {restored.tag}: {error}")
            raise
        earlier = result.segments
        pace = replace(request.pace, rate=result.rate)
        request = replace(request, start=restored, pace=pace)


def _path(recorder: Recorder | None) -> Path | None:
    return recorder.path if isinstance(recorder, FileRecorder) else None


def open_recorder(
    path: Path | None, name: str, overwrite: bool = False, writer: str = WRITER
) -> FileRecorder:
    """Return a recorder for ``path``, by default the first unused ``runs/name-001.mcap``.

    ``writer`` is the module of the process that writes the file. Raises :class:`ScenarioError` if
    the folder cannot be created.
    """
    if path is not None:
        return FileRecorder(path, stopwatch, overwrite=overwrite, writer=writer)
    folder = Path("runs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"cannot make the folder {folder}: {error}; give -o PATH") from error
    return _first_free(folder, lambda number: f"{name}-{number:03d}.mcap", 1, writer)


def load_run(
    scenario: str,
    settings: tuple[str, ...],
    example: Path | None,
    seed: int | None,
    faults: Sequence[Path] = (),
) -> tuple[Scenario, int]:
    """Load the scenario of a run.

    Args:
        scenario: Name of the scenario, or ``FILE.py[:FUNCTION]``.
        settings: Texts ``NAME=VALUE`` of ``--set``.
        example: Counterexample file of the run, or None.
        seed: Number of ``--seed``, or None.
        faults: Fault files of ``--faults``.

    Returns:
        The scenario and its seed.
    """
    if example is None:
        made = load_scenario(scenario, parse_settings(settings), lambda new: new.faults(*faults))
        return made, seed or 0
    from rtsim.studies.counterexample import Counterexample  # slow to load

    found = Counterexample.open(example)
    made = found.make(scenario, parse_settings(settings), faults)
    return made, found.seed if seed is None else seed


def next_recorder(first: Path, writer: str) -> FileRecorder:
    """Return a recorder for the next segment of a run, with a file name such as ``run.2.mcap``."""
    name = f"{first.stem}.{{}}{first.suffix}"
    return _first_free(first.parent, name.format, 2, writer)


def _first_free(folder: Path, name: Callable[[int], str], least: int, writer: str) -> FileRecorder:
    for number in count(least):
        path = folder / name(number)
        with suppress(PathTaken):  # another run that began at the same time has taken it
            if not path.exists():
                return FileRecorder(path, stopwatch, writer=writer)
    raise AssertionError(
        f"{folder} has a recording for every number, so no name is free for a new recording; "
        "remove old recordings, or give -o PATH"
    )


WATCHING = "rtsim.requirements.watching"
"""The writing process that also evaluates the requirements during the run."""
Prepare = Callable[[Scenario], None]
"""Function that changes the scenario before the recording starts."""
Watch = Callable[[Scenario, Inbox | None], AbstractContextManager[tuple[StatePublisher, Inbox]]]
"""Function that opens the display of a run from the scenario and the gateway's inbox."""


def run_command(
    options: RunOptions,
    quiet: bool,
    prepare: Prepare | None = None,
    going_on: GoingOn | None = None,
    watch: Watch | None = None,
) -> RunSummary:
    """Load and run a scenario, record the run, and return its summary.

    Args:
        quiet: True to print no progress.
        prepare: Function that changes the scenario before the recording starts.
        going_on: Checkpoint to continue from. The scenario and the seed of a checkpoint take
            precedence over the options. If the options contain no end time, a continued run ends at
            the end time of the saved run.
        watch: Function that opens a display, and returns a publisher of states for the display and
            an inbox that replaces the gateway's inbox.
    """
    if going_on is not None:
        options = _continuing(options, going_on)
    options.check()
    line = ProgressLine(options.scenario, sys.stderr.isatty() and not quiet, noted=not quiet)
    with sigterm_interrupts(), closing(line), announced(line.compiling), ExitStack() as stack:
        try:
            if going_on is None:
                scenario, seed = load_run(
                    options.scenario, options.settings, options.counterexample, options.seed,
                    options.faults,
                )  # fmt: skip
            else:
                scenario, seed = going_on.scenario, going_on.number("seed")
            scenario.require_all(*options.requirements)
            if (options.requirements or options.counterexample) and options.no_record:
                raise ScenarioError(
                    "requirements are checked on the recording; leave out --no-record"
                )
            if options.stop_on_violation and not scenario.requirements:
                raise ScenarioError(
                    f"--stop-on-violation needs a requirement, but {options.scenario} declares "
                    "none; add --require 'NAME: FORMULA'"
                )
            if prepare is not None:
                prepare(scenario)
            recorder = None
            if not options.no_record:
                name = Path(options.scenario.partition(".py")[0]).stem
                writer = WRITER
                if scenario.requirements and (options.paced or options.stop_on_violation):
                    writer = WATCHING
                recorder = stack.enter_context(
                    open_recorder(options.path, name, options.force, writer)
                )
            path = None if recorder is None else recorder.path
            gate = inbox = stack.enter_context(options.gateway(scenario, path))
            publisher: StatePublisher | None = None
            wanted = options.wanted()
            if watch is not None:
                publisher, inbox = stack.enter_context(watch(scenario, inbox))
                wanted = replace(wanted, on_command=True, viewed=True)
            request = RunRequest(
                scenario,
                seed,
                options.pacing(),
                options.until,
                options.compilation,
                start=None if going_on is None else going_on.checkpoint,
                output=Output(
                    recorder,
                    on_recorder_death=options.on_recorder_death,
                    stop_on_violation=options.stop_on_violation,
                ),
                live=Connections(publisher, line.show, inbox, tell=line.tell),
                engine=options.engine,
            )
            result = run_segments(request, wanted, stack)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(line.when_interrupted) from interrupt
    return RunSummary(options, result, gate)


def _continuing(options: RunOptions, going_on: GoingOn) -> RunOptions:
    compile = compilation_of(going_on.checkpoint.header)
    return replace(
        options,
        scenario=going_on.reference,
        plain=not compile,
        checked=compile == CHECKED,
        until=going_on.until(options.until),
    )


# ``--strict``

_NO_TIMING = (
    "note: --strict checked no timing: at --pace max no step waits for a clock, so nothing can be "
    "late or overrun; give --pace 1.0 to check timing"
)


def print_strict(results: Iterable[RunResult]) -> None:
    """Print a note if a part of the run did not keep up with the wall clock."""
    if not all(result.certificate.paced for result in results):
        click.echo(_NO_TIMING)


def strict_to_json(result: RunResult) -> dict[str, Any]:
    return {"strict": {"timing_measured": result.certificate.paced}}


# Events with values that guards reported, such as a touchdown

MOST_LINES = 20
"""Largest number of events in the summary. The recording contains all of them."""


def print_reported(result: RunResult) -> None:
    for event in result.reported[:MOST_LINES]:
        values = ", ".join(
            f"{name} {value:.4g}{_unit(result, event, name)}"
            for name, value in event.values.items()
        )
        click.echo(f"{event.source} at {event.tag.seconds:.3f} s: {values}")
    more = len(result.reported) - MOST_LINES
    if more > 0:
        click.echo(f"{more} more such events are in the recording")


def print_media(result: RunResult) -> None:
    """Print the messages that media lost, and those that still waited at the end of the run."""
    for medium, reasons in result.lost_messages.items():
        for reason, senders in reasons.items():
            count = sum(senders.values())
            what = "1 message was lost" if count == 1 else f"{count} messages were lost"
            click.echo(f"{medium}: {what} because {reason}: {_each(senders)}")
    for medium, senders in result.waiting.items():
        count = sum(senders.values())
        behind = max(senders.values()) > 1
        what = "1 message waited" if count == 1 else f"{count} messages waited"
        click.echo(
            f"{medium}: {what} at the end of the run and cannot be recorded: {_each(senders)}"
            + ("; rtsim bus load SCENARIO prints the load of each medium" if behind else "")
        )


def _each(senders: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in senders.items())


def reported_to_json(result: RunResult) -> list[dict[str, Any]]:
    return [
        {"guard": event.source, "at_s": event.tag.seconds, "values": dict(event.values)}
        for event in result.reported
    ]


def _unit(result: RunResult, event: Event, name: str) -> str:
    plant = event.source.partition(".")[0]
    for one in result.system.plants:
        if one.name == plant:
            return f" {one.bound.model.discrete[name].unit}".rstrip()
    return ""


COLUMNS = (
    Column("fault"),
    Column("kind"),
    Column("where", drop=1),
    Column("activations", number=True),
)


def note_lines(scenario: Scenario) -> None:
    """Print a note if a scenario without a board declares faults on the line to a board."""
    names = [f.name for f in scenario.declared_faults if f.kind.level == "line"]
    if names:
        text = (
            "note: these faults act only on the line to a board, and no board is used here: "
            + ", ".join(names)
        )
        click.secho(text, err=True, fg="yellow")


def faults_to_json(schedule: Schedule | None) -> dict[str, Any]:
    if schedule is None:
        return {}
    counts = schedule.counts
    return {
        "faults": {
            f.name: {
                "kind": f.kind.name,
                "where": f.where,
                "activations": counts[f.name],
                "idle": schedule.idle.get(f.name),
            }
            for f in schedule.faults
        }
    }


def print_faults(schedule: Schedule | None) -> None:
    """Print a table of the faults and their activations."""
    if schedule is None:
        return
    counts = schedule.counts
    rows = [[f.name, f.kind.name, f.where, str(counts[f.name])] for f in schedule.faults]
    out = console()
    print_table(out, "Faults", COLUMNS, rows)
    for note in notes(schedule.idle, [name for name, many in counts.items() if not many]):
        out.print(note, style="yellow", highlight=False, soft_wrap=True, markup=False)


class RequestedRun(Protocol):
    """Arguments of a command that :class:`RunSummary` uses."""

    @property
    def scenario(self) -> str: ...

    @property
    def until(self) -> str | None: ...

    @property
    def strict(self) -> bool: ...

    @property
    def verbose(self) -> bool: ...


@dataclass(frozen=True)
class RunSummary:
    """The result of a run as text, as plain data and as an exit status."""

    options: RequestedRun
    result: RunResult
    inbox: Inbox | None = None
    total_ns: int = field(default_factory=age_ns)
    """Wall-clock time from the start of the command to the end of the run, ns."""
    doubts: tuple[str, ...] = ()
    """Warnings of the command itself. With ``--strict`` they fail like warnings of the run."""

    def show_json(self, **more: object) -> None:
        """Print the summary and the additional entries ``more`` as JSON."""
        show_result({**self.to_json(), **more}, self.status, self.why)

    def to_json(self) -> dict[str, Any]:
        out = self._summary(self.result)
        if self.result.earlier:
            out["earlier"] = [self._summary(segment) for segment in self.result.earlier]
        if self.lost is not None:
            out["error"] = {"type": "RecordingLost", "message": explain(self.lost)}
        told = {**telemetry_to_json(self.inbox), **page_to_json(self.inbox)}
        return out | {"total_s": self.total_ns / NS_PER_S} | told

    def _summary(self, result: RunResult) -> dict[str, Any]:
        saved = [str(path) for path in result.checkpoints]
        return {
            "scenario": self.options.scenario,
            "reason": result.reason,
            "simulated_s": result.ended.seconds,
            "wall_s": result.wall_ns / NS_PER_S,
            "times_real_time": result.speed,
            "overruns": result.overruns,
            "late": result.late,
            "missed": result.missed,
            **processors_to_json(result),
            **faults_to_json(result.system.faults),
            **requirements_to_json(result.requirements),
            "recording": None if result.path is None else str(result.path),
            **({"waiting": result.waiting} if result.waiting else {}),
            **({"lost_messages": result.lost_messages} if result.lost_messages else {}),
            **({"reported": reported_to_json(result)} if result.reported else {}),
            **({"checkpoints": saved} if saved else {}),
            **(strict_to_json(result) if self.options.strict else {}),
            "certificate": result.certificate.to_json(),
        }

    def _headline(self, result: RunResult, total: str = "") -> str:
        paced = result.certificate.paced
        simulated = (result.ended.ns - result.began.ns) / NS_PER_S
        back = result.restored
        return (
            f"{self.options.scenario}: {simulated:g} s in "
            f"{result.wall_ns / NS_PER_S:.3g} s ({result.speed:.4g} times real time)"
            f"{total}; "
            + (f"overruns {result.overruns}, " if paced else "")
            + f"late answers {result.late}, missed requests {result.missed}"
            + self._reason_for_early_end(result)
            + ("" if back is None else f"; went back to {back.tag.seconds:g} s")
        )

    def print(self, more: Callable[[], None] | None = None) -> None:
        """Print the summary as text; ``more`` prints additional lines before the list of files."""
        result = self.result
        for segment in result.earlier:
            click.echo(self._headline(segment))
            _print_files(segment)
        click.echo(self._headline(result, f", {self.total_ns / NS_PER_S:.2f} s with start-up"))
        if result.certificate.paced:
            console().print(result.certificate.table())
        elif self.options.verbose:
            click.echo(f"engine: {result.certificate.engine}")
        print_reported(result)
        print_media(result)
        print_processors(result)
        if more is not None:
            more()
        if self.options.strict:
            print_strict(result.segments)
        print_faults(result.system.faults)
        for note in dict.fromkeys(n for one in result.segments for n in one.notes_of_controllers()):
            click.echo(f"note: {note}")
        print_requirements(result.requirements)
        if self.inbox is not None and self.inbox.trouble:
            click.echo(f"remote control was lost during the run: {self.inbox.trouble}")
        if viewed := telemetry_to_json(self.inbox):
            click.echo(telemetry_line(viewed["telemetry"], viewed["looks_lost"]))
        if page := page_to_json(self.inbox):
            click.echo(page_line(page["web"]))
        _print_files(result)
        if result.path is not None:
            typed = f'"{result.path}"' if " " in str(result.path) else result.path
            click.echo(f"next: rtsim report {typed}")

    @property
    def lost(self) -> RecordingError | None:
        """The error of the first incomplete recording, or ``None``."""
        return next((one.lost for one in self.result.segments if one.lost is not None), None)

    def _reason_for_early_end(self, result: RunResult) -> str:
        if result.reason == "interrupted":
            return ", interrupted"
        if result.reason == "quit":
            asked = f" of {self.options.until} s" if self.options.until is not None else ""
            return f", ended by the command quit at {result.ended.seconds:g} s{asked}"
        return f"; the run {result.ending}" if result.ending.failed else ""

    @property
    def _cut_short(self) -> bool:
        reason = self.result.reason
        return reason == "interrupted" or (reason == "quit" and self.options.until is not None)

    @property
    def status(self) -> int:
        if self.lost is not None:
            return FAILED
        if self._cut_short:
            return INTERRUPTED
        return (
            NO
            if self._warnings_refused_by_strict or self._guard_failed
            else status_of(self._requirements)
        )

    @property
    def why(self) -> str:
        """Why the exit status is not 0. Empty if it is 0."""
        if self.lost is not None:
            return explain(self.lost)
        if self._cut_short:
            return f"the run {self.result.ending}"
        failed = [f"the run {self.result.ending}"] if self._guard_failed else []
        return "; ".join(
            filter(None, [*failed, *self._warnings_refused_by_strict, why_of(self._requirements)])
        )

    @property
    def _requirements(self) -> list[RequirementResult]:
        return self.result.requirements

    @property
    def _guard_failed(self) -> bool:
        return self.result.ending.failed and self.result.error is None

    @property
    def _warnings_refused_by_strict(self) -> list[str]:
        found = [text for one in self.result.segments for text in one.warnings]
        return list(dict.fromkeys([*found, *self.doubts])) if self.options.strict else []

    def write_junit(self, path: Path | None) -> None:
        """Write the result and the requirements of the run to a JUnit file."""
        if path is None:
            return
        from rtsim.record.reports.junit import Suite, finished, new_document

        name = self.options.scenario
        root = new_document(f"run: {name}")
        suite = Suite(root, f"run: {name}", {})
        end = suite.case(f"{name}.run", "(the run reaches its end)")
        if self.lost is not None:
            suite.error(end, explain(self.lost))
        elif self._cut_short:
            suite.error(end, f"the run {self.result.ending}")
        elif self._guard_failed:
            text = f"the run {self.result.ending}"
            suite.failure(end, text, text)
        if self.options.strict:
            strict = suite.case(f"{name}.run", "(--strict)")
            if self._warnings_refused_by_strict:
                suite.failure(
                    strict,
                    "; ".join(self._warnings_refused_by_strict),
                    "\n".join(self._warnings_refused_by_strict),
                )
        suite.done()
        if self._requirements:
            of_run = f"{name}.requirements"
            requirement_suite(root, f"run: {name}: requirements", of_run, self._requirements)
        write_whole(path, finished(root))

    def exit(self) -> None:
        """Exit the process with the run's exit status if the status is not 0."""
        if self.lost is not None:
            click.secho(f"Error: {explain(self.lost)}", err=True, fg="red")
        if self._warnings_refused_by_strict:
            click.secho(
                f"Error: --strict: {'; '.join(self._warnings_refused_by_strict)}",
                err=True,
                fg="red",
            )
        if open_or_violated := why_of(self._requirements):
            click.secho(f"Error: {open_or_violated}", err=True, fg="red")
        if self.status:
            sys.exit(self.status)


def _print_files(result: RunResult) -> None:
    if result.path is None:
        return
    click.echo(f"recording: {result.path}")
    if result.checkpoints:
        many, last = len(result.checkpoints), result.checkpoints[-1]
        click.echo(f"checkpoints: {many}, the last in {last}")


def outputs_at_end(system: System) -> dict[str, dict[str, Any]]:
    """Return the final output values of discrete-event components, by component and name."""
    out: dict[str, dict[str, Any]] = {}
    for task in system.tasks:
        port = system.ports.get(task.name)
        if not hasattr(task, "hear") or port is None or not len(port.signals):
            continue  # a controller receives no messages
        values = {s.name: port.value[port.signals.slice(s.name)].tolist() for s in port.signals}
        out[task.name] = {
            s.name: values[s.name] if s.shape else values[s.name][0] for s in port.signals
        }
    return out


def print_outputs(system: System) -> None:
    rows = [
        (part, name, " ".join(f"{v:g}" for v in (value if isinstance(value, list) else [value])))
        for part, outputs in outputs_at_end(system).items()
        for name, value in outputs.items()
    ]
    if rows:
        columns = (Column("component"), Column("output"), Column("final value", fold=True))
        print_table(console(), "Discrete events", columns, rows)
