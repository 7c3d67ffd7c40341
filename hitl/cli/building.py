"""``rtsim sil build``: the worker of an interface file."""

from __future__ import annotations

import click

from hitl.building.build import build as built
from hitl.cli.common import build_option, refuse_warnings, warnings_option
from rtsim.cli.common import json_option, reports_errors, show_json


@click.command()
@click.argument("interface")
@build_option
@warnings_option
@json_option
@reports_errors
def build(interface: str, kind: str, strictness: str, as_json: bool) -> None:
    """Build the worker of INTERFACE (FILE.toml or FILE.toml:VARIANT).

    What the compiler warns of in the controller's sources is shown on stderr.
    """
    made = built(interface, kind)
    refuse_warnings({made.interface.name: made.warnings}, strictness, as_json)
    if as_json:
        show_json(
            {
                "program": str(made.program),
                "compiler": made.compiler,
                "build": kind,
                "warnings": made.warnings,
            }
        )
        return
    click.echo(made.warnings, nl=False, err=True)
    click.echo(f"{made.program}  ({kind}, {made.compiler})")
