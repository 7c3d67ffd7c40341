"""Recordings that were cut, that ended otherwise, of other parts, or from Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import rtsim
from diverge_parts import (
    SCENARIO,
    diverged,
    fly,
    lab_in,
    named,
    parted,
    place,
    shaken,
)
from semantics_parts import INTEGRATOR, MS, U

from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.engine.commands.commands import Command, PendingCommand
from rtsim.equations.model import Model
from rtsim.record.events import Event
from rtsim.runs.diverging import diverge
from rtsim.runs.simulation import FedInputs
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lab_in(tmp_path)
    return tmp_path


def test_a_recording_that_was_cut_short(folder: Path) -> None:
    fly("a.mcap")
    fly("b.mcap")
    fly("c.mcap", bug="clock")
    data = (folder / "b.mcap").read_bytes()
    for share, runs in _cut(folder / "b.mcap", data):
        result = rtsim("diverge", *runs)
        assert result.exit_code == (0 if len(runs) == 1 else 2), (share, result.output)
        assert "the recording was cut off: b.mcap" in result.stdout
        assert ("could not be decided: b.mcap was cut off at " in result.stdout) == (len(runs) > 1)
    (folder / "c.mcap").write_bytes((folder / "c.mcap").read_bytes()[:-400])
    assert place(diverged("a.mcap", "c.mcap")) == (400 * MS, 0, "message", "c", "content")


@pytest.mark.parametrize("when", ["99", "-1"])
def test_a_beginning_outside_the_recording_is_refused(when: str) -> None:
    fly("a.mcap")
    result = rtsim("diverge", "a.mcap", "--from", when)
    assert result.exit_code == 2, result.output
    assert "a.mcap" in result.stderr
    assert "is outside a.mcap; give a time" in result.stderr


def _cut(path: Path, data: bytes) -> Iterator[tuple[float, tuple[str, ...]]]:
    for share in (0.9, 0.97):
        path.write_bytes(data[: int(share * len(data))])
        for runs in (("a.mcap", "b.mcap"), ("b.mcap", "a.mcap"), ("b.mcap",)):
            yield share, runs


def test_one_track_that_was_cut_shorter_than_the_others() -> None:
    """Its last rows were not there to be saved."""
    a = trace_of(shaken(0.5, 0.0), compile=False)
    short = replace(a.track("p"), words=a.track("p").words[:-5])
    cut = replace(a, tracks={**a.tracks, "p": short}, truncated="it was cut off")
    for pair in ((a, cut), (cut, a)):
        assert diverge(*pair, fly=False).equal
    whole = replace(cut, truncated=None)
    verdict = diverge(a, whole, fly=False)
    tag = a.track("p").tag(len(short))
    assert named(verdict)[:3] == (Tag(tag.ns), "plant", "p")


def test_one_that_goes_on_longer_is_no_difference() -> None:
    """Its end cut a step, at a tag that the other does not have."""
    fly("a.mcap", "--until", "0.505")
    fly("b.mcap", "--until", "0.7")
    for pair in (("a.mcap", "b.mcap"), ("b.mcap", "a.mcap")):
        result = rtsim("diverge", *pair)
        assert result.exit_code == 0, result.output
        assert "from 0 to 0.505 s" in result.stdout


def test_a_run_that_continues_is_compared_from_its_checkpoint_on() -> None:
    fly("a.mcap", "--checkpoint-at", "0.3")
    [checkpoint] = Path().glob("a@*.checkpoint")
    resumed = rtsim("run", "--from", checkpoint, "--force", "-o", "b.mcap")
    assert resumed.exit_code == 0, resumed.output
    for pair in (("a.mcap", "b.mcap"), ("b.mcap", "a.mcap")):
        result = rtsim("diverge", *pair)
        assert result.exit_code == 0, result.output
        assert "agree bit for bit from 0.3 to 1 s" in result.stdout


def test_other_settings_are_named_as_set_takes_them(folder: Path) -> None:
    fly("a.mcap")
    slower = (folder / "lab.py").read_text().replace("period=0.05", "period=0.1")
    (folder / "lab.py").write_text(slower)
    fly("b.mcap")
    result = rtsim("diverge", "a.mcap", "b.mcap")
    assert "different settings: c.period: 50000000 and 100000000\n" in result.stdout


def test_one_that_failed_where_the_other_went_on() -> None:
    fly("a.mcap")
    assert rtsim("run", SCENARIO, "--plain", "--set", "bug=dies", "-o", "b.mcap").exit_code == 2
    told = diverged("a.mcap", "b.mcap")
    assert place(told) == (500 * MS, 0, "event", "ControllerError", "error")
    [pair] = told["first"]["values"]
    assert pair["a"] == "absent"
    assert "no more" in pair["b"]
    assert 490 * MS <= told["agreed"]["ns"] < 500 * MS
    assert rtsim("diverge", "b.mcap").exit_code == 0  # it fails again, and there


def test_recordings_of_different_scenarios() -> None:
    fly("a.mcap")
    assert rtsim("run", "orbit", "--until", "1", "-o", "o.mcap").exit_code == 0
    result = rtsim("diverge", "a.mcap", "o.mcap")
    assert result.exit_code == 2
    assert "a.mcap and o.mcap are of different scenarios" in result.stderr


def test_a_part_that_only_one_has() -> None:
    """Its track is what differs, at the start."""
    more = shaken(0.5, 0.0)
    more.source("pilot", U)
    more.plant("third", INTEGRATOR, step=0.01, inputs={"u": "pilot.u"})
    verdict = parted(shaken(0.5, 0.0), more)
    assert named(verdict) == (Tag(0), "layout", "third", "track")
    assert [(pair.a, pair.b) for pair in verdict.place.pairs] == [("absent", "there")]


def test_columns_that_only_one_has_are_named_alone() -> None:
    def renamed(name: str) -> Scenario:
        out = Scenario("renamed", until="0.1")
        out.plant("p", Model("p", Signals(f"{name} [m]", "v [m/s]"), still), step=0.01)
        return out

    verdict = parted(renamed("level"), renamed("height"))
    assert named(verdict) == (Tag(0), "layout", "p", "columns")
    [pair] = verdict.place.pairs
    assert (pair.a, pair.b) == ("level", "height")


def test_what_the_runs_were_told_is_compared_to_the_letter() -> None:
    scenario = shaken(0.5, 0.0)
    runs = []
    for text in ("here", "there"):
        mark = PendingCommand(Command("mark", {"text": text}), None, 14 * MS)
        runs.append(trace_of(scenario, compile=False, fed=FedInputs(commands=[mark])))
    verdict = diverge(*runs, scenarios=(scenario, scenario))
    assert named(verdict) == (Tag(15 * MS), "event", "mark", "Command")


def test_a_run_that_fell_behind_the_wall_is_no_difference() -> None:
    scenario = shaken(0.5, 0.0)
    run = trace_of(scenario, compile=False)
    for kind, equal in (("OverrunError", True), ("ModelError", False)):
        ended = Event(Tag(1000 * MS), "Error", kind, "no more", {})
        other = replace(run, events=[*run.events, ended])
        assert diverge(run, other, scenarios=(scenario, scenario), fly=False).equal == equal


def still(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[:] = 0.0


def test_one_recording_is_not_compared_without_flying() -> None:
    fly("a.mcap")
    result = rtsim("diverge", "a.mcap", "--no-fly")
    assert result.exit_code == 2
    assert "give two recordings, or leave --no-fly out" in result.stderr
    result = rtsim("diverge", "nothing.mcap")
    assert result.exit_code == 2


def test_one_that_was_run_from_python_needs_its_scenario() -> None:
    scenario = shaken(0.362, 1e-13)
    a = trace_of(scenario, compile=False)
    with pytest.raises(RecordingError, match="its run was started from Python") as raised:
        diverge(a)
    assert "rtsim.runs.diverging.diverge(recording, scenarios=(scenario, None))" in str(
        raised.value.__notes__
    )
    assert diverge(a, scenarios=(scenario, None)).equal
    verdict = diverge(a, scenarios=(shaken(0.362, 0.0), None))
    assert named(verdict) == (Tag(370 * MS), "plant", "p", "x-")
    other = trace_of(shaken(0.362, 0.0), compile=False)
    verdict = diverge(a, other)  # only read
    assert named(verdict) == (Tag(370 * MS), "plant", "p", "x-")
    assert any("its run was started from Python" in note for note in verdict.notes)
