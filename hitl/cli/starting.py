"""The command ``rtsim sil init``: write a working example."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.core.errors import ScenarioError

MOTOR = "motor"
EXAMPLES = {
    MOTOR: "starter",
    "processor": "examples/processor",
    "arduino": "examples/arduino",
}
"""The folder of each example in the package, by the example's name."""
_NEXT = {
    MOTOR: "rtsim sil test scenario.py -c motor.toml",
    "processor": "rtsim sil test scenario.py:level -c level.toml",
    "arduino": "rtsim sil test scenario.py:room -c thermostat.toml",
}


def starter(example: str = MOTOR) -> dict[str, bytes]:
    """Return the contents of an example's files, by file name."""
    folder = files("hitl").joinpath(*EXAMPLES[example].split("/"))
    found = sorted((f for f in folder.iterdir() if f.is_file()), key=lambda f: f.name)
    return {f.name: f.read_bytes() for f in found}


def write_starter(folder: Path, example: str = MOTOR) -> list[Path]:
    """Write all files of ``example`` into ``folder`` and return their paths.

    Raises :class:`ScenarioError`, and writes nothing, if one of the files exists already.
    """
    contents = starter(example)
    there = [name for name in contents if (folder / name).exists()]
    if there:
        raise ScenarioError(
            f"{folder} contains {', '.join(there)} already; "
            f"give another folder: rtsim sil init {example}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            with (folder / name).open("xb") as file:
                file.write(content)
    except OSError as error:
        raise ScenarioError(f"cannot write into {folder}: {error.strerror}") from None
    return [folder / name for name in contents]


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option(
    "--example",
    type=click.Choice(list(EXAMPLES)),
    default=MOTOR,
    show_default=True,
    help="Example to write. motor: a speed controller with its tests (docs/sil.md). processor: a "
    "controller whose results differ between host and board (docs/pitl.md).",
)
@json_option
@reports_errors
def init(folder: Path, example: str, as_json: bool) -> None:
    """Write a working example into FOLDER.

    The default FOLDER is the current folder. Existing files are never overwritten.

    \b
    Examples:
      rtsim sil init
      rtsim sil init processor --example processor
    """
    written = write_starter(folder, example)
    if as_json:
        show_result({"files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(str(path))
    into = "" if folder == Path() else f"cd {folder} && "
    click.echo(f"next: {into}{_NEXT[example]}")
