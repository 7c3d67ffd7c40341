"""``rtsim view``: open another window of a run in progress, on this or another machine."""

from __future__ import annotations

import threading
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import click

from rtsim.cli.common import reports_errors
from rtsim.cli.keyboard import is_terminal
from rtsim.cli.window import is_place, quiet_option, window_options
from rtsim.core.errors import ScenarioError
from rtsim.core.net.keys import CLIENT, Keys
from rtsim.gateway.registry import VIEWED, RegisteredRun, find, runs
from rtsim.pilot.processes import Window
from rtsim.pilot.shared import Exchange, Shared
from rtsim.pilot.views import read_viewpoint
from rtsim.timing.scheduling import SchedulingRequest, request


@click.command()
@click.argument("run", required=False, default="", metavar="[RUN]")
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Client key file, needed if RUN is tcp://HOST:PORT; 'rtsim keys' writes FILE{CLIENT} "
    "with the run's keys.",
)
@click.option(
    "--mapping",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="TOML file that maps axes and keys to signals.  [default: rtsim's own mapping]",
)
@click.option(
    "--view",
    "viewpoint",
    default="",
    metavar="VIEW",
    help="front, left, right, back, up, down, chase, signals, or an angle to the right such as "
    "-35deg.  [default: the first view of the scene]",
)
@reports_errors
@window_options
@quiet_option
def view(
    run: str, keys: Path | None, mapping: Path | None, viewpoint: str, window: Window, quiet: bool
) -> None:
    """Open a window of RUN, which was started with --view or by 'rtsim fly'.

    RUN is a process number, the name of a scenario, or tcp://HOST:PORT (default: the only run).
    Only the window that was opened first controls the stick. A second window only shows the run,
    until the first window is closed.

    \b
    Examples:
      rtsim view
      rtsim view f16
      rtsim view f16 --view left --full-screen
      rtsim view tcp://192.168.1.20:5999 --keys view.keys.client
    """
    from rtsim.pilot.viewer.process import watch

    read_viewpoint(viewpoint)
    window = replace(window, mapping=mapping, quiet=quiet, view=viewpoint, beside=bool(viewpoint))
    place = (
        nullcontext() if "://" in run else request(SchedulingRequest.window())
    )  # a window on the machine of the run yields to it
    with place, closing(_exchange(run, keys)) as exchange:
        why = watch(exchange, window, threading.Event())
        click.echo(why)
        skipped = getattr(exchange, "skipped", 0)
        if skipped:
            click.echo(f"{skipped} malformed messages from the run's machine were dropped")


def _chosen() -> RegisteredRun:
    """Let the user at the terminal choose one of several runs."""
    known = runs(VIEWED)
    if not is_terminal():
        return find("", VIEWED)  # raises an error that lists the runs
    for entry in known:
        click.echo(f"{entry.pid}  {entry.scenario}")
    numbers = click.Choice([str(entry.pid) for entry in known])
    return find(click.prompt("which one?", type=numbers, show_choices=False), VIEWED)


def _exchange(run: str, keys: Path | None) -> Exchange:
    if "://" not in run:
        if is_place(run):
            raise ScenarioError(
                f"{run} looks like an address; write tcp://{run} for a run on another machine"
            )
        if keys is not None:
            raise ScenarioError(
                f"--keys {keys} works only with an address tcp://HOST:PORT; leave --keys out"
            )
        entry = _chosen() if not run and len(runs(VIEWED)) > 1 else find(run, VIEWED)
        click.echo(f"watching {entry.scenario} (process {entry.pid})")
        return Shared.open(Path(entry.endpoint))
    from rtsim.pilot.remote import RemoteExchange

    if keys is None:
        raise ScenarioError(
            f"a window of {run} needs the client key file that 'rtsim keys' wrote with the "
            f"keys of the run; give --keys FILE{CLIENT}"
        )
    return RemoteExchange.connect(run, Keys.load(keys))
