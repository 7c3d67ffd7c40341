"""``rtsim overrun-replay``: write a fault file that reproduces the overruns of a recording."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.options import option
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.engine.faults.description import MOST_FAULTS, write_faults
from rtsim.record.events import OVERRUN
from rtsim.record.reading import Recording
from rtsim.runs.overrun_replay import timing_faults

_path = click.Path(path_type=Path)


@click.command("overrun-replay")
@click.argument("recording", type=_path)
@click.option(
    "-o",
    "path",
    type=_path,
    default=Path("overrun_replay.toml"),
    show_default=True,
    help="Fault file to write.",
)
@click.option(
    "--from",
    "first",
    metavar="T",
    default="0",
    show_default=True,
    help="First simulated time of the overruns to reproduce, s.",
)
@click.option(
    "--to",
    "last",
    metavar="T",
    help="Last simulated time of the overruns to reproduce, s.  [default: the recording's end]",
)
@option("--force", help="Overwrite an existing fault file.")
@json_option
@reports_errors
def overrun_replay(
    recording: Path, path: Path, first: str, last: str | None, force: bool, as_json: bool
) -> None:
    """Write a fault file that reproduces the overruns of RECORDING (docs/realtime.md).

    RECORDING is the recording of a paced run. The command writes one fault for each frame that
    made the loop late: a stall, a slow job or a late wake-up. The last line printed is the command
    that runs the scenario with these faults.

    \b
    Examples:
      rtsim overrun-replay runs/f16-001.mcap
      rtsim overrun-replay bench.mcap -o late.toml --from 10 --to 12.5
    """
    recorded = Recording.open(recording)
    if path.exists() and path.samefile(recording):
        raise ScenarioError(f"-o {path} would overwrite the recording itself; give another -o PATH")
    end = recorded.end_ns if last is None else to_ns(last, "--to")
    between = (to_ns(first, "--from"), end)
    if last is not None and between[0] > end:
        raise ScenarioError(f"--from {first} is after --to {last}; give --from before --to")
    overruns = [
        e for e in recorded.events if e.kind == OVERRUN and between[0] <= e.tag.ns <= between[1]
    ]
    faults = timing_faults(recorded, *between)
    if not faults:
        raise RecordingError(
            f"{recording} has no overrun from {between[0] / NS_PER_S:g} to {end / NS_PER_S:g} "
            "s, so there is no overrun to reproduce"
        )
    if len(faults) > MOST_FAULTS:
        raise ScenarioError(
            f"{len(overruns)} overruns need {len(faults)} faults, but a fault file holds at most "
            f"{MOST_FAULTS}; select fewer overruns with --from T and --to T"
        )
    again = command(recorded, path)
    about = [f"Reproduces {len(overruns)} overruns of {recording.name}. To run it:", again]
    write_faults(path, faults, about, force=force)
    if as_json:
        show_result({"faults": len(faults), "overruns": len(overruns), "file": str(path)})
        return
    text = f"{path}: {len(faults)} timing faults that reproduce {len(overruns)} overruns"
    click.echo(text)
    others = others_of(recorded)
    if others:
        text = (
            "note: the recorded run also had faults that are not in this file; "
            f"add their fault files with --faults: {', '.join(others)}"
        )
        click.echo(text)
    click.echo(f"next: {again}")


def command(recorded: Recording, path: Path) -> str:
    """Return the command line that runs the recorded scenario with the fault file ``path``."""
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
    """Return ``ns`` in seconds, as an exact decimal."""
    whole, rest = divmod(ns, NS_PER_S)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def others_of(recorded: Recording) -> list[str]:
    """Return the names of the recorded faults that the new file omits: all except timing faults."""
    faults = recorded.header["scenario"].get("faults", ())
    timing = ("stall", "late_wake", "slow_job", "load")
    return [str(f["name"]) for f in faults if f["kind"] not in timing]
