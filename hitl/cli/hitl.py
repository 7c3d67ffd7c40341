"""``rtsim hitl``: a scenario with hardware at the pins of an I/O node."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from hitl.protocol.line import BaudRate
from hitl.rigs import running
from hitl.rigs.controller import RigController
from hitl.rigs.diagram import svg
from hitl.rigs.file import load_rig
from hitl.rigs.rig import Rig
from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import RunOptions, flight_options, fly
from rtsim.cli.tables import Column, console, print_table
from rtsim.components.controller_task import LATE_POLICIES, ControllerTask
from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.scenario.controller_part import ControllerPart
from rtsim.scenario.scenario import Scenario

EXAMPLE = Path(__file__).resolve().parents[1] / "rigs" / "illumination"
_FILES = ("illumination.toml", "illumination.hex", "illumination.py")
_COLUMNS = (
    Column("signal"),
    Column("pin"),
    Column("kind", drop=1),
    Column("at the end", number=True),
    Column("unit"),
)


@reports_errors
def _draw(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(svg(load_rig(value)), nl=False)
        context.exit()


@reports_errors
def _example(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value:
        return
    for name in _FILES:
        if Path(name).exists():
            raise ScenarioError(f"{name} is there already; go to an empty folder")
    for name in _FILES:
        shutil.copyfile(EXAMPLE / name, name)
        click.echo(name)
    click.echo("next: rtsim hitl illumination.py --rig illumination.toml")
    context.exit()


@click.command("hitl")
@flight_options
@click.option("--rig", "file", required=True, metavar="FILE", help="What is at which pin.")
@click.option("-c", "--controller", "name", default=None, help="Whose place the rig takes.")
@click.option(
    "--board", default=None, metavar="URL", help="The I/O node's, instead of the rig file's."
)
@click.option("--latency", default=None, metavar="S", help="What the rig may take to answer.")
@click.option(
    "--late",
    type=click.Choice(LATE_POLICIES),
    default=None,
    help="What follows an answer that is not there in time.  [default: the scenario's own]",
)
@click.option(
    "--diagram", is_eager=True, expose_value=False, callback=_draw, metavar="FILE",
    help="Draw the wiring of a rig file as SVG, and end.",
)  # fmt: skip
@click.option(
    "--example", is_flag=True, is_eager=True, expose_value=False, callback=_example,
    help="Write a rig, its scenario and the firmware of its device into this folder, and end.",
)  # fmt: skip
@json_option
@reports_errors
def hitl(
    flight: RunOptions,
    file: str,
    name: str | None,
    board: str | None,
    latency: str | None,
    late: str | None,
    as_json: bool,
) -> None:
    """Fly SCENARIO with a rig in the place of its controller: pins are driven and read.

    With a rig whose I/O node is board:uno nothing else is needed: all boards are emulated, in
    lockstep.  At a serial port the rig runs by its own clock, and so does the scenario (--pace 1).
    """
    rig = load_rig(file)
    if board is not None:
        rig = rig.on(board)
    typed = click.get_current_context().get_parameter_source("pace")
    asked = flight.pace if typed is click.core.ParameterSource.COMMANDLINE else None
    flight = replace(flight, pace=running.pace_for(rig, asked))
    taken = ""

    def prepare(scenario: Scenario) -> None:
        nonlocal taken
        taken = _place(scenario, name)
        part = scenario.of(ControllerPart)[taken]
        if part.period is None:
            raise ScenarioError(f"{taken} has no period; a rig is driven at ticks")
        running.check_watchdog(rig, part.period)
        paced = flight.pace != running.MAX
        controller = RigController(rig, part.period, paced=paced)
        scenario.replace_controller(taken, controller, latency=latency, late=late)
        _check_latency(taken, part)

    flown = fly(flight, quiet=as_json, prepare=prepare)
    task = next(t for t in flown.outcome.system.controllers if t.name == taken)
    if as_json:
        show_json({**flown.summary(), "rig": _told(task, rig)})
    else:
        flown.print(lambda: _print(task, rig))
    flown.exit()


def _place(scenario: Scenario, name: str | None) -> str:
    known = list(scenario.of(ControllerPart))
    if name is not None:
        if name not in known:
            raise UnknownName("controller", name, known, f"scenario {scenario.name}")
        return name
    if len(known) != 1:
        listed = ", ".join(known) or "none"
        raise ScenarioError(f"which controller's place does the rig take? type: -c NAME ({listed})")
    return known[0]


def _check_latency(name: str, part: ControllerPart) -> None:
    """Nothing outside the process answers at once."""
    if isinstance(part.compute, Fixed) and part.compute.constant == (0,):
        assert part.period is not None
        raise ScenarioError(
            f"the rig in the place of {name} needs time to answer; allow it some, such as half its "
            f"period: --latency {part.period.seconds / 2:g}"
        )


def _told(task: ControllerTask, rig: Rig) -> dict[str, Any]:
    controller = task.controller
    assert isinstance(controller, RigController)
    return {
        "file": str(rig.path),
        "board": rig.board,
        "steps": task.sequence,
        "late": task.lates,
        "missed": task.missed,
        "repeated": controller.repeated,
        "silences": controller.silences,
        "signals": controller.last,
        "budget": {**asdict(controller.budget), "holds": controller.budget.holds},
    }


def _print(task: ControllerTask, rig: Rig) -> None:
    told = _told(task, rig)
    controller = task.controller
    assert isinstance(controller, RigController)
    rows = [
        [c.name, c.pin, c.measure or c.kind, f"{controller.last[c.name]:.6g}", c.field.signal.unit]
        for c in rig.channels
        if c.name in controller.last
    ]
    print_table(console(), f"Rig {rig.name} at {rig.board}", _COLUMNS, rows)
    console().print(
        f"{told['steps']} steps, {told['late']} late, {told['missed']} missed, "
        f"{told['repeated']} requests repeated; "
        f"the watchdog drove the safe values {told['silences']} times"
    )
    console().print(f"{BaudRate(rig.baud)}; {controller.budget}", soft_wrap=True, markup=False)
    if running.free_running(rig) and rig.devices:
        names = ", ".join(device.name for device in rig.devices)
        console().print(f"not emulated at a port, and taken to be there: {names}", soft_wrap=True)
