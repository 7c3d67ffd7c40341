"""The commands ``rtsim compare`` and ``rtsim report``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, seconds, show_result
from rtsim.cli.progress import ProgressLine
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.record.comparison import Comparison, Tolerance
from rtsim.record.comparison import compare as compare_recordings
from rtsim.record.output_files import write_whole
from rtsim.record.reading import Recording
from rtsim.record.verdict import tolerance_of, what_both_have

_path = click.Path(path_type=Path)
_MICROSTEP = (
    "s +1: the first microstep of that instant, in which messages that arrived then take effect"
)
_MOST = 20
"""Number of failing signals shown; --all shows the rest."""
_PAGE = b"<!doctype html>"


def tolerances(
    absolute: float, relative: float, single: tuple[str, ...]
) -> dict[str, Tolerance | tuple[float, float]]:
    """Return the tolerances by pattern, from ``--abs``, ``--rel`` and ``--tol GLOB=ABS[,REL]``.

    ``--abs`` and ``--rel`` apply to ``"*"``.  If a pattern is given twice, the last one counts.
    Raises :class:`ScenarioError` for a malformed ``--tol``, and for a tolerance that is negative or
    not finite.
    """
    out: dict[str, Tolerance | tuple[float, float]] = {}
    if absolute or relative:
        out["*"] = tolerance_of("*", (absolute, relative))
    for text in single:
        pattern, equals, numbers = text.rpartition("=")
        try:
            values = [float(v) for v in numbers.split(",")]
        except ValueError:
            values = []
        if not equals or len(values) not in (1, 2):
            raise ScenarioError(
                f"--tol {text!r} is malformed; write --tol 'f16.*=ABS' or --tol 'f16.*=ABS,REL'"
            )
        out.pop(pattern, None)  # a repeated pattern counts at its last position
        out[pattern] = tolerance_of(pattern, (values[0], values[1] if len(values) == 2 else 0.0))
    return out


@click.command()
@click.argument("a", type=_path)
@click.argument("b", type=_path)
@click.option(
    "--abs",
    "absolute",
    default=0.0,
    show_default=True,
    help="Absolute tolerance of all signals, each in its own unit.",
)
@click.option(
    "--rel",
    "relative",
    default=0.0,
    show_default=True,
    help="Relative tolerance of all signals, as a fraction of the value in recording A.",
)
@click.option(
    "--tol",
    "single",
    multiple=True,
    metavar="GLOB=ABS[,REL]",
    help="Tolerances of the signals whose names match GLOB; repeatable. If several patterns match, "
    "the last one applies.",
)
@click.option(
    "--common",
    is_flag=True,
    help="Compare rows of equal time instead of rows of equal tag, for runs with different step "
    "sizes.",
)
@click.option(
    "--to",
    "last",
    metavar="T",
    help="Compare up to the simulated time T s.  [default: the end of A]",
)
@click.option(
    "--all", "show_all", is_flag=True, help="Show all signals, including signals that pass."
)
@click.option("--html", type=_path, metavar="PATH", help="Also write a page with plots.")
@click.option("--junit", type=_path, metavar="PATH", help="Also write JUnit XML.")
@json_option
@reports_errors
def compare(
    a: Path,
    b: Path,
    absolute: float,
    relative: float,
    single: tuple[str, ...],
    common: bool,
    last: str | None,
    show_all: bool,
    html: Path | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Compare recording B with baseline A, signal by signal.

    A value passes if |B - A| <= max(ABS, REL*|A|). Without tolerances, every bit must be equal.
    If A or B is a run that was continued from a checkpoint, the comparison begins at the time of
    the checkpoint.

    \b
    Examples:
      rtsim compare old.mcap new.mcap
      rtsim compare old.mcap new.mcap --tol 'f16.*=1e-6,1e-9' --to 20
      rtsim compare old.mcap new.mcap --html differences.html --junit compare.xml

    Exit status: 0 if B agrees with A, 1 if they differ. 2 if the comparison was undecided: no value
    differs, but A did not reach its requested end or there was no value to compare.
    """
    if html is not None:
        check_page(html)
    first, second, shared = what_both_have(Recording.open(a), Recording.open(b))
    until_ns = None if last is None else to_ns(last, "--to")
    begun_ns = 0 if shared is None else shared.ns
    if until_ns is not None and until_ns <= begun_ns:
        raise ScenarioError(
            f"the comparison begins at {seconds(begun_ns)} s, and --to {last} is not later; "
            "give a later --to"
        )
    verdict = compare_recordings(
        first,
        second,
        tolerances(absolute, relative, single),
        tags="common" if common else "exact",
        until_ns=until_ns,
    )
    _write_results(verdict, (first, second), html, junit, quiet=as_json)
    if as_json:
        since = {} if shared is None else {"since_s": shared.seconds}
        truncated = [first.truncated, second.truncated]
        data = {**verdict.to_json(), "truncated": truncated, **since}
        show_result(data, verdict.outcome.value, verdict.why)
    else:
        say_cut_off(first, second)
        if shared is not None:
            click.echo(f"compared from {shared} on: one run continues from a checkpoint there")
        print_comparison(verdict, show_all, (first.source, second.source))
    sys.exit(verdict.outcome.value)


