"""``rtsim experiment``: fly trials in a balanced order, ask questions, and write one table."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import INTERRUPTED, json_option, reports_errors, show_result
from rtsim.cli.fly import external_input_of, measured, print_findings
from rtsim.cli.options import option
from rtsim.cli.run_options import FOR_A_PERSON, RunOptions
from rtsim.cli.running import run_command
from rtsim.cli.terminal import Column, console, print_table
from rtsim.cli.window import HERE, Viewable, Viewed, place_options
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.engine.trace import COMMAND
from rtsim.models.piloting.experiment import (
    Answer,
    Experiment,
    ExperimentFolder,
    Question,
    Trial,
    read_experiment,
    write_table,
)
from rtsim.models.piloting.task import SCRIPT, pinned, task_named
from rtsim.pilot.processes import Window
from rtsim.pilot.views import FLYABLES, Flyable
from rtsim.record.reading import Recording
from rtsim.runs.result import RunResult
from rtsim.scenario.loading import find_maker

_path = click.Path(path_type=Path)


@click.command(cls=Viewable)
@click.argument("file", type=_path)
@click.option(
    "-o",
    "--output",
    type=_path,
    metavar="FOLDER",
    help="Folder of recordings and results.  [default: FILE without its suffix]",
)
@click.option(
    "--participant", metavar="NAME", help="Fly the remaining trials of the participant NAME."
)
@click.option(
    "--trials",
    type=click.IntRange(1),
    metavar="N",
    help="Fly at most N trials, then stop.  [default: all that are left]",
)
@option("--mapping", help="TOML file that maps axes and keys to signals, as for rtsim fly.")
@click.option(
    "--scripted",
    is_flag=True,
    help="Let the scripted pilot fly, without a window and as fast as possible.",
)
@click.option("--no-questions", is_flag=True, help="Ask no questions; the answers stay empty.")
@click.option(
    "--table",
    type=_path,
    metavar="PATH",
    help="Table to write, with one row for each finished trial (.csv or .parquet).",
)
@option("--force", help="Overwrite an existing --table.")
@json_option
@reports_errors
@partial(place_options, view=HERE)
def experiment(
    file: Path,
    output: Path | None,
    participant: str | None,
    trials: int | None,
    mapping: Path | None,
    scripted: bool,
    no_questions: bool,
    table: Path | None,
    force: bool,
    window: Window | None,
    as_json: bool,
) -> None:
    """Fly the trials of the experiment in FILE, ask the questions, and collect one table.

    Without --participant and --table, print the order of the trials and the progress. A session
    continues after the last finished trial; no recording and no result is overwritten. Type the
    answers, or pass them on standard input, one answer a line.

    \b
    Examples:
      rtsim experiment latency.toml
      rtsim experiment latency.toml --participant p1
      rtsim experiment latency.toml --table latency.parquet

    Exit status: 0 for success; 2 for an error; 130 if a trial was ended early or interrupted.
    """  # fmt: skip
    declared = read_experiment(file)
    if table is not None and table.exists() and not force:
        raise RecordingError(f"{table} exists; give another --table PATH, or --force")
    folder = ExperimentFolder.open(output or file.with_suffix(""), declared)
    told: dict[str, Any] = {"folder": str(folder.path)}
    cut = False
    if participant is not None:
        ask = _no_answers if no_questions else _answers
        runner = TrialRunner(
            folder, replace(window or Window(), mapping=mapping), scripted, as_json
        )
        told["flown"], cut = _session(runner, participant, trials, ask)
    if table is not None:
        written = write_table(folder, table)
        told["table"] = str(table)
        if not as_json:
            click.echo(f"table: {table}: {len(written)} trials, {len(written.columns)} columns")
    told["progress"] = _progress(folder)
    if as_json:
        show_result(told, INTERRUPTED if cut else 0, "a trial was ended early" if cut else None)
    elif participant is None and table is None:
        _print_plan(folder)
    if cut:
        sys.exit(INTERRUPTED)


class TrialRunner:
    """Run the trials of one session with a person at a window, or with a scripted pilot."""

    def __init__(
        self, folder: ExperimentFolder, window: Window, scripted: bool, quiet: bool
    ) -> None:
        self.folder, self.window = folder, window
        self.scripted, self.quiet = scripted, quiet
        declared = folder.experiment
        self.flyable = FLYABLES.get(declared.scenario, Flyable(declared.scenario))
        self.known = inspect.signature(find_maker(self.flyable.scenario)).parameters
        if scripted and "by" not in self.known:
            raise ScenarioError(
                f"scenario {declared.scenario} has no argument by, so no scripted pilot can fly "
                "it; leave --scripted out"
            )

    def settings(self, trial: Trial) -> tuple[str, ...]:
        declared = self.folder.experiment
        values: dict[str, object] = {**declared.settings, **trial.condition}
        task = declared.task or str(values.pop("task", "")) or self.flyable.task
        if task:
            values["task"] = pinned(task)
        elif "task" in self.known:
            task = str(self.known["task"].default)
        if self.scripted:
            values["by"] = SCRIPT
        phases = bool(task) and hasattr(task_named(task), "realisation")
        if phases and "realisation" in self.known:
            values.setdefault("realisation", trial.block)
        return tuple(f"{name}={value}" for name, value in values.items())

    def fly(self, trial: Trial) -> tuple[RunResult, Path]:
        """Fly ``trial`` once and record it into a new file."""
        path = self.folder.new_recording(trial)
        options = RunOptions(
            self.flyable.scenario,
            seed=trial.seed,
            settings=self.settings(trial),
            until=self.folder.experiment.until,
            path=path,
        )
        if self.scripted:
            return run_command(options, quiet=self.quiet).result, path
        options = replace(options, pace="1.0", overrun=FOR_A_PERSON, watched=True)
        viewed = Viewed(self.window, external_input_of)
        return run_command(options, quiet=self.quiet, watch=viewed.watch).result, path


Ask = Callable[[tuple[Question, ...]], dict[str, Answer]]


def _session(
    runner: TrialRunner, participant: str, most: int | None, ask: Ask
) -> tuple[list[dict[str, Any]], bool]:
    folder = runner.folder
    left = folder.left(participant)[:most]
    _check_tasks(runner, left)
    every = len(folder.experiment.trials(participant))
    flown: list[dict[str, Any]] = []
    if not left and not runner.quiet:
        click.echo(f"{participant}: all {every} trials are done")
    for trial in left:
        if not runner.quiet:
            click.echo(f"{participant}: trial {trial.number} of {every}")
        result, path = runner.fly(trial)
        recording = result.path or path
        found, why = measured(recording)
        if found is None and not why:
            raise ScenarioError(
                f"the runs of {folder.experiment.scenario} have no task, so nothing can be "
                'measured; write, for example, task = "pitch-tracking"'
            )
        if found is None or not found.complete or result.reason != "end":
            _say_again(runner, trial, why or f"the run {result.ending}")
            return flown, True
        if not runner.quiet:
            print_findings(found)
        kept: dict[str, Any] = {
            "participant": participant, "trial": trial.number, "block": trial.block,
            "condition": dict(trial.condition), "seed": trial.seed,
            "settings": list(runner.settings(trial)),
            "simulated_s": result.ended.seconds,
            "recording": recording.relative_to(folder.path).as_posix(),
            "measures": found.to_plain()["measures"], "notes": list(found.notes),
            "marks": _marks(recording), "oscillations": list(map(dict, found.marks)),
            "answers": {q.name: None for q in folder.experiment.questions},
        }  # fmt: skip
        stopped = False
        try:
            kept["answers"] = ask(folder.experiment.questions)
        except KeyboardInterrupt:  # the flight counts, although its questions have no answers
            stopped = True
        folder.keep(trial, kept)
        flown.append(kept)
        if stopped:
            return flown, True
    return flown, False


def _check_tasks(runner: TrialRunner, trials: list[Trial]) -> None:
    flown = [entry for _, result in runner.folder.results() for entry in result.get("settings", ())]
    known = {str(e).partition("#")[0]: str(e) for e in flown if str(e).startswith("task=")}
    for trial in trials:
        for entry in runner.settings(trial):
            path = entry.partition("#")[0]
            if known.get(path, entry) != entry:
                raise ScenarioError(
                    f"{path.removeprefix('task=')} has changed since the first trials of "
                    f"{runner.folder.path}; restore the file, or give another -o FOLDER"
                )


def _say_again(runner: TrialRunner, trial: Trial, why: str) -> None:
    text = f"trial {trial.name} has no result, and will be flown again: {why}"
    click.echo(text, err=runner.quiet)


def _marks(path: Path) -> int:
    return sum(e.kind == COMMAND and e.source == "mark" for e in Recording.open(path).events)


def _answers(questions: tuple[Question, ...]) -> dict[str, Answer]:
    return {q.name: _answer(q) for q in questions}


def _answer(question: Question) -> Answer:
    while True:
        click.echo(f"{question.prompt}: ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            click.echo("no answer", err=True)
            return None
        if not sys.stdin.isatty():
            click.echo(line.rstrip("\n"), err=True)
        try:
            return question.read(line)
        except ScenarioError as error:
            click.echo(str(error), err=True)


def _no_answers(questions: tuple[Question, ...]) -> dict[str, Answer]:
    return {q.name: None for q in questions}


def _progress(folder: ExperimentFolder) -> dict[str, dict[str, int]]:
    declared: Experiment = folder.experiment
    return {
        name: {"done": len(folder.done(name)), "trials": len(declared.trials(name))}
        for name in declared.participants
    }


def _print_plan(folder: ExperimentFolder) -> None:
    declared = folder.experiment
    names = list(declared.conditions)
    rows = [
        (p, str(t.number), str(t.block), *(_shown(t.condition, n) for n in names),
         "done" if folder.result_path(t).is_file() else "")
        for p in declared.participants
        for t in declared.trials(p)
    ]  # fmt: skip
    columns = (Column("participant"), Column("trial", number=True), Column("block", number=True),
               *(Column(n, number=True) for n in names), Column(""))  # fmt: skip
    print_table(console(), "Order of the trials", columns, rows)


def _shown(condition: Mapping[str, str | float], name: str) -> str:
    value = condition[name]
    return value if isinstance(value, str) else f"{value:g}"
