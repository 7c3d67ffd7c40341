"""``rtsim run``: fly a scenario, paced or as fast as possible, and record it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import INTERRUPTED, NO, console, json_option, reports_errors, show_json
from rtsim.clock import stopwatch
from rtsim.errors import ScenarioError
from rtsim.loading import load_scenario
from rtsim.record.file import FileRecorder
from rtsim.record.tape import NullRecorder, Recorder
from rtsim.simulation import Outcome, Pace, Progress, simulate
from rtsim.tag import NS_PER_S
from rtsim.timing.policy import parse_policy
from rtsim.timing.scheduling import Request

_EVERY_NS = 200_000_000


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
    overrun: str,
    realtime: bool,
    plain: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO: a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION].

    The recording goes to runs/NAME-NNN.mcap unless -o says otherwise.
    """
    loaded = load_scenario(scenario, parse_settings(settings))
    chosen = Pace.of(
        pace,
        policy=parse_policy(overrun),
        scheduling=Request.realtime() if realtime else Request(),
    )
    if path is None and not no_record:
        path = free_path(Path("runs"), Path(scenario.partition(".py")[0]).stem)
    recorder: Recorder = NullRecorder() if path is None else FileRecorder(path, stopwatch)
    line = ProgressLine(enabled=sys.stderr.isatty() and not as_json)
    try:
        outcome = simulate(
            loaded,
            seed=seed,
            pace=chosen,
            until=until,
            recorder=recorder,
            compile=not plain,
            observe=line.show,
        )
    finally:
        line.end()
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


def free_path(folder: Path, name: str) -> Path:
    """The first of ``name-001.mcap``, ``name-002.mcap`` … that does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"cannot make the folder {folder}: {error}; use -o PATH") from error
    number = 1
    while (folder / f"{name}-{number:03d}.mcap").exists():
        number += 1
    return folder / f"{name}-{number:03d}.mcap"


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


def _print(summary: dict[str, Any], outcome: Outcome) -> None:
    out = console()
    out.print(
        f"{summary['scenario']}: {summary['simulated_s']:g} s in {summary['wall_s']:.3g} s "
        f"({summary['times_real_time']:.4g} times real time); late {outcome.late}, "
        f"missed {outcome.missed}" + (", interrupted" if outcome.reason == "interrupted" else "")
    )
    if outcome.certificate.rate != "max":
        out.print(outcome.certificate.table())
    if summary["recording"]:
        out.print(f"recording: {summary['recording']}")
        out.print(f"next: rtsim report {summary['recording']}")


class ProgressLine:
    """One line on the terminal, rewritten five times a second from the slack of a frame.

    Text is made and written here by hand: a progress bar of a library takes milliseconds to draw,
    and this is the loop's own thread.
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._next = 0
        self._shown = (0, 0)
        """Wall and simulated ns when the line was last written: the rate is that since then."""

    def show(self, progress: Progress) -> None:
        now = stopwatch()
        if not self._enabled or now < self._next:
            return
        self._next = now + _EVERY_NS
        pacer = progress.pacer
        then, ns = self._shown
        self._shown = (now, progress.ns)
        rate = (progress.ns - ns) / (now - then) if then else 0.0
        text = (
            f"\r{progress.ns / NS_PER_S:9.2f} / {progress.until_ns / NS_PER_S:g} s  x{rate:<8.4g}"
        )
        if pacer.clock.paced:
            text += (
                f" margin {pacer.margin_ns / 1e6:7.3f} ms  overruns {sum(pacer.overruns.values())}"
            )
        sys.stderr.write(text + "\x1b[K")
        sys.stderr.flush()

    def end(self) -> None:
        if self._enabled:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
