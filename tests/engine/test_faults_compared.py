"""Faults in the flights that are compared: each is told, in the terminal, on the page, as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pitl_parts import FakeBoard, Host, as_float
from rich.console import Console

from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, Stage
from hitl.comparison.verdict import ComparisonChain
from hitl.results.page import render
from hitl.results.table import Tables
from rtsim.cli import main
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.models.unstable import controller, scenario

LAW = "controller=firmware/core/unstable_control.toml:single"
LOST = {"name": "lost", "where": "controller", "kind": "drop", "at": 0.5, "count": 2}
BYTES = {"name": "bytes", "where": "controller.to_board", "kind": "silence"}
FAR = {"name": "far", "where": "controller", "kind": "drop", "at": 100.0, "count": 1}
ROW = ["lost", "drop", "controller", "1"]


def chain_of(folder: Path, *faults: Mapping[str, object]) -> ComparisonChain:
    spoiled = scenario()
    spoiled.faults(*faults)
    stages = [
        Stage("host C", {"controller": Host(controller(), as_float)}),
        Stage("board", {"controller": FakeBoard(controller(), as_float, folder)}),
    ]
    return compare_chain(spoiled, stages, ComparisonRequest(until=1))


def shown(result: ComparisonChain) -> str:
    out = Console(width=100, file=io.StringIO(), highlight=False)
    out.print(Tables(result), crop=False)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_table_says_what_each_did_in_the_flight_with_the_board(tmp_path: Path) -> None:
    result = chain_of(tmp_path, LOST, BYTES, FAR)
    text, page = shown(result), render(result)
    assert "Faults in the run with the board" in text
    assert ROW in [line.split() for line in text.splitlines()]
    for told in (text, page):
        assert "these faults have no effect here: bytes (controller has no line here" in told
        assert "these faults never acted in this run: far" in told
    cells = "<td>lost</td><td>drop</td><td>controller</td>"
    assert cells in page.partition("<h2>Faults</h2>")[2]


class Broken(FakeBoard):
    """Of the flight: fails at its step 5."""

    def fresh(self) -> FakeBoard:
        out = Broken(self.law, self.change, self.folder)
        out.board = out.greeting
        return out

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        if self.step == 5:
            raise ControllerError("the supply is gone")
        return super().receive(tag, patience)


def test_what_ended_a_flight_is_told_once(tmp_path: Path) -> None:
    board = {"controller": FakeBoard(controller(), as_float, tmp_path)}
    broken = {"controller": Broken(controller(), as_float, tmp_path)}
    host = Stage("host C", {"controller": Host(controller(), as_float)})
    stages = [host, Stage("board", board, broken)]
    result = compare_chain(scenario(), stages, ComparisonRequest(until=1))
    told, page = shown(result), render(result)
    assert told.count("the supply is gone") == 1
    assert page.count("the supply is gone") == 2, "in the verdict, and in its section"
    assert "this was the scenario's controller 'controller'" in told
    assert "so the closed loop causes the difference: the run ended early, at 0.5 s" in " ".join(
        told.split()
    )
    assert "11 steps on the same inputs, all answered." in page


def test_without_faults_nothing_is_told_of_them(tmp_path: Path) -> None:
    result = chain_of(tmp_path)
    assert "Faults" not in shown(result)
    assert "<h2>Faults" not in render(result)


def compare(folder: Path, text: str, *options: str) -> Result:
    (folder / "faults.toml").write_text(text)
    line = ["sil", "test", "unstable", "-c", LAW, "--until", "1"]
    return CliRunner().invoke(main, [*line, "--faults", str(folder / "faults.toml"), *options])


@pytest.mark.parametrize(("at", "count"), [(0.5, 1), (100.0, 0)])
def test_strict_is_a_no_where_a_fault_never_acted(tmp_path: Path, at: float, count: int) -> None:
    text = f'[[fault]]\nname = "lost"\nwhere = "controller"\nkind = "drop"\nat = {at}\ncount = 2\n'
    done = compare(tmp_path, text, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["faults"]["lost"]["activations"] == count
    assert compare(tmp_path, text, "--strict").exit_code == 1 - count
