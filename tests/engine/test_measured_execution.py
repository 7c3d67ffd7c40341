"""Tasks of processors whose jobs take the execution times that a recorded run measured."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from stamped_parts import Brake, Cart, Stamping

import rtsim as rt
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.prepared import prepare
from rtsim.runs.replay import changed_since, rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.schedules import Segment
from rtsim.schedules.response_times import analyse
from rtsim.testing.determinism import check_determinism, trace_of

MS = 1_000_000
TOOK = (3 * MS, MS, 2 * MS + 1)
"""Execution times of the recorded steps, ns."""


def board_run(path: Path, took: Sequence[int] = TOOK) -> Path:
    """Record a run whose controller ``law`` measured the times ``took``, ns, of its steps."""
    out = Scenario("stamped")
    out.controller("law", Stamping(took), period=0.1, inputs={"x": 0.0}, compute=0.01)
    simulate(out, recorder=FileRecorder(path), until=0.1 * (len(took) - 1) + 0.01)
    return path


def scenario(execution: str, speed: float = 1.0, until: float = 0.8) -> Scenario:
    loop = Scenario("measured", until=until)
    loop.processor("mcu", speed=speed)
    cart = loop.plant(Cart(), step=0.01)
    law = loop.controller("law", Brake(), period=0.1, processor="mcu", execution=execution)
    loop.connect(cart, law)
    loop.task("logger", "mcu", period=0.07, execution=0.004, priority=-1)
    return loop


def executed(recording: Recording, task: str = "law") -> list[int]:
    return [int(ns) for ns in recording.track(f"jobs/{task}").integer("executed")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"from:{board_run(tmp_path_factory.mktemp('board') / 'board.mcap')}"


def test_jobs_take_the_measured_times_in_turn_and_begin_again(run: str) -> None:
    found = executed(trace_of(scenario(run)))
    assert found == [*TOOK, *TOOK, *TOOK[:2]]


def test_the_speed_scales_the_measured_times(run: str) -> None:
    found = executed(trace_of(scenario(run, speed=2.0)))
    assert found[:3] == [1_500_000, 500_000, MS]  # 1,000,000.5 ns is rounded to even


def test_a_task_names_the_controller_whose_times_it_takes(run: str) -> None:
    loop = scenario("0.001")
    loop.task("other", "mcu", period=0.2, execution=f"{run}:law")
    assert executed(trace_of(loop), "other")[:3] == list(TOOK)


def test_a_segment_can_take_measured_times() -> None:
    loop = Scenario("parts", until=0.3)
    loop.processor("mcu")
    parts = [Segment(rt.InTurn(TOOK)), Segment(rt.Fixed(0.001))]
    loop.task("parts", "mcu", period=0.1, segments=parts)
    assert executed(trace_of(loop), "parts") == [ns + MS for ns in TOOK]


def test_runs_are_equal_and_each_run_begins_with_the_first_time(run: str) -> None:
    loop = scenario(run)
    assert executed(trace_of(loop)) == executed(trace_of(loop))
    check_determinism(lambda: scenario(run))


def test_a_run_continues_from_each_checkpoint_at_the_next_measured_time(run: str) -> None:
    recorder, ring = MemoryRecorder(), Ring(100)
    simulate(scenario(run), recorder=recorder, checkpoints=CheckpointSchedule(ring, every=0.13))
    positions = set()
    for checkpoint in list(ring._kept)[:-1]:
        rest = trace_of(scenario(run), start=checkpoint)
        wanted = recorder.recording().since(checkpoint.rows, checkpoint.events)
        assert compare_exact(wanted, rest) is None, checkpoint.tag
        models = checkpoint.state["processors"]["mcu"]["models"]
        positions |= {model["position"] for model in models if model}
    assert positions == {0, 1, 2}


FILE = """
import rtsim as rt
from stamped_parts import Brake, Cart

def scenario(execution="from:board.mcap"):
    loop = rt.Scenario("measured", until=0.8)
    loop.processor("mcu")
    cart = loop.plant(Cart(), step=0.01)
    law = loop.controller("law", Brake(), period=0.1, processor="mcu", execution=execution)
    loop.connect(cart, law)
    return loop
"""


def test_a_replay_needs_only_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    board_run(tmp_path / "board.mcap")
    (tmp_path / "measured.py").write_text(FILE)
    simulate(load_scenario("measured.py"), recorder=FileRecorder("run.mcap"))
    recording = Recording.open("run.mcap")
    assert recording.header["scenario"]["origin"]["executions"] == {
        "from:board.mcap:law": list(TOOK)
    }
    (tmp_path / "board.mcap").unlink()
    assert compare_exact(recording, rerun(recording)) is None
    with pytest.raises(RecordingError, match=r"board\.mcap"):
        load_scenario("measured.py")


def test_a_replay_with_other_measured_times_names_the_task(tmp_path: Path) -> None:
    text = f"from:{board_run(tmp_path / 'board.mcap')}"
    recording = trace_of(scenario(text))
    board_run(tmp_path / "new.mcap", (MS, MS))
    shutil.move(tmp_path / "new.mcap", tmp_path / "board.mcap")
    (said,) = changed_since(recording.header, scenario(text))
    assert said.startswith("law.execution: InTurn(3 samples")


def test_the_analysis_takes_the_longest_measured_time(run: str) -> None:
    system = scenario(run).build(0)
    law = next(one for one in analyse(system.processors[0]) if one.name == "law")
    assert (law.execution.shortest, law.execution.longest) == (MS, 3 * MS)
    assert law.response == 3 * MS + 4 * MS  # the logger runs first


@pytest.mark.parametrize(
    ("execution", "error", "said"),
    [
        ("from:", ScenarioError, "type from:live.mcap"),
        ("from:missing.mcap", RecordingError, "missing.mcap"),
        ("{run}:autopilot", RecordingError, "of law, but not of autopilot"),
    ],
)
def test_an_unknown_source_of_times_is_an_error(
    run: str, execution: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        scenario(execution.format(run=run))


def test_a_controller_whose_steps_took_no_time_is_an_error(tmp_path: Path) -> None:
    path = board_run(tmp_path / "board.mcap", (0, 0, 0))
    with pytest.raises(RecordingError, match="no usable execution times of law"):
        scenario(f"from:{path}")


def test_a_recording_with_malformed_times_is_refused() -> None:
    recording = trace_of(scenario("0.001"))
    origin = {"reference": "f16", "executions": {"from:board.mcap:law": "fast"}}
    recording.header["scenario"]["origin"] = origin
    with pytest.raises(RecordingError, match="malformed execution times"):
        rerun(recording)


def test_times_that_were_replaced_are_not_kept(run: str) -> None:
    loop = scenario(run)
    loop.set("law.execution", 0.002)
    assert "executions" not in loop.describe()["origin"]
    assert set(np.unique(executed(trace_of(loop)))) == {2 * MS}


def test_prepared_runs_begin_with_the_first_time(run: str) -> None:
    prepared = prepare(scenario(run))
    for _ in range(3):
        recording = prepared.run(until=0.4).recording()
        assert executed(recording)[:3] == list(TOOK)
