"""Falsification: violations found, verdicts, budgets, methods, resumption and the command."""

from __future__ import annotations

import json
import math
import re
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from falsified_parts import CART

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError, Undecided, UnknownName
from rtsim.core.outcome import Outcome
from rtsim.studies.campaign import Campaign, InProcess, Searching
from rtsim.studies.designs import Search
from rtsim.studies.designs.search_methods import SEARCH_METHODS, Problem, SearchMethod
from rtsim.studies.falsification import Falsification, falsify
from rtsim.studies.folder import Folder, StudyError
from rtsim.studies.measures import Row
from rtsim.studies.progress import Tally
from rtsim.studies.report.page import write_report
from rtsim.studies.running import begin, repeat, start
from rtsim.studies.study import Study
from rtsim.studies.summary import summarise
from rtsim.studies.workers import Where

PUSH = {"push": "pieces:3,-1,1"}
HEAVY = {"cart.mass": 10.0}
PUSH_FORCE = {"push.force": "pieces:3,-1,1"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cart.py").write_text(CART)


def search(requirement: str = "NEAR", **more: Any) -> Falsification:
    return falsify("cart.py", more.pop("inputs", PUSH), requirement=requirement, **more)


def rtsim(*words: str) -> Result:
    return CliRunner().invoke(main, ["falsify", "cart.py", "--workers", "0", *words])


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return Folder.open(folder).table().drop(["wall_s"]).to_pylist()  # type: ignore[no-any-return]


# -- what it finds


@pytest.mark.parametrize("method", ["cma", "differential_evolution", "latin_hypercube", "random"])
def test_each_method_finds_a_violation_that_a_second_run_confirms(method: str) -> None:
    found = search(method=method, runs=200, seed=3)
    assert found.outcome is Outcome.FAILED
    assert found.status == 1
    assert found.counterexample is not None
    assert found.needed is not None
    assert found.needed <= found.runs <= 200
    again = found.counterexample.check()
    assert again.result is Outcome.FAILED
    assert again.robustness == found.robustness < 0.0
    assert sorted(found.values) == [f"push.force[{k}]" for k in range(3)]
    assert all(-1.0 <= one <= 1.0 for one in found.values.values())  # type: ignore[operator]


def test_parameters_initial_values_and_arguments_are_variables_too() -> None:
    factors = {"cart.mass": (0.2, 1.0), "cart.v": [-0.1, 0.1], "friction": (0.0, 1.0)}
    found = search(inputs=None, factors=factors, settings={"push.force": 1.0}, until=1.5, runs=60)
    assert found.counterexample is not None
    assert sorted(found.values) == ["cart.mass", "cart.v", "friction", "push.force"]
    assert found.counterexample.until_ns == 1_500_000_000
    assert found.counterexample.check().robustness == found.robustness


def test_a_search_without_a_violation_proves_nothing() -> None:
    found = search(inputs={"push": "pieces:3,-0.1,0.1"}, runs=40)
    assert (found.counterexample, found.needed, found.runs) == (None, None, 40)
    assert (found.status, found.outcome, found.ended) == (0, Outcome.UNDECIDED, "maximum")
    assert 0.0 < found.robustness < 1.2
    assert "this is not a proof that none exists" in found.in_words
    with pytest.raises(Undecided):
        bool(found)


@pytest.mark.parametrize(
    ("requirement", "idle", "why"),
    [
        ("FAR", 20, "20 runs do not exercise it: cart.x > 5 m was never true"),
        ("LATER", 0, "20 runs leave it undecided: the run ended at 2 s, before the formula was"),
    ],
)
def test_runs_that_decide_nothing_are_no_search(requirement: str, idle: int, why: str) -> None:
    found = search(requirement, inputs={"push": "pieces:2,-0.1,0.1"}, runs=20)
    assert (found.runs, found.undecided, found.not_exercised) == (20, 20, idle)
    assert found.status == 2
    assert f"the search could not decide {requirement}; {why}" in found.in_words
    assert found.to_json()["not_exercised"] == idle


def test_one_undecided_run_and_a_formula_without_a_name_in_words() -> None:
    found = search("LATER", inputs={"push": "pieces:2,-0.1,0.1"}, runs=1)
    assert "; 1 run leaves it undecided: " in found.in_words
    found = search("FAR", inputs={"push": "pieces:2,-0.1,0.1"}, runs=1)
    assert "; 1 run does not exercise it: " in found.in_words
    with pytest.raises(ScenarioError, match="a formula with a name, such as 'SPEED: always"):
        Study({"cart.x": (0.0, 1.0)}, requirements=["always cart.x < 1 m"])


LIGHT = {"cart.mass": [1.0, 10.0]}
"""With 1 kg, the cart reaches 2.5 m within 2 s; with 10 kg, it reaches 0.25 m."""


def test_runs_that_do_not_exercise_the_requirement_leave_the_search_decided() -> None:
    wanted = "AWAY: always (cart.x > 1 m implies cart.v > 0 m/s)"
    found = search("AWAY", requirements=[wanted], inputs=None, factors=LIGHT, runs=30, stop=False)
    assert 0 < found.not_exercised == found.undecided < found.runs
    assert (found.status, found.outcome) == (0, Outcome.UNDECIDED)
    assert found.in_words.startswith("no violation of AWAY found in ")
    assert f"{found.not_exercised} run" in found.problem
    assert "not exercise it: cart.x > 1 m was never true" in found.problem


def test_a_run_that_exercises_the_requirement_and_leaves_it_undecided_is_not_searched() -> None:
    """The run of the light cart ends too early: its cart is beyond 1 m, and could still turn."""
    wanted = "TURN: always[0, 1.9] (cart.x < 1 m or eventually[0, 1] cart.v < -9 m/s)"
    found = search("TURN", requirements=[wanted], inputs=None, factors=LIGHT, runs=30, stop=False)
    assert 0 < found.undecided < found.runs
    assert found.not_exercised == 0
    assert (found.status, found.outcome) == (2, Outcome.UNDECIDED)
    assert "the search could not decide TURN in each of " in found.in_words
    assert "leave it undecided: the run ended at 2 s" in found.in_words.replace("leaves", "leave")


def test_the_reason_of_an_open_run_comes_before_that_of_idle_runs() -> None:
    wanted = "TURN: always[0, 1.9] (cart.x > 1 m implies eventually[0, 1] cart.v < -9 m/s)"
    found = search("TURN", requirements=[wanted], inputs=None, factors=LIGHT, runs=30, stop=False)
    assert 0 < found.not_exercised < found.undecided == found.runs
    assert found.status == 2
    assert "leave it undecided: the run ended at 2 s" in found.problem.replace("leaves", "leave")
    assert "not exercise it" in found.problem


def test_the_condition_of_an_implication_guides_the_search() -> None:
    """Runs that do not exercise the requirement are undecided, but have a robustness."""
    wanted = "DEEP: always (cart.x > 1.9 m implies cart.v < 0 m/s)"
    found = search("DEEP", requirements=[wanted], runs=400)
    assert found.counterexample is not None
    assert found.undecided > 0


def test_a_limit_that_is_reached_exactly_is_a_violation() -> None:
    strict = "STRICT: always push.force < 1 N"
    factors = {"push.force": [0.0, 1.0]}
    found = search("STRICT", requirements=[strict], inputs=None, factors=factors, until=0.5)
    assert found.status == 1
    assert found.values["push.force"] == 1.0
    assert -1e-300 < found.robustness < 0.0


def test_a_run_with_an_error_ends_the_search() -> None:
    Path("cart.py").write_text(CART.replace("loop = rt", "assert friction < 0.85\n    loop = rt"))
    found = search(inputs=None, factors={"friction": (0.0, 0.9)}, settings=HEAVY)
    assert (found.status, found.ended) == (2, "no margin")
    assert "in the state error; run " in found.problem
    assert "AssertionError" in found.problem


def test_a_search_that_continues_after_an_error_does_not_exit_with_0() -> None:
    Path("cart.py").write_text(CART.replace("loop = rt", "assert friction < 0.85\n    loop = rt"))
    factors = {"friction": (0.0, 0.9)}
    found = search(inputs=None, factors=factors, settings=HEAVY, runs=30, stop=False)
    assert (found.runs, found.ended, found.status) == (30, "maximum", 2)
    assert "the search could not decide NEAR; " in found.in_words
    assert "in the state error; run " in found.in_words


@pytest.mark.parametrize("state", ["nan", "timeout", "lost"])
def test_a_search_with_a_run_without_results_does_not_exit_with_0(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Campaign._store

    def without_results(self: Campaign, row: Row) -> None:
        gone = row._replace(state=state, cause="because", values={})
        store(self, gone if row.order.run == 3 else row)

    monkeypatch.setattr(Campaign, "_store", without_results)
    found = search(inputs={"push": "pieces:3,-0.1,0.1"}, runs=20, stop=False)
    assert (found.status, found.outcome) == (2, Outcome.UNDECIDED)
    assert "the search could not decide NEAR" in found.in_words
    assert f"1 run in the state {state}; run 3: because" in found.problem


def test_a_search_in_which_no_run_has_results_has_no_robustness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Campaign._store

    def lost(self: Campaign, row: Row) -> None:
        store(self, row._replace(state="lost", cause="because", values={}))

    monkeypatch.setattr(Campaign, "_store", lost)
    found = search(runs=20, stop=False)
    assert (found.status, found.robustness) == (2, math.inf)
    assert found.to_json()["robustness"] is None


FAILING = """    @rt.rising(terminal=True, failure="the cart is too fast")
    def fast(self):
        return self.v - 0.1


def scenario("""


def test_runs_that_a_guard_failed_are_a_failure_without_a_counterexample() -> None:
    Path("cart.py").write_text(CART.replace("\ndef scenario(", FAILING))
    found = search("WIDE", requirements=["WIDE: always cart.x < 9 m"], runs=20, stop=False)
    assert found.counterexample is None
    assert 0 < found.guards_failed < 20
    assert (found.status, found.outcome) == (1, Outcome.FAILED)
    says = f"{found.guards_failed} runs ended at a guard that declares a failure: cart.fast"
    assert says in found.problem
    assert found.to_json()["outcome"] == "failed"


def test_a_run_that_a_guard_failed_passes_no_requirement_of_a_study() -> None:
    Path("cart.py").write_text(CART.replace("\ndef scenario(", FAILING))
    requirements = ["WIDE: always cart.x < 9 m"]
    found = search("WIDE", requirements=requirements, runs=20, stop=False, folder="runs")
    row = summarise(Folder.open(Path("runs")))["requirements"]["WIDE"]
    assert found.guards_failed > 0
    assert (row["passed"], row["count"]) == (20 - found.guards_failed, 20)
    assert row["worst_margin"] > 0


# -- repetition


@pytest.mark.long
def test_one_seed_gives_the_same_runs_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"runs": 60, "seed": 5, "stop": False}
    whole = search(folder="whole", **options)
    store = Campaign._store

    def interrupted(self: Campaign, row: Row) -> None:
        if row.order.run == 37:
            raise KeyboardInterrupt
        store(self, row)

    with monkeypatch.context() as patch:
        patch.setattr(Campaign, "_store", interrupted)
        with pytest.raises(KeyboardInterrupt):
            search(folder="parts", **options)
    assert len(rows_of(Path("parts"))) == 37
    found = search(folder="parts", **options)
    assert rows_of(Path("parts")) == rows_of(Path("whole"))
    assert (found.runs, found.needed, found.values) == (60, whole.needed, whole.values)
    assert search(seed=6, runs=20).values != whole.values


@pytest.mark.long
@pytest.mark.live
def test_two_workers_give_the_runs_of_one_process() -> None:
    search(folder="one", runs=48, stop=False)
    search(folder="two", runs=48, stop=False, where=Where(2))
    assert rows_of(Path("one")) == rows_of(Path("two"))


def test_a_run_of_the_search_is_repeated_by_its_number() -> None:
    search(folder="runs", runs=20, stop=False)
    assert repeat(Folder.open(Path("runs")), 7).equal is True


def test_another_search_does_not_continue_in_the_folder() -> None:
    search(folder="runs", runs=20)
    with pytest.raises(StudyError, match="runs contains another search or study"):
        search(folder="runs", runs=30)


# -- budgets and methods


def test_the_search_ends_when_its_time_is_over() -> None:
    design = Search("WIDE", runs=10_000, method="random", seconds=4)
    study = Study(design=design, requirements=["WIDE: always cart.x < 9 m"], inputs=PUSH_FORCE)
    folder = begin("cart.py", study, Path("runs"))
    pool, times = InProcess(folder.plan.job.to_text()), count(0, 1_000_000_000)
    campaign = Campaign(folder, pool, Tally.of(folder), clock=lambda: next(times))
    Searching(campaign).run()
    assert folder.ended == (campaign.tally.rows, "time")
    assert 0 < campaign.tally.rows < 100
    assert summarise(folder)["runs"] == campaign.tally.rows
    assert search(folder="timed", seconds=1e-9, runs=10_000, stop=False).ended == "time"


class Halving(SearchMethod):
    name = "halving"

    def search(self, problem: Problem) -> None:
        while True:
            problem.margins(problem.scaled(np.full((1, len(problem.low)), 0.5)))


def test_a_method_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SEARCH_METHODS._added, "halving", Halving)
    found = search(method="halving", inputs={"push": "pieces:2,-1,1.5"}, runs=5)
    assert found.runs == 1  # equal candidates are one run
    with pytest.raises(ScenarioError, match="expected a subclass of"):
        SEARCH_METHODS.add("other", Halving)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"method": "annealing"}, "unknown search method 'annealing'"),
        ({"requirement": "NONE"}, "unknown requirement 'NONE' in the search"),
        ({"requirement": ""}, r"there are 3 \(NEAR, FAR, LATER\); name one by --requirement"),
        ({"inputs": {"cart.x": "pieces:2,0,1"}}, "cart.x is not a number that can change"),
        ({"inputs": {"wind": "pieces:2,0,1"}}, "unknown component 'wind'"),
        ({"inputs": None}, "has nothing to vary"),
        ({"seconds": -1.0}, "seconds is -1.0; give a time > 0 s"),
        ({"requirements": ["A: always cart.y < 1 m"], "requirement": "A"}, "unknown signal 'y'"),
        ({"factors": {"push.force[0]": (0, 1)}}, "is a factor and also a point"),
        ({"factors": {"push.force": (0, 1)}}, r"push\.force has an input signal and also a value"),
        ({"settings": {"push.force": 1}}, r"push\.force has an input signal and also a value"),
        ({"inputs": {**PUSH, **PUSH_FORCE}}, r"two input signals drive push\.force"),
        ({"requirements": ["NEAR: always cart.x < 9 m"]}, "two requirements have the name NEAR"),
        (
            {"requirements": ["NEAR: always cart.x < 9 m"], "requirement": "NEAR"},
            "two requirements have the name NEAR",
        ),
        ({"seconds": math.inf}, r"time of the search 'inf' is not a number"),
        ({"seconds": 1e300}, "time of the search .* exceeds the largest time"),
    ],
)
def test_a_wrong_search_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        search(**more, folder="runs") if "requirement" in more else search(folder="runs", **more)
    assert not Path("runs").exists()


