"""``rtsim web`` and ``--web``: a run or a recording on a page in the browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import reports_errors
from rtsim.cli.options import option
from rtsim.core.errors import ScenarioError
from rtsim.gateway.addresses import PAGE_OPTION as OPTION
from rtsim.gateway.addresses import PORT, check_installed
from rtsim.gateway.pipe import Order, WebPage
from rtsim.gateway.registry import find

if TYPE_CHECKING:
    from rtsim.engine.commands.commands import Inbox
    from rtsim.gateway.loop import PipedInbox


@click.command()
@click.argument("shown", metavar="[RUN|RECORDING.mcap]", default="")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the page.  [default: 8760]")
@option("--keys")
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


# The option ``--web`` of commands that run a scenario, and the page beside the run.

USUAL = 0
"""Value of ``--web`` without a port: the usual port, or a free one."""
_WAIT_S = 3600.0
"""Time that a page waits for its run to begin; the end of the run's process ends it too."""


def _port(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:  # noqa: ARG001
    """Return the port; click may have read the scenario's name as the port."""
    if value is None:
        return None
    if not value.isdecimal() or not 0 <= int(value) < 65536:
        raise click.BadParameter(
            f"{value!r} is not a port from 1 to 65535; write the scenario before {OPTION}"
        )
    return int(value)


web_option = click.option(
    OPTION,
    "web",
    default=None,
    is_flag=False,
    flag_value=str(USUAL),
    metavar="[PORT]",
    callback=_port,
    help="Show the run on a page in the browser of this machine, at the address that is printed; "
    f"add --control for pause, step and parameters.  Without PORT, use {PORT} or a free port.",
)


@contextmanager
def web_page(port: int | None, control: bool, inbox: PipedInbox) -> Iterator[None]:
    """Context with a page of this process' run; without one if ``port`` is ``None``."""
    if port is None:
        yield
        return
    page = WebPage(Order(run=str(os.getpid()), control=control, wait_s=_WAIT_S), port or None)
    try:
        with page:
            for line in page.address.lines():
                click.echo(line, err=True)
            try:
                yield
            except BaseException as error:
                page.over(inbox.closed or f"the run ended in an error: {error}")
                raise
            page.over(inbox.closed)
    finally:
        inbox.page = page.figures()


def page_to_json(inbox: Inbox | None) -> dict[str, Any]:
    """Return the figures of the page of a run; empty without a page."""
    found: dict[str, Any] = getattr(inbox, "page", {})
    return {"web": found} if found else {}
