"""Options of a run for recording and compilation, and the parser of ``--set NAME=VALUE``."""

from __future__ import annotations

from pathlib import Path

import click

from rtsim.core.errors import ScenarioError
from rtsim.engine.compiled.stretch import AUTO, ENGINES
from rtsim.runs.request import RECORDER_DEATH

recording_options = (
    click.option(
        "-o",
        "--record",
        "path",
        type=click.Path(path_type=Path),
        help="Recording to write.  [default: runs/NAME-NNN.mcap]",
    ),
    click.option("--no-record", is_flag=True, help="Write no recording."),
    click.option("--force", is_flag=True, help="Overwrite an existing recording."),
    click.option(
        "--on-recorder-death",
        type=click.Choice(RECORDER_DEATH),
        default="continue",
        show_default=True,
        help="What to do if the recording fails during the run: continue the run, or end it.  The "
        "exit status is 2 in both cases.",
    ),
)
compiling_options = (
    click.option(
        "--plain",
        is_flag=True,
        help="Run models and controllers as plain Python, without compilation.  The last bits can "
        "differ (docs/performance.md).",
    ),
    click.option("--checked", is_flag=True, help="Check every array index in compiled functions."),
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default=AUTO,
        show_default=True,
        help="Engine that runs the scenario: compiled code, or the interpreter, which is slower "
        "and helps with debugging.  Both give equal results.",
    ),
)


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """Return ``("a.b=1", ...)`` as a mapping of name to value.

    Raises :class:`ScenarioError` for a text without ``=``.
    """
    out = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ScenarioError(f"--set {setting!r} has no '=' and value; write --set NAME=VALUE")
        out[name.strip()] = value.strip()
    return out
