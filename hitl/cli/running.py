"""The commands ``rtsim sil run``, ``case`` and ``serve``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from hitl.building.build import FLAGS, PLAIN, build
from hitl.cli.common import (
    Counting,
    build_option,
    controllers_option,
    counting,
    coverage_option,
    failure_option,
    in_c,
    keys_option,
    late_option,
    link_option,
    parse_controllers,
    refuse_no_latency,
)
from hitl.comparison.execution import Execution
from hitl.comparison.verdict import mismatches, too_slow
from hitl.controllers.sil import SilController
from hitl.worker.remote import Server
from rtsim.cli.common import FAILED, json_option, reports_errors, show_result
from rtsim.cli.options import trust_option
from rtsim.cli.run_options import (
    Given,
    RunOptions,
    allowed,
    latencies_to_json,
    latency_option,
    parse_latencies,
    print_latencies,
    run_options,
)
from rtsim.cli.running import run_command
from rtsim.cli.terminal import Column, console, print_table
from rtsim.components.controller_task import ControllerTask
from rtsim.core.net.sockets import check_address, keys_of
from rtsim.runs.request import MAX
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent

_COLUMNS = (
    Column("controller"),
    Column("interface", drop=1),
    Column("steps", number=True),
    Column("late", number=True),
    Column("missed", number=True),
)


@click.command("run")
@run_options
@controllers_option
@build_option
@coverage_option
@keys_option
@link_option
@latency_option
@late_option
@failure_option
@json_option
@reports_errors
def run_in_c(
    options: RunOptions,
    controllers: tuple[str, ...],
    kind: str,
    counted_into: Path,
    keys: Path | None,
    link: str | None,
    latencies: tuple[str, ...],
    late: str | None,
    failure: str | None,
    as_json: bool,
) -> None:
    """Run SCENARIO with C code in place of its controllers.

    SCENARIO is a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION]. Without -o, the
    recording is runs/NAME-NNN.mcap. 'rtsim replay' repeats a recorded run without the C code. Exit
    status: 0 if the run reached its end, 1 if a requirement was violated or --strict was not met, 2
    after an error, for an undecided requirement or without coverage.

    \b
    Examples:
      rtsim sil run scenario.py -c motor.toml -o c.mcap
      rtsim sil run scenario.py -c motor.toml --pace 1.0 --latency 0.005
    """
    given: dict[str, str] = {}
    times: Given = {}
    notes: list[str] = []
    counted = Counting()
    stack = ExitStack()

    def prepare(scenario: Scenario) -> None:
        nonlocal counted, times
        given.update(parse_controllers(controllers, scenario))
        times = parse_latencies(latencies, list(given))
        made = {name: in_c(reference, kind, keys, link) for name, reference in given.items()}
        for name, controller in made.items():
            part = scenario.of(ControllerComponent)[name]
            notes.extend(mismatches(name, part.controller, controller, part.period))
            scenario.replace_controller(
                name, controller, latency=allowed(times).get(name), late=late, failure=failure
            )
            notes.extend(too_slow(name, part.compute, part.period))
        if options.pace != MAX:
            for name in given:
                refuse_no_latency(
                    scenario.of(ControllerComponent)[name],
                    f"in real time the C code of {name}",
                    "   (or run as fast as possible: --pace max)",
                )
        counted = stack.enter_context(
            counting(kind, [c.build for c in made.values()], counted_into)
        )

    with stack:
        summary = run_command(options, quiet=as_json, prepare=prepare)
    summary.write_junit(options.junit)
    tasks = [task for task in summary.result.system.controllers if task.name in given]
    if as_json:
        report = {task.name: _to_json(task, given[task.name]) for task in tasks}
        more = {"build": kind, "controllers": report, "notes": notes, **counted.to_json()}
        more |= {"latency": latencies_to_json(times)} if times else {}
        status = summary.status or (FAILED if counted.failed else 0)
        show_result({**summary.to_json(), **more}, status, summary.why or counted.failed)
    else:
        summary.print(lambda: _print(tasks, given, times, counted))
        for note in notes:
            console().print(f"note: {note}", style="yellow", highlight=False)
    summary.exit()
    if counted.failed:
        sys.exit(FAILED)


def _execution(task: ControllerTask) -> Execution | None:
    assert isinstance(task.controller, SilController)
    if _kind(task) != PLAIN:
        return None
    return Execution.of(task.controller.took_ns, task.period)


def _to_json(task: ControllerTask, interface: str) -> dict[str, Any]:
    execution = _execution(task)
    return {
        "interface": interface,
        "steps": task.sequence,
        "late": task.lates,
        "missed": task.missed,
        "failed": task.failed,
        "execution": None if execution is None else execution.to_json(),
    }


def _kind(task: ControllerTask) -> str:
    assert isinstance(task.controller, SilController)
    return task.controller.build.kind


def _print(
    tasks: list[ControllerTask], given: dict[str, str], times: Given, counted: Counting
) -> None:
    out = console()
    kinds = sorted({_kind(task) for task in tasks})
    rows = [
        [task.name, given[task.name], str(task.sequence), str(task.lates), str(task.missed)]
        for task in tasks
    ]
    print_table(out, f"In C ({', '.join(kinds)})", _COLUMNS, rows)
    for task in tasks:
        if task.failed is not None:
            out.print(f"{task.name} failed: {task.failed}", soft_wrap=True, markup=False)
        execution = _execution(task)
        if execution is not None:
            out.print(f"{task.name}: {execution.in_words}", soft_wrap=True, markup=False)
    for kind in kinds:
        if kind != PLAIN:
            out.print(f"execution times are not measured for a {kind} build; use --build {PLAIN}")
    print_latencies(times)
    counted.print(out)


# The command ``rtsim sil case``, which runs the steps of a saved case again.


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--build",
    "kind",
    type=click.Choice(list(FLAGS)),
    help="Kind of build with which the case is repeated.  [default: the build that the case was "
    "saved from]",
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
    """Repeat the steps of a controller that are saved in FILE.

    The file contains the inputs of a controller up to a step that failed. The command compiles the
    present C code, and executes the steps in a new worker. For C code outside the current project,
    --trust is necessary (docs/trust.md). Exit status: 0 if the C code no longer fails, 1 if it
    fails again, 2 if the result is undecided.

    \b
    Examples:
      rtsim sil case cases/motor-1500000000-plain.npz
      rtsim sil case cases/motor-1500000000-plain.npz --build sanitize
    """
    from hitl.controllers.restore import load_and_rerun  # imports the boards

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


# The command ``rtsim sil serve``, which runs C code for another machine.


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
@build_option
@click.option(
    "--runs", type=click.IntRange(min=1), metavar="N",
    help="Exit after serving N runs.  [default: run until Ctrl-C]",
)  # fmt: skip
@reports_errors
def serve(interface: str, endpoint: str, keys: Path | None, kind: str, runs: int | None) -> None:
    """Run C code for a simulation on another machine.

    The command builds the C code of INTERFACE, and starts a new process for each client, until
    Ctrl-C. An address that other machines can reach needs --keys.

    \b
    Examples:
      rtsim sil serve motor.toml --bind tcp://127.0.0.1:47811
      rtsim sil serve motor.toml --bind tcp://0.0.0.0:47811 --keys motor.keys
    """
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