# -- studies


def test_a_study_judges_its_runs_by_the_requirements_of_the_scenario() -> None:
    study = Study({"cart.mass": [10.0, 1.0]}, "monte_carlo:runs=12", seed=2)
    found = summarise(start("cart.py", "study", study))
    near, far = found["requirements"]["NEAR"], found["requirements"]["FAR"]
    table = Folder.open(Path("study")).table("cart.mass", "NEAR.margin", "FAR.margin")
    margins = dict(
        zip(table["cart.mass"].to_pylist(), table["NEAR.margin"].to_pylist(), strict=True)
    )
    assert margins[10.0] > 0.0 > margins[1.0]
    many = table["cart.mass"].to_pylist().count(10.0)
    assert (near["passed"], near["undecided"], near["count"]) == (many, 0, 12)
    assert near["worst_margin"] == margins[1.0]
    assert far["undecided"] == table["FAR.margin"].to_pylist().count(None) + sum(
        math.isnan(one) for one in table["FAR.margin"].to_pylist() if one is not None
    )
    assert far["passed"] == 0
    assert "was never true" in far["why_undecided"]
    assert found["states"]["ok"] == 12
    assert found.outcome is Outcome.FAILED
    reasons = [one.why for one in found.reasons()]
    assert any(f"{12 - many} of 12 runs miss the requirement NEAR" in one for one in reasons)


