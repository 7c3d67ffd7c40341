"""The options of commands that run a scenario, including checkpoints and latencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import F
from rtsim.cli.options import option, scenario_names, with_options_as
from rtsim.cli.telemetry import (
    check_telemetry,
    foxglove_option,
    header_for_viewers,
    origin_option,
    plotjuggler_option,
    telemetry_option,
    unencrypted_option,
    web_option,
    web_page,
)
from rtsim.components.allowed_latency import FROM, Allowed, allowing, measured_in, names_a_model
from rtsim.components.latency import Fixed
from rtsim.core.errors import CheckpointError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.engine.checkpoint.file import Checkpoint, CheckpointHistory, Files, path_beside
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled.eligibility import AUTO, ENGINES
from rtsim.equations.compiling import CHECKED, Compilation
from rtsim.gateway.addresses import check_installed
from rtsim.runs.request import MAX, RECORDER_DEATH, Pace
from rtsim.scenario.scenario import Scenario
from rtsim.timing.policy import OWN_POLICIES, POLICIES, parse_policy
from rtsim.timing.scheduling import SchedulingRequest

if TYPE_CHECKING:
    from rtsim.record.measured import MeasuredLatency
    from rtsim.scenario.scenario import Scenario


every_option = click.option(
    "--checkpoint-every",
    metavar="S",
    default=None,
    help="Save a checkpoint next to the recording every S simulated seconds (docs/checkpoints.md).",
)
at_option = click.option(
    "--checkpoint-at",
    metavar="T",
    multiple=True,
    help="Save a checkpoint at the first tag at or after T simulated seconds; repeatable.",
)


rewind_option = click.option(
    "--rewind",
    metavar="S",
    default=None,
    help="Keep checkpoints of the last S simulated seconds in memory, so that 'rtsim ctl restore' "
    "can go back to them; implies --control.",
)


VIEWED_S = "60"
"""Simulated time that a run with a window can go back by default, s."""


@dataclass(frozen=True)
class Wanted:
    """The checkpoints that the user requests with options of a command."""

    every: str | None
    at: tuple[str, ...]
    on_command: bool = False
    """Whether commands can request further checkpoints during the run."""
    rewind: str | None = None
    """Time span of the checkpoints in memory, simulated s."""
    viewed: bool = False
    """True if the run has a window, whose user can go back even without ``--rewind``."""

    def past(self, start: Checkpoint | None) -> CheckpointHistory:
        """Return the checkpoints to which the run can be reset."""
        if self.viewed:
            asked = self.rewind is not None
            return CheckpointHistory(
                self.rewind or VIEWED_S, start, first=True, if_savable=not asked
            )
        return CheckpointHistory(self.rewind, start)

    def taking(
        self, recording: Path | None, past: CheckpointHistory, start: Checkpoint | None
    ) -> CheckpointSchedule | None:
        """Return when to take checkpoints in a run that continues from the checkpoint ``start``.

        ``recording`` is the file of this segment. The result is ``None`` if no option requests
        checkpoints. Raises ``ScenarioError`` if checkpoint files are requested for a run without a
        recording.
        """
        if recording is not None:
            if self.every is None and not self.at and not self.on_command:
                return None
            files = Files(recording, start)
            past.add(files)
            return CheckpointSchedule(files, every=self.every, at=self.at, past=past)
        if self.every is not None or self.at:
            raise ScenarioError(
                "checkpoints are stored next to a recording, but --no-record switches the "
                "recording off; leave --no-record out"
            )
        return None if past.ring is None else CheckpointSchedule(None, past=past)


def in_a_file(checkpoint: Checkpoint, recording: Path | None) -> Checkpoint:
    """Save a checkpoint in a file beside ``recording``, which refers to that file."""
    if checkpoint.source != "memory" or recording is None:
        return checkpoint
    path = checkpoint.save(path_beside(recording, checkpoint.ns))
    return replace(checkpoint, source=str(path))


@dataclass(frozen=True)
class GoingOn:
    """A checkpoint and the scenario to continue from the checkpoint."""

    checkpoint: Checkpoint
    scenario: Scenario

    @classmethod
    def open(cls, checkpoint: Checkpoint, force: bool) -> GoingOn:
        """Load the scenario of a checkpoint file.

        The method prints a note if results on this machine may differ in the last bits.
        """
        from rtsim.record.fingerprint import differences, fingerprint
        from rtsim.runs.resume import live_scenario

        header = checkpoint.header
        scenario = live_scenario(header, checkpoint.source, force)
        for line in differences(header.get("fingerprint", {}), fingerprint()):
            text = f"note: results may differ in the last bits: {line}"
            click.secho(text, err=True, fg="yellow")
        return cls(checkpoint, scenario)

    @property
    def reference(self) -> str:
        """Name of the scenario, from the checkpoint file or from ``--scenario``."""
        return str(self.scenario.origin["reference"])

    def number(self, key: str) -> int:
        """Return the saved run's value of ``key``: ``seed``, ``until`` (ns) or ``compile``."""
        try:
            return int(self.checkpoint.header[key])
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"the header of {self.checkpoint.source} has no valid {key!r}; the file was "
                "written by another version of rtsim, or is damaged"
            ) from None

    def until(self, asked: str | None) -> str:
        """Return the end time of the run (s), by default the end of the saved run."""
        return f"{self.number('until')}/{NS_PER_S}" if asked is None else asked


