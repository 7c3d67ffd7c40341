"""``rtsim study run``: one run of a study again, at any pace, with a window if wanted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import FAILED, INTERRUPTED, NO, json_option, reports_errors, show_result
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.progress import ProgressLine
from rtsim.cli.run_options import FOR_A_PERSON
from rtsim.cli.trust import trust_options
from rtsim.cli.window import Viewable, Viewed, place_options, quiet_option, typed, viewer
from rtsim.cli.window_figures import told_of
from rtsim.pilot.processes import Window
from rtsim.runs.pace import Pace
from rtsim.runs.request import Connections
from rtsim.scenario.scenario import Scenario
from rtsim.studies.folder import Folder
from rtsim.studies.running import Repeated, recorded
from rtsim.timing.policy import parse_policy
from rtsim.timing.scheduling import SchedulingRequest


@click.command("run", cls=Viewable)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("number", type=int, metavar="K")
@click.option("-o", "--record", "path", type=click.Path(path_type=Path), help="Recording to write.")
@click.option("--force", is_flag=True, help="Overwrite an existing recording.")
@click.option(
    "--pace",
    default="max",
    show_default=True,
    help="Simulated seconds per second of wall-clock time (1.0 is real time), or max.",
)
@json_option
@reports_errors
@trust_options
@place_options
@quiet_option
def run_again(
    folder: Path,
    number: int,
    path: Path | None,
    force: bool,
    pace: str,
    window: Window | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run number K of the study in FOLDER again, and compare its digest with the stored one.

    --view shows the run in a window, with --pace 1 unless you give another pace. Neither changes
    the digest.

    \b
    Examples:
      rtsim study run tank-study 4711 -o run.mcap
      rtsim study run tank-study 4711 --pace 1
      rtsim study run tank-study 4711 --view

    Exit status: 0 if the digests are equal; 1 if they differ, if the run ended at a guard that
    declares a failure, or if it raised an error or has a result that is not a number; 2 if nothing
    is compared; 130 if the run was ended before its end.
    """
    viewed = viewer(window, quiet)
    line = ProgressLine(f"run {number}", sys.stderr.isatty() and not as_json)
    found = recorded(
        Folder.open(folder), number, path, pace=_pace(pace, window), overwrite=force,
        live=_shown(viewed, line),
    )  # fmt: skip
    figures = None if viewed is None else viewed.figures(found.row.reason)
    status, why = _status(found)
    if as_json:
        data = {**found.row.columns(), "stored": found.stored, "equal": found.equal}
        more = {} if figures is None else {"view": figures}
        recording = None if path is None else str(path)
        show_result({**data, "recording": recording, **more}, status, why)
    else:
        _print(found, path, why)
        for text in () if figures is None else told_of(figures):
            click.echo(text)
    sys.exit(status)


def _pace(pace: str, window: Window | None) -> Pace:
    """Return the pace as typed; with a window, time that is lost in a stall is not caught up."""
    if window is None:
        return Pace.of(pace)
    here = window.served is None
    asked = SchedulingRequest.watched() if here else SchedulingRequest()
    given = pace if typed("pace") else "1.0"
    return Pace.of(given, policy=parse_policy(FOR_A_PERSON), scheduling=asked)


def _shown(
    viewed: Viewed | None, line: ProgressLine
) -> Callable[[Scenario], AbstractContextManager[Connections]]:
    @contextmanager
    def shown(scenario: Scenario) -> Iterator[Connections]:
        with sigterm_interrupts(), closing(line):
            if viewed is None:
                yield Connections(observe=line.show)
                return
            with viewed.watch(scenario, None) as (pictures, inbox):
                yield Connections(pictures, line.show, inbox)

    return shown


def _status(found: Repeated) -> tuple[int, str | None]:
    """Return the exit status, and why it is not 0."""
    row, run = found.row, found.row.order.run
    if found.undecided:
        return (INTERRUPTED if row.reason == "quit" else FAILED), found.undecided
    if not found.equal:
        return NO, f"run {run} differs: digest {row.digest}, but stored {found.stored}"
    if not row.complete:
        return NO, f"run {run} has the state {row.state}, as in the study: {row.cause}"
    return 0, None


def _print(found: Repeated, path: Path | None, why: str | None) -> None:
    row = found.row
    values: dict[str, Any] = {**row.order.factors, **row.values}
    for name, value in values.items():
        click.echo(f"{name} = {value if isinstance(value, str) else f'{value:.6g}'}")
    if row.cause and not found.equal:
        click.echo(f"{row.state}: {row.cause}")
    if found.equal:
        click.echo(f"run {row.order.run}: the digest equals the stored one")
    if why is not None:
        click.echo(why)
    if path is not None:
        click.echo(f"recording: {path}")
