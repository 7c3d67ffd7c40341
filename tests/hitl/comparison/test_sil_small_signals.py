"""Tolerances have the size of the signals: what does nothing fails, however small they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from back_to_back_parts import Change, Stand, write_law
from click.testing import CliRunner, Result
from pitl_parts import FakeBoard, as_float

from hitl.comparison.back_to_back import back_to_back, compare_chain
from hitl.comparison.conditions import ComparisonRequest, Stage
from hitl.comparison.tolerances import AT_REST, SINGLE, of_signals, one_step, span_of
from hitl.comparison.verdict import BackToBack
from hitl.results.junit import junit_xml
from hitl.results.page import render
from rtsim.cli import main
from rtsim.components.controller import PythonController
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import Tolerance
from rtsim.scenario.scenario import Scenario

RATE, INERTIA, GAIN = 8e-4, 1e-3, 1e-3
FLOAT = Signals(Signal("torque", "N.m", type="float32"))


def wheel(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0] / INERTIA


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = GAIN * (u[0] - u[1])


LAW = PythonController(law, Signals("wanted [rad/s]", "rate [rad/s]"), Signals("torque [N.m]"))


def constant(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = GAIN * RATE


def scenario(rate: float = RATE, controller: PythonController = LAW) -> Scenario:
    """A wheel to 8e-4 rad/s, by at most 8e-7 N m."""
    out = Scenario("wheel", until=2)
    model = Model("wheel", Signals("rate [rad/s]"), wheel, inputs=Signals("torque [N.m]"))
    out.plant("wheel", model, step=0.01, inputs={"torque": "law.torque"})
    out.source("wanted", Signals("rate [rad/s]"))
    out.at(0.1, "wanted.rate", rate)
    inputs = {"wanted": "wanted.rate", "rate": "wheel.rate"}
    out.controller("law", controller, period=0.02, inputs=inputs)
    return out


class Fresh(Stand):
    """Stands for a C with a float output."""

    def fresh(self) -> Fresh:
        return Fresh(self.law, self.change, FLOAT)


def nothing(step: int, y: Vector) -> Vector:  # noqa: ARG001
    return 0.0 * y


def held(change: Change, rate: float = RATE, **how: object) -> BackToBack:
    return back_to_back(scenario(rate), {"law": Fresh(LAW, change, FLOAT)}, **how)


@pytest.mark.parametrize("rate", [8e-4, 8e-7, 8.0, 8e3])
def test_what_returns_0_fails_in_both_loops_and_what_rounds_passes(rate: float) -> None:
    out = held(nothing, rate)
    assert out.outcome is Outcome.FAILED
    assert not out.open["law"].ok
    assert out.flight is not None
    failed = {r.name for r in out.flight.comparison.failures}
    assert {"messages/law.torque", "wheel.torque", "wheel.rate"} <= failed
    held(as_float, rate).assert_ok()
    off = held(lambda step, y: y * 1.0001, rate, closed=False)  # noqa: ARG005
    assert off.outcome is Outcome.FAILED, "the verdict is the same in every unit"


def test_what_returns_0_fails_on_the_board(tmp_path: Path) -> None:
    host = Stage("host C", {"law": Fresh(LAW, as_float, FLOAT)})

    class Board(FakeBoard):
        def fresh(self) -> Board:
            out = Board(self.law, self.change, self.folder, self.outputs)
            out.board = out.greeting
            return out

    board = Stage("board", {"law": Board(LAW, nothing, tmp_path, FLOAT)})
    out = compare_chain(scenario(), [host, board], ComparisonRequest())
    assert [pair.outcome for pair in out.pairs] == [Outcome.PASSED, Outcome.FAILED]
    assert {r.name for r in out.pairs[1].flight.comparison.failures} >= {"wheel.rate"}  # type: ignore[union-attr]


def test_a_tolerance_that_is_larger_than_the_signal_is_told_beside_it() -> None:
    out = held(nothing, tolerances={"*": (1e-2, 0.0)})
    assert out.ok, "it is what was asked for"
    (torque,) = out.open["law"].signals
    told = "tolerance 0.01 above a tenth of its range"
    assert told in torque.remark
    assert "differs by 8e-07" in torque.remark
    assert told in junit_xml(out)
    assert told in render(out)
    text = json.dumps(out.to_json())
    assert told in text
    assert "tolerance that exceeds a tenth of their range: law.torque, " in out.in_words
    assert held(as_float).open["law"].signals[0].remark == ""
    assert "exceeds" not in held(as_float).in_words


def test_a_signal_that_stands_still_has_the_tolerance_of_its_value() -> None:
    """A constant torque of 8e-7 N m: what returns 0 passed, within a share of 1 N m."""
    same = PythonController(constant, LAW.inputs, LAW.outputs)
    wheel = scenario(controller=same)
    out = back_to_back(wheel, {"law": Fresh(same, nothing, FLOAT)})
    assert out.outcome is Outcome.FAILED
    assert not out.open["law"].ok
    assert out.flight is not None
    assert {"messages/law.torque", "wheel.rate"} <= {r.name for r in out.flight.comparison.failures}
    back_to_back(wheel, {"law": Fresh(same, as_float, FLOAT)}).assert_ok()


def test_shares_are_those_of_the_span() -> None:
    angle = Signal("heading", "deg", kind="angle", type="float32")
    turning = np.array([[350.0], [359.0], [3.0]])
    assert span_of(turning, angle) == pytest.approx(13.0), "the short way round"
    assert span_of(np.array([[np.nan], [np.inf], [2.0], [5.0]]), Signal("x")) == 3.0
    values = np.array([[0.0], [8e-7]])
    assert one_step(SINGLE, FLOAT["torque"], values) == pytest.approx((8e-13, 1e-5))
    for value in (4.0, -8e-7):
        still = one_step(SINGLE, FLOAT["torque"], np.full((3, 1), value))
        assert still == pytest.approx((SINGLE.absolute * abs(value), SINGLE.relative))
    assert one_step(SINGLE, FLOAT["torque"], np.zeros((3, 1))) == SINGLE, "no size to share"
    exact = Tolerance(0.25)
    assert one_step(exact, Signal("n", type="int16"), values) == exact, "a count is a count"


def test_a_loop_may_be_off_by_more_where_its_outputs_may_be() -> None:
    recorder = MemoryRecorder()
    message = recorder.track("messages/law", (), Signals("torque [N.m]"))
    plant = recorder.track("wheel", (), Signals("rate [rad/s]", "still [m]"))
    recorder.start({})
    for ns in range(3):
        message.append(ns, (), np.array([2.0 * ns]))
        plant.append(ns, (), np.array([10.0 * ns, 7.0]))
    flown = recorder.recording()
    shares = Tolerance(1e-3, 1e-2)
    rules = of_signals(shares, flown, {})
    assert rules["wheel.rate"] == (0.2, 1e-5)
    assert rules["wheel.still"] == (7e-3, 1e-5), "it spans nothing: of its value"
    assert AT_REST < 1e-9
    wider = of_signals(shares, flown, {"messages/law.torque": Tolerance(2e-4)})
    assert wider["wheel.rate"] == pytest.approx((20.0 * 0.05, 1e-5)), "1000 times 2e-4 of 4"
    for stated, share in ((0.2, 0.1), (1.0, 0.25), (9.0, 1.0)):
        more = of_signals(shares, flown, {"messages/law.torque": Tolerance(stated)})
        assert more["wheel.rate"] == pytest.approx((20.0 * share, 1e-5)), "a tenth, or one step's"


# -- which rule counts


@pytest.fixture
def loose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A law in float whose interface file allows everything 1.0, and has said force before."""
    monkeypatch.chdir(tmp_path)
    path = write_law(tmp_path / "law", type="float32")
    path.write_text(path.read_text() + '[tolerance]\nforce = 0.5\n"*" = 1.0\n')
    return path


