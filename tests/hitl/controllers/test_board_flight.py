"""The F-16's control law on an emulated Uno: its commands, its cycles, its faults, its replay.

A flight by an emulated board goes on from a checkpoint: the board is fed what it was asked.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated_board_parts import need, with_simavr
from protocol_parts import f16

from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.controllers.restore import board
from hitl.firmware import firmware
from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import CheckpointError
from rtsim.engine.checkpoint.file import Checkpoint, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

UNTIL = 0.5
NAME = "autopilot"


@pytest.fixture(scope="module")
def image() -> Path:
    need("avr8js")
    return firmware(f16()).path


def scenario_with(controller: ControllerProtocol, allowed: float) -> Scenario:
    scenario = load_scenario("f16", {"case": "13.1", "compute": str(allowed)})
    scenario.replace_controller(NAME, controller)
    return scenario


def flown(scenario: Scenario) -> tuple[Recording, ControllerProtocol]:
    recorder = MemoryRecorder()
    outcome = simulate(scenario, until=UNTIL, recorder=recorder)
    (task,) = (t for t in outcome.system.controllers if t.name == NAME)
    return recorder.recording(), task.controller


def on_board(image: Path, allowed: float, url: str) -> tuple[Recording, BoardController, Scenario]:
    scenario = scenario_with(BoardController(f16(), url=url, firmware=image), allowed)
    recording, controller = flown(scenario)
    assert isinstance(controller, BoardController)
    return recording, controller, scenario


@pytest.mark.long
@pytest.mark.parametrize("allowed", [0.0, 0.015])
def test_two_flights_are_the_same_to_the_cycle(allowed: float, image: Path) -> None:
    one, first, scenario = on_board(image, allowed, "board:uno")
    two, second, _ = on_board(image, allowed, "board:uno")
    assert one.events == []
    assert compare_exact(one, two) is None
    assert first.cycles == second.cycles
    assert first.exchange_ns == second.exchange_ns
    assert len(first.cycles) == (26 if allowed == 0.0 else 25)
    assert compare_exact(one, rerun(one, scenario)) is None
    assert first.board is not None
    assert first.board.double_bytes == 4
    assert 0 < first.stack < 1500
    assert max(first.exchange_ns) <= 1.3 * first.budget.exchange_ns


@with_simavr
def test_both_emulators_agree_on_the_execution(image: Path) -> None:
    one, first, _ = on_board(image, 0.0, "board:uno")
    two, second, _ = on_board(image, 0.0, "board:uno?backend=simavr")
    assert compare_exact(one, two) is None
    assert first.cycles == second.cycles


def test_its_commands_are_those_of_the_host(image: Path) -> None:
    """Bit for bit: floats of 32 bits, and no contraction on either side."""
    board, _, _ = on_board(image, 0.0, "board:uno")
    host, _ = flown(scenario_with(InProcess(f16().path.parent / "f16_control.toml:single"), 0.0))
    commands = [r.track(f"messages/{NAME}").rows.floats for r in (board, host)]
    assert commands[0].tobytes() == commands[1].tobytes()
    assert commands[0].shape == (26, 4)


def test_late_by_its_cycles(image: Path) -> None:
    """3.2 ms of an exchange in 3 ms: every one is late, discarded, and the next is asked for."""
    recording, controller, scenario = on_board(image, 0.003, "board:uno")
    kinds = [e.kind for e in recording.events]
    assert kinds == ["Late", "Discarded"] * 25
    assert len(controller.cycles) == 25
    assert compare_exact(recording, rerun(recording, scenario)) is None


def fly(
    image: Path,
    allowed: float,
    start: Checkpoint | None = None,
    taking: CheckpointSchedule | None = None,
) -> tuple[Recording, list[int]]:
    """The recording, and the cycles of each step."""
    scenario = scenario_with(BoardController(f16(), firmware=image, cases=None), allowed)
    recorder = MemoryRecorder()
    outcome = simulate(scenario, until=0.2, recorder=recorder, start=start, checkpoints=taking)
    controller = outcome.system.controllers[0].controller
    assert isinstance(controller, BoardController)
    return recorder.recording(), list(controller.cycles)


@pytest.mark.sample(1)
@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.parametrize("allowed", [0.0, 0.015], ids=["between requests", "one under way"])
def test_a_board_goes_on_to_the_cycle(allowed: float, image: Path) -> None:
    ring = Ring(10)
    whole, cycles = fly(image, allowed, taking=CheckpointSchedule(ring, at=["0.089"]))
    start = ring.before(10**9)
    assert start is not None
    assert bool(start.state["tasks"]["autopilot"]["request"]) == (allowed > 0.0)
    rest, later = fly(image, allowed, start=start)
    assert rest.digest() == whole.since(start.rows, start.events).digest()
    assert 0 < len(later) < len(cycles)
    assert later == cycles[-len(later) :]


def test_a_board_is_met_again_as_it_is_described() -> None:
    about = BoardController(f16(), url="board:uno?backend=simavr").describe()
    again = board(about, {})
    assert (again.url, again.paced) == ("board:uno?backend=simavr", False)
    assert again.interface.describe() == f16().describe()
    with pytest.raises(CheckpointError, match="ran in real time, and its clock cannot be set back"):
        board({**about, "paced": True}, {})
