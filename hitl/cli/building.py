"""``rtsim sil build``: the worker of an interface file."""

from __future__ import annotations

from pathlib import Path

import click

from hitl.build import build as built
from hitl.cli.common import build_option
from hitl.header import write_header
from rtsim.cli.common import json_option, reports_errors, show_json


@click.command()
@click.argument("interface")
@build_option
@click.option(
    "--header",
    type=click.Path(dir_okay=False, path_type=Path),
    help="C header to write: the signals by name, the schema, the period.",
)
@json_option
@reports_errors
def build(interface: str, kind: str, header: Path | None, as_json: bool) -> None:
    """Build the worker of INTERFACE (FILE.toml or FILE.toml:VARIANT).

    What the compiler warns of in the controller's sources is shown here, and nowhere else.
    """
    made = built(interface, kind)
    if header is not None:
        write_header(made.interface, header)
    if as_json:
        show_json(
            {
                "program": str(made.program),
                "compiler": made.compiler,
                "build": kind,
                "warnings": made.warnings,
                "header": None if header is None else str(header),
            }
        )
        return
    click.echo(made.warnings, nl=False, err=True)
    click.echo(f"{made.program}  ({kind}, {made.compiler})")
    if header is not None:
        click.echo(f"written: {header}")
