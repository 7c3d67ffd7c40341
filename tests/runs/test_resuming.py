"""Which checkpoint belongs to a recorded run, from which of them it is gone on, and from when.

A moment of a recorded run: where its repetition starts, how far it goes, and at what pace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import CheckpointError
from rtsim.core.signals import Signals, Vector
from rtsim.engine.checkpoint.file import Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs import replay, resume
from rtsim.runs.replay import BUILD_CHANGED, to_repeat
from rtsim.runs.request import RunRequest
from rtsim.runs.result import RunResult
from rtsim.runs.resume import fits, live_scenario, moment, nearest, started_again
from rtsim.runs.simulation import run, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.trust import permitted

VALUES = [1.0, 2.0, 3.0]


def recorded(source: Path | str = "memory", **header: Any) -> Recording:
    """Rows of ``p`` at 0, 10 and 20 ns."""
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), Signals("x", "y"))
    recorder.start({"seed": 1, **header})
    for k, value in enumerate(VALUES):
        track.append(10 * k, (0,), np.array([value, -value]))
    return replace(recorder.recording(), source=str(source))


def taken(ns: int = 10, rows: int = 2, value: float = 2.0, **more: Any) -> Checkpoint:
    """At 10 ns, when two rows were recorded."""
    run = recorded()
    header = {key: v for key, v in run.header.items() if key != "tracks"}
    state = {"plants": {more.pop("plant", "p"): {"values": [value, -value]}}}
    return Checkpoint(ns, {**header, **more}, state, {"p": rows})


def test_a_checkpoint_fits_by_its_header_and_the_states_that_were_recorded_then() -> None:
    run = recorded()
    assert fits(taken(), run)
    assert fits(taken(0, 1, 1.0), run)
    assert fits(taken(20, 3, 3.0), run)
    assert not fits(taken(seed=2), run)
    assert not fits(taken(more=2), run)
    assert not fits(taken(value=2.5), run)
    assert not fits(taken(rows=1), run), "that row says something else"
    assert not fits(taken(plant="q"), run)
    assert not fits(taken(30, 4, 4.0), run), "it was cut off before"
    assert fits(taken(-1, 0, 9.0), run), "before its first row nothing can be held against it"
    assert fits(replace(taken(-1, 0, 9.0), rows={}), run)


def test_rows_that_were_recorded_before_the_recording_are_not_in_it() -> None:
    continues = {"rows": {"p": 5}, "checkpoint": "a", "sha256": "b"}
    run = recorded(continues=continues)
    assert fits(taken(10, 7, 2.0, continues=continues), run)
    assert not fits(taken(10, 2 + 4, 2.0, continues=continues), run)
    assert fits(taken(10, 5, 9.0, continues=continues), run), "just where it begins"


def test_the_nearest_is_the_latest_of_the_run_that_is_not_after(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run.mcap")
    for ns, rows, value in ((0, 1, 1.0), (10, 2, 2.0), (20, 3, 3.0)):
        taken(ns, rows, value).save(tmp_path / f"run@{ns}.checkpoint")
    taken(15, 2, 7.0).save(tmp_path / "run@15.checkpoint")
    (tmp_path / "run@5.checkpoint").write_bytes(b"")
    for ns, found in ((25, 20), (20, 20), (19, 10), (10, 10), (9, 0), (0, 0)):
        one, useless = nearest(run, ns)
        assert one is not None
        assert one.ns == found, ns
    assert useless[-1].startswith(f"{tmp_path / 'run@5.checkpoint'} is not a checkpoint")
    _, useless = nearest(run, 19)
    other = tmp_path / "run@15.checkpoint"
    assert useless[0] == f"{other} is a checkpoint of another run than {run.source}"


def test_a_recording_that_goes_on_has_nothing_before_its_checkpoint(tmp_path: Path) -> None:
    start = taken(5, 1, 1.0)
    start.save(tmp_path / "first@5.checkpoint")
    continues = {
        "checkpoint": "first@5.checkpoint", "sha256": start.digest, "rows": {}, "ns": 5,
    }  # fmt: skip
    run = recorded(tmp_path / "run.mcap", continues=continues)
    found, useless = nearest(run, 5)
    assert found is not None
    assert (found.ns, useless) == (5, [])
    with pytest.raises(
        CheckpointError, match=r"begins at 0\.000000005 s, which is after 0\.000000004 s"
    ):
        nearest(run, 4)
    taken(10, 2, 2.0, continues=continues).save(tmp_path / "run@10.checkpoint")
    later, _ = nearest(run, 10)
    assert later is not None
    assert later.ns == 10


@pytest.mark.parametrize("ns", [0, -1, 20, 21])
def test_a_moment_lies_within_the_recording(ns: int) -> None:
    text = (
        r"with live inputs from .* s; give a time after 0 s and before its end at 0\.000000020 s$"
    )
    with pytest.raises(CheckpointError, match=text):
        moment(recorded(), ns)


def test_a_controller_that_nothing_can_start_again_is_named() -> None:
    header = {"scenario": {"parts": {"law": {"type": "by hand"}}}}
    with pytest.raises(
        CheckpointError, match="law was of type by hand, which cannot be started again"
    ):
        started_again(header, "law")
    with pytest.raises(CheckpointError, match="law was of type something unnamed"):
        started_again({}, "law")


MS = 1_000_000
STEP = 10 * MS


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
    out.sensor("s", {"p": "stick.p"}, period="1/100")
    return out


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """A run of 60 ms with a tag each 10 ms and checkpoints at 20 ms and 40 ms beside it."""
    monkeypatch.setattr(replay, "scenario_of", lambda _: lab())
    path = tmp_path / "run.mcap"
    recorder = MemoryRecorder()
    simulate(
        lab(), recorder=recorder, checkpoints=CheckpointSchedule(Files(path), at=["1/50", "1/25"])
    )
    made = recorder.recording()
    return replace(made, source=str(path), header={**made.header, "tracks": ["left out"]})


@dataclass(frozen=True)
class Leg:
    """One part of the way, ms: from its checkpoint, ``None`` for the start, to its end."""

    start: int | None
    stop: int
    pace: object


@pytest.fixture
def legs(monkeypatch: pytest.MonkeyPatch) -> list[Leg]:
    """Each repetition that is made, in order."""
    out: list[Leg] = []

    def noted(request: RunRequest) -> RunResult:
        began = None if request.start is None else request.start.ns // MS
        assert request.stop_ns is not None
        out.append(Leg(began, request.stop_ns // MS, str(request.pace)))
        return run(request)

    monkeypatch.setattr(resume, "run", noted)
    return out


def read_then(checkpoint: Checkpoint) -> int:
    """How many values of the stick were read until then; the sensor's ticks say it."""
    done: int = checkpoint.state["tasks"]["s"]["k"]
    return done


