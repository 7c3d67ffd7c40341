"""Faults at a program and at its packets, and the files that a program leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from hitl.programs.started import StartedProgram
from rtsim.core.tag import NS_PER_S
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.line_kinds import BoardFault, LineFaults

PROGRAM, TO_PROGRAM, FROM_PROGRAM = ENDS = ("program", "to_program", "from_program")
"""Places of faults: ``where = "NAME.to_program"``."""


def strike(activity: Activity, line: LineFaults, ns: int, process: StartedProgram) -> None:
    """Apply a fault at the program itself if the fault acts on the request at ``ns``."""
    if activity.strikes(ns):
        kind = activity.fault.kind
        assert issubclass(kind, BoardFault)
        line.began(activity, ns, f"the program {kind.does}", {"at": ns / NS_PER_S})
        kind.strike(process)


def kept_files(folder: Path, patterns: Iterable[str], output: Path, into: Path) -> None:
    """Move the files of ``folder`` that match ``patterns``, and the output, to ``into``.

    Files of an earlier run in ``into`` are deleted. A link is not followed.
    """
    shutil.rmtree(into, ignore_errors=True)
    found = {path for pattern in patterns for path in folder.glob(pattern)}
    moves = [(path, into / path.relative_to(folder)) for path in sorted(found)]
    if output.is_file() and output.stat().st_size:
        moves.append((output, into / output.name))
    for source, target in moves:
        if source.is_file() and not source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(source, target)
