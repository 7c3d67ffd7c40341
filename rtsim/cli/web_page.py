"""The option ``--web`` of commands that run a scenario, and the page beside the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rtsim.gateway.addresses import PAGE_OPTION as OPTION
from rtsim.gateway.addresses import PORT
from rtsim.gateway.web.launching import Order, WebPage

if TYPE_CHECKING:
    from rtsim.engine.commands.inbox import Inbox
    from rtsim.gateway.loop import PipedInbox

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
