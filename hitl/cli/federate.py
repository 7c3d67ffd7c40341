"""The command ``rtsim federate``: a run as part of a HELICS co-simulation."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click

from hitl.federates import federated
from rtsim.cli.common import INTERRUPTED, json_option, reports_errors, sigterm_interrupts
from rtsim.cli.options import option, scenario_names, with_options_as
from rtsim.cli.run_options import RunOptions
from rtsim.cli.running import RunSummary, load_run, open_recorder, print_outputs
from rtsim.core.tag import NS_PER_S
from rtsim.runs.stepping import Simulation

_OPTIONS = (
    click.argument("scenario", shell_complete=scenario_names),
    option("--seed", help="Seed of all random streams.  [default: 0]"),
    option("--set"),
    option("--faults"),
    option("--require"),
    option("--until"),
    option("--record"),
    option("--force", help="Overwrite an existing recording."),
    option("--plain"),
)


def _tell(notice: str) -> None:
    click.echo(notice, err=True)


@contextmanager
def _without_the_end_of_helics() -> Iterator[None]:
    """Context manager after whose interruption the process ends without HELICS' destructors.

    These destructors wait for several seconds for a broker that does not answer.
    """
    interrupted = False

    def end() -> None:
        if interrupted:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(INTERRUPTED)

    atexit.register(end)
    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        if not interrupted:
            atexit.unregister(end)


@click.command()
@lambda command: with_options_as(RunOptions, "options", command, _OPTIONS)
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG.json")
@json_option
@reports_errors
def federate(options: RunOptions, config: Path, as_json: bool) -> None:
    """Run SCENARIO as a federate of a HELICS co-simulation (docs/cosimulation.md).

    CONFIG.json is HELICS' configuration of a value federate. The entry "info" of a publication or
    subscription names a signal of the run. The federation grants the simulated time.

    \b
    Example:
      helics_broker --federates 2 &
      rtsim federate motor.py motor.json -o motor.mcap &
      rtsim federate drive.py drive.json -o drive.mcap

    Exit status: 0 if the run reached its end, 1 if a requirement was violated, 2 after an error,
        130 after an interruption.
    """
    with sigterm_interrupts(), ExitStack() as stack:
        scenario, seed = load_run(
            options.scenario, options.settings, None, options.seed, options.faults
        )
        scenario.require_all(*options.requirements)
        name = Path(options.scenario.partition(".py")[0]).stem
        recorder = stack.enter_context(open_recorder(options.path, name, options.force))
        simulation = stack.enter_context(
            Simulation(
                scenario, seed=seed, until=options.until, recorder=recorder,
                compile=options.compilation,
            )
        )  # fmt: skip
        stack.enter_context(_without_the_end_of_helics())
        found = federated(simulation, config, None if as_json else _tell)
    summary = RunSummary(options, found.run)
    told = {
        "name": found.name, "exchanges": found.exchanges, "waited_s": found.waited_ns / NS_PER_S
    }  # fmt: skip

    def rest() -> None:
        print_outputs(found.run.system)
        click.echo(
            f"federate {found.name}: {found.exchanges} exchanges, waited "
            f"{found.waited_ns / NS_PER_S:.3g} s for the federation"
        )

    if as_json:
        summary.show_json(federate=told)
    else:
        summary.print(rest)
    summary.exit()
