"""The command ``rtsim wiring``, which checks signs between a vehicle and its autopilot."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hitl.programs.autopilots import AUTOPILOTS
from hitl.programs.wiring import Wiring, check_wiring
from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.options import option, parse_settings, scenario_names
from rtsim.cli.terminal import Column, console, print_table

_COLUMNS = Column("checked"), Column("expected"), Column("found"), Column("verdict")
_DECLARED = Column("input or output"), Column("unit or range"), Column("what a larger value means")


@reports_errors
def _axes(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    axes = AUTOPILOTS.get_or_raise(value).axes
    rows: list[tuple[str, ...]] = []
    for sense in axes.senses:
        many = len(sense.directions) > 1
        for k in range(len(sense.directions)):
            element = f"[{k}]" if many else ""
            rows.append((f"{sense.signal}{element}", sense.unit, sense.words(k)))
    for one in axes.actuators:
        effects = f"{one.name}: {', '.join(one.reactions)}"
        rows.append((f"{one.signal}[{one.element}]", f"{one.low:g} to {one.high:g}", effects))
    print_table(console(), f"Axes of {value}", _DECLARED, rows)
    context.exit()


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@option("--set")
@click.option(
    "-c", "--controller", "name", default=None, metavar="NAME",
    help="Autopilot.  [default: the only controller with declared axes]",
)  # fmt: skip
@click.option(
    "--body", default=None, metavar="NAME",
    help="Body whose motion shows the reaction of the vehicle.  [default: the only body that the "
    "scenario shows]",
)  # fmt: skip
@click.option(
    "--axes", is_eager=True, expose_value=False, callback=_axes, metavar="AUTOPILOT",
    help="Print the axes of an autopilot, such as betaflight, ardupilot, px4 or mavlink; check "
    "nothing.",
)  # fmt: skip
@json_option
@reports_errors
def wiring(
    scenario: str, settings: tuple[str, ...], name: str | None, body: str | None, as_json: bool
) -> None:
    """Check the signs of all connections between the vehicle and the autopilot of SCENARIO.

    A script replaces the autopilot and moves one actuator after another; the command compares the
    reactions of the vehicle with declared directions. The autopilot itself is not started. Exit
    status: 0 if all signs are right, 1 if a sign is wrong, 2 if a sign cannot be decided.

    \b
    Examples:
      rtsim wiring quad.py
      rtsim wiring --axes betaflight
    """
    from rtsim.scenario.loading import load_scenario

    found = check_wiring(load_scenario(scenario, parse_settings(settings)), name, body)
    status = found.outcome.value
    why = found.in_words if status else None
    if as_json:
        show_result({"controller": found.controller, **_plain(found)}, status, why)
    else:
        rows = [(f.subject, f.expected, f.found, f.verdict) for f in found.findings]
        print_table(console(), f"Wiring of {found.controller}", _COLUMNS, rows)
        if found.unchecked:
            click.echo(
                f"not checked, because no direction is declared: {', '.join(found.unchecked)}"
            )
        click.echo(found.in_words)
    raise SystemExit(status)


def _plain(found: Wiring) -> dict[str, Any]:
    return {
        "findings": [asdict(one) for one in found.findings], "unchecked": list(found.unchecked)
    }  # fmt: skip
