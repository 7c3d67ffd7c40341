"""``rtsim sil``: the C of a controller, built, flown and held against its design."""

from __future__ import annotations

import click

from rtsim.cli.commands import Commands

COMMANDS = {
    "test": "hitl.cli.testing:test",
    "init": "hitl.cli.starting:init",
    "check": "hitl.cli.describing:check",
    "header": "hitl.cli.describing:header",
    "build": "hitl.cli.building:build",
    "fly": "hitl.cli.flying:fly_in_c",
    "case": "hitl.cli.cases:case",
    "serve": "hitl.cli.serving:serve",
}


@click.group(cls=Commands, known=lambda: COMMANDS)
def sil() -> None:
    """Software in the loop: the C of a controller against its design."""
