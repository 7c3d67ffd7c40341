"""Commands on recordings: compare, report."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import click

from rtsim.cli.common import NO, json_option, reports_errors, show_json
from rtsim.cli.progress import ProgressLine
from rtsim.cli.tables import Column, console, print_table
from rtsim.errors import RecordingError, ScenarioError
from rtsim.record.comparison import Comparison, Tolerance
from rtsim.record.comparison import compare as compare_recordings
from rtsim.record.reading import Recording, what_both_have
from rtsim.tag import to_ns

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
    show_all: bool,
    as_json: bool,
) -> None:
    """Hold recording B against baseline A, signal by signal; exit 1 where they differ.

    A value passes within max(ABS, REL*|baseline|); without tolerances, bit for bit. Where one goes
    on from a checkpoint, both are compared from there.
    """
    first, second, shared = what_both_have(Recording.open(a), Recording.open(b))
    verdict = compare_recordings(
        first,
        second,
        tolerances(absolute, relative, single),
        tags="common" if common else "exact",
    )
    if as_json:
        since = {} if shared is None else {"since_s": shared.seconds}
        truncated = [first.truncated, second.truncated]
        show_json({**verdict.to_json(), "truncated": truncated, **since})
    else:
        say_cut_off(first, second)
        if shared is not None:
            console().print(f"compared from {shared} on, where the second flight went on")
        print_comparison(verdict, show_all)
    sys.exit(0 if verdict.ok else NO)


_COLUMNS = (
    Column("signal"),
    Column("unit", drop=1),
    Column("rows", number=True, drop=3),
    Column("max abs", number=True),
    Column("max rel", number=True, drop=4),
    Column("first differs", drop=2),
    Column("verdict", fold=True),
)


def print_comparison(verdict: Comparison, show_all: bool) -> None:
    """What fails, the worst first, or everything; then one line that sums it up."""
    out = console()
    failed = len(verdict.failures)
    results = verdict.worst_first() if show_all else verdict.worst_first()[:failed]
    hidden = 0 if show_all else max(0, failed - _MOST)
    if results:
        shown = results[: len(results) - hidden]
        rows = [r.cells() for r in shown]
        print_table(out, "Comparison", _COLUMNS, rows)
        if any(" s +" in cell for row in rows for cell in row):
            out.print(_MICROSTEP, soft_wrap=True)
    if hidden:
        out.print(f"… {hidden} more: --all")
    if failed:
        out.print(f"{failed} of {len(verdict.results)} signals FAILED")
    else:
        out.print(f"all {len(verdict.results)} signals agree")
    if any("other tags" in r.reason for r in verdict.failures):
        out.print("the two have rows at other times; --common pairs rows by time", soft_wrap=True)
    if verdict.extra:
        out.print(f"only in the second: {', '.join(verdict.extra)}", soft_wrap=True)


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
