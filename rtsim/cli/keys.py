"""``rtsim keys``: who may talk to what serves beyond this machine."""

from __future__ import annotations

from pathlib import Path

import click

from rtsim.cli.common import reports_errors
from rtsim.core.errors import ScenarioError
from rtsim.core.net.keys import CLIENT


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@reports_errors
def keys(file: Path) -> None:
    """Make CURVE keys: FILE for who serves, FILE.client for who connects.

    Both are needed where a run or a worker is reached over tcp:// from another machine.
    """
    from rtsim.core.net.sockets import keys_of

    if file.exists():
        raise ScenarioError(f"{file} exists; give another name, or remove it and FILE{CLIENT}")
    keys_of(file)
    click.echo(f"{file}: stays here, for --keys of who serves")
    click.echo(f"{file}{CLIENT}: goes to the other machine, for --keys of who connects")
