"""The commands ``rtsim bus ...``, which check frames, compute bus loads and listen."""

from __future__ import annotations

import click

from rtsim.cli.commands import Commands

COMMANDS = {
    "check": "hitl.cli.bus:check",
    "load": "hitl.cli.bus:load",
    "listen": "hitl.cli.bus:listen",
}


@click.group(cls=Commands, known=lambda: COMMANDS)
def bus() -> None:
    """Check CAN buses and datagrams, and listen to them.

    \b
    Examples:
      rtsim bus check car.dbc --bitrate 500000
      rtsim bus load car.py
      rtsim bus listen 'can://socketcan/can0?dbc=car.dbc'
    """