def _write_results(
    verdict: Comparison,
    both: tuple[Recording, Recording],
    html: Path | None,
    junit: Path | None,
    *,
    quiet: bool,
) -> None:
    """Write the page and the JUnit file, if they are asked for, before the verdict is printed."""
    if html is not None:
        from rtsim.record.reports.comparison_pages import comparison_page

        line = ProgressLine(str(html), enabled=sys.stderr.isatty() and not quiet)
        with closing(line):
            written = comparison_page(verdict, *both, line.say)
        _write(html, written, "--html")
    if junit is not None:
        from rtsim.record.reports.junit import comparison_junit

        a, b = (Path(one.source).name for one in both)
        _write(junit, comparison_junit(verdict, f"{a} and {b}"), "--junit")


def _write(path: Path, written: str, option: str) -> None:
    try:
        write_whole(path, written)
    except OSError as error:
        raise RecordingError(
            f"cannot write {path}: {error.strerror}; give another {option} PATH"
        ) from error


_COLUMNS = (
    Column("signal"),
    Column("unit", drop=1),
    Column("rows", number=True, drop=3),
    Column("max abs", number=True),
    Column("max rel", number=True, drop=4),
    Column("first differs", drop=2),
    Column("verdict", fold=True),
)


def print_comparison(
    verdict: Comparison, show_all: bool, names: Sequence[str] = ("the first", "the second")
) -> None:
    """Print the table of signals, how the runs ended, what was not compared, and the result.

    ``names`` are the names of the two recordings.  The last line states the result.
    """
    print_signals(verdict, show_all)
    for name, ending in zip(names, verdict.endings, strict=False):
        click.echo(f"{name} {ending}")
    if verdict.extra:
        click.echo(f"only in the second recording: {', '.join(verdict.extra)}")
    if verdict.empty:
        empty = ", ".join(r.name for r in verdict.empty)
        click.echo(f"not compared, because they have no rows: {empty}")
    if any("other tags" in r.reason for r in verdict.failures):
        click.echo("the two recordings have rows at different times; --common pairs rows by time")
    if verdict.outcome is Outcome.FAILED:
        click.echo(f"{len(verdict.failures)} of {len(verdict.results)} signals FAILED")
    elif verdict.outcome is Outcome.PASSED:
        click.echo(f"all {len(verdict.agreed)} signals agree: {verdict.covered}")
    else:
        _print_undecided(verdict)


def _print_undecided(verdict: Comparison) -> None:
    """Print that no value differs, why the comparison is still undecided, and what to type."""
    if verdict.agreed:
        agreed = f"nothing differs in {len(verdict.agreed)} signals"
        click.echo(f"{agreed}: {verdict.covered}")
    last = min((ending.reached_ns for ending in verdict.endings), default=0)
    if last and not all(ending.complete for ending in verdict.endings):
        click.echo(f"to compare up to the time that both runs reached: --to {last / NS_PER_S:.9g}")
    for reason in verdict.undecided:
        click.echo(f"could not be decided: {reason}")