def test_a_formula_that_is_given_twice_is_one_requirement() -> None:
    formulas = ["NEAR: always abs(cart.x) < 1 m", "NEAR: always  abs(cart.x) < 1 m"]
    assert [one.name for one in Study(requirements=formulas).required] == ["NEAR"]


@pytest.mark.parametrize("command", ["start", "search"])
def test_a_study_does_not_replace_a_requirement_of_the_scenario(command: str) -> None:
    words = ["study", command, "cart.py", "--factor", "cart.x=range:0,1", "--runs", "5"]
    words += ["--require", "NEAR: always cart.x < 9 m", "--workers", "0", "-o", "study"]
    words += ["--requirement", "NEAR"] if command == "search" else []
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert (
        "declares NEAR as 'always abs(cart.x) < 1.2 m', but the runs are judged by" in done.stderr
    )
    assert "give one of the two requirements another name" in done.stderr
    assert not Path("study").exists()


def test_a_run_whose_scenario_declares_another_formula_is_an_error() -> None:
    """A run judged by the formula of another run would have a false verdict."""
    formula = '"always abs(cart.x) < 1.2 m"'
    assert CART.count(formula) == 1
    Path("cart.py").write_text(CART.replace(formula, 'f"always abs(cart.x) < {1 + friction} m"'))
    study = Study({"friction": [0.0, 1.0]}, "grid:levels=2")
    found = summarise(start("cart.py", "study", study))
    assert found["states"]["error"] == 1
    assert found.outcome is Outcome.FAILED
    causes = Folder.open(Path("study")).table("cause").to_pylist()
    assert any(
        "or declare a formula that is the same in all runs" in one["cause"] for one in causes
    )


