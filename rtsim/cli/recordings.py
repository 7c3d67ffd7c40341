"""Commands on recordings: replay, compare, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import NO, json_option, reports_errors, show_json
from rtsim.cli.tables import Column, console, print_table
from rtsim.errors import RecordingError, ScenarioError
from rtsim.record.comparison import Comparison, Tolerance
from rtsim.record.comparison import compare as compare_recordings
from rtsim.record.exact import compare_exact
from rtsim.record.fingerprint import differences, fingerprint
from rtsim.record.reading import Recording
from rtsim.replay import changed_since, rerun, scenario_of

_path = click.Path(path_type=Path)
_MOST = 20
"""So many failing signals are shown; --all shows the rest."""
_PAGE = b"<!doctype html>"
_ELSEWHERE = Tolerance(1e-9, 1e-9)
"""Default tolerance of a replay under another fingerprint, where bits are not promised."""


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

    A value passes within max(ABS, REL*|baseline|); without tolerances, bit for bit.
    """
    first, second = Recording.open(a), Recording.open(b)
    verdict = compare_recordings(
        first,
        second,
        tolerances(absolute, relative, single),
        tags="common" if common else "exact",
    )
    if as_json:
        show_json({**verdict.to_json(), "truncated": [first.truncated, second.truncated]})
    else:
        say_cut_off(first, second)
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
        print_table(out, "Comparison", _COLUMNS, [r.cells() for r in shown])
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
@click.option("--abs", "absolute", default=0.0, help="Absolute tolerance, instead of bit for bit.")
@click.option("--rel", "relative", default=0.0, help="Relative tolerance, instead of bit for bit.")
@json_option
@reports_errors
def replay(recording: Path, absolute: float, relative: float, as_json: bool) -> None:
    """Run RECORDING again and check every state and message of it, bit for bit; exit 1 if not.

    Where the fingerprint (packages, processor, sources) is another one, that is said, and values
    are compared by tolerance instead.
    """
    recorded = Recording.open(recording)
    rows = recorded.trace_rows
    if not rows:
        why = f": {recorded.truncated}" if recorded.truncated else ""
        raise RecordingError(f"nothing to replay: {recording} holds no rows of the trace{why}")
    elsewhere = what_differs(recorded)
    again = rerun(recorded)
    result: dict[str, Any] = {
        "recording": str(recording),
        "rows": rows,
        "until_s": recorded.end_ns / 1e9,
        "truncated": recorded.truncated,
        "fingerprint_differs": elsewhere,
    }
    if absolute or relative or elsewhere:
        given = {"*": Tolerance(absolute, relative) if absolute or relative else _ELSEWHERE}
        verdict = compare_recordings(recorded, again, given)
        result |= {"by": "tolerance", "ok": verdict.ok, "signals": verdict.to_json()["signals"]}
    else:
        verdict = None
        footer = recorded.footer or {}
        cut = recorded.truncated is not None or footer.get("reason") != "end"
        found = compare_exact(recorded, again, prefix=cut)
        difference = None if found is None else str(found)
        result |= {"by": "bits", "ok": found is None, "difference": difference}
    if as_json:
        show_json(result)
    else:
        _print_replay(result, verdict)
    sys.exit(0 if result["ok"] else NO)


def what_differs(recorded: Recording) -> list[str]:
    """Why bits are not promised here; empty where they are."""
    scenario = scenario_of(recorded)
    out = differences(recorded.header.get("fingerprint", {}), fingerprint())
    return out + changed_since(recorded.header, scenario)


def _print_replay(result: dict[str, Any], verdict: Comparison | None) -> None:
    out = console()
    if result["truncated"]:
        out.print(f"the recording was cut off: {result['truncated']}")
    for line in result["fingerprint_differs"]:
        out.print(f"other fingerprint: {line}")
    if verdict is not None:
        print_comparison(verdict, show_all=False)
    elif result["ok"]:
        out.print(f"replayed {result['until_s']:g} s: all {result['rows']} rows equal bit for bit")
    else:
        out.print(f"replay differs: {result['difference']}")


@click.command()
@click.argument("recording", type=_path)
@click.option("-o", "--output", type=_path, help="Default: beside the recording, .html.")
@json_option
@reports_errors
def report(recording: Path, output: Path | None, as_json: bool) -> None:
    """Make one self-contained HTML page of RECORDING: trajectories, messages, timing."""
    from rtsim.record.report import write_report

    recorded = Recording.open(recording)
    target = output or recording.with_suffix(".html")
    check_page(target)
    try:
        write_report(recorded, target)
    except OSError as error:
        raise RecordingError(f"cannot write {target}: {error.strerror}; use -o PATH") from error
    if as_json:
        show_json({"report": str(target), "truncated": recorded.truncated})
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