# -- the way to a moment --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "start", "reached"),
    [(10, None, 10), (19, None, 20), (21, 20, 30), (30, 20, 30), (39, 20, 40), (41, 40, 50)],
)
def test_a_moment_is_reached_from_the_last_checkpoint_before_it(
    recording: Recording, legs: list[Leg], at: int, start: int | None, reached: int
) -> None:
    found = moment(recording, at * MS)
    assert legs == [Leg(start, at, "max")]
    assert found.ns == reached * MS
    assert read_then(found) == found.ns // STEP + 1
    assert found.header == {k: v for k, v in recording.header.items() if k != "tracks"}
    assert found.header["seed"] == 0


@pytest.mark.parametrize("at", [20, 40])
def test_a_moment_at_a_checkpoint_needs_no_repetition(
    recording: Recording, legs: list[Leg], at: int
) -> None:
    found = moment(recording, at * MS)
    assert (found.ns, legs) == (at * MS, [])


@pytest.mark.parametrize(("ns", "reached"), [(1, 10 * MS), (60 * MS - 1, 60 * MS)])
def test_the_first_and_the_last_moment_lie_within_the_recording(
    recording: Recording, ns: int, reached: int
) -> None:
    assert moment(recording, ns).ns == reached


@pytest.mark.parametrize(
    ("shown_from", "ns", "expected"),
    [
        (30, 50, [Leg(20, 30, "max"), Leg(30, 50, "2")]),
        (20, 50, [Leg(20, 50, "2")]),
        (5, 50, [Leg(None, 5, "max"), Leg(10, 50, "2")]),
        (40, 40, []),
    ],
)
def test_the_way_is_shown_at_its_pace_from_a_given_time_on(
    recording: Recording, legs: list[Leg], shown_from: int, ns: int, expected: list[Leg]
) -> None:
    """Before that time it is as fast as possible; a tag is at or after the time asked for."""
    found = moment(recording, ns * MS, shown_from=shown_from * MS, pace="2")
    assert legs == expected
    assert found.ns == ns * MS


def test_without_a_time_to_show_from_the_pace_does_not_count(
    recording: Recording, legs: list[Leg]
) -> None:
    moment(recording, 30 * MS, pace="1.0")
    assert [leg.pace for leg in legs] == ["max"]


