"""``rtsim doctor``: what rate this machine can hold, and what would help."""

from __future__ import annotations

import sys

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rtsim.cli.common import FAILED, json_option, reports_errors
from rtsim.cli.json_text import layout
from rtsim.cli.tables import console
from rtsim.timing.doctor import examine
from rtsim.timing.scheduling import SchedulingRequest


@click.command()
@click.option("--seconds", default=8.0, show_default=True, help="How long to measure.")
@click.option("--realtime", is_flag=True, help="Measure as 'rtsim run --realtime' would run.")
@json_option
@reports_errors
def doctor(seconds: float, realtime: bool, as_json: bool) -> None:
    """Measure this machine's wake lateness and say plainly what rate it can hold.

    Exit 2 where the wakes of so short a time do not show it.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    # Drawn only between measurements: a refresh thread would disturb what is measured.
    with Progress(
        *columns, auto_refresh=False, transient=True, disable=as_json or not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("measuring", total=1.0)

        def progress(done: float, what: str) -> None:
            bar.update(task, completed=done, description=what, refresh=True)

        diagnosis = examine(
            seconds, progress, asked=SchedulingRequest.realtime() if realtime else None
        )
    if as_json:
        click.echo(layout(diagnosis.to_json()))
    else:
        console().print(diagnosis.table())
    if not diagnosis.decided:
        sys.exit(FAILED)
