"""Options of a flight by what they are about, and ``--set NAME=VALUE`` as a mapping."""

from __future__ import annotations

from pathlib import Path

import click

from rtsim.core.errors import ScenarioError
from rtsim.runs.outcome import RECORDER_DEATH

recording_options = (
    click.option(
        "-o", "--record", "path", type=click.Path(path_type=Path), help="Recording to write."
    ),
    click.option("--no-record", is_flag=True, help="Write no recording."),
    click.option("--force", is_flag=True, help="Write over an older recording."),
    click.option(
        "--on-recorder-death",
        type=click.Choice(RECORDER_DEATH),
        default="continue",
        show_default=True,
        help="What to do when the recording is lost on the way; the exit status is 2 either way.",
    ),
)
compiling_options = (
    click.option(
        "--plain", is_flag=True, help="Run models and controllers as plain Python, uncompiled."
    ),
    click.option(
        "--checked", is_flag=True, help="Check each index of an array in compiled functions."
    ),
)


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """``("a.b=1", ...)`` as a mapping."""
    out = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ScenarioError(f"--set {setting!r} has no value; write --set NAME=VALUE")
        out[name.strip()] = value.strip()
    return out
