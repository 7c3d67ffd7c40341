"""Faults started and cleared by command, and checkpoints that a command asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_parts import Flown, Told

from rtsim.engine.checkpoint.file import Checkpoint, Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import NEXT_TAG
from rtsim.models import unstable
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

MS = 1_000_000
NEVER_BY_ITSELF = 1000
KINDS: list[dict[str, Any]] = [
    {"where": "controller.x", "kind": "offset", "amount": 0.1},
    {"where": "controller", "kind": "drop"},
    {"where": "plant.force", "kind": "noise", "deviation": 0.3},
    {"where": "plant.force", "kind": "scale", "factor": 0.5, "duration": 0.25},
    {"where": "plant.force", "kind": "stuck", "when": "plant.x > 1000"},
    {"where": "controller.x", "kind": "noise", "deviation": 0.01, "count": 2},
]


def scenario(*faults: dict[str, Any]) -> Scenario:
    """A controller of 100 ms whose commands are 30 ms under way; steps of 10 ms for 2 s."""
    out = unstable.scenario(latency=0.03, until=2)
    out.faults(*faults)
    return out


def same(a: Recording, b: Recording) -> bool:
    return compare(a, b).ok


def told(do: str, name: str = "f") -> Told:
    return {"kind": "fault", "name": name, "do": do}


def marks(recording: Recording) -> list[tuple[str, int]]:
    return [(e.kind, e.tag.ns // MS) for e in recording.events if e.kind.startswith("Fault")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k['kind']}-{k['where']}")
def test_a_fault_acts_from_start_to_clear_and_again_in_the_replay(kind: dict[str, Any]) -> None:
    fault = {"name": "f", "at": NEVER_BY_ITSELF, **kind}
    plain = Flown(scenario(fault), {})
    assert marks(plain.recording) == []
    flown = Flown(scenario(fault), {495 * MS: [told("start")], 1205 * MS: [told("clear")]})
    assert [wrong for _, wrong, _ in flown.answers] == ["", ""]
    found = marks(flown.recording)
    assert [what for what, _ in found] == ["Fault", "FaultEnded"]
    assert 500 <= found[0][1] <= 600
    lasts = found[1][1] - found[0][1]
    if "duration" in kind:
        assert lasts == 250
    elif "count" not in kind:
        assert 1205 <= found[1][1] <= 1350, "it is over at the next item after it was cleared"
    assert not same(plain.recording, flown.recording)
    assert same(rerun(flown.recording, scenario(fault)), flown.recording)


def test_a_fault_that_was_cleared_stays_so_until_it_is_started() -> None:
    fault = {"name": "f", "where": "controller", "kind": "drop", "every": 0.3, "count": 1}
    by_itself = marks(Flown(scenario(fault), {}).recording)
    assert [at for _, at in by_itself] == [300, 600, 900, 1200, 1500, 1800]
    flown = Flown(scenario(fault), {450 * MS: [told("clear")], 1350 * MS: [told("start")]})
    assert [at for _, at in marks(flown.recording)] == [300, 1400, 1500, 1800]


def test_start_and_clear_in_one_instant_come_to_nothing() -> None:
    fault = {"name": "f", "at": NEVER_BY_ITSELF, "where": "plant.force", "kind": "nan"}
    flown = Flown(scenario(fault), {500 * MS: [told("start"), told("clear")]})
    assert flown.error is None
    assert marks(flown.recording) == []


def test_faults_that_cannot_be_started_are_refused() -> None:
    fault = {"name": "f", "where": "controller", "kind": "drop", "at": 1}
    idle = {"name": "line", "where": "controller.to_board", "kind": "bit_flip", "at": 1}
    flown = Flown(scenario(fault, idle), {200 * MS: [told("start", "g"), told("start", "line")]})
    assert "unknown fault 'g'" in flown.answers[0][1]
    assert "no line here" in flown.answers[1][1]
    without = Flown(scenario(), {200 * MS: [told("start")]})
    assert "--faults FILE" in without.answers[0][1]
    standing = Flown(scenario(fault), {200 * MS: [{"kind": "pause"}]}, [told("clear", "g")])
    assert ("unknown fault", NEXT_TAG) in [(w[:13], ns) for _, w, ns in standing.answers]


def test_a_run_goes_on_from_a_checkpoint_with_faults_that_commands_began() -> None:
    faults = [{"name": f"f{k}", "at": NEVER_BY_ITSELF, **kind} for k, kind in enumerate(KINDS)]
    ring = Ring(10)
    orders = [told("start", f["name"]) for f in faults]
    flown = Flown(
        scenario(*faults), {495 * MS: orders, 905 * MS: [told("clear", "f0")]},
        checkpoints=CheckpointSchedule(ring, every=0.13),
    )  # fmt: skip
    assert len(ring) > 10
    for start in ring._kept:
        again = rerun(flown.recording, scenario(*faults), start=start)
        assert marks(again) == [m for m in marks(flown.recording) if m[1] * MS > start.ns]
        for name, rows in start.rows.items():
            whole, rest = flown.recording.rows(name).floats[rows:], again.rows(name).floats
            assert rest.shape == whole.shape
            assert rest.tobytes() == whole.tobytes()


def test_a_command_keeps_a_checkpoint_of_its_tag_and_changes_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path / "run.mcap")
    flown = Flown(
        scenario(), {300 * MS: [{"kind": "checkpoint"}, {"kind": "checkpoint"}]},
        checkpoints=CheckpointSchedule(files),
    )  # fmt: skip
    ((_, wrong, ns), _) = flown.answers
    assert wrong == ""
    (path,) = files.paths
    assert Checkpoint.open(path).ns == ns
    assert same(flown.recording, Flown(scenario(), {}).recording)
    recorder = MemoryRecorder()
    outcome = simulate(scenario(), start=Checkpoint.open(path), recorder=recorder)
    assert outcome.began.ns == ns
    last = flown.recording.rows("plant").floats[-1].tobytes()
    assert recorder.recording().rows("plant").floats[-1].tobytes() == last


def test_while_time_stands_a_checkpoint_is_written_at_once(tmp_path: Path) -> None:
    files = Files(tmp_path / "run.mcap")
    seen: list[int] = []

    class Watched(CheckpointSchedule):
        def write(self) -> None:
            super().write()
            seen.append(len(files.paths))

    flown = Flown(
        scenario(), {300 * MS: [{"kind": "pause"}]}, [{"kind": "checkpoint"}],
        checkpoints=Watched(files),
    )  # fmt: skip
    assert seen == [1]
    paused = next(ns for ns, kind in flown.events if kind == "pause")
    assert Checkpoint.open(files.paths[0]).ns == paused


def test_a_run_without_a_recording_keeps_none() -> None:
    flown = Flown(scenario(), {300 * MS: [{"kind": "checkpoint"}]})
    ((_, wrong, _),) = flown.answers
    assert "stored next to a recording, and this run writes no recording" in wrong
