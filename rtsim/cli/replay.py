"""Commands that repeat a recorded run, or only its overruns."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from rtsim.cli.check import print_requirements, requirements_to_json, why_of
from rtsim.cli.common import json_option, reports_errors, seconds, show_result
from rtsim.cli.options import option, trust_options
from rtsim.cli.recordings import print_signals
from rtsim.cli.run_options import GoingOn, RunOptions
from rtsim.cli.running import run_command
from rtsim.cli.window import typed, view_options
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.faults.description import MOST_FAULTS, write_faults
from rtsim.pilot.playback import LEAST_RATE, MOST_RATE, Playback
from rtsim.pilot.processes import Window
from rtsim.record.comparison import SHARE, Comparison, Growth, by_range, growth
from rtsim.record.comparison import compare as compare_recordings
from rtsim.record.events import OVERRUN, RunEnding
from rtsim.record.fingerprint import differences, fingerprint
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact, ended_otherwise
from rtsim.record.verdict import tolerance_of
from rtsim.requirements.requirement import required_by
from rtsim.requirements.verdict import RequirementResult, check_run
from rtsim.runs.replay import changed_since, fed_tracks, rerun, scenario_of, timing_faults
from rtsim.runs.resume import moment, nearest


def watch(
    recorded: Recording, times: list[int | None], window: Window, pace: str, as_json: bool
) -> None:
    """Show a recording in a window, and print a summary.

    ``times`` contains the first and the last recorded time to show, in ns. ``None`` in place of a
    time means the beginning or the end of the recording. ``pace`` is the rate. With a negative
    rate, the recording is played backwards from its end. Raises :class:`ScenarioError` for a rate
    or a time out of range.
    """
    playback = Playback(recorded)
    within = _within(playback, times, recorded.source)
    rate = _rate(pace) if typed("pace") else 1.0
    from rtsim.pilot.viewer.window import (
        close_window,
        open_window,
    )  # SDL, which no other command needs

    width, height = map(int, window.size.split("x"))
    surface = open_window(
        f"rtsim: {recorded.source}", window.headless, (width, height), window.full_screen
    )
    from rtsim.pilot.viewer.player import play

    try:
        frames = play(surface, playback, window, rate, within)
    finally:
        close_window()
    result: dict[str, Any] = {
        "recording": recorded.source,
        "from_s": within[0] / 1e9,
        "until_s": within[1] / 1e9,
        "truncated": recorded.truncated,
        "frames": frames,
    }
    if as_json:
        show_result(result)
        return
    if recorded.truncated:
        click.echo(f"the recording was cut off: {recorded.truncated}")
    begin, end = map(seconds, within)
    click.echo(f"shown {begin} to {end} s of {recorded.source}: {frames} frames")


def _within(playback: Playback, times: list[int | None], source: str) -> tuple[int, int]:
    first, last = times
    begin = playback.first_ns if first is None else max(first, playback.first_ns)
    end = playback.end_ns if last is None else min(last, playback.end_ns)
    if begin > end:
        raise ScenarioError(
            f"{source} covers {seconds(playback.first_ns)} to {seconds(playback.end_ns)} s; "
            "give --from and --to within these times"
        )
    return begin, end


def _rate(pace: str) -> float:
    try:
        rate = float(pace)
    except ValueError:
        rate = math.nan
    if not LEAST_RATE <= abs(rate) <= MOST_RATE:
        raise ScenarioError(
            f"--pace {pace} does not work with --view; give a rate such as 1.0, 0.25 or -1 "
            "(backwards)"
        )
    return rate


_path = click.Path(path_type=Path)
_BY_RANGE = (
    f"{SHARE:g} of each signal's range, because the last bits may differ under another fingerprint"
)
_ALL_FED = "every row was taken from the recording, and none was computed"
_AMPLIFIED = (
    "a closed loop amplifies differences in the last bits: a slow growth of the difference may "
    "come from them, a jump does not; rtsim diverge shows the inputs of the first difference"
)


@click.command()
@click.argument("recording", type=_path)
@click.option(
    "--abs",
    "absolute",
    default=0.0,
    help="Absolute tolerance of all signals, each in its own unit.  [default: 0; every bit must be "
    "equal]",
)
@click.option(
    "--rel",
    "relative",
    default=0.0,
    help="Relative tolerance of all signals, as a fraction of the recorded value.  [default: 0; "
    "every bit must be equal]",
)
@click.option(
    "--from",
    "first",
    metavar="T",
    help="Begin at the simulated time T s, or at the last checkpoint before T.  [default: the "
    "start]",
)
@click.option(
    "--to",
    "last",
    metavar="T",
    help="End at the simulated time T s.  [default: the end of the recording]",
)
@click.option(
    "--then",
    type=click.Choice(["run"]),
    help="Continue the run after the replayed part, with live devices and external controllers. "
    "The replayed part ends at --to, or at --from without --to.",
)
@option(
    "--pace",
    help="With --then or --view: simulated seconds per second of wall-clock time, or max (as fast "
    "as possible).",
)
@option(
    "--until",
    help="With --then: end time of the continued run, s.  [default: the end of the recorded run]",
)
@option(
    "--record",
    help="With --then: recording to write for the continued run.  [default: runs/NAME-NNN.mcap]",
)
@option(
    "--force",
    help="With --then: overwrite an existing recording, and continue even if the scenario changed.",
)
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
    """Run RECORDING again and check that all states and messages are equal.

    If the packages, the processor or the sources have changed since the recording, replay compares
    values with a tolerance. With --view, the scenario is not run again: a window shows the
    recording. The default is then --pace 1.

    \b
    Examples:
      rtsim replay runs/f16-001.mcap
      rtsim replay runs/f16-001.mcap --from 5 --to 10
      rtsim replay runs/f16-001.mcap --to 12.5 --then run -o what_if.mcap
      rtsim replay runs/f16-001.mcap --view

    The requirements of the recorded run are checked again.

    Exit status: 0 if the replay agrees and each requirement holds; 1 if the replay differs or a
    requirement is violated; otherwise 2 if the comparison or a requirement is undecided, for
    example because --to ends the replay before a requirement is decided.
    """
    recorded = Recording.open(recording)
    if not recorded.trace_rows:
        why = f": {recorded.truncated}" if recorded.truncated else ""
        raise RecordingError(
            f"{recording} contains no rows of the trace{why}, so there is nothing to replay"
        )
    times = [None if text is None else to_ns(text, "time") for text in (first, last)]
    if None not in times and times[0] > times[1]:  # type: ignore[operator]
        raise ScenarioError(f"--from {first} comes after --to {last}; give --from before --to")
    if window is not None:
        if then is not None or path is not None or until is not None or absolute or relative:
            raise ScenarioError(
                "--view only shows the recording; leave --then, -o, --until, --abs and --rel out"
            )
        return watch(recorded, times, window, pace, as_json)
    if then is not None:
        options = RunOptions(pace=pace, until=until, path=path, force=force)
        take_over(recorded, times, options, as_json)
    if path is not None or until is not None or pace != "max" or force:
        raise ScenarioError(
            "-o, --until, --pace and --force work only with --then run; add --then run"
        )
    checked = check(recorded, times, absolute, relative)
    if as_json:
        show_result(checked.to_json(), checked.outcome.value, checked.why)
    else:
        _print(checked)
    sys.exit(checked.outcome.value)


@dataclass(frozen=True)
class Checked(Judged):
    """The result of a replay: the comparison with the recording, and the requirements.

    If values were compared with a tolerance, ``verdict`` is the result of this comparison.
    """

    result: dict[str, Any]
    comparison: Outcome
    ending: RunEnding
    """How the recorded run ended."""
    verdict: Comparison | None = None
    growth: Growth | None = None
    requirements: Sequence[RequirementResult] = ()
    """The verdicts of the recorded requirements on the replayed run."""

    def _judge(self) -> Outcome:
        return Outcome.of_all([self.comparison, *(one.result for one in self.requirements)])

    @property
    def in_words(self) -> str:
        return self.why

    @property
    def why(self) -> str:
        """Why the outcome is failed or undecided. Empty if it is passed."""
        unmet = why_of(self.requirements)
        if not unmet:
            return self.comparison_why
        agrees = self.comparison_why or f"the replay {self._agrees} the recording"
        return f"{agrees}; {unmet}"

    @property
    def _agrees(self) -> str:
        return "equals" if self.verdict is None else "agrees within the tolerance with"

    @property
    def comparison_why(self) -> str:
        """Why the comparison failed or is undecided. Empty if it passed."""
        if self.comparison is Outcome.UNDECIDED:
            computed = self.result["rows"] > self.result["fed_rows"]
            return "there was no value to compare" if computed else _ALL_FED
        text = self.result["difference"]
        if text is None and self.verdict is not None:
            text = self.verdict.why
        return text or ""

    def to_json(self) -> dict[str, Any]:
        by = "bits" if self.verdict is None else "tolerance"
        out = {**self.result, "by": by, "ok": self.outcome is Outcome.PASSED}
        out |= {"outcome": self.outcome.name.lower(), "ended": self.ending.to_json()}
        agrees = {Outcome.PASSED: True, Outcome.FAILED: False, Outcome.UNDECIDED: None}
        out["agrees"] = agrees[self.comparison]
        if self.verdict is not None:
            out["signals"] = self.verdict.to_json()["signals"]
            out["first_difference"] = None if self.growth is None else self.growth.to_json()
        return out | requirements_to_json(self.requirements)


def check(
    recorded: Recording, times: list[int | None], absolute: float, relative: float
) -> Checked:
    """Run ``recorded`` again and compare the two runs.

    ``times`` contains the first and the last time to compare, in ns. ``None`` in place of a time
    means the beginning or the end of the recording. ``absolute`` and ``relative`` are tolerances.
    With both tolerances 0, the runs are compared bit for bit if packages, processor and sources are
    unchanged. Raises :class:`ScenarioError` for a time outside the recording.
    """
    first, last = times
    _check_times(recorded, first, last)
    begun_ns, ending = int(recorded.continues.get("ns", 0)), RunEnding.of(recorded)
    scenario = scenario_of(recorded)
    elsewhere = differences(recorded.header.get("fingerprint", {}), fingerprint())
    elsewhere += changed_since(recorded.header, scenario)
    start: Checkpoint | None = None
    notes: list[str] = []
    if first is not None:
        start, notes = nearest(recorded, first)
    if start is not None:
        rows, events, begun_ns = start.rows, start.events, start.ns
        recorded = recorded.since(rows, events)
    again = rerun(recorded, start=start, stop_ns=last)
    ended = ended_otherwise(recorded, again, last)
    if last is not None and ended is None:
        recorded = recorded.up_to(int((again.footer or {}).get("ended", last)))
    fed = sum(len(recorded.tracks.get(n, ())) for n in fed_tracks(recorded, scenario))
    result: dict[str, Any] = {
        "recording": recorded.source,
        "rows": recorded.trace_rows,
        "fed_rows": fed,
        "from_s": begun_ns / 1e9,
        "until_s": recorded.end_ns / 1e9,
        "truncated": recorded.truncated,
        "fingerprint_differs": elsewhere,
        "notes": notes,
    }
    required = check_run(required_by(recorded.header), lambda: _ended_like(again, ending))
    held = Outcome.PASSED if recorded.trace_rows > fed else Outcome.UNDECIDED
    if absolute or relative or elsewhere:
        asked = {"*": tolerance_of("*", (absolute, relative))} if absolute or relative else None
        given = by_range(recorded) if asked is None else asked
        verdict = compare_recordings(recorded, again, given)
        fails = bool(verdict.failures) or ended is not None
        result["tolerance"] = _BY_RANGE if asked is None else [absolute, relative]
        result["difference"] = ended and str(ended)
        outcome = Outcome.FAILED if fails else held if verdict.agreed else Outcome.UNDECIDED
        grown = growth(recorded, again, verdict)
        return Checked(result, outcome, ending, verdict, grown, required)
    cut = recorded.truncated is not None or not ending.complete
    found = compare_exact(recorded, again, prefix=cut or ending.reason != "end")
    if ended is not None and (found is None or found.tag > ended.tag):
        found = ended
    result["difference"] = None if found is None else str(found)
    outcome = held if found is None else Outcome.FAILED
    return Checked(result, outcome, ending, requirements=required)


def _ended_like(again: Recording, ending: RunEnding) -> Recording:
    if again.footer is None or again.footer.get("ended") != ending.reached_ns:
        return again
    return replace(again, footer={**again.footer, "reason": ending.reason})


def _check_times(recorded: Recording, first: int | None, last: int | None) -> None:
    begun_ns = int(recorded.continues.get("ns", 0))
    if first is not None and not 0 <= first < recorded.end_ns:
        raise ScenarioError(
            f"{recorded.source} ends at {seconds(recorded.end_ns)} s; give a --from time >= 0 s "
            "and before this end"
        )
    if last is not None and last <= begun_ns:
        begun = seconds(begun_ns)
        raise ScenarioError(
            f"{recorded.source} begins at {begun} s; give a --to time after {begun} s"
        )


def _print(checked: Checked) -> None:
    result = checked.result
    if result["truncated"]:
        click.echo(f"the recording was cut off: {result['truncated']}")
    for line in result["notes"]:
        click.echo(f"note: {line}")
    for line in result["fingerprint_differs"]:
        click.echo(f"the fingerprint differs: {line}")
    if checked.verdict is not None:
        _print_tolerance(checked, checked.verdict)
    elif result["difference"] is not None:
        click.echo(f"replay differs: {result['difference']}")
    else:
        click.echo(f"{_span(result)}: all {_rows(result)} equal bit for bit{_fed(result)}")
    if not checked.ending.complete and not result["truncated"]:
        click.echo(f"the recorded run {checked.ending}")
    if checked.comparison is Outcome.UNDECIDED:
        click.echo(f"could not be decided: {checked.comparison_why}")
    print_requirements(checked.requirements, "Requirements on the replayed run")
    if unmet := why_of(checked.requirements):
        click.echo(checked.why if checked.comparison is Outcome.PASSED else unmet)


def _span(result: dict[str, Any]) -> str:
    since = f"{result['from_s']:g} to " if result["from_s"] else ""
    return f"replayed {since}{result['until_s']:g} s"


def _rows(result: dict[str, Any]) -> str:
    computed = result["rows"] - result["fed_rows"]
    return f"{computed} computed rows" if result["fed_rows"] else f"{computed} rows"


def _fed(result: dict[str, Any]) -> str:
    many = result["fed_rows"]
    return f"; rows taken from the recording: {many}" if many else ""


def _print_tolerance(checked: Checked, verdict: Comparison) -> None:
    result = checked.result
    print_signals(verdict, show_all=False)
    by = result["tolerance"]
    said = by if isinstance(by, str) else f"{by[0]:g} absolute, {by[1]:g} relative"
    click.echo(f"compared with a tolerance: {said}")
    if checked.growth is None:
        click.echo("all compared values are equal")
    else:
        click.echo(f"the first difference is in {checked.growth}")
        click.echo(_AMPLIFIED)
    if result["difference"] is not None:
        click.echo(f"replay differs: {result['difference']}")
    failed, agreed = len(verdict.failures), len(verdict.agreed)
    if failed:
        click.echo(f"{failed} of {len(verdict.results)} signals FAILED")
    elif checked.outcome is Outcome.PASSED:
        computed = f"{_rows(result)}{_fed(result)}"
        click.echo(f"{_span(result)}: all {agreed} signals are within the tolerance; {computed}")


def take_over(
    recorded: Recording, times: list[int | None], options: RunOptions, as_json: bool
) -> None:
    """Continue a recorded run live, and exit with the status of the new run.

    ``times`` are ``--from`` and ``--to`` in ns. The run continues live from ``--to``, or from
    ``--from`` if ``--to`` is missing. With ``--from`` and ``--to``, first replay the part of the
    recording between the two times at the new speed. ``options`` apply to the continued run.
    """
    first, last = times
    at = last if last is not None else first
    if at is None:
        raise ScenarioError(
            "--then run needs the time at which live inputs take over; give --from T or --to "
            "T, in s"
        )
    begin = first if first is not None and first < at else None
    checkpoint = moment(recorded, at, shown_from=begin, pace=options.pacing())
    going_on = GoingOn.open(checkpoint, options.force)
    summary = run_command(options, quiet=as_json, going_on=going_on)
    if as_json:
        more = {"continues": recorded.source, "at_s": checkpoint.tag.seconds}
        summary.show_json(**more)
    else:
        taken = seconds(checkpoint.ns)
        summary.print(lambda: click.echo(f"taken over at {taken} s: {recorded.source}"))
    summary.exit()
    sys.exit(0)


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
    """Write a fault file that reproduces the overruns of a recorded run (docs/realtime.md).

    RECORDING must contain a run in real time. For each overrun, the file contains a stall, a slow
    job or a late wake-up. The command also prints the command line that repeats the run with the
    fault file.

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
    """Return the command line that repeats the recorded run with the fault file ``path``."""
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
    whole, rest = divmod(ns, NS_PER_S)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def others_of(recorded: Recording) -> list[str]:
    """Return the names of recorded faults that do not concern the timing.

    The written fault file omits them.
    """
    faults = recorded.header["scenario"].get("faults", ())
    timing = ("stall", "late_wake", "slow_job", "load")
    return [str(f["name"]) for f in faults if f["kind"] not in timing]
