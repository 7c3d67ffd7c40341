"""Faults at a program and at its packets: each policy acts, and everything is counted."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program_runs import Make, events, loop_with

import rtsim as rt
from hitl.programs.started import ProgramStopped
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.tag import Tag
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun

_AT_TICK_2 = {"at": 0.02, "until": 0.025}
"""Both packets of the tick at 0.02 s: sample and radio."""


def _loop(
    program: Make, *faults: dict[str, Any], mode: str = "plain", **options: Any
) -> rt.Scenario:
    loop = loop_with(program(*mode.split()), **options)
    for k, fault in enumerate(faults):
        loop.faults({"name": f"f{k}", "where": "node.to_program", **fault})
    return loop


def _replayed(loop: rt.Scenario, until: float = 0.06) -> Recording:
    """Return the recording of a run, after a check of its replay and of a second run."""
    recording = rt.simulate(loop, until=until).recording()
    again = rerun(recording, loop)
    assert compare_exact(recording, again) is None
    kinds = ("Fault", "FaultEnded", "Failed", "Restarted")
    assert events(again, *kinds) == events(recording, *kinds)
    assert rt.simulate(loop, until=until).recording().digest() == recording.digest()
    return recording


@pytest.mark.parametrize(
    ("fault", "counts"),
    [
        ({"kind": "drop", **_AT_TICK_2}, [1, 2, 2, 3, 4, 5]),
        ({"kind": "burst", "at": 0.02, "length": 3}, [1, 2, 2, 2, 3, 4]),
        ({"kind": "duplicate", **_AT_TICK_2, "gap": 0.0005}, [1, 2, 4, 5, 6, 7]),
        ({"kind": "delay", **_AT_TICK_2, "delay": 0.005}, [1, 2, 2, 4, 5, 6]),
        ({"kind": "reorder", **_AT_TICK_2, "extra": 0.0145}, [1, 2, 2, 3, 5, 6]),
    ],
)
def test_packets_to_the_program(program: Make, fault: dict[str, Any], counts: list[int]) -> None:
    recording = _replayed(_loop(program, fault))
    messages = recording.messages["node"]
    assert messages["count"].tolist() == counts
    assert len(events(recording, "Fault")) == 1
    assert messages["unanswered"][-1] == len(counts) - len(set(counts))


def test_a_delayed_packet_is_not_overtaken_and_a_reordered_one_is(program: Make) -> None:
    slow = {**_AT_TICK_2, "delay": 0.0105}
    delayed = _replayed(_loop(program, {"kind": "delay", **slow})).messages["node"]
    assert delayed["echo"].tolist() == [0, 0.01, 0.01, 0.03, 0.04, 0.05]
    swapped = {"kind": "reorder", **_AT_TICK_2, "extra": 0.0105}
    reordered = _replayed(_loop(program, swapped)).messages["node"]
    assert reordered["echo"].tolist() == [0, 0.01, 0.01, 0.02, 0.04, 0.05]  # 0.03 came before 0.02


def test_packets_from_the_program(program: Make) -> None:
    lost = {"where": "node.from_program", "kind": "drop", **_AT_TICK_2}
    messages = _replayed(_loop(program, lost)).messages["node"]
    assert messages["count"].tolist() == [1, 2, 2, 4, 5, 6]
    assert messages["unanswered"].tolist() == [0, 0, 1, 1, 1, 1]
    late = {"where": "node.from_program", "kind": "delay", **_AT_TICK_2, "delay": 0.003}
    assert _replayed(_loop(program, late)).messages["node"]["count"].tolist() == [1, 2, 2, 4, 5, 6]


def test_a_lost_answer_that_is_awaited_is_late(program: Make) -> None:
    loop = loop_with(program("plain", answer="awaited"), late="hold")
    loop.faults({"name": "f", "where": "node.from_program", "kind": "drop", **_AT_TICK_2})
    recording = _replayed(loop)
    assert len(events(recording, "Late")) == 1
    late = {"name": "f", "where": "node.from_program", "kind": "delay", **_AT_TICK_2}
    loop = loop_with(program("plain", answer="awaited"), late="fail")
    loop.faults({**late, "delay": 0.0005})  # arrives before the answer is due
    assert _replayed(loop).messages["node"]["count"].tolist() == [1, 2, 3, 4, 5, 6]


def test_one_packet_of_twenty_in_both_directions(program: Make) -> None:
    kinds: list[dict[str, Any]] = [
        {"kind": "drop"}, {"kind": "duplicate", "gap": 0.002}, {"kind": "delay", "delay": 0.02},
        {"kind": "reorder", "extra": 0.03},
    ]  # fmt: skip
    ends = ("node.to_program", "node.from_program")
    faults = [{**kind, "where": end, "probability": 0.05} for kind in kinds for end in ends]
    loop = _loop(program, *faults)
    recording = _replayed(loop, until=1)
    assert len(recording.messages["node"]["count"]) == 100
    fired = Counter(event.source for event in recording.events if event.kind == "Fault")
    assert len(fired) == 8
    assert 30 <= sum(fired.values()) <= 90  # 5 % of 4 * 150 packets and of 4 * 100 answers


def test_a_fault_at_a_place_that_the_controller_does_not_have(program: Make) -> None:
    result = rt.simulate(_loop(program, {"where": "node.to_board", "kind": "silence"}))
    assert result.system.faults is not None
    assert result.system.faults.idle == {
        "f0": "node has no line here: silence acts on a board's bytes"
    }
    with pytest.raises(ScenarioError, match=r"or on packets: where = 'node.to_program'"):
        _loop(program, {"where": "node.upwards", "kind": "drop"})


@pytest.mark.parametrize(
    ("kind", "said"), [("kill", "was ended by SIGKILL"), ("stop", r"was stopped \(SIGSTOP")]
)
def test_a_program_that_is_killed_or_stopped(program: Make, kind: str, said: str) -> None:
    fault = {"where": "node.program", "kind": kind, "at": 0.02}
    with pytest.raises(ControllerError, match=said) as raised:
        rt.simulate(_loop(program, fault))
    assert raised.value.environment
    held = _replayed(_loop(program, fault, failure="hold"))
    assert held.messages["node"]["count"].tolist() == [1, 2]
    assert len(events(held, "Missed")) == 4
    again = _loop(program, fault, failure="restart")
    recording = _replayed(again)
    assert events(recording, "Restarted") == ["node is started again (restart 1)"]
    assert recording.messages["node"]["count"].tolist() == [1, 2, 1, 2, 3]
    assert recording.messages["node"]["echo"].tolist() == [0, 0.01, 0.03, 0.04, 0.05]
    clock = recording.messages["node"]["clock"][2]  # of the new process, from 0.021 s on
    assert clock == pytest.approx(0.009, abs=1e-5)
    assert "restarts of controllers: 1" in rt.simulate(again).warnings


def test_a_program_that_crashes_again_and_again(program: Make, tmp_path: Path) -> None:
    loop = _loop(program, mode="dies 1", failure="restart")
    with FileRecorder(tmp_path / "run.mcap") as recorder:
        result = rt.simulate(loop, recorder=recorder)
    recording = Recording.open(tmp_path / "run.mcap")
    assert len(events(recording, "Failed")) == len(events(recording, "Restarted")) == 3
    assert recording.messages["node"]["count"].tolist() == [1, 1, 1]
    assert result.missed == 0
    assert recording.footer is not None
    output = tmp_path / "run.mcap.files" / "node" / "output.txt"
    assert output.read_text() == 3 * "mode dies\n"  # the fourth has not run
    assert compare_exact(recording, rerun(recording, loop)) is None


@pytest.mark.live
def test_a_program_that_computes_for_ever(program: Make) -> None:
    loop = loop_with(program("hangs", "3", patience=0.5), failure="restart")
    recording = rt.simulate(loop).recording()
    (failed,) = events(recording, "Failed")
    assert "answers has not used its time within 0.5 s: a thread computes" in failed
    assert recording.messages["node"]["count"].tolist() == [1, 2, 3, 1, 2]
    assert compare_exact(recording, rerun(recording, loop)) is None


def test_a_signal_from_outside_stops_the_program(program: Make) -> None:
    controller = program("plain", patience=0.5).fresh()
    try:
        assert controller.process is not None
        os.kill(controller.process._running.pid, signal.SIGSTOP)
        controller.send(Tag(0, 0), np.array([1.0, 1.0]))
        with pytest.raises(
            ProgramStopped, match=r"was stopped \(SIGSTOP, or a debugger\), after 1 s"
        ):
            controller.receive(Tag(0, 0), 0.001)
    finally:
        controller.close()


def test_a_controller_that_cannot_be_started_again() -> None:
    from rtsim.models.unstable import scenario

    loop = scenario()
    loop.controller_component("controller", "").failure = "restart"
    with pytest.raises(ScenarioError, match="cannot be started again during a run; give failure"):
        loop.build()
