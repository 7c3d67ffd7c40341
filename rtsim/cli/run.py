"""``rtsim run``: fly a scenario, paced or as fast as possible, and record it."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import INTERRUPTED, NO, json_option, reports_errors, show_json
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.progress import ProgressLine
from rtsim.cli.tables import console
from rtsim.clock import stopwatch
from rtsim.compiling import announced
from rtsim.errors import ScenarioError
from rtsim.loading import load_scenario
from rtsim.record.claim import PathTaken
from rtsim.record.file import FileRecorder
from rtsim.record.tape import NullRecorder, Recorder
from rtsim.simulation import Outcome, Pace, simulate
from rtsim.tag import NS_PER_S
from rtsim.timing.policy import parse_policy
from rtsim.timing.scheduling import Request


@click.command()
@click.argument("scenario")
@click.option(
    "--pace", default="max", show_default=True, help="'max', or a rate: 1.0 is real time."
)
@click.option("--seed", default=0, show_default=True, help="Seed of every random stream.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="f16.cg=0.3, case=15")
@click.option("--until", default=None, help="Simulated seconds; default: the scenario's own.")
@click.option("-o", "--record", "path", type=click.Path(path_type=Path), help="Recording to write.")
@click.option("--no-record", is_flag=True, help="Write no recording.")
@click.option("--force", is_flag=True, help="Write over an older recording.")
@click.option(
    "--overrun", default="catch_up", show_default=True, help="catch_up:N, slip, freeze, abort"
)
@click.option("--realtime", is_flag=True, help="Ask for SCHED_FIFO, locked memory and a CPU.")
@click.option("--plain", is_flag=True, help="Run the equations as plain Python, uncompiled.")
@click.option("--strict", is_flag=True, help="Exit 1 if anything was late, missed or overran.")
@json_option
@reports_errors
def run(
    scenario: str,
    pace: str,
    seed: int,
    settings: tuple[str, ...],
    until: str | None,
    path: Path | None,
    no_record: bool,
    force: bool,
    overrun: str,
    realtime: bool,
    plain: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO: a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION].

    The recording goes to runs/NAME-NNN.mcap unless -o says otherwise.
    """
    if seed < 0:
        raise ScenarioError(f"--seed {seed}; give a whole number >= 0")
    if no_record and path is not None:
        raise ScenarioError(f"--no-record and -o {path} exclude each other; leave one of them out")
    settled = parse_settings(settings)
    chosen = Pace.of(
        pace,
        policy=parse_policy(overrun),
        scheduling=Request.realtime() if realtime else Request(),
    )
    line = ProgressLine(scenario, enabled=sys.stderr.isatty() and not as_json)
    recorder: Recorder = NullRecorder()
    with sigterm_interrupts(), closing(line), ExitStack() as stack:
        try:
            loaded = load_scenario(scenario, settled)
            if not no_record:
                file = open_recorder(path, Path(scenario.partition(".py")[0]).stem, force)
                recorder, path = stack.enter_context(file), file.path
            with announced(line.compiling):
                outcome = simulate(
                    loaded,
                    seed=seed,
                    pace=chosen,
                    until=until,
                    recorder=recorder,
                    compile=not plain,
                    observe=line.show,
                )
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(_when(line.begun)) from interrupt
    summary = summarise(scenario, outcome, path)
    if as_json:
        show_json(summary)
    else:
        _print(summary, outcome)
    if outcome.reason == "interrupted":
        sys.exit(INTERRUPTED)
    if strict and (summary["overruns"] or outcome.late or outcome.missed):
        sys.exit(NO)


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """``("a.b=1", ...)`` as a mapping."""
    out = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ScenarioError(f"--set {setting!r} has no value; write --set NAME=VALUE")
        out[name.strip()] = value.strip()
    return out


def _when(begun: bool) -> str:
    if begun:
        return "interrupted while the run was being finished; its recording may be cut off"
    return "interrupted before the run began"


def open_recorder(path: Path | None, name: str, overwrite: bool = False) -> FileRecorder:
    """Record to ``path``, or to the first of ``runs/name-001.mcap``, … that is free."""
    if path is not None:
        return FileRecorder(path, stopwatch, overwrite=overwrite)
    folder = Path("runs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"cannot make the folder {folder}: {error}; use -o PATH") from error
    for number in count(1):
        path = folder / f"{name}-{number:03d}.mcap"
        with suppress(PathTaken):  # by a run that began at the same time
            if not path.exists():
                return FileRecorder(path, stopwatch)
    raise AssertionError("there is always another number")


def summarise(scenario: str, outcome: Outcome, path: Path | None) -> dict[str, Any]:
    """What came of it, as plain data."""
    return {
        "scenario": scenario,
        "reason": outcome.reason,
        "simulated_s": outcome.ended.seconds,
        "wall_s": outcome.wall_ns / NS_PER_S,
        "times_real_time": outcome.speed,
        "overruns": sum(outcome.certificate.overruns.values()),
        "late": outcome.late,
        "missed": outcome.missed,
        "recording": None if path is None else str(path),
        "certificate": outcome.certificate.to_json(),
    }


def headline(summary: dict[str, Any]) -> str:
    """A run in one line; whoever paced it wants to know of overruns first."""
    paced = summary["certificate"]["rate"] != "max"
    return (
        f"{summary['scenario']}: {summary['simulated_s']:g} s in {summary['wall_s']:.3g} s "
        f"({summary['times_real_time']:.4g} times real time); "
        + (f"overruns {summary['overruns']}, " if paced else "")
        + f"late answers {summary['late']}, missed requests {summary['missed']}"
        + (", interrupted" if summary["reason"] == "interrupted" else "")
    )


def _print(summary: dict[str, Any], outcome: Outcome) -> None:
    out = console()
    out.print(headline(summary), soft_wrap=True)
    if outcome.certificate.rate != "max":
        out.print(outcome.certificate.table())
    if summary["recording"]:
        out.print(f"recording: {summary['recording']}", soft_wrap=True)
        out.print(f"next: rtsim report {summary['recording']}", soft_wrap=True)
