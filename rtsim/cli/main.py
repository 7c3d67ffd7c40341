"""The command and its subcommands, each loaded when it is asked for."""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import entry_points
from typing import Any

import click

from rtsim import __version__
from rtsim.cli.common import reports_errors

COMMANDS = {
    "run": "rtsim.cli.run:run",
    "replay": "rtsim.cli.recordings:replay",
    "compare": "rtsim.cli.recordings:compare",
    "messages": "rtsim.cli.messages:messages",
    "report": "rtsim.cli.recordings:report",
    "scenarios": "rtsim.cli.scenarios:scenarios",
    "doctor": "rtsim.cli.doctor:doctor",
}
OTHERS = "rtsim.commands"
"""Packages add commands by this entry point, ``name = "module:command"``."""
_STATUS = (
    "Exit status: 0 all is well; 1 a verdict is no (a comparison fails, a replay differs, --strict "
    "was not met); 2 something could not be done, and the message says what to type; "
    "130 interrupted."
)


def known_commands() -> dict[str, str]:
    """Name to ``module:command``, those of other packages last."""
    found = dict(COMMANDS)
    for entry in entry_points(group=OTHERS):
        found.setdefault(entry.name, entry.value)
    return found


class _Lazy(click.Group):
    """Imports a command's module only when it is used: ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(known_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = known_commands()
        if cmd_name not in known:
            near = difflib.get_close_matches(cmd_name, known, n=1)
            if near and not cmd_name.startswith("-"):
                ctx.fail(f"no such command {cmd_name!r}; did you mean {near[0]}?")
            return None
        module, _, name = known[cmd_name].partition(":")
        command: Any = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        return reports_errors(super().invoke)(ctx)  # what goes wrong while a command is loaded


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_STATUS)
@click.version_option(__version__, prog_name="rtsim")
def main() -> None:
    """Real-time and hardware-in-the-loop simulation: one scenario from model to board."""
