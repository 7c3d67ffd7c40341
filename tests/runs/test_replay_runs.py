"""A small run is repeated: its start and end, its scenario, and the errors that may end it.

The request of a run is checked when it is made and can be used again; the result says all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.components.latency import Empirical, Fixed
from rtsim.core.errors import (
    CheckpointError,
    ControllerError,
    ModelError,
    RecordingError,
    ScenarioError,
)
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import Checkpoint, Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.source_hash import source_hash
from rtsim.record.events import Event
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs import replay
from rtsim.runs.replay import (
    changed_since,
    continued,
    rerun,
    scenario_from,
    scenario_of,
    to_repeat,
)
from rtsim.runs.request import ConnectionKeywords, Connections, Output, Pace, Progress, RunRequest
from rtsim.runs.result import RecordingLost, RunResult
from rtsim.runs.simulation import run, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent
from rtsim.scenario.trust import permitted

MS = 1_000_000


class Counting:
    """A controller outside of the process: it answers how often it was asked in all its life."""

    inputs, outputs, outside = Signals("u [1]"), Signals("y [1]"), True

    def __init__(self) -> None:
        self.asked = 0

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self.asked += 1

    def receive(self, tag: Tag, patience: float) -> Vector:  # noqa: ARG002
        return np.array([float(self.asked)])

    def close(self) -> None:
        """Nothing is open."""

    def save(self) -> dict[str, Any]:
        return {}

    def restore(self, saved: dict[str, Any]) -> None:
        """Its count goes on."""


class Stick:
    """Moved further at each tag."""

    def __init__(self) -> None:
        self.at = 0.0

    def poll(self) -> Vector:
        self.at += 0.5
        return np.array([self.at])


def lab() -> Scenario:
    out = Scenario("lab", until=0.06)
    out.external_input("stick", Signals("p [1]"), Stick())
    out.controller("c", Counting(), period=0.01, inputs={"u": "stick.p"})
    return out


def counting(scenario: Scenario) -> Counting:
    part = scenario.component("c")
    assert isinstance(part, ControllerComponent)
    assert isinstance(part.controller, Counting)
    return part.controller


def flown(
    scenario: Scenario, *, stop_ms: int | None = None, at_ms: int | None = None
) -> tuple[Recording, Checkpoint | None]:
    """A recorded run, and its checkpoint at ``at_ms``."""
    recorder, ring = MemoryRecorder(), Ring(1)
    taking = None if at_ms is None else CheckpointSchedule(ring, at=[f"{at_ms}/1000"])
    stop_ns = None if stop_ms is None else stop_ms * MS
    simulate(scenario, recorder=recorder, stop_ns=stop_ns, checkpoints=taking)
    return recorder.recording(), None if at_ms is None else ring.before(at_ms * MS)


def first_ns(recording: Recording) -> int:
    return int(min(track.ns.min() for track in recording.tracks.values() if len(track)))


# -- from where and up to where -------------------------------------------------------------------


def test_a_replay_asks_no_external_input_or_controller() -> None:
    scenario = lab()
    recording, _ = flown(scenario)
    asked = counting(scenario).asked
    assert asked > 3
    assert compare_exact(recording, rerun(recording, scenario)) is None
    assert counting(scenario).asked == asked


def test_external_controllers_may_be_run_again_live() -> None:
    scenario = lab()
    recording, _ = flown(scenario)
    asked, recorder = counting(scenario).asked, MemoryRecorder()
    run(to_repeat(recording, scenario, live=True).into(recorder)).checked()
    assert counting(scenario).asked == 2 * asked
    assert recorder.recording().messages["c"]["y"][0] == asked + 1
    assert (
        recorder.recording().track("inputs/stick").column("p").tolist()
        == recording.track("inputs/stick").column("p").tolist()
    )
    run(to_repeat(recording, scenario).into(MemoryRecorder())).checked()
    assert counting(scenario).asked == 2 * asked


def test_a_run_is_repeated_as_far_as_it_was_recorded_or_to_a_given_time() -> None:
    recording, _ = flown(lab(), stop_ms=40)
    assert recording.end_ns == 40 * MS
    assert rerun(recording, lab()).end_ns == 40 * MS
    assert rerun(recording, lab(), stop_ns=20 * MS).end_ns == 20 * MS


def test_a_run_is_repeated_from_a_given_checkpoint_or_from_its_start() -> None:
    recording, start = flown(lab(), at_ms=30)
    assert start is not None
    assert first_ns(rerun(recording, lab())) == 0
    rest = rerun(recording, lab(), start=start)
    assert first_ns(rest) > 30 * MS
    assert compare_exact(recording.since(start.rows, start.events), rest) is None
    recorder = MemoryRecorder()
    run(to_repeat(recording, lab(), start=start).into(recorder)).checked()
    assert first_ns(recorder.recording()) > 30 * MS


def test_tags_that_event_inputs_inserted_are_inserted_again() -> None:
    recording, _ = flown(lab())
    events = [Event(Tag(5 * MS), "Inserted", "wake"), Event(Tag(7 * MS), "Reported", "wake")]
    again = rerun(replace(recording, events=events), lab())
    assert [(e.tag.ns, e.kind) for e in again.events] == [(5 * MS, "Inserted")]


# -- how it may end -------------------------------------------------------------------------------


def ending(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, finished: bool = True
) -> Callable[[], Recording]:
    """Repeats a recording by a run that ends in ``error``."""
    recording, _ = flown(lab())

    whole = run(to_repeat(recording, lab()).into(MemoryRecorder()))

    def ends(request: RunRequest) -> RunResult:
        recorder = request.output.recorder
        assert isinstance(recorder, MemoryRecorder)
        recorder.start({"made": "again"})
        if error is not None:
            recorder.event(Tag(20), "Error", type(error).__name__, str(error))
        if finished:
            recorder.finish({"reason": "error", "ended": 20})
        return replace(whole, recorder=recorder, error=error)

    monkeypatch.setattr(replay, "run", ends)
    return lambda: rerun(recording, lab())


def test_an_error_of_the_repeated_run_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    again = ending(monkeypatch, ModelError("the wing broke"))()
    assert again.header == {"made": "again"}
    assert [e.text for e in again.events] == ["the wing broke"]


def test_a_repeated_run_without_an_error_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ending(monkeypatch, None)().header == {"made": "again"}


@pytest.mark.parametrize(
    ("error", "finished"),
    [
        (FileNotFoundError("gain.txt"), True),
        (ModelError("it never began"), False),
    ],
)
def test_an_error_that_prevents_the_replay_is_raised(
    monkeypatch: pytest.MonkeyPatch, error: Exception, finished: bool
) -> None:
    again = ending(monkeypatch, error, finished)
    with pytest.raises(type(error)) as raised:
        again()
    assert raised.value is error


class Lacking(Counting):
    """In the process, so that it is run again; it has lost a file."""

    outside = False

    def receive(self, tag: Tag, patience: float) -> Vector:  # noqa: ARG002
        raise ControllerError("law raised FileNotFoundError: gain.txt")


def test_a_lack_that_made_a_controller_fail_is_raised() -> None:
    recording, _ = flown(lab())
    scenario = lab()
    scenario.replace_controller("c", Lacking(), failure="hold")
    with pytest.raises(ControllerError, match="the run needs a resource that is missing on this"):
        rerun(recording, scenario)


# -- the checkpoint that a recording continues from -----------------------------------------------


def going_on(folder: Path, names: str, **more: Any) -> Recording:
    header = {"continues": {"checkpoint": names, **more}} if names else {}
    return Recording(str(folder / "run.mcap"), header, None, {})


def test_a_recording_from_the_start_continues_from_nothing(tmp_path: Path) -> None:
    assert continued(going_on(tmp_path, "")) is None


def test_a_checkpoint_lies_beside_its_recording_or_where_it_was(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    there = elsewhere / "a@1.checkpoint"
    one = Checkpoint(1, {"seed": 1}, {})
    recording = going_on(tmp_path, str(there), sha256=one.digest)
    with pytest.raises(RecordingError, match=r"which does not exist; put that file next to the"):
        continued(recording)
    one.save(there)
    found = continued(recording)
    assert found is not None
    assert (found.digest, found.source) == (one.digest, str(there))
    one.save(tmp_path / there.name)
    found = continued(recording)
    assert found is not None
    assert found.source == str(tmp_path / there.name)


def test_another_checkpoint_of_that_name_is_refused(tmp_path: Path) -> None:
    Checkpoint(1, {"seed": 2}, {}).save(tmp_path / "a@1.checkpoint")
    recording = going_on(tmp_path, "a@1.checkpoint", sha256=Checkpoint(1, {"seed": 1}, {}).digest)
    with pytest.raises(RecordingError, match="continues from a checkpoint whose contents differ"):
        continued(recording)


# -- the scenario of a recording ------------------------------------------------------------------

FILE = """
from rtsim import Fixed, PythonController, Scenario, Signals

