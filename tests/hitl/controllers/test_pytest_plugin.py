"""A user's own repository: context managers and fixtures, what passes and what a bug looks like."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hitl
from hitl import back_to_back, plant, sil
from hitl.cli.interfaces import write_starter
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError, ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Vector
from rtsim.models.unstable import scenario as unstable
from rtsim.scenario.loading import load_scenario

TEN_LINES = """\
def test_each_step_and_the_loop(back_to_back):
    back_to_back("scenario.py", {"controller": "motor.toml"}).assert_ok()


def test_one_step(sil):
    with sil("motor.toml", gain=0.1) as controller:
        assert controller.step(setpoint=10.0, speed=0.0).voltage == 1.0


def test_the_loop(plant):
    assert plant("scenario.py").fly({"controller": "motor.toml"})["motor.speed"].max() < 150
"""


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )


UNSEEN = """\
import functools
import pytest

MOTOR = "scenario.py", {"controller": "motor.toml"}

@pytest.fixture
def back_to_back(back_to_back):
    return functools.partial(back_to_back, closed=False, until=0.3)

def test_no_look(back_to_back):
    back_to_back(*MOTOR)

def test_only_printed(back_to_back):
    print(back_to_back(*MOTOR))
    print(back_to_back(*MOTOR).to_json())

def test_truth(back_to_back):
    assert back_to_back(*MOTOR)

def test_outcome(back_to_back):
    assert back_to_back(*MOTOR).outcome

def test_ok(back_to_back):
    assert back_to_back(*MOTOR).ok

def test_with(back_to_back):
    with back_to_back(*MOTOR) as result:
        assert result

def test_with_nothing(back_to_back):
    with back_to_back(*MOTOR):
        pass

def test_one_of_two(back_to_back):
    back_to_back(*MOTOR)
    assert back_to_back(*MOTOR) or True

def test_in_another_fixture(compared):
    pass

def test_in_the_end_of_a_fixture(compared_after):
    pass

def test_error_of_its_own(back_to_back):
    back_to_back(*MOTOR)
    raise ValueError("its own")

def test_expected(back_to_back):
    assert not back_to_back(*MOTOR)

def test_expected_outcome(back_to_back):
    assert back_to_back(*MOTOR).outcome.name == "FAILED"

def test_with_a_read(back_to_back):
    with back_to_back(*MOTOR) as result:
        result.ok
        print(result.outcome)

def test_expected_with(back_to_back):
    with back_to_back(*MOTOR) as result:
        assert not result
"""
CONFTEST = """\
import pytest

@pytest.fixture
def compared(back_to_back):
    return back_to_back("scenario.py", {"controller": "motor.toml"}, closed=False, until=0.3)

@pytest.fixture
def compared_after(back_to_back):
    yield
    back_to_back("scenario.py", {"controller": "motor.toml"}, closed=False, until=0.3)
"""
FELL = """\
from rtsim import Guard, Model, Scenario, Signal, Signals

def fall(t, x, z, u, p, dx):
    dx[0] = -1.0

def height(t, x, z, u, p, g):
    g[0] = x[0]

def scenario():
    ground = Guard("ground", -1, terminal=True, failure="it fell")
    ball = Model(
        name="ball", states=Signals(Signal("height", "m", initial=1.0)), derivative=fall,
        guards=(ground,), guard=height,
    )
    out = Scenario("ball", until=2.0)
    out.plant("ball", ball, step=0.1)
    return out
"""
FALLS = """\
import dataclasses
import hitl.plants
from rtsim.core.errors import RecordingError

def test_lost(plant, monkeypatch):
    def lost(*args, simulate=hitl.plants.simulate, **options):
        return dataclasses.replace(simulate(*args, **options), lost=RecordingError("disk full"))

    monkeypatch.setattr(hitl.plants, "simulate", lost)
    plant("fell.py").fly(until=0.5)

def test_no_look(plant):
    plant("fell.py").fly()

def test_only_data(plant):
    assert plant("fell.py").fly()["ball.height"][0] == 1.0