def test_a_requirement_that_no_run_decides_is_not_passed() -> None:
    study = Study({"push.force": (-0.1, 0.1)}, "monte_carlo:runs=3", until=0.5)
    found = summarise(start("cart.py", "study", study))
    assert found["requirements"]["FAR"]["passed"] == 0
    assert found["requirements"]["LATER"]["undecided"] == 3
    assert found.outcome is Outcome.UNDECIDED


def test_a_name_of_two_columns_is_refused() -> None:
    study = Study({"cart.x": (0, 1)}, results={"NEAR.margin": "last:cart.x"})
    with pytest.raises(ScenarioError, match=r"NEAR\.margin names two columns"):
        begin("cart.py", study, Path("study"))


# -- the command


@pytest.fixture
def parsed() -> Any:
    return lambda result: json.loads(result.stdout)


def test_the_command_prints_the_violation(parsed: Any) -> None:
    words = ["--requirement", "NEAR", "--input", "push=pieces:3,-1,1", "--runs", "200"]
    done = rtsim(*words)
    assert done.exit_code == 1, done.output
    assert done.stdout.startswith("NEAR is violated in run ")
    assert "  push.force[2] = " in done.stdout
    assert "because a run does not meet the requirement" in done.stdout
    found = parsed(rtsim(*words, "--json"))
    assert (found["outcome"], found["exit_status"]) == ("failed", 1)
    assert [one[0] for one in found["counterexample"]["inputs"]["push.force"]] == [
        0.0, pytest.approx(2 / 3), pytest.approx(4 / 3)
    ]  # fmt: skip


