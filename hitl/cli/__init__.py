"""``rtsim sil``: the C of a controller, built, flown and held against its design."""

from __future__ import annotations

import importlib

import click

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


class _Lazy(click.Group):
    """Imports a command's module only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Lazy)
def sil() -> None:
    """Software in the loop: the C of a controller against its design."""