def test_truth(plant):
    ball = plant("fell.py")
    ball.fly()
    assert ball.outcome

def test_expected(plant):
    ball = plant("fell.py")
    ball.fly()
    assert not ball.outcome

def test_before_it_falls(plant):
    assert plant("fell.py").fly(until=0.5)["ball.height"][0] == 1.0
"""


def states(told: str, of: str) -> set[str]:
    """Return the names of the tests that pytest lists as ``FAILED``, ``ERROR`` or ``PASSED``."""
    return set(re.findall(rf"^{of} \S+::test_(\w+)", told, re.M))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """What ``rtsim sil init`` writes."""
    folder = tmp_path / "repository"
    write_starter(folder)
    return folder


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


# -- the package's face


def test_every_name_that_is_offered_exists() -> None:
    for name in hitl.__all__:
        assert callable(getattr(hitl, name))
    assert set(hitl.__all__) <= set(dir(hitl))
    with pytest.raises(AttributeError, match="no attribute 'sill'"):
        getattr(hitl, "sill")  # noqa: B009


def test_the_plugin_costs_nothing_until_it_is_used() -> None:
    heavy = ("numpy", "numba", "zmq", "rtsim.scenario", "hitl.building.build")
    code = f"import sys, hitl.pytest_plugin; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- a repository's tests


@pytest.mark.long
def test_a_repository_of_ten_lines_passes_on_two_workers(repository: Path) -> None:
    (repository / "test_ten_lines.py").write_text(TEN_LINES)
    told = pytest_in(repository, "-q", "-n", "2")
    assert told.returncode == 0, told.stdout + told.stderr
    assert re.search(r"\b6 passed", told.stdout)
    assert not (repository / "cases").exists()


@pytest.mark.long
def test_a_bug_fails_with_its_signal_step_and_page(repository: Path, tmp_path: Path) -> None:
    """It integrates twice as fast: told first where the command has left its limit."""
    change(repository / "motor.c", "integral_gain * PERIOD", "integral_gain * 2 * PERIOD")
    told = pytest_in(repository, "-q", f"--basetemp={tmp_path / 'base'}")
    assert told.returncode == 1
    assert re.search(r"\b1 failed, 2 passed", told.stdout), told.stdout
    wrong = re.search(r"^E .*voltage.*step (\d+)", told.stdout, re.M)
    assert wrong, told.stdout
    assert int(wrong[1]) == first_difference(repository)
    page = re.search(r"(\S+\.html)", told.stdout)
    assert page, told.stdout
    assert Path(page[1]).is_file()
    assert tmp_path / "base" in Path(page[1]).parents


def first_difference(folder: Path) -> int:
    """The step at which the C first answers otherwise to the inputs of the design's flight."""
    with plant(folder / "scenario.py") as motor:
        design = motor.fly()
    inputs = {n: design.messages["controller.inputs"][n] for n in ("setpoint", "speed")}
    with sil(folder / "motor.toml") as controller:
        answers = controller.run(inputs).voltage
    return int(np.flatnonzero(answers != design.messages["controller"]["voltage"])[0])


REQUIRED = """\
from pathlib import Path
from scenario import scenario as motor

def scenario(fastest=200.0):
    loop = motor()
    loop.require("FAST", f"always motor.speed < {fastest} rad/s")
    return loop
"""
REQUIRED_TESTS = """\
LAW = {"controller": "motor.toml"}

def test_holds(back_to_back):
    back_to_back("required.py", LAW, until=0.5).assert_ok()

def test_violated(back_to_back):
    back_to_back("required.py", LAW, until=0.5, fastest=50.0).assert_ok()

def test_expected(back_to_back):
    assert not back_to_back("required.py", LAW, until=0.5, fastest=50.0)

def test_no_look(plant):
    plant("required.py", fastest=50.0).fly(LAW, until=0.5)

def test_of_a_run(plant):
    motor = plant("required.py", fastest=50.0)
    motor.fly(LAW, until=0.5)
    motor.outcome.assert_ok()
"""


