"""``python -m tools.mutants [MODULE]...``: try a sample of the mutants, and print the scores."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from tools.mutants.judging import GOAL, HEADS, Score, Tables, read, rows, stale
from tools.mutants.running import as_interrupts

ROOT = Path(__file__).resolve().parents[2]


@click.command()
@click.argument("modules", nargs=-1)
@click.option("--every", default=1, type=click.IntRange(1), help="Try one mutant of so many.")
@click.option("--seed", default=0, help="Draws another sample.")
@click.option("--minutes", default=60.0, help="Stop after that; the next call goes on.")
@click.option("--again", is_flag=True, help="Try once more what no test noticed.")
@click.option("--scores", is_flag=True, help="Only print what was found so far.")
@click.option("--survivors", is_flag=True, help="List what no test noticed.")
@click.option("--folder", default=ROOT / ".mutants", type=click.Path(path_type=Path))
def main(
    modules: tuple[str, ...],
    every: int,
    seed: int,
    minutes: float,
    again: bool,
    scores: bool,
    survivors: bool,
    folder: Path,
) -> None:
    """Change MODULES (all, where none is named) in small ways, and see whether a test notices.

    What was tried is kept in FOLDER: a call that was interrupted, or that ran out of time, is
    gone on with by the next one.  A module whose source has changed begins anew.
    """
    from tools.mutants.session import NotDecided, Session, copy_source, environment

    as_interrupts()
    table = read()
    named = _named(modules, table)
    folder = folder.resolve()
    environment(copy_source(ROOT, folder), folder)
    sessions = [Session(name, table.tests[name], folder, ROOT) for name in named]
    until = stopwatch() + round(minutes * 60 * NS_PER_S)
    undecided = False
    for session in [] if scores else sessions:
        try:
            for told in session.run(every, seed, until, again):
                click.echo(told)
        except NotDecided as error:
            click.echo(str(error), err=True)
            undecided = True
        except KeyboardInterrupt:
            click.echo("interrupted; the next call goes on", err=True)
            break
    found = [session.score(every, seed, table) for session in sessions if session.known]
    for one in stale(table, ROOT):
        click.echo(f"equivalent.toml has a mutant whose source is gone: {one.told}", err=True)
    if survivors:
        for score in found:
            for survivor in score.survived:
                click.echo(survivor.told)
    _show(found)
    complete = len(found) == len(named) and all(one.tried == one.mutants for one in found)
    if undecided or not complete:
        click.echo("not all of the sample was tried")
        sys.exit(2)
    sys.exit(0 if all(one.share is None or one.share >= GOAL for one in found) else 1)


def _named(modules: tuple[str, ...], table: Tables) -> list[str]:
    """Modules of the table by the ends of their paths."""
    out = []
    for name in modules:
        exact = [known for known in table.tests if known == name]
        fitting = exact or [known for known in table.tests if name in known]
        if not fitting:
            raise click.UsageError(f"{name} is not in tools/mutants/modules.toml")
        out += [known for known in fitting if known not in out]
    return out or list(table.tests)


def _show(found: list[Score]) -> None:
    table = Table(*HEADS, box=None)
    for cells in rows(found):
        table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()
