"""``rtsim replay``: run a recorded flight again, check it, or take it over and fly on."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rtsim.checkpoint.file import Checkpoint
from rtsim.cli.checkpoints import GoingOn
from rtsim.cli.common import NO, json_option, reports_errors, seconds, show_json
from rtsim.cli.flight import Flight, fly
from rtsim.cli.recordings import print_comparison
from rtsim.cli.tables import console
from rtsim.cli.trusting import trust_options
from rtsim.cli.viewing import view_options
from rtsim.cli.watching import watch
from rtsim.errors import RecordingError, ScenarioError
from rtsim.pilot.launching import Window
from rtsim.record.comparison import Comparison, Tolerance
from rtsim.record.comparison import compare as compare_recordings
from rtsim.record.exact import compare_exact
from rtsim.record.fingerprint import differences, fingerprint
from rtsim.record.reading import Recording
from rtsim.replay import changed_since, rerun, scenario_of
from rtsim.resuming import moment, nearest
from rtsim.tag import to_ns

_path = click.Path(path_type=Path)
_ELSEWHERE = Tolerance(1e-9, 1e-9)
"""Default tolerance under another fingerprint, where bits are not promised."""


@click.command()
@click.argument("recording", type=_path)
@click.option("--abs", "absolute", default=0.0, help="Absolute tolerance, instead of bit for bit.")
@click.option("--rel", "relative", default=0.0, help="Relative tolerance, instead of bit for bit.")
@click.option("--from", "first", metavar="T", help="Begin at T s, or at a checkpoint before it.")
@click.option("--to", "last", metavar="T", help="End at T s.  [default: its end]")
@click.option(
    "--then",
    type=click.Choice(["run"]),
    help="Take over at --to (or --from) and fly on: devices and outside controllers are live.",
)
@click.option("--pace", default="max", show_default=True, help="With --then or --view.")
@click.option("--until", default=None, help="With --then: its end in s.  [default: as recorded]")
@click.option("-o", "--record", "path", type=_path, help="With --then: the new recording.")
@click.option("--force", is_flag=True, help="With --then: write over an older recording.")
@json_option
@reports_errors
@trust_options
@view_options
def replay(
    recording: Path,
    absolute: float,
    relative: float,
    first: str | None,
    last: str | None,
    then: str | None,
    pace: str,
    until: str | None,
    path: Path | None,
    force: bool,
    window: Window | None,
    as_json: bool,
) -> None:
    """Run RECORDING again and check every state and message of it, bit for bit; exit 1 if not.

    Where the fingerprint (packages, processor, sources) is another one, that is said, and values
    are compared by tolerance instead.  With --view nothing is run: it is shown as it was recorded,
    at --pace 1 unless another is given.
    """
    recorded = Recording.open(recording)
    if not recorded.trace_rows:
        why = f": {recorded.truncated}" if recorded.truncated else ""
        raise RecordingError(f"nothing to replay: {recording} holds no rows of the trace{why}")
    times = [None if text is None else to_ns(text, "time") for text in (first, last)]
    if None not in times and times[0] > times[1]:  # type: ignore[operator]
        raise ScenarioError(f"--from {first} comes after --to {last}; give the earlier one first")
    if window is not None:
        if then is not None or path is not None or until is not None or absolute or relative:
            raise ScenarioError(
                "--view only shows; --then, -o, --until, --abs and --rel go without"
            )
        return watch(recorded, times, window, pace, as_json)
    if then is not None:
        take_over(recorded, times, NewFlight(pace, until, path, force), as_json)
    if path is not None or until is not None or pace != "max" or force:
        raise ScenarioError("-o, --until, --pace and --force go with --then run")
    result, verdict = check(recorded, times, absolute, relative)
    if as_json:
        show_json(result)
    else:
        _print(result, verdict)
    sys.exit(0 if result["ok"] else NO)


def check(
    recorded: Recording, times: list[int | None], absolute: float, relative: float
) -> tuple[dict[str, Any], Comparison | None]:
    """Run it again between two times (ns; ``None``: its own) and hold the two side by side."""
    first, last = times
    begun_ns = int(recorded.continues.get("ns", 0))
    if first is not None and first >= recorded.end_ns:
        raise ScenarioError(
            f"{recorded.source} ends at {seconds(recorded.end_ns)} s; give a --from before that"
        )
    if last is not None and last <= begun_ns > 0:
        raise ScenarioError(
            f"{recorded.source} begins at {seconds(begun_ns)} s; give a --to after that"
        )
    elsewhere = what_differs(recorded)
    start: Checkpoint | None = None
    notes: list[str] = []
    if first is not None:
        start, notes = nearest(recorded, first)
    if start is not None:
        rows, events, begun_ns = start.rows, start.events, start.ns
        recorded = recorded.since(rows, events)
    again = rerun(recorded, start=start, stop_ns=last)
    if last is not None:
        recorded = recorded.up_to(int((again.footer or {}).get("ended", last)))
    result: dict[str, Any] = {
        "recording": recorded.source,
        "rows": recorded.trace_rows,
        "from_s": begun_ns / 1e9,
        "until_s": recorded.end_ns / 1e9,
        "truncated": recorded.truncated,
        "fingerprint_differs": elsewhere,
        "notes": notes,
    }
    if absolute or relative or elsewhere:
        given = {"*": Tolerance(absolute, relative) if absolute or relative else _ELSEWHERE}
        verdict = compare_recordings(recorded, again, given)
        signals = verdict.to_json()["signals"]
        return {**result, "by": "tolerance", "ok": verdict.ok, "signals": signals}, verdict
    footer = recorded.footer or {}
    cut = recorded.truncated is not None or footer.get("reason") != "end"
    found = compare_exact(recorded, again, prefix=cut)
    difference = None if found is None else str(found)
    return {**result, "by": "bits", "ok": found is None, "difference": difference}, None


def what_differs(recorded: Recording) -> list[str]:
    """Why bits are not promised here; empty where they are."""
    scenario = scenario_of(recorded)
    out = differences(recorded.header.get("fingerprint", {}), fingerprint())
    return out + changed_since(recorded.header, scenario)


def _print(result: dict[str, Any], verdict: Comparison | None) -> None:
    out = console()
    if result["truncated"]:
        out.print(f"the recording was cut off: {result['truncated']}")
    for line in result["notes"]:
        out.print(f"note: {line}", soft_wrap=True)
    for line in result["fingerprint_differs"]:
        out.print(f"other fingerprint: {line}")
    if verdict is not None:
        print_comparison(verdict, show_all=False)
    elif result["ok"]:
        since = f"{result['from_s']:g} to " if result["from_s"] else ""
        out.print(
            f"replayed {since}{result['until_s']:g} s: all {result['rows']} rows equal bit for bit"
        )
    else:
        out.print(f"replay differs: {result['difference']}")


@dataclass(frozen=True)
class NewFlight:
    """What was typed of the flight that goes on."""

    pace: str
    until: str | None
    path: Path | None
    force: bool


def take_over(recorded: Recording, times: list[int | None], new: NewFlight, as_json: bool) -> None:
    """Fly on from a recorded flight; ends the command."""
    first, last = times
    at = last if last is not None else first
    if at is None:
        raise ScenarioError("--then run takes over at a time: give --from T or --to T, in s")
    flight = Flight(
        scenario="", pace=new.pace, seed=0, settings=(), faults=(), until=new.until,
        path=new.path, no_record=False, force=new.force, overrun="catch_up", realtime=False,
        plain=False, strict=False,
    )  # fmt: skip
    begin = first if first is not None and first < at else None
    checkpoint = moment(recorded, at, shown_from=begin, pace=flight.pacing())
    flown = fly(flight, quiet=as_json, going_on=GoingOn.open(checkpoint, new.force))
    if as_json:
        show_json({**flown.summary(), "continues": recorded.source, "at_s": checkpoint.tag.seconds})
    else:
        taken = seconds(checkpoint.ns)
        flown.print(lambda: console().print(f"taken over at {taken} s: {recorded.source}"))
    flown.exit()
    sys.exit(0)
