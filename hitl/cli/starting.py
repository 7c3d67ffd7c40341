"""``rtsim sil init``: an example that works, to be changed into one's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.errors import ScenarioError


def starter() -> dict[str, bytes]:
    """The example's files by name."""
    folder = files("hitl") / "starter"
    found = sorted((f for f in folder.iterdir() if f.is_file()), key=lambda f: f.name)
    return {f.name: f.read_bytes() for f in found}


def write_starter(folder: Path) -> list[Path]:
    """Write them below ``folder``, all or none; :class:`ScenarioError` where one is in the way."""
    contents = starter()
    there = [name for name in contents if (folder / name).exists()]
    if there:
        raise ScenarioError(
            f"{folder} has {', '.join(there)} already; give another folder: rtsim sil init motor"
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
@json_option
@reports_errors
def init(folder: Path, as_json: bool) -> None:
    """Write an example with its test into FOLDER (default: here)."""
    written = write_starter(folder)
    if as_json:
        show_json({"files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(str(path))
    into = "" if folder == Path() else f"cd {folder} && "
    click.echo(f"next: {into}rtsim sil test scenario.py -c motor.toml")