FOR_A_PERSON = "slip:100000"
"""Overrun policy of a run with a window.

After a stall the run continues without catching up. On a machine that is too slow, the run
continues in slow motion for a long time before the policy ends it.
"""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, as typed by the user."""

    scenario: str = ""
    pace: str = MAX
    seed: int | None = None
    settings: tuple[str, ...] = ()
    faults: tuple[Path, ...] = ()
    requirements: tuple[str, ...] = ()
    counterexample: Path | None = None
    until: str | None = None
    path: Path | None = None
    no_record: bool = False
    junit: Path | None = None
    force: bool = False
    overrun: str = "catch_up"
    realtime: bool = False
    plain: bool = False
    strict: bool = False
    verbose: bool = False
    checked: bool = False
    engine: str = AUTO
    on_recorder_death: str = "continue"
    stop_on_violation: bool = False
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
    """True if the run has a window on this machine.

    Commands set this value; users do not type it.
    """

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
    def paced(self) -> bool:
        return self.pace != MAX

    @property
    def reachable(self) -> bool:
        """True if other programs can observe or control the run."""
        viewed = self.plotjuggler or self.foxglove
        kept = self.rewind is not None or self.web is not None
        return bool(self.control or self.bind or viewed or kept)

    @contextmanager
    def gateway(self, scenario: Scenario, path: Path | None) -> Iterator[Inbox | None]:
        """Context manager that yields the inbox of the gateway, or ``None`` without one."""
        if not self.reachable:
            yield None
            return
        from rtsim.gateway.addresses import listen
        from rtsim.gateway.loop import Gateway
        from rtsim.gateway.publishing import PLOTJUGGLER

        about = {"scenario": scenario.name, "recording": "" if path is None else str(path)}
        about |= header_for_viewers(scenario, self.telemetry, self.foxglove_origin)
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
        if self.seed is not None and self.seed < 0:
            raise ScenarioError(f"--seed {self.seed} is negative; give a whole number >= 0")
        if self.checked and self.plain:
            raise ScenarioError(
                "--checked and --plain exclude each other; leave --checked out, because plain "
                "Python always checks array indices"
            )
        if self.no_record and self.stop_on_violation:
            raise ScenarioError(
                "--stop-on-violation evaluates the rows of the recording; leave out --no-record"
            )
        if self.no_record and self.path is not None:
            raise ScenarioError(
                f"--no-record and -o {self.path} exclude each other; leave one of them out"
            )
        if self.junit is not None and not self.junit.parent.is_dir():
            raise ScenarioError(
                f"there is no folder {self.junit.parent} for {self.junit}; create it, or give "
                "another --junit PATH"
            )


_OPTIONS = (
    option("--seed"),
    option("--set"),
    option("--faults"),
    option("--require"),
    option("--counterexample"),
    option("--until"),
    option("--record"),
    click.option("--no-record", is_flag=True, help="Write no recording."),
    click.option(
        "--junit",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Also write a JUnit XML file with test cases for the end of the run and for each "
        "requirement.",
    ),
    option("--force", help="Overwrite an existing recording."),
    click.option(
        "--on-recorder-death",
        type=click.Choice(RECORDER_DEATH),
        default="continue",
        show_default=True,
        help="What to do if the recording fails during the run: continue the run, or end it.  The "
        "exit status is 2 in both cases.",
    ),
    click.option(
        "--stop-on-violation",
        is_flag=True,
        help="End the run soon after a requirement is violated, with exit status 1.",
    ),
    click.option(
        "--realtime",
        is_flag=True,
        help="Request real-time scheduling from the system: SCHED_FIFO, locked memory and a CPU "
        "for the loop.",
    ),
    option("--plain"),
    click.option("--checked", is_flag=True, help="Check every array index in compiled functions."),
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default=AUTO,
        show_default=True,
        help="Engine that runs the scenario: compiled code, or the interpreter, which is slower "
        "and helps with debugging.  Both give equal results.",
    ),
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
    return _with_options(command, click.argument("scenario", shell_complete=scenario_names))


def optional_run_options(command: F) -> F:
    argument = click.argument("scenario", required=False, default="", shell_complete=scenario_names)
    return _with_options(command, argument)


def person_options(command: F) -> F:
    """Add the options of a run that a person controls to ``command``.

    Such a run is in real time, and does not make up for time lost in a stall.
    """
    argument = click.argument("scenario", shell_complete=scenario_names)
    return _with_options(command, argument, "1.0", FOR_A_PERSON)


def _pacing(pace: str, overrun: str) -> tuple[Callable[[Any], Any], ...]:
    return (
        option("--pace", default=pace),
        click.option(
            "--overrun",
            default=overrun,
            show_default=True,
            help="What to do if the run falls behind the wall clock: "
            + ", ".join(OWN_POLICIES[n].usage if n in OWN_POLICIES else n for n in POLICIES)
            + " (docs/realtime.md).",
        ),
    )


def _with_options(
    command: F, argument: Callable[[Any], Any], pace: str = MAX, overrun: str = "catch_up"
) -> F:
    added = (argument, *_pacing(pace, overrun), *_OPTIONS)
    return with_options_as(RunOptions, "options", command, added)


# The option ``--latency``: compute latency of controllers

latency_option = click.option(
    "--latency",
    "latencies",
    multiple=True,
    metavar="[NAME=]S|[NAME=]MODEL:VALUES|[NAME=]from:RUN[:CONTROLLER]",
    help="Compute latency of a controller: in s (0.005), drawn from a model (gamma:2,0.001), or "
    "drawn from the latencies measured in a recorded run (from:live.mcap).",
)

Given = Mapping[str, "str | MeasuredLatency"]
"""Latency by name of controller: text as typed, or a measured latency."""


def parse_latencies(
    values: Sequence[str], known: Sequence[str], of_all: bool = True
) -> dict[str, str | MeasuredLatency]:
    """Return the latency of each controller from ``("0.005",)`` or ``("autopilot=0.005",)``.

    A value without a controller's name applies to all controllers. With ``of_all=False``, a
    value for a scenario with several controllers needs the name of a controller. ``known``
    contains the names of the controllers. Raises ``ScenarioError`` for a value that is not a
    latency, and ``UnknownName`` for an unknown controller.
    """
    out: dict[str, str | MeasuredLatency] = {}
    for value in values:
        names, latency = _split(value, known, of_all)
        for name in names:
            if name in out:
                raise ScenarioError(
                    f"--latency {value}: the latency of {name} is given twice; leave out one "
                    "--latency"
                )
            out[name] = _latency(value, latency, name)
    return out


def allowed(given: Given) -> dict[str, Allowed]:
    """Return the latencies in the form that the method ``Scenario.allow`` accepts."""
    return {n: v if isinstance(v, str) else v.model for n, v in given.items()}


def latencies_to_json(given: Given) -> dict[str, object]:
    return {n: v if isinstance(v, str) else v.to_json() for n, v in given.items()}


def print_latencies(given: Given) -> None:
    """Print one line for each latency that the recording contains."""
    for name, latency in given.items():
        if not isinstance(latency, str):
            click.echo(f"latency of {name}: {latency.in_words}")


def note_too_long(scenario: Scenario, given: Given) -> None:
    """Print a note if a constant latency is longer than the period of the controller."""
    long = []
    for name in given:
        controller = scenario.controller_component(name, f"{name} is not a controller")
        compute, period = controller.compute, controller.period
        if isinstance(compute, Fixed) and period is not None and compute.constant[0] > period.ns:
            seconds = f"{compute.constant[0] / NS_PER_S:g} s"
            long.append(f"{name}: {seconds} exceeds the period of {period}")
    if long:
        text = (
            f"note: --latency is longer than a sample period ({'; '.join(long)}), so ticks will be "
            "Missed; give a shorter latency"
        )
        click.secho(text, err=True, fg="yellow")


def _split(value: str, known: Sequence[str], of_all: bool) -> tuple[list[str], str]:
    name, equals, latency = value.partition("=")
    if equals and name.strip().isidentifier():
        if name.strip() not in known:
            raise UnknownName("controller", name.strip(), known, f"--latency {value}")
        return [name.strip()], latency.strip()
    if not known:
        raise ScenarioError(
            f"--latency {value}: the scenario has no controller; leave --latency out"
        )
    if len(known) > 1 and not of_all:
        raise ScenarioError(
            f"--latency {value}: the scenario has several controllers ({', '.join(known)}); "
            f"give the name of one controller: --latency {known[0]}={value}"
        )
    return list(known), value.strip()


def _latency(value: str, latency: str, name: str) -> str | MeasuredLatency:
    if latency.startswith(FROM):
        from rtsim.record.measured import measured_latency
        from rtsim.record.reading import Recording

        path, controller = measured_in(latency, f"--latency {value}")
        return measured_latency(Recording.open(path), controller or name)
    if not names_a_model(latency):
        to_ns(latency, f"--latency {value}:")
    try:
        allowing(latency)
    except UnknownName as error:
        raise ScenarioError(f"--latency {value}: {error}") from None
    return latency
