"""Commands on recordings: compare, report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, seconds, show_json
from rtsim.cli.progress import ProgressLine
from rtsim.cli.tables import Column, console, print_table
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.record.comparison import Comparison, Tolerance
from rtsim.record.comparison import compare as compare_recordings
from rtsim.record.reading import Recording, what_both_have
from rtsim.record.verdict import Outcome

_path = click.Path(path_type=Path)
_MICROSTEP = "s +1: the first microstep of that instant, in which what arrived then takes effect"
_MOST = 20
"""So many failing signals are shown; --all shows the rest."""
_PAGE = b"<!doctype html>"


def tolerances(
    absolute: float, relative: float, single: tuple[str, ...]
) -> dict[str, Tolerance | tuple[float, float]]:
    """From ``--abs``, ``--rel`` and ``--tol GLOB=ABS,REL``; later ones count."""
    out: dict[str, Tolerance | tuple[float, float]] = {}
    if absolute or relative:
        out["*"] = Tolerance(absolute, relative)
    for text in single:
        pattern, equals, numbers = text.rpartition("=")
        try:
            values = [float(v) for v in numbers.split(",")]
        except ValueError:
            values = []
        if not equals or len(values) not in (1, 2):
            raise ScenarioError(f"--tol {text!r}; write --tol 'f16.*=ABS' or 'f16.*=ABS,REL'")
        out.pop(pattern, None)  # of the same pattern the last one counts, and where it stands
        out[pattern] = Tolerance(values[0], values[1] if len(values) == 2 else 0.0)
    return out


@click.command()
@click.argument("a", type=_path)
@click.argument("b", type=_path)
@click.option("--abs", "absolute", default=0.0, help="Absolute tolerance of every signal.")
@click.option("--rel", "relative", default=0.0, help="Relative tolerance of every signal.")
@click.option("--tol", "single", multiple=True, metavar="GLOB=ABS[,REL]", help="For some signals.")
@click.option("--common", is_flag=True, help="Pair rows by time, for runs with other steps.")
@click.option("--to", "last", metavar="T", help="Compare up to T s.  [default: A's end]")
@click.option("--all", "show_all", is_flag=True, help="Every signal, also those that pass.")
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
    as_json: bool,
) -> None:
    """Hold recording B against baseline A, signal by signal; exit 1 where they differ.

    A value passes within max(ABS, REL*|baseline|); without tolerances, bit for bit. Where one goes
    on from a checkpoint, both are compared from there. Exit 2 where nothing differs and A did not
    reach its end, or where there was nothing to compare.
    """
    first, second, shared = what_both_have(Recording.open(a), Recording.open(b))
    until_ns = None if last is None else to_ns(last, "--to")
    begun_ns = 0 if shared is None else shared.ns
    if until_ns is not None and until_ns <= begun_ns:
        raise ScenarioError(f"--to {last}; give a time after {seconds(begun_ns)} s")
    verdict = compare_recordings(
        first,
        second,
        tolerances(absolute, relative, single),
        tags="common" if common else "exact",
        until_ns=until_ns,
    )
    if as_json:
        since = {} if shared is None else {"since_s": shared.seconds}
        truncated = [first.truncated, second.truncated]
        show_json({**verdict.to_json(), "truncated": truncated, **since})
    else:
        say_cut_off(first, second)
        if shared is not None:
            console().print(f"compared from {shared} on, where the second flight went on")
        print_comparison(verdict, show_all, (first.source, second.source))
    sys.exit(verdict.outcome.value)


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
    """Signal by signal; how the runs ended, what was not compared; the verdict is the last line."""
    out = console()
    print_signals(verdict, show_all)
    for name, ending in zip(names, verdict.endings, strict=False):
        out.print(f"{name} {ending}", soft_wrap=True, markup=False)
    if verdict.extra:
        out.print(f"only in the second: {', '.join(verdict.extra)}", soft_wrap=True)
    if verdict.empty:
        empty = ", ".join(r.name for r in verdict.empty)
        out.print(f"no rows, not compared: {empty}", soft_wrap=True, markup=False)
    if any("other tags" in r.reason for r in verdict.failures):
        out.print("the two have rows at other times; --common pairs rows by time", soft_wrap=True)
    if verdict.outcome is Outcome.FAILED:
        out.print(f"{len(verdict.failures)} of {len(verdict.results)} signals FAILED")
    elif verdict.outcome is Outcome.PASSED:
        out.print(f"all {len(verdict.agreed)} signals agree: {verdict.covered}", soft_wrap=True)
    else:
        _print_undecided(verdict)


def _print_undecided(verdict: Comparison) -> None:
    """That nothing differs and why that proves nothing; with what to type."""
    out = console()
    if verdict.agreed:
        agreed = f"nothing differs in {len(verdict.agreed)} signals"
        out.print(f"{agreed}: {verdict.covered}", soft_wrap=True)
    last = min((ending.reached_ns for ending in verdict.endings), default=0)
    if last and not all(ending.complete for ending in verdict.endings):
        out.print(f"to compare up to where both came: --to {last / NS_PER_S:.9g}")
    for reason in verdict.undecided:
        out.print(f"could not be decided: {reason}", soft_wrap=True, markup=False)


def print_signals(verdict: Comparison, show_all: bool) -> None:
    """A table of what fails, the worst first, or else of what passes with a remark; or of all."""
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
            out.print(_MICROSTEP, soft_wrap=True)
    if len(shown) < len(ranked):
        out.print(f"… {len(ranked) - len(shown)} more: --all")
    if remarked:
        out.print(
            f"signals that pass, but by a tolerance above a tenth of their range: {len(remarked)}"
            + (" (--all shows them)" if not show_all and ranked is not remarked else ""),
            soft_wrap=True,
        )


@click.command()
@click.argument("recording", type=_path)
@click.option("-o", "--output", type=_path, help="Default: beside the recording, .html.")
@click.option(
    "--after", default="0", metavar="SECONDS",
    help="Averages of discrete-event parts from there on: leaves the warm-up out.",
)  # fmt: skip
@json_option
@reports_errors
def report(recording: Path, output: Path | None, after: str, as_json: bool) -> None:
    """Make one self-contained HTML page of RECORDING: trajectories, messages, timing."""
    from rtsim.record import outputs
    from rtsim.record.report import write_report

    recorded = Recording.open(recording)
    after_ns = to_ns(after, "--after")
    outputs.check_after(recorded, after_ns)
    target = output or recording.with_suffix(".html")
    check_page(target)
    line = ProgressLine(str(target), enabled=sys.stderr.isatty() and not as_json)
    try:
        with closing(line):
            write_report(recorded, target, line.say, after)
    except OSError as error:
        raise RecordingError(f"cannot write {target}: {error.strerror}; use -o PATH") from error
    if as_json:
        averages = outputs.as_json(recorded, after_ns)
        show_json({"report": str(target), "truncated": recorded.truncated, **averages})
    else:
        say_cut_off(recorded)
        console().print(f"report: {target}", soft_wrap=True)


def check_page(target: Path) -> None:
    """A report takes the place of another page and of nothing else."""
    if not target.is_file():
        return
    with target.open("rb") as file:
        start = file.read(len(_PAGE))
    if start and start.lower() != _PAGE:
        raise RecordingError(
            f"{target} is not a report and is not written over; give another -o PATH.html"
        )


def say_cut_off(*recordings: Recording) -> None:
    """Where a recording ends before its run did, that comes first."""
    for recorded in recordings:
        if recorded.truncated:
            console().print(
                f"the recording was cut off: {recorded.source}: {recorded.truncated}",
                soft_wrap=True,
            )
