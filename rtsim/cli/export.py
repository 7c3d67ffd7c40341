"""The command ``rtsim export``."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.recordings import say_cut_off
from rtsim.cli.tables import console
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.record.export import EXPORTS
from rtsim.record.export import export as write
from rtsim.record.reading import Recording
from rtsim.record.table import Side, SignalTable, message_table

_path = click.Path(path_type=Path)


@click.command()
@click.argument("recording", type=_path)
@click.option(
    "-o",
    "--output",
    type=_path,
    required=True,
    help="File to write: .csv, .parquet, .mat, .h5, .nc or .npz.",
)
@click.option(
    "--signals",
    "-s",
    "names",
    multiple=True,
    metavar="NAME",
    help="A component, a signal, or a pattern such as 'f16.*_deg'; repeatable.  [default: all "
    "signals of plants]",
)
@click.option("--messages", metavar="PORT", help="Write all messages of PORT instead of signals.")
@click.option("--from", "first", default="0", show_default=True, metavar="T", help="First time, s.")
@click.option("--to", "last", metavar="T", help="Last time, s.  [default: the end]")
@click.option("--rate", type=float, metavar="HZ", help="Rows per second.  [default: recorded rows]")
@click.option(
    "--side",
    type=click.Choice(["plus", "minus"]),
    default="plus",
    show_default=True,
    help="The value at an instant with two: after (plus) or before (minus) its discrete changes.",
)
@click.option("--own", is_flag=True, help="Leave a value empty where its component has no row.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
@reports_errors
def export(
    recording: Path,
    output: Path,
    names: tuple[str, ...],
    messages: str | None,
    first: str,
    last: str | None,
    rate: float | None,
    side: Side,
    own: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write signals of RECORDING as a table for other programs.

    One row for each time, one column for each signal. Every number is written bit for bit.

    \b
    Examples:
      rtsim export runs/f16-001.mcap -o f16.parquet
      rtsim export runs/f16-001.mcap -o f16.csv -s f16.altitude -s 'autopilot.*' --rate 50
    """
    EXPORTS.get_or_raise(output.suffix.removeprefix("."), f"the suffix of {output.name}")
    if output.is_file() and not force:
        raise RecordingError(f"{output} exists; give another -o PATH, or --force to overwrite it")
    if messages is not None and (names or rate is not None or own or side != "plus"):
        raise ScenarioError(
            "--messages writes all messages; leave --signals, --rate, --side and --own out"
        )
    recorded = Recording.open(recording)
    end = Fraction(recorded.end_ns, NS_PER_S)
    if to_ns(first, "--from") > recorded.end_ns:
        raise RecordingError(
            f"--from {first}: {recording} ends at {float(end):g} s; give an earlier time"
        )
    span = (first, end if last is None else last)
    if messages is None:
        table = recorded.table(*names, side=side, rate=rate, own=own, span=span)
    else:
        table = message_table(recorded, messages, span)
    if not len(table):
        until = "its end" if last is None else f"{last} s"
        raise RecordingError(
            f"{recording} has no rows from {first} s to {until}; choose a longer time, or give "
            "--rate for values between the rows"
        )
    write(table, output)
    _show(table, output, recorded, as_json)


def _show(table: SignalTable, output: Path, recorded: Recording, as_json: bool) -> None:
    if as_json:
        show_result(
            {
                "export": str(output),
                "rows": len(table),
                "columns": list(table.columns),
                "truncated": recorded.truncated,
            }
        )
        return
    say_cut_off(recorded)
    console().print(
        f"export: {output}: {len(table)} rows, {len(table.columns)} signals", soft_wrap=True
    )
