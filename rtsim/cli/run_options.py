"""The options of all commands that run a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from rtsim.cli.checkpoints import Wanted, at_option, every_option, rewind_option
from rtsim.cli.common import F
from rtsim.cli.completion import scenario_names, setting_names
from rtsim.cli.faults import faults_option
from rtsim.cli.settings import compiling_options, recording_options
from rtsim.cli.telemetry import (
    check_telemetry,
    foxglove_option,
    origin_option,
    plotjuggler_option,
    telemetry_option,
    told,
    unencrypted_option,
)
from rtsim.cli.web_page import web_option, web_page
from rtsim.core.errors import ScenarioError
from rtsim.engine.commands.inbox import Inbox
from rtsim.engine.compiled.stretch import AUTO
from rtsim.equations.compiling import CHECKED, Compilation
from rtsim.gateway.addresses import check_installed
from rtsim.runs.pace import MAX, Pace
from rtsim.scenario.scenario import Scenario
from rtsim.timing.policy import OWN_POLICIES, POLICIES, parse_policy
from rtsim.timing.scheduling import SchedulingRequest

FOR_A_PERSON = "slip:100000"
"""Overrun policy of a run with a window.  After a stall the run continues without catching up.  On
a machine that is too slow, the run continues in slow motion for a long time before the policy ends
the run."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run as they were typed; names as in :func:`run_options`."""

    scenario: str = ""
    pace: str = MAX
    seed: int = 0
    settings: tuple[str, ...] = ()
    faults: tuple[Path, ...] = ()
    until: str | None = None
    path: Path | None = None
    no_record: bool = False
    force: bool = False
    overrun: str = "catch_up"
    realtime: bool = False
    plain: bool = False
    strict: bool = False
    verbose: bool = False
    checked: bool = False
    engine: str = AUTO
    on_recorder_death: str = "continue"
    checkpoint_every: str | None = None
    checkpoint_at: tuple[str, ...] = ()
    control: bool = False
    bind: str = ""
    control_keys: Path | None = None
    plotjuggler: bool = False
    foxglove: str = ""
    foxglove_unencrypted: bool = False
    foxglove_origin: tuple[str, ...] = ()
    telemetry: tuple[str, ...] = ()
    rewind: str | None = None
    web: int | None = None
    watched: bool = field(default=False, metadata={"typed": False})
    """True if the run has a window on this machine; commands set this value, users do not type
    it."""

    def pacing(self) -> Pace:
        asked = (
            SchedulingRequest.realtime
            if self.realtime
            else SchedulingRequest.watched
            if self.watched
            else SchedulingRequest
        )
        return Pace.of(self.pace, policy=parse_policy(self.overrun), scheduling=asked())

    @property
    def reachable(self) -> bool:
        """True if clients can observe or command the run while it is in progress."""
        viewed = self.plotjuggler or self.foxglove
        kept = self.rewind is not None or self.web is not None
        return bool(self.control or self.bind or viewed or kept)

    @contextmanager
    def gateway(self, scenario: Scenario, path: Path | None) -> Iterator[Inbox | None]:
        """Open the gateway if an option needs one, and give its inbox; otherwise give ``None``."""
        if not self.reachable:
            yield None
            return
        from rtsim.gateway.addresses import listen
        from rtsim.gateway.loop import Gateway
        from rtsim.gateway.publishing import PLOTJUGGLER

        about = {"scenario": scenario.name, "recording": "" if path is None else str(path)}
        about |= told(scenario, self.telemetry, self.foxglove_origin)
        plot = PLOTJUGGLER if self.plotjuggler else ""
        glove = None
        if self.foxglove:
            glove = listen(self.foxglove, unencrypted=self.foxglove_unencrypted)
        listed = self.control or self.web is not None
        gateway = Gateway(about, self.bind, self.control_keys, plot, glove, listed)
        with gateway as inbox, web_page(self.web, self.control, inbox):
            yield inbox

    @property
    def compilation(self) -> Compilation:
        return CHECKED if self.checked else not self.plain

    def wanted(self) -> Wanted:
        return Wanted(self.checkpoint_every, self.checkpoint_at, self.reachable, self.rewind)

    def check(self) -> None:
        given = self.foxglove, self.foxglove_unencrypted, self.telemetry, self.foxglove_origin
        check_telemetry(self.plotjuggler, *given)
        if self.web is not None:
            check_installed()
        if not self.scenario:
            raise click.UsageError("Missing argument 'SCENARIO'.")
        if self.bind:
            from rtsim.gateway.loop import check_reach

            check_reach(self.bind, self.control_keys)
        elif self.control_keys is not None:
            raise ScenarioError(
                f"--control-keys {self.control_keys} works only with --control-at "
                "tcp://HOST:PORT; add that option, or leave --control-keys out"
            )
        if self.seed < 0:
            raise ScenarioError(f"--seed {self.seed} is negative; give a whole number >= 0")
        if self.checked and self.plain:
            raise ScenarioError(
                "--checked and --plain exclude each other; leave --checked out, because plain "
                "Python always checks array indices"
            )
        if self.no_record and self.path is not None:
            raise ScenarioError(
                f"--no-record and -o {self.path} exclude each other; leave one of them out"
            )


