"""The command ``rtsim sil build``: compile the worker of an interface file."""

from __future__ import annotations

import click

from hitl.building.build import build as built
from hitl.cli.common import build_option, refuse_warnings, warnings_option
from rtsim.cli.common import json_option, reports_errors, show_result


@click.command()
@click.argument("interface")
@build_option
@warnings_option
@json_option
@reports_errors
def build(interface: str, kind: str, strictness: str, as_json: bool) -> None:
    """Compile the C code of INTERFACE into a worker.

    INTERFACE is FILE.toml or FILE.toml:VARIANT. A worker is a program that runs the controller in
    a process of its own. Compiler warnings about the controller's sources are printed on stderr.
    Exit status 0 if the worker was built, 1 if the compiler warned and --warnings error was given,
    2 if the build failed.

    \b
    Examples:
      rtsim sil build motor.toml
      rtsim sil build motor.toml:float --build sanitize
    """
    made = built(interface, kind)
    refuse_warnings({made.interface.name: made.warnings}, strictness, as_json)
    if as_json:
        show_result(
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
