"""``rtsim age``: data age and reaction time along the chains of a recorded run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rtsim.cli.check import print_requirements, requirements_to_json, status_of, why_of
from rtsim.cli.common import FAILED, NO, json_option, reports_errors, show_result
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.errors import ScenarioError

if TYPE_CHECKING:
    from rtsim.record.ages import Ages, Worst
    from rtsim.record.reading import Recording
    from rtsim.requirements.chains import Chain
    from rtsim.requirements.verdict import RequirementResult

_BINS, _WIDTH = 10, 40
_MESSAGES = (
    Column("message"), Column("initiated (s)", number=True), Column("completed (s)", number=True),
    Column("arrival (s)", number=True),
)  # fmt: skip
_SHARES = (Column("data age (ms)"), Column("share of time (%)", number=True), Column("", drop=1))


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--chain", "given", multiple=True, metavar="SIGNAL,SIGNAL[,...]",
    help="Signals component.signal of a chain, from the sample to the effect; repeatable.  "
    "[default: the chains of the run's scenario]",
)  # fmt: skip
@json_option
@reports_errors
def age(run: Path, given: tuple[str, ...], as_json: bool) -> None:
    """Print data age and reaction time along chains of messages in a recorded run.

    The data age at a time is the time since the sample on which the value in use depends. The
    reaction time is the time from an event that a sample just missed to the first value that
    depends on a later sample.

    \b
    Examples:
      rtsim age runs/f16-001.mcap
      rtsim age runs/f16-001.mcap --chain imu.gyro,autopilot.elevator,f16.elevator

    Exit status: 0 if each chain has an age and meets its limits, 1 if a limit is violated, 2 if a
    chain has no age or its limit is undecided.
    """
    from rtsim.record.ages import ages
    from rtsim.record.reading import Recording

    recording = Recording.open(run)
    chains = _chains(recording, given)
    found = [(chain, ages(recording, chain.elements)) for chain in chains]
    limits = [] if given else _limits(recording)
    none = [f"{chain.name}: {one.reason}" for chain, one in found if not len(one)]
    status, why = status_of(limits), why_of(limits)
    if none and status != NO:
        status, why = FAILED, "; ".join(filter(None, [*none, why]))
    if as_json:
        data = [{"name": chain.name, **one.to_json()} for chain, one in found]
        show_result({"chains": data, **requirements_to_json(limits)}, status, why)
    else:
        if recording.truncated is not None:
            click.secho(f"note: {run} is incomplete: {recording.truncated}", err=True, fg="yellow")
        for chain, one in found:
            _print(chain, one)
        print_requirements(limits, "Limits")
    sys.exit(status)


def _chains(recording: Recording, given: Sequence[str]) -> Sequence[Chain]:
    from rtsim.requirements.chains import Chain, chains_of

    typed = [Chain(text, tuple(one.strip() for one in text.split(","))) for text in given]
    chains = typed or chains_of(recording.header)
    if not chains:
        raise ScenarioError(
            f"the scenario of {recording.source} declares no chain; give --chain with signals, "
            "such as --chain imu.gyro,autopilot.elevator,f16.elevator"
        )
    return chains


def _limits(recording: Recording) -> list[RequirementResult]:
    from rtsim.requirements.requirement import required_by
    from rtsim.requirements.verdict import check

    return check([one for one in required_by(recording.header) if one.chain], recording)


def _print(chain: Chain, one: Ages) -> None:
    name = " -> ".join(chain.elements)
    click.echo(f"chain {chain.name}: {name}" if chain.name.count(",") == 0 else f"chain {name}")
    if not len(one):
        click.echo(f"no age: {one.reason}")
        return
    figures = (one.least, one.quantile(50), one.quantile(99))
    least, median, p99 = (_ms(ns) for ns in figures)
    click.echo(f"{len(one)} values; data age: least {least}, median {median}, p99 {p99}")
    edges, shares = one.histogram(_BINS)
    most = max(shares)
    rows = [
        [f"{low / 1e6:.4g} to {high / 1e6:.4g}", f"{100 * share:.1f}", _bar(share / most)]
        for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True)
    ]
    print_table(console(), "", _SHARES, rows)
    _print_worst("worst age", one.worst_age)
    _print_worst("worst reaction", one.worst_reaction)
    if one.open_ns > (0 if one.worst_reaction is None else one.worst_reaction.ns):
        click.echo(f"no later sample reached the end of the chain in the last {_ms(one.open_ns)}")


def _bar(share: float) -> str:
    return "#" * round(_WIDTH * share)


def _print_worst(what: str, worst: Worst | None) -> None:
    if worst is None:
        click.echo(f"{what}: none, because no value depends on a later sample")
        return
    span = f"from {worst.from_ns / 1e9:.9g} s to {worst.until_ns / 1e9:.9g} s"
    rows = [
        [f"{link.stage} {link.sequence}", *(f"{ns / 1e9:.9g}" for ns in link[2:])]
        for link in worst.path
    ]
    print_table(console(), f"{what}: {_ms(worst.ns)}, {span}", _MESSAGES, rows)


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.6g} ms"
