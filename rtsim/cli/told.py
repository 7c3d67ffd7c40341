"""What guards told during a run, such as a touchdown: as lines of the summary and as plain data."""

from __future__ import annotations

from typing import Any

import click

from rtsim.record.events import Event
from rtsim.runs.result import RunResult

MOST_LINES = 20
"""Greatest number of events that the summary prints; the recording has all of them."""


def print_told(result: RunResult) -> None:
    """Print one line for each event with values, with the units of the values."""
    for event in result.told[:MOST_LINES]:
        values = ", ".join(
            f"{name} {value:.4g}{_unit(result, event, name)}"
            for name, value in event.values.items()
        )
        click.echo(f"{event.source} at {event.tag.seconds:.3f} s: {values}")
    more = len(result.told) - MOST_LINES
    if more > 0:
        click.echo(f"{more} more such events are in the recording")


def print_waiting(result: RunResult) -> None:
    """Print one line for each medium at which messages waited when the run ended."""
    for medium, senders in result.waiting.items():
        count, each = sum(senders.values()), ", ".join(f"{n} {c}" for n, c in senders.items())
        behind = max(senders.values()) > 1
        what = "1 message waited" if count == 1 else f"{count} messages waited"
        click.echo(
            f"{medium}: {what} at the end of the run and cannot be recorded: {each}"
            + ("; rtsim bus load SCENARIO prints the load of a CAN bus" if behind else "")
        )


def told_to_json(result: RunResult) -> list[dict[str, Any]]:
    """Return the events with values: guard, time (s) and values by name."""
    return [
        {"guard": event.source, "at_s": event.tag.seconds, "values": dict(event.values)}
        for event in result.told
    ]


def _unit(result: RunResult, event: Event, name: str) -> str:
    plant = event.source.partition(".")[0]
    for one in result.system.plants:
        if one.name == plant:
            return f" {one.bound.model.discrete[name].unit}".rstrip()
    return ""
