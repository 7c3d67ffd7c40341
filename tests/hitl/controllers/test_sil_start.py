"""How the C starts: with which values of its own, in which period, and a second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from junit_schema import valid

from hitl import sil
from hitl.building.build import build
from hitl.comparison.back_to_back import back_to_back
from hitl.comparison.on_boards import own_values
from hitl.comparison.verdict import BackToBack
from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.controllers.restore import rerun_case
from hitl.controllers.sil import SilController
from hitl.interface import InterfaceError
from hitl.results.junit import junit_xml
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Tag
from rtsim.scenario.scenario import Scenario

TABLE = [0.5 + 0.25 * k for k in range(46)]
_SOURCE = """
#include "law.h"
const double shipped[46] = {%s};
void law_init(law *c)
{
    c->gain = %s;
    for (int k = 0; k < 46; k++) c->table[k] = shipped[k];
    c->fast = 1;
    c->count = 7;
    %s
}
double law_step(law *c, double x)
{
    c->sum += 0.125 * x;
    return c->gain * x + c->table[c->count] * x / c->table[45] + c->sum + (c->fast ? 0.0 : 1e6);
}
"""
_HEADER = """
typedef struct { double gain, table[46], sum; _Bool fast; int count; } law;
void law_init(law *c);
double law_step(law *c, double x);
"""
_INTERFACE = """
name = "law"
period = "{period}"
sources = ["law.c"]
headers = ["law.h"]
{more}
[code]
objects = ["law c"]
initialize = "law_init(&c)"
step = "y = law_step(&c, x)"
parameters = "{when} initialize"
[inputs]
x = {{ unit = "m" }}
[outputs]
y = {{ unit = "N" }}
[parameters]
gain = {{ c = "c.gain", initial = 2.0{gain_more} }}
table = {{ c = "c.table", shape = 46 }}
fast = {{ c = "c.fast", type = "bool" }}
count = {{ c = "c.count", type = "int32" }}
"""


def written(
    folder: Path, gain: str = "2.0", reset: str = "c->sum = 0.0;", period: str = "1/10",
    more: str = "", gain_more: str = "", when: str = "after",
) -> Path:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    table = ", ".join(map(repr, TABLE))
    (folder / "law.c").write_text(_SOURCE % (table, gain, reset))
    (folder / "law.h").write_text(_HEADER)
    path = folder / "law.toml"
    path.write_text(_INTERFACE.format(period=period, more=more, gain_more=gain_more, when=when))
    return path


@pytest.fixture(autouse=True)
def _in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    s[0] += 0.125 * u[0]
    y[0] = p[0] * u[0] + TABLE[7] * u[0] / TABLE[45] + s[0]


def scenario(**values: object) -> Scenario:
    out = Scenario("start", until=2)
    out.source("set", Signals("x [m]"))
    for k in range(20):
        out.at(f"{k}/10", "set.x", float(1 + k % 3))
    design = PythonController(
        law, Signals("x [m]"), Signals("y [N]"), memory=Signals("sum"),
        parameters=Signals(Signal("gain", initial=2.0)), values=values,
    )  # fmt: skip
    out.controller("law", design, period="1/10", inputs={"x": "set.x"})
    return out


def held(path: Path, kind: type = SilController, **values: object) -> BackToBack:
    more: dict[str, Any] = {"cases": None} if kind is SilController else {}
    return back_to_back(scenario(**values), {"law": kind(path, **more)})


def problems(result: BackToBack) -> list[str]:
    return [check.problem for check in result.open["law"].checks if check.problem]


def test_a_right_one_passes_every_check(tmp_path: Path) -> None:
    result = held(written(tmp_path))
    result.assert_ok()
    assert [check.what for check in result.open["law"].checks] == [
        "the period is that of the scenario",
        "the parameters of the C are those of the reference model",
        "a second initialisation gives the same answers",
    ]  # fmt: skip
    root = valid(ET.fromstring(junit_xml(result)))
    names = {case.attrib["name"] for case in root.iter("testcase")}
    assert "(a second initialisation gives the same answers)" in names


# -- its own values


@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_a_wrong_constant_of_its_own_is_a_failure(tmp_path: Path, kind: type) -> None:
    result = held(written(tmp_path, gain="3.0"), kind)
    assert result.outcome is Outcome.FAILED
    assert all(signal.ok for signal in result.open["law"].signals), "what was set is right"
    (problem,) = problems(result)
    assert problem.startswith("law: parameter gain is 3.0 in the C code and 2.0 in the reference")
    assert problem in result.in_words
    root = valid(ET.fromstring(junit_xml(result)))
    assert [f.attrib["message"] for f in root.iter("failure")] == [problem]


def test_what_the_scenario_sets_is_as_good_as_what_the_design_declares(tmp_path: Path) -> None:
    assert held(written(tmp_path), gain=5.0).ok, "it has that of the design, and is set to 5"
    assert held(written(tmp_path, gain="5.0"), gain=5.0).ok
    assert held(written(tmp_path, gain="2.0f + 1e-12")).ok, "what rounding costs"
    assert not held(written(tmp_path, gain="4.0"), gain=5.0).ok


def test_one_that_leaves_it_to_its_caller_may_say_so_or_leave_it_zero(tmp_path: Path) -> None:
    assert held(written(tmp_path / "zero", gain="0.0")).ok
    declared = written(tmp_path / "said", gain="3.0", gain_more=", set_by_caller = true")
    assert held(declared).ok


@pytest.mark.parametrize("kind", [SilController, InProcess])
@pytest.mark.parametrize("when", ["after", "before"])
def test_a_parameter_that_nobody_names_keeps_the_value_of_the_c(
    tmp_path: Path, kind: type, when: str
) -> None:
    """It became 0, and the C divided by it."""
    result = held(written(tmp_path, when=when), kind)
    result.assert_ok()
    running = kind(written(tmp_path, when=when)).fresh()
    try:
        own = running.interface.parameters
        if when == "after":
            assert running.own[own.slice("table")].tolist() == TABLE
            assert running.p[own.slice("table")].tolist() == TABLE
            assert running.p[own.slice("fast")].tolist() == [1.0]
            assert running.p[own.slice("count")].tolist() == [7.0]
    finally:
        running.close()


def test_one_that_is_named_is_set(tmp_path: Path) -> None:
    path = written(tmp_path)
    with sil(path, table=[1.0] * 46, count=3, fast=False) as controller:
        assert controller.step(x=1.0).y == 2.0 + 1.0 + 0.125 + 1e6
    with sil(path, gain=0.0) as controller:
        assert controller.step(x=2.0).y == pytest.approx(2 * TABLE[7] / TABLE[45] + 0.25)
        case = controller.controller.case()
    again = rerun_case(case)
    assert not again.failed
    assert again.outputs["y"] == pytest.approx(2 * TABLE[7] / TABLE[45] + 0.25)


def test_a_board_is_sent_what_the_hosts_c_has(tmp_path: Path) -> None:
    path = written(tmp_path)
    kept = own_values(SilController(build(path), cases=None))
    assert kept == {"table": TABLE, "fast": [1.0], "count": [7.0]}
    board = BoardController(path, kept=kept, cases=None)
    assert board.p[board.parameters.slice("table")].tolist() == TABLE


# -- its period


def test_another_period_is_a_failure_unless_it_is_declared(tmp_path: Path) -> None:
    result = held(written(tmp_path / "a", period="1/20"))
    assert result.outcome is Outcome.FAILED
    (problem,) = problems(result)
    assert "period of 0.05 s, but the scenario samples the controller every 0.1 s" in problem
    assert "write any_period = true in law.toml" in problem
    root = valid(ET.fromstring(junit_xml(result)))
    assert [f.attrib["message"] for f in root.iter("failure")] == [problem]
    assert held(written(tmp_path / "b", period="1/20", more="any_period = true")).ok


# -- a second time


@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_a_forgotten_reset_is_a_failure(tmp_path: Path, kind: type) -> None:
    result = held(written(tmp_path, reset=""), kind)
    assert result.outcome is Outcome.FAILED
    assert all(signal.ok for signal in result.open["law"].signals)
    (problem,) = problems(result)
    assert problem.startswith("after a second initialisation, y is ")
    assert "at step 0 (0 s); after the first it was" in problem
    assert "initialize does not reset everything that a run changes" in problem
    assert problem.endswith("write initialize_once = true under [code] of the interface file")
    assert f"law: {problem}" in result.in_words


def test_one_that_fails_when_it_is_initialised_again_is_told(tmp_path: Path) -> None:
    once = "static int begun; if (begun++) __builtin_abort(); c->sum = 0.0;"
    result = held(written(tmp_path, reset=once))
    (problem,) = problems(result)
    assert problem.startswith(
        "the C code fails when it is initialised a second time: law failed in its initialize"
    )
    assert "SIGABRT" in problem


@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_one_that_runs_once_after_a_reset_is_declared(tmp_path: Path, kind: type) -> None:
    once = "static int begun; if (begun++) return; c->sum = 0.0;"
    path = written(tmp_path, reset=once)
    result = held(path, kind)
    assert result.outcome is Outcome.FAILED
    assert "write initialize_once = true under [code]" in "".join(problems(result))
    path.write_text(path.read_text().replace("[code]", "[code]\ninitialize_once = true"))
    assert held(path, kind).ok
    path.write_text(path.read_text().replace("_once = true", "_once = 1"))
    with pytest.raises(InterfaceError, match=r"toml:8: code: initialize_once = 1 is not valid"):
        held(path, kind)


@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_variables_of_the_unit_begin_anew_at_each_initialisation(
    tmp_path: Path, kind: type
) -> None:
    """An input has its initial value; an array, an output and a parameter are 0."""
    (tmp_path / "seen.h").write_text(
        "static double first[5];\n"
        "static inline void note(double a, double b, double c, double d, double e)\n"
        "{ first[0] = a; first[1] = b; first[2] = c; first[3] = d; first[4] = e; }\n"
    )
    path = tmp_path / "seen.toml"
    path.write_text(
        'name = "seen"\nperiod = "1/10"\nsources = []\nheaders = ["seen.h"]\n'
        "[code]\n"
        'initialize = "note(x, (double)raw, grid[1][0], own, y)"\n'
        'step = ["y = x + own", "grid[1][0] += 1"]\n'
        "[inputs]\nx = { initial = -1.5 }\n"
        'raw = { type = "int16", scale = 0.25, bias = 1.0, initial = 3.0 }\n'
        "grid = { shape = [2, 2] }\n"
        '[outputs]\ny = {}\nseen = { c = "first", shape = [5] }\n'
        "[parameters]\nown = {}\n"
    )
    running: SilController | InProcess = kind(path, {"own": 2.0}).fresh()
    try:
        for _ in range(3):
            running.send(Tag(0), np.array([7.0, 4.0, *np.full(4, 9.0)]))
            answer = running.receive(Tag(0), 10.0)
            assert answer is not None
            assert answer[1:].tolist() == [-1.5, 8.0, 0.0, 0.0, 0.0]
            assert running.restart()
    finally:
        running.close()


MUCH = 2**53 + 1


@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_an_integer_that_no_float64_represents_is_refused_wherever_it_comes_from(
    tmp_path: Path, kind: type
) -> None:
    (tmp_path / "much.h").write_text(f"#include <stdint.h>\nstatic int64_t much = {MUCH};\n")
    path = tmp_path / "much.toml"
    path.write_text(
        'name = "much"\nperiod = "1/10"\nsources = []\nheaders = ["much.h"]\n'
        '[code]\nstep = "y = x"\n[inputs]\nx = { type = "int64" }\n'
        '[outputs]\ny = { type = "int64" }\n'
        '[parameters]\nmuch = { c = "much", type = "int64" }\n'
    )
    with pytest.raises(ControllerError, match="much an integer above 2\\^53 that no float64"):
        kind(path).fresh()
    with pytest.raises(ScenarioError, match=f"much = {MUCH} cannot be represented exactly"):
        kind(path, {"much": MUCH})
    with sil(path, much=MUCH + 1) as running:
        assert running.step(x=2**53 + 2).y == 2**53 + 2
        for wrong in (MUCH, np.int64(MUCH), np.array(MUCH)):
            with pytest.raises(ScenarioError, match=f"x = {MUCH} cannot be represented exactly"):
                running.step(x=wrong)
        with pytest.raises(ScenarioError, match=f"x = {MUCH} cannot be represented exactly"):
            running.run({"x": np.array([1, MUCH])})


def test_one_without_an_initialize_is_not_asked(tmp_path: Path) -> None:
    path = written(tmp_path)
    text = path.read_text().replace('initialize = "law_init(&c)"\n', "")
    path.write_text(text.replace("shape = 46", f"shape = 46, initial = {TABLE}"))
    checks = {check.what for check in held(path).open["law"].checks}
    assert "a second initialisation gives the same answers" not in checks


def test_an_output_that_is_not_written_yet_begins_anew(tmp_path: Path) -> None:
    """The variable is the generated unit's, and its entry point is due at the second tick."""
    path = written(tmp_path)
    text = path.read_text().replace(
        'step = "y = law_step(&c, x)"',
        'step = ["y = law_step(&c, x)", { call = "slow = y", every = 2, offset = 1 }]',
    )
    path.write_text(text.replace('y = { unit = "N" }', 'y = { unit = "N" }\nslow = {}'))
    running = SilController(path, cases=None).fresh()
    try:
        for _ in range(2):
            answers = []
            for k in range(3):
                running.send(Tag(k), np.ones(1))
                answer = running.receive(Tag(k), 5.0)
                assert answer is not None
                answers.append(answer[1])
            assert answers[0] == 0.0
            assert answers[1] == answers[2] > 0.0
            assert running.restart()
    finally:
        running.close()


def test_execution_times_are_those_of_the_steps_that_were_compared(tmp_path: Path) -> None:
    loop = held(written(tmp_path)).open["law"]
    assert loop.execution is not None
    assert loop.execution.steps == loop.steps == 21
    assert np.isfinite(loop.translation).all()
