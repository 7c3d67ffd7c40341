"""What a comparison covers, and what it did not put to the test: what stood still is no pass."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner, Result
from junit_schema import valid
from test_sil_outcomes import UNDECIDED, Fresh, errors_alone

from hitl import back_to_back as reported
from hitl.comparison.back_to_back import back_to_back
from rtsim.cli import main
from rtsim.components.controller import PythonController
from rtsim.core.errors import Undecided
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Vector
from rtsim.models.unstable import controller, scenario


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "motor"
    assert CliRunner().invoke(main, ["sil", "init", str(folder)]).exit_code == 0
    monkeypatch.chdir(folder)
    return folder


def sil_test(*arguments: object) -> Result:
    words = ["sil", "test", "scenario.py", "-c", "motor.toml", *map(str, arguments)]
    return CliRunner().invoke(main, words)


@pytest.mark.usefixtures("motor")
def test_outputs_that_never_moved_are_no_pass() -> None:
    result = sil_test("--until", 0.09, "--junit", "r.xml")
    assert result.exit_code == 2, result.output
    text = " ".join(result.output.split())
    assert "in open and in closed loop" not in text
    assert f"motor: {UNDECIDED}" in text
    assert "not exercised: controller: outputs that never moved: voltage" in text
    assert "inputs that never changed: setpoint, speed" in text
    root = valid(ET.parse("r.xml").getroot())
    assert root.attrib["failures"] == "0"
    assert any("never moves voltage" in (e.text or "") for e in root.iter("error"))


@pytest.mark.long
@pytest.mark.usefixtures("motor")
def test_answers_that_never_took_effect_are_no_pass_in_the_loop() -> None:
    result = sil_test("--latency", 0.2, "--until", 0.15, "--json")
    assert result.exit_code == 2, result.output
    told = json.loads(result.stdout)
    assert told["outcome"] == told["closed"]["outcome"] == "undecided"
    assert told["closed"]["effects"]["controller"]["took_effect"] == 0
    assert "no answer of controller took effect before the end" in told["closed"]["undecided"]
    shown = sil_test("--latency", 0.2, "--until", 0.15).output
    assert "in open and in closed loop" not in shown


def test_a_loop_without_an_effect_is_undecided_though_the_steps_agree() -> None:
    result = back_to_back(scenario(), {"controller": Fresh()}, until=0.15, latency=0.2)
    assert result.open["controller"].outcome is Outcome.PASSED
    assert result.flight is not None
    assert result.flight.outcome is result.outcome is Outcome.UNDECIDED
    assert "no answer of controller took effect" in result.in_words
    root = errors_alone(result)
    assert [c.attrib["name"] for c in root.iter("testcase") if c.find("error") is not None] == [
        "(the outcome is decided)"
    ]
    alone = back_to_back(scenario(), {"controller": Fresh()}, until=0.15, latency=0.2, closed=False)
    said = (
        "the C does what its reference model does, in open loop; but controller.force never moved"
    )
    assert alone.in_words == f"unstable: {said}", "of one step there is none after it"


@pytest.mark.usefixtures("motor")
def test_a_pass_says_what_it_covers() -> None:
    result = sil_test("--html", "r.html", "--junit", "r.xml", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    opened, closed = told["covered"]
    assert opened == "open loop of controller: 1 output, 2 inputs, 301 of 301 steps, 0 s to 3 s"
    assert closed.startswith("closed loop: 21 signals, ")
    assert "0 s to 3 s; the run with the reference model reached its end at 3 s" in closed
    assert "the run with the C reached its end at 3 s" in closed
    rows = told["closed"]["covered"]["rows"]
    assert rows > 301
    assert f"closed loop: 21 signals, {rows} rows, " in closed
    assert told["not_exercised"] == []
    assert "301 of 301 steps" in Path("r.html").read_text()
    assert "301 of 301 steps" in Path("r.xml").read_text()
    assert "compared: open loop of controller: 1 output" in sil_test().output


def test_a_constant_that_is_not_zero_is_said_and_passes() -> None:
    held = back_to_back(scenario(), {"controller": Fresh()}, until=2)
    assert held.ok
    assert held.unexercised == []

    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = 2.0

    one = scenario()
    design = controller()
    constant = PythonController(law, design.inputs, design.outputs)
    one.component("controller").controller = constant  # type: ignore[attr-defined]
    result = back_to_back(one, {"controller": constant}, until=1)
    assert result.ok
    assert result.in_words.endswith("in closed loop; but controller.force never moved")


# -- faults that never acted

FAR = '[[fault]]\nname = "far"\nwhere = "controller"\nkind = "drop"\nat = 100.0\ncount = 1\n'
NEAR = FAR.replace("100.0", "0.5").replace("far", "near")


@pytest.mark.long
@pytest.mark.usefixtures("motor")
def test_strict_is_a_no_for_a_fault_that_never_acts_in_open_loop_too() -> None:
    Path("far.toml").write_text(FAR)
    for loops in (("--open-only",), ()):
        given = ("--faults", "far.toml", "--junit", "r.xml", *loops)
        assert sil_test(*given).exit_code == 0
        root = valid(ET.parse("r.xml").getroot())
        (case,) = [c for c in root.iter("testcase") if c.attrib["name"] == "far"]
        assert case.find("skipped") is not None
        result = sil_test(*given, "--strict")
        assert result.exit_code == 1, result.output
        root = valid(ET.parse("r.xml").getroot())
        assert [f.attrib["message"] for f in root.iter("failure")] == ["far never acted"]
        assert "these faults never acted: far" in " ".join(result.output.split())


@pytest.mark.usefixtures("motor")
def test_a_fault_that_acts_is_in_junit() -> None:
    Path("near.toml").write_text(NEAR)
    result = sil_test("--faults", "near.toml", "--junit", "r.xml", "--strict")
    assert result.exit_code == 0, result.output
    root = valid(ET.parse("r.xml").getroot())
    (case,) = [c for c in root.iter("testcase") if c.attrib["name"] == "near"]
    assert "1 activations" in (case.findtext("system-out") or "")


# -- in a user's tests


def test_a_users_test_is_told_that_nothing_was_decided(motor: Path) -> None:
    given = {"controller": str(motor / "motor.toml")}
    ended = pytest.raises(Undecided, match="could not be decided")
    with ended, reported(motor / "scenario.py", given, until=0.09) as r:
        assert (r.outcome, r.ok) == (Outcome.UNDECIDED, False)
    assert np.isfinite(r.open["controller"].design).all()
