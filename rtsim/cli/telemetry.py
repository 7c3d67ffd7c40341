"""Options and summary of telemetry to plotting tools, shared by the commands that run scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rtsim.core.errors import ScenarioError
from rtsim.gateway.addresses import (
    FOXGLOVE,
    UNENCRYPTED,
    check_foxglove,
    listen,
    read_address,
    read_origins,
)
from rtsim.gateway.addresses import ORIGIN_OPTION as OPTION
from rtsim.record.views import views_of
from rtsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from rtsim.engine.commands.commands import Inbox
    from rtsim.gateway.publishing import ViewerCounts


def _address(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
    """Check the address early, because click may have read the scenario's name as the address."""
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
    OPTION,
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
    """Check the telemetry options before a scenario is loaded.

    Raises :class:`ScenarioError` for options that do not fit together, and for an address that
    cannot be served.
    """
    if foxglove:
        check_foxglove(foxglove, unencrypted)
    elif unencrypted:
        raise ScenarioError(f"{UNENCRYPTED} works only with --foxglove HOST:PORT; add that option")
    elif origins:
        raise ScenarioError(f"{OPTION} works only with --foxglove; add that option")
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


def told(scenario: Scenario, rates: Sequence[str], origins: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the gateway needs for viewers: scene, views, rates and allowed origins."""
    from rtsim.gateway.publishing import MOST_VIEWS, read_rates

    return {
        "scene": [body.to_plain() for body in scenario.bodies],
        "shown": {k: v for k, v in scenario.presentation.window().items() if k != "bodies"},
        "views": [view.to_dict() for view in views_of(scenario)[:MOST_VIEWS]],
        "telemetry": read_rates(rates),
        "origins": list(origins),
    }


def telemetry_to_json(inbox: Inbox | None) -> dict[str, Any]:
    """Return the messages sent and lost by tool, and the samples lost; empty without telemetry."""
    found: Mapping[str, Any] = getattr(inbox, "telemetry", {})
    if not found:
        return {}
    return {"telemetry": dict(found), "looks_lost": int(getattr(inbox, "lost", 0))}


def telemetry_line(found: Mapping[str, ViewerCounts], looks: int = 0) -> str:
    """Return the counts of messages as one line; ``looks`` is the number of dropped samples."""
    told = [
        f"{name}: {counts['sent']} messages sent, {counts['lost']} lost"
        + (f", then {counts['failure']}" if "failure" in counts else "")
        for name, counts in found.items()
    ]
    return "; ".join([*told, f"{looks} samples dropped before sending"] if looks else told)
