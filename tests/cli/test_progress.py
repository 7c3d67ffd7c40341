"""Progress of runs and studies: where it appears and when; no effect on the rows.

Names in tables are never cut, however narrow the terminal.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import rtsim.runs.progress as progress_module
from rtsim import simulate
from rtsim.cli.recordings import print_comparison
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison
from rtsim.record.verdict import SignalResult
from rtsim.runs.progress import NotebookBar, TerminalLine, display_of
from rtsim.runs.request import Progress
from rtsim.scenario.loading import load_scenario
from rtsim.studies import Max, MonteCarlo, Study, start


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


class Handle:
    """What IPython returns for a display that can be updated."""

    def __init__(self, shown: list[Any]) -> None:
        self.update = shown.append


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    out = Terminal()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=out, modules=sys.modules))
    return out


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let each look at the stopwatch take so many seconds."""

    def every(seconds: float) -> None:
        now = [0]

        def stopwatch() -> int:
            now[0] += int(seconds * 1e9)
            return now[0]

        monkeypatch.setattr(progress_module, "stopwatch", stopwatch)

    return every


def run(**options: Any) -> Any:
    return simulate(load_scenario("unstable"), until=1, compile=False, **options)


def test_a_long_run_shows_its_progress_on_a_terminal(
    terminal: Terminal, passes: Callable[[float], None]
) -> None:
    passes(0.3)
    run()
    lines = terminal.getvalue().split("\r")
    assert re.search(r"0\.0[34] / 1 s  x0\.0[23]", lines[1])  # the first text has a rate
    assert lines[-1] == "\x1b[K"  # removed at the end
    assert len(lines) > 5


def test_a_short_run_shows_nothing(terminal: Terminal, passes: Callable[[float], None]) -> None:
    passes(1e-6)
    run()
    assert terminal.getvalue() == ""


def test_nothing_is_shown_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, passes: Callable[[float], None]
) -> None:
    passes(0.3)
    out = io.StringIO()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=out, modules=sys.modules))
    run()
    assert out.getvalue() == ""
    run(progress=True)
    assert "/ 1 s" in out.getvalue()


def test_progress_can_be_refused(terminal: Terminal, passes: Callable[[float], None]) -> None:
    passes(0.3)
    run(progress=False)
    run(observe=lambda _: None)  # an observer of the caller's own shows it
    assert terminal.getvalue() == ""


def test_an_own_observer_is_called_too(terminal: Terminal, passes: Callable[[float], None]) -> None:
    passes(0.3)
    seen: list[Progress] = []
    run(progress=True, observe=seen.append)
    assert len(seen) > 50
    assert "/ 1 s" in terminal.getvalue()


def test_progress_changes_no_row(terminal: Terminal, passes: Callable[[float], None]) -> None:
    quiet = run(progress=False).recording().digest()
    passes(0.3)
    assert run().recording().digest() == quiet
    assert terminal.getvalue()


def test_a_failed_run_removes_its_progress(
    terminal: Terminal, passes: Callable[[float], None]
) -> None:
    passes(0.3)

    def fail(progress: Progress) -> None:
        if progress.ns > 500_000_000:
            raise ValueError("observer")

    with pytest.raises(ValueError, match="observer"):
        run(progress=True, observe=fail)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_notebook_shows_a_single_bar(
    monkeypatch: pytest.MonkeyPatch, passes: Callable[[float], None]
) -> None:
    passes(0.3)
    shown: list[Any] = []

    def display(markup: Any, display_id: bool) -> Handle:
        assert display_id
        shown.append(markup)
        return Handle(shown)

    monkeypatch.setattr(progress_module, "display_of", lambda _: NotebookBar(display))
    run()
    assert "<progress value='0." in shown[0]._repr_html_()
    assert " / 1 s" in repr(shown[0])
    assert shown[-1]._repr_html_() == ""


def test_a_notebook_is_recognized_by_its_kernel(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    pytest.importorskip("IPython")
    shell = type("Shell", (), {"kernel": object()})()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert isinstance(display_of(None), NotebookBar)
    assert display_of(False) is None
    shell.kernel = None  # IPython on a terminal
    assert isinstance(display_of(None), TerminalLine)
    assert terminal.getvalue() == ""


def test_a_study_shows_its_progress(
    tmp_path: Path, terminal: Terminal, passes: Callable[[float], None]
) -> None:
    passes(0.3)
    study = Study({"plant.x": (0.5, 1.0)}, MonteCarlo(4), {"top": Max("plant.x")}, until=0.1)
    start("unstable", tmp_path / "study", study)
    assert " / 4 runs" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


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


def test_output_to_a_file_is_as_wide_as_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(console(), "T", [Column("x", fold=True)], [["word " * 100]])
    assert max(map(len, capsys.readouterr().out.splitlines())) >= 499


def test_a_comparison_shows_the_worst_signals_and_counts_the_hidden(
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
