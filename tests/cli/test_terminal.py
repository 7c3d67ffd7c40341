"""Tables of the command line."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from rtsim.cli.terminal import Column, print_table


def test_a_title_that_is_longer_than_its_table_stays_on_one_line() -> None:
    out = Console(file=StringIO(), width=80)
    print_table(out, "worst age: 12.3834 ms, from 2.795 s", [Column("message")], [["imu 7"]])
    assert isinstance(out.file, StringIO)
    first, heading, *_ = out.file.getvalue().splitlines()
    assert first == "worst age: 12.3834 ms, from 2.795 s"
    assert heading.strip() == "message"
