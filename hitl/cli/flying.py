"""The command ``rtsim sil run``: run a scenario with C in place of its controllers."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from hitl.building.build import PLAIN
from hitl.cli.common import (
    Counting,
    build_option,
    controllers_option,
    counting,
    coverage_option,
    in_c,
    keys_option,
    link_option,
    parse_controllers,
)
from hitl.comparison.execution import Execution
from hitl.comparison.verdict import mismatches, too_slow
from hitl.controllers.sil import SilController
from rtsim.cli.common import FAILED, json_option, reports_errors, show_result
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
from rtsim.components.controller_task import FAILURE_POLICIES, LATE_POLICIES, ControllerTask
from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError
from rtsim.runs.request import MAX
from rtsim.scenario.controller_component import ControllerComponent
from rtsim.scenario.scenario import Scenario

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
@click.option(
    "--late",
    type=click.Choice(LATE_POLICIES),
    default=None,
    help="Policy for a late answer: 'hold' keeps using the last answer, 'fail' treats the "
    "controller as failed, 'stretch' stops simulated time until the answer arrives.  "
    "[default: the policy of the scenario]",
)
@click.option(
    "--failure",
    type=click.Choice(FAILURE_POLICIES),
    default=None,
    help="Policy for a crash of the C code: 'end' ends the run, 'hold' continues it with the last "
    "answer.  [default: the policy of the scenario]",
)
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
    """Run SCENARIO with C in place of its controllers.

    SCENARIO is a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION]. Without -o the
    recording is runs/NAME-NNN.mcap. 'rtsim replay' repeats the recorded run without the C code.
    Exit status 0 if the run reached its end, 1 if --strict was not met, 2 if the run failed or
    coverage could not be counted.

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
                _check_latency(name, scenario)
        counted = stack.enter_context(
            counting(kind, [c.build for c in made.values()], counted_into)
        )

    with stack:
        summary = run_command(options, quiet=as_json, prepare=prepare)
    tasks = [task for task in summary.result.system.controllers if task.name in given]
    if as_json:
        told = {task.name: _told(task, given[task.name]) for task in tasks}
        more = {"build": kind, "controllers": told, "notes": notes, **counted.to_json()}
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


def _check_latency(name: str, scenario: Scenario) -> None:
    """Refuse a latency of 0 in real time, because the C code needs time to answer."""
    part = scenario.of(ControllerComponent)[name]
    if isinstance(part.compute, Fixed) and part.compute.constant == (0,):
        half = 0.005 if part.period is None else part.period.seconds / 2
        raise ScenarioError(
            f"in real time the C code of {name} needs a compute latency > 0 s; give one, for "
            f"example half the period: --latency {half:g}   (or run as fast as possible: "
            "--pace max)"
        )


def _execution(task: ControllerTask) -> Execution | None:
    """Return execution times in host time, or ``None`` if the C code is not a local plain build."""
    assert isinstance(task.controller, SilController)
    if _kind(task) != PLAIN:
        return None
    return Execution.of(task.controller.took_ns, task.period)


def _told(task: ControllerTask, interface: str) -> dict[str, Any]:
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
