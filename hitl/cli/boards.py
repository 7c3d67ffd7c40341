"""``rtsim board``: firmware, built; the emulated board, fetched and served."""

from __future__ import annotations

import click

from rtsim.cli.commands import Commands

COMMANDS = {
    "build": "hitl.cli.board_build:build",
    "serve": "hitl.cli.board_serve:serve",
    "install": "hitl.cli.boards_install:install",
}


@click.group(cls=Commands, known=lambda: COMMANDS)
def board() -> None:
    """Processor in the loop: boards, emulated and real."""