@pytest.mark.long
def test_a_violated_requirement_fails_the_test_with_its_name(repository: Path) -> None:
    (repository / "required.py").write_text(REQUIRED)
    (repository / "test_required.py").write_text(REQUIRED_TESTS)
    told = pytest_in(repository, "-q", "-rA", "test_required.py").stdout
    assert states(told, "PASSED") == {"holds", "expected"}, told
    assert states(told, "FAILED") == {"violated", "no_look", "of_a_run"}
    assert "the run with the reference model already violates FAST; the run with the C vio" in told
    assert re.search(r"plant is failed: .*FAST is violated, robustness -", told)
    assert re.search(r"AssertionError: .*FAST is violated, robustness -", told)


@pytest.mark.long
def test_no_form_of_a_test_passes_with_wrong_c(repository: Path) -> None:
    change(repository / "motor.c", "wanted < -LIMIT", "wanted < -4 * LIMIT")
    change(repository / "motor.c", "wanted > LIMIT", "wanted > 4 * LIMIT")
    (repository / "conftest.py").write_text(CONFTEST)
    (repository / "test_unseen.py").write_text(UNSEEN)
    told = pytest_in(repository, "-q", "-rA", "test_unseen.py").stdout
    late = "in_the_end_of_a_fixture"  # pytest lists an error in the end beside the passed test
    assert states(told, "PASSED") == {"expected", "expected_outcome", late}
    assert states(told, "ERROR") == {late}
    assert "never asked for the outcome; type RESULT.assert_ok()" in told
    assert re.search(r"back to back is failed: motor: the C does not do", told)


@pytest.mark.long
def test_right_c_fails_too_if_no_test_looks(repository: Path) -> None:
    (repository / "conftest.py").write_text(CONFTEST)
    (repository / "test_unseen.py").write_text(UNSEEN)
    told = pytest_in(repository, "-q", "-rA", "test_unseen.py").stdout
    passed = {"truth", "outcome", "ok", "with", "with_nothing", "with_a_read"}
    assert states(told, "PASSED") == {*passed, "in_the_end_of_a_fixture"}
    assert states(told, "ERROR") == {"in_the_end_of_a_fixture"}
    assert "back to back is passed" in told


def test_a_run_that_ended_at_a_declared_failure_fails_its_test(repository: Path) -> None:
    (repository / "fell.py").write_text(FELL)
    (repository / "test_falls.py").write_text(FALLS)
    told = pytest_in(repository, "-q", "-rA", "test_falls.py").stdout
    assert states(told, "PASSED") == {"expected", "before_it_falls"}, told
    assert "it fell" in told
    assert "plant is undecided" in told


KEPT = """\
KEPT = {}

def test_keeps(back_to_back, plant):
    KEPT.update(compare=back_to_back, plant=plant, ball=plant("fell.py"))

def test_compares():
    KEPT["compare"]("scenario.py", {"controller": "motor.toml"}, until=0.1)

def test_flies():
    KEPT["plant"]("fell.py").fly()

def test_flies_again():
    KEPT["ball"].fly()
"""


@pytest.mark.long
def test_a_fixture_that_another_test_kept_is_refused(repository: Path) -> None:
    (repository / "fell.py").write_text(FELL)
    (repository / "test_kept.py").write_text(KEPT)
    told = pytest_in(repository, "-q", "-rA", "test_kept.py").stdout
    assert states(told, "PASSED") == {"keeps"}, told
    assert "back_to_back belongs to test_kept.py::test_keeps, which has ended" in told
    assert "plant belongs to test_kept.py::test_keeps" in told


def test_a_crash_names_its_case(repository: Path, tmp_path: Path) -> None:
    change(repository / "motor.c", "real error =", "*(volatile int *)0 = 0;\n    real error =")
    told = pytest_in(repository, "-q", "-k", "limited", f"--basetemp={tmp_path / 'base'}")
    assert told.returncode == 1
    assert "SIGSEGV" in told.stdout
    case = re.search(r"rtsim sil case (\S+\.npz)", told.stdout)
    assert case, told.stdout
    assert Path(case[1]).is_file()
    assert tmp_path / "base" in Path(case[1]).parents


