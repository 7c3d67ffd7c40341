"""Viewers of a run in other programs: PlotJuggler, Foxglove, and the browser (``rtsim web``)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import reports_errors
from rtsim.cli.options import option
from rtsim.core.errors import ScenarioError
from rtsim.gateway.addresses import (
    FOXGLOVE,
    ORIGIN_OPTION,
    PAGE_OPTION,
    PORT,
    UNENCRYPTED,
    check_foxglove,
    check_installed,
    listen,
    read_address,
    read_origins,
)
from rtsim.gateway.pipe import Order, WebPage
from rtsim.gateway.registry import find
from rtsim.record.views import views_of
from rtsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from rtsim.engine.commands.commands import Inbox
    from rtsim.gateway.loop import PipedInbox
    from rtsim.gateway.publishing import ViewerCounts


def _address(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
    if value:
        try:
            read_address(value)
        except ScenarioError as error:
            raise click.BadParameter(str(error)) from error
    return value


plotjuggler_option = click.option(
    "--plotjuggler", is_flag=True, help="Publish signals for PlotJuggler's ZeroMQ streamer."
)
foxglove_option = click.option(
    "--foxglove",
    default="",
    is_flag=False,
    flag_value=FOXGLOVE,
    metavar="[HOST:PORT]",
    callback=_address,
    help="Serve viewers of Foxglove at this address.  Without an address, serve only viewers on "
    f"this machine, at {FOXGLOVE}.",
)
unencrypted_option = click.option(
    UNENCRYPTED,
    "foxglove_unencrypted",
    is_flag=True,
    help="Let --foxglove serve other machines without encryption: every program that can reach the "
    "address can watch the run.",
)
origin_option = click.option(
    ORIGIN_OPTION,
    "foxglove_origin",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of the web site ORIGIN, such as https://viewer.example.org, connect to "
    "--foxglove; repeatable.",
)
telemetry_option = click.option(
    "--telemetry",
    multiple=True,
    metavar="[TOPIC=]HZ",
    help="Set the rate, in Hz, at which a topic is sent to PlotJuggler and Foxglove.  TOPIC is the "
    "name of a component, or one of the words 'timing' and 'scene'; without TOPIC, HZ applies "
    "to all topics without a rate of their own.  Repeatable.",
)


def check_telemetry(
    plotjuggler: bool,
    foxglove: str,
    unencrypted: bool,
    rates: Sequence[str],
    origins: Sequence[str] = (),
) -> None:
    """Check the options for PlotJuggler and Foxglove before the scenario is loaded.

    Raises ``ScenarioError`` for options that exclude each other, and for an address that rtsim
    cannot use.
    """
    if foxglove:
        check_foxglove(foxglove, unencrypted)
    elif unencrypted:
        raise ScenarioError(f"{UNENCRYPTED} works only with --foxglove HOST:PORT; add that option")
    elif origins:
        raise ScenarioError(f"{ORIGIN_OPTION} works only with --foxglove; add that option")
    read_origins(origins)
    if plotjuggler:
        from rtsim.gateway.publishing import PLOTJUGGLER

        listen(PLOTJUGGLER, "--plotjuggler").close()
    if rates and not (plotjuggler or foxglove):
        raise ScenarioError(
            "--telemetry sets the rate of sent topics, but no topic is sent; add --foxglove "
            "or --plotjuggler"
        )
    if rates:
        from rtsim.gateway.publishing import read_rates

        read_rates(rates)


def header_for_viewers(
    scenario: Scenario, rates: Sequence[str], origins: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the data that viewers need at their start: scene, views, rates and allowed origins."""
    from rtsim.gateway.publishing import MOST_VIEWS, read_rates

    required = [one.to_plain() for one in scenario.requirements]
    return {
        "scene": [body.to_plain() for body in scenario.bodies],
        "shown": {k: v for k, v in scenario.presentation.window().items() if k != "bodies"},
        "views": [view.to_dict() for view in views_of(scenario)[:MOST_VIEWS]],
        "telemetry": read_rates(rates),
        "origins": list(origins),
        **({"requirements": required} if required else {}),
    }


def telemetry_to_json(inbox: Inbox | None) -> dict[str, Any]:
    """Return the numbers of sent messages and lost samples, by program."""
    found: Mapping[str, Any] = getattr(inbox, "telemetry", {})
    if not found:
        return {}
    return {"telemetry": dict(found), "looks_lost": int(getattr(inbox, "lost", 0))}


def telemetry_line(found: Mapping[str, ViewerCounts], looks: int = 0) -> str:
    """Return one line of text with the numbers of sent messages and lost samples."""
    told = [
        f"{name}: {counts['sent']} messages sent, {counts['lost']} lost"
        + (f", then {counts['failure']}" if "failure" in counts else "")
        for name, counts in found.items()
    ]
    return "; ".join([*told, f"{looks} samples dropped before sending"] if looks else told)


# ``rtsim web`` and ``--web``: a run or a recording on a page in the browser


@click.command()
@click.argument("shown", metavar="[RUN|RECORDING.mcap]", default="")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the page.  [default: 8760]")
@option("--keys")
@click.option("--control", is_flag=True, help="Let browsers pause, step, tune and rewind the run.")
@reports_errors
def web(shown: str, port: int | None, keys: Path | None, control: bool) -> None:
    """Show a run in progress, or a recording, on a page in the browser.

    RUN is a process number, the name of a scenario, or tcp://HOST:PORT; it can be omitted if only
    one run is in progress. The command prints the address of the page; only browsers on this
    machine can open the page.

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


# The option ``--web``, and the page beside the run

USUAL = 0
"""Value of ``--web`` without a port, which selects the usual port or a free one."""
_WAIT_S = 3600.0
"""Time that a page waits for its run to begin, s. The page also ends with the run's process."""


def _port(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:  # noqa: ARG001
    if value is None:
        return None
    if not value.isdecimal() or not 0 <= int(value) < 65536:
        raise click.BadParameter(
            f"{value!r} is not a port from 1 to 65535; if {value!r} is the scenario, write it "
            f"before {PAGE_OPTION}"
        )
    return int(value)


web_option = click.option(
    PAGE_OPTION,
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
    """Context manager that serves a web page of the run in this process."""
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
    """Return the statistics of a run's page. Empty without a page."""
    found: dict[str, Any] = getattr(inbox, "page", {})
    return {"web": found} if found else {}
