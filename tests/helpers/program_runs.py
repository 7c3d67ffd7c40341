"""Runs of a program in virtual time until it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hitl.programs.library import ProgramError
from hitl.programs.process import Datagram, VirtualProcess

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
) -> Ended:
    """Grant time in steps of ``step()`` ns until the program has ended, or until ``until_ns``."""
    process = VirtualProcess(command, LISTENS, CALLS, patience=patience)
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
