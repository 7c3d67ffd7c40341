"""``rtsim sil serve``: the worker of an interface file for another machine."""

from __future__ import annotations

from pathlib import Path

import click

from hitl.building.build import FLAGS, PLAIN
from rtsim.cli.common import reports_errors


@click.command()
@click.argument("interface")
@click.option("--bind", "endpoint", required=True, metavar="tcp://HOST:PORT", help="Where.")
@click.option(
    "--keys", type=click.Path(path_type=Path), metavar="FILE",
    help="CURVE keys; written, with FILE.client for who connects, where there are none.",
)  # fmt: skip
@click.option("--build", "kind", type=click.Choice(list(FLAGS)), default=PLAIN, show_default=True)
@click.option("--runs", type=click.IntRange(min=1), help="End after so many.")
@reports_errors
def serve(interface: str, endpoint: str, keys: Path | None, kind: str, runs: int | None) -> None:
    """Build the worker of INTERFACE and run it for who connects, a fresh one each time.

    Until Ctrl-C.  Beyond loopback only with --keys.
    """
    from hitl.building.build import build
    from hitl.worker.serving import Server
    from rtsim.core.net.sockets import check_address, keys_of

    check_address(endpoint, encrypted=keys is not None)
    held = None if keys is None else keys_of(keys)
    server = Server(build(interface, kind), endpoint, held, click.echo)
    try:
        click.echo(f"{interface} ({kind}) at {endpoint}; Ctrl-C ends it")
        server.serve(runs)
    except KeyboardInterrupt:
        click.echo("ended")
    finally:
        server.close()
