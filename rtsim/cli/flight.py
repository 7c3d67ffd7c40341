"""What every command that flies a scenario shares: options, recording, the run, what it prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from rtsim.cli.checkpoints import GoingOn, Wanted, at_option, every_option, rewind_option
from rtsim.cli.common import FAILED, INTERRUPTED, NO, F, explain
from rtsim.cli.faults import faults_option, faults_to_json, print_faults
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.legs import Leg, fly_legs, open_recorder
from rtsim.cli.progress import ProgressLine
from rtsim.cli.settings import compiling_options, recording_options
from rtsim.cli.settings import parse_settings as parse_settings
from rtsim.cli.strict import print_strict, strict_to_json, went_wrong
from rtsim.cli.tables import console
from rtsim.cli.telemetry import (
    check_telemetry,
    foxglove_option,
    origin_option,
    plotjuggler_option,
    telemetry_line,
    telemetry_option,
    telemetry_to_json,
    told,
    unencrypted_option,
)
from rtsim.clock import age_ns
from rtsim.compiling import CHECKED, Compilation, announced
from rtsim.control.inbox import Inbox
from rtsim.errors import ScenarioError
from rtsim.executive import Publisher
from rtsim.loading import load_scenario
from rtsim.scenario import Scenario
from rtsim.simulation import Outcome, Pace, RecordingLost, compilation_of, simulate
from rtsim.tag import NS_PER_S
from rtsim.timing.policy import parse_policy
from rtsim.timing.scheduling import Request

FOR_A_PERSON = "slip:100000"
"""Overruns, where somebody looks on or flies: after a stall it goes on from there and does not
sprint, and a machine that is too slow is seen to be, long before the run ends of it."""


@dataclass(frozen=True)
class Flight:
    """What was typed, by the names of :func:`flight_options`."""

    scenario: str
    pace: str
    seed: int
    settings: tuple[str, ...]
    faults: tuple[Path, ...]
    until: str | None
    path: Path | None
    no_record: bool
    force: bool
    overrun: str
    realtime: bool
    plain: bool
    strict: bool
    checked: bool = False
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
    watched: bool = field(default=False, metadata={"typed": False})
    """In a window on this machine; the commands know."""

    def pacing(self) -> Pace:
        asked = Request.realtime if self.realtime else Request.watched if self.watched else Request
        return Pace.of(self.pace, policy=parse_policy(self.overrun), scheduling=asked())

    @property
    def reachable(self) -> bool:
        """Somebody may look at it or tell it something while it goes on."""
        viewed = self.plotjuggler or self.foxglove
        return bool(self.control or self.bind or viewed or self.rewind is not None)

    @contextmanager
    def gateway(self, scenario: Scenario, path: Path | None) -> Iterator[Inbox | None]:
        """What reaches the run from outside, where that was asked for."""
        if not self.reachable:
            yield None
            return
        from rtsim.gateway.listening import listen
        from rtsim.gateway.loop import Gateway
        from rtsim.gateway.publishing import PLOTJUGGLER

        about = {"scenario": scenario.name, "recording": "" if path is None else str(path)}
        about |= told(scenario, self.telemetry, self.foxglove_origin)
        plot = PLOTJUGGLER if self.plotjuggler else ""
        glove = None
        if self.foxglove:
            glove = listen(self.foxglove, unencrypted=self.foxglove_unencrypted)
        with Gateway(about, self.bind, self.control_keys, plot, glove) as inbox:
            yield inbox

    @property
    def compilation(self) -> Compilation:
        return CHECKED if self.checked else not self.plain

    def wanted(self) -> Wanted:
        return Wanted(self.checkpoint_every, self.checkpoint_at, self.reachable, self.rewind)

    def check(self) -> None:
        given = self.foxglove, self.foxglove_unencrypted, self.telemetry, self.foxglove_origin
        check_telemetry(self.plotjuggler, *given)
        if not self.scenario:
            raise click.UsageError("Missing argument 'SCENARIO'.")
        if self.bind:
            from rtsim.gateway.loop import check_reach

            check_reach(self.bind, self.control_keys)
        elif self.control_keys is not None:
            raise ScenarioError(
                f"--control-keys go with --control-at tcp://HOST:PORT, and there is none for "
                f"{self.control_keys}; add it, or leave the keys out"
            )
        if self.seed < 0:
            raise ScenarioError(f"--seed {self.seed}; give a whole number >= 0")
        if self.checked and self.plain:
            raise ScenarioError(
                "--checked and --plain exclude each other: plain Python checks each index anyway"
            )
        if self.no_record and self.path is not None:
            raise ScenarioError(
                f"--no-record and -o {self.path} exclude each other; leave one of them out"
            )


_OPTIONS = (
    click.option("--seed", default=0, show_default=True, help="Seed of every random stream."),
    click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", help="f16.cg=0.3, case=15"
    ),
    faults_option,
    click.option("--until", default=None, help="Simulated seconds; default: the scenario's own."),
    *recording_options,
    click.option("--realtime", is_flag=True, help="Ask for SCHED_FIFO, locked memory and a CPU."),
    *compiling_options,
    click.option(
        "--strict",
        is_flag=True,
        help="Exit 1 if anything was late, missed or overran, or a fault never acted.",
    ),
    every_option,
    at_option,
    click.option("--control", is_flag=True, help="Let rtsim ctl and rtsim.connect() reach it."),
    click.option(
        "--control-at", "bind", default="", metavar="tcp://HOST:PORT", help="Reach it there too."
    ),
    click.option(
        "--control-keys",
        "control_keys",
        type=click.Path(path_type=Path),
        help="For --control-at: the file that rtsim keys wrote.",
    ),
    rewind_option,
    plotjuggler_option,
    foxglove_option,
    unencrypted_option,
    origin_option,
    telemetry_option,
)


def flight_options(command: F) -> F:
    """Argument and options of a flight, handed to ``command`` as its argument ``flight``."""
    return _with_options(command, click.argument("scenario"))


def optional_flight_options(command: F) -> F:
    """The same where something else may say which scenario; ``flight.scenario`` is empty then."""
    return _with_options(command, click.argument("scenario", required=False, default=""))


def person_options(command: F) -> F:
    """The same where a person flies: in real time, and a stall is not made up for."""
    return _with_options(command, click.argument("scenario"), "1.0", FOR_A_PERSON)


def _pacing(pace: str, overrun: str) -> tuple[Callable[[Any], Any], ...]:
    return (
        click.option(
            "--pace", default=pace, show_default=True, help="'max', or a rate: 1.0 is real time."
        ),
        click.option(
            "--overrun",
            default=overrun,
            show_default=True,
            help="What to do when the run falls behind: catch_up:N, slip:N, freeze:S, abort.",
        ),
    )


def _with_options(
    command: F, argument: Callable[[Any], Any], pace: str = "max", overrun: str = "catch_up"
) -> F:
    names = [f.name for f in fields(Flight) if f.metadata.get("typed", True)]

    @wraps(command)
    def packed(**options: Any) -> Any:
        flight = Flight(**{name: options.pop(name) for name in names})
        return command(flight=flight, **options)

    decorated: Any = packed
    for option in reversed((argument, *_pacing(pace, overrun), *_OPTIONS)):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Flown:
    """What came of a flight: a leg, and others before it where it went back to a checkpoint."""

    flight: Flight
    legs: Sequence[Leg]
    inbox: Inbox | None = None
    total_ns: int = field(default_factory=age_ns)
    """From the start of the command to the end of the run."""

    @property
    def outcome(self) -> Outcome:
        """Of the last leg."""
        return self.legs[-1].outcome

    @property
    def path(self) -> Path | None:
        """Of its recording."""
        return self.legs[-1].path

    def summary(self) -> dict[str, Any]:
        """As plain data."""
        out = self._summary(self.legs[-1])
        if len(self.legs) > 1:
            out["earlier"] = [self._summary(leg) for leg in self.legs[:-1]]
        if self.lost is not None:
            out["error"] = {"type": "RecordingLost", "message": explain(self.lost)}
        return out | {"total_s": self.total_ns / NS_PER_S} | telemetry_to_json(self.inbox)

    def _summary(self, leg: Leg) -> dict[str, Any]:
        outcome = leg.outcome
        return {
            "scenario": self.flight.scenario,
            "reason": outcome.reason,
            "simulated_s": outcome.ended.seconds,
            "wall_s": outcome.wall_ns / NS_PER_S,
            "times_real_time": outcome.speed,
            "overruns": outcome.overruns,
            "late": outcome.late,
            "missed": outcome.missed,
            **faults_to_json(outcome.system.faults),
            "recording": None if leg.path is None else str(leg.path),
            **({"checkpoints": [str(p) for p in leg.checkpoints]} if leg.checkpoints else {}),
            **(strict_to_json(outcome) if self.flight.strict else {}),
            "certificate": outcome.certificate.to_json(),
        }

    def _headline(self, outcome: Outcome, total: str = "") -> str:
        """A leg in one line; overruns first where it was paced."""
        paced = outcome.certificate.paced
        flown = (outcome.ended.ns - outcome.began.ns) / NS_PER_S
        back = outcome.restored
        return (
            f"{self.flight.scenario}: {flown:g} s in "
            f"{outcome.wall_ns / NS_PER_S:.3g} s ({outcome.speed:.4g} times real time)"
            f"{total}; "
            + (f"overruns {outcome.overruns}, " if paced else "")
            + f"late answers {outcome.late}, missed requests {outcome.missed}"
            + (", interrupted" if outcome.reason == "interrupted" else "")
            + ("" if back is None else f"; restored to {back.tag.seconds:g} s")
        )

    def print(self, more: Callable[[], None] | None = None) -> None:
        """For people; ``more`` prints what a command adds before the recording's name."""
        for leg in self.legs[:-1]:
            click.echo(self._headline(leg.outcome))
            _print_files(leg)
        last = self.legs[-1]
        total = f", {self.total_ns / NS_PER_S:.2f} s with start-up"
        click.echo(self._headline(last.outcome, total))
        if last.outcome.certificate.paced:
            console().print(last.outcome.certificate.table())
        if more is not None:
            more()
        if self.flight.strict:
            print_strict(leg.outcome for leg in self.legs)
        print_faults(last.outcome.system.faults)
        if self.inbox is not None and self.inbox.trouble:
            click.echo(f"control was lost on the way: {self.inbox.trouble}")
        if viewed := telemetry_to_json(self.inbox):
            click.echo(telemetry_line(viewed["telemetry"], viewed["looks_lost"]))
        _print_files(last)
        if last.path is not None:
            click.echo(f"next: rtsim report {last.path}")

    @property
    def lost(self) -> RecordingLost | None:
        """What the first recording ended of that did not get to the end of its leg."""
        return next((leg.lost for leg in self.legs if leg.lost is not None), None)

    def exit(self) -> None:
        """With the status that says how it went, where that is not 0."""
        if self.lost is not None:
            click.secho(f"Error: {explain(self.lost)}", err=True, fg="red")
            sys.exit(FAILED)
        if self.outcome.reason == "interrupted":
            sys.exit(INTERRUPTED)
        if self.flight.strict and any(went_wrong(leg.outcome) for leg in self.legs):
            sys.exit(NO)


