"""The command group ``rtsim``.

The command group ``rtsim``, which imports a subcommand when the subcommand is used.
"""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from rtsim.cli.commands import Commands
from rtsim.core.version import __version__

COMMANDS = {
    "run": "rtsim.cli.run:run",
    "fly": "rtsim.cli.fly:fly",
    "tasks": "rtsim.cli.fly:tasks",
    "measure": "rtsim.cli.fly:measure_command",
    "experiment": "rtsim.cli.experiment:experiment",
    "joystick": "rtsim.cli.joystick:joystick",
    "view": "rtsim.cli.window:view",
    "replay": "rtsim.cli.replay:replay",
    "check": "rtsim.cli.check:check",
    "compare": "rtsim.cli.recordings:compare",
    "diverge": "rtsim.cli.diverge:diverge",
    "messages": "rtsim.cli.recordings:messages",
    "report": "rtsim.cli.recordings:report",
    "export": "rtsim.cli.recordings:export",
    "export-c": "rtsim.cli.fmu:export_c",
    "fmu": "rtsim.cli.fmu:fmu",
    "layout": "rtsim.cli.describe:layout",
    "overrun-replay": "rtsim.cli.replay:overrun_replay",
    "falsify": "rtsim.cli.falsify:falsify",
    "fit": "rtsim.cli.fit:fit",
    "study": "rtsim.cli.study:study",
    "age": "rtsim.cli.age:age",
    "schedule": "rtsim.cli.schedule:schedule",
    "linearise": "rtsim.cli.describe:linearise",
    "scenarios": "rtsim.cli.describe:scenarios",
    "draw": "rtsim.cli.describe:draw",
    "doctor": "rtsim.cli.doctor:doctor",
    "ctl": "rtsim.cli.ctl:ctl",
    "top": "rtsim.cli.top:top",
    "web": "rtsim.cli.telemetry:web",
    "keys": "rtsim.cli.ctl:keys",
}
OTHERS = "rtsim.commands"
"""Entry point group with which a package adds a command: ``name = "module:command"``."""
_STATUS = (
    "Exit status: 0 success; 1 a check failed (a comparison fails, a replay differs, --strict "
    "is not met); 2 the command could not do its work, and the message says what to type; "
    "130 interrupted.  Shell completion: see docs/control.md."
)


def known_commands() -> dict[str, str]:
    """Return ``module:command`` by name of the command. Commands of other packages come last."""
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
    """Real-time and hardware-in-the-loop simulation of models, controllers and boards.

    \b
    Examples:
      rtsim scenarios
      rtsim run f16 --until 20
      rtsim report runs/f16-001.mcap
      rtsim run --help
    """
