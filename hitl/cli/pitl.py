"""The command ``rtsim pitl``, for a controller on a board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from hitl.boards.known import DEFAULT_URL
from hitl.boards.urls import parse_url
from hitl.cli.common import (
    failure_option,
    late_option,
    link_option,
    refuse_warnings,
    warnings_option,
    watch_of,
)
from hitl.cli.testing import ComparisonOptions, comparing, comparison_options
from hitl.comparison.execution import hello
from hitl.comparison.on_boards import Met, OnBoards, check_faults, in_words, meet, stages
from hitl.protocol.line import in_words as rate_in_words
from rtsim.cli.common import json_option, reports_errors
from rtsim.cli.terminal import console
from rtsim.runs.request import MAX
from rtsim.scenario.scenario import Scenario

SHIPPED = {
    "f16": ("autopilot", "firmware/core/f16_control.toml:single"),
    "unstable": ("controller", "firmware/core/unstable_control.toml:single"),
}
"""Default controller and interface file of each shipped scenario."""


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
    help="Run the C code of INTERFACE in place of controller NAME, as in "
    "controller=pid.toml:single. If the scenario has only one controller, NAME= can be left out.  "
    "[default: for f16 and unstable, the interface file that ships with rtsim]",
)
@click.option(
    "--firmware",
    type=click.Path(path_type=Path),
    metavar="FILE.hex",
    help="Intel HEX image that the emulated board runs.  [default: the firmware of INTERFACE]",
)
@late_option
@failure_option
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
    """Compare a controller on a board with the same C code here, and with its reference model.

    SCENARIO is a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION]. First, SCENARIO runs
    with its reference model. In the open loop, recorded inputs are passed step by step to the
    reference controller, the C code and the board. In the closed loop, SCENARIO runs with the C
    code, and then with the board. The board runs in lockstep; with --pace 1.0, it runs in real
    time. Exit status 0 if all values agree and all requirements hold, 1 if a value differs by more
    than its tolerance or a requirement is violated, 2 if this was not decided, for example because
    no output changed, a requirement is undecided or the host failed.

    \b
    Examples:
      rtsim pitl f16 --latency 0.005 --until 2
      rtsim pitl scenario.py -c motor.toml:float --latency 0.005 -o board.mcap
      rtsim pitl scenario.py -c motor.toml:float --latency 0.005 --board serial:///dev/ttyACM0
    """
    with comparing(asked, as_json) as work:
        line, scenario = work.line, work.scenario
        given = work.parse(_with_shipped(controllers, asked.scenario, scenario))
        line.say(f"building {', '.join(given.values())} …")
        paced = asked.pace != MAX and not asked.open_only
        both = stages(given, url, paced=paced, firmware=firmware, link=link)
        refuse_warnings(both.warnings, strictness, as_json)
        if not asked.open_only:
            check_faults(scenario, both.board, url)

        def met() -> None:
            line.say(f"connecting to {url} …")
            found = meet(both.board, scenario)
            line.close()
            if not as_json:
                _print_met(url, both, found)

        watch = replace(watch_of(line), checked=met)
        result = work.run(both.stages, watch, late=late, failure=failure)
    images = {
        name: {"path": str(image.path), **image.to_json()} for name, image in both.images.items()
    }
    work.report(result, as_json, firmware=images)


def _with_shipped(
    controllers: tuple[str, ...], reference: str, scenario: Scenario
) -> tuple[str, ...]:
    name, interface = SHIPPED.get(reference, ("", ""))
    if not controllers and name in scenario.components:
        return (f"{name}={interface}",)
    return controllers


def _print_met(url: str, both: OnBoards, met: dict[str, Met]) -> None:
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
