"""A seeded bug: an integral that winds up after two reversals of the wanted speed.

The search finds it, the counterexample shrinks to three pieces, and the saved test fails in C on
this host and on an emulated board until the bug is mended.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from emulated_board_parts import need

from hitl.cli.interfaces import write_starter
from hitl.controllers.board import BoardController
from hitl.controllers.sil import SilController
from hitl.plants import counterexample
from rtsim.cli.main import main
from rtsim.components.controller import ControllerProtocol
from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError
from rtsim.record.reading import Recording
from rtsim.requirements.requirement import Requirement
from rtsim.requirements.verdict import check
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent
from rtsim.studies.counterexample import Counterexample, Runs, Waveform
from rtsim.studies.falsification import falsify
from rtsim.studies.shrinking import shrunk

S = 1_000_000_000
SEARCHED = {"wanted.speed": "pieces:8,-200,200"}
FILE = "forward.counterexample.toml"
BOARD = "board:pico"


def mend(folder: Path) -> None:
    """Delete the lines that unload the integral of the old direction."""
    code = folder / "motor.c"
    lines = code.read_text().splitlines()
    (at,) = (k for k, line in enumerate(lines) if "unload the integral" in line)
    code.write_text("\n".join([*lines[:at], *lines[at + 2 :]]) + "\n")


@pytest.fixture(scope="module")
def motor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its bug, and a counterexample that a person wrote."""
    folder = tmp_path_factory.mktemp("reversing")
    write_starter(folder, "reversing")
    one = by_hand(folder, [(0.0, 200.0), (1.0, -200.0), (2.0, 200.0)])
    one.save(folder / FILE)
    one.save_test(folder / "test_forward.py", folder / FILE)
    return folder


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory, motor: Path) -> Path:
    folder = tmp_path_factory.mktemp("mended")
    write_starter(folder, "reversing")
    mend(folder)
    for name in (FILE, "test_forward.py"):
        (folder / name).write_text((motor / name).read_text())
    return folder


def by_hand(folder: Path, points: list[tuple[float, float]]) -> Counterexample:
    scenario = f"{folder / 'scenario.py'}:in_c"
    empty = Counterexample(scenario, _requirement(folder), 8 * S)
    times = tuple((round(t * S), value) for t, value in points)
    return replace(empty, inputs=(Waveform("wanted.speed", "pieces", -200.0, 200.0, times),))


def _requirement(folder: Path) -> Requirement:
    return load_scenario(str(folder / "scenario.py")).requirements[0]


@pytest.mark.long
def test_the_bug_shows_only_after_two_reversals(motor: Path, mended: Path) -> None:
    runs, rng = Runs(), np.random.default_rng(0)
    inputs: list[list[tuple[float, float]]] = [[(0.0, v)] for v in (-200.0, -15.0, 15.0, 200.0)]
    for first, later in itertools.product((-200.0, -60.0, 60.0, 200.0), repeat=2):
        inputs.append([(0.0, first), (float(rng.uniform(0.3, 5.0)), later)])  # at most one reversal
    for points in inputs:
        found = runs.check(by_hand(motor, points))
        assert found.verdict != "violated", (points, found.in_words)
    for signs in ((1, -1, 1), (-1, 1, -1, 1)):
        points = [(float(k), 200.0 * sign) for k, sign in enumerate(signs)]
        assert runs.check(by_hand(motor, points)).robustness < -100.0
        assert runs.check(by_hand(mended, points)).verdict == "holds"


@pytest.mark.long
def test_the_comparison_with_its_reference_model_does_not_find_it(motor: Path) -> None:
    arguments = ["sil", "test", str(motor / "scenario.py"), "-c", str(motor / "motor.toml")]
    found = CliRunner().invoke(main, [*arguments, "--no-stimuli"])
    assert found.exit_code == 0, found.output
    found = CliRunner().invoke(main, [*arguments, "--counterexample", str(motor / FILE)])
    assert found.exit_code == 1, found.output
    assert "the C does not do what its reference model does" in found.output


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_search_finds_it_and_three_pieces_remain(motor: Path, seed: int) -> None:
    found = falsify(f"{motor / 'scenario.py'}:in_c", SEARCHED, runs=500, seed=seed)
    assert found.counterexample is not None
    assert found.needed is not None
    assert found.needed <= 500
    small = shrunk(found.counterexample, {})
    assert small.complete
    one = small.counterexample
    (wave,) = one.inputs
    assert len(wave.points) == 3
    assert [np.sign(value) for _, value in wave.points] == [1, -1, 1]
    digits = [f"{value:g}".strip("-0").rstrip("0") for _, value in wave.points]
    assert all(len(each) <= 2 for each in digits), wave.points
    assert one.until_ns == 7 * S  # what the requirement needs
    assert one.check().robustness <= 0.5 * found.robustness
    assert shrunk(found.counterexample, {}) == small


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.mark.long
def test_the_saved_test_fails_until_the_bug_is_mended(motor: Path, mended: Path) -> None:
    assert (motor / "test_forward.py").read_text().count("\n") == 3
    found = pytest_in(motor)
    assert found.returncode == 1, found.stdout
    assert re.search(r"FORWARD is violated, robustness -\d", found.stdout)
    assert pytest_in(mended).returncode == 0
    # The same file for the reference model, and with C code that the option names.
    for folder in (motor, mended):
        path = folder / FILE
        path.write_text(path.read_text().replace("scenario.py:in_c", "scenario.py"))
    assert pytest_in(motor).returncode == 0
    assert pytest_in(motor, "--in-c", "controller=motor.toml").returncode == 1
    assert pytest_in(mended, "--in-c", "motor.toml").returncode == 0


