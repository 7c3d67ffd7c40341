"""``rtsim view``: another window on a run that is going on, here or at another machine."""

from __future__ import annotations

import threading
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import click

from rtsim.cli.common import reports_errors
from rtsim.cli.keyboard import is_terminal
from rtsim.cli.viewing import is_place, quiet_option, window_options
from rtsim.core.errors import ScenarioError
from rtsim.core.net.keys import CLIENT, Keys
from rtsim.gateway.registry import VIEWED, RegisteredRun, find, runs
from rtsim.pilot.launching import Window
from rtsim.pilot.shared import Exchange, Shared
from rtsim.timing.scheduling import SchedulingRequest, request


@click.command()
@click.argument("run", required=False, default="", metavar="[RUN]")
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"For tcp://HOST:PORT: FILE{CLIENT}, which rtsim keys made beside the keys of the run.",
)
@click.option(
    "--mapping",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Which axis and key moves what.",
)
@reports_errors
@window_options
@quiet_option
def view(run: str, keys: Path | None, mapping: Path | None, window: Window, quiet: bool) -> None:
    """Open a window on RUN, which was started with --view or by rtsim fly.

    RUN is its process, its scenario, or tcp://HOST:PORT; the only one where nothing is said.  The
    stick is that of the window that had it first; a second one watches until that is closed.
    """
    from rtsim.pilot.viewer.process import watch

    place = (
        nullcontext() if "://" in run else request(SchedulingRequest.window())
    )  # beside the run, or not
    with place, closing(_exchange(run, keys)) as exchange:
        why = watch(exchange, replace(window, mapping=mapping, quiet=quiet), threading.Event())
        click.echo(why)
        skipped = getattr(exchange, "skipped", 0)
        if skipped:
            click.echo(f"{skipped} messages from there were none: skipped")


def _chosen() -> RegisteredRun:
    """One of several, by whoever sits at the terminal."""
    known = runs(VIEWED)
    if not is_terminal():
        return find("", VIEWED)  # says which there are
    for entry in known:
        click.echo(f"{entry.pid}  {entry.scenario}")
    numbers = click.Choice([str(entry.pid) for entry in known])
    return find(click.prompt("which one?", type=numbers, show_choices=False), VIEWED)


def _exchange(run: str, keys: Path | None) -> Exchange:
    if "://" not in run:
        if is_place(run):
            raise ScenarioError(f"{run} is no run; write tcp://{run} for one at another machine")
        if keys is not None:
            raise ScenarioError(f"--keys {keys} go with tcp://HOST:PORT")
        entry = _chosen() if not run and len(runs(VIEWED)) > 1 else find(run, VIEWED)
        click.echo(f"watching {entry.scenario} (process {entry.pid})")
        return Shared.open(Path(entry.endpoint))
    from rtsim.pilot.remote import RemoteExchange

    if keys is None:
        raise ScenarioError(
            f"{run} asks for keys; give those that rtsim keys made there: --keys FILE{CLIENT}"
        )
    return RemoteExchange.connect(run, Keys.load(keys))
