"""The command and its subcommands, each loaded when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

import click

from rtsim import __version__

COMMANDS = {
    "run": "rtsim.cli.run:run",
    "replay": "rtsim.cli.recordings:replay",
    "compare": "rtsim.cli.recordings:compare",
    "messages": "rtsim.cli.messages:messages",
    "report": "rtsim.cli.recordings:report",
    "scenarios": "rtsim.cli.scenarios:scenarios",
    "doctor": "rtsim.cli.doctor:doctor",
}


class _Lazy(click.Group):
    """Imports a command's module only when it is used: ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: Any = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rtsim")
def main() -> None:
    """Real-time and hardware-in-the-loop simulation: one scenario from model to board."""
