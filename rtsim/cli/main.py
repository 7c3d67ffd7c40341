"""The command and its subcommands, each loaded when it is asked for."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from rtsim.cli.commands import Commands
from rtsim.core.version import __version__

COMMANDS = {
    "run": "rtsim.cli.run:run",
    "fly": "rtsim.cli.fly:fly",
    "joystick": "rtsim.cli.joystick:joystick",
    "view": "rtsim.cli.view:view",
    "replay": "rtsim.cli.replaying:replay",
    "compare": "rtsim.cli.recordings:compare",
    "diverge": "rtsim.cli.diverge:diverge",
    "messages": "rtsim.cli.messages:messages",
    "report": "rtsim.cli.recordings:report",
    "bad-day": "rtsim.cli.bad_day:bad_day",
    "scenarios": "rtsim.cli.scenarios:scenarios",
    "doctor": "rtsim.cli.doctor:doctor",
    "ctl": "rtsim.cli.ctl:ctl",
    "top": "rtsim.cli.top:top",
    "keys": "rtsim.cli.keys:keys",
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


@click.group(
    cls=Commands,
    known=known_commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_STATUS,
)
@click.version_option(__version__, prog_name="rtsim")
def main() -> None:
    """Real-time and hardware-in-the-loop simulation: one scenario from model to board."""