def test_the_command_without_a_violation(parsed: Any) -> None:
    words = ["--requirement", "NEAR", "--input", "push=pieces:2,-.1,.1", "--runs", "20"]
    done = rtsim(*words, "--json")
    assert done.exit_code == 0, done.output
    assert (parsed(done)["outcome"], parsed(done)["counterexample"]) == ("undecided", None)
    done = rtsim(*words[2:], "--requirement", "LATER", "--time", "100s")
    assert done.exit_code == 2
    assert "20 runs leave it undecided" in done.stdout
    words_of = ["--require", "AWAY: always (cart.x > 1 m implies cart.v > 0 m/s)"]
    words_of += ["--requirement", "AWAY", "--factor", "cart.mass=values:1,10", "--runs", "20"]
    done = rtsim(*words_of, "--all")
    assert done.exit_code == 0, done.output
    assert "not exercise it: cart.x > 1 m was never true" in done.stdout
    done = rtsim(*words, "--time", "soon")
    assert done.exit_code == 2
    assert "write --time 60s" in done.stderr


@pytest.mark.parametrize("name", ["notes.toml", "test_notes.py"])
def test_force_spares_a_file_that_is_no_counterexample(name: str) -> None:
    Path(name).write_text("# mine\n")
    words = ["--requirement", "NEAR", "--input", "push=pieces:3,-1,1", "-o", "runs", "--force"]
    done = rtsim(*words, "--save", "notes.toml")
    assert done.exit_code == 2
    assert f"{name} exists and contains no counterexample" in done.stderr
    assert Path(name).read_text() == "# mine\n"
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ((), "interrupted"),
        (("-o", "runs"), "interrupted; to continue, type the same command again"),
    ],
)
def test_an_interrupted_command_says_how_to_continue(
    folder: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Campaign, "_store", interrupted)
    done = rtsim("--requirement", "NEAR", "--input", "push=pieces:3,-1,1", *folder)
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1].endswith(says)


