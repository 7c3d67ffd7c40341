"""Runs of a program in virtual time until it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rtsim as rt
from hitl.programs import Program
from hitl.programs.library import ProgramError
from hitl.programs.process import VirtualProcess
from hitl.programs.started import Datagram
from rtsim.record.reading import Recording

MS = 1_000_000
Compile = Callable[..., Path]
"""Compiles a program of tests/hitl/programs with flags, and returns its path."""
LISTENS, CALLS = (4000, 4001), (5000, 5001)


@dataclass
class Ended:
    """What a program has done until it ended."""

    output: str
    sent: list[Datagram]
    notes: list[str]
    error: str


def run_to_end(
    *command: str | Path,
    sends: Iterable[Datagram] = (),
    step: Callable[[], int] = lambda: 1000 * MS,
    until_ns: int = 10_000_000 * MS,
    patience: float = 60.0,
    other_ports: bool = False,
) -> Ended:
    """Grant time in steps of ``step()`` ns until the program has ended, or until ``until_ns``."""
    process = VirtualProcess(command, LISTENS, CALLS, patience=patience, other_ports=other_ports)
    waiting = sorted(sends)
    sent: list[Datagram] = []
    error = ""
    limit = 0
    try:
        while limit < until_ns:
            limit += step()
            now = [one for one in waiting if one.at_ns <= limit]
            waiting = waiting[len(now) :]
            sent += process.run(limit, now)
    except ProgramError as found:
        error = str(found)
    finally:
        output = process.output()
        process.close()
    return Ended(output, sent, process.notes, error)


Make = Callable[..., Program]
"""Makes the controller for a mode of answers.c."""
FRAMES = """
[sample.fields]
time = { type = "float64", unit = "s" }
value = { type = "float64" }
[radio.fields]
channel = { type = "float64" }
[reply.fields]
twice = { type = "float64" }
echo = { type = "float64", unit = "s" }
clock = { type = "float64", unit = "s" }
radio = { type = "float64" }
count = { type = "float64" }
"""


def loop_with(controller: Program, compute: float = 0.001, **options: Any) -> rt.Scenario:
    loop = rt.Scenario("program", until=0.06)
    loop.source("wanted", rt.Signals("value"))
    loop.at(0.02, "wanted.value", 3.0)
    loop.controller(
        "node", controller, period=0.01, compute=rt.Fixed(compute),
        inputs={"value": "wanted.value", "channel": 1.0}, **options,
    )  # fmt: skip
    return loop


def events(recording: Recording, *kinds: str) -> list[str]:
    """Return the texts of the events of ``kinds``."""
    return [event.text for event in recording.events if event.kind in kinds]
