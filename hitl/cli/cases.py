"""``rtsim sil case``: a step that went wrong, once more."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hitl.building.build import FLAGS
from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.trust import trust_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--build", "kind", type=click.Choice(list(FLAGS)), help="Default: the case's own.")
@click.option("--silence", default=10.0, show_default=True, help="Wall s a step may take.")
@json_option
@reports_errors
@trust_option
def case(file: Path, kind: str | None, silence: float, as_json: bool) -> None:
    """Run the steps of the saved case FILE through a fresh worker.

    Exit status 1 where it fails again, 0 where it does not, 2 where that could not be decided, as
    where the worker was killed from outside.  The C is compiled and run as it is
    now; outside the current project that takes --trust (docs/trust.md).
    """
    from hitl.controllers.rerunning import load_and_rerun

    rerun = load_and_rerun(file, kind, silence)
    if as_json:
        show_json(rerun.to_json())
    else:
        saved = rerun.case
        click.echo(f"{saved.interface} ({rerun.kind}): {rerun.steps} of {len(saved.tags)} steps")
        if saved.forgotten:
            click.echo(f"the {saved.forgotten} steps before them were not kept; memory may differ")
        if rerun.steps:
            click.echo(f"last step: {rerun.tag}")
            for name, value in saved.at(rerun.steps - 1).items():
                click.echo(f"  {name} = {value!r}")
        for name, value in rerun.outputs.items():
            click.echo(f"  -> {name} = {value!r}")
        if rerun.failed:
            click.secho(f"fails again: {rerun.error}", fg="red")
        elif rerun.error:
            click.secho(f"could not be decided: {rerun.error}", fg="yellow")
        else:
            click.echo(f"does not fail; it was saved with: {saved.error.partition(chr(10))[0]}")
    sys.exit(rerun.outcome.value)
