"""The request of a run is checked when it is made and can be used again; the result says all."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest

from rtsim.core.errors import CheckpointError, RecordingError, ScenarioError
from rtsim.engine.checkpoint.file import Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs import run, simulate
from rtsim.runs.request import ConnectionKeywords, Connections, Output, Pace, Progress, RunRequest
from rtsim.runs.result import RecordingLost
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario


@pytest.fixture
def scenario() -> Scenario:
    return load_scenario("unstable", {"latency": "0.03"})


# -- the request


def test_the_connections_of_a_request_are_the_keywords_of_simulate() -> None:
    assert [f.name for f in fields(Connections)] == [*ConnectionKeywords.__annotations__]


@pytest.mark.parametrize("until", [0, -1.0, "0"])
def test_a_run_lasts_longer_than_nothing(scenario: Scenario, until: float | str) -> None:
    with pytest.raises(ScenarioError, match="must last longer than 0 s"):
        RunRequest(scenario, until=until)


def test_a_seed_is_not_negative_and_an_engine_is_known(scenario: Scenario) -> None:
    with pytest.raises(ScenarioError, match="seed is -1; give a whole number >= 0"):
        RunRequest(scenario, seed=-1)
    with pytest.raises(ScenarioError, match="'fast'; give one of auto, compiled, interpreted"):
        RunRequest(scenario, engine="fast")


def test_an_output_knows_two_ways_to_go_on_without_its_recording() -> None:
    with pytest.raises(ScenarioError, match="give one of continue, end"):
        Output(on_recorder_death="stop")


def test_a_checkpoint_at_the_end_leaves_nothing_to_run(scenario: Scenario) -> None:
    ring = Ring(1)
    simulate(scenario, until=0.2, checkpoints=CheckpointSchedule(ring, at=["0.1"]), compile=False)
    start = ring.before(200_000_000)
    assert start is not None
    assert RunRequest(scenario, until="0.100000001", start=start).until_ns == start.ns + 1
    with pytest.raises(CheckpointError, match="there is nothing left to run"):
        RunRequest(scenario, until="0.1", start=start)


def test_one_request_serves_several_runs(scenario: Scenario) -> None:
    request = RunRequest(scenario, until=0.2, compile=False)
    silent = [run(request) for _ in range(2)]
    assert [result.ended.ns for result in silent] == [200_000_000] * 2
    digests = [run(request.into(MemoryRecorder())).recording().digest() for _ in range(2)]
    other = run(replace(request, until=0.1).into(MemoryRecorder())).recording().digest()
    assert digests[0] == digests[1] != other
    assert request.output.recorder is None


def test_another_recorder_keeps_how_a_lost_recording_is_met(scenario: Scenario) -> None:
    request = RunRequest(scenario, output=Output(on_recorder_death="end"))
    assert request.into(MemoryRecorder()).output.on_recorder_death == "end"


def test_a_pace_is_its_own_pace() -> None:
    pace = Pace(2.0)
    assert Pace.of(pace) is pace
    assert (Pace.of("max").rate, Pace.of("0.5").rate, Pace.of(3).rate) == (None, 0.5, 3.0)
    third = Pace.of("1/3")
    assert (third.rate, str(third), Pace.of(Fraction(1, 3))) == (Fraction(1, 3), "1/3", third)
    assert third.clock().rate == Fraction(1, 3)  # type: ignore[attr-defined]
    assert str(Pace.of("3600")) == "3600"
    for wrong in ("fast", "1/x", "1/0", "1/2/3"):
        with pytest.raises(ScenarioError, match=r"a rate such as 1\.0, 0\.25, 1/3"):
            Pace.of(wrong)


# -- the result


def test_a_result_gives_what_was_recorded(scenario: Scenario, tmp_path: Path) -> None:
    kept = simulate(scenario, until=0.1, recorder=MemoryRecorder(), compile=False)
    with FileRecorder(tmp_path / "run.mcap") as recorder:
        taking = CheckpointSchedule(Files(tmp_path / "run.mcap"), at=["0.05"])
        filed = simulate(scenario, until=0.1, recorder=recorder, compile=False, checkpoints=taking)
    assert kept.path is None
    assert filed.path == tmp_path / "run.mcap"
    assert kept.recording().digest() == filed.recording().digest()
    assert [path.name for path in filed.checkpoints] == ["run@0.050.checkpoint"]
    assert filed.segments == (filed,)
    with pytest.raises(RecordingError, match="was not recorded"):
        simulate(scenario, until=0.1, compile=False, record=False).recording()


def test_an_error_that_ends_a_run_is_in_its_result_and_raised_by_checked(
    scenario: Scenario,
) -> None:
    def breaks(progress: Progress) -> None:
        if progress.ns > 50_000_000:
            raise ScenarioError("enough")

    live = Connections(observe=breaks)
    request = RunRequest(scenario, until=0.1, compile=False, live=live).into(MemoryRecorder())
    result = run(request)
    assert (result.reason, result.ending.error) == ("error", "ScenarioError: enough")
    assert not result.ending.complete
    assert result.recording().footer is not None
    with pytest.raises(ScenarioError, match="enough") as raised:
        result.checked()
    assert raised.value is result.error


class Lost(MemoryRecorder):
    """A recorder that cannot complete its recording."""

    def finish(self, footer: object) -> None:  # noqa: ARG002
        raise RecordingError("the disk is full")


def test_a_lost_recording_is_no_error_of_the_run(scenario: Scenario) -> None:
    result = run(RunRequest(scenario, until=0.1, compile=False).into(Lost()))
    assert (result.reason, result.error) == ("end", None)
    with pytest.raises(RecordingLost, match="the disk is full") as raised:
        result.checked()
    assert raised.value.outcome is result
    assert raised.value.__cause__ is result.lost


def test_warnings_are_what_strict_refuses(scenario: Scenario) -> None:
    result = simulate(scenario, until=0.1, compile=False)
    assert result.warnings == []
    assert replace(result, late=2, missed=1).warnings == ["late answers: 2", "missed requests: 1"]
    certificate = replace(result.certificate, overruns={"compute": 3})
    assert replace(result, certificate=certificate).warnings == ["overruns: 3"]
