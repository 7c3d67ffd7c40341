"""The commands ``rtsim sil case`` and ``serve``: run a recorded step again, serve a worker."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hitl.building.build import FLAGS, PLAIN
from hitl.cli.common import link_option
from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.options import trust_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--build",
    "kind",
    type=click.Choice(list(FLAGS)),
    help="Build to run the case with.  [default: the build that the case was saved from]",
)
@click.option(
    "--silence",
    default=10.0,
    show_default=True,
    help="Longest wall-clock time that one step may take, s.",
)
@link_option
@json_option
@reports_errors
@trust_option
def case(file: Path, kind: str | None, silence: float, link: str | None, as_json: bool) -> None:
    """Run the steps of a controller again that the case FILE contains.

    A case holds the inputs of a controller up to a step that failed. The command compiles the C
    code as it is now and runs the steps in a new worker. If the C code is outside the current
    project, --trust is necessary (docs/trust.md). Exit status 0 if the C code does not fail, 1 if
    it fails again, 2 if this could not be decided, for example because the worker was killed from
    outside.

    \b
    Examples:
      rtsim sil case cases/motor-1500000000-plain.npz
      rtsim sil case cases/motor-1500000000-plain.npz --build sanitize
    """
    from hitl.controllers.restore import load_and_rerun

    rerun = load_and_rerun(file, kind, silence, link)
    if as_json:
        show_result(rerun.to_json(), rerun.outcome.value, rerun.error)
    else:
        saved = rerun.case
        click.echo(f"{saved.interface} ({rerun.kind}): {rerun.steps} of {len(saved.tags)} steps")
        if saved.forgotten:
            click.echo(
                f"the {saved.forgotten} steps before these were not saved, so the memory of "
                "the C code may differ from the run"
            )
        if rerun.steps:
            click.echo(f"last step: {rerun.tag}")
            for name, value in saved.at(rerun.steps - 1).items():
                click.echo(f"  {name} = {value!r}")
        for name, value in rerun.outputs.items():
            click.echo(f"  -> {name} = {value!r}")
        if rerun.failed:
            click.secho(f"fails again: {rerun.error}", fg="red")
        elif rerun.error:
            click.secho(f"could not decide whether the C code fails: {rerun.error}", fg="yellow")
        else:
            click.echo(f"does not fail; the saved error is: {saved.error.partition(chr(10))[0]}")
    sys.exit(rerun.outcome.value)


# The command ``rtsim sil serve``: run the C code of an interface file for another machine.


@click.command()
@click.argument("interface")
@click.option(
    "--bind", "endpoint", required=True, metavar="tcp://HOST:PORT",
    help="Address at which clients connect, tcp://HOST:PORT.",
)  # fmt: skip
@click.option(
    "--keys", type=click.Path(path_type=Path), metavar="FILE",
    help="Encrypt with the CURVE keys of FILE. If FILE does not exist, the command writes it, and "
    "FILE.client for the client.  [default: no encryption]",
)  # fmt: skip
@click.option(
    "--build", "kind", type=click.Choice(list(FLAGS)), default=PLAIN, show_default=True,
    help="Build of the C code: plain, sanitize or coverage.",
)  # fmt: skip
@click.option(
    "--runs", type=click.IntRange(min=1), metavar="N",
    help="Exit after serving N runs.  [default: run until Ctrl-C]",
)  # fmt: skip
@reports_errors
def serve(interface: str, endpoint: str, keys: Path | None, kind: str, runs: int | None) -> None:
    """Run the C code of INTERFACE for a simulation on another machine.

    The command builds the C code and starts a new worker process for each client that connects,
    until Ctrl-C. An address that other machines can reach needs --keys.

    \b
    Examples:
      rtsim sil serve motor.toml --bind tcp://127.0.0.1:47811
      rtsim sil serve motor.toml --bind tcp://0.0.0.0:47811 --keys motor.keys
    """
    from hitl.building.build import build
    from hitl.worker.remote import Server
    from rtsim.core.net.sockets import check_address, keys_of

    check_address(endpoint, encrypted=keys is not None)
    held = None if keys is None else keys_of(keys)
    server = Server(build(interface, kind), endpoint, held, click.echo)
    try:
        click.echo(f"{interface} ({kind}) is served at {endpoint}; Ctrl-C ends the server")
        server.serve(runs)
    except KeyboardInterrupt:
        click.echo("ended")
    finally:
        server.close()
