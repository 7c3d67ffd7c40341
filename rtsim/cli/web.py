"""``rtsim web``: show a run in progress or a recording in the browser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from rtsim.cli.common import reports_errors
from rtsim.core.errors import ScenarioError
from rtsim.gateway.addresses import check_installed
from rtsim.gateway.registry import find
from rtsim.gateway.web.launching import Order, WebPage


@click.command()
@click.argument("shown", metavar="[RUN|RECORDING.mcap]", default="")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the page.  [default: 8760]")
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    help="Client key file, needed if RUN is tcp://HOST:PORT: the FILE.client that 'rtsim keys' "
    "wrote.",
)
@click.option("--control", is_flag=True, help="Let browsers pause, step, tune and rewind the run.")
@reports_errors
def web(shown: str, port: int | None, keys: Path | None, control: bool) -> None:
    """Show a run in progress, or a recording, on a page in the browser.

    RUN is a process number, the name of a scenario, or tcp://HOST:PORT (default: the only run).
    The page can be opened on this machine only, at the address that the command prints.

    \b
    Examples:
      rtsim web
      rtsim web f16 --control
      rtsim web flight.mcap
    """
    check_installed()
    with WebPage(_order(shown, keys, control), port) as page:
        for line in page.address.lines():
            click.echo(line)
        click.echo("Ctrl-C closes the page")
        with suppress(KeyboardInterrupt):
            if why := page.wait():
                click.echo(why)


def _order(shown: str, keys: Path | None, control: bool) -> Order:
    if shown.endswith(".mcap") or Path(shown).is_file():
        if control or keys is not None:
            raise ScenarioError(
                f"--control and --keys work only with a run in progress, not with the recording "
                f"{shown}; leave them out"
            )
        if not Path(shown).is_file():
            raise ScenarioError(f"the recording {shown} does not exist; give the path of a file")
        return Order(recording=str(Path(shown).absolute()))
    if "://" not in shown:
        shown = str(find(shown).pid)
    return Order(run=shown, keys="" if keys is None else str(keys), control=control)
