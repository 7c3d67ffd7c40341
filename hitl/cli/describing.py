"""``rtsim sil header`` and ``rtsim sil check``: what an interface file says, without a build."""

from __future__ import annotations

from pathlib import Path

import click

from hitl.building.header import MARK, header_text
from hitl.building.unit import check as checked
from hitl.interface import load_interface
from hitl.interface.targets import TARGETS
from hitl.results.files import check_result, write
from rtsim.cli.common import json_option, reports_errors, show_json


@click.command()
@click.argument("interface")
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), metavar="FILE",
    help="Where to write it; an older one is written over.  [default: the terminal]",
)  # fmt: skip
@reports_errors
def header(interface: str, path: Path | None) -> None:
    """Write the C header of INTERFACE: columns of each vector by name, schema and period."""
    loaded = load_interface(interface)
    if path is None:
        click.echo(header_text(loaded), nl=False)
        return
    check_result(path, MARK.encode(), "a header")
    write(path, header_text(loaded))
    click.echo(f"written: {path}")


@click.command()
@click.argument("interface")
@click.option(
    "--target", type=click.Choice(sorted(TARGETS)), default="host", show_default=True,
    help="Whose types the signals have to fit.",
)  # fmt: skip
@json_option
@reports_errors
def check(interface: str, target: str, as_json: bool) -> None:
    """Check INTERFACE against the controller's headers and a target, without building anything."""
    loaded = load_interface(interface)
    checked(loaded, target=target)
    sizes = {
        "inputs": loaded.inputs.size,
        "outputs": loaded.outputs.size,
        "parameters": loaded.parameters.size,
    }
    if as_json:
        schema = f"{loaded.schema:016x}"
        show_json({"name": loaded.name, "target": target, "schema": schema, **sizes})
        return
    listed = ", ".join(f"{count} {name}" for name, count in sizes.items())
    click.echo(f"{loaded.name} fits {target}: {listed}")
