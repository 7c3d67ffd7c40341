"""``rtsim check``: check requirements on recordings, and print the requirements of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.options import option
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.clock import date_text
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S
from rtsim.record.output_files import write_whole
from rtsim.requirements.requirement import Requirement, gather, required_by

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from rtsim.requirements.matrix import Matrix
    from rtsim.requirements.verdict import RequirementResult

_path = click.Path(path_type=Path)
_COLUMNS = (
    Column("requirement", fold=True), Column("run", fold=True), Column("verdict"),
    Column("robustness"), Column("at s"), Column("because of", fold=True),
)  # fmt: skip
_CSV = (
    "recording", "requirement", "formula", "text", "outcome", "robustness_low", "robustness_high",
    "worst_s", "worst", "exercised", "reason",
)  # fmt: skip


@click.command()
@click.argument("runs", type=_path, nargs=-1, required=True, metavar="RUN...")
@option(
    "--require",
    help="Requirement to check: NAME: FORMULA, or a requirement file (.toml); repeatable.  "
    "[default: the requirements of the run's scenario]",
)
@click.option("--junit", type=_path, metavar="PATH", help="Also write JUnit XML.")
@click.option("--csv", "table", type=_path, metavar="PATH", help="Also write a table as CSV.")
@click.option(
    "--matrix",
    type=_path,
    multiple=True,
    metavar="PATH",
    help="Also write a traceability matrix (.html or .csv) of all requirements and runs; "
    "repeatable. Each run is checked against the requirements of all runs for which it has the "
    "signals. One run that exercises a requirement is then enough.",
)
@json_option
@reports_errors
def check(
    runs: tuple[Path, ...],
    requirements: tuple[str, ...],
    junit: Path | None,
    table: Path | None,
    matrix: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Check requirements on recorded runs.

    \b
    Examples:
      rtsim check runs/f16-001.mcap
      rtsim check runs/*.mcap --require requirements.toml --matrix matrix.html
      rtsim check cart.mcap --require 'SPEED: always abs(cart.v) < 2 m/s'

    Exit status: 0 if all requirements hold, 1 if one is violated, 2 if one is undecided.
    """
    given = gather(requirements)
    if matrix:
        from rtsim.requirements.matrix_page import check_suffix, write_matrix

        for one in matrix:
            check_suffix(one)
    own = {path: _asked(path, given) for path in runs}
    every = [one for each in own.values() for one in each] if matrix and not given else []
    unchecked: dict[str, dict[Requirement, str]] = {}
    found = {}
    for one, asked in own.items():
        found[str(one)], unchecked[str(one)] = _checked(one, asked, every)
    results = [one for each in found.values() for one in each]
    status, why = status_of(results), why_of(results)
    elsewhere: list[Requirement] = []
    if matrix:
        whole = _matrix(found, unchecked, matrix[0].parent)
        status, why = whole.outcome.value, whole.why
        rows = [row for row in whole.rows if row.whole.exercised]
        elsewhere = [Requirement(row.name, row.formula, row.text) for row in rows]
    for path, each in () if as_json else found.items():
        print_requirements(each, path)
    if junit is not None:
        write_whole(junit, junit_xml(found, elsewhere))
    if table is not None:
        write_whole(table, csv_text(found))
    for one in matrix:
        write_matrix(_matrix(found, unchecked, one.parent), one)
        if not as_json:
            click.echo(f"matrix: {one}")
    if matrix and why and not as_json:
        click.echo(f"over all runs: {why}")
    left_out = {
        path: {r.name: said for r, said in each.items()} for path, each in unchecked.items()
    }
    for path, reasons in () if as_json else left_out.items():
        for name, reason in reasons.items():
            click.secho(f"note: {name} is not checked in {path}: {reason}", err=True, fg="yellow")
    if as_json:  # after the files, so that a file that cannot be written gives one JSON object
        data = {path: [one.to_json() for one in each] for path, each in found.items()}
        more = {"not_checked": {k: v for k, v in left_out.items() if v}} if matrix else {}
        show_result({"runs": data, **more}, status, why)
    sys.exit(status)