def test_the_runs_of_a_search_are_not_known_in_advance() -> None:
    study = Study({"cart.x": (0.0, 1.0)}, Search("NEAR"), requirements=["NEAR: always cart.x < 1"])
    with pytest.raises(ScenarioError, match="a search chooses each run from the results"):
        study.sampled.points(study.space, 0, 1)


def test_an_option_that_is_given_twice_is_refused() -> None:
    for option, text in (("--input", "push=pieces:2,-1,1"), ("--factor", "cart.x=range:0,1")):
        done = rtsim("--requirement", "NEAR", option, text, option, text)
        assert done.exit_code == 2
        name = text.partition("=")[0]
        assert f"{option} {name} is given twice; leave one of them out" in done.stderr


def test_the_option_latency_names_the_factor() -> None:
    done = rtsim("--latency", "0.1")
    assert done.exit_code == 2
    assert "--factor NAME.compute=range:0,0.2" in done.stderr


def test_a_latency_is_a_variable_of_the_search() -> None:
    found = falsify(
        "unstable", requirements=["SMALL: always abs(plant.x) < 1.05 m"], runs=60,
        factors={"controller.transport": (0.0, 0.3)}, until=4,
    )  # fmt: skip
    assert found.counterexample is not None
    latency = found.values["controller.transport"]
    assert 0.0 < float(latency) <= 0.3
    found.counterexample.save(Path("late.counterexample.toml"))
    words = ["run", "unstable", "--counterexample", "late.counterexample.toml", "-o", "late.mcap"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1, done.output
    done = CliRunner().invoke(main, ["replay", "late.mcap"])
    assert "SMALL is violated" in done.output
    assert "the replay equals the recording" in done.output


def test_an_unknown_name_stops_the_command() -> None:
    done = rtsim("--requirement", "NEAR", "--input", "push.x=pieces:2,0,1")
    assert done.exit_code == 2
    assert "unknown value 'x' in push" in done.stderr
    assert UnknownName.__name__ not in done.stdout


def test_the_page_of_a_study_counts_undecided_runs() -> None:
    folder = start("cart.py", "study", Study({"push.force": (-0.1, 0.1)}, "monte_carlo:runs=3"))
    write_report(folder, Path("page.html"))
    page = Path("page.html").read_text()
    assert "undecided" in page
    assert re.search(r"\[FAR\]</td>.*?<td[^>]*>3</td></tr>", page)
