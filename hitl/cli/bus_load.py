"""``rtsim bus load``: who uses the CAN buses of a scenario, and how much."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from hitl.cli.bus_check import milliseconds
from rtsim.cli.common import NO, json_option, reports_errors, show_result
from rtsim.cli.options import parse_settings, scenario_names, setting_names
from rtsim.cli.terminal import Column, console, print_table
from rtsim.components.can_analysis import PeriodicFrame, worst_latencies
from rtsim.components.can_bus import CanFrame, arbitration
from rtsim.components.frames.contract import hexadecimal
from rtsim.components.medium import shared
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Period
from rtsim.scenario.scenario import Scenario

_COLUMNS = (
    Column("sender"), Column("frame"), Column("most bits", number=True),
    Column("period (ms)", number=True), Column("load (%)", number=True),
    Column("worst latency (ms)", number=True),
)  # fmt: skip


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", shell_complete=setting_names,
    help="Set an argument of the scenario or a value of a component; repeatable.",
)  # fmt: skip
@json_option
@reports_errors
def load(scenario: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Print the load of each CAN bus of SCENARIO, and the longest latency of each frame.

    The numbers hold for the most stuff bits, without error frames, and for senders with a fixed
    period. Exit status 0 if every bus can carry its load, 1 if a bus cannot, 2 if SCENARIO has no
    CAN bus.

    \b
    Examples:
      rtsim bus load car.py
      rtsim bus load car.py --set bitrate=250000
    """
    from rtsim.scenario.loading import load_scenario

    buses, irregular = frames_of(load_scenario(scenario, parse_settings(settings)))
    if not buses and not irregular:
        raise ScenarioError(
            f"{scenario} has no CAN bus; give components transport=CanBus(...).frame(...)"
        )
    told = {name: _bus(frames) for name, frames in sorted(buses.items())}
    over = [name for name, one in told.items() if one["load"] >= 1.0]
    why = f"{', '.join(over)} cannot carry the load" if over else None
    if as_json:
        show_result({"buses": told, "without_period": irregular}, NO if over else 0, why)
    else:
        for name, one in told.items():
            title = f"Bus {name}, {one['bitrate']} bit/s: load at most {100 * one['load']:.1f} %"
            print_table(console(), title, _COLUMNS, [_cells(row) for row in one["frames"]])
        for sender in irregular:
            click.echo(f"note: {sender} sends without a fixed period, so its load is not included")
        if why:
            click.echo(f"FAILED: {why}; give the bus a higher bit rate, or longer periods")
    if over:
        raise SystemExit(NO)


def frames_of(scenario: Scenario) -> tuple[dict[str, list[PeriodicFrame]], list[str]]:
    """Return the periodic frames of each bus, and the senders without a fixed period."""
    buses: defaultdict[str, list[PeriodicFrame]] = defaultdict(list)
    irregular: list[str] = []
    for name, component in sorted(scenario.components.items()):
        frame = shared(getattr(component, "transport", None))
        if not isinstance(frame, CanFrame):
            continue
        period = getattr(component, "period", None)
        if isinstance(period, Period):
            buses[frame.bus.name].append(PeriodicFrame(name, frame, round(period.ns)))
        else:
            irregular.append(name)
    return dict(buses), irregular


def _bus(frames: list[PeriodicFrame]) -> dict[str, Any]:
    latencies = worst_latencies(frames)
    rows = [
        {
            "sender": one.sender, "identifier": one.frame.identifier,
            "extended": one.frame.extended,
            "frame": "" if one.frame.codec is None else one.frame.codec.name,
            "most_bits": one.frame.worst_bits, "period_ns": one.period_ns, "load": one.load,
            "worst_latency_ns": latencies[one.sender],
        }
        for one in sorted(frames, key=_priority)
    ]  # fmt: skip
    return {
        "bitrate": frames[0].frame.bus.bitrate, "load": sum(one.load for one in frames),
        "frames": rows,
    }  # fmt: skip


def _priority(one: PeriodicFrame) -> tuple[int, int, int]:
    return arbitration(one.frame.identifier, one.frame.extended)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    told = hexadecimal(row["identifier"], row["extended"])
    return (
        row["sender"], f"{told} {row['frame']}".strip(), str(row["most_bits"]),
        f"{row['period_ns'] / 1e6:g}", f"{100 * row['load']:.2f}",
        milliseconds(row["worst_latency_ns"]),
    )  # fmt: skip