_OPTIONS = (
    click.option("--seed", default=0, show_default=True, help="Seed of all random streams."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set an argument of the scenario (case=15) or a value of a component (f16.cg=0.3); "
        "repeatable.",
        shell_complete=setting_names,
    ),
    faults_option,
    click.option(
        "--until",
        default=None,
        help="Simulated time at which the run ends, s.  [default: the end time of the scenario]",
    ),
    *recording_options,
    click.option(
        "--realtime",
        is_flag=True,
        help="Ask the system for SCHED_FIFO, locked memory and a CPU reserved for the loop.",
    ),
    *compiling_options,
    click.option(
        "--strict",
        is_flag=True,
        help="Exit with status 1 after an overrun, a late answer or a missed request, or if a "
        "fault never acted.",
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Print which engine ran the scenario, and why parts of it ran in the interpreter.",
    ),
    every_option,
    at_option,
    click.option(
        "--control", is_flag=True, help="Let 'rtsim ctl' and rtsim.connect() reach the run."
    ),
    click.option(
        "--control-at",
        "bind",
        default="",
        metavar="tcp://HOST:PORT",
        help="Let clients on other machines reach the run at this address; needs --control-keys.",
    ),
    click.option(
        "--control-keys",
        "control_keys",
        type=click.Path(path_type=Path),
        help="Key file for --control-at, which 'rtsim keys' wrote for the run.",
    ),
    rewind_option,
    web_option,
    plotjuggler_option,
    foxglove_option,
    unencrypted_option,
    origin_option,
    telemetry_option,
)


def run_options(command: F) -> F:
    """Decorator: add the argument and options of a run; ``command`` gets them as ``options``."""
    return _with_options(command, click.argument("scenario", shell_complete=scenario_names))


def optional_run_options(command: F) -> F:
    """Like :func:`run_options`, with an optional SCENARIO; without it, the name is empty."""
    argument = click.argument("scenario", required=False, default="", shell_complete=scenario_names)
    return _with_options(command, argument)


def person_options(command: F) -> F:
    """Like :func:`run_options`, with the defaults of a run that a person controls.

    The run is in real time, and time lost in a stall is not caught up.
    """
    argument = click.argument("scenario", shell_complete=scenario_names)
    return _with_options(command, argument, "1.0", FOR_A_PERSON)


def _pacing(pace: str, overrun: str) -> tuple[Callable[[Any], Any], ...]:
    return (
        click.option(
            "--pace",
            default=pace,
            show_default=True,
            help="Simulated seconds per second of wall-clock time (1.0 is real time), a fraction "
            "such as 1/3, or max (as fast as possible).",
        ),
        click.option(
            "--overrun",
            default=overrun,
            show_default=True,
            help="What to do if the run falls behind the wall clock: catch_up:N, slip:N, "
            "freeze:SECONDS or abort"
            + "".join(f", {name}" for name in POLICIES if name not in OWN_POLICIES)
            + " (docs/realtime.md).",
        ),
    )


def _with_options(
    command: F, argument: Callable[[Any], Any], pace: str = MAX, overrun: str = "catch_up"
) -> F:
    names = [f.name for f in fields(RunOptions) if f.metadata.get("typed", True)]

    @wraps(command)
    def packed(**given: Any) -> Any:
        options = RunOptions(**{name: given.pop(name) for name in names})
        return command(options=options, **given)

    decorated: Any = packed
    for option in reversed((argument, *_pacing(pace, overrun), *_OPTIONS)):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
