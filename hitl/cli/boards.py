"""``rtsim board``: the emulated board."""

from __future__ import annotations

import importlib

import click

COMMANDS = {"install": "hitl.cli.boards_install:install"}


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
def board() -> None:
    """Processor in the loop: boards, emulated and real."""
