"""``rtsim doctor``: measure the fastest loop rate that this machine can sustain."""

from __future__ import annotations

import sys

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rtsim.cli.common import FAILED, json_option, reports_errors, with_outcome
from rtsim.cli.common import _json_text as layout
from rtsim.cli.terminal import console
from rtsim.timing.doctor import examine
from rtsim.timing.scheduling import SchedulingRequest


@click.command()
@click.option("--seconds", default=8.0, show_default=True, help="Duration of the measurement, s.")
@click.option(
    "--realtime",
    is_flag=True,
    help="Measure with the scheduling options that 'rtsim run --realtime' uses.",
)
@json_option
@reports_errors
def doctor(seconds: float, realtime: bool, as_json: bool) -> None:
    """Measure the fastest loop rate that this machine can sustain.

    \b
    Examples:
      rtsim doctor
      rtsim doctor --seconds 60 --realtime

    Exit status: 0, or 2 if more measurements are needed for a result.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    # The bar is drawn only between measurements, because a refresh thread would disturb them.
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
        status = 0 if diagnosis.decided else FAILED
        click.echo(layout(with_outcome(diagnosis.to_json(), status, diagnosis.verdict)))
    else:
        console().print(diagnosis.table())
    if not diagnosis.decided:
        sys.exit(FAILED)