def sil_test(*arguments: object) -> Result:
    words = ["sil", "test", "unstable", "--until", "2", *map(str, arguments)]
    return CliRunner().invoke(main, words)


@pytest.mark.long
def test_options_replace_the_tolerances_of_the_file_and_the_last_option_holds(loose: Path) -> None:
    """All with one build, in both loops and in the open loop alone."""
    for given, status in (
        ("", 0), ("--tol force=1e-9", 1), ("--abs 1e-9", 1), ("--tol force=5 --tol *=1e-9", 1),
        ("--tol *=5 --tol force=1 --tol *=1e-9", 1), ("--tol force=1e-9 --tol force=1", 0),
    ):  # fmt: skip
        for loops in ((), ("--open-only",)) if status else ((),):
            result = sil_test("-c", loose, *given.split(), *loops)
            assert result.exit_code == status, (given, result.output)


def test_a_rule_of_the_file_that_fits_nothing_is_an_error_with_its_line(loose: Path) -> None:
    text = loose.read_text()
    loose.write_text(text.replace("force = 0.5", "froce = 0.5"))
    line = loose.read_text().splitlines().index("froce = 0.5") + 1
    result = sil_test("-c", loose)
    assert result.exit_code == 2, result.output
    assert f"law.toml:{line}: no signal matches 'froce'" in result.output
    loose.write_text(text.replace("force = 0.5", '"plant.x" = 0.5'))
    assert sil_test("-c", loose, "--open-only").exit_code == 0, "a signal of the loop"
    with pytest.raises(ScenarioError, match=r"no signal matches 'plnt\.x'"):
        held(as_float, tolerances={"plnt.x": (1.0, 0.0)})
