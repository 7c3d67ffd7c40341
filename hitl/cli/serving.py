"""The command ``rtsim sil serve``: run the C code of an interface file for another machine."""

from __future__ import annotations

from pathlib import Path

import click

from hitl.building.build import FLAGS, PLAIN
from rtsim.cli.common import reports_errors


@click.command()
@click.argument("interface")
@click.option(
    "--bind", "endpoint", required=True, metavar="tcp://HOST:PORT",
    help="Address at which clients connect, tcp://HOST:PORT.",
)  # fmt: skip
@click.option(
    "--keys", type=click.Path(path_type=Path), metavar="FILE",
    help="Encrypt with the CURVE keys of FILE. If FILE does not exist, the command writes it, and "
    "FILE.client for the client.  [default: no encryption]",
)  # fmt: skip
@click.option(
    "--build", "kind", type=click.Choice(list(FLAGS)), default=PLAIN, show_default=True,
    help="Build of the C code: plain, sanitize or coverage.",
)  # fmt: skip
@click.option(
    "--runs", type=click.IntRange(min=1), metavar="N",
    help="Exit after serving N runs.  [default: run until Ctrl-C]",
)  # fmt: skip
@reports_errors
def serve(interface: str, endpoint: str, keys: Path | None, kind: str, runs: int | None) -> None:
    """Run the C code of INTERFACE for a simulation on another machine.

    The command builds the C code and starts a new worker process for each client that connects,
    until Ctrl-C. An address that other machines can reach needs --keys.

    \b
    Examples:
      rtsim sil serve motor.toml --bind tcp://127.0.0.1:47811
      rtsim sil serve motor.toml --bind tcp://0.0.0.0:47811 --keys motor.keys
    """
    from hitl.building.build import build
    from hitl.worker.serving import Server
    from rtsim.core.net.sockets import check_address, keys_of

    check_address(endpoint, encrypted=keys is not None)
    held = None if keys is None else keys_of(keys)
    server = Server(build(interface, kind), endpoint, held, click.echo)
    try:
        click.echo(f"{interface} ({kind}) is served at {endpoint}; Ctrl-C ends the server")
        server.serve(runs)
    except KeyboardInterrupt:
        click.echo("ended")
    finally:
        server.close()
