"""The command ``rtsim pitl``: compare a controller on a board with its C code on this host."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import click

from hitl.boards.known import DEFAULT_URL
from hitl.boards.urls import parse_url
from hitl.cli.common import link_option, parse_controllers, refuse_warnings, warnings_option
from hitl.cli.testing import ComparisonOptions, comparison_options, watch_of
from hitl.comparison.back_to_back import Ladder, climb
from hitl.comparison.execution import hello
from hitl.comparison.on_boards import Met, OnBoards, check_faults, in_words, meet, rungs
from hitl.firmware import Firmware
from hitl.protocol.line import in_words as rate_in_words
from hitl.results.columns import faults_to_json
from hitl.results.table import Tables
from rtsim.cli.common import json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import parse_settings
from rtsim.cli.run_options import Given, allowed, parse_latencies, print_latencies
from rtsim.cli.running import open_recorder
from rtsim.cli.terminal import console
from rtsim.components.controller_task import FAILURE_POLICIES, LATE_POLICIES
from rtsim.equations.compiling import announced
from rtsim.runs.progress import ProgressLine
from rtsim.runs.request import MAX
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

SHIPPED = {
    "f16": ("autopilot", "firmware/core/f16_control.toml:single"),
    "unstable": ("controller", "firmware/core/unstable_control.toml:single"),
}
"""The default controller and interface file of each shipped scenario."""


@click.command()
@comparison_options
@click.option(
    "--board",
    "url",
    default=DEFAULT_URL,
    show_default=True,
    metavar="URL",
    help=f"Board that runs the C code: {DEFAULT_URL}[?backend=simavr] is an emulated board, "
    "serial:///dev/ttyACM0 and serial://COM3 are real boards.",
)
@click.option(
    "-c",
    "--controller",
    "controllers",
    multiple=True,
    metavar="[NAME=]INTERFACE",
    help="Run the C code of INTERFACE in place of controller NAME: controller=pid.toml:single.  "
    "[default: for f16 and unstable, the interface file that ships with rtsim]",
)
@click.option(
    "--firmware",
    type=click.Path(path_type=Path),
    metavar="FILE.hex",
    help="Intel HEX image that the emulated board runs.  [default: the firmware of INTERFACE]",
)
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
    help="Policy for a failure of the controller: 'end' ends the run, 'hold' continues it with the "
    "last answer.  [default: the policy of the scenario]",
)
@link_option
@warnings_option
@json_option
@reports_errors
def pitl(
    asked: ComparisonOptions,
    url: str,
    controllers: tuple[str, ...],
    firmware: Path | None,
    late: str | None,
    failure: str | None,
    link: str | None,
    strictness: str,
    as_json: bool,
) -> None:
    """Compare a controller on a board with its C code on this host and its reference model.

    SCENARIO is a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION]. First, SCENARIO runs
    with its reference model. In the open loop, the recorded inputs go step by step through the
    reference model, the C code on this host and the board. In the closed loop, SCENARIO runs with
    the C code on this host and then with the board: in lockstep, or in real time with --pace 1.0.
    Exit status 0 if all agree, 1 if a value differs by more than its tolerance, 2 if this could not
    be decided, for example because no output changed or the host failed.

    \b
    Examples:
      rtsim pitl f16 --latency 0.005 --until 2
      rtsim pitl scenario.py -c motor.toml:float --latency 0.005 -o board.mcap
      rtsim pitl scenario.py -c motor.toml:float --latency 0.005 --board serial:///dev/ttyACM0
    """
    asked.check()
    rules, writers = asked.rules(), asked.writers()
    line = ProgressLine(asked.scenario, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line), ExitStack() as stack, announced(line.compiling):
        loaded = load_scenario(asked.scenario, parse_settings(asked.settings))
        loaded.faults(*asked.faults)
        given = _controllers(controllers, asked.scenario, loaded)
        times = parse_latencies(asked.latencies, list(given))
        line.say(f"building {', '.join(given.values())} …")
        paced = asked.pace != MAX and not asked.open_only
        both = rungs(given, url, paced=paced, firmware=firmware, link=link)
        refuse_warnings(both.warnings, strictness, as_json)
        if not asked.open_only:
            check_faults(loaded, both.board, url)

        def met() -> None:
            """Report a board that is absent, or not the expected one, before the first run."""
            line.say(f"connecting to {url} …")
            found = meet(both.board, loaded)
            line.close()
            if not as_json:
                _print_met(url, both, found)

        recorder = None
        if asked.path is not None:
            recorder = stack.enter_context(open_recorder(asked.path, loaded.name, asked.force))
        result = climb(
            loaded,
            both.rungs,
            pace=asked.pace,
            latency=allowed(times),
            late=late,
            failure=failure,
            until=asked.until,
            seed=asked.seed,
            tolerances=rules,
            recording=asked.recording,
            closed=not asked.open_only,
            recorder=recorder,
            watch=replace(watch_of(line), checked=met),
        )
        for file, write in writers.items():
            line.say(f"writing {file} …")
            write(result, file)
    files = [*writers, *([recorder.path] if recorder is not None and recorder.started else [])]
    status, why = asked.status(result), asked.why(result)
    if as_json:
        images = {name: _told(image) for name, image in both.images.items()}
        more = {"firmware": images, "files": [str(f) for f in files]}
        show_result({**result.to_json(), **more, **faults_to_json(result.pairs)}, status, why)
    else:
        _show(result, files, times)
    sys.exit(status)


def _controllers(
    controllers: tuple[str, ...], reference: str, scenario: Scenario
) -> dict[str, str]:
    """Return the interface files by controller; without ``-c``, those shipped for the scenario."""
    name, interface = SHIPPED.get(reference, ("", ""))
    if not controllers and name in scenario.components:
        controllers = (f"{name}={interface}",)
    return parse_controllers(controllers, scenario)


def _print_met(url: str, both: OnBoards, met: dict[str, Met]) -> None:
    """Print the identity of each board, and the share of the period that the serial line needs."""
    out, line = console(), parse_url(url).description.line
    for name, one in met.items():
        out.print(f"{name} on {url}: {hello(one.board)}", soft_wrap=True, markup=False)
        if name in both.images:
            out.print(f"firmware {in_words(both.images[name])}", soft_wrap=True, markup=False)
            if times := both.images[name].board.times:
                out.print(f"times: {times}", soft_wrap=True, markup=False)
        for text in (
            rate_in_words(one.baud, one.board.clock_hz, line),
            f"before the first step: {one.budget}",
        ):
            out.print(text, soft_wrap=True, markup=False)


def _show(result: Ladder, files: list[Path], times: Given) -> None:
    out = console()
    out.print(Tables(result), crop=False)
    for file in files:
        out.print(f"written: {file}", soft_wrap=True)
    print_latencies(times)
    out.print(result.in_words.splitlines()[0], soft_wrap=True)


def _told(image: Firmware) -> dict[str, object]:
    return {
        "path": str(image.path),
        "build": f"{image.build:08x}",
        "baud": image.baud,
        "flash_bytes": image.flash_bytes,
        "ram_bytes": image.ram_bytes,
        "compiler": image.compiler,
        "prebuilt": image.prebuilt,
    }