def law(t, u, s, p, y):
    y[0] = u[0]

def scenario(gain=1.0):
    out = Scenario("filed", until=gain)
    out.source("set", Signals("v [1]"))
    for name in ("c", "d", "e"):
        made = PythonController(law, Signals("u [1]"), Signals("y [1]"))
        out.controller(name, made, period=0.01, inputs={"u": "set.v"}, compute=Fixed(0.001))
    out.faults({"name": "stuck", "where": "c.u", "kind": "stuck"})
    return out
"""
SAMPLES = [1, 2, 3]


@pytest.fixture
def filed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "filed.py"
    path.write_text(FILE)
    return path


def controllers(scenario: Scenario) -> dict[str, ControllerComponent]:
    return scenario.of(ControllerComponent)


def test_a_scenario_is_loaded_as_its_header_describes_it(filed: Path) -> None:
    kept = {"late": "hold", "failure": "hold"}
    origin = {
        "reference": str(filed),
        "settings": {"gain": "3.5"},
        "replaced": {
            "c": {"latency": None, "late": "fail", "failure": "hold"},
            "d": {"latency": {"source": "", "samples": SAMPLES}, **kept},
        },
        "latencies": {"e": "0.004"},
    }
    fault = {"name": "drift", "where": "d.u", "kind": "drift", "rate": 0.5}
    header = {"scenario": {"origin": origin, "faults": [fault]}}
    asked: list[str] = []

    def instead(name: str) -> Counting:
        asked.append(name)
        return Counting()

    with permitted(everything=True):
        made = scenario_from(header, "run.mcap", instead)
    assert (made.name, made.until_ns, asked) == ("filed", 3_500 * MS, ["c", "d"])
    parts = controllers(made)
    assert [isinstance(p.controller, Counting) for p in parts.values()] == [True, True, False]
    assert parts["c"].compute == Fixed(0.001)
    assert (parts["c"].late, parts["c"].failure) == ("fail", "hold")
    assert parts["d"].compute == Empirical(tuple(SAMPLES), "")
    assert parts["e"].compute == Fixed("0.004")
    assert [one.name for one in made.declared_faults] == ["drift"]


def test_a_replaced_controller_says_its_recorded_answers(filed: Path) -> None:
    how = {"latency": None, "late": "hold", "failure": "end"}
    origin = {"reference": str(filed), "replaced": {"c": how}}
    recording = replace(flown(lab())[0], header={"scenario": {"origin": origin}})
    with permitted(everything=True):
        made = scenario_of(recording)
    fed = controllers(made)["c"].controller
    fed.send(Tag(0), np.zeros(1))
    said = fed.receive(Tag(0), 0.0)
    assert said is not None
    assert said.tolist() == [1.0]


def test_a_run_from_python_names_no_scenario() -> None:
    recording, _ = flown(lab())
    with pytest.raises(RecordingError, match=r"^this run names no scenario, because its run was"):
        scenario_of(recording)


# -- what has changed since -----------------------------------------------------------------------


def plain() -> Scenario:
    out = Scenario("plain", until=1)
    out.source("set", Signals("v [1]"))
    return out


def described(**changes: Any) -> dict[str, Any]:
    return {"scenario": plain().describe() | changes, "source_hash": source_hash()}


def test_the_scenario_as_it_was_has_not_changed() -> None:
    assert changed_since(described(), plain()) == []


def test_where_it_was_loaded_from_and_how_long_it_runs_is_no_change() -> None:
    elsewhere = {"reference": "elsewhere.py", "sha256": "0"}
    assert changed_since(described(until=7, origin=elsewhere), plain()) == []


def test_differences_are_a_line_each_in_the_order_of_names() -> None:
    was = plain().describe()["parts"]["set"]
    parts = {
        "set": {**was, "kind": "sensor", "until": 5, "sha256": "0", "key": "ab"},
        "was": {"kind": "plant"},
    }
    assert changed_since(described(name="other", parts=parts), plain()) == [
        "name: other in the recording, plain now",
        "set.key: ab in the recording, None now "
        "(its C code, its flags or its compiler have changed)",
        "set.kind: sensor in the recording, source now",
        "set.until: 5 in the recording, None now",
        "was: {'kind': 'plant'} in the recording, None now",
    ]


def test_a_part_that_is_new_is_a_difference() -> None:
    (line,) = changed_since(described(parts={}), plain())
    assert line.startswith("set: None in the recording, {'kind': 'source', ")


def test_changed_functions_are_a_difference() -> None:
    changed = {**described(), "source_hash": "another"}
    assert changed_since(changed, plain()) == [
        "the sources of the scenario's functions have changed since"
    ]


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


def test_a_request_can_be_used_again(scenario: Scenario) -> None:
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


def test_strict_refuses_warnings(scenario: Scenario) -> None:
    result = simulate(scenario, until=0.1, compile=False)
    assert result.warnings == []
    assert replace(result, late=2, missed=1).warnings == ["late answers: 2", "missed requests: 1"]
    certificate = replace(result.certificate, overruns={"compute": 3})
    assert replace(result, certificate=certificate).warnings == ["overruns: 3"]


class Doubled(rt.Controller):
    period = 0.01
    x = rt.input("m")
    y = rt.output("m")

    def step(self) -> None:
        self.y = 2.0 * self.x


def test_an_answer_after_the_last_row_is_repeated() -> None:
    """Without a plant, the last row is the request at 0.05 s, and its answer is due at 0.051 s."""

    def scenario() -> Scenario:
        loop = rt.Scenario("answer", until=0.055)
        wanted = loop.source("wanted", rt.Signals(rt.Signal("x", "m")))
        doubled = loop.controller(Doubled(), compute=Fixed(0.001))
        loop.connect(wanted.x, doubled.x)
        return loop

    recorded = rt.simulate(scenario()).recording()
    again = rerun(recorded, scenario())
    assert len(recorded.track("messages/doubled")) == 6
    assert compare_exact(recorded, again) is None
