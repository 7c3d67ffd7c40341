"""Names in tables are never cut, however narrow the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rtsim.cli.recordings import print_comparison
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison
from rtsim.record.verdict import SignalResult

NAME = "messages/autopilot.inputs.inertial_pitch_rate"


def shown(width: int, *columns: Column, rows: list[list[str]]) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width), "Title", columns, rows)
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_names_are_never_cut(width: int) -> None:
    columns = Column("signal"), Column("rel", number=True, drop=1), Column("verdict", fold=True)
    text = shown(width, *columns, rows=[[NAME, "123456.789", "fails at 0.005 s, 500/502"]])
    assert NAME in text
    assert "500/502" in text
    assert ("123456.789" in text) == (width > 80)


def test_numbers_stand_to_the_right() -> None:
    text = shown(80, Column("n", number=True), rows=[["1"], ["1000"]])
    assert [line.rstrip() for line in text.splitlines()[-2:]] == ["   1", "1000"]


def test_a_word_is_not_broken_where_text_is_folded() -> None:
    text = shown(30, Column("topic"), Column("payload", fold=True), rows=[["a", NAME + " b " * 9]])
    assert NAME in text


def test_what_is_no_terminal_is_as_wide_as_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(console(), "T", [Column("x", fold=True)], [["word " * 100]])
    assert max(map(len, capsys.readouterr().out.splitlines())) >= 499


def test_a_comparison_shows_the_worst_and_says_what_it_hides(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = [
        SignalResult(f"a.x{i}", max_rel=float(i), first=Tag(5), reason="beyond") for i in range(30)
    ]
    verdict = Comparison([*results, SignalResult("a.same")])
    print_comparison(verdict, show_all=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("a.x29 ")
    assert len([line for line in lines if line.startswith("a.")]) == 20
    assert "… 10 more; --all shows them" in lines
    print_comparison(verdict, show_all=True)
    assert "a.same" in capsys.readouterr().out


def test_other_tags_suggest_common(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(Comparison([SignalResult("a.x", reason="other tags: row 1")]), False)
    assert "--common pairs rows by time" in capsys.readouterr().out
