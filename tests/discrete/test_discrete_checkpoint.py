"""Processes cannot be saved: they are run again, and come to what they were."""

from __future__ import annotations

import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from semantics_parts import INTEGRATOR, law_of

from rtsim.core.errors import CheckpointError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.discrete import Agenda, Processes
from rtsim.discrete.task import Stimuli
from rtsim.engine.checkpoint.file import Checkpoint, Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.models.ball import BALL
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

Steps = Generator[Any, Any, None]
AT = ["0.31", "0.5", "0.777", "1.4"]


def rich(other: bool = False) -> Scenario:
    """Own events, drawn; messages at step 0 and later; crossings; inputs and a parameter change."""

    def setup(agenda: Agenda) -> None:
        total = [0.0]

        def own() -> Steps:
            while True:
                draw = random.random() if other else agenda.random("own").random()
                yield agenda.timeout(0.05 * draw)
                total[0] += agenda.read("u") * agenda.read("gain")
                agenda.write(y=total[0])

        def hearing() -> Steps:
            while True:
                got = yield agenda.inbox("law").get()
                total[0] += got["y"]
                yield agenda.timeout(0)
                agenda.send("told", value=total[0])

        def bounced() -> Steps:
            while True:
                yield agenda.crossing("ball.floor")
                total[0] -= 1.0
                agenda.write(y=total[0])
                agenda.record("Heard", total=total[0])

        def regular() -> Steps:
            """At the tags at which the law's message comes, one microstep later."""
            while True:
                yield agenda.timeout(0.1)
                total[0] += 0.25
                agenda.write(y=total[0])

        for process in (own, hearing, bounced, regular):
            agenda.process(process())

    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        s[0] += u[0]
        y[0] = 0.001 * s[0]

    out = Scenario("rich", until=2)
    out.plant("x", INTEGRATOR, step=0.03, inputs={"u": "p.y"})
    out.plant("ball", BALL, step=0.1, states={"height": 0.05})
    out.controller("law", law_of(law), period=0.1, inputs={"u": "x.x"})
    processes = Processes(
        setup, inputs=Signals("u [1]"), outputs=Signals("y [1]"),
        parameters=Signals("gain = 1"), messages={"told": Signals("value [1]")},
    )  # fmt: skip
    out.processes("p", processes, inputs={"u": "x.x"}, on=("law", "ball.floor"))
    out.at(0.6, "p.gain", -0.5)
    return out


def cut(folder: Path, other: bool = False) -> Recording:
    recorder = MemoryRecorder()
    taking = CheckpointSchedule(Files(folder / "run.mcap"), at=AT)
    simulate(rich(other), seed=5, recorder=recorder, checkpoints=taking)
    return recorder.recording()


def go_on(checkpoint: Checkpoint, other: bool = False) -> Recording:
    recorder = MemoryRecorder()
    simulate(rich(other), seed=77, recorder=recorder, start=checkpoint)
    return recorder.recording()


@pytest.mark.rule("processes-run-again")
def test_what_goes_on_is_the_whole_run_bit_for_bit(tmp_path: Path) -> None:
    whole = cut(tmp_path)
    checkpoints = [Checkpoint.open(path) for path in sorted(tmp_path.glob("*.checkpoint"))]
    assert len(checkpoints) == len(AT)
    assert {e.kind for e in whole.events} == {"Crossed", "Stopped", "Heard", "Change"}
    for checkpoint in checkpoints:
        rest = whole.since(checkpoint.rows, checkpoint.events)
        again = go_on(checkpoint)
        assert again.digest() == rest.digest()
        assert again.events == rest.events


def test_it_goes_on_from_what_went_on(tmp_path: Path) -> None:
    whole = cut(tmp_path)
    first = Checkpoint.open(min(tmp_path.glob("*.checkpoint")))
    ring = Ring(100)
    simulate(rich(), seed=9, start=first, checkpoints=CheckpointSchedule(ring, at=["1.7"]))
    second = ring.before(2_000_000_000)
    assert second is not None
    assert go_on(second).digest() == whole.since(second.rows, second.events).digest()


@pytest.mark.rule("processes-run-again")
def test_what_draws_from_elsewhere_cannot_be_gone_on_from_and_says_so(tmp_path: Path) -> None:
    cut(tmp_path, other=True)
    checkpoint = Checkpoint.open(max(tmp_path.glob("*.checkpoint")))
    with pytest.raises(CheckpointError, match="their state differs from the saved state"):
        go_on(checkpoint, other=True)


@pytest.mark.parametrize("left_out", ["rows", "values"])
def test_a_state_that_is_not_whole_is_refused(left_out: str, tmp_path: Path) -> None:
    cut(tmp_path)
    checkpoint = Checkpoint.open(max(tmp_path.glob("*.checkpoint")))
    stimuli = checkpoint.state["tasks"]["p"]["stimuli"]
    stimuli[left_out] = stimuli[left_out][:-3]
    with pytest.raises(CheckpointError):
        go_on(checkpoint)


def test_more_than_there_is_room_for_is_not_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.discrete.task.MOST_BYTES", 1000)
    cut(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be restored: its inputs and messages before"):
        go_on(Checkpoint.open(max(tmp_path.glob("*.checkpoint"))))


def test_stimuli_come_back_in_their_order() -> None:
    stimuli = Stimuli(["a", "b.c"], {"a": 2}, 1)
    stimuli.sampled(Tag(3), np.array([7.0]))
    stimuli.heard(Tag(3, 1), "b.c", None)
    stimuli.heard(Tag(4), "a", np.array([1.0, 2.0]))
    back = Stimuli(["a", "b.c"], {"a": 2}, 1)
    back.restore(stimuli.save(), "p")
    assert [(tag, name, values.tolist()) for tag, name, values in back] == [
        (Tag(3), None, [7.0]), (Tag(3, 1), "b.c", []), (Tag(4), "a", [1.0, 2.0]),
    ]  # fmt: skip
