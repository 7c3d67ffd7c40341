"""The commands ``rtsim board ...``, which list, compare, install, build and serve boards."""

from __future__ import annotations

import click

from rtsim.cli.commands import Commands

COMMANDS = {
    "list": "hitl.cli.board_tools:list_boards",
    "info": "hitl.cli.board_tools:info",
    "compare": "hitl.cli.board_tools:compare",
    "build": "hitl.cli.board_tools:build",
    "export": "hitl.cli.board_tools:export",
    "clock": "hitl.cli.board_tools:clock",
    "serve": "hitl.cli.link:serve",
    "install": "hitl.cli.board_tools:install",
}


@click.group(cls=Commands, known=lambda: COMMANDS)
def board() -> None:
    """Build firmware for boards, and emulate boards.

    \b
    Examples:
      rtsim board list
      rtsim board install
      rtsim board build motor.toml:float
      rtsim board export motor.toml:float sketches
      rtsim board serve -c motor.toml:float
    """
