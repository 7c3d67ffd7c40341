"""Option and output shared by the commands that run a scenario with faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtsim.cli.tables import Column, console, print_table
from rtsim.engine.faults.schedule import Schedule
from rtsim.record.events import notes
from rtsim.scenario.scenario import Scenario

faults_option = click.option(
    "--faults",
    "faults",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Fault file to apply to the run (docs/faults.md); repeatable.",
)
COLUMNS = (
    Column("fault"),
    Column("kind"),
    Column("where", drop=1),
    Column("activations", number=True),
)


def note_lines(scenario: Scenario) -> None:
    """Print a note on stderr if the scenario has faults on a line to a board but uses no board."""
    names = [f.name for f in scenario.declared_faults if f.kind.level == "line"]
    if names:
        text = (
            "note: these faults act only on the line to a board, and no board is used here: "
            + ", ".join(names)
        )
        click.secho(text, err=True, fg="yellow")


def faults_to_json(schedule: Schedule | None) -> dict[str, Any]:
    """Return the faults of a run as plain data by name; empty for a run without faults."""
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
    """Print a table with the activations of each fault, and notes on faults that never acted."""
    if schedule is None:
        return
    counts = schedule.counts
    rows = [[f.name, f.kind.name, f.where, str(counts[f.name])] for f in schedule.faults]
    out = console()
    print_table(out, "Faults", COLUMNS, rows)
    for note in notes(schedule.idle, [name for name, count in counts.items() if not count]):
        out.print(note, style="yellow", highlight=False, soft_wrap=True, markup=False)