def test_a_controller_left_open_is_closed(repository: Path) -> None:
    (repository / "test_open.py").write_text(
        "import os\n"
        "PIDS = []\n"
        "def test_left(sil):\n"
        "    PIDS.append(sil('motor.toml').controller.pid)\n"
        "    os.kill(PIDS[0], 0)\n"
        "def test_gone():\n"
        "    try:\n"
        "        os.kill(PIDS[0], 0)\n"
        "    except ProcessLookupError:\n"
        "        return\n"
        "    raise AssertionError('it lives')\n"
    )
    told = pytest_in(repository, "-q", "test_open.py")
    assert told.returncode == 0, told.stdout


# -- sil


def test_steps_by_name_hold_what_is_not_given(repository: Path) -> None:
    with sil(repository / "motor.toml", gain=0.1, integral_gain=0.0) as controller:
        assert controller.step(setpoint=10.0) == {"voltage": 1.0}
        assert controller.step(speed=5.0)["voltage"] == 0.5
        assert controller.run({"speed": [6.0, 7.0]}).voltage == pytest.approx([0.4, 0.3])
        assert controller.step().voltage == pytest.approx(0.3)
        assert controller.run([[1.0, 1.0]]).voltage.tolist() == [0.0]
        assert controller.steps == 6


def test_mistakes_of_a_step_are_told(repository: Path) -> None:
    with sil(repository / "motor.toml") as controller:
        with pytest.raises(UnknownName, match="did you mean speed"):
            controller.step(sped=1.0)
        with pytest.raises(ShapeError, match=r"speed has shape \(2,\); expected \(\)"):
            controller.step(speed=[1.0, 2.0])
        with pytest.raises(ShapeError, match=r"needs shape \(k, 2\): setpoint, speed"):
            controller.run([[1.0]])
        with pytest.raises(ScenarioError, match="arrays of the same length"):
            controller.run({"speed": [1.0], "setpoint": [1.0, 2.0]})
        with pytest.raises(AttributeError, match="did you mean voltage"):
            _ = controller.step().volt
    with pytest.raises(UnknownName, match="gian"):
        sil(repository / "motor.toml", gian=1.0)


def test_the_error_of_the_body_is_the_one_that_is_told(repository: Path) -> None:
    """Also where the C does not end well."""
    toml = repository / "motor.toml"
    change(toml, "[inputs]", 'terminate = "abort()"\n\n[inputs]')
    change(toml, 'headers = ["motor.h"]', 'headers = ["motor.h", "stdlib.h"]')
    with pytest.raises(ControllerError, match="at the end of the run"), sil(toml) as controller:
        controller.step()
    with pytest.raises(ZeroDivisionError), sil(toml) as controller:
        controller.step(speed=1 / 0)


# -- plant


def test_a_plant_flies_afresh_each_time(repository: Path) -> None:
    with plant(repository / "scenario.py", setpoint=20.0, **{"motor.speed": 3.0}) as motor:
        design = motor.fly(until=1)
        c = motor.fly({"controller": repository / "motor.toml"}, until=1)
        again = motor.fly(until=1)
    assert design["motor.speed"][0] == 3.0
    assert design.digest() == again.digest()
    assert np.array_equal(design["motor.speed"], c["motor.speed"])
    assert motor.outcome is not None
    assert motor.outcome.reason == "end"


def test_a_plant_may_be_a_name_a_scenario_or_a_function() -> None:
    made = unstable(latency=0.02)
    flights = [
        plant("unstable", latency=0.02).fly(until=1),
        plant(made).fly(until=1),
        plant(unstable, latency=0.02).fly(until=1),
    ]
    assert len({flight.digest() for flight in flights}) == 1
    pushed = plant(made, **{"plant.x": 2.0}).fly(until=1)
    assert pushed["plant.x"][0] == 2.0
    assert plant(made).fly(until=1).digest() == flights[0].digest()
    with pytest.raises(ScenarioError, match="is made already"):
        plant(made, latency=0.01)


