"""Commands for a run in progress (``rtsim ctl``) and for key files (``rtsim keys``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from rtsim.cli.commands import reader_gone
from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.options import option
from rtsim.cli.telemetry import telemetry_line
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.keys import CLIENT
from rtsim.gateway.client import At, Run, connected, runs

_GROUP_OPTIONS = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_GROUP_OPTIONS)
@click.option(
    "--run",
    "which",
    default="",
    metavar="RUN",
    help="Run to control: its process number, the beginning of its scenario's "
    "name, or tcp://HOST:PORT.  [default: the only run]",
)
@option(
    "--keys",
    help="Client key file, needed with --run tcp://HOST:PORT: the FILE.client that 'rtsim keys' "
    "wrote.",
)
@click.pass_context
def ctl(ctx: click.Context, which: str, keys: Path | None) -> None:
    """Watch, tune, pause, step and end a run in progress.

    The run must have been started with --control. Each command takes effect at the next tag, is
    recorded, and is repeated in a replay.

    \b
    Examples:
      rtsim run f16 --pace 1.0 --control &
      rtsim ctl status
      rtsim ctl set f16.mass 9000 kg
      rtsim ctl watch f16.alpha
      rtsim ctl --run f16 quit
    """
    ctx.obj = which, keys


def _command(name: str | None = None, **settings: Any) -> Callable[[Callable[..., At | None]], Any]:
    """Return a decorator that adds a function as a subcommand of ``rtsim ctl``.

    The function gets the run in progress.
    """

    def add(function: Callable[..., At | None]) -> Any:
        @ctl.command(name, **settings)
        @click.pass_context
        @reports_errors
        @wraps(function)
        def call(ctx: click.Context, /, **options: Any) -> None:
            with connected(*ctx.obj) as run:
                at = function(run, **options)
                if at is not None:
                    click.echo(str(at))

        return call

    return add


def _known(of: Callable[[Run], list[str]]) -> Callable[..., list[CompletionItem]]:
    def complete(
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG001
        incomplete: str,
    ) -> list[CompletionItem]:
        parent = ctx.parent.params if ctx.parent is not None else {}
        try:
            with connected(parent.get("which") or "", parent.get("keys")) as run:
                return [CompletionItem(n) for n in of(run) if n.startswith(incomplete)]
        except RtsimError:
            return []

    return complete


_NUMBERS = {"ignore_unknown_options": True}
"""Settings with which click accepts ``-0.3`` as a value, not as an unknown option."""
_signal = click.argument(
    "names", nargs=-1, required=True, shell_complete=_known(lambda run: list(run.signals))
)


def _tell_left_out(run: Run) -> None:
    for name, many in run.left_out.items():
        click.echo(f"not shown: {name} ({many} values; too many to show)", err=True)


@ctl.command("runs")
@json_option
@reports_errors
def list_runs(as_json: bool) -> None:
    """List the runs in progress that were started with --control, as in 'rtsim ctl runs'."""
    found = runs()
    if as_json:
        show_json([{"pid": e.pid, "scenario": e.scenario, "endpoint": e.endpoint} for e in found])
        return
    if not found:
        click.echo("no run can be reached; start one: rtsim run SCENARIO --pace 1.0 --control")
    for entry in found:
        click.echo(f"{entry.pid}  {entry.scenario}")


@_command()
@json_option
def status(run: Run, as_json: bool) -> None:
    """Show simulated time, rate, overruns, late answers and missed requests of the run.

    \b
    Examples:
      rtsim ctl status
      rtsim ctl --run f16 status --json
    """
    found, told, lost = run.status, run.telemetry, run.unrecorded
    if as_json:
        about = {"scenario": run.scenario, "pid": run.pid}
        more = {
            **({"telemetry": told} if told else {}),
            **({"unrecorded": lost} if lost else {}),
        }
        show_json({**about, **vars(found), **more})
    else:
        click.echo(f"{run.scenario} ({run.pid}): {found}")
        if lost:
            click.echo(f"NOT RECORDED {lost}")
        if told:
            click.echo(telemetry_line(told))


@_command()
@json_option
def signals(run: Run, as_json: bool) -> None:
    """List all signals of the run with their units, as in 'rtsim ctl signals'."""
    if as_json:
        show_json(run.about["signals"])
        return
    for name, unit in run.signals.items():
        click.echo(f"{name} [{unit}]")
    _tell_left_out(run)


@_command()
@json_option
def parameters(run: Run, as_json: bool) -> None:
    """List the values that 'rtsim ctl set' can change, with initial values, units and ranges.

    \b
    Examples:
      rtsim ctl parameters
      rtsim ctl parameters --json
    """
    if as_json:
        show_json(run.parameters)
        return
    for row in run.parameters:
        low, high = row["low"], row["high"]
        limits = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
        value = ", ".join(f"{v:g}" for v in row["value"])
        click.echo(f"{row['name']} = {value} {row['unit']}  {limits}")
    _tell_left_out(run)


@_command()
@_signal
@json_option
def get(run: Run, names: tuple[str, ...], as_json: bool) -> None:
    """Show present values of signals and parameters, as in 'rtsim ctl get f16.alpha f16.mass'."""
    found = run.get(*names)
    values = found if isinstance(found, list) else [found]
    if as_json:
        show_json(dict(zip(names, values, strict=True)))
        return
    for name, value in zip(names, values, strict=True):
        click.echo(f"{name} = {value!r} {run.signals[name]}")


@_command("set", context_settings=_NUMBERS)
@click.argument("target", shell_complete=_known(lambda run: [p["name"] for p in run.parameters]))
@click.argument("value", nargs=-1, required=True)
def set_value(run: Run, target: str, value: tuple[str, ...]) -> At:
    """Set a parameter or the value of a source, as in 'rtsim ctl set f16.mass 9000 kg'.

    The unit is optional. A unit is optional; rtsim rejects a unit other than the declared one,
    because values are not converted.
    """
    numbers, unit = _measured(value)
    return run.set(target, numbers, unit)


@_command(context_settings=_NUMBERS)
@click.argument("topic", shell_complete=_known(lambda run: list(run.about["topics"])))
@click.argument("value", nargs=-1, required=True)
def inject(run: Run, topic: str, value: tuple[str, ...]) -> At:
    """Send a message on a topic, as in 'rtsim ctl inject autopilot 0.1 0.5'."""
    return run.inject(topic, _numbers(value))


@_command()
@_signal
@click.option(
    "--rate",
    default=10.0,
    show_default=True,
    help="Number of samples to print per second of wall-clock time.",
)
@click.option(
    "--count", default=0, help="Number of samples to print.  [default: until the run ends]"
)
@json_option
def watch(run: Run, names: tuple[str, ...], rate: float, count: int, as_json: bool) -> None:
    """Print the values of signals repeatedly, as in 'rtsim ctl watch f16.alpha --rate 5'."""
    for k, sample in enumerate(run.watch(*names, rate=rate), start=1):
        if as_json:
            show_json({"t": sample.state.seconds, **sample.values})
        else:
            told = "  ".join(f"{n}={v:.6g}" for n, v in sample.values.items())
            click.echo(f"{sample.state.seconds:10.3f} s  {told}")
        if k == count or reader_gone():
            return
    click.echo("the run has ended", err=True)


def _simple(name: str, says: str) -> None:
    def call(run: Run) -> At:
        return run.tell(name)

    call.__doc__ = says
    _command(name)(call)


_simple("pause", "Pause the simulation: rtsim ctl pause")
_simple("resume", "Resume a paused simulation: rtsim ctl resume")
_simple("checkpoint", "Save a checkpoint next to the recording: rtsim ctl checkpoint")
_simple("quit", "End the run and complete its recording: rtsim ctl quit")


@_command()
@click.option(
    "--at", type=float, help="Go back to the last checkpoint at or before this simulated time, s."
)
@click.option(
    "--back",
    type=float,
    help="Go back to the last checkpoint that is at least this many simulated seconds old.",
)
def restore(run: Run, at: float | None, back: float | None) -> At:
    """Go back to a checkpoint (default: the last one) and continue in a new recording.

    \b
    Examples:
      rtsim ctl restore
      rtsim ctl restore --back 5
    """
    return run.restore(at=at, back=back)


@_command()
@click.option("--tags", type=int, help="Advance by this number of tags.  [default: 1]")
@click.option("--task", help="Advance to the next activation of this task.")
@click.option("--duration", type=float, help="Advance by this simulated time, s.")
def step(run: Run, tags: int | None, task: str | None, duration: float | None) -> At:
    """Advance a paused run by one step, then pause again, as in 'rtsim ctl step --duration 0.1'."""
    return run.step(tags, task=task, duration=duration)


@_command(context_settings=_NUMBERS)
@click.argument("rate")
def rate(run: Run, rate: str) -> At:
    """Set the simulated seconds per wall-clock second (0.1: slow motion), or max.

    \b
    Examples:
      rtsim ctl rate 0.5
      rtsim ctl rate max
    """
    return run.rate("max" if rate == "max" else _numbers((rate,)))


@_command()
@click.argument("name", shell_complete=_known(lambda run: list(run.about["faults"])))
@click.argument("do", type=click.Choice(["start", "clear"]))
def fault(run: Run, name: str, do: str) -> At:
    """Start or clear a fault of the fault file, as in 'rtsim ctl fault sensor_stuck start'."""
    return run.fault(name, do)


@_command()
@click.argument("text")
def mark(run: Run, text: str) -> At:
    """Record a text as an event at the present time, as in "rtsim ctl mark 'gust here'"."""
    return run.mark(text)


def _measured(texts: tuple[str, ...]) -> tuple[Any, str | None]:
    words = " ".join(texts).replace(",", " ").split()
    many = next((k for k, word in enumerate(words) if not _is_number(word)), len(words))
    unit = " ".join(words[many:]).removeprefix("[").removesuffix("]")
    return _numbers(tuple(words[: max(1, many)])), unit or None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(texts: tuple[str, ...]) -> Any:
    values = []
    for text in " ".join(texts).replace(",", " ").split():
        try:
            values.append(float(text))
        except ValueError:
            raise ScenarioError(f"{text!r} is not a number") from None
    return values[0] if len(values) == 1 else values


# ``rtsim keys``: the keys that admit and encrypt connections from other machines


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@reports_errors
def keys(file: Path) -> None:
    """Make CURVE keys: FILE for the server, FILE.client for the client.

    For a connection to another machine (tcp://), copy FILE.client to that machine.

    \b
    Examples:
      rtsim keys rig.keys
      rtsim run f16 --pace 1 --control-at tcp://0.0.0.0:5555 --control-keys rig.keys
    """
    from rtsim.core.net.sockets import keys_of

    if file.exists():
        raise ScenarioError(
            f"{file} exists already; give another name, or remove {file} and {file}{CLIENT}"
        )
    keys_of(file)
    click.echo(f"{file}: keys of the server; the file stays on this machine")
    click.echo(f"{file}{CLIENT}: keys of the client; copy the file to the other machine")
