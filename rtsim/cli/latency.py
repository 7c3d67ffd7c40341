"""``--latency``: the compute latency of controllers, for all commands that run a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rtsim.components.allowed_latency import Allowed, allowing, names_a_model
from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S, to_ns

if TYPE_CHECKING:
    from rtsim.record.measured import MeasuredLatency
    from rtsim.scenario.scenario import Scenario

FROM = "from:"
latency_option = click.option(
    "--latency",
    "latencies",
    multiple=True,
    metavar="[NAME=]S|[NAME=]MODEL:VALUES|[NAME=]from:RUN[:CONTROLLER]",
    help="Compute latency of a controller: in s (0.005), drawn from a model (gamma:2,0.001), or "
    "drawn from the latencies measured in a recorded run (from:live.mcap).",
)

Given = Mapping[str, "str | MeasuredLatency"]
"""Latency by name of controller: seconds as typed, or a measured latency."""


def parse_latencies(
    values: Sequence[str], known: Sequence[str], of_all: bool = True
) -> dict[str, str | MeasuredLatency]:
    """Return the latency of each controller from ``("0.005",)`` or ``("autopilot=0.005",)``.

    ``known`` are the names of the controllers.  A value without a name applies to all controllers;
    with ``of_all=False`` such a value is an error if the scenario has several controllers.  Raises
    :class:`ScenarioError` for a value that is not a latency, and :class:`UnknownName` for an
    unknown controller.
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
    """Return the latencies in the form that :meth:`Scenario.allow` takes."""
    return {n: v if isinstance(v, str) else v.model for n, v in given.items()}


def latencies_to_json(given: Given) -> dict[str, object]:
    return {n: v if isinstance(v, str) else v.to_json() for n, v in given.items()}


def print_latencies(given: Given) -> None:
    """Print one line for each latency that was measured in a recording."""
    for name, latency in given.items():
        if not isinstance(latency, str):
            click.echo(f"latency of {name}: {latency.in_words}")


def note_too_long(scenario: Scenario, given: Given) -> None:
    """Print a note on stderr if a constant latency exceeds the period of its controller."""
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
    """Split ``NAME=LATENCY`` into names and latency; the name of a file may contain ``=``."""
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

        path, controller = _recording(latency.removeprefix(FROM))
        if not path.name:
            raise ScenarioError(
                f"--latency {value}: the name of the recording is missing; type from:live.mcap"
            )
        return measured_latency(Recording.open(path), controller or name)
    if not names_a_model(latency):
        to_ns(latency, f"--latency {value}:")
    try:
        allowing(latency)
    except UnknownName as error:
        raise ScenarioError(f"--latency {value}: {error}") from None
    return latency


def _recording(text: str) -> tuple[Path, str]:
    """Split ``RUN[:CONTROLLER]``; the name of a file may contain colons."""
    path, colon, controller = text.rpartition(":")
    if colon and path and controller.isidentifier() and not Path(text).is_file():
        return Path(path), controller
    return Path(text), ""