def _asked(path: Path, given: Sequence[Requirement]) -> Sequence[Requirement]:
    from rtsim.record.reading import Recording  # a run starts without it

    return given or required_by(Recording.open(path).header)


def _checked(
    path: Path, asked: Sequence[Requirement], every: Sequence[Requirement]
) -> tuple[list[RequirementResult], dict[Requirement, str]]:
    from rtsim.record.reading import Recording
    from rtsim.requirements.verdict import check as check_requirements

    recording = Recording.open(path)
    if not (asked or every):
        raise ScenarioError(
            f"the scenario of {path} declares no requirement; give --require 'NAME: FORMULA' or "
            "--require FILE.toml"
        )
    results = check_requirements(asked, recording)
    unchecked: dict[Requirement, str] = {}
    have = {(one.name, one.formula) for one in asked}
    others = {(one.name, one.formula): one for one in every}
    for other in (one for key, one in others.items() if key not in have):
        try:
            results += check_requirements([other], recording)
        except ScenarioError as error:  # a run of another scenario does not have the signals
            unchecked[other] = str(error).partition("\n")[0]
    return results, unchecked


def _matrix(
    found: Mapping[str, Sequence[RequirementResult]],
    unchecked: Mapping[str, Mapping[Requirement, str]],
    folder: Path,
) -> Matrix:
    from urllib.parse import quote

    from rtsim.requirements.matrix import Matrix

    matrix = Matrix()
    for path, results in found.items():
        try:
            link = quote(Path(os.path.relpath(path, folder)).as_posix())
        except ValueError:  # another drive of Windows
            link = Path(path).resolve().as_uri()
        matrix.add(path, [one.to_json() for one in results], link)
        matrix.about[path] = _facts(Path(path))
        for one, why in unchecked[path].items():
            matrix.leave_out(path, one.name, one.formula, why)
    codes = {facts["code"] for facts in matrix.about.values()}
    same = "The code of the scenario's functions is equal in all runs."
    differs = "The code of the scenario's functions differs between the runs."
    matrix.notes.append(differs if len(codes) > 1 else same)
    return matrix


def _facts(path: Path) -> dict[str, str]:
    from rtsim.record.reading import Recording

    header = Recording.open(path).header
    scenario = header.get("scenario") or {}
    settings = (scenario.get("origin") or {}).get("settings") or {}
    return {
        "scenario": str(scenario.get("name", "")),
        "settings": ", ".join(f"{name}={value}" for name, value in settings.items()),
        "seed": str(header.get("seed", "")),
        "file written": date_text(path.stat().st_mtime_ns),
        "rtsim": str(header.get("rtsim", "")),
        "code": str(header.get("source_hash", ""))[:12],
    }


Runs = Mapping[str, "Sequence[RequirementResult]"]
"""The verdicts of the requirements on each run, by the name of the run."""


def print_requirements(results: Sequence[RequirementResult], title: str = "Requirements") -> None:
    if not results:
        return
    from rich.markup import escape  # a run without a table starts without rich

    columns, rows = requirement_table({"": results})
    print_table(console(), escape(title), columns, [[escape(cell) for cell in row] for row in rows])
    for note in notes_of(results):
        click.secho(note, err=True, fg="yellow")


def requirement_table(runs: Runs) -> tuple[tuple[Column, ...], list[list[str]]]:
    """Return columns and rows of a table of verdicts, sorted by requirement.

    For several runs, the table has a column with the name of the run.
    """
    several = len(runs) > 1
    found = [(one, run) for run, each in runs.items() for one in each]
    order = list(dict.fromkeys(one.requirement for one, _ in found))
    found.sort(key=lambda pair: order.index(pair[0].requirement))
    rows = [
        [
            one.requirement.name,
            *([run] if several else []),
            one.verdict,
            _margin(one),
            "" if one.worst_ns is None else f"{one.worst_ns / NS_PER_S:.6g}",
            one.reason or one.worst,
        ]
        for one, run in found
    ]
    return (_COLUMNS if several else (_COLUMNS[0], *_COLUMNS[2:])), rows


