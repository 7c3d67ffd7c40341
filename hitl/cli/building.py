"""``rtsim sil build``: the worker of an interface file."""

from __future__ import annotations

import click

from hitl.build import FLAGS, PLAIN
from hitl.build import build as built
from rtsim.cli.common import json_option, reports_errors, show_json


@click.command()
@click.argument("interface")
@click.option("--build", "kind", type=click.Choice(list(FLAGS)), default=PLAIN, show_default=True)
@json_option
@reports_errors
def build(interface: str, kind: str, as_json: bool) -> None:
    """Build the worker of INTERFACE (FILE.toml or FILE.toml:VARIANT)."""
    made = built(interface, kind)
    if as_json:
        show_json({"program": str(made.program), "compiler": made.compiler, "build": kind})
    else:
        click.echo(f"{made.program}  ({kind}, {made.compiler})")
