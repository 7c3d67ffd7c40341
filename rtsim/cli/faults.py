"""What commands share that fly with faults: the option, and what is printed of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtsim.cli.tables import Column, console, print_table
from rtsim.engine.faults.schedule import Schedule
from rtsim.record.fault_marks import notes
from rtsim.scenario.scenario import Scenario

faults_option = click.option(
    "--faults",
    "faults",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What goes wrong on purpose: a fault file (docs/faults.md); several are added up.",
)
COLUMNS = (
    Column("fault"),
    Column("kind"),
    Column("where", drop=1),
    Column("activations", number=True),
)


def note_lines(scenario: Scenario) -> None:
    """One line on stderr for the faults of bytes, where no board flies."""
    names = [f.name for f in scenario.declared_faults if f.kind.level == "line"]
    if names:
        text = f"note: these act on the bytes of a board, and do nothing here: {', '.join(names)}"
        click.secho(text, err=True, fg="yellow")


def faults_to_json(schedule: Schedule | None) -> dict[str, Any]:
    """For a summary; nothing where there are no faults."""
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
    """How often each acted; a line for those that could not, or never came to it."""
    if schedule is None:
        return
    counts = schedule.counts
    rows = [[f.name, f.kind.name, f.where, str(counts[f.name])] for f in schedule.faults]
    out = console()
    print_table(out, "Faults", COLUMNS, rows)
    for note in notes(schedule.idle, [name for name, count in counts.items() if not count]):
        out.print(note, style="yellow", highlight=False, soft_wrap=True, markup=False)
