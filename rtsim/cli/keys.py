"""``rtsim keys``: make the keys that admit and encrypt connections from other machines."""

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
    """Make CURVE keys: FILE for the server, FILE.client for the client.

    Two machines that are connected over tcp:// need both files: FILE stays on the machine of the
    run or worker, and FILE.client goes to the machine of the client.

    \b
    Examples:
      rtsim keys rig.keys
      rtsim run f16 --pace 1 --control-at tcp://0.0.0.0:5555 --control-keys rig.keys
    """
    from rtsim.core.net.sockets import keys_of

    if file.exists():
        raise ScenarioError(
            f"{file} exists already; give another name, or remove {file} and {file}{CLIENT}"
        )
    keys_of(file)
    click.echo(f"{file}: keys of the server; the file stays on this machine")
    click.echo(f"{file}{CLIENT}: keys of the client; copy the file to the other machine")
