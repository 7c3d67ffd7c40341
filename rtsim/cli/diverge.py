"""``rtsim diverge``: where two runs part first, and what fed that."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.progress import ProgressLine
from rtsim.cli.recordings import say_cut_off
from rtsim.cli.tables import Column, console, print_table
from rtsim.cli.trusting import trust_options
from rtsim.core.tag import to_ns
from rtsim.record.ending import CUT_OFF
from rtsim.record.reading import Recording
from rtsim.record.verdict import Outcome
from rtsim.runs.diverging import Verdict
from rtsim.runs.diverging import diverge as find
from rtsim.runs.diverging.feeding import Feeding
from rtsim.runs.diverging.first import Place
from rtsim.runs.diverging.values import ValuePair, in_full

_path = click.Path(path_type=Path)
_MOST = 20
"""So many values are shown; --all shows the rest."""


@click.command()
@click.argument("a", type=_path)
@click.argument("b", type=_path, required=False)
@click.option("--from", "first", metavar="T", help="Begin at the nearest checkpoint before T s.")
@click.option("--live", is_flag=True, help="Outside controllers run again, instead of being fed.")
@click.option("--no-fly", is_flag=True, help="Only read: nothing is flown again.")
@click.option("--all", "show_all", is_flag=True, help="Every value, also those that agree.")
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
    """Find the first tag at which recordings A and B part, or A and its re-run; exit 1 if they do.

    Says which signal or message differs, what fed it in either run, and the last tag at which all
    agreed. Checkpoints beside the recordings shorten the search (docs/diverge.md).
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
        show_json({**verdict.to_json(), "truncated": truncated})
    else:
        say_cut_off(*recordings)
        _print(verdict, console(), show_all)
    sys.exit(verdict.outcome.value)


def _print(verdict: Verdict, out: Console, show_all: bool) -> None:
    place = verdict.place
    if place is None:
        out.print(
            f"{verdict.a} and {verdict.b} agree bit for bit, {_span(verdict)}", soft_wrap=True
        )
    else:
        agreed = "nothing" if verdict.agreed is None else str(verdict.agreed)
        out.print(f"last tag at which all agreed: {agreed}", soft_wrap=True)
        _print_place(verdict, place, out, show_all)
    for name, ending in zip((verdict.a, verdict.b), verdict.endings, strict=False):
        if not ending.complete and ending.reason != CUT_OFF:  # which stands above
            out.print(f"{name} {ending}", soft_wrap=True, markup=False)
    if verdict.outcome is Outcome.UNDECIDED:
        out.print(f"could not be decided: {verdict.undecided}", soft_wrap=True, markup=False)
    for note in verdict.notes:
        out.print(f"note: {note}", soft_wrap=True, markup=False)


def _span(verdict: Verdict) -> str:
    return f"from {verdict.began.seconds:g} to {verdict.ended.seconds:g} s"


def _print_place(verdict: Verdict, place: Place, out: Console, show_all: bool) -> None:
    out.print(f"first that differs: {in_words(place)}", soft_wrap=True, markup=False)
    _print_pairs("", ("", verdict.a, verdict.b, "apart"), place.pairs, out, show_all)
    if verdict.fed is not None:
        _print_fed(verdict, verdict.fed, out, show_all)
    if verdict.drawn is not None:
        since = "the start" if verdict.agreed is None else str(verdict.agreed)
        _print_lists(f"random streams drawn from after {since}", verdict.drawn, out)
    for other in verdict.also:
        out.print(f"also at this tag: {in_words(other)}", soft_wrap=True, markup=False)
    if verdict.visible is not None:
        out.print(f"first in a recording: {in_words(verdict.visible)}", soft_wrap=True)
        _print_pairs("", ("", verdict.a, verdict.b, "apart"), verdict.visible.pairs, out, show_all)


def in_words(place: Place) -> str:
    """A place in one line: what, when, and at which moment of its tag."""
    of = f", of a message initiated at {place.initiated}" if _is_sent(place) else ""
    return f"{place.what} {place.name} ({place.moment}) at {place.tag}{of}"


def _is_sent(place: Place) -> bool:
    return place.initiated is not None and place.initiated != place.tag


def _print_fed(verdict: Verdict, fed: Feeding, out: Console, show_all: bool) -> None:
    out.print(f"what fed it: {fed.how}", soft_wrap=True, markup=False)
    if fed.inputs:
        names = ("input", verdict.a, verdict.b, "apart", "from")
        _print_pairs("", names, fed.inputs, out, show_all)
    for what, lists in (("arrived then", fed.arrived), ("happened then", fed.happened)):
        if any(lists):
            _print_lists(what, lists, out)
    if fed.equal and fed.inputs:
        out.print("all of that is equal: the difference was made there")


def _print_lists(what: str, lists: tuple[Sequence[str], Sequence[str]], out: Console) -> None:
    one, other = (", ".join(names) or "none" for names in lists)
    text = one if one == other else f"{one} | {other}"
    out.print(f"{what}: {text}", soft_wrap=True, markup=False)


def _print_pairs(
    title: str, names: Sequence[str], pairs: Sequence[ValuePair], out: Console, show_all: bool
) -> None:
    columns = [Column(names[0]), *(Column(name, fold=True) for name in names[1:3])]
    columns += [Column(name) for name in names[3:]]
    shown = pairs if show_all else pairs[:_MOST]
    rows = [
        (pair.name, in_full(pair.a), in_full(pair.b), "equal" if pair.equal else pair.apart)
        + (pair.source,) * (len(names) - 4)
        for pair in shown
    ]
    print_table(out, title, columns, rows)
    if len(shown) < len(pairs):
        out.print(f"… {len(pairs) - len(shown)} more: --all")
