"""Objects with an outcome: their truth value is the outcome, and undecided is no truth value."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rtsim
from hitl.comparison.required import RequiredOfRuns
from hitl.comparison.verdict import ComparisonChain, Stimulated
from hitl.worker.ending import WorkerEnding
from rtsim.core.errors import Undecided
from rtsim.core.outcome import Judged, Outcome
from rtsim.models.unstable import scenario as unstable
from rtsim.record.comparison import Comparison, compare
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import SignalResult
from rtsim.runs.diverging import diverge
from rtsim.runs.simulation import simulate
from rtsim.studies.folder import Folder

ROOT = Path(rtsim.__file__).parents[1]
NAMES = {"outcome", "verdict", "ok", "assert_ok"}
"""Attributes of a class that has an outcome."""
NO_OUTCOME = {
    "Diagnosis": "verdict is a text about rates",
    "Item": "ok says that a request for scheduling was granted",
    "_Search": "verdict is a method that returns a Verdict",
    "PlantFixture": "outcome is a RunResult",
    "RecordingLost": "outcome is a RunResult",
    "Reason": "a reason of the outcome of a Summary",
    "Bounds": "the outcome of a run in progress, which its end can change",
    "Finding": "the verdict on one sign of a Wiring",
    "Cell": "the outcome of a requirement in one column of a Matrix",
    "Session": "verdict is a text about one step in gdb",
    "Matrix": "a table, whose outcome is a property that the command reads",
}


@pytest.fixture(scope="module")
def found() -> list[ast.ClassDef]:
    """All classes of both packages."""
    texts = (
        file.read_text(encoding="utf-8")
        for package in ("rtsim", "hitl")
        for file in sorted((ROOT / package).rglob("*.py"))
    )
    trees = (ast.parse(text) for text in texts if "class " in text)
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def attributes(one: ast.ClassDef) -> Iterator[str]:
    """Yield the names of fields, methods and attributes that the class assigns."""
    for node in ast.walk(one):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Attribute):
                yield target.attr
    for field in one.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            yield field.target.id


def judged(found: list[ast.ClassDef]) -> set[str]:
    """Return the names of the classes below ``Judged``."""
    below = {"Judged"}
    for _ in range(5):  # a class below a class below Judged
        below |= {c.name for c in found if below & {ast.unparse(base) for base in c.bases}}
    return below - {"Judged"}


def test_every_class_with_an_outcome_has_it_as_its_truth_value(found: list[ast.ClassDef]) -> None:
    below = judged(found)
    assert {"Comparison", "Reported", "ReportedChain", "RunResult", "OpenLoop"} <= below
    silent = {c.name for c in found if NAMES & set(attributes(c))} - below - {"Judged"}
    assert silent == NO_OUTCOME.keys()


def test_only_the_base_class_says_what_the_outcome_is(found: list[ast.ClassDef]) -> None:
    names, below = {"ok", "outcome", "looked", "assert_ok", "__bool__"}, judged(found)
    own = {c.name: names & set(attributes(c)) for c in found if c.name in below}
    assert {name: answers for name, answers in own.items() if answers} == {}


def failed() -> Comparison:
    return Comparison([SignalResult("a.x", rows=3, reason="fails at 1 s")])


def passed() -> Comparison:
    return Comparison([SignalResult("a.x", rows=3)])


def undecided() -> Comparison:
    return Comparison([SignalResult("a.x")])


def test_the_truth_value_of_an_outcome() -> None:
    assert Outcome.PASSED
    assert not Outcome.FAILED
    with pytest.raises(Undecided):
        bool(Outcome.UNDECIDED)


@pytest.mark.parametrize("part", [lambda c: c, lambda c: c.results[0]])
def test_the_truth_value_of_a_comparison(part: Callable[[Comparison], Judged]) -> None:
    assert part(passed())
    assert part(passed()).ok
    part(passed()).assert_ok()
    assert not part(failed())
    with pytest.raises(AssertionError, match="fails at 1 s"):
        part(failed()).assert_ok()
    for ask in (bool, Judged.assert_ok):
        with pytest.raises(Undecided, match="to compare"):
            ask(part(undecided()))
    assert not part(undecided()).ok
    assert not part(failed()).ok


def test_of_two_runs() -> None:
    def run(**settings: float) -> MemoryRecorder:
        recorder = MemoryRecorder()
        assert simulate(unstable(until=0.5, **settings), recorder=recorder)
        return recorder

    one, other = run().recording(), run(latency=0.02).recording()
    assert compare(one, one)
    assert not compare(one, other)
    assert diverge(one, one)
    assert not diverge(one, other)
    with pytest.raises(AssertionError, match="differ first in"):
        diverge(one, other).assert_ok()


def test_of_a_worker_that_ended() -> None:
    assert WorkerEnding(0, "", "")
    assert not WorkerEnding(-11, "", "")
    assert not WorkerEnding(-9, "", "", unresponsive=True)
    with pytest.raises(Undecided, match="SIGKILL"):
        bool(WorkerEnding(-9, "", ""))


def test_who_asked_for_an_outcome_is_known() -> None:
    asks: list[Callable[[Comparison], object]] = [
        bool, lambda c: c.ok, lambda c: c.outcome, Comparison.assert_ok
    ]  # fmt: skip
    for ask in asks:
        one = passed()
        assert not one.looked
        _ = repr(one), one.in_words, one.to_json(), one.why, one.worst_first(), one.agreed
        assert not one.looked
        assert not one.results[0].looked
        ask(one)
        assert one.looked
    assert not ComparisonChain(()).looked


def test_a_folder_of_a_study_is_neither_true_nor_false(tmp_path: Path) -> None:
    folder = Folder.__new__(Folder)
    folder.path = tmp_path
    with pytest.raises(Undecided, match="summarise"):
        bool(folder)


def _pair(outcome: Outcome, statement: str) -> Any:
    return SimpleNamespace(
        outcome=outcome, agreement=outcome, required=RequiredOfRuns(),
        statement=statement, scenario="motor", how=", in open loop",
        reserved=["an input never moved"], why=[] if outcome is Outcome.PASSED else ["y differs"],
        sides=SimpleNamespace(gap="board - C"),
    )  # fmt: skip


def test_only_a_passed_chain_says_how_it_was_compared_and_its_reservations() -> None:
    passed = ComparisonChain((_pair(Outcome.PASSED, "the C does"),)).in_words
    assert passed.startswith("motor: the C does, in open loop")
    assert "an input never moved" in passed
    failed = ComparisonChain(
        (_pair(Outcome.PASSED, "the C does"), _pair(Outcome.FAILED, "the board does not do"))
    ).in_words
    assert failed == "motor: the C does, and the board does not do\nboard - C, y differs"


def test_the_reasons_of_stimuli_are_of_those_that_do_not_pass() -> None:
    loops = [
        SimpleNamespace(outcome=outcome, in_words=f"said {n}")
        for n, outcome in enumerate((Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED), 1)
    ]
    reaches = [("a",), ("branch 7", "branch 8", "branch 9"), ()]
    stimuli = SimpleNamespace(
        name="m.stimuli.toml", stimuli=[SimpleNamespace(reaches=r) for r in reaches]
    )
    one = Stimulated("c", stimuli, tuple(loops))  # type: ignore[arg-type]
    assert one.why == [
        "stimulus 2 of m.stimuli.toml: said 2 (reaches branch 7, and 2 more)",
        "stimulus 3 of m.stimuli.toml: said 3",
    ]
