"""A board in real time: paced in the flight, in lockstep step by step; each by its own clock."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hitl import pitl
from hitl.controllers.board import BoardController, PacedLink
from hitl.firmware import firmware
from hitl.interface import load_interface
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

LAW = {"controller": "firmware/core/unstable_control.toml:single"}
LATENCY, UNTIL, STEPS = 0.05, 1, 11
F16_LAW, F16_UNTIL = "firmware/core/f16_control.toml:single", 3
INTERRUPTS_NS = 9_000
"""Both timer interrupts, 144 cycles: timer 0 (Arduino) overflows every 1.024 ms,
timer 1 (the cycle counter) every 4.096 ms.  In real time they meet a step of 50 us by chance."""
pytestmark = [pytest.mark.realtime, pytest.mark.usefixtures("emulator")]


def test_a_paced_board_is_measured_by_the_wall_and_steps_by_its_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = pitl("unstable", LAW, pace=1.0, latency=LATENCY, until=UNTIL)
    board = result.pairs[-1]
    loop = board.open["controller"]
    assert loop.target is not None
    assert loop.target.exchange is not None
    assert (loop.target.exchange.clock, loop.target.exchange.steps) == ("target clock", STEPS)
    assert board.flight is not None
    target = board.flight.targets["controller"]
    assert target.exchange is not None
    assert target.execution is not None
    assert target.exchange.clock == "modelled by execution, firmware and wire time"
    assert target.execution.clock == "target clock"
    # not when it was due; the execution of an answer that was late counts, its exchange does not
    alone = target.wire_ns + target.budget.handling_ns
    assert target.exchange.max <= alone + target.execution.max
    assert (target.exchange.took_ns == _measured(board.flight.candidate, "controller")).all()
    assert loop.target.execution is not None
    assert target.execution.min >= loop.target.execution.min  # a late answer may be given up
    if not board.flight.late:
        flown = target.execution.took_ns
        more = flown - loop.target.execution.took_ns[: len(flown)]
        assert 0 <= more.min() <= more.max() <= INTERRUPTS_NS
        assert (more == 0).any()
        result.assert_ok()
        assert target.exchange.max == alone + target.execution.max
        assert alone + target.execution.max < LATENCY * 1e9


def test_an_emulator_that_was_stopped_is_told_and_not_taken_for_the_board(tmp_path: Path) -> None:
    """Its process stands still for 0.1 s in the run: the board's time slips."""
    opened: list[PacedLink] = []

    def link() -> PacedLink:
        opened.append(PacedLink("board:uno", image))
        return opened[-1]

    image = firmware(load_interface(LAW["controller"])).path
    controller = BoardController(LAW["controller"], link=link, paced=True, cases=tmp_path).fresh()
    os.kill(opened[0].pid, signal.SIGSTOP)
    try:
        time.sleep(0.1)
    finally:
        os.kill(opened[0].pid, signal.SIGCONT)
    controller.close()
    assert controller.pacing is not None
    assert controller.pacing.slips >= 1
    assert controller.pacing.slipped_ns > 50_000_000
    assert controller.pacing.opened == 1


def test_a_reset_in_real_time_is_made_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flight = load_scenario("unstable", {})
    board = BoardController(LAW["controller"], paced=True, cases=tmp_path)
    flight.replace_controller("controller", board, latency=LATENCY, late="hold", failure="hold")
    where = {"where": "controller.board", "kind": "board_reset"}
    flight.faults({"name": "reset", **where, "at": 0.25})
    recorder = MemoryRecorder()
    outcome = simulate(flight, pace="1.0", until=0.7, recorder=recorder)
    kinds = [e.kind for e in recorder.recording().events]
    assert kinds.count("Fault") == 1
    (task,) = outcome.system.controllers
    assert task.failed is not None
    assert "reset" in task.failed


def _measured(recording: Recording, controller: str) -> NDArray[np.int64]:
    """(k,) ns: what ``--latency from:RUN`` draws from, of the answers that were in time."""
    track = recording.track(f"measured/{controller}")
    about = recording.header["scenario"]["parts"][controller]
    more = int(about["reply_ns"]) + int(about["handling_ns"])
    return track.integer("ended") - track.integer("sent") + more


# -- NASA's F-16


def scenario(paced: bool) -> Scenario:
    """At 50 Hz with 10 ms, where its roll loop is unstable: no difference would stay small."""
    out = load_scenario("f16", {"case": "13.1", "compute": "0.01"})
    out.replace_controller("autopilot", BoardController(F16_LAW, paced=paced))
    return out


def test_the_f16_in_real_time_has_the_trace_of_lockstep_up_to_the_first_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lockstep = trace_of(scenario(paced=False), until=F16_UNTIL)
    assert not lockstep.events
    recorder = MemoryRecorder()
    outcome = simulate(scenario(paced=True), pace="1.0", until=F16_UNTIL, recorder=recorder)
    live = recorder.recording()
    assert outcome.wall_ns >= F16_UNTIL * 1e9, "never ahead of the wall"
    first = min(untimely(live), default=None)
    parted = compare_exact(lockstep, live)
    if first is None:
        assert parted is None
        assert live.digest() == lockstep.digest()
    else:
        assert parted is not None
        assert parted.tag >= first
    assert compare_exact(live, rerun(live, scenario(paced=True))) is None
    kinds = [e.kind for e in live.events]
    assert (kinds.count("Late"), kinds.count("Missed")) == (outcome.late, outcome.missed)
    # The tick at the end has no answer before the end, but it can miss its request.
    missed = sum(e.kind == "Missed" and e.tag.ns < F16_UNTIL * NS_PER_S for e in live.events)
    answered = len(live.track("messages/autopilot")) + outcome.late + missed
    assert answered == len(lockstep.track("messages/autopilot"))
    assert (_measured(live, "autopilot") > 2_600_000).all(), "the wire alone takes that"


def untimely(live: Recording) -> list[Tag]:
    """Of what is not as in lockstep: a Late answer is missing at the tag of its request."""
    late = [e for e in live.events if e.kind == "Late"]
    missed = [e.tag for e in live.events if e.kind == "Missed"]
    return [Tag(e.tag.ns - int(e.values["allowed"])) for e in late] + missed
