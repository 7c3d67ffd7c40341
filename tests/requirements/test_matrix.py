"""The traceability matrix: what counts as exercised, and the page and the table."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import Any

import pytest

from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.requirements.matrix import Cell, Matrix, Row

NEVER = "not exercised, because a.x > 3 m was never true"
OPEN = "the run ended at 4 s, before the formula was decided"


def result(
    name: str, outcome: str, low: float | str, high: float | str, times: int | None = None,
    reason: str = "", formula: str = "always a.x < 1 m",
) -> dict[str, Any]:  # fmt: skip
    """Return JSON data as :meth:`RequirementResult.to_json` returns it."""
    return {
        "name": name, "formula": formula, "text": f"Text of {name}.", "outcome": outcome,
        "robustness": [low, high], "worst_s": None, "worst": "", "violated_s": [],
        "exercised": times, "reason": reason, "note": "",
    }  # fmt: skip


HOLDS = result("A", "passed", 0.5, 0.5, 2)
BROKEN = result("A", "failed", -0.25, -0.25, 1)
UNUSED = result("A", "undecided", 2.0, 2.0, 0, NEVER)
UNDECIDED = result("A", "undecided", "-inf", 0.5, 1, OPEN)


def row(*results: dict[str, Any]) -> Row:
    matrix = Matrix()
    for k, one in enumerate(results):
        matrix.add(f"run {k}", [one])
    (found,) = matrix.rows
    assert matrix.outcome is found.whole.outcome
    return found


@pytest.mark.parametrize(
    ("results", "verdict", "outcome", "worst", "exercised"),
    [
        ((HOLDS,), "holds", Outcome.PASSED, 0.5, 1),
        ((HOLDS, UNUSED), "holds", Outcome.PASSED, 0.5, 1),
        ((UNUSED, UNUSED), "not exercised", Outcome.UNDECIDED, math.nan, 0),
        ((HOLDS, UNDECIDED), "undecided", Outcome.UNDECIDED, 0.5, 1),
        ((UNDECIDED, HOLDS), "undecided", Outcome.UNDECIDED, 0.5, 1),
        ((UNDECIDED,), "undecided", Outcome.UNDECIDED, math.nan, 0),
        ((UNUSED, UNDECIDED), "undecided", Outcome.UNDECIDED, math.nan, 0),
        ((HOLDS, BROKEN, UNUSED, UNDECIDED), "violated", Outcome.FAILED, -0.25, 2),
    ],
)
def test_a_requirement_over_several_runs(
    results: tuple[dict[str, Any], ...], verdict: str, outcome: Outcome, worst: float,
    exercised: int,
) -> None:  # fmt: skip
    found = row(*results)
    assert (found.whole.verdict, found.whole.outcome) == (verdict, outcome)
    assert found.whole.robustness == pytest.approx(worst, nan_ok=True)
    assert len(found.exercised_by) == exercised


def test_several_runs_of_one_test_have_one_cell() -> None:
    matrix = Matrix()
    matrix.add("test", [HOLDS, UNUSED, {**HOLDS, "robustness": [0.125, 0.125]}])
    assert str(matrix.rows[0].cells["test"]) == "holds, 0.125, 4 times"
    matrix.add("test", [UNDECIDED])
    cell = matrix.rows[0].cells["test"]
    assert (cell.verdict, cell.reason, cell.times) == ("undecided", OPEN, 5)


def test_an_undecided_run_of_a_test_does_not_hide_the_smallest_robustness() -> None:
    for results in ([HOLDS, BROKEN, UNDECIDED], [UNDECIDED, BROKEN, HOLDS]):
        cell = Cell.of(results)
        assert (cell.outcome, cell.robustness, cell.times) == (Outcome.FAILED, -0.25, 4)
    assert math.isnan(Cell.of([UNDECIDED]).robustness)


@pytest.mark.parametrize(
    ("outcome", "low", "high", "robustness"),
    [("passed", 0.5, "inf", 0.5), ("failed", "-inf", -0.25, -0.25)],
)
def test_the_known_bound_of_a_decided_run_counts(
    outcome: str, low: float | str, high: float | str, robustness: float
) -> None:
    """A run that ended early can decide a requirement although it leaves one bound open."""
    assert Cell.of([result("A", outcome, low, high)]).robustness == robustness


def test_the_reasons_in_words() -> None:
    assert row(UNUSED).in_words == (
        "A is undecided: no run exercises it, because a.x > 3 m was never true"
    )
    assert row(UNUSED, UNDECIDED).in_words == f"A is undecided: {OPEN}"
    assert row(HOLDS, BROKEN).in_words == "A is violated, robustness -0.25 in run 1"


def test_a_requirement_with_two_formulas_has_two_rows() -> None:
    matrix = Matrix()
    matrix.add("one", [HOLDS])
    matrix.add("two", [{**HOLDS, "formula": "always a.x < 2 m"}])
    assert [[*one.cells] for one in matrix.rows] == [["one"], ["two"]]


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("always (a.x > 1 m implies a.x < 2 m)", "condition true 1 time"),
        ("rise_time(a.x, b.w) < 3 s", "1 step measured"),
    ],
)
def test_what_was_counted(formula: str, says: str) -> None:
    found = row(result("A", "passed", 0.5, 0.5, 1, formula=formula))
    assert found.counted(found.cells["run 0"]) == says
    assert found.counted(Cell.of([result("A", "passed", 0.5, 0.5, None)])) == ""


def test_an_empty_matrix_is_no_pass() -> None:
    assert Matrix().outcome is Outcome.UNDECIDED


def test_the_table() -> None:
    matrix = Matrix()
    matrix.add("one.mcap", [HOLDS, result("B", "undecided", "-inf", "inf", 0, NEVER)])
    matrix.add("two.mcap", [BROKEN])
    a, b = csv.DictReader(matrix.to_csv().splitlines())
    assert a == {
        "requirement": "A", "text": "Text of A.", "formula": "always a.x < 1 m",
        "one.mcap": "holds, 0.5, 2 times", "two.mcap": "violated, -0.25, 1 time",
        "verdict": "violated", "worst_robustness": "-0.25", "worst_in": "two.mcap",
        "exercised_by": "2", "not_checked_in": "0",
    }  # fmt: skip
    assert (b["one.mcap"], b["two.mcap"]) == ("not exercised, 0 times", "not checked")
    assert b["not_checked_in"] == "1"
    assert (b["verdict"], b["worst_robustness"], b["exercised_by"]) == ("not exercised", "", "0")


def test_the_page() -> None:
    pytest.importorskip("uplot")
    from rtsim.requirements.matrix_page import matrix_page

    matrix = Matrix()
    holds = {**HOLDS, "text": "<b>", "unit": "m", "worst_s": 2.5}
    matrix.add("one.mcap", [holds, {**UNUSED, "name": "B"}], "runs/one.mcap")
    matrix.about["one.mcap"] = {"scenario": "<cart>"}
    matrix.notes.append("A remark.")
    page = matrix_page(matrix)
    assert '<a href="runs/one.mcap">one.mcap</a>' in page
    assert (
        "<b>A</b> <span class=passed>holds</span><br>&lt;b&gt;<code>always a.x &lt; 1 m</code>"
        in page
    )
    once = "<small>0.5 m at 2.5 s</small><small>condition true 2 times</small>"
    assert f"<td class=passed>holds{once}</td>" in page
    mark = '<sup><a href="#reason-1">1</a></sup>'
    times = "<small>condition true 0 times</small>"
    assert f"<td class=none>not exercised{mark}{times}</td>" in page
    assert f"<ol><li id=reason-1>{NEVER.replace('>', '&gt;')}</li></ol>" in page
    assert "Over all runs: a requirement is undecided or not exercised" in page
    assert "The robustness is the distance from the limit, in the unit of the compared" in page
    assert "<p>A remark.</p>" in page
    assert "&lt;cart&gt;" in page
    assert "<td class=n>0.5 m<small>one.mcap</small></td><td class=n>1 of 1</td>" in page


def test_a_large_page_has_each_cell_once() -> None:
    pytest.importorskip("uplot")
    from rtsim.requirements.matrix_page import matrix_page

    matrix = Matrix()
    for run in range(20):
        matrix.add(f"run-{run}.mcap", [{**HOLDS, "name": f"REQ-{k}"} for k in range(50)])
    page = matrix_page(matrix, "tests")
    assert len(re.findall("<td", page)) == 50 * (20 + 2)
    assert len(re.findall("<tr>", page)) == 51
    assert "tests that exercise it" in page


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("uplot")
    from rtsim.requirements.matrix_page import write_matrix

    with pytest.raises(ScenarioError, match=r"matrix.xml must be a file .html or .csv"):
        write_matrix(Matrix(), tmp_path / "matrix.xml")
    write_matrix(Matrix(), tmp_path / "matrix.CSV")
    assert (tmp_path / "matrix.CSV").read_text().startswith("requirement,text,formula,verdict")
