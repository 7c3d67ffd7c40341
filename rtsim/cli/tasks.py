"""``rtsim tasks`` and ``rtsim measure``: the tasks of a pilot, and how well a pilot did one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, show_json, show_result
from rtsim.cli.recordings import say_cut_off
from rtsim.cli.terminal import Column, console, print_table
from rtsim.models.piloting.findings import Findings
from rtsim.models.piloting.task import known_tasks, measure, task_named
from rtsim.record.reading import Recording


@click.command()
@json_option
@reports_errors
def tasks(as_json: bool) -> None:
    """List the tasks that a pilot can fly with 'rtsim fly SCENARIO --task NAME'.

    \b
    Examples:
      rtsim tasks
      rtsim tasks --json
    """
    rows: list[dict[str, Any]] = []
    for name, title in known_tasks().items():
        task = task_named(name)
        rows.append(
            {"name": name, "kind": task.kind, "title": title, "needs": list(task.needs),
             "seconds": task.duration}
        )  # fmt: skip
    if as_json:
        show_json(rows)
        return
    columns = (
        Column("name"), Column("kind"), Column("seconds", number=True), Column("title", fold=True),
        Column("signals that it needs", fold=True),
    )  # fmt: skip
    cells = [
        (str(r["name"]), str(r["kind"]), f"{r['seconds']:g}", str(r["title"]),
         ", ".join(r["needs"]))
        for r in rows
    ]  # fmt: skip
    print_table(console(), "Tasks", columns, cells)


@click.command("measure")
@click.argument("recording", type=click.Path(path_type=Path))
@json_option
@reports_errors
def measure_command(recording: Path, as_json: bool) -> None:
    """Print how well the pilot of RECORDING did the task: errors, crossover, phase margin, pilot.

    \b
    Examples:
      rtsim measure runs/f16-001.mcap
      rtsim measure runs/f16-001.mcap --json
    """
    recorded = Recording.open(recording)
    found = measure(recorded)
    if as_json:
        show_result({"recording": str(recording), "truncated": recorded.truncated,
                     "task": found.to_plain()})  # fmt: skip
        return
    say_cut_off(recorded)
    print_findings(found)


def print_findings(found: Findings) -> None:
    """Print the measures of a task as a table, and the remarks below it."""
    out = console()
    cells = [(row.said, row.shown, row.unit.replace("1", "", 1) if row.unit == "1" else row.unit)
             for row in found.rows]  # fmt: skip
    whole = "" if found.complete else ", incomplete"
    columns = (Column("measure", fold=True), Column("value", number=True), Column("unit"))
    print_table(out, f"Task {found.kind}{whole}", columns, cells)
    for note in found.notes:
        click.echo(note)
