"""The commands ``rtsim sil ...``, for controllers in C."""

from __future__ import annotations

import click

from rtsim.cli.commands import Commands

COMMANDS = {
    "test": "hitl.cli.testing:test",
    "init": "hitl.cli.interfaces:init",
    "check": "hitl.cli.interfaces:check",
    "header": "hitl.cli.interfaces:header",
    "build": "hitl.cli.interfaces:build",
    "run": "hitl.cli.running:run_in_c",
    "case": "hitl.cli.running:case",
    "generate": "hitl.cli.generating:generate_stimuli",
    "serve": "hitl.cli.running:serve",
}


@click.group(cls=Commands, known=lambda: COMMANDS)
def sil() -> None:
    """Software in the loop: test a controller in C.

    The commands build the C code of a controller, run it in a scenario, and compare it with the
    reference controller in Python (docs/sil.md).

    \b
    Examples:
      rtsim sil init
      rtsim sil test scenario.py -c motor.toml
    """
