"""The commands ``rtsim bus ...``, for CAN buses and datagrams."""

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
    """Check CAN buses and datagrams, and show frames that arrive.

    \b
    Examples:
      rtsim bus check car.dbc --bitrate 500000
      rtsim bus load car.py
      rtsim bus listen 'can://socketcan/can0?dbc=car.dbc'
    """
