"""Tables for the terminal, and single key presses."""

from __future__ import annotations

import itertools
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtsim.core.clock import WallClock

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_GAP = 2
_READABLE = 26
"""Least width of a folded column.

If space is short, other columns are dropped first. A verdict fits into this width in one line.
"""
_UNLIMITED = 10_000
_PAGE = 1000
"""Number of rows of a long table that are in memory at one time."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    ``number`` aligns the column right. ``fold`` breaks long cells into lines. On a narrow
    terminal, columns with the highest ``drop`` are omitted first.
    """

    name: str
    number: bool = False
    fold: bool = False
    drop: int = 0


def console() -> Console:
    """Return a console on standard output, which wraps lines only on a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _UNLIMITED
    return Console(width=width, highlight=False)


def print_table(
    out: Console, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> None:
    if title:  # the title of a Table would be as narrow as the table
        out.print(title, style="table.title")
    table, needed = fitted("", columns, rows, out.width)
    # If even the names do not fit, the table is wider than the terminal, and the terminal wraps
    # lines.
    width = out.width
    out.width = max(width, needed)
    out.print(table, crop=False)
    out.width = width


def print_long_table(
    out: Console, title: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]
) -> None:
    """Print a table of any length in little memory.

    The column headings are printed once. A column can become wider from one part of the table to
    the next.
    """
    pages = _pages(rows)
    page = next(pages)
    print_table(out, title, columns, page)
    least = [_width(c, [row[i] for row in page]) for i, c in enumerate(columns)]
    chosen = _fitting(columns, least, out.width)
    for page in pages:
        here = [_width(c, [row[i] for row in page]) for i, c in enumerate(columns)]
        least = [max(pair) for pair in zip(least, here, strict=True)]
        cells = [[row[i] for i in chosen] for row in page]
        _print_page(out, [columns[i] for i in chosen], [least[i] for i in chosen], cells)


def _pages(rows: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    left = iter(rows)
    yield list(itertools.islice(left, _PAGE))
    while page := list(itertools.islice(left, _PAGE)):
        yield page


def _print_page(
    out: Console, columns: Sequence[Column], widths: Sequence[int], rows: Sequence[Sequence[str]]
) -> None:
    gap = " " * _GAP
    lines = [
        gap.join(
            cell.rjust(width) if column.number else cell.ljust(width)
            for column, width, cell in zip(columns, widths, row, strict=True)
        )
        for row in rows
    ]
    out.file.write("\n".join(lines) + "\n")


def fitted(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[Table, int]:
    from rich.table import Table

    widths = [_width(c, [row[i] for row in rows]) for i, c in enumerate(columns)]
    chosen = _fitting(columns, widths, width)
    if _needed(widths, chosen) > width:
        widths = [_width(c, [row[i] for row in rows], 0) for i, c in enumerate(columns)]
    table = Table(
        title=title or None, title_justify="left", box=None, padding=(0, _GAP, 0, 0), pad_edge=False
    )
    for i in chosen:
        one = columns[i]
        table.add_column(
            one.name,
            justify="right" if one.number else "left",
            no_wrap=not one.fold,
            min_width=widths[i],
            overflow="fold" if one.fold else "crop",
        )
    for row in rows:
        table.add_row(*(row[i] for i in chosen))
    return table, _needed(widths, chosen)


def _width(column: Column, cells: Sequence[str], readable: int = _READABLE) -> int:
    from rich.cells import cell_len

    pieces = [word for cell in cells for word in cell.split()] if column.fold else cells
    longest = max(map(cell_len, (column.name, *pieces)))
    whole = max(map(cell_len, (column.name, *cells)))
    return max(longest, min(whole, readable) if column.fold else 0)


def _needed(widths: Sequence[int], chosen: Sequence[int]) -> int:
    return sum(widths[i] for i in chosen) + _GAP * max(0, len(chosen) - 1)


def _fitting(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    chosen = list(range(len(columns)))
    for i in sorted((i for i in chosen if columns[i].drop), key=lambda i: -columns[i].drop):
        if _needed(widths, chosen) > width:
            chosen.remove(i)
    return chosen


# Reading of single keys; the terminal's settings are restored afterwards

Read = Callable[[float], list[str]]
"""Function that waits at most the given seconds for keys, and returns the list of pressed keys."""


def is_terminal() -> bool:
    """Return True if standard input and standard output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def keyboard() -> Iterator[Read]:
    """Context that yields a function to read single keys, including Ctrl-C (``"\\x03"``).

    An escape sequence counts as one key.
    """
    if sys.platform == "win32":
        yield _read_console
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def read(seconds: float) -> list[str]:
        if not select.select([number], [], [], seconds)[0]:
            return []
        data = os.read(number, 1024)
        if not data:
            raise KeyboardInterrupt  # the terminal has been closed
        return split(data.decode(errors="replace"))

    try:
        tty.setcbreak(number, termios.TCSANOW)
        mode = termios.tcgetattr(number)
        mode[3] &= ~termios.ISIG
        termios.tcsetattr(number, termios.TCSANOW, mode)
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _read_console(seconds: float) -> list[str]:
    if sys.platform == "win32":
        import msvcrt

        clock, step = WallClock(spin_ns=0), 5_000_000
        for k in range(1 + round(seconds * 1e9 / step)):
            if msvcrt.kbhit():
                return [msvcrt.getwch()]
            clock.wait_until(k * step)
    return []


def split(text: str) -> list[str]:
    """Split ``text`` into keys. An escape sequence is one key."""
    keys, at = [], 0
    while at < len(text):
        end = at + 1
        if text[at : at + 2] == "\x1b[":
            end = at + 2
            while end < len(text) and not ("@" <= text[end] <= "~"):
                end += 1
            end += 1
        keys.append(text[at:end])
        at = end
    return keys
