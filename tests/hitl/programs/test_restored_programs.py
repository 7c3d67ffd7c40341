"""Checkpoints of runs with a program: a new process gets the same inputs again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from program_runs import Make, loop_with

import rtsim as rt
from rtsim.core.errors import ControllerError
from rtsim.engine.checkpoint.file import Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.diverging import diverge
from rtsim.runs.diverging.first import parting
from rtsim.runs.replay import to_repeat
from rtsim.runs.simulation import run


def _cut(loop: rt.Scenario, folder: Path) -> tuple[Recording, list[Checkpoint]]:
    """Return the recording of a run, and its checkpoints of each 5 ms."""
    schedule = CheckpointSchedule(Files(folder / "run.mcap"), every="0.005")
    with FileRecorder(folder / "run.mcap") as recorder:
        rt.simulate(loop, recorder=recorder, checkpoints=schedule)
    found = [Checkpoint.open(path) for path in sorted(folder.glob("*.checkpoint"))]
    return Recording.open(folder / "run.mcap"), found


def _counts(recording: Recording) -> list[float]:
    counts: list[float] = recording.messages["node"]["count"].tolist()
    return counts


@pytest.mark.parametrize(
    ("mode", "options", "controller"),
    [
        ("plain", {}, {}),
        ("slow 3000", {}, {}),
        ("slow-once 5000", {"answer": "awaited"}, {"late": "hold"}),
    ],
)
def test_a_run_continues_from_each_checkpoint(
    program: Make, tmp_path: Path, mode: str, options: dict[str, Any], controller: dict[str, Any]
) -> None:
    loop = loop_with(program(*mode.split(), **options), **controller)
    whole, checkpoints = _cut(loop, tmp_path)
    assert len(checkpoints) == 6
    for checkpoint in checkpoints[:5:2]:
        rest = _counts(rt.simulate(loop, start=checkpoint).recording())
        assert rest == _counts(whole)[len(_counts(whole)) - len(rest) :]


def test_a_run_continues_from_a_time_of_its_recording(program: Make, tmp_path: Path) -> None:
    loop = loop_with(program("slow", "300"))
    whole, _ = _cut(loop, tmp_path)
    for path in tmp_path.glob("*.checkpoint"):
        path.unlink()
    start = _moment(whole, loop, 35_000_000)
    assert _counts(rt.simulate(loop, start=start).recording()) == [5, 6]


def test_the_count_of_older_answers_continues(program: Make, tmp_path: Path) -> None:
    loop = loop_with(program("silent", "2"))
    whole, _ = _cut(loop, tmp_path)
    for path in tmp_path.glob("*.checkpoint"):
        path.unlink()
    start = _moment(whole, loop, 35_000_000)
    rest = rt.simulate(loop, start=start).recording().messages["node"]["unanswered"].tolist()
    assert rest == whole.messages["node"]["unanswered"].tolist()[-len(rest) :] == [3, 4]


def test_a_replay_saves_nothing_that_the_run_did_not_save(program: Make, tmp_path: Path) -> None:
    loop = loop_with(program("plain"))
    whole, checkpoints = _cut(loop, tmp_path)
    (saved,) = (c for c in checkpoints if c.tag.ns == 20_000_000)
    assert saved.state["tasks"]["node"]["controller"].keys() > {"waits", "checksum"}
    assert not parting(saved.state, _moment(whole, loop, 20_000_000).state)
    assert diverge(whole, scenarios=(loop, None)).equal


def _moment(recording: Recording, loop: rt.Scenario, ns: int) -> Checkpoint:
    """Return a checkpoint of a replay, which does not run the program."""
    request = to_repeat(recording, loop)
    folder = Path(recording.source).parent / "replayed"
    folder.mkdir()
    schedule = CheckpointSchedule(Files(folder / "run.mcap"), at=[f"{ns}/1000000000"])
    run(replace(request, output=replace(request.output, checkpoints=schedule))).checked()
    (path,) = folder.glob("*.checkpoint")
    return Checkpoint.open(path)


def test_programs_that_cannot_be_restored(program: Make, tmp_path: Path) -> None:
    loop = loop_with(program("silent", "2"))
    _, (*_, last) = _cut(loop, tmp_path)
    with pytest.raises(ControllerError, match="its 7 steps were repeated and gave other answers"):
        rt.simulate(loop_with(program("plain")), start=last, until=0.1)
    loop.faults({"name": "f", "where": "node.to_program", "kind": "drop", "at": 1})
    with pytest.raises(ControllerError, match="faults act on it or its packets; replay the rec"):
        rt.simulate(loop, start=last, until=0.1)
    (tmp_path / "again").mkdir()
    again = loop_with(program("dies", "2"), failure="restart")
    _, (*_, last) = _cut(again, tmp_path / "again")
    with pytest.raises(ControllerError, match=r"started again at 0\.051.*; resume from an earlier"):
        rt.simulate(again, start=last, until=0.1)
    (tmp_path / "awaited").mkdir()
    awaited = loop_with(program("plain", answer="awaited"))
    whole, _ = _cut(awaited, tmp_path / "awaited")
    with pytest.raises(ControllerError, match="a replay does not know how long each answer was"):
        rt.simulate(awaited, start=_moment(whole, awaited, 35_000_000))


def test_a_program_on_the_wall_clock_is_not_restored(program: Make, tmp_path: Path) -> None:
    _, (*_, last) = _cut(loop_with(program("plain")), tmp_path)
    loop = loop_with(program("plain", clock="real"))
    with pytest.raises(ControllerError, match="it runs on the wall clock; replay the recording"):
        rt.simulate(loop, start=last, until=0.1, pace=1.0)
