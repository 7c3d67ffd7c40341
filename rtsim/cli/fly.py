"""``rtsim fly``, ``tasks`` and ``measure``: fly a scenario by hand, if desired with a task."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, show_json, show_result
from rtsim.cli.options import option
from rtsim.cli.recordings import say_cut_off
from rtsim.cli.run_options import RunOptions, person_options
from rtsim.cli.running import run_command
from rtsim.cli.terminal import Column, console, print_table
from rtsim.cli.window import (
    HERE,
    OutsideWindow,
    Viewable,
    Viewed,
    flightgear_options,
    place_options,
    quiet_option,
    what_became_of,
)
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.signals import Signal
from rtsim.models.piloting.findings import Findings
from rtsim.models.piloting.task import KINDS, kind_of, known_tasks, measure, pinned, task_named
from rtsim.pilot.processes import Window
from rtsim.pilot.views import FLYABLES, Flyable
from rtsim.record.reading import Recording
from rtsim.scenario.loading import find_maker
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ExternalInputComponent

NO_TASK = "none"
"""Value of ``--task`` for a flight without a task."""


@click.command(cls=Viewable)
@person_options
@option(
    "--mapping",
    help="TOML file that maps axes and keys to signals; 'rtsim joystick calibrate' writes such a "
    "file. [default: rtsim/pilot/devices/aircraft.toml]",
)
@click.option(
    "--task",
    metavar="NAME|FILE.toml",
    help="Task of the pilot. 'rtsim tasks' lists the names; 'none' means no task.  [default: gates "
    "for f16, otherwise none]",
)
@click.option(
    "--latency",
    metavar="SECONDS",
    help="Latency between stick and aircraft, s.  'rtsim ctl set link.latency SECONDS' changes it "
    "in flight.",
)
@json_option
@reports_errors
@partial(place_options, view=HERE)
@quiet_option
@flightgear_options
def fly(
    options: RunOptions,
    mapping: Path | None,
    task: str | None,
    latency: str | None,
    window: Window | None,
    quiet: bool,
    outside: OutsideWindow | None,
    as_json: bool,
) -> None:
    """Fly SCENARIO by hand: f16, quadcopter, aerosonde, betaflight, or FILE.py.

    If SCENARIO is a FILE.py, the scenario in the file must declare an external input.

    Use a stick, a gamepad, or keyboard and mouse; F1 in the window shows the keys. Closing the
    window does not end the run; 'rtsim view' opens a new window. Esc or Ctrl-C ends the run. 'rtsim
    replay' repeats the recorded run with exactly the same numbers.

    \b
    Examples:
      rtsim fly f16
      rtsim fly f16 --mapping joystick.toml -o flight.mcap
      rtsim fly f16 --task pitch-tracking --latency 0.1
      rtsim fly f16 --flightgear localhost
      rtsim fly betaflight
      rtsim fly f16 --headless --frames pictures --until 5

    Exit status: 0 for success, 1 if a requirement is violated or --strict is not met, 2 for an
        error or an undecided requirement, 130 after an interruption.
    """
    flyable = FLYABLES.get(options.scenario, Flyable(options.scenario))
    settings = task_settings(flyable, options.settings, task, latency)
    options = replace(options, scenario=flyable.scenario, settings=settings)
    window = replace(window or Window(), mapping=mapping, quiet=quiet)
    if window.served is not None and (mapping is not None or quiet):
        raise ScenarioError(
            "--mapping and --quiet do not apply to a window on another machine; "
            "give them to rtsim view on that machine"
        )
    options = replace(options, watched=window.served is None)
    viewed = Viewed(window, external_input_of, outside)
    summary = run_command(options, quiet=as_json, watch=viewed.watch)
    figures = viewed.figures(summary.result.reason)
    found, why = measured(summary.result.path)
    if as_json:
        told = {} if found is None and not why else {"task": found.to_plain() if found else why}
        summary.show_json(pilot=figures, **told, **viewed.outside)
    else:
        summary.print(lambda: _print_flight(figures, found, why, viewed.told_outside))
    summary.exit()


def task_settings(
    flyable: Flyable, settings: tuple[str, ...], task: str | None, latency: str | None
) -> tuple[str, ...]:
    """Return the scenario's arguments ``settings`` with ``task`` and ``latency`` added.

    Raises :class:`ScenarioError` if the scenario does not have these arguments.
    """
    typed = {text.partition("=")[0].strip() for text in settings}
    given = {"task": task, "latency": latency}
    for name, value in given.items():
        if value is not None and name in typed:
            raise ScenarioError(
                f"{name} is given by --{name} and by --set; leave one of the two out"
            )
    if task is None and "task" not in typed:
        given["task"] = flyable.task
    if given["task"] == NO_TASK:
        given["task"] = ""
    wanted = {name: value for name, value in given.items() if value}
    known = inspect.signature(find_maker(flyable.scenario)).parameters
    for name in wanted:
        if name not in known:
            raise ScenarioError(
                f"scenario {flyable.scenario} has no argument {name}, so --{name} does not apply; "
                f"give its function the arguments task and latency, and call add_flying "
                "(docs/tasks.md)"
            )
    if "task" in wanted:
        wanted["task"] = pinned(str(wanted["task"]))
    return (*settings, *(f"{name}={value}" for name, value in wanted.items()))


def measured(path: Path | None) -> tuple[Findings | None, str]:
    """Return the pilot's measures for the task in a recording, or why there are none.

    Without a recording or a task, the result is ``(None, "")``.
    """
    if path is None:
        return None, ""
    try:
        recording = Recording.open(path)
        return (measure(recording), "") if kind_of(recording) in KINDS else (None, "")
    except RtsimError as error:
        return None, f"the task was not measured: {error}"


def _print_flight(
    figures: dict[str, Any], found: Findings | None, why: str, outside: Sequence[str]
) -> None:
    _print_latency(figures, outside)
    if found is not None:
        print_findings(found)
    elif why:
        click.echo(why)


def external_input_of(scenario: Scenario) -> str:
    """Return the name of the only external input of a scenario, which a joystick can control.

    Each signal of the input must be a scalar with a lower and an upper limit. Raises
    ``ScenarioError`` if no joystick can control the input, or if the scenario does not have exactly
    one external input.
    """
    external_inputs = scenario.of(ExternalInputComponent)
    if len(external_inputs) != 1:
        raise ScenarioError(
            f"{scenario.name} has {len(external_inputs)} external inputs "
            f"({', '.join(sorted(external_inputs)) or 'none'}), but rtsim fly needs exactly "
            "one, which a person controls; declare it with scenario.external_input(name, "
            "signals, device)"
        )
    ((name, part),) = external_inputs.items()
    for signal in part.external_input.signals:
        _check_moved(signal, f"{name}.{signal.name}")
    return name


def _check_moved(signal: Signal, name: str) -> None:
    if signal.shape:
        raise ScenarioError(
            f"{name} is an array of {signal.size} elements, but a stick can move only scalar "
            "signals; declare a scalar signal for each element"
        )
    if not signal.low < signal.high:
        raise ScenarioError(
            f"{name} has the limits {signal.low:g} to {signal.high:g}, so a stick cannot move "
            "this signal; declare low < high"
        )


_LATENCIES = {
    "input_to_step": "input to step",
    "input_to_picture": "input to picture",
    "interpolation": "interpolation delay of the picture",
}


_NOT_COUNTED = (
    "inputs count from the X server's time of the event; without one, from the look at the devices "
    "before it; a device's own delay (switch, filter, USB poll) is not included"
)


def _print_latency(latency: dict[str, Any], more: Sequence[str] = ()) -> None:
    for name, says in _LATENCIES.items():
        row = latency[name]
        if not row["count"]:
            if name != "interpolation":
                click.echo(f"{says}: the stick was not moved")
            continue
        median, p95, most = (row[key] / 1e6 for key in ("median_ns", "p95_ns", "max_ns"))
        click.echo(f"{says}: median {median:.2f} ms, 95 % {p95:.2f} ms, maximum {most:.2f} ms")
    if latency["input_to_step"]["count"]:
        click.echo(_NOT_COUNTED)
    for line in (*what_became_of(latency), *more):
        click.echo(line)
    if latency["silences"]:
        times = latency["silences"]
        click.echo(
            f"the window did not answer {times} times: the stick kept its position, then went to "
            "its fail-safe position"
        )


@click.command()
@json_option
@reports_errors
def tasks(as_json: bool) -> None:
    """List the tasks that a pilot can fly with 'rtsim fly SCENARIO --task NAME'.

    \b
    Examples:
      rtsim tasks
      rtsim tasks --json
    """
    rows: list[dict[str, Any]] = []
    for name, title in known_tasks().items():
        task = task_named(name)
        rows.append(
            {"name": name, "kind": task.kind, "title": title, "needs": list(task.needs),
             "seconds": task.duration}
        )  # fmt: skip
    if as_json:
        show_json(rows)
        return
    columns = (
        Column("name"), Column("kind"), Column("seconds", number=True), Column("title", fold=True),
        Column("signals that it needs", fold=True),
    )  # fmt: skip
    cells = [
        (str(r["name"]), str(r["kind"]), f"{r['seconds']:g}", str(r["title"]),
         ", ".join(r["needs"]))
        for r in rows
    ]  # fmt: skip
    print_table(console(), "Tasks", columns, cells)


@click.command("measure")
@click.argument("recording", type=click.Path(path_type=Path))
@json_option
@reports_errors
def measure_command(recording: Path, as_json: bool) -> None:
    """Print how well the pilot in RECORDING did the task.

    The measures depend on the task; examples are the tracking error, the crossover frequency and
    the phase margin.

    \b
    Examples:
      rtsim measure runs/f16-001.mcap
      rtsim measure runs/f16-001.mcap --json
    """
    recorded = Recording.open(recording)
    found = measure(recorded)
    if as_json:
        show_result({"recording": str(recording), "truncated": recorded.truncated,
                     "task": found.to_plain()})  # fmt: skip
        return
    say_cut_off(recorded)
    print_findings(found)


def print_findings(found: Findings) -> None:
    out = console()
    cells = [(row.said, row.shown, row.unit.replace("1", "", 1) if row.unit == "1" else row.unit)
             for row in found.rows]  # fmt: skip
    whole = "" if found.complete else ", incomplete"
    columns = (Column("measure", fold=True), Column("value", number=True), Column("unit"))
    print_table(out, f"Task {found.kind}{whole}", columns, cells)
    for note in found.notes:
        click.echo(note)