def notes_of(results: Iterable[RequirementResult]) -> list[str]:
    """Return a note for each requirement that applies only to the start of a run."""
    return list(dict.fromkeys(f"note: {one.note}" for one in results if one.note))


def _margin(one: RequirementResult) -> str:
    if one.result is Outcome.UNDECIDED and one.low != one.high:
        return f"{one.low:.4g} to {one.high:.4g}"
    return f"{one.robustness:.6g}"


def requirements_to_json(results: Sequence[RequirementResult]) -> dict[str, Any]:
    """Return the requirements of a run and their verdicts as plain data."""
    return {"requirements": [one.to_json() for one in results]} if results else {}


def status_of(results: Sequence[RequirementResult]) -> int:
    """Return the exit status: 1 if a requirement is violated, else 2 if one is undecided."""
    return Outcome.of_all(one.result for one in results).value if results else 0


def why_of(results: Sequence[RequirementResult]) -> str:
    """Return the violated or undecided requirements as text; empty if all requirements hold."""
    return "; ".join(one.in_words for one in results if one.result is not Outcome.PASSED)


def junit_xml(
    found: Mapping[str, Sequence[RequirementResult]], elsewhere: Collection[Requirement] = ()
) -> str:
    """Return a JUnit document with one suite for each recording.

    ``elsewhere`` contains the requirements that at least one of the runs exercises. A requirement
    that this run does not exercise is a skipped test case if another run exercises the requirement.
    """
    from rtsim.record.reports.junit import finished, new_document

    root = new_document("requirements")
    for path, results in found.items():
        title = f"requirements: {path}"
        requirement_suite(root, title, "requirements", results, elsewhere, traced=True)
    return finished(root)


def requirement_suite(
    root: Element,
    title: str,
    classname: str,
    results: Sequence[RequirementResult],
    elsewhere: Collection[Requirement] = (),
    *,
    traced: bool = False,
) -> None:
    """Add a suite with one test case for each requirement of a run to a JUnit document.

    ``elsewhere`` contains the requirements that another run exercises. With ``traced``, test cases
    have properties for traceability, which Jenkins does not accept.
    """
    from rtsim.record.reports.junit import Suite

    suite = Suite(root, title, {})
    for one in results:
        case = suite.case(classname, one.name, properties_of(one) if traced else None)
        if one.result is Outcome.FAILED:
            suite.failure(case, one.in_words, f"{one.requirement}\n{one.requirement.text}")
        elif not one.is_exercised and one.requirement in elsewhere:
            suite.skipped(case, one.in_words)
        elif one.result is Outcome.UNDECIDED:
            suite.error(case, one.in_words)
        else:
            suite.remark(case, f"{one.in_words}\n{one.requirement.text}".strip())
    suite.done()


def properties_of(one: RequirementResult) -> dict[str, object]:
    of = one.requirement
    times = {} if one.exercised is None else {"times": one.exercised}
    return {
        "requirement": of.name, "text": of.text, "formula": of.formula, "verdict": one.verdict,
        "robustness": _margin(one), "exercised": "yes" if one.is_exercised else "no", **times,
    }  # fmt: skip


def csv_text(found: Mapping[str, Sequence[RequirementResult]]) -> str:
    import csv
    import io

    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(_CSV)
    for path, results in found.items():
        for one in results:
            of, worst = one.requirement, one.worst_ns
            at = "" if worst is None else f"{worst / NS_PER_S:.9g}"
            counted = "" if one.exercised is None else one.exercised
            rows.writerow(
                [path, of.name, of.formula, of.text, one.result.name.lower(), one.low, one.high,
                 at, one.worst, counted, one.reason]
            )  # fmt: skip
    return out.getvalue()