def test_a_repetition_that_ends_too_early_is_an_error(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(to_repeat(recording).into(None))
    monkeypatch.setattr(resume, "run", lambda _: whole)
    with pytest.raises(CheckpointError, match=r"run\.mcap ended before 0\.030000000 s when it was"):
        moment(recording, 30 * MS)


# -- which checkpoints count ----------------------------------------------------------------------


def test_checkpoints_after_the_time_are_passed_over(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever order the files are found; an unusable file ends no search."""
    folder = Path(recording.source).parent
    (folder / "run@0.001.checkpoint").write_bytes(b"")
    late, soon, broken = (folder / f"run@0.{at}.checkpoint" for at in ("040", "020", "001"))
    plain = {k: v for k, v in recording.header.items() if k != "tracks"}
    given = replace(recording, header=plain)
    for order in ([late, broken, soon], [broken, soon, late], [soon, late, broken]):
        monkeypatch.setattr(resume, "beside", lambda _, order=order: order)
        found, useless = nearest(given, 30 * MS)
        assert found is not None
        assert (found.ns, len(useless)) == (20 * MS, 1)


def test_a_file_at_the_time_of_the_recordings_own_checkpoint_is_passed_over(
    tmp_path: Path,
) -> None:
    start = Checkpoint(5, {"seed": 1}, {})
    start.save(tmp_path / "first@5.checkpoint")
    Checkpoint(5, {"seed": 2}, {}).save(tmp_path / "run@5.checkpoint")
    continues = {"checkpoint": "first@5.checkpoint", "sha256": start.digest}
    source = str(tmp_path / "run.mcap")
    found, useless = nearest(Recording(source, {"continues": continues}, None, {}), 7)
    assert found is not None
    assert (found.digest, useless) == (start.digest, [])


# -- controllers that are started again -----------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    name: str

    def load(self) -> Callable[..., Any]:
        return lambda about, parameters: (self.name, about, parameters)


def test_a_controller_is_started_by_the_package_that_knows_its_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resume, "entry_points", lambda group: [Entry(group), Entry("rig")])
    part = {
        "type": "rig", "file": "law.toml", "period": "1", "about": ["type", "file", "gone"],
        "parameters": {"gain": 2.0},
    }  # fmt: skip
    header = {"scenario": {"parts": {"law": part, "bare": {"type": "rtsim.controllers"}}}}
    made: Any = started_again(header, "law")
    assert made == ("rig", {"type": "rig", "file": "law.toml"}, {"gain": 2.0})
    bare: Any = started_again(header, "bare")
    assert bare == ("rtsim.controllers", {}, {})


@pytest.mark.parametrize(("names", "told"), [([], "none"), (["sil", "rig"], "rig, sil")])
def test_types_that_can_be_started_are_named(
    monkeypatch: pytest.MonkeyPatch, names: list[str], told: str
) -> None:
    monkeypatch.setattr(resume, "entry_points", lambda **_: [Entry(name) for name in names])
    with pytest.raises(CheckpointError) as raised:
        started_again({"scenario": {"parts": {"law": {"type": "hand"}}}}, "law")
    assert str(raised.value) == (
        f"controller law was of type hand, which cannot be started again here (known types: {told})"
        "; continue from Python: simulate(scenario, start=checkpoint)"
    )


FILE = """
from rtsim import Scenario, Signals

def scenario():
    out = Scenario("filed", until=1)
    out.source("set", Signals("v [1]"))
    return out
"""


@pytest.fixture
def header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Of a run of a scenario in a file, which may be loaded."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "filed.py"
    path.write_text(FILE)
    return {"scenario": {"origin": {"reference": str(path)}}}


def test_a_scenario_that_has_changed_is_refused_unless_that_is_forced(
    header: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "changed_since", lambda *_: ["a: 1 then, 2 now", "b: 3 then"])
    with permitted(everything=True):
        with pytest.raises(CheckpointError) as raised:
            live_scenario(header, "run.mcap")
        assert live_scenario(header, "run.mcap", force=True).name == "filed"
    assert str(raised.value) == (
        "the scenario has changed since run.mcap was written; add --force to continue anyway:\n"
        "a: 1 then, 2 now\nb: 3 then"
    )


def test_a_changed_build_may_be_forced_where_its_answers_are_the_same(
    header: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["a: 1 then, 2 now", f"law.key: 1 then ({BUILD_CHANGED})"]
    monkeypatch.setattr(resume, "changed_since", lambda *_: lines)
    how = "--force to continue if the C code gives the same answers up to this time:"
    with permitted(everything=True), pytest.raises(CheckpointError, match=how):
        live_scenario(header, "run.mcap")


def test_a_scenario_that_has_not_changed_is_live(
    header: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "changed_since", lambda *_: [])
    with permitted(everything=True):
        assert live_scenario(header, "run.mcap").name == "filed"
