"""What commands share that fly for plotting tools: options, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rtsim.core.errors import ScenarioError
from rtsim.gateway.listening import FOXGLOVE, UNENCRYPTED, check_foxglove, listen, read_address
from rtsim.gateway.origins import OPTION, read_origins
from rtsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from rtsim.engine.commands.inbox import Inbox


def _address(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
    """Before anything else is missed: its optional value may be the scenario."""
    if value:
        try:
            read_address(value)
        except ScenarioError as error:
            raise click.BadParameter(str(error)) from error
    return value


plotjuggler_option = click.option(
    "--plotjuggler", is_flag=True, help="Publish for PlotJuggler's ZeroMQ streamer."
)
foxglove_option = click.option(
    "--foxglove",
    default="",
    is_flag=False,
    flag_value=FOXGLOVE,
    metavar="[HOST:PORT]",
    callback=_address,
    help=f"Serve Foxglove there; by itself {FOXGLOVE}, for this machine only.",
)
unencrypted_option = click.option(
    UNENCRYPTED,
    "foxglove_unencrypted",
    is_flag=True,
    help="Let --foxglove serve others than this machine: whoever reaches it watches.",
)
origin_option = click.option(
    OPTION,
    "foxglove_origin",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of that site watch too, such as https://viewer.example.org.",
)
telemetry_option = click.option(
    "--telemetry",
    multiple=True,
    metavar="[TOPIC=]HZ",
    help="How often these tools are sent a topic (a part, timing, scene); by itself, all others.",
)


def check_telemetry(
    plotjuggler: bool,
    foxglove: str,
    unencrypted: bool,
    rates: Sequence[str],
    origins: Sequence[str] = (),
) -> None:
    """That it can be served, before anything is loaded."""
    if foxglove:
        check_foxglove(foxglove, unencrypted)
    elif unencrypted:
        raise ScenarioError(f"{UNENCRYPTED} goes with --foxglove HOST:PORT; add it")
    elif origins:
        raise ScenarioError(f"{OPTION} goes with --foxglove; add it")
    read_origins(origins)
    if plotjuggler:
        from rtsim.gateway.publishing import PLOTJUGGLER

        listen(PLOTJUGGLER, "--plotjuggler").close()
    if rates and not (plotjuggler or foxglove):
        raise ScenarioError("--telemetry says how often, not to whom; add --foxglove (or its like)")
    if rates:
        from rtsim.gateway.publishing import read_rates

        read_rates(rates)


def told(scenario: Scenario, rates: Sequence[str], origins: Sequence[str] = ()) -> dict[str, Any]:
    """What the gateway has to know for it."""
    from rtsim.gateway.publishing import read_rates

    return {
        "scene": [body.to_plain() for body in scenario.bodies],
        "telemetry": read_rates(rates),
        "origins": list(origins),
    }


def telemetry_to_json(inbox: Inbox | None) -> dict[str, Any]:
    """By tool, messages sent and lost, and looks lost before them; empty where none was served."""
    found: Mapping[str, Any] = getattr(inbox, "telemetry", {})
    if not found:
        return {}
    return {"telemetry": dict(found), "looks_lost": int(getattr(inbox, "lost", 0))}


def telemetry_line(found: Mapping[str, Mapping[str, int]], looks: int = 0) -> str:
    """In one line."""
    told = [
        f"{name}: {counts['sent']} messages sent, {counts['lost']} lost"
        for name, counts in found.items()
    ]
    return "; ".join([*told, f"{looks} looks dropped before them"] if looks else told)
