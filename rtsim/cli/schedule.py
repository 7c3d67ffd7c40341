"""``rtsim schedule``: tasks of processors and chains, by analysis and by simulation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.options import option, parse_settings, scenario_names
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S

if TYPE_CHECKING:
    from rtsim.runs.result import RunResult
    from rtsim.scenario.scenario import Scenario
    from rtsim.schedules.chains import ChainRow
    from rtsim.schedules.messages import MessageRow
    from rtsim.schedules.table import ScheduleTable, TaskRow

_COLUMNS = (
    Column("task"), Column("period (ms)", number=True), Column("execution (ms)", number=True),
    Column("deadline (ms)", number=True), Column("load (%)", number=True),
    Column("worst response (ms)", number=True), Column("simulated (ms)", number=True),
    Column("deadline met", fold=True),
)  # fmt: skip
_CHAINS = (
    Column("chain"), Column("bound (ms)", number=True), Column("simulated age (ms)", number=True),
    Column("simulated reaction (ms)", number=True),
    Column("period + response + transport", fold=True),
)  # fmt: skip


_MESSAGES = (
    Column("message"), Column("medium"), Column("frame"), Column("period (ms)", number=True),
    Column("load (%)", number=True), Column("worst latency (ms)", number=True),
    Column("simulated (ms)", number=True), Column("reason", fold=True),
)  # fmt: skip


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@option("--set")
@option("--until")
@option("--seed")
@click.option(
    "--run", "recording", type=click.Path(path_type=Path), metavar="RUN",
    help="Recording of the scenario whose jobs are compared, instead of a new run.",
)  # fmt: skip
@click.option("--no-run", is_flag=True, help="Print only the analysis, without a run.")
@json_option
@reports_errors
def schedule(
    scenario: str,
    settings: tuple[str, ...],
    until: str | None,
    seed: int | None,
    recording: Path | None,
    no_run: bool,
    as_json: bool,
) -> None:
    """Print worst times of SCENARIO: tasks on processors, messages on buses, and chains.

    The worst response of a task and the worst latency of a message are computed by analysis, for
    all possible release times. If an assumption of the analysis does not hold, the command prints
    the reason instead. The simulated times are the longest ones of a run. For each declared chain,
    the command prints a bound of its data age and its reaction time.

    \b
    Examples:
      rtsim schedule servos.py
      rtsim schedule servos.py --set policy=edf --json
      rtsim schedule servos.py --run runs/servos-001.mcap

    Exit status: 0 if each task meets its deadlines, 1 if a task missed a deadline in the run, or
    if its worst response by analysis exceeds its deadline, 2 if a task cannot be analysed.
    """
    from rtsim.scenario.loading import load_scenario
    from rtsim.schedules.table import schedule_table

    if no_run and recording is not None:
        raise ScenarioError("--no-run prints only the analysis; leave out --run or --no-run")
    loaded = load_scenario(scenario, parse_settings(settings))
    table = schedule_table(loaded, recording, until=until, seed=seed or 0, simulated=not no_run)
    status = table.outcome.value
    if as_json:
        show_result(table.to_json(), status, table.why)
    else:
        _print(table)
        if status:
            click.echo(f"{table.outcome.name}: {table.why}")
    if status:
        raise SystemExit(status)


def _print(table: ScheduleTable) -> None:
    out = console()
    for processor in table.processors:
        rows = [_cells(row) for row in processor.rows]
        print_table(out, f"Processor {processor.name}, policy {processor.policy}", _COLUMNS, rows)
        for line in processor.lines():
            click.echo(line)
    if table.messages:
        print_table(out, "Messages", _MESSAGES, [_message_cells(one) for one in table.messages])
    if table.chains:
        print_table(out, "Chains", _CHAINS, [_chain_cells(row) for row in table.chains])
    click.echo(f"simulated: {table.source}")


def _message_cells(row: MessageRow) -> list[str]:
    return [
        row.sender, row.medium, row.frame, _ms(row.period), f"{100 * row.load:.1f}",
        "-" if row.worst is None else _ms(row.worst),
        "-" if row.longest is None else _ms(row.longest), row.reason or "-",
    ]  # fmt: skip


def _chain_cells(row: ChainRow) -> list[str]:
    ns, ages = row.bound.ns, row.ages
    worst = (None, None) if ages is None else (ages.worst_age, ages.worst_reaction)
    terms = "; ".join(f"{one.stage} {' + '.join(map(_ms, one[1:]))}" for one in row.bound.terms)
    return [
        row.bound.chain.name,
        "-" if ns is None else _ms(ns),
        *("-" if one is None else _ms(one.ns) for one in worst),
        terms or f"no bound: {row.bound.reason}",
    ]


def _cells(row: TaskRow) -> list[str]:
    one, execution = row.analysis, row.analysis.execution
    longest = "no limit" if execution.longest is None else _ms(execution.longest)
    same = execution.longest == execution.shortest
    return [
        one.name,
        "-" if one.period is None else _ms(one.period),
        longest if same else f"{_ms(execution.shortest)} to {longest}",
        _ms(one.deadline),
        "-" if one.load is None else f"{100 * one.load:.1f}",
        "-" if one.response is None else _ms(one.response),
        "-" if row.longest is None else _ms(row.longest),
        row.deadline_met,
    ]


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.6g}"


# Processors in the summary of a run


def note_overloads(scenario: Scenario) -> None:
    """Print a note on stderr for each processor whose load exceeds 1, before the run starts."""
    if not any(component.kind == "processor" for component in scenario.components.values()):
        return
    from rtsim.schedules.table import overloads

    for line in overloads(scenario):
        click.secho(f"note: {line}", err=True, fg="yellow")


def print_processors(result: RunResult) -> None:
    """Print how many jobs of each processor ended, and which tasks missed deadlines."""
    for name, counts in _counts(result):
        ended = sum(one.finished for one in counts.values())
        missed = {task: one.missed for task, one in counts.items() if one.missed}
        said = ", ".join(f"{task} {count}" for task, count in missed.items())
        click.echo(
            f"processor {name}: {ended} jobs ended, missed deadlines {sum(missed.values())}"
            + (f" ({said})" if said else "")
        )


def processors_to_json(result: RunResult) -> dict[str, Any]:
    """Return the counts of jobs by processor and task, if the run has processors."""
    found = {
        name: {
            task: {
                "finished": one.finished, "missed": one.missed, "skipped": one.skipped,
                "aborted": one.aborted, "longest_response_s": one.longest_ns / NS_PER_S,
            }
            for task, one in counts.items()
        }
        for name, counts in _counts(result)
    }  # fmt: skip
    return {"processors": found} if found else {}


def _counts(result: RunResult) -> Iterable[tuple[str, dict[str, Any]]]:
    return [(one.name, one.counts) for one in result.system.processors]
