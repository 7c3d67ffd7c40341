"""``rtsim diverge``: find the first difference between two runs, and its cause."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.options import trust_options
from rtsim.cli.recordings import say_cut_off
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.outcome import Outcome
from rtsim.core.tag import to_ns
from rtsim.record.events import CUT_OFF
from rtsim.record.reading import Recording
from rtsim.runs.diverging import Verdict
from rtsim.runs.diverging import diverge as find
from rtsim.runs.diverging.first import Place, ValuePair, in_full
from rtsim.runs.diverging.inputs import Feeding
from rtsim.runs.progress import ProgressLine

_path = click.Path(path_type=Path)
_MOST = 20
"""Number of values shown. --all shows the rest."""


@click.command()
@click.argument("a", type=_path)
@click.argument("b", type=_path, required=False)
@click.option(
    "--from",
    "first",
    metavar="T",
    help="Begin the comparison at the last checkpoint up to simulated time T (s).  [default: the "
    "start of the run]",
)
@click.option(
    "--live",
    is_flag=True,
    help="Run external controllers again instead of replaying their recorded answers.",
)
@click.option(
    "--no-fly", is_flag=True, help="Compare the two recordings only; do not run the scenario again."
)
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show all values, including values that are equal in both runs.",
)
@json_option
@reports_errors
@trust_options
def diverge(
    a: Path,
    b: Path | None,
    first: str | None,
    live: bool,
    no_fly: bool,
    show_all: bool,
    as_json: bool,
) -> None:
    """Find the first difference between the recordings A and B. Without B, run A again and compare.

    The command prints the first signal or message that differs, its inputs in both runs, and the
    last time at which both runs agreed. Checkpoints beside the recordings make the search faster
    (docs/diverge.md).

    \b
    Examples:
      rtsim diverge runs/f16-001.mcap
      rtsim diverge a.mcap b.mcap --from 12.5

    Exit status: 0 if the runs agree, 1 if they differ, 2 if the comparison was undecided.
    """
    recordings = [Recording.open(path) for path in (a, b) if path is not None]
    line = ProgressLine("diverge", sys.stderr.isatty() and not as_json)
    try:
        verdict = find(
            recordings[0],
            recordings[1] if b is not None else None,
            live=live,
            since_ns=None if first is None else to_ns(first, "time"),
            fly=not no_fly,
            say=line.say,
        )
    finally:
        line.close()
    if as_json:
        truncated = [recording.truncated for recording in recordings]
        why = verdict.undecided if verdict.place is None else in_words(verdict.place)
        data = {**verdict.to_json(), "truncated": truncated}
        show_result(data, verdict.outcome.value, why)
    else:
        say_cut_off(*recordings)
        _print(verdict, show_all)
    sys.exit(verdict.outcome.value)


def _print(verdict: Verdict, show_all: bool) -> None:
    place = verdict.place
    if place is None:
        click.echo(f"{verdict.a} and {verdict.b} agree bit for bit {_span(verdict)}")
    else:
        agreed = "nothing" if verdict.agreed is None else str(verdict.agreed)
        click.echo(f"last tag at which everything agreed: {agreed}")
        _print_place(verdict, place, show_all)
    for name, ending in zip((verdict.a, verdict.b), verdict.endings, strict=False):
        if not ending.complete and ending.reason != CUT_OFF:  # a cut-off is printed above
            click.echo(f"{name} {ending}")
    if verdict.outcome is Outcome.UNDECIDED:
        click.echo(f"could not be decided: {verdict.undecided}")
    for note in verdict.notes:
        click.echo(f"note: {note}")


def _span(verdict: Verdict) -> str:
    return f"from {verdict.began.seconds:g} to {verdict.ended.seconds:g} s"


def _print_place(verdict: Verdict, place: Place, show_all: bool) -> None:
    click.echo(f"first difference: {in_words(place)}")
    _print_pairs("", ("", verdict.a, verdict.b, "apart"), place.pairs, show_all)
    if verdict.fed is not None:
        _print_fed(verdict, verdict.fed, show_all)
    if verdict.drawn is not None:
        since = "the start" if verdict.agreed is None else str(verdict.agreed)
        _print_lists(f"random streams used after {since}", verdict.drawn)
    for other in verdict.also:
        click.echo(f"also different at this tag: {in_words(other)}")
    if verdict.visible is not None:
        text = f"first difference in the recordings: {in_words(verdict.visible)}"
        click.echo(text)
        _print_pairs("", ("", verdict.a, verdict.b, "apart"), verdict.visible.pairs, show_all)


def in_words(place: Place) -> str:
    """Return one line about ``place``: kind, name, moment (such as ``x-``) and tag."""
    of = f", of a message initiated at {place.initiated}" if _is_sent(place) else ""
    return f"{place.what} {place.name} ({place.moment}) at {place.tag}{of}"


def _is_sent(place: Place) -> bool:
    return place.initiated is not None and place.initiated != place.tag


def _print_fed(verdict: Verdict, fed: Feeding, show_all: bool) -> None:
    click.echo(f"inputs of: {fed.how}")
    if fed.inputs:
        names = ("input", verdict.a, verdict.b, "apart", "from")
        _print_pairs("", names, fed.inputs, show_all)
    at_that_tag = (("messages that arrived", fed.arrived), ("events", fed.happened))
    for what, lists in at_that_tag:
        if any(lists):
            _print_lists(what, lists)
    if fed.equal and fed.inputs:
        click.echo("all these inputs are equal: the difference was made in this computation")


def _print_lists(what: str, lists: tuple[Sequence[str], Sequence[str]]) -> None:
    one, other = (", ".join(names) or "none" for names in lists)
    text = one if one == other else f"{one} | {other}"
    click.echo(f"{what}: {text}")


def _print_pairs(
    title: str, names: Sequence[str], pairs: Sequence[ValuePair], show_all: bool
) -> None:
    columns = [Column(names[0]), *(Column(name, fold=True) for name in names[1:3])]
    columns += [Column(name) for name in names[3:]]
    shown = pairs if show_all else pairs[:_MOST]
    rows = [
        (pair.name, in_full(pair.a), in_full(pair.b), "equal" if pair.equal else pair.apart)
        + (pair.source,) * (len(names) - 4)
        for pair in shown
    ]
    print_table(console(), title, columns, rows)
    if len(shown) < len(pairs):
        click.echo(f"… {len(pairs) - len(shown)} more; --all shows them")
