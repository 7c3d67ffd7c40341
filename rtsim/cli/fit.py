"""``rtsim fit``: fit parameters of a scenario to measured signals."""

from __future__ import annotations

from pathlib import Path

import click

from rtsim.cli.common import NO, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import option, parse_settings
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.errors import RecordingError
from rtsim.core.extras import installed
from rtsim.studies.fitting import LEVEL, Fit
from rtsim.studies.fitting import fit as search
from rtsim.studies.texts import value_of

_COLUMNS = (
    Column("parameter"), Column("value", number=True), Column("standard error", number=True),
    Column(f"{LEVEL:.0%} interval", number=True), Column("start", number=True, drop=1),
)  # fmt: skip


def _ranges(texts: tuple[str, ...]) -> dict[str, str]:
    out: dict[str, str] = {}
    for text in texts:
        name, _, given = text.partition("=")
        if name.strip() in out:
            raise click.UsageError(f"--vary {name} is given twice; leave one of them out")
        out[name.strip()] = given.strip()
    return out


def _titles(texts: tuple[str, ...]) -> dict[str, str]:
    out: dict[str, str] = {}
    for text in texts:
        name, equals, title = text.partition("=")
        if not equals:
            raise click.UsageError(f"--column {text} has no title; write --column NAME=TITLE")
        if name.strip() in out:
            raise click.UsageError(f"--column {name} is given twice; leave one of them out")
        out[name.strip()] = title.strip()
    return out


@click.command()
@click.argument("scenario")
@click.option(
    "--to",
    "source",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Measurements: a recording (.mcap), or a CSV file with a column 'time' in s and columns "
    "such as cart.x.",
)
@click.option(
    "--vary",
    "vary",
    multiple=True,
    required=True,
    metavar="NAME[=range:LOW,HIGH]",
    help="Value to fit: a parameter or an initial value, or an argument of the scenario with its "
    "range; repeatable.",
)
@click.option(
    "--signal",
    "signals",
    multiple=True,
    metavar="NAME",
    help="Signal to compare; repeatable.  [default: all measured signals of plants]",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME",
    help="Value of a source that follows the measurement of the same name; repeatable.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=TITLE[,scale=A][,offset=B]",
    help="Column of the CSV file for the signal NAME, or for the times (NAME is time); the values "
    "are A * value + B; repeatable.",
)
@option(
    "--set",
    help="Set an argument of the scenario or a value of a component in all runs; repeatable.",
)
@option(
    "--until",
    help="End of each run, simulated s.  [default: the end of the data]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of each run.")
@option("--output", help="HTML page with the residuals of each signal.")
@option("--force")
@click.option("--strict", is_flag=True, help="Exit with status 1 after any warning.")
@json_option
@reports_errors
def fit(
    scenario: str,
    source: Path,
    vary: tuple[str, ...],
    signals: tuple[str, ...],
    inputs: tuple[str, ...],
    columns: tuple[str, ...],
    settings: tuple[str, ...],
    until: str | None,
    seed: int,
    path: Path | None,
    force: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Fit parameters of SCENARIO to measurements by the method of least squares.

    The intervals assume that the model is correct and that the noise of each signal is independent.
    The command warns if the data do not determine a value, if a value reaches its range, and if the
    residuals are correlated.  With --strict, a warning changes the exit status from 0 to 1.

    \b
    Examples:
      rtsim fit motor.py --to bench.csv --vary motor.friction --vary motor.gain=range:1,10
      rtsim fit motor.py --to bench.csv --vary motor.gain --input drive.voltage -o fit.html
      rtsim fit motor.py --to rig.csv --vary motor.gain --column motor.speed=rpm,scale=0.1047

    Exit status: 0 if the data determine all values, 1 if some values remain undetermined, 2 if the
    fit did not converge.
    """
    if path is not None:
        if path.suffix != ".html":
            raise RecordingError(f"{path} is no name of a page; give -o FILE.html")
        if path.is_file() and not force:
            raise RecordingError(f"{path} exists; give another -o PATH, or --force to overwrite it")
        installed("plotly", "plots", "a page with plots")
    with sigterm_interrupts():
        found = search(
            scenario, source, _ranges(vary), signals=signals, inputs=inputs,
            columns=_titles(columns),
            settings={name: value_of(text) for name, text in parse_settings(settings).items()},
            until=until, seed=seed,
        )  # fmt: skip
    if path is not None:
        from rtsim.studies.report.fit_page import write_fit_page

        write_fit_page(path, f"{scenario} fitted to {source.name}", found)
    status = found.status or (NO if strict and found.warnings else 0)
    if as_json:
        page = None if path is None else str(path)
        show_result({**found.to_json(), "page": page}, status, _why(found))
    else:
        _print(found)
        if path is not None:
            click.echo(f"page: {path}")
    if status:
        raise SystemExit(status)


def _why(found: Fit) -> str:
    return "; ".join(found.warnings if found.converged else (*found.warnings, found.why))


def _print(found: Fit) -> None:
    rows = [one.cells for one in found.parameters]
    print_table(
        console(), f"{found.source}: {found.time.size} rows, {found.runs} runs", _COLUMNS, rows
    )
    for name, noise in found.noise.items():
        click.echo(f"noise of {name}: {noise:.3g}")
    if found.unused:
        click.echo(f"not used: {', '.join(found.unused)}")
    for sentence in found.warnings:
        click.echo(f"warning: {sentence}")
    if not found.converged:
        click.echo(f"the fit did not converge: {found.why}")