def print_signals(verdict: Comparison, show_all: bool) -> None:
    """Print a table of the failing signals, the worst first.

    If none fails, print the signals that pass with a remark; with ``show_all``, print all signals.
    """
    out = console()
    remarked = [r for r in verdict.worst_first() if r.remark]
    ranked = verdict.worst_first()[: len(verdict.failures)] or remarked
    if show_all:
        ranked = verdict.worst_first()
    shown = ranked if show_all else ranked[:_MOST]
    if shown:
        rows = [r.cells() for r in shown]
        print_table(out, "Comparison", _COLUMNS, rows)
        if any(" s +" in cell for row in rows for cell in row):
            click.echo(_MICROSTEP)
    if len(shown) < len(ranked):
        click.echo(f"… {len(ranked) - len(shown)} more; --all shows them")
    if remarked:
        click.echo(
            "signals that pass only with a tolerance above a tenth of their range: "
            f"{len(remarked)}"
            + (" (--all shows them)" if not show_all and ranked is not remarked else "")
        )


@click.command()
@click.argument("recordings", type=_path, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=_path,
    help="HTML file to write.  [default: the first RECORDING with the suffix .html]",
)
@click.option(
    "--after", default="0", metavar="SECONDS", show_default=True,
    help="Simulated time at which the averages of discrete-event outputs begin, s; earlier values, "
    "the warm-up, are left out.",
)  # fmt: skip
@json_option
@reports_errors
def report(recordings: tuple[Path, ...], output: Path | None, after: str, as_json: bool) -> None:
    """Write a self-contained HTML page about RECORDING: views, messages, timing.

    With several RECORDINGS the page shows their views over each other, and the differences of the
    later runs from the first one.

    \b
    Examples:
      rtsim report runs/f16-001.mcap
      rtsim report runs/f16-001.mcap runs/f16-002.mcap -o both.html
      rtsim report runs/queue-001.mcap -o queue.html --after 100
    """
    opened = [Recording.open(one) for one in recordings]
    target = output or recordings[0].with_suffix(".html")
    check_page(target)
    line = ProgressLine(str(target), enabled=sys.stderr.isatty() and not as_json)
    write = _overlay_of if len(opened) > 1 else _report_of
    try:
        with closing(line):
            extra = write(opened, target, line, after)
    except OSError as error:
        raise RecordingError(
            f"cannot write {target}: {error.strerror}; give another -o PATH"
        ) from error
    if as_json:
        show_result({"report": str(target), "truncated": opened[0].truncated, **extra})
    else:
        say_cut_off(*opened)
        click.echo(f"report: {target}")


def _report_of(
    recordings: list[Recording], target: Path, line: ProgressLine, after: str
) -> dict[str, Any]:
    """Write the page of one recording; return the averages of its discrete-event outputs."""
    from rtsim.models.piloting.pages import task_section
    from rtsim.record import measured
    from rtsim.record.reports.run_page import write_report

    recorded, after_ns = recordings[0], to_ns(after, "--after")
    measured.check_after(recorded, after_ns)
    task = task_section(recorded)
    write_report(recorded, target, line.say, after, () if task is None else (task,))
    return measured.as_json(recorded, after_ns)


def _overlay_of(
    recordings: list[Recording], target: Path, line: ProgressLine, after: str
) -> dict[str, Any]:
    """Write the page of several recordings; return their files."""
    from rtsim.record.reports.comparison_pages import write_overlay

    if to_ns(after, "--after"):
        raise ScenarioError("--after is for one recording; leave it out, or give one recording")
    write_overlay(recordings, target, line.say)
    return {"recordings": [one.source for one in recordings]}


def check_page(target: Path) -> None:
    """Raise :class:`RecordingError` if ``target`` exists and is not an HTML page."""
    if not target.is_file():
        return
    with target.open("rb") as file:
        start = file.read(len(_PAGE))
    if start and start.lower() != _PAGE:
        raise RecordingError(
            f"{target} exists and is not an HTML page, so it is not overwritten; "
            "give another -o PATH.html"
        )


def say_cut_off(*recordings: Recording) -> None:
    """Print a line for each recording that was cut off."""
    for recorded in recordings:
        if recorded.truncated:
            click.echo(f"the recording was cut off: {recorded.source}: {recorded.truncated}")
