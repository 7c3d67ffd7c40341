"""The command ``rtsim sil generate``, which finds inputs for branches of C code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click

from hitl.building.build import Build, build
from hitl.cli.common import parse_controllers, watch_of
from hitl.comparison.conditions import ComparisonRequest, Conditions, inputs_of
from hitl.controllers.sil import SilController
from hitl.interface.shipped import ships
from hitl.results.columns import check_result, write
from hitl.stimuli.file import MARK, StimuliError, Table, beside
from hitl.stimuli.generating import RUNS, STEPS, Generated, Limits, generate
from rtsim.cli.common import NO, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import option, parse_settings
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.equations.compiling import announced
from rtsim.runs.progress import ProgressLine
from rtsim.scenario.loading import load_scenario

_SECONDS = 60.0
Say = Callable[[str], None]


@click.command("generate")
@click.argument("scenario", required=False)
@click.option(
    "-c",
    "--controller",
    "controller",
    metavar="[NAME=]INTERFACE",
    required=True,
    help="Generate stimuli for the C code of INTERFACE, such as motor.toml. In SCENARIO, this code "
    "replaces controller NAME, as in controller=motor.toml. If SCENARIO has only one controller, "
    "NAME= can be left out.",
)
@option("--set")
@option("--until")
@option("--seed", default=0, show_default=True, help="Seed of every random choice.")
@click.option(
    "--steps", default=STEPS, show_default=True, help="Largest number of steps of a stimulus."
)
@click.option(
    "--runs",
    default=RUNS,
    show_default=True,
    help="Largest number of input sequences that the search runs.",
)
@click.option(
    "--seconds",
    default=_SECONDS,
    show_default=True,
    help="Longest time of the search by the wall clock, s.",
)
@click.option(
    "-o",
    "--output",
    "into",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write.  [default: NAME.stimuli.toml beside the interface file NAME.toml]",
)
@json_option
@reports_errors
def generate_stimuli(
    scenario: str | None,
    controller: str,
    settings: tuple[str, ...],
    until: str | None,
    seed: int,
    steps: int,
    runs: int,
    seconds: float,
    into: Path | None,
    as_json: bool,
) -> None:
    """Find inputs for the branches of C code that a run does not reach.

    rtsim runs SCENARIO with its controllers in Python, and gives the recorded inputs of the
    controller to the C code. A stimulus is a sequence of inputs that begins at the start of the
    controller. Without SCENARIO, the command searches inputs for all branches. 'rtsim sil test'
    uses the file of stimuli in the folder of the interface file (docs/stimuli.md).

    Equal seeds give equal files, unless --seconds ends the search.

    Exit status: 0 if all branches are reached, 1 if some are not or if the C code fails, 2 if the
    search is impossible.

    \b
    Examples:
      rtsim sil generate scenario.py -c motor.toml
      rtsim sil generate -c filter.toml --seed 1 --runs 100000 --seconds 600
    """
    limits = Limits(seed, runs, steps)
    limits.check()
    if not seconds > 0:
        raise StimuliError(f"--seconds {seconds:g} is not possible; give a number > 0")
    line = ProgressLine(scenario or controller, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line), announced(line.compiling):
        made, run, values = _prepared(scenario, controller, settings, until, seed, line)
        path = _path(into, made)
        end = stopwatch() + int(seconds * NS_PER_S)

        def observe(done: int, reached: int, count: int) -> None:
            line.say(f"run {done} / {runs}: {reached} of {count} branches reached")

        result = generate(
            made, limits, run=run, values=values, goes_on=lambda: stopwatch() < end,
            observe=observe, origin=scenario or "",
        )  # fmt: skip
    files = []
    if result.stimuli.stimuli:
        write(path, result.stimuli.text())
        files.append(path)
    status = 0 if result.complete and not result.failing and not result.hazards else NO
    if as_json:
        data = {**result.to_json(), "seed": seed, "files": [str(f) for f in files]}
        show_result(data, status, result.in_words)
    else:
        _show(result, files, scenario, controller, seconds)
    sys.exit(status)


def _prepared(
    scenario: str | None,
    controller: str,
    settings: tuple[str, ...],
    until: str | None,
    seed: int,
    line: ProgressLine,
) -> tuple[Build, Table | None, dict[str, object]]:
    if scenario is None:
        for name, given in (("--set", settings), ("--until", until)):
            if given:
                raise StimuliError(
                    f"{name} applies to a scenario; type: {MARK} SCENARIO -c {controller}"
                )
        if "=" in controller:
            raise StimuliError(
                f"-c {controller} names a controller of a scenario; type: {MARK} SCENARIO -c "
                f"{controller}   (or without a scenario: -c {controller.partition('=')[2]})"
            )
        line.say(f"building {controller} …")
        return build(controller), None, {}
    loaded = load_scenario(scenario, parse_settings(settings))
    ((name, interface),) = parse_controllers([controller], loaded).items()
    line.say(f"building {interface} …")
    in_c = SilController(build(interface))
    conditions = Conditions(
        loaded, (name,), ComparisonRequest(until=until, seed=seed, watch=watch_of(line))
    )
    taken = conditions.taking_over({name: in_c})[name]
    assert isinstance(taken, SilController)
    recording = conditions.run_reference()
    run, _ = inputs_of(recording, name, in_c.inputs, conditions.until_ns)
    return in_c.build, run, dict(taken.values)


def _path(given: Path | None, made: Build) -> Path:
    if given is None and ships(made.interface.path):
        name = beside(made.interface).name
        raise StimuliError(
            f"{made.interface.path.name} ships with rtsim, so nothing is written beside it; name "
            f"a file: -o {name}   (and for the comparison: rtsim sil test --stimuli {name})"
        )
    path = given or beside(made.interface)
    check_result(path, MARK.encode(), "a file of stimuli")
    return path


def _show(
    result: Generated, files: list[Path], scenario: str | None, controller: str, seconds: float
) -> None:
    count = len(result.branches)
    if scenario is not None and count:
        click.echo(f"the run reaches {int(result.begun.sum())} of {count} branches")
    for number, one in enumerate(result.stimuli.stimuli, 1):
        steps = f"{len(one.steps)} step{'s' * (len(one.steps) != 1)}"
        fails = f" the C code fails: {one.fails}" if one.fails else ""
        click.echo(f"stimulus {number}, {steps}:{fails}")
        for text in one.reaches:
            click.echo(f"  {text}")
    for missing in result.open:
        click.echo(
            f"open: {missing.branch.in_function}: not reached in {result.runs} runs; "
            f"{missing.nearest}"
        )
    for far in result.far:
        click.echo(f"not with little to spare: {far.branch.just}; {far.nearest}")
    for text in result.unstable:
        click.echo(f"reached once, and not when the stimulus ran again: {text}")
    if not result.in_full:
        click.echo(
            f"the search ended after {seconds:g} s; to go on, give more --seconds; to repeat it: "
            f"--runs {result.runs}"
        )
    for text in result.hazards:
        click.echo(f"wrong: {text}")
    click.echo(result.in_words)
    for file in files:
        click.echo(f"written: {file}")
        chosen = "" if file.name.endswith(".stimuli.toml") else f" --stimuli {file}"
        if scenario is not None:
            click.echo(f"next: rtsim sil test {scenario} -c {controller}{chosen}")
    if not files:
        click.echo(
            "no stimulus is needed, so no file was written"
            if result.complete
            else "no stimulus was found, so no file was written"
        )
