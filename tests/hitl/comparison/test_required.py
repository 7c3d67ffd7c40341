"""Requirements of the scenario on the runs of a comparison: reference model, C and board."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from back_to_back_parts import from_step
from junit_schema import valid
from pitl_parts import FakeBoard, Host, as_float, same
from rich.console import Console

from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, Stage
from hitl.comparison.flight import EnvironmentFailure
from hitl.comparison.outputs import DESIGN
from hitl.comparison.required import RequiredOfRuns
from hitl.comparison.verdict import ComparisonChain, Stimulated
from hitl.results.junit import junit_xml
from hitl.results.page import render
from hitl.results.table import Tables
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.models.unstable import controller, scenario
from rtsim.record.recorders import MemoryRecorder
from rtsim.requirements.requirement import Requirement
from rtsim.runs.simulation import simulate

ANY = {"*": (1e9, 1e9)}
NOTHING: Any = (None, ())
"""Stimuli and loops of a file without stimuli."""
NEAR = "always abs(plant.x) < 1.5 m"
CALM = "always[1, 3] abs(plant.v) < 1 m/s"
PUSHED = from_step(9, lambda y: y + 30.0)
"""A board that pushes from 0.9 s on, so that the plant leaves its middle."""


def compared(
    folder: Path, board: Any = same, *required: tuple[str, str], **how: Any
) -> ComparisonChain:
    one = scenario()
    for name, formula in required:
        one.require(name, formula)
    stages = [
        Stage("host C", {"controller": Host(controller(), as_float)}),
        Stage("board", {"controller": FakeBoard(controller(), board, folder)}),
    ]
    request = ComparisonRequest(**{"until": 3, "tolerances": ANY, **how})
    return compare_chain(one, stages, request)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("required")


@pytest.fixture(scope="module")
def pushed(folder: Path) -> ComparisonChain:
    """All signals agree within their tolerance, but the board violates a requirement."""
    return compared(folder, PUSHED, ("NEAR", NEAR), ("CALM", CALM))


@pytest.fixture(scope="module")
def held(folder: Path) -> ComparisonChain:
    return compared(folder, same, ("NEAR", NEAR))


def shown(result: ComparisonChain) -> str:
    out = io.StringIO()
    Console(file=out, width=250).print(Tables(result), crop=False)
    return " ".join(out.getvalue().split())


def test_a_comparison_whose_requirements_hold_passes_and_says_so(held: ComparisonChain) -> None:
    held.assert_ok()
    assert "in open and in closed loop, and all requirements hold" in held.in_words
    assert [list(pair.required.runs) for pair in held.pairs] == [[DESIGN, "host C"], ["board"]]
    assert "requirements on the run with the board: NEAR: holds" in held.pairs[1].coverage
    assert "NEAR board holds" in shown(held)


def test_a_requirement_that_only_the_board_violates_fails(pushed: ComparisonChain) -> None:
    assert pushed.outcome is Outcome.FAILED
    assert [pair.outcome for pair in pushed.pairs] == [Outcome.PASSED, Outcome.FAILED]
    assert pushed.pairs[1].agreement is Outcome.PASSED
    first, *more = pushed.in_words.splitlines()
    assert first == (
        "unstable: the host C does what its reference model does, and the board does what the "
        "host C does, in open and in closed loop; the run with the board violates NEAR, CALM"
    )
    assert more[0].startswith("requirement, run with the board: NEAR is violated, robustness -")
    with pytest.raises(AssertionError, match="run with the board violates NEAR"):
        pushed.assert_ok()
    text = shown(pushed)
    assert "NEAR reference model holds 0.5" in text
    assert "NEAR host C holds 0.5" in text
    assert re.search(r"NEAR board violated -\d", text)


def test_the_verdicts_are_plain_data(pushed: ComparisonChain) -> None:
    told = json.loads(json.dumps(pushed.to_json()))
    host, board = (pair["requirements"] for pair in told["pairs"])
    assert [one["outcome"] for one in host[DESIGN]] == ["passed", "passed"]
    assert [one["outcome"] for one in host["host C"]] == ["passed", "passed"]
    assert [one["outcome"] for one in board["board"]] == ["failed", "failed"]
    assert board["board"][0]["violated_s"][0][0] > 0.9
    assert [pair["ok"] for pair in told["pairs"]] == [True, False]


def test_each_requirement_of_each_run_is_a_test_case(pushed: ComparisonChain) -> None:
    root = ET.fromstring(junit_xml(pushed))
    valid(root)
    found: dict[str, list[bool]] = {}
    for case in root.iter("testcase"):
        if ".requirements." in (name := case.get("classname", "")):
            found.setdefault(name, []).append(case.find("failure") is None)
    assert found == {
        "unstable.host_C_-_design.requirements.reference_model": [True, True],
        "unstable.host_C_-_design.requirements.host_C": [True, True],
        "unstable.board_-_host_C.requirements.board": [False, False],
    }
    assert root.get("failures") == "2"
    message = next(root.iter("failure")).get("message") or ""
    assert message.startswith("NEAR is violated, robustness -")


def test_the_page_has_a_column_and_a_line_for_each_run(pushed: ComparisonChain) -> None:
    page = render(pushed)
    section = page[page.index('<section id="requirements">') :].partition("</section>")[0]
    for name in ("reference model", "host C", "board"):
        assert f"<th>{name}</th>" in section
    assert "violated, robustness -" in section
    charts = [json.loads(one) for one in re.findall(r"json\">(.*?)</script>", section)]
    names = [line["name"] for line in charts[0]["lines"]]
    assert names == ["reference model", "host C", "board", "limit"]
    assert {color for *_, color in charts[0]["shaded"]} == {2}, "only the board's violation"


def test_a_reference_model_that_violates_is_named(folder: Path) -> None:
    both = ("STILL", "always abs(plant.v) < 1 m/s"), ("LOW", "always plant.x < 0.5 m")
    result = compared(folder, same, *both)
    assert result.outcome is Outcome.FAILED
    head = result.in_words.splitlines()[0]
    assert "the run with the reference model already violates STILL, LOW" in head
    assert "the run with the board violates STILL, LOW" in head


def test_an_undecided_requirement_makes_the_comparison_undecided(folder: Path) -> None:
    result = compared(folder, same, ("NEAR", "always[0, 10] abs(plant.x) < 1.5 m"))
    assert result.outcome is Outcome.UNDECIDED
    head = result.in_words.splitlines()[0]
    assert ", and the board does what the host C does, in open and in closed loop; " in head
    assert head.endswith("; the run with the board does not decide NEAR")
    assert "violates" not in result.in_words
    assert "requirements hold" not in result.in_words
    assert "NEAR is undecided: the run ended at 3 s" in result.in_words
    root = ET.fromstring(junit_xml(result))
    assert (root.get("failures"), root.get("errors")) == ("0", "3")


def test_without_a_closed_loop_the_text_says_what_was_not_checked(folder: Path) -> None:
    result = compared(folder, PUSHED, ("NEAR", NEAR), closed=False)
    assert result.ok, "the run with the reference model took place"
    assert list(result.pairs[0].required.runs) == [DESIGN]
    reason = "NEAR not checked with the board: the loop was not closed"
    assert reason in result.unexercised
    assert reason in result.in_words
    low = ("LOW", "always plant.x < 0.5 m")
    assert compared(folder, same, low, closed=False).outcome is Outcome.FAILED
    run = MemoryRecorder()
    simulate(scenario(), until=3, recorder=run)
    result = compared(folder, same, low, closed=False, recording=run.recording())
    assert result.ok
    assert "LOW not checked with the reference model: the loop was not closed" in result.in_words
    assert result.pairs[0].required.runs == {}
    assert "requirements hold" not in result.in_words


def test_requirements_are_not_checked_on_stimuli(held: ComparisonChain) -> None:
    pair = replace(held.pairs[1], stimulated={"controller": Stimulated("controller", *NOTHING)})
    said = "requirements on stimuli: a stimulus drives a controller without the plant"
    assert said in pair.unexercised
    assert said not in held.pairs[1].unexercised
    assert said not in replace(pair, required=RequiredOfRuns()).unexercised
    no_run = RequiredOfRuns(unchecked=("NEAR not checked with the board",))
    assert said in replace(pair, required=no_run).unexercised


def test_a_misspelt_signal_is_refused_before_the_first_run(folder: Path) -> None:
    with pytest.raises(ScenarioError, match="requirement BAD: unknown signal 'y' in plant"):
        compared(folder, same, ("BAD", "always plant.y < 1 m"))


def test_a_signal_that_only_the_reference_model_has_is_undecided_with_the_c(folder: Path) -> None:
    result = compared(folder, same, ("GAIN", "always controller.integral < 1 [1/s^2]"))
    assert result.outcome is Outcome.UNDECIDED
    found = {run: one for pair in result.pairs for run, (one,) in pair.required.runs.items()}
    assert found[DESIGN].result is Outcome.PASSED
    assert found["board"].result is Outcome.UNDECIDED
    assert "integral" in found["board"].reason


def test_violations_after_a_failure_of_the_environment_are_undecided() -> None:
    run = MemoryRecorder()
    simulate(scenario(), until=3, recorder=run)
    recording, required = run.recording(), [Requirement("LOW", "always[0, 3] plant.v > -1 m/s")]

    def outcome(failure: EnvironmentFailure | None) -> Any:
        found = RequiredOfRuns.of(required, {"C": recording}, {"C": failure})
        return found.runs["C"][0]

    plain = outcome(None)
    assert plain.result is Outcome.FAILED
    first = plain.violated[0][0]
    assert 0 < first < 1_000_000_000
    late = outcome(EnvironmentFailure(first + 100_000_000, "the host was late"))
    assert late.result is Outcome.FAILED, "it was violated before"
    early = outcome(EnvironmentFailure(first, "the host was late\nit said: nothing"))
    assert (early.result, early.reason) == (Outcome.UNDECIDED, "the host was late")
    never = outcome(EnvironmentFailure(0, "the board is silent"))
    assert (never.result, never.reason) == (Outcome.UNDECIDED, "the board is silent")
