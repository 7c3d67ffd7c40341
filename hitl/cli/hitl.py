"""The command ``rtsim hitl``, for hardware at the pins of an I/O node."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from hitl.cli.common import late_option, names_a_board, refuse_no_latency, write_new
from hitl.protocol.line import BaudRate
from hitl.rigs.controller import RigController
from hitl.rigs.diagram import svg
from hitl.rigs.file import load_rig
from hitl.rigs.rig import MAX_PACE, Rig, RigBusFault
from rtsim.cli.common import json_option, reports_errors
from rtsim.cli.run_options import RunOptions, run_options
from rtsim.cli.running import run_command
from rtsim.cli.terminal import Column, console, print_table
from rtsim.components.controller_task import ControllerTask
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent

EXAMPLES = Path(__file__).resolve().parents[1] / "rigs"
_EXAMPLES = {
    "illumination": ("illumination.toml", "illumination.hex", "illumination.py"),
    "pendulum": (
        "pendulum.toml", "pendulum.hex", "pendulum_pico.toml", "pendulum_pico.hex", "pendulum.py",
    ),
}  # fmt: skip
_EXAMPLE = next(iter(_EXAMPLES))
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
def _example(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    if value not in _EXAMPLES:
        raise UnknownName("example", value, _EXAMPLES)
    contents = {name: (EXAMPLES / value / name).read_bytes() for name in _EXAMPLES[value]}
    for path in write_new(Path(), contents, "use an empty folder"):
        click.echo(str(path))
    click.echo(f"next: rtsim hitl {value}.py --rig {value}.toml")
    context.exit()


@click.command("hitl")
@run_options
@click.option(
    "--rig",
    "file",
    required=True,
    metavar="FILE",
    help="Rig file, which declares the signal at each pin.",
)
@click.option(
    "-c", "--controller", "name", default=None, metavar="NAME",
    help="Controller that the rig replaces.  [default: the scenario's only controller]",
)  # fmt: skip
@click.option(
    "--board", default=None, metavar="URL",
    help="Board to use as the I/O node.  [default: the board of the rig file]",
)  # fmt: skip
@click.option(
    "--latency", default=None, metavar="S",
    help="Compute latency of the rig: simulated time from a sample to the answer, s.  [default: "
    "the latency of the scenario]",
)  # fmt: skip
@late_option
@click.option(
    "--diagram", is_eager=True, expose_value=False, callback=_draw, metavar="FILE",
    help="Print the wiring of this rig file as SVG; run nothing.",
)  # fmt: skip
@click.option(
    "--example", is_flag=False, flag_value=_EXAMPLE, default=None, is_eager=True,
    expose_value=False, callback=_example, metavar="[NAME]",
    help="Write an example (rig file, scenario and firmware) into this folder; run nothing.  "
    f"NAME is {' or '.join(_EXAMPLES)}.  [default: {_EXAMPLE}]",
)  # fmt: skip
@json_option
@reports_errors
@names_a_board
def hitl(
    options: RunOptions,
    file: str,
    name: str | None,
    board: str | None,
    latency: str | None,
    late: str | None,
    as_json: bool,
) -> None:
    """Run SCENARIO with a rig in place of its controller.

    The I/O node is a board that drives the input pins of the device under test and reads its output
    pins. With the I/O node {url}, all boards are emulated, and no hardware is necessary. For an
    emulated device, the rig file names an Intel HEX file or an Arduino sketch. With an I/O node at
    a serial port, the scenario runs in real time (--pace 1). Exit status: 0 if the run reached its
    end, 1 if a requirement was violated or --strict was not met, 2 after an error or for an
    undecided requirement.

    \b
    Examples:
      rtsim hitl --example
      rtsim hitl illumination.py --rig illumination.toml
      rtsim hitl --example pendulum
    """
    rig = load_rig(file)
    if board is not None:
        rig = rig.on(board)
    typed = click.get_current_context().get_parameter_source("pace")
    asked = options.pace if typed is click.core.ParameterSource.COMMANDLINE else None
    options = replace(options, pace=rig.pace_for(asked))
    taken = ""

    def prepare(scenario: Scenario) -> None:
        nonlocal taken
        taken = _place(scenario, name)
        part = scenario.of(ControllerComponent)[taken]
        if part.period is None:
            raise ScenarioError(
                f"{taken} has no period, but a controller that a rig replaces needs one; give "
                "the controller a period"
            )
        rig.check_watchdog(part.period)
        paced = options.pace != MAX_PACE
        controller = RigController(rig, part.period, paced=paced)
        scenario.replace_controller(taken, controller, latency=latency, late=late)
        refuse_no_latency(part, f"the rig in place of {taken}")

    summary = run_command(options, quiet=as_json, prepare=prepare)
    task = next(t for t in summary.result.system.controllers if t.name == taken)
    summary = replace(summary, doubts=_faults_without_effect(task, rig))
    summary.write_junit(options.junit)
    if as_json:
        summary.show_json(rig=_to_json(task, rig))
    else:
        summary.print(lambda: _print(task, rig))
    summary.exit()


def _place(scenario: Scenario, name: str | None) -> str:
    known = list(scenario.of(ControllerComponent))
    if name is not None:
        if name not in known:
            raise UnknownName("controller", name, known, f"scenario {scenario.name}")
        return name
    if len(known) != 1:
        listed = ", ".join(known) or "none"
        raise ScenarioError(
            f"the rig replaces one controller, and scenario {scenario.name} has {len(known)} "
            f"({listed}); name one of them: -c NAME"
        )
    return known[0]


def _of_rig(task: ControllerTask) -> RigController:
    controller = task.controller
    assert isinstance(controller, RigController)
    return controller


def _to_json(task: ControllerTask, rig: Rig) -> dict[str, Any]:
    controller = _of_rig(task)
    return {
        "file": str(rig.path),
        "board": rig.board,
        "steps": task.sequence,
        "late": task.lates,
        "missed": task.missed,
        "repeated": controller.repeated,
        "silences": controller.silences,
        "signals": controller.last,
        "bus_faults": [
            {"bus": row.bus, "kind": row.fault.kind, "operations": acted, "idle": idle}
            for row, acted, idle in _bus_faults(controller, rig)
        ],
        "unused_bus_devices": {} if controller.buses is None else controller.buses.unused,
        "budget": {**asdict(controller.budget), "holds": controller.budget.holds},
    }


def _bus_faults(controller: RigController, rig: Rig) -> list[tuple[RigBusFault, int, str]]:
    buses = controller.buses
    return [] if buses is None else list(zip(rig.bus_faults, buses.acted, buses.idle, strict=True))


def _faults_without_effect(task: ControllerTask, rig: Rig) -> tuple[str, ...]:
    controller = _of_rig(task)
    idle = [row.in_words for row, acted, _ in _bus_faults(controller, rig) if not acted]
    return (f"faults of buses that never acted: {', '.join(idle)}",) if idle else ()


def _print(task: ControllerTask, rig: Rig) -> None:
    report = _to_json(task, rig)
    controller = _of_rig(task)
    rows = [
        [c.name, c.pin, c.measure or c.kind, f"{controller.last[c.name]:.6g}", c.field.signal.unit]
        for c in rig.channels
        if c.name in controller.last
    ]
    rows += [
        [
            s.name,
            d.at,
            f"{d.name}.{s.quantity}",
            f"{controller.last[s.name]:.6g}",
            s.field.signal.unit,
        ]
        for d in rig.bus_devices
        for s in d.signals
        if s.name in controller.last
    ]
    print_table(console(), f"Rig {rig.name} at {rig.board}", _COLUMNS, rows)
    console().print(
        f"{report['steps']} steps, {report['late']} late, {report['missed']} missed, "
        f"{report['repeated']} requests repeated; "
        f"the watchdog drove the fail-safe values {report['silences']} times"
    )
    for row, acted, idle in _bus_faults(controller, rig):
        what = f": {acted} operations changed" if acted else f" never acted: {idle}"
        console().print(f"fault {row.in_words}{what}", soft_wrap=True, markup=False)
    for text in report["unused_bus_devices"].values():
        console().print(text, soft_wrap=True, markup=False)
    console().print(
        f"{BaudRate.of(rig.description, rig.baud)}; {controller.budget}",
        soft_wrap=True,
        markup=False,
    )
    if rig.free_running and rig.devices:
        names = ", ".join(device.name for device in rig.devices)
        console().print(
            f"not emulated, and assumed to be wired to the board: {names}", soft_wrap=True
        )