def _print_files(leg: Leg) -> None:
    if leg.path is None:
        return
    click.echo(f"recording: {leg.path}")
    if leg.checkpoints:
        many, last = len(leg.checkpoints), leg.checkpoints[-1]
        click.echo(f"checkpoints: {many}, the last one {last}")


Watch = Callable[[Scenario, Inbox | None], AbstractContextManager[tuple[Publisher, Inbox]]]
"""Opens what shows a run of this scenario; is given the gateway's inbox."""


def fly(
    flight: Flight,
    quiet: bool,
    prepare: Callable[[Scenario], None] | None = None,
    going_on: GoingOn | None = None,
    watch: Watch | None = None,
) -> Flown:
    """Load, record, run.  ``prepare`` may change the scenario before anything is recorded.

    ``watch`` gives who draws, and the inbox that takes the place of the gateway's, if there is one.
    ``going_on`` takes the place of a start, and of what the flight says of scenario and seed.
    """
    if going_on is not None:
        seed, until = going_on.number("seed"), going_on.until(flight.until)
        compile = compilation_of(going_on.checkpoint.header)
        flight = replace(
            flight, scenario=going_on.reference, plain=not compile, checked=compile == CHECKED,
            seed=seed, until=until,
        )  # fmt: skip
    flight.check()
    settled = parse_settings(flight.settings)
    line = ProgressLine(flight.scenario, sys.stderr.isatty() and not quiet, noted=not quiet)
    with sigterm_interrupts(), closing(line), announced(line.compiling), ExitStack() as stack:
        try:
            if going_on is None:
                scenario = load_scenario(flight.scenario, settled)
                scenario.faults(*flight.faults)
            else:
                scenario = going_on.scenario
            if prepare is not None:
                prepare(scenario)
            recorder = None
            if not flight.no_record:
                name = Path(flight.scenario.partition(".py")[0]).stem
                recorder = stack.enter_context(open_recorder(flight.path, name, flight.force))
            path = None if recorder is None else recorder.path
            gate = inbox = stack.enter_context(flight.gateway(scenario, path))
            publisher: Publisher | None = None
            if watch is not None:
                publisher, inbox = stack.enter_context(watch(scenario, inbox))
            simulated = partial(
                simulate,
                scenario,
                seed=flight.seed,
                until=flight.until,
                compile=flight.compilation,
                observe=line.show,
                tell=line.tell,
                on_recorder_death=flight.on_recorder_death,
                publisher=publisher,
                inbox=inbox,
            )
            start = None if going_on is None else going_on.checkpoint
            wanted = flight.wanted()
            if watch is not None:
                wanted = replace(wanted, told=True, viewed=True)
            legs = fly_legs(simulated, flight.pacing(), recorder, wanted, start, inbox, stack)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(line.when_interrupted) from interrupt
    return Flown(flight, legs, gate)
