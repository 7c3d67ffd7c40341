"""What a search has found, in words: the command line and the page say the same."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.studies.folder import Folder
from rtsim.studies.texts import Value, runs_of

_ENDS = {
    "converged": "the margins of the population are nearly equal",
    "maximum": "the largest number of runs is reached",
    "miss": "a run does not meet the requirement",
    "no margin": "a run has no margin",
    "": "the search has not ended",
}


@dataclass(frozen=True)
class WorstCase:
    """The worst run of a search so far."""

    ended: str
    """Why the search has ended."""
    counts: list[str]
    """How many runs miss the requirement or have no margin."""
    run: int | None
    """The number of the worst run; ``None`` if there is no run yet."""
    worst: str
    """The worst run and its margin, or why it has none; empty if there is no run yet."""
    factors: Mapping[str, Value]


def worst_case(folder: Folder, found: Mapping[str, Any]) -> WorstCase:
    """Return the worst run of a search; ``found`` is what ``summarise`` returns."""
    one, run = found["search"], found["search"]["worst_run"]
    ended, worst = _ENDS.get(found["ended"], found["ended"]), ""
    if one["worst_margin"] is not None:
        worst = f"worst margin {one['worst_margin']:.4g} in run {run}"
    elif run is not None:
        row = folder.row(run)
        why = f"{one['worst_state']}: {row['cause']}" if row else one["worst_state"]
        worst = f"worst: run {run} has no margin ({why})"
        if found["ended"] == "no margin":
            ended = worst.removeprefix("worst: ")
    return WorstCase(ended, _counts(one, found["rows"]), run, worst, one["factors"])


def shown(value: Value) -> str:
    """Return a value of a factor as the command line shows it."""
    return value if isinstance(value, str) else f"{value:.6g}"


def command(folder: Folder, run: int, recording: str) -> str:
    """Return the command that repeats a run and records it."""
    return f"rtsim study run {shlex.quote(str(folder.path))} {run} -o {recording}"


def _counts(one: Mapping[str, Any], rows: int) -> list[str]:
    none, out = one["without_margin"], []
    if one["misses"]:
        many, first = one["misses"], one["first_miss"] + 1
        out.append(
            f"{runs_of(many)} {'misses' if many == 1 else 'miss'} it; {runs_of(first)} "
            f"{'was' if first == 1 else 'were'} needed to find the first"
        )
    elif rows > none or not rows:
        with_margin = f"{runs_of(rows - none)}{' with a margin' if none else ''}"
        out.append(f"no miss found in {with_margin}; this does not prove that none exists")
    if none:
        have = "has" if none == 1 else "have"
        out.append(f"{runs_of(none)} {have} no margin, which counts as worse than every margin")
        if one["smallest_run"] is not None:
            least = one["smallest_margin"]
            out.append(f"smallest margin of the others {least:.4g} in run {one['smallest_run']}")
    return out