def test_an_interface_file_without_the_name_of_its_controller_is_told(repository: Path) -> None:
    """The command may leave the name out; here it is always given."""
    alone: Any = "motor.toml"
    told = "'motor.toml' does not say which controller it replaces"
    with plant(repository / "scenario.py") as motor, pytest.raises(ScenarioError, match=told):
        motor.fly(alone)
    with pytest.raises(ScenarioError, match=told):
        back_to_back(repository / "scenario.py", alone)


def test_what_flew_until_a_failure_is_kept() -> None:
    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = 0.0
        if t > 0.5:
            raise ValueError("tired")

    design = load_scenario("unstable").component("controller").controller  # type: ignore[attr-defined]
    tired = PythonController(law, design.inputs, design.outputs)
    with plant("unstable") as loop:
        with pytest.raises(ControllerError, match="tired"):
            loop.fly({"controller": tired})
        assert loop.outcome is None
        assert loop.recording is not None
        assert 0.4e9 < loop.recording.end_ns < 0.7e9


# -- back to back


def test_back_to_back_as_a_context_manager(repository: Path) -> None:
    interface = str(repository / "motor.toml")
    with back_to_back(repository / "scenario.py", {"controller": interface}, until=1) as result:
        assert result.ok
        result.assert_ok()
        assert result.open["controller"].ok
    assert back_to_back(
        repository / "scenario.py", {"controller": interface}, closed=False, setpoint=20.0
    ).ok


REQUIRED = """\
import rtsim as rt


class Ramp(rt.Plant):
    x = rt.state("m")

    def derivative(self, d):
        d.x = 1.0


def ramp():
    loop = rt.Scenario("ramp", until=2)
    loop.plant(Ramp(), step=0.1)
    loop.require("LOW", "always ramp.x < 3 m")
    loop.require("FAR", "always (ramp.x > 1.5 m implies ramp.x < 1.8 m)")
    return loop


def test_direct():
    assert [one.verdict for one in rt.simulate(ramp()).requirements] == ["holds", "violated"]


def test_short():
    assert not rt.simulate(ramp(), until=1).requirements[1].is_exercised


def test_fixture(plant):
    plant(ramp()).fly()


def test_none():
    pass
"""


@pytest.mark.long
def test_a_matrix_has_the_requirements_that_tests_check(tmp_path: Path) -> None:
    (tmp_path / "test_ramp.py").write_text(REQUIRED)
    said = pytest_in(tmp_path, "--rtsim-matrix=m.csv", "--junitxml=j.xml").stdout
    assert "matrix: m.csv" in said
    assert "FAR is violated, robustness -0.2 m in test_ramp.py::test_direct" in said
    low, far = csv.DictReader((tmp_path / "m.csv").read_text().splitlines())
    assert low["test_ramp.py::test_direct"] == "holds, 1 m"
    assert far["test_ramp.py::test_short"] == "not exercised, 0 times"
    assert far["test_ramp.py::test_fixture"] == "violated, -0.2 m, 1 time"
    assert "test_ramp.py::test_none" not in low
    assert (far["verdict"], far["exercised_by"]) == ("violated", "2")
    xml = (tmp_path / "j.xml").read_text()
    assert '<property name="requirement LOW" value="holds, robustness 1 at 2 s"' in xml
    wrong = pytest_in(tmp_path, "--rtsim-matrix=m.xml").stderr
    assert "--rtsim-matrix: the matrix m.xml must be a file .html or .csv" in wrong
    workers = pytest_in(tmp_path, "-n", "2", "--rtsim-matrix=n.csv").stdout
    assert "matrix: n.csv" in workers
    table = csv.DictReader((tmp_path / "n.csv").read_text().splitlines())
    rows = {one["requirement"]: one for one in table}
    assert rows["FAR"]["test_ramp.py::test_fixture"] == "violated, -0.2 m, 1 time"