@pytest.mark.long
def test_the_saved_test_fails_on_the_emulated_board(motor: Path, mended: Path) -> None:
    need("rp2040js")
    found = pytest_in(motor, "--in-c", "motor.toml", "--board", BOARD)
    assert found.returncode == 1, found.stdout
    assert "FORWARD is violated" in found.stdout
    found = pytest_in(mended, "--in-c", "motor.toml", "--board", BOARD)
    assert found.returncode == 0, found.stdout


def test_the_controllers_of_the_scenario_run_on_the_board(
    motor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A C controller of the scenario is replaced; half of the period is its latency."""
    seen: list[tuple[ControllerComponent, dict[str, Any]]] = []

    def simulated(scenario: Scenario, **options: Any) -> None:
        seen.append((scenario.of(ControllerComponent)["controller"], options))

    monkeypatch.setattr("hitl.plants.simulate", simulated)
    one = Counterexample.open(motor / FILE)
    replace(one, scenario=f"{motor / 'scenario.py'}:in_c", seed=3).save(motor / "in_c.toml")
    counterexample(motor / "in_c.toml", board=BOARD)
    counterexample(motor / "in_c.toml", board=BOARD, latency=0.002)
    counterexample(motor / "in_c.toml", {"controller": motor / "motor.toml:float"})
    (first, options), (second, _), (third, _) = seen
    assert options == {"seed": 3}
    assert isinstance(first.controller, BoardController)
    assert first.controller.url == BOARD
    assert first.compute == Fixed("1/200")
    assert second.compute == Fixed(0.002)
    assert isinstance(third.controller, SilController)
    assert third.controller.interface.variant == "float"


def controller_of(scenario: Scenario) -> ControllerProtocol:
    return scenario.of(ControllerComponent)["controller"].controller


def test_a_board_needs_c_code(motor: Path) -> None:
    one = Counterexample.open(motor / FILE)
    replace(one, scenario=str(motor / "scenario.py")).save(motor / "python.toml")
    with pytest.raises(ScenarioError, match=r"no C controller that board:pico could run.*--in-c"):
        counterexample(motor / "python.toml", board=BOARD)
    own: Any = {"controller": controller_of(load_scenario(str(motor / "scenario.py")))}
    with pytest.raises(ScenarioError, match="board:pico runs C code only, but controller is"):
        counterexample(motor / "python.toml", own, board=BOARD)
    with pytest.raises(ScenarioError, match="regulator"):
        counterexample(motor / "python.toml", {"regulator": motor / "motor.toml"})


def test_a_test_that_does_not_look_fails(motor: Path) -> None:
    (motor / "test_unseen.py").write_text(
        "def test_unseen(counterexample):\n"
        f'    counterexample("{FILE}", {{"controller": "motor.toml"}})\n'
    )
    found = pytest_in(motor, "test_unseen.py")
    assert found.returncode == 1
    assert "the test never asked for the outcome" in found.stdout


def test_the_commands_run_the_same_file_in_c(
    motor: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    file = ["--counterexample", str(motor / FILE), "-o", "c.mcap"]
    arguments = [str(motor / "scenario.py"), "-c", str(motor / "motor.toml"), *file]
    found = CliRunner().invoke(main, ["sil", "run", *arguments])
    assert found.exit_code == 1, found.output
    assert "FORWARD is violated" in found.output
    recording = Recording.open("c.mcap")
    assert recording.span_ns[1] == 8 * S
    assert check([_requirement(motor)], recording)[0].robustness < -100.0
