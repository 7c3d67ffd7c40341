"""A program on the wall clock: the same controller in a run with a pace."""

from __future__ import annotations

import select
import sys

import numpy as np
import pytest
from program_runs import Compile, Make, events, loop_with

import rtsim as rt
from hitl.programs import ProgramError
from hitl.programs.real_process import RealProcess
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.tag import Tag
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun

pytestmark = pytest.mark.realtime


@pytest.mark.parametrize("answer", ["latest", "awaited"])
def test_the_same_program_paced(program: Make, answer: str) -> None:
    controller = program("plain", clock="real", boot=1.0, answer=answer)
    loop = loop_with(controller, 0.005, late="hold")
    result = rt.simulate(loop, until=0.5, pace=1.0)
    messages = result.recording().messages["node"]
    assert messages["twice"].max() == 6.0
    assert np.all(np.diff(messages["count"]) >= 0)
    assert messages["count"][-1] >= 3
    assert compare_exact(result.recording(), rerun(result.recording(), loop)) is None


def test_an_answer_that_has_arrived_is_taken_without_a_wait(program: Make) -> None:
    controller = program("plain", clock="real", boot=1.0, answer="awaited").fresh()
    try:
        controller.send(Tag(0), np.array([3.0, 1.0]))
        process = controller.process
        assert isinstance(process, RealProcess)
        assert select.select(process._ports, [], [], 60.0)[0]
        answer = controller.receive(Tag(0), 0.0)
        assert answer is not None
        assert answer[0] == 6.0
    finally:
        controller.close()


def test_a_run_without_a_pace(program: Make) -> None:
    with pytest.raises(ScenarioError, match="node runs on the wall clock, but the run is as fast"):
        rt.simulate(loop_with(program("plain", clock="real", boot=0.0)))


def test_a_program_that_dies(program: Make) -> None:
    loop = loop_with(program("dies", "2", clock="real", boot=1.0), 0.005)
    with pytest.raises(ControllerError, match="answers has ended with exit status 3"):
        rt.simulate(loop, until=5, pace=1.0)
    loop = loop_with(program("dies", "2", clock="real", boot=1.0), 0.005, failure="restart")
    recording = rt.simulate(loop, until=1, pace=1.0).recording()
    assert len(events(recording, "Restarted")) >= 1
    assert compare_exact(recording, rerun(recording, loop)) is None


def test_programs_that_cannot_be_started(compiled_program: Compile) -> None:
    path = compiled_program("answers.c")
    first = RealProcess([path, "plain"], [5000])
    try:
        with pytest.raises(ProgramError, match="UDP port 5000, to which answers sends, cannot be"):
            RealProcess([path, "plain"], [5000])
    finally:
        first.close()
    with pytest.raises(ProgramError, match="does not exist; give the path of a program"):
        RealProcess(["./nothing"])


def test_a_system_without_virtual_time(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ProgramError, match=r"darwin on .*; give clock='real', and run with --pace"):
        program("plain").fresh()
