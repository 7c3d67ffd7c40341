"""Faults at the line of an emulated Uno that flies the F-16: all is counted, nothing is chance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from emulated_board_parts import need
from fault_parts import in_words, told
from protocol_parts import f16

from hitl.controllers.board import BoardController
from hitl.firmware import firmware
from rtsim.core.clock import Clock
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock

NAME = "autopilot"
BYTES: list[dict[str, Any]] = [
    {"name": "flips_out", "where": f"{NAME}.to_board", "kind": "bit_flip",
     "probability": 0.002, "at": 0.1},
    {"name": "flips_in", "where": f"{NAME}.from_board", "kind": "bit_flip",
     "probability": 0.002, "at": 0.1},
    {"name": "lost", "where": f"{NAME}.from_board", "kind": "truncation", "probability": 0.2},
    {"name": "silence", "where": f"{NAME}.from_board", "kind": "silence",
     "at": 0.6, "duration": 0.2},
]  # fmt: skip
RESET = {"name": "reset", "where": f"{NAME}.board", "kind": "board_reset", "at": 1.2345}


@pytest.fixture(scope="module")
def image() -> Path:
    need("avr8js")
    return firmware(f16()).path


def on_board(image: Path, *faults: dict[str, Any]) -> Scenario:
    scenario = load_scenario("f16", {"case": "13.1", "compute": "0.01"})
    board = BoardController(f16(), firmware=image, cases=None)
    scenario.replace_controller(NAME, board, late="hold", failure="hold")
    scenario.faults(*faults)
    return scenario


def fly(scenario: Scenario, until: float, clock: Clock | None = None) -> tuple[Recording, Any]:
    recorder = MemoryRecorder()
    outcome = simulate(scenario, until=until, recorder=recorder, seed=1, clock=clock)
    (task,) = (t for t in outcome.system.controllers if t.name == NAME)
    return recorder.recording(), task


@pytest.mark.parametrize("until", [1.6, pytest.param(60, marks=pytest.mark.full)])
def test_a_flight_whose_line_goes_wrong(image: Path, until: float) -> None:
    """The same at any pace, to the cycle; replayed without the board; each fault is an event."""
    reset = {**RESET, "at": until - 0.3655}
    desk, task = fly(on_board(image, *BYTES, reset), until)
    paced, again = fly(on_board(image, *BYTES, reset), until, FakeClock())
    assert compare_exact(desk, paced) is None
    assert in_words(desk) == in_words(paced)
    assert task.controller.cycles == again.controller.cycles
    replayed = rerun(desk, on_board(image, *BYTES, reset))
    assert compare_exact(desk, replayed) is None
    assert in_words(desk) == in_words(replayed)
    counts = Counter(e.source for e in told(desk, "Fault"))
    assert (counts["silence"], counts["reset"]) == (1, 1)
    assert {"flips_out", "flips_in", "lost"} <= set(counts)
    (over,) = told(desk, "FaultEnded")
    assert over.source == "silence"
    assert over.tag.ns == 800_000_000
    kinds = Counter(e.kind for e in desk.events)
    assert kinds["Late"] == task.lates > 0
    assert kinds["Missed"] == task.missed > 0


def test_a_reset_is_told_with_its_cycle_and_the_policy_acts(image: Path) -> None:
    """In the very ns: 1.2345 s is a whole number of cycles."""
    recording, task = fly(on_board(image, RESET), 1.6)
    (event,) = told(recording)
    assert (event.source, event.tag.ns) == ("reset", 1_234_500_000)
    assert task.failed is not None
    assert "; it was reset by fault 'reset' at 1.2345 s\ninputs: " in task.failed
    failed = [e.tag.ns for e in recording.events if e.kind == "Failed"]
    assert 1_234_500_000 <= failed[0] <= 1_260_000_000
    last = recording.track(f"messages/{NAME}").rows.floats[-1]
    held = recording.track("f16").rows
    names = recording.track("f16").signals.columns
    k = names.index("elevator")
    column = recording.track(f"messages/{NAME}").signals.columns.index("elevator")
    after = held.floats[held.ns > 1_300_000_000][:, k]
    assert set(after.tolist()) == {float(last[column])}


def test_faults_that_never_come_change_nothing(image: Path) -> None:
    """The line with faults in it is the line: to the cycle."""
    never = [{**fault, "at": 100.0} for fault in BYTES[:3]]
    plain, one = fly(on_board(image), 0.3)
    with_line, other = fly(on_board(image, *never), 0.3)
    assert compare_exact(plain, with_line) is None
    assert one.controller.cycles == other.controller.cycles
    assert one.controller.exchange_ns == other.controller.exchange_ns
    assert not with_line.events
