"""``rtsim bad-day``: the overruns of a recording as a fault file, to be flown again."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.tables import console
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.engine.faults.reading import MOST_FAULTS
from rtsim.engine.faults.writing import write_faults
from rtsim.engine.trace import OVERRUN
from rtsim.record.reading import Recording
from rtsim.runs.overrun_replay import timing_faults

_path = click.Path(path_type=Path)


@click.command("bad-day")
@click.argument("recording", type=_path)
@click.option("-o", "path", type=_path, default=Path("bad_day.toml"), show_default=True)
@click.option("--from", "first", metavar="T", default="0", help="Overruns from T s on.")
@click.option("--to", "last", metavar="T", help="Overruns up to T s.")
@click.option("--force", is_flag=True, help="Write over an older fault file.")
@json_option
@reports_errors
def bad_day(
    recording: Path, path: Path, first: str, last: str | None, force: bool, as_json: bool
) -> None:
    """Write the faults of timing that make the overruns of RECORDING again (docs/realtime.md).

    A stall, a slow job or a late wake for each frame that made the loop late.
    """
    recorded = Recording.open(recording)
    if path.exists() and path.samefile(recording):
        raise ScenarioError(f"-o {path} is the recording itself; give another -o PATH")
    end = recorded.end_ns if last is None else to_ns(last, "--to")
    between = (to_ns(first, "--from"), end)
    if last is not None and between[0] > end:
        raise ScenarioError(f"--from {first} is after --to {last}; give the earlier one first")
    overruns = [
        e for e in recorded.events if e.kind == OVERRUN and between[0] <= e.tag.ns <= between[1]
    ]
    faults = timing_faults(recorded, *between)
    if not faults:
        raise RecordingError(
            f"{recording} has no overrun from {between[0] / NS_PER_S:g} to {end / NS_PER_S:g} s: "
            "there is no bad day to fly again"
        )
    if len(faults) > MOST_FAULTS:
        raise ScenarioError(
            f"{len(overruns)} overruns take {len(faults)} faults, and a fault file holds at most "
            f"{MOST_FAULTS}; give --from T and --to T"
        )
    again = command(recorded, path)
    about = [f"The overruns of {recording.name}, {len(overruns)} of them:", again]
    write_faults(path, faults, about, force=force)
    if as_json:
        show_json({"faults": len(faults), "overruns": len(overruns), "file": str(path)})
        return
    out = console()
    text = f"{path}: {len(faults)} faults of timing, for {len(overruns)} overruns"
    out.print(text, soft_wrap=True, highlight=False)
    others = others_of(recorded)
    if others:
        text = f"note: it was flown with other faults; give their files too: {', '.join(others)}"
        out.print(text, soft_wrap=True, highlight=False, markup=False)
    out.print(f"next: {again}", soft_wrap=True, highlight=False, markup=False)


def command(recorded: Recording, path: Path) -> str:
    """What to type to fly it again."""
    header = recorded.header
    origin = header["scenario"].get("origin") or {}
    pace = "1" if header["pace"] == "max" else header["pace"]
    words = ["rtsim", "run", str(origin.get("reference") or "SCENARIO")]
    for name, value in origin.get("settings", {}).items():
        words += ["--set", f"{name}={value}"]
    if header["seed"]:
        words += ["--seed", str(header["seed"])]
    words += ["--until", _decimal(int(header["until"])), "--pace", str(pace)]
    return shlex.join([*words, "--overrun", str(header["policy"]), "--faults", str(path)])


def _decimal(ns: int) -> str:
    """Exact seconds."""
    whole, rest = divmod(ns, NS_PER_S)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def others_of(recorded: Recording) -> list[str]:
    """Faults that the file does not hold: those that do not make the loop late."""
    faults = recorded.header["scenario"].get("faults", ())
    timing = ("stall", "late_wake", "slow_job", "load")
    return [str(f["name"]) for f in faults if f["kind"] not in timing]
