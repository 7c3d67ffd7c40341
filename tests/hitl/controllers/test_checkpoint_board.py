"""A flight by an emulated board goes on from a checkpoint: the board is fed what it was asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from protocol_parts import f16
from test_board_flight import image, scenario_with

from hitl.controllers.board import BoardController
from hitl.controllers.restore import board
from rtsim.core.errors import CheckpointError
from rtsim.engine.checkpoint.file import Checkpoint, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate

__all__ = ["image"]


def flown(
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


@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.parametrize("allowed", [0.0, 0.015], ids=["between requests", "one under way"])
def test_a_board_goes_on_to_the_cycle(allowed: float, image: Path) -> None:
    ring = Ring(10)
    whole, cycles = flown(image, allowed, taking=CheckpointSchedule(ring, at=["0.089"]))
    start = ring.before(10**9)
    assert start is not None
    assert bool(start.state["tasks"]["autopilot"]["request"]) == (allowed > 0.0)
    rest, later = flown(image, allowed, start=start)
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
